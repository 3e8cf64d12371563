#!/usr/bin/env python3
"""The steps of scripts/gpu_check.sh: each yields a row of the table, and holds or not."""
import argparse
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# In the repository, or all in one packed folder.
BENCH = next(folder for folder in (HERE, os.path.join(os.path.dirname(HERE), "bench"))
             if os.path.exists(os.path.join(folder, "paired.py")))
sys.path.append(BENCH)

import paired
from gpu_machine import PLUGIN, TIMINGS, Machine, OutOfTime, Run, Skip

# Seconds that a check needs at least; with less left, it is not begun.
CHECK_S = 20
# Calls of collective_loop in front of those that it measures, at each size.
WARM_UP = 20
# Two processes take turns on one GPU: few calls and small ones.
ITERATIONS, SIZES = 30, (8, 1 << 16)
# Added to the latency of a call or to a step, at most, in per cent (see docs/GPU.md).
LATENCY_GOALS = {"off": 0.5, "events": 2.0}
STEP_GOALS = {"off": 0.1, "events": 0.1}
# A name for the way, the mode (see gpu_machine.Run), and the budget; None is Rollcall's default.
# What has no goal is measured with every operation timed.
LATENCY_WAYS = (("off", "off", None), ("events", "events", None),
                ("events unsampled", "events", "100"), ("progress unsampled", "progress", "100"),
                ("cupti", "cupti", None))
LATENCY_SECONDS = 8
# Steps of ranks that run side by side on one GPU swing more than those of a rank on its own.
PAIRS_MAX, STEP_SECONDS, SIDE_BY_SIDE_STEP_SECONDS, OTHER_STEP_SECONDS = 1000, 20, 50, 3
# Of a step: some tens of milliseconds of a large GPU, in eight buckets.
STEP = ("--width", "1024", "--rows", "32768", "--bucket-mb", "4")
EMULATED_STEP = ("--width", "128", "--bucket-mb", "25")  # nobody judges how long it takes
# Of the rank that sleeps: much against what a step of two processes on one GPU swings by.
SLOW_STEPS, SLOW_MS = 30, 100
IN_LOCKSTEP = "RC-IN-LOCKSTEP"


def word(holds):
    """None: not known, the machine is too noisy."""
    return "neither" if holds is None else "yes" if holds else "NO"


def worst(answers):
    """Of yes, NO and neither."""
    return False if False in answers else None if None in answers else True


def loop(machine, mode, iterations=ITERATIONS, sizes=SIZES, budget="100"):
    """A run of collective_loop, and how many calls it makes."""
    program = [machine.program("collective_loop"), str(iterations), *map(str, sizes)]
    run = Run(machine, program, mode, budget=budget)
    return run, run.ranks * len(sizes) * (iterations + WARM_UP)


def times_of(text):
    """What collective_loop prints: by size, median ns on the host, median and least on the GPU."""
    lines = [line.split() for line in text.splitlines()]
    return {int(line[0]): [int(number) for number in line[1:]] for line in lines
            if len(line) == 4 and all(number.isdigit() for number in line)}


def check_recorder(machine):
    run, expected = loop(machine, "events")
    with run:
        run.finish()
        code = run.verdict()
        operations = json.loads(run.ask("stats", run.directory, "--json"))["operations"]
        faults = {meta["gpu_fault"] for meta in run.metas() if "gpu_fault" in meta}
    calls = sum(row["calls"] for row in operations)
    timed = sum(row["timed"] for row in operations)
    refused = f", refused: {', '.join(sorted(faults))}" if faults else ""
    return (code == IN_LOCKSTEP and calls == timed == expected and not faults,
            f"{code}, {timed} of {calls} timed, {expected} made{refused}")


