#!/usr/bin/env python3
"""What recording adds to a call of a real NCCL: two ranks of one process, in groups.

  ROLLCALL_REAL_NCCL=DIR bench/real_nccl.py BUILD JSON [ROUNDS]

DIR holds a libnccl.so.2 that links libcudart.so.13 (CONTRIBUTING.md says how to build one);
without it the program ends with 77. NCCL's host code runs on the emulated CUDA runtime, whose
kernels do nothing. Between two calls it uses its own memory, locks and code, as it does in a job,
and the recorder finds less in the processor's caches than in a loop of its own. GPU timing is on,
as by default: the budget leaves most events out, but whether a stream captures is asked of the
emulated driver with each call, which remembers the last one that does not. The row without GPU
timing is free of that. A group of two calls is three records: its end is one.

In each round one process runs for each way of recording, and one without, in turns; each makes
40,000 calls and tells the processor time of the calling thread (real_nccl_client.cpp), of which
the middle batch counts. Differences are taken within a round.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

import paired

CALLS = 40_000
ROUNDS = 15
PATIENCE_S = 120
STAND_INS = ("libcuda.so.1", "libcudart.so.13", "libnvidia-ml.so.1")
ASK_VERSION = ("import ctypes; number = ctypes.c_int(); "
               "ctypes.CDLL('libnccl.so.2').ncclGetVersion(ctypes.byref(number)); "
               "print(number.value)")
# What is added, in ns per call; None: no goal. The goals were set where the floor of a record
# (rollcall_bench) is 17 ns: on other machines the ratio to the floor is what to compare.
WAYS = {"shim": 60, "untimed": None, "plugin": None, "both": 110}
REFERENCE_FLOOR_NS = 17
TITLES = {"shim": "shim", "untimed": "shim without GPU timing",
          "plugin": "profiler plugin alone", "both": "shim and profiler plugin"}


class Bench:
    def __init__(self, build, real_nccl):
        self.build = os.path.abspath(build)
        self.real_nccl = os.path.abspath(real_nccl)

    def environment(self, way, folder):
        library = os.path.join(self.build, "shim", "librollcall.so")
        preloaded = [os.path.join(self.build, "emulator", name) for name in STAND_INS]
        chosen = {name: value for name, value in os.environ.items()
                  if not name.startswith(("ROLLCALL_", "NCCL_"))}
        chosen.update({"LD_LIBRARY_PATH": self.real_nccl, "ROLLCALL_EMULATE_GPUS": "2",
                       "ROLLCALL_EMULATE_SESSION": os.path.basename(folder),
                       "NCCL_SOCKET_IFNAME": "lo", "ROLLCALL_DIR": os.path.join(folder, "run")})
        if way == "untimed":
            chosen["ROLLCALL_GPU_TIMING"] = "off"
        if way in ("shim", "untimed", "both"):
            preloaded.insert(0, library)
        if way == "plugin":
            library = os.path.join(self.build, "profiler_plugin", "libnccl-profiler-rollcall.so")
        if way in ("plugin", "both"):
            chosen["NCCL_PROFILER_PLUGIN"] = library
        chosen["LD_PRELOAD"] = ":".join(preloaded)
        return chosen

    def output_of(self, command, way):
        with tempfile.TemporaryDirectory(prefix="rollcall-bench-") as folder:
            done = subprocess.run(command, env=self.environment(way, folder), text=True,
                                  stdout=subprocess.PIPE, check=True, timeout=PATIENCE_S)
            has_recorded = os.path.isdir(os.path.join(folder, "run"))
            if has_recorded != (way in WAYS):
                raise SystemExit(f"real_nccl: with {way or 'nothing'} preloaded, "
                                 f"{'a' if has_recorded else 'no'} record was made")
            return done.stdout.split()

    def version(self):
        number = int(self.output_of([sys.executable, "-c", ASK_VERSION], None)[-1])
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"

    def call_ns(self, way):
        client = os.path.join(self.build, "bench", "real_nccl_client")
        _, middle_ns, _ = self.output_of([client, str(CALLS)], way)
        return float(middle_ns)

    def floor_ns(self):
        with tempfile.TemporaryDirectory(prefix="rollcall-bench-") as folder:
            path = os.path.join(folder, "floor.json")
            program = os.path.join(self.build, "bench", "rollcall_bench")
            subprocess.run([program, "--only", "record", "--quick", "--json", path], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with open(path, encoding="utf-8") as file:
                return json.load(file)[0]["value"]


def row_of(name, added, unit, goal):
    row = {"name": name, "value": statistics.median(added), "unit": unit, "goal": goal}
    if goal is not None:
        row["interval"] = paired.interval_of(added)
        row["holds"] = paired.holds(row["interval"], goal)
    return row


def rows_of(version, rounds, floor_ns):
    title = f"NCCL {version}, 2 ranks in groups"
    plain = [seen[None] for seen in rounds]
    rows = [row_of(f"{title}: a call without Rollcall", plain, "ns", None)]
    for way, goal in WAYS.items():
        added = [seen[way] - seen[None] for seen in rounds]
        rows.append(row_of(f"{title}, {TITLES[way]}: time added", added, "ns", goal))
        if goal is not None:
            rows.append(row_of(f"{title}, {TITLES[way]}: ratio to floor",
                               [ns / floor_ns for ns in added], "x floor",
                               goal / REFERENCE_FLOOR_NS))
    return rows


def main():
    build, path = sys.argv[1:3]
    number_of_rounds = int(sys.argv[3]) if len(sys.argv) > 3 else ROUNDS
    real_nccl = os.environ.get("ROLLCALL_REAL_NCCL", "")
    if not real_nccl:
        print("bench: a real NCCL's host path is skipped: set ROLLCALL_REAL_NCCL to the folder of "
              "a libnccl.so.2 with a shared CUDA runtime", file=sys.stderr)
        return 77
    bench = Bench(build, real_nccl)
    version = bench.version()
    ways = [None, *WAYS]
    floors, rounds = [bench.floor_ns()], []
    for number in range(number_of_rounds):
        turn = number % len(ways)
        rounds.append({way: bench.call_ns(way) for way in ways[turn:] + ways[:turn]})
    floors.append(bench.floor_ns())
    with open(path, "w", encoding="utf-8") as file:
        json.dump(rows_of(version, rounds, statistics.mean(floors)), file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
