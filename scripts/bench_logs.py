#!/usr/bin/env python3
"""How long `rollcall diff` takes on a job's log, and how much memory, held against grep.

  scripts/bench_logs.py BUILD_DIR [--mib MIB] [--json FILE]

Two logs of eight ranks are written into a temporary folder (ROLLCALL_BENCH_DIR, else the
system's) and read once, so that they lie in the page cache: one as jobs write them, in which one
line in fifty is NCCL's, and one of NCCL's calls alone. `grep -c NCCL` and `rollcall diff` then
read each in turns; the best of three counts.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

RANKS = 8
REPEATS = 3
# Name, times grep at most, MiB at most.
GOALS = {"job": (5.0, 512), "calls": (None, None)}


def call(rank, step):
    return (f"node0:{100 + rank}:{200 + rank} [{rank}] NCCL INFO AllReduce: opCount {step:x} "
            f"sendbuff 0x7fbe15a00000 recvbuff 0x7fbe15600000 count {16384 + step % 4} datatype 7 "
            f"op 0 root 0 comm 0x55{rank:02x}00aabb [nranks={RANKS}] stream 0x55bdc9a4ecb0\n")


def write_log(path, kind, bytes_wanted):
    size = 0
    with open(path, "w", encoding="ascii") as out:
        for rank in range(RANKS):
            size += out.write(
                f"node0:{100 + rank}:{200 + rank} [{rank}] NCCL INFO ncclCommInitRankConfig comm "
                f"0x55{rank:02x}00aabb rank {rank} nranks {RANKS} cudaDev {rank} nvmlDev {rank} "
                f"busId {rank}0000 commId 0x81d687bf654e7c8f - Init COMPLETE\n")
        step = 0
        while size < bytes_wanted:
            lines = []
            if kind == "job":
                lines = [f"[2026-11-27 15:{step // 60 % 60:02d}:{step % 60:02d},123] [INFO] "
                         f"[trainer.py:{line}] step {step} loss 2.{line:04d} grad norm "
                         f"0.{step % 997:04d} throughput 1234.5 tokens/s memory 45.6 GiB\n"
                         for line in range(40)]
            if kind == "calls" or step % 10 == 0:
                # NCCL counts its calls, not the job's steps.
                made = step // 10 if kind == "job" else step
                lines += [("[rank%d]: " % rank if kind == "job" else "") + call(rank, made)
                          for rank in range(RANKS)]
            size += out.write("".join(lines))
            step += 1


def used(command):
    """Runs it: seconds, processor seconds, peak MiB."""
    begin = time.monotonic()
    # Through a pipe: grep stops at the first match where nobody reads how many there are.
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1):
        sys.exit(f"bench_logs: {command[0]} exited with {process.returncode}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(rollcall, path):
    grep, diff = [], []
    used(["grep", "-c", "NCCL", path])
    for _ in range(REPEATS):
        grep.append(used(["grep", "-c", "NCCL", path]))
        diff.append(used([rollcall, "diff", path]))
    return min(grep), min(diff)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    rollcall = os.path.join(arguments.build, "tools", "rollcall")
    results = []
    print(f"\n{'log':8} {'MiB':>6} {'grep':>8} {'diff':>8} {'ratio':>6} {'memory':>9}  holds")
    with tempfile.TemporaryDirectory(dir=os.environ.get("ROLLCALL_BENCH_DIR")) as folder:
        for kind, (ratio_max, memory_max) in GOALS.items():
            path = os.path.join(folder, kind + ".log")
            write_log(path, kind, arguments.mib << 20)
            (grep_s, _, _), (diff_s, _, memory) = measure(rollcall, path)
            os.remove(path)
            ratio = diff_s / grep_s
            holds = ratio_max is None or (ratio <= ratio_max and memory <= memory_max)
            verdict = "–" if ratio_max is None else "yes" if holds else "no"
            print(f"{kind:8} {arguments.mib:6} {grep_s:6.2f} s {diff_s:6.2f} s {ratio:6.1f} "
                  f"{memory:5.0f} MiB  {verdict}")
            results.append({"log": kind, "mib": arguments.mib, "grep_s": grep_s, "diff_s": diff_s,
                            "ratio": ratio, "memory_mib": memory, "ratio_max": ratio_max,
                            "memory_mib_max": memory_max})
    if arguments.json:
        with open(arguments.json, "w", encoding="ascii") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