def check_facts(machine):
    """What CUDA's documentation leaves open: gpu_facts.py. It holds where GPU timing rests on the
    answer; that calls of a thread without a context are refused costs the times of such threads."""
    with Run(machine, [sys.executable, os.path.join(HERE, "gpu_facts.py")], "none", ranks=1) as run:
        lines = [line for line in run.finish().splitlines() if line.startswith("{")]
    facts = json.loads(lines[-1])
    backwards = facts["elapsed_backwards_ms"]
    marks = facts.get("marks", {})
    seen = (1, 2) if machine.emulated else (1,)  # nobody spins on an emulated GPU
    holds = (isinstance(backwards, float) and backwards < 0
             and marks.get("while_it_runs") in seen and marks.get("written") == 2)
    return holds, json.dumps(facts).replace('"', "").strip("{}")


def median_ns(operations):
    """Of their times on the GPU; None where none was timed."""
    durations = [line["finished_ns"] - line["started_ns"] for line in operations
                 if line["state"] == "finished" and line["started_ns"] is not None]
    return statistics.median(durations) if durations else None


def check_durations(mode):
    """Our median against the program's own two events: of rank 0, at the largest size."""
    def check(machine):
        run, _ = loop(machine, mode)
        with run:
            own_ns = times_of(run.finish())[max(SIZES)][1]
            operations = [line for line in run.lines("op") if line["job_rank"] == 0
                          and line["op"] == "AllReduce" and line["count"] == max(SIZES)]
        measured = operations[-ITERATIONS:]
        ours_ns = median_ns(measured)
        if ours_ns is None:
            return False, f"0 of {len(measured)} timed"
        # Emulated launches take longer than emulated kernels, and a busy machine stretches both.
        # CUPTI's time is the kernel's alone; the events have the launch between them, too.
        allowed_ns = max(0.1 * own_ns, 5_000)
        holds = (0 < ours_ns <= 2 * own_ns if machine.emulated else
                 0 < ours_ns <= own_ns + allowed_ns if mode == "cupti" else
                 abs(ours_ns - own_ns) <= allowed_ns)
        return holds, f"{ours_ns:.0f} ns against {own_ns} ns"
    return check


def check_cupti(machine):
    """Every operation with the times and the name of its kernel, and nothing dropped."""
    run, expected = loop(machine, "cupti")
    with run:
        run.finish()
        metas = run.metas()
        counters = [line["counters"] for line in run.lines("stats")]
        operations = [line for line in run.lines("op") if line["op"] != "GroupEnd"]
    for meta in metas:
        if meta.get("gpu_timing") != "cupti":
            return False, f"gpu_timing {meta.get('gpu_timing')}, gpu_cupti {meta.get('gpu_cupti')}"
    done = [line for line in operations if line["state"] == "finished" and "kernel" in line
            and line["launched_ns"] <= line["started_ns"]]
    losses = [f"{sum(counts[name] for counts in counters)} {name}" for name in
              ("gpu_records_dropped", "gpu_kernels_unmatched", "gpu_kernels_unnamed")]
    kernels = sorted({line["kernel"] for line in done})
    return len(done) == len(operations) == expected, (
        f"{len(done)} of {len(operations)} timed, {', '.join(losses)}, {', '.join(kernels)}")


def check_plugin(machine):
    """The plugin alone: one record per call."""
    if not os.path.exists(PLUGIN):
        raise Skip("the profiler plugin is not built")
    run, expected = loop(machine, "plugin")
    with run:
        run.finish()
        text = run.ask("stats", run.directory, "--json")
    if not text:
        raise Skip("this NCCL did not load the plugin")
    calls = sum(row["calls"] for row in json.loads(text)["operations"])
    return calls == expected, f"{calls} of {expected} calls"


def check_both(machine):
    """Shim and plugin: one record per call, and what the plugin adds to it."""
    if not os.path.exists(PLUGIN):
        raise Skip("the profiler plugin is not built")
    run, expected = loop(machine, "both")
    with run:
        run.finish()
        code = run.verdict()
        calls = [line for line in run.lines("op") if line["op"] != "GroupEnd"]
    enriched = sum("algorithm" in line for line in calls)
    return (code == IN_LOCKSTEP and len(calls) == expected,
            f"{code}, {len(calls)} of {expected} calls, {enriched} with an algorithm")


