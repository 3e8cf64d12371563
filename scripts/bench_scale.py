#!/usr/bin/env python3
"""How long `rollcall diff` takes on large runs, and how much memory: one call is missing in each.

  scripts/bench_scale.py BUILD_DIR [--full] [--json FILE]

The runs are written by `rollcall synth` into a temporary folder (ROLLCALL_BENCH_DIR, else the
system's), read once so that they lie in the page cache, and judged three times; the best counts.
Without --full the largest sizes are left out: they need some GB of disk and memory.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

# ranks, calls, layout, goals in seconds and MiB (none: for the growth only)
SMALL = [(1024, 2000, "", None), (4096, 2000, "", None), (1024, 20000, "", None)]
FULL = [(16384, 2000, "", (3.0, 1024)), (16384, 2000, "tp=8,pp=4", (3.0, 1024)),
        (1024, 100000, "", (5.0, 1024))]
REPEATS = 3


def judge(rollcall, directory):
    """Seconds, peak MiB, the verdict."""
    begin = time.monotonic()
    with subprocess.Popen([rollcall, "diff", directory, "--sentence"], text=True,
                          stdout=subprocess.PIPE) as process:
        said = process.stdout.read()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return time.monotonic() - begin, usage.ru_maxrss / 1024, usage.ru_utime + usage.ru_stime, said


def measure(rollcall, folder, ranks, calls, layout):
    directory = os.path.join(folder, "run")
    culprit = ranks // 3
    arguments = ["synth", "-o", directory, "--ranks", str(ranks), "--ops", str(calls), "--fault",
                 f"missing-call@{culprit}"]
    if layout:
        arguments += ["--layout", layout]
    subprocess.run([rollcall, *arguments], check=True, stdout=subprocess.DEVNULL)
    try:
        runs = [judge(rollcall, directory) for _ in range(REPEATS)]
    finally:
        subprocess.run(["rm", "-rf", directory], check=True)
    best = min(runs)
    right = best[3].startswith(f"RC-MISSING-CALL: rank {culprit} ")
    return {"ranks": ranks, "calls": calls, "layout": layout or "data parallel",
            "seconds": round(best[0], 2), "cpu_seconds": round(best[2], 2),
            "memory_mib": round(best[1]), "verdict": best[3].split(":")[0], "right": right}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    rollcall = os.path.join(options.build, "tools", "rollcall")
    if not os.access(rollcall, os.X_OK):
        print(f"bench: {rollcall} is absent; run `make build` first", file=sys.stderr)
        return 2
    rows = []
    print("| ranks | calls each | layout | verdict | right | seconds | CPU s | MiB | goal |")
    print("| ---: | ---: | --- | --- | --- | ---: | ---: | ---: | --- |")
    for ranks, calls, layout, goal in SMALL + (FULL if options.full else []):
        with tempfile.TemporaryDirectory(prefix="rollcall-scale-",
                                         dir=os.environ.get("ROLLCALL_BENCH_DIR")) as folder:
            row = measure(rollcall, folder, ranks, calls, layout)
        held = ""
        if goal:
            row["goal_seconds"], row["goal_mib"] = goal
            row["holds"] = row["seconds"] <= goal[0] and row["memory_mib"] <= goal[1]
            held = f"{goal[0]:g} s, {goal[1]} MiB: {'holds' if row['holds'] else '**no**'}"
        rows.append(row)
        print(f"| {ranks:,} | {calls:,} | {row['layout']} | {row['verdict']} | "
              f"{'yes' if row['right'] else '**no**'} | {row['seconds']} | {row['cpu_seconds']} | "
              f"{row['memory_mib']} | {held} |", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
