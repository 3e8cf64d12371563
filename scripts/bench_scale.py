#!/usr/bin/env python3
"""How long `rollcall diff` takes on large runs, and how much memory: one rank is at fault in each.

  scripts/bench_scale.py BUILD_DIR [--full] [--json FILE]

The runs are written by `rollcall synth` into a temporary folder (ROLLCALL_BENCH_DIR, else the
system's), read once so that they lie in the page cache, and judged three times; the best counts.
The floor is the processor time of `cat` over the same files. Without --full the largest sizes are
left out: they need some GB of disk and memory.

Where MPI is installed, the last run of --full (or the largest) is also judged under `mpirun -np 4`:
what counts there is how many bytes each process reads.

The first run is also written as a trace, in Perfetto's format and in Chrome's, and as a table, in
Parquet; with --full the first one of 16,384 ranks, too, but for Chrome's format, in which it would
be tens of gigabytes. What a row of a table takes depends on times that vary, as those of synthetic
runs do not: it is measured of a job on emulated GPUs, and is more on a busy machine.

The page of each run is opened in headless Chromium, where that is installed (scripts/setup.sh
--browser): how long until it is drawn, how long the slowest of its redraws takes while it is
scrolled at three sizes of its cells, and how much memory the process has that draws it.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                                "tests", "page"))
from browser import Browser, absent_parts  # noqa: E402

# Faults of `rollcall synth`: the code, and what the sentence says where it is right ({}: the rank).
FAULTS = {
    "missing-call": ("RC-MISSING-CALL", ": rank {} "),
    "host-stuck": ("RC-MISSING-CALL", ": rank {} "),  # late, and it has not come by the end
    "straggler": ("RC-IN-LOCKSTEP", ""),              # late in every step, and it has come
    "comm-order": ("RC-DEADLOCK-COMMS", "; rank {} called in another order"),
}
# Of a page, by ranks and calls: bytes, and seconds until it is drawn.
PAGE_GOALS = {(8, 2000): (300_000, 1.0), (1024, 2000): (2_000_000, 1.5),
              (16384, 2000): (3_000_000, 3.0)}
# Of any page: milliseconds of a redraw, MiB of the renderer, seconds more than `rollcall diff`.
REDRAW_MS_MAX, RENDERER_MIB_MAX, WRITING_SECONDS_MAX = 50, 300, 2
# ranks, calls, layout, fault, goals in seconds and MiB (none: for the growth only)
SMALL = [(1024, 2000, "", "missing-call", None), (4096, 2000, "", "missing-call", None),
         (1024, 2000, "tp=8,pp=4", "comm-order", None), (1024, 20000, "", "missing-call", None),
         (8, 2000, "", "missing-call", None)]
FULL = [(16384, 2000, "", "missing-call", (3.0, 1024)),
        (16384, 2000, "tp=8,pp=4", "missing-call", (3.0, 1024)),
        (16384, 2000, "tp=8,pp=4", "comm-order", (3.0, 1024)),
        (16384, 2000, "tp=8,pp=4", "host-stuck", (3.0, 1024)),
        (16384, 2000, "tp=8,pp=4", "straggler", (3.0, 1024)),
        (1024, 100000, "", "missing-call", (5.0, 1024))]
REPEATS = 3
# Of a slice in Perfetto's format.
SLICE_BYTES_MAX = 60
# Of a row in Parquet, with the times of a GPU.
ROW_BYTES_MAX = 12
ROW_STEPS = 2000
# Chrome's format takes a kilobyte per slice.
CHROME_SLICES_MAX = 4_000_000
TRACES = [("Perfetto, chosen ranks", "t.pftrace", []),
          ("Perfetto, all ranks", "t.pftrace", ["--ranks", "all"]), ("Chrome's JSON", "t.json", [])]


def used(command, **options):
    """Runs it: seconds, processor seconds, peak MiB, bytes read, output."""
    begin = time.monotonic()
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, **options) as process:
        said = process.stdout.read()
        # The kernel's account of it stands until it is waited for.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with open(f"/proc/{process.pid}/io", encoding="ascii") as file:
            account = dict(line.split(": ") for line in file)
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
    return (time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024,
            int(account["rchar"]), said)


def floor_of(directory):
    """Processor seconds of reading every byte."""
    return used(["sh", "-c", "exec find . -type f -exec cat {} + >/dev/null"], cwd=directory)[1]


def member(rollcall, directory, folder):
    """One process of mpirun: does the work, and leaves what it cost behind."""
    cost = used([rollcall, "diff", directory, "--sentence"])
    name = os.path.join(folder, os.environ["OMPI_COMM_WORLD_RANK"])
    with open(name, "w", encoding="utf-8") as file:
        json.dump({"read": cost[3], "said": cost[4]}, file)


def judge_together(rollcall, directory, processes):
    """Bytes that each process of mpirun read, and what they said; None without MPI."""
    if not shutil.which("mpirun"):
        return None
    with tempfile.TemporaryDirectory(prefix="rollcall-mpi-") as folder:
        command = ["mpirun", "--oversubscribe", "-np", str(processes)]
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        done = subprocess.run([*command, sys.executable, os.path.abspath(__file__), "--member",
                               rollcall, directory, folder], capture_output=True, text=True,
                              check=False)
        costs = []
        for rank in range(processes):
            path = os.path.join(folder, str(rank))
            if not os.path.exists(path):
                print(f"bench: mpirun failed: {done.stderr}", file=sys.stderr)
                return None
            with open(path, encoding="utf-8") as file:
                costs.append(json.load(file))
    return [cost["read"] for cost in costs], costs[0]["said"]


def measure_drawing(path):
    """What a browser says of a page; nothing where there is none."""
    if absent_parts():
        return {}
    best = None
    for _ in range(REPEATS):
        with Browser() as browser:
            page = browser.open(path)
            redraws = []
            for keys in ("c", "-" * 12, "+" * 12):
                page.press(keys)
                redraws.append(page.redraw_ms()[0])
            drawn = {"ready_ms": page.ready_ms(), "redraw_ms": round(max(redraws), 1),
                     "renderer_mib": round(page.renderer_mib())}
        if best is None or drawn["ready_ms"] < best["ready_ms"]:
            best = drawn
    return best


def measure_traces(rollcall, directory, folder):
    """A row for each format: bytes per slice, seconds, MiB, and MB written per second of processor
    time, that of reading the run included."""
    rows = []
    for name, file, options in TRACES:
        if file.endswith(".json") and rows[-1]["slices"] > CHROME_SLICES_MAX:
            continue
        path = os.path.join(folder, file)
        cost = used([rollcall, "trace", directory, "-o", path, *options], stderr=subprocess.STDOUT)
        slices = int(re.search(r"([\d,]+) slices", cost[4]).group(1).replace(",", ""))
        size = os.path.getsize(path)
        os.unlink(path)
        rows.append({"format": name, "slices": slices, "bytes": size,
                     "bytes_per_slice": round(size / slices, 1), "seconds": round(cost[0], 2),
                     "cpu_seconds": round(cost[1], 2),
                     "mb_per_second": round(size / 1e6 / max(cost[1], 0.001)),
                     "memory_mib": round(cost[2])})
    return rows


def measure_table(rollcall, directory, folder):
    """Rows, bytes, seconds and MiB of the run as a table."""
    path = os.path.join(folder, "calls.parquet")
    cost = used([rollcall, "export", directory, "-o", path], stderr=subprocess.STDOUT)
    rows = int(re.search(r"([\d,]+) calls", cost[4]).group(1).replace(",", ""))
    size = os.path.getsize(path)
    os.unlink(path)
    return {"rows": rows, "bytes": size, "bytes_per_row": round(size / rows, 1),
            "seconds": round(cost[0], 2), "cpu_seconds": round(cost[1], 2),
            "memory_mib": round(cost[2])}


def measure_recorded_table(build, folder):
    """The same of a job that was recorded, every call of it timed on an emulated GPU. None: the
    build has no such job."""
    rollcall = os.path.join(build, "tools", "rollcall")
    program = os.path.join(build, "examples", "mini_train")
    if not os.access(program, os.X_OK):
        return None
    directory = os.path.join(folder, "recorded")
    subprocess.run([rollcall, "run", "-q", "-n", "4", "--emulate", "-d", directory, "--", program,
                    "--dp", "2", "--tp", "2", "--pp", "1", "--steps", str(ROW_STEPS),
                    "--bucket-elements", "256"], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL,
                   env={**os.environ, "ROLLCALL_OVERHEAD_BUDGET": "100"})
    return measure_table(rollcall, directory, folder)


def print_tables(rows, recorded):
    print("\nAs a table, in Parquet "
          f"(a goal of {ROW_BYTES_MAX} bytes per row with times that vary):\n")
    print("| run | rows | MB | bytes per row | seconds | CPU s | MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    named = [(f"{row['ranks']:,} ranks of {row['calls']:,} calls, synthetic", row["table"])
             for row in rows if "table" in row]
    if recorded:
        named.append(("4 ranks on emulated GPUs", recorded))
    for name, table in named:
        print(f"| {name} | {table['rows']:,} | {table['bytes'] / 1e6:.1f} | "
              f"{table['bytes_per_row']} | {table['seconds']} | {table['cpu_seconds']} | "
              f"{table['memory_mib']} |")


def print_traces(row):
    print(f"\nAs a trace, {row['ranks']:,} ranks of {row['calls']:,} calls (a goal of "
          f"{SLICE_BYTES_MAX} bytes per slice in Perfetto's format):\n")
    print("| format | slices | MB | bytes per slice | seconds | CPU s | MB per CPU s | MiB |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for trace in row["traces"]:
        print(f"| {trace['format']} | {trace['slices']:,} | {trace['bytes'] / 1e6:.0f} | "
              f"{trace['bytes_per_slice']} | {trace['seconds']} | {trace['cpu_seconds']} | "
              f"{trace['mb_per_second']} | {trace['memory_mib']} |")


def measure(rollcall, folder, shape, processes=0, with_traces=False):
    ranks, calls, layout, fault, _ = shape
    directory = os.path.join(folder, "run")
    culprit = ranks // 3
    arguments = ["synth", "-o", directory, "--ranks", str(ranks), "--ops", str(calls), "--fault",
                 f"{fault}@{culprit}"]
    if layout:
        arguments += ["--layout", layout]
    subprocess.run([rollcall, *arguments], check=True, stdout=subprocess.DEVNULL)
    try:
        floor = floor_of(directory)
        runs = [used([rollcall, "diff", directory, "--sentence"]) for _ in range(REPEATS)]
        page = os.path.join(folder, "page.html")
        written = [used([rollcall, "report", directory, "-o", page], stderr=subprocess.DEVNULL)
                   for _ in range(REPEATS)]
        together = judge_together(rollcall, directory, processes) if processes else None
        traces = measure_traces(rollcall, directory, folder) if with_traces else []
        table = measure_table(rollcall, directory, folder) if with_traces else None
    finally:
        subprocess.run(["rm", "-rf", directory], check=True)
    best = min(runs)
    code, words = FAULTS[fault]
    verdict = best[4].split(":")[0]
    row = {"ranks": ranks, "calls": calls, "layout": layout or "data parallel", "fault": fault,
           "seconds": round(best[0], 2), "cpu_seconds": round(min(run[1] for run in runs), 2),
           "floor_cpu_seconds": round(floor, 2), "memory_mib": round(best[2]),
           "page_seconds": round(min(written)[0], 2),
           "page_cpu_seconds": round(min(run[1] for run in written), 2),
           "page_bytes": os.path.getsize(page), **measure_drawing(page),
           "read_bytes": best[3], "verdict": verdict,
           "right": verdict == code and words.format(culprit) in best[4]}
    if traces:
        row["traces"] = traces
        row["table"] = table
    if together:
        row["read_bytes_of_each"], said = together
        row["same_together"] = said == best[4]
    return row


def page_holds(row):
    """Whether the page keeps to its budgets, as far as they were measured."""
    bytes_max, ready_s = PAGE_GOALS.get((row["ranks"], row["calls"]), (None, None))
    return ((bytes_max is None or row["page_bytes"] <= bytes_max)
            and (ready_s is None or row.get("ready_ms", 0) <= 1000 * ready_s)
            and row.get("redraw_ms", 0) <= REDRAW_MS_MAX
            and row.get("renderer_mib", 0) <= RENDERER_MIB_MAX
            and row["page_seconds"] <= row["seconds"] + WRITING_SECONDS_MAX)


def print_pages(rows):
    print("\nThe page of `rollcall report`, beside the verdict alone, and in headless Chromium "
          f"(goals: written {WRITING_SECONDS_MAX} s after the verdict, redrawn in {REDRAW_MS_MAX} "
          f"ms, {RENDERER_MIB_MAX} MiB of the process that draws it):\n\n"
          "| ranks | calls each | layout | fault | CPU s | seconds more than `diff` | page | drawn "
          "| redraw | MiB | goal | holds |\n"
          "| ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    for row in rows:
        bytes_max, ready_s = PAGE_GOALS.get((row["ranks"], row["calls"]), (None, None))
        goal = "" if bytes_max is None else f"{bytes_max / 1e6:g} MB, {ready_s:g} s"
        drawn = "- | - | -"
        if "ready_ms" in row:
            drawn = (f"{row['ready_ms'] / 1000:.2f} s | {row['redraw_ms']:.0f} ms | "
                     f"{row['renderer_mib']}")
        print(f"| {row['ranks']:,} | {row['calls']:,} | {row['layout']} | {row['fault']} | "
              f"{row['page_cpu_seconds']} | {row['page_seconds'] - row['seconds']:.2f} | "
              f"{row['page_bytes'] / 1e6:.2f} MB | {drawn} | {goal} | "
              f"{'yes' if page_holds(row) else '**no**'} |")


def print_together(row):
    read = row["read_bytes_of_each"]
    print(f"\nUnder mpirun, {row['ranks']:,} ranks of {row['calls']:,} calls, the answer is "
          f"{'the same' if row['same_together'] else '**another one**'}. Read by one process: "
          f"{row['read_bytes'] / 1e6:.0f} MB. Read by each of {len(read)}: "
          f"{', '.join(f'{bytes_ / 1e6:.0f}' for bytes_ in read)} MB.")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", default="build/release")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--member", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member:
        member(*options.member)
        return 0
    rollcall = os.path.join(options.build, "tools", "rollcall")
    if not os.access(rollcall, os.X_OK):
        print(f"bench: {rollcall} is absent; run `make build` first", file=sys.stderr)
        return 2
    rows = []
    print("| ranks | calls each | layout | fault | verdict | right | seconds | CPU s | floor | MiB "
          "| goal |")
    print("| ---: | ---: | --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |")
    shapes = SMALL + (FULL if options.full else [])
    for shape in shapes:
        ranks, calls, layout, fault, goal = shape
        with tempfile.TemporaryDirectory(prefix="rollcall-scale-",
                                         dir=os.environ.get("ROLLCALL_BENCH_DIR")) as folder:
            is_largest = ranks == max(other[0] for other in shapes) and not layout
            with_traces = not rows or (is_largest and options.full
                                       and not any(other["ranks"] == ranks for other in rows))
            row = measure(rollcall, folder, shape, 4 if is_largest else 0, with_traces)
        held = ""
        if goal:
            row["goal_seconds"], row["goal_mib"] = goal
            row["holds"] = row["seconds"] <= goal[0] and row["memory_mib"] <= goal[1]
            held = f"{goal[0]:g} s, {goal[1]} MiB: {'holds' if row['holds'] else '**no**'}"
        rows.append(row)
        print(f"| {ranks:,} | {calls:,} | {row['layout']} | {fault} | {row['verdict']} | "
              f"{'yes' if row['right'] else '**no**'} | {row['seconds']} | {row['cpu_seconds']} | "
              f"{row['floor_cpu_seconds']} | {row['memory_mib']} | {held} |", flush=True)
    with tempfile.TemporaryDirectory(prefix="rollcall-scale-") as folder:
        try:
            recorded = measure_recorded_table(options.build, folder)
        except subprocess.CalledProcessError as failure:
            # What took long has been measured already.
            print(f"\nbench_scale: no table of a recorded job: {failure}")
            recorded = None
    print_pages(rows)
    for row in rows:
        if "read_bytes_of_each" in row:
            print_together(row)
        if "traces" in row:
            print_traces(row)
    print_tables(rows, recorded)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows + ([{"recorded_table": recorded}] if recorded else []), file, indent=1)
    small = all(trace["bytes_per_slice"] <= SLICE_BYTES_MAX for row in rows
                for trace in row.get("traces", []) if trace["format"].startswith("Perfetto"))
    return 0 if small and all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