def check_one_rank(machine):
    """NCCL launches no kernel for it; its calls are recorded all the same."""
    found = {}
    modes = ("off", "events", "both") if os.path.exists(PLUGIN) else ("off", "events")
    for mode in modes:
        with training(machine, "--steps", "5", mode=mode, ranks=1) as run:
            run.finish()
            calls = sum(line["op"] != "GroupEnd" for line in run.lines("op"))
            found[mode] = (run.verdict(), calls)
    holds = all(code == IN_LOCKSTEP and calls == found["off"][1] > 0
                for code, calls in found.values())
    return holds, "; ".join(f"{mode}: {code}, {calls} calls"
                            for mode, (code, calls) in found.items())


def check_words(machine):
    """Progress words, in a directory whose files may be registered with the driver."""
    run, _ = loop(machine, "progress")
    with run:
        run.finish()
        words = {meta.get("gpu_words") for meta in run.metas()}
        unwritten = sum(line["counters"]["gpu_unwritten"] for line in run.lines("stats"))
    return (words == {"gpu"} and unwritten == 0,
            f"words: {', '.join(map(str, words))}, {unwritten} not written")


def training(machine, *arguments, mode="events", ranks=None, settings=None):
    program = [machine.program("mini_train"), "--no-verify", *arguments]
    return Run(machine, program, mode, ranks, settings=settings)


def check_training(machine):
    with training(machine, "--steps", "5") as run:
        run.finish()
        code = run.verdict()
    return code == IN_LOCKSTEP, f"{run.ranks} ranks: {code}"


def positions_of(lines):
    """By process: where its graphs stand, and where they stand when every captured operation is
    through, for a mark is written in front of each and behind it."""
    found = {}
    for line in lines:
        if line["type"] == "graph":
            position, whole = found.get(line["pid"], (0, 0))
            found[line["pid"]] = (position + sum(lane["position"] for lane in line["lanes"]),
                                  whole + 2 * line["operations"])
    return found


def check_graphs(machine):
    steps = 5
    with training(machine, "--steps", str(steps), "--graphs") as run:
        run.finish()
        code = run.verdict()
        replays = [line for line in run.lines("op") if line["op"] == "GraphLaunch"]
        words = {meta.get("gpu_words", "not asked for") for meta in run.metas()}
        unwritten = sum(line["counters"]["gpu_unwritten"] for line in run.lines("stats"))
        positions = positions_of(run.lines("graph"))
    done = sum(line["state"] == "finished" for line in replays)
    is_written = len(positions) == run.ranks and all(
        position == whole > 0 for position, whole in positions.values())
    holds = (code == IN_LOCKSTEP and len(replays) == done == (steps - 1) * run.ranks
             and words <= {"gpu", "copied"} and is_written and unwritten == 0)
    texts = [f"{position} of {whole}" for position, whole in positions.values()]
    return holds, (f"{code}, {done} of {len(replays)} replays seen, words: {', '.join(words)}, "
                   f"positions {', '.join(texts)}, {unwritten} not written")


def check_hang(fault, expected, mode="events", settings=None):
    def check(machine):
        code = "no verdict"
        with training(machine, "--steps", "3", "--fault", f"{fault}@1:1", mode=mode,
                      settings=settings) as run:
            patience_s = machine.patience_s(60)
            deadline = time.monotonic() + patience_s
            while run.process.poll() is None and code != expected:
                if time.monotonic() > deadline:
                    return False, f"{code} after {patience_s:.0f} s"
                time.sleep(1)
                code = run.verdict("--stalled-after", "5")
            if code != expected and run.process.poll() is not None:
                code = run.verdict()
            status = run.process.poll()
        ended = "" if status is None else f", and the job did not hang: exit status {status}"
        return code == expected, code + ended
    return check


def slow_answer(machine, fault):
    """What `rollcall slow` says of a training with this fault: code or None, ranks, steps found."""
    with training(machine, "--steps", str(SLOW_STEPS), "--dp", str(machine.ranks()), "--tp", "1",
                  "--pp", "1", "--fault", fault, "--straggler-delay-ms", str(SLOW_MS)) as run:
        run.finish()
        answer = json.loads(run.ask("slow", run.directory, "--json"))
    finding = answer["finding"] or {"code": None, "culprits": []}
    return (finding["code"], [culprit["rank"] for culprit in finding["culprits"]],
            answer["steps"]["found"])


