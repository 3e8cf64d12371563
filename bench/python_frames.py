#!/usr/bin/env python3
"""What ROLLCALL_PYTHON_FRAMES=1 adds to an operation that Python issues.

  bench/python_frames.py BUILD JSON [PAIRS]

Processes with and without it alternate; each makes the same calls through ctypes, ten functions
deep, and tells the processor time of the fastest tenth of its batches. Writes the rows of the table
to JSON; ends with 77 where the frames of this Python are not read.
"""
import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

BATCHES, CALLS = 200, 100
DEPTH = 10
FLOAT32, SUM, COUNT = 7, 0, 1


def issue(nccl, arguments, depth):
    if depth > 1:
        return issue(nccl, arguments, depth - 1)
    batches = []
    for _ in range(BATCHES):
        start_ns = time.thread_time_ns()
        for _ in range(CALLS):
            nccl.ncclAllReduce(*arguments)
        batches.append((time.thread_time_ns() - start_ns) / CALLS)
    # The undisturbed ones: a neighbour on the core can only add.
    return statistics.quantiles(batches, n=10)[0]


def client():
    """One rank alone: the emulated operation is the cheapest there is."""
    nccl, cuda = ctypes.CDLL("libnccl.so.2"), ctypes.CDLL("libcudart.so.12")
    comm, buffer = ctypes.c_void_p(), ctypes.c_void_p()
    failed = nccl.ncclCommInitAll(ctypes.byref(comm), 1, None)
    failed |= cuda.cudaMalloc(ctypes.byref(buffer), ctypes.c_size_t(4096))
    if failed:
        raise SystemExit(f"python_frames: the emulated communicator failed with {failed}")
    arguments = (buffer, buffer, ctypes.c_size_t(COUNT), FLOAT32, SUM, comm, None)
    print(issue(nccl, arguments, DEPTH), flush=True)


def call_ns(build, frames):
    with tempfile.TemporaryDirectory(prefix="rollcall-bench-") as folder:
        command = [os.path.join(build, "tools", "rollcall"), "run", "-q", "--emulate=1", "-d",
                   os.path.join(folder, "run"), "--", sys.executable, os.path.abspath(__file__)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "ROLLCALL_PYTHON_FRAMES": frames})
        return float(done.stdout.split()[-1])


def main():
    build, path = sys.argv[1:3]
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 15
    if not (3, 11) <= sys.version_info[:2] <= (3, 13):
        print("bench: Python frames skipped: those of this Python are not read", file=sys.stderr)
        return 77
    added = []
    for number in range(pairs):
        seen = {frames: call_ns(build, frames) for frames in ("01" if number % 2 else "10")}
        added.append(seen["1"] - seen["0"])
    quarters = statistics.quantiles(added, n=4)
    rows = [{"name": f"Python frames, {DEPTH} deep: time added to a call",
             "value": statistics.median(added), "unit": "ns", "goal": None},
            {"name": "Python frames: spread of the middle half", "value": quarters[2] - quarters[0],
             "unit": "ns", "goal": None}]
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main() if len(sys.argv) > 1 else client())
