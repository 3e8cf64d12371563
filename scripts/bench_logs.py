#!/usr/bin/env python3
"""How long `rollcall diff` takes on a job's log, and how much memory, held against grep.

  scripts/bench_logs.py BUILD_DIR [--mib MIB] [--json FILE]

Logs of eight ranks are written into a temporary folder (ROLLCALL_BENCH_DIR, else the system's) and
read once, so that they lie in the page cache. `grep -c NCCL` and `rollcall diff` then read each in
turns; the best of three counts. Both use one core.

  job       as jobs write them: one line in fifty is NCCL's
  info      what NCCL_DEBUG=INFO prints without COLL: rings, trees, channels
  watchdog  PyTorch's time-outs, over and over
  stacks    what is printed with these: stacks of C++ and Python, and calls of the Flight Recorder
  calls     NCCL's calls alone
  prefixed  the same behind what torchrun puts in front of a line
  docker    the same in the objects of JSON that docker keeps
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
# Times grep and MiB at most, whatever the log.
RATIO_MAX = 5.0
MEMORY_MIB_MAX = 512

def call(rank, step):
    return (f"node0:{100 + rank}:{200 + rank} [{rank}] NCCL INFO AllReduce: opCount {step:x} "
            f"sendbuff 0x7fbe15a00000 recvbuff 0x7fbe15600000 count {16384 + step % 4} datatype 7 "
            f"op 0 root 0 comm 0x55{rank:02x}00aabb [nranks={RANKS}] stream 0x55bdc9a4ecb0\n")


def created(rank):
    return (f"node0:{100 + rank}:{200 + rank} [{rank}] NCCL INFO ncclCommInitRankConfig comm "
            f"0x55{rank:02x}00aabb rank {rank} nranks {RANKS} cudaDev {rank} nvmlDev {rank} "
            f"busId {rank}0000 commId 0x81d687bf654e7c8f - Init COMPLETE\n")


def job_lines(step):
    lines = [f"[2026-11-27 15:{step // 60 % 60:02d}:{step % 60:02d},123] [INFO] "
             f"[trainer.py:{line}] step {step} loss 2.{line:04d} grad norm "
             f"0.{step % 997:04d} throughput 1234.5 tokens/s memory 45.6 GiB\n"
             for line in range(40)]
    if step % 10 == 0:
        # NCCL counts its calls, not the job's steps.
        lines += [f"[rank{rank}]: " + call(rank, step // 10) for rank in range(RANKS)]
    return lines


def info_lines(step):
    channel = step % 32
    lines = []
    for rank in range(RANKS):
        head = f"node0:{100 + rank}:{300 + rank} [{rank}] NCCL INFO "
        peer = (rank + 1) % RANKS
        lines += [head + text + "\n" for text in (
            f"Channel {channel:02d}/0 : {rank}[{rank}] -> {peer}[{peer}] via P2P/CUMEM",
            f"Trees [{channel}] {peer}/-1/-1->{rank}->-1 [1] -1/-1/-1->{rank}->{peer}",
            "Connected all rings",
            "threadThresholds 8/8/64 | 64/8/64 | 512 | 512",
            "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels")]
    return lines


def watchdog_lines(step):
    lines = []
    for rank in range(RANKS):
        head = (f"[rank{rank}]:[E1127 15:{step // 60 % 60:02d}:{step % 60:02d}.123456789 "
                f"ProcessGroupNCCL.cpp:")
        lines += [head + f"616] [Rank {rank}] Watchdog caught collective operation timeout: "
                  f"WorkNCCL(SeqNum={step}, OpType=ALLREDUCE, NumelIn=1024, NumelOut=1024, "
                  f"Timeout(ms)=600000) ran for 600{step % 1000:03d} milliseconds before timing "
                  "out.\n",
                  head + f"1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an "
                  f"error or timeout) detected by watchdog at work: {step}, last enqueued NCCL "
                  f"work: {step + 1}, last completed NCCL work: {step - 1}.\n"]
    return lines


def stack_lines(step):
    lines = [f"frame #{frame}: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout(std::optional<"
             f"std::chrono::duration<long, std::ratio<1l, 1000l> > >) + 0x{frame:x}8a "
             f"(0x7f{step % 4096:03x}a48e1f6a in /usr/lib/libtorch_cuda.so)\n"
             for frame in range(8)]
    lines += [f"#{frame} forward from /opt/train/model.py:{100 + frame}\n" for frame in range(8)]
    lines += [f"{{'collective_seq_id': {step}, 'profiling_name': 'nccl:all_reduce', 'state': "
              f"'scheduled', 'input_sizes': [[1024]], 'process_group': ('0', 'default_pg')}}\n"]
    return lines


def call_lines(step):
    return [call(rank, step) for rank in range(RANKS)]


def prefixed_lines(step):
    return [f"[default{rank}]:" + call(rank, step) for rank in range(RANKS)]


def docker_lines(step):
    return [json.dumps({"log": call(rank, step), "stream": "stderr",
                        "time": "2026-11-27T15:40:00.123456789Z"}, separators=(",", ":")) + "\n"
            for rank in range(RANKS)]


KINDS = {"job": job_lines, "info": info_lines, "watchdog": watchdog_lines, "stacks": stack_lines,
         "calls": call_lines, "prefixed": prefixed_lines, "docker": docker_lines}


def write_log(path, kind, bytes_wanted):
    with open(path, "w", encoding="ascii") as out:
        size = sum(out.write(created(rank)) for rank in range(RANKS))
        step = 0
        while size < bytes_wanted:
            size += out.write("".join(KINDS[kind](step)))
            step += 1


def used(command):
    """Runs it: seconds, processor seconds, peak MiB."""
    begin = time.monotonic()
    # Through a pipe: grep stops at the first match where nobody reads how many there are.
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    # 2: it could not be read.
    if process.returncode not in (0, 1, 3, 4):
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
    parser.add_argument("--kind", choices=KINDS, help="this one alone")
    arguments = parser.parse_args()
    rollcall = os.path.join(arguments.build, "tools", "rollcall")
    results = []
    print(f"\n{'log':8} {'MiB':>6} {'grep':>8} {'diff':>8} {'ratio':>6} {'memory':>9}  holds")
    with tempfile.TemporaryDirectory(dir=os.environ.get("ROLLCALL_BENCH_DIR")) as folder:
        for kind in [arguments.kind] if arguments.kind else KINDS:
            path = os.path.join(folder, kind + ".log")
            write_log(path, kind, arguments.mib << 20)
            (grep_s, _, _), (diff_s, _, memory) = measure(rollcall, path)
            os.remove(path)
            ratio = diff_s / grep_s
            holds = ratio <= RATIO_MAX and memory <= MEMORY_MIB_MAX
            print(f"{kind:8} {arguments.mib:6} {grep_s:6.2f} s {diff_s:6.2f} s {ratio:6.1f} "
                  f"{memory:5.0f} MiB  {'yes' if holds else 'no'}", flush=True)
            results.append({"log": kind, "mib": arguments.mib, "grep_s": grep_s, "diff_s": diff_s,
                            "ratio": ratio, "memory_mib": memory, "ratio_max": RATIO_MAX,
                            "memory_mib_max": MEMORY_MIB_MAX})
    if arguments.json:
        with open(arguments.json, "w", encoding="ascii") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