def check_slow(machine):
    found = slow_answer(machine, "straggler@1:0")
    healthy = slow_answer(machine, "none")
    return (found[:2] == ("RC-STRAGGLER", [1]) and healthy[0] is None,
            f"{found[0] or 'nobody'} {found[1]} in {found[2]} steps; of the healthy twin: "
            f"{healthy[0] or 'nobody'} {healthy[1]} in {healthy[2]} steps")


# --- what is added to a call ----------------------------------------------------------------------


class Latencies:
    """Batches of calls with each way, each beside one with the recorder paused, in one process:
    bench/latency_pairs.py."""

    def __init__(self, machine, ranks):
        self.machine = machine
        self.ranks = ranks
        self.answers = []
        self.words = []

    def found(self, mode, budget):
        with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
            path = os.path.join(folder, "latency.json")
            seconds = 1 if self.machine.emulated else LATENCY_SECONDS
            program = [sys.executable, os.path.join(BENCH, "latency_pairs.py"), path, str(seconds)]
            with Run(self.machine, program, mode, self.ranks, budget) as run:
                run.finish()
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def add(self, name, facts, goal):
        percent, host_ns = facts["latency_added_percent"], facts["host_added_ns"]
        interval = paired.interval_of(percent)
        low, high = paired.interval_of(host_ns)
        self.words.append(
            f"{name} {added_text(statistics.median(percent), interval)} of "
            f"{facts['latency_ns'] / 1000:.1f} us, host {statistics.median(host_ns):+.0f} ns "
            f"({low:+.0f} to {high:+.0f}) of {facts['host_ns']:.0f}")
        if goal is not None:
            self.answers.append(paired.holds(interval, goal))

    def measure(self, name, mode, budget, goal):
        if self.machine.seconds_left() < CHECK_S:
            self.words.append(f"{name}: not reached")
            self.answers += [None] if goal is not None else []
            return
        try:
            self.add(name, self.found(mode, budget), goal)
        except RuntimeError as fault:  # the other ways are still measured
            self.words.append(f"{name}: {fault}")
            self.answers.append(False)


def added_text(percent, interval):
    low, high = interval
    return f"{percent:+.2f} % ({low:+.2f} to {high:+.2f})"


def check_latency(ranks_of, has_goals):
    def check(machine):
        latencies = Latencies(machine, ranks_of(machine))
        with machine.side_by_side(latencies.ranks) as words:
            latencies.words += words
            for name, mode, budget in LATENCY_WAYS:
                judged = has_goals and not machine.emulated
                latencies.measure(name, mode, budget, LATENCY_GOALS.get(name) if judged else None)
        return worst(latencies.answers), "; ".join(latencies.words)
    return check


# --- PyTorch --------------------------------------------------------------------------------------


class Steps:
    """Steps of DDP in each mode; one that fails leaves the others. Runs with the recorder and with
    it paused alternate within one process: bench/ddp_step.py. Two ranks that share a GPU share its
    time, too, beside which a thousandth of a step is little: there one rank, whose host does the
    same, is judged as well, and two that take turns are not."""

    def __init__(self, machine, is_graph):
        self.machine = machine
        self.ranks = machine.ranks()
        self.options = [*(EMULATED_STEP if machine.emulated else STEP),
                        *(["--graph"] if is_graph else [])]
        self.words = []
        self.answers = []
        self.nccl = set()

    def rows(self, mode, pairs, ranks, look=lambda run: None):
        """What ddp_step.py writes; `look` asks about the run before it is gone."""
        goal = STEP_GOALS.get(mode, float("inf"))
        with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
            path = os.path.join(folder, "step.json")
            program = [sys.executable, os.path.join(BENCH, "ddp_step.py"), path, str(pairs),
                       "--seconds", str(self.seconds_for(mode, ranks)), "--goal", str(goal),
                       *self.options]
            with Run(self.machine, program, mode, ranks) as run:
                run.finish()
                look(run)
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def train_without(self):
        """What this PyTorch does without Rollcall; one rank, where two cannot share the GPU."""
        try:
            rows = self.rows("none", 0, self.ranks)
        except (Skip, RuntimeError) as fault:
            if not self.machine.is_shared(self.ranks):
                raise Skip(f"fails without Rollcall, too: {fault}") from None
            self.ranks = 1
            rows = self.rows("none", 0, 1)
            self.words.append(f"one rank, for which NCCL launches no kernels ({fault})")
        self.words.append(f"{self.ranks} ranks, a step of {rows[0]['value']:.2f} ms")

    def measure(self, mode):
        def look(run):
            first = run.lines("run")[0]
            meta = first["meta"]
            self.nccl.add(f"NCCL {first['versions']['nccl']} ({meta.get('nccl_path')})")
            code, timing = run.verdict(), meta.get("gpu_timing", "off")
            if code != IN_LOCKSTEP:
                raise RuntimeError(code)
            if timing != mode:
                raise RuntimeError(f"the GPU was timed by {timing}: {meta.get('gpu_cupti')}")

        self.pair(mode, self.ranks, look)
        has_goal = mode in STEP_GOALS and not self.machine.emulated
        if has_goal and self.machine.is_shared(self.ranks) and self.answers[-1:] != [False]:
            self.pair(mode, 1, look)

    def seconds_for(self, mode, ranks):
        if self.machine.emulated:
            return 2
        if not self.is_judged(mode, ranks):
            return OTHER_STEP_SECONDS
        return SIDE_BY_SIDE_STEP_SECONDS if self.machine.is_shared(ranks) else STEP_SECONDS

    def is_judged(self, mode, ranks):
        takes_turns = self.machine.is_shared(ranks) and not self.machine.is_side_by_side
        return mode in STEP_GOALS and not self.machine.emulated and not takes_turns

    def pair(self, mode, ranks, look):
        try:
            step, added, low, high = self.rows(mode, PAIRS_MAX, ranks, look)[:4]
        except (RuntimeError, ValueError, subprocess.TimeoutExpired) as fault:
            self.words.append(f"{mode}: {fault}")
            self.answers.append(False)
            return
        interval = added_text(added["value"], (low["value"], high["value"]))
        # Beside the step without Rollcall above, this tells what pausing leaves in a graph.
        self.words.append(f"{mode} {interval} of {step['value']:.2f} ms"
                          f"{'' if ranks == self.ranks else ', one rank'}")
        if self.is_judged(mode, ranks):
            self.answers.append(added["holds"])


def check_torch(is_graph, modes):
    def check(machine):
        if importlib.util.find_spec("torch") is None:
            raise Skip("this python has no torch")
        steps = Steps(machine, is_graph)
        with machine.side_by_side(steps.ranks) as words:
            steps.words += words
            if not machine.emulated:  # whose steps are nobody's measure
                steps.train_without()
            for mode in modes:
                if machine.seconds_left() < CHECK_S:
                    steps.words.append(f"{mode}: not reached")
                    steps.answers.append(None)
                    continue
                steps.measure(mode)
        return worst(steps.answers), "; ".join([*steps.words, *sorted(steps.nccl)])
    return check


# Latencies come last and take what time is left.
CHECKS = [
    ("the driver does what GPU timing rests on", check_facts),
    ("every call is recorded and timed", check_recorder),
    ("the profiler plugin alone records every call", check_plugin),
    ("shim and plugin together record every call once", check_both),
    ("one rank by itself is recorded", check_one_rank),
    ("CUDA graphs: every replay is seen", check_graphs),
    ("the GPU writes progress words into the file", check_words),
    ("CUPTI tells of every kernel", check_cupti),
    ("GPU times agree with CUDA events of the program's own", check_durations("events")),
    ("CUPTI's times agree with CUDA events of the program's own", check_durations("cupti")),
    ("training in several processes is in lockstep", check_training),
    ("a call left out is found", check_hang("missing-call", "RC-MISSING-CALL")),
    ("a blocked stream is found", check_hang("stream-block", "RC-STREAM-BLOCKED")),
    ("a wait outside of NCCL is found", check_hang("wait-outside", "RC-STUCK-OUTSIDE")),
    ("a replay left out is found", check_hang("graph-replay", "RC-GRAPH-DIVERGED")),
    # Nobody in the process looks: what is known the GPU has written.
    ("a blocked stream is found by progress words alone",
     check_hang("stream-block", "RC-STREAM-BLOCKED", "progress",
                {"ROLLCALL_GPU_POLL_MS": "3600000"})),
    ("a rank that sleeps in every step is found, and its healthy twin names nobody", check_slow),
    ("PyTorch DDP trains as before", check_torch(False, ("off", *TIMINGS))),
    ("PyTorch DDP trains as before, its step a CUDA graph", check_torch(True, ("events",))),
    ("latency added to an 8-byte AllReduce", check_latency(lambda machine: machine.ranks(), True)),
    ("the same of one rank, for which NCCL launches no kernel", check_latency(lambda _: 1, False)),
]


def run_check(check, machine):
    """What one row says. Whatever goes wrong in it stays in it."""
    if machine.seconds_left() < CHECK_S:
        return "not reached", "no time was left (--minutes)"
    try:
        holds, text = check(machine)
        return word(holds), text
    except Skip as skip:
        return "skipped", str(skip)
    except OutOfTime as fault:
        return "not reached", str(fault)
    except Exception as error:  # pylint: disable=broad-except
        return "NO", f"{type(error).__name__}: {error}"


def row_of(name, holds, text):
    return f"| {name} | {holds} | {' '.join(text.split()).replace('|', '/')} |"


def head_of(machine, warm_up_s):
    lines = [f"{time.strftime('%Y-%m-%d')}: {machine.about}, {platform.machine()}"]
    if machine.emulated:
        lines.append("Emulated: no time below says anything about a GPU.")
    elif warm_up_s:
        lines.append(f"The first processes took {warm_up_s:.0f} s, which are not counted.")
    if machine.sharing_fault:
        lines.append(f"{machine.sharing_fault[0].upper()}{machine.sharing_fault[1:]}.")
    elif machine.sharing:
        lines.append(f"Two ranks share the GPU ({machine.sharing}) and take turns on it.")
    return [*lines, "", "| check | holds | seen |", "| --- | --- | --- |"]


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emulate", type=int, nargs="?", const=1, default=0, metavar="GPUS",
                        help="on so many emulated GPUs (1)")
    parser.add_argument("--cuda", type=int, choices=(11, 12, 13), default=13,
                        help="of --emulate: the runtime that the programs are for (13)")
    parser.add_argument("--minutes", type=float, default=8.5, help="for all of it (8.5)")
    parser.add_argument("--output", help="also write the table there")
    parser.add_argument("--keep", metavar="DIR",
                        help="keep what each run printed and recorded, to look into a NO")
    parser.add_argument("--strict", action="store_true",
                        help="a check that is skipped or not reached fails")
    parser.add_argument("--only", default="", help="checks whose name contains this")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    try:
        machine = Machine(arguments.emulate, arguments.cuda)
    except Skip as skip:
        print(f"gpu_check: {skip}", file=sys.stderr)
        return 2
    machine.keep = arguments.keep
    warm_up_s = machine.warm_up()
    machine.deadline = time.monotonic() + 60 * arguments.minutes
    machine.find_sharing()
    lines = head_of(machine, warm_up_s)
    print("\n".join(lines), flush=True)
    failed = False
    for name, check in CHECKS:
        if arguments.only not in name:
            continue
        holds, text = run_check(check, machine)
        failed = failed or holds == "NO" or (
            arguments.strict and holds in ("skipped", "not reached"))
        lines.append(row_of(name, holds, text))
        print(lines[-1], flush=True)
        if arguments.output:  # after each: a machine may be taken away
            with open(arguments.output, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
