#!/usr/bin/env python3
"""The steps of scripts/gpu_check.sh: each yields a row of the table, and holds or not."""
import argparse
import ctypes
import glob
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("ROLLCALL_GPU_CHECK_BUILD", "build/release")
ROLLCALL = os.path.join(BUILD, "tools", "rollcall")
EXAMPLES = os.path.join(BUILD, "examples")
SHIM = os.path.join(BUILD, "shim", "librollcall.so")
PLUGIN = os.path.join(BUILD, "profiler_plugin", "libnccl-profiler-rollcall.so")
PATIENCE_S = 90
PAIRS = 7  # paired runs of a small program; the median of the differences counts
TORCH_PAIRS = 3  # of a program that takes long to start; each run is a median of its own
# Seconds that a check needs at least; with less left, it is not begun.
CHECK_S = 20
TIMINGS = ("events", "progress", "cupti")
# `none`: not preloaded. `off` and those above: ROLLCALL_GPU_TIMING behind the preloaded library.
# `plugin`: the profiler plugin alone. `both`: it and the preloaded library.
MODES = ("none", "off", *TIMINGS, "plugin", "both")
# Added to the time of a call or a step, at most, in per cent (see docs/GPU.md).
GOALS = {("latency", "off"): 0.5, ("latency", "events"): 2.0, ("step", "off"): 0.1,
         ("step", "events"): 0.1}

# A step of DDP as it is, and the whole of it as one CUDA graph: then DDP is built and warmed up on
# a stream of its own, with more than ten steps, as PyTorch's notes on capture want it. The graph
# goes before the process group: NCCL ends no communicator whose kernels a graph holds.
TORCH_STEP = r"""
import os, sys, time, torch, torch.distributed as dist
rank = int(os.environ["RANK"]); graphs = sys.argv[1] == "graphs"
repeats, steps = int(sys.argv[2]), 20
if graphs: os.environ["TORCH_NCCL_ASYNC_ERROR_HANDLING"] = "0"
torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
dist.init_process_group("nccl")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(64, 1024, device="cuda")
    def step():
        optimizer.zero_grad(); model(data).square().mean().backward(); optimizer.step()
    for _ in range(20): step()
torch.cuda.current_stream().wait_stream(side)
if graphs:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    step = graph.replay
for _ in range(20): step()
times = []
for _ in range(repeats):
    torch.cuda.synchronize(); start = time.perf_counter()
    for _ in range(steps): step()
    torch.cuda.synchronize(); times.append((time.perf_counter() - start) / steps)
if rank == 0: print("nccl", torch.cuda.nccl.version(), flush=True)
if rank == 0: print("step_ns", int(sorted(times)[len(times) // 2] * 1e9), flush=True)
torch.cuda.synchronize()
if graphs: del step, graph
dist.destroy_process_group()
"""


class Skip(Exception):
    """Why a step cannot be done on this machine."""


def output_of(command):
    try:
        return subprocess.run(command, text=True, capture_output=True, check=False,
                              timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


# CUDA runtimes that the examples are built for, and what their programs are called then.
RUNTIMES = (("libcudart.so.13", ""), ("libcudart.so.12", "_cuda12"))


def library_folders():
    """Folders that hold an NCCL and a CUDA runtime, those that the user names first."""
    candidates = [os.environ[name] + "/lib" for name in ("NCCL_HOME", "CUDA_HOME")
                  if name in os.environ]
    for site in [path for path in sys.path if path.endswith("-packages")]:
        candidates += glob.glob(os.path.join(site, "nvidia", "*", "lib"))
    candidates += ["/usr/lib/x86_64-linux-gnu", "/usr/local/cuda/lib64"]
    wanted = ("libnccl.so.2", *(runtime for runtime, _ in RUNTIMES))
    return [folder for folder in candidates
            if any(os.path.exists(os.path.join(folder, name)) for name in wanted)]


def nccl_version(path):
    version = ctypes.c_int()
    try:
        ctypes.CDLL(path).ncclGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return "unknown"
    code = version.value
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


class Machine:
    def __init__(self, emulated):
        self.emulated = emulated
        self.deadline = float("inf")
        if emulated:
            self.gpus, self.gpu, self.driver, self.folders = 2, "emulated", "emulated", []
            self.suffix, self.nccl = "", "emulated"
            return
        names = output_of(["nvidia-smi", "--query-gpu=name,driver_version",
                           "--format=csv,noheader"]).splitlines()
        if not names:
            raise Skip("nvidia-smi names no GPU")
        self.gpus = len(names)
        self.gpu, _, self.driver = names[0].partition(", ")
        self.folders = library_folders()
        nccl = self.find("libnccl.so.2")
        if nccl is None:
            raise Skip("libnccl.so.2 was not found; set NCCL_HOME, or run this with the python "
                       "that has PyTorch")
        found = [suffix for runtime, suffix in RUNTIMES if self.find(runtime) and os.path.exists(
            os.path.join(EXAMPLES, "collective_loop" + suffix))]
        if not found:
            raise Skip("neither libcudart.so.13 nor libcudart.so.12 was found; set CUDA_HOME")
        self.suffix = found[0]
        self.nccl = nccl_version(nccl)

    def find(self, name):
        for folder in self.folders:
            if os.path.exists(os.path.join(folder, name)):
                return os.path.join(folder, name)
        return None

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def program(self, name):
        return os.path.join(EXAMPLES, name + self.suffix)

    def environment(self, extra):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("ROLLCALL_")}
        if self.folders:
            before = environment.get("LD_LIBRARY_PATH")
            environment["LD_LIBRARY_PATH"] = ":".join(self.folders + ([before] if before else []))
        environment.update(extra)
        return environment


# The launcher preloads the library; this takes it out again and leaves the others (the emulator).
WITHOUT_SHIM = ('LD_PRELOAD=$(printf %s "$LD_PRELOAD" | tr : "\\n" | grep -v librollcall.so | '
                'paste -sd:) exec "$@"')


class Run:
    """A program under `rollcall run`, in one of the modes."""

    def __init__(self, machine, program, mode="events", ranks=0, environment=None):
        # Files in memory: the driver may refuse to register those of a disk.
        self.folder = tempfile.mkdtemp(prefix="gpu-check-", dir=memory_folder())
        self.directory = os.path.join(self.folder, "run")
        timed = mode if mode in TIMINGS else "off"
        settings = {"ROLLCALL_GPU_TIMING": timed, "ROLLCALL_OVERHEAD_BUDGET": "100",
                    **(environment or {})}
        if mode in ("plugin", "both"):
            settings["NCCL_PROFILER_PLUGIN"] = os.path.abspath(PLUGIN)
        command = [ROLLCALL, "run", "-d", self.directory]
        command += ["--emulate=2"] if machine.emulated else []
        command += ["-n", str(ranks)] if ranks else []
        command.append("--")
        if mode in ("none", "plugin"):
            # In front of the program and behind the launcher: the library is not preloaded there.
            command += ["sh", "-c", WITHOUT_SHIM, "sh"]
        if ranks > machine.gpus:
            command += ["sh", "-c", 'NCCL_HOSTID="rank$RANK" exec "$@"', "sh"]
        self.command = command + list(program)
        self.environment = machine.environment(settings)
        self.process = None

    def __enter__(self):
        self.out = open(os.path.join(self.folder, "out"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=subprocess.STDOUT, env=self.environment)
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.out.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def text(self):
        self.out.seek(0)
        return self.out.read()

    def finish(self):
        status = self.process.wait(PATIENCE_S)
        text = self.text()
        if status != 0:
            raise RuntimeError(f"exit status {status}: {text.strip().splitlines()[-1:]}")
        return text

    def ask(self, *arguments):
        done = subprocess.run([ROLLCALL, *arguments], text=True, capture_output=True, check=False)
        return done.stdout


def memory_folder():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def loop(machine, mode, iterations="200"):
    with Run(machine, [machine.program("collective_loop"), iterations], mode) as run:
        lines = [line.split() for line in run.finish().splitlines()]
        rows = {int(line[0]): [int(word) for word in line[1:]] for line in lines
                if len(line) == 4 and line[0].isdigit()}
        stats = None
        if mode in TIMINGS:
            stats = json.loads(run.ask("stats", run.directory, "--json"))["operations"]
        return rows, stats


def check_recorder(machine):
    with Run(machine, [machine.program("collective_loop"), "50"]) as run:
        run.finish()
        report = json.loads(run.ask("diff", run.directory, "--json"))
        code = report["findings"][0]["code"]
        operations = json.loads(run.ask("stats", run.directory, "--json"))["operations"]
    calls = sum(row["calls"] for row in operations)
    timed = sum(row["timed"] for row in operations)
    return code == "RC-IN-LOCKSTEP" and calls == timed > 0, f"{code}, {timed} of {calls} timed"


def check_durations(mode):
    """Our median against the program's own two events, at the largest size."""
    def check(machine):
        rows, stats = loop(machine, mode)
        bytes_max = max(rows)
        own_ns = rows[bytes_max][1]
        ours_ns = max((row for row in stats if row["bytes_to"] == bytes_max),
                      key=lambda row: row["timed"])["median_ns"]
        # Emulated launches take longer than emulated kernels, and a busy machine stretches both.
        holds = (0 < ours_ns <= 2 * own_ns if machine.emulated else
                 abs(ours_ns - own_ns) <= max(0.1 * own_ns, 5_000))
        return holds, f"{ours_ns} ns against {own_ns} ns"
    return check


def check_cupti(machine):
    """Every operation with the times and the name of its kernel, and nothing dropped."""
    with Run(machine, [machine.program("collective_loop"), "50"], "cupti") as run:
        run.finish()
        lines = [json.loads(line) for line in run.ask("dump", run.directory).splitlines()]
    meta = next(line for line in lines if line["type"] == "run")["meta"]
    if meta.get("gpu_timing") != "cupti":
        return False, f"gpu_timing {meta.get('gpu_timing')}, gpu_cupti {meta.get('gpu_cupti')}"
    counters = next(line for line in lines if line["type"] == "stats")["counters"]
    operations = [line for line in lines if line["type"] == "op" and line["op"] != "GroupEnd"]
    done = [line for line in operations if line["state"] == "finished" and "kernel" in line
            and line["launched_ns"] <= line["started_ns"]]
    losses = [f"{counters[name]} {name}" for name in
              ("gpu_records_dropped", "gpu_kernels_unmatched", "gpu_kernels_unnamed")]
    kernels = sorted({line["kernel"] for line in done})
    return len(done) == len(operations) > 0, (
        f"{len(done)} of {len(operations)} timed, {', '.join(losses)}, {', '.join(kernels)}")


def latency(machine):
    modes = [mode for mode in MODES if mode == "none" or os.path.exists(PLUGIN)
             or mode not in ("plugin", "both")]
    differences = {mode: [] for mode in modes if mode != "none"}
    for number in range(1 if machine.emulated else PAIRS):
        if number >= 3 and machine.seconds_left() < 3 * CHECK_S:
            break
        host_ns = {mode: loop(machine, mode, "1000")[0][8][0] for mode in modes}
        for mode, found in differences.items():
            found.append(100 * (host_ns[mode] - host_ns["none"]) / host_ns["none"])
    return {mode: statistics.median(found) for mode, found in differences.items()}


def check_latency(machine):
    added = latency(machine)
    holds = machine.emulated or all(
        added[mode] <= goal for (what, mode), goal in GOALS.items() if what == "latency")
    return holds, ", ".join(f"{mode} {added[mode]:+.2f} %" for mode in added)


def ranks_of(machine):
    """Ranks, and what several ranks on one GPU need."""
    if machine.gpus > 1:
        return min(machine.gpus, 4), {}
    return 2, {"NCCL_MULTI_RANK_GPU_ENABLE": "1"}


def check_training(machine):
    ranks, environment = ranks_of(machine)
    program = [machine.program("mini_train"), "--steps", "5", "--no-verify"]
    with Run(machine, program, ranks=ranks, environment=environment) as run:
        run.finish()
        code = json.loads(run.ask("diff", run.directory, "--json"))["findings"][0]["code"]
    return code == "RC-IN-LOCKSTEP", f"{ranks} ranks: {code}"


def check_plugin(machine):
    """The plugin alone: one record per call."""
    if not os.path.exists(PLUGIN):
        raise Skip("the profiler plugin is not built")
    with Run(machine, [machine.program("collective_loop"), "50"], "plugin") as run:
        run.finish()
        text = run.ask("stats", run.directory, "--json")
    if not text:
        raise Skip("this NCCL did not load the plugin")
    calls = sum(row["calls"] for row in json.loads(text)["operations"])
    return calls >= 200, f"{calls} calls"


def check_graphs(machine):
    ranks, environment = ranks_of(machine)
    program = [machine.program("mini_train"), "--steps", "5", "--no-verify", "--graphs"]
    with Run(machine, program, ranks=ranks, environment=environment) as run:
        run.finish()
        code = json.loads(run.ask("diff", run.directory, "--json"))["findings"][0]["code"]
        lines = [json.loads(line) for line in run.ask("dump", run.directory).splitlines()]
    replays = [line for line in lines if line.get("op") == "GraphLaunch"]
    done = sum(line["state"] == "finished" for line in replays)
    words = {line["meta"].get("gpu_words", "not asked for") for line in lines
             if line["type"] == "run"}
    positions = [[lane["position"] for lane in line["lanes"]] for line in lines
                 if line["type"] == "graph"]
    holds = code == "RC-IN-LOCKSTEP" and len(replays) == done == 4 * ranks
    return holds, (f"{code}, {done} of {len(replays)} replays seen, words: {', '.join(words)}, "
                   f"positions {positions}")


def check_words(machine):
    """Progress words, in a directory whose files may be registered with the driver."""
    with Run(machine, [machine.program("collective_loop"), "50"], "progress") as run:
        run.finish()
        lines = [json.loads(line) for line in run.ask("dump", run.directory).splitlines()]
    words = next(line for line in lines if line["type"] == "run")["meta"].get("gpu_words")
    counters = next(line for line in lines if line["type"] == "stats")["counters"]
    return words == "gpu", f"words: {words}, {counters['gpu_unwritten']} not written"


def check_hang(fault, expected):
    def check(machine):
        ranks, environment = ranks_of(machine)
        program = [machine.program("mini_train"), "--steps", "3", "--no-verify", "--fault",
                   f"{fault}@1:1"]
        code = "no verdict"
        with Run(machine, program, ranks=ranks, environment=environment) as run:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and run.process.poll() is None:
                time.sleep(2)
                text = run.ask("diff", run.directory, "--json", "--stalled-after", "5")
                if not text:
                    continue
                code = json.loads(text)["findings"][0]["code"]
                if code == expected:
                    break
        return code == expected, code
    return check


def has_torch(machine):
    """Whether there is a PyTorch with a GPU; on the emulator only its programs can tell that."""
    try:
        import torch  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise Skip("this python has no torch") from None
    if not machine.emulated and not torch.cuda.is_available():
        raise Skip("torch sees no GPU")


def torch_step(machine, what, mode):
    """Nanoseconds of a step, what `rollcall diff` said, and how the GPU was timed in fact."""
    script = os.path.join(tempfile.gettempdir(), f"rollcall-gpu-check-{os.getpid()}.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(TORCH_STEP)
    ranks = min(machine.gpus, 4)
    repeats = "1" if machine.emulated else "30"
    try:
        with Run(machine, [sys.executable, script, what, repeats], mode, ranks=ranks) as run:
            lines = run.finish().splitlines()
            step_ns = [int(line.split()[1]) for line in lines if line.startswith("step_ns")]
            if not step_ns:
                raise RuntimeError("no time was printed")
            if mode == "none":
                return step_ns[0], None, None
            code = json.loads(run.ask("diff", run.directory, "--json"))["findings"][0]["code"]
            dump = run.ask("dump", run.directory).splitlines()
            metas = [line["meta"] for line in map(json.loads, dump) if line["type"] == "run"]
            return step_ns[0], code, metas[0].get("gpu_timing", "off")
    finally:
        os.remove(script)


class Steps:
    """Steps with each mode against one without any, in turns; one that fails leaves the others."""

    def __init__(self, modes):
        self.added = {mode: [] for mode in modes}  # per cent
        self.faults = {}

    def measure(self, machine, what):
        bare_ns, _, _ = torch_step(machine, what, "none")
        for mode, added in self.added.items():
            if mode in self.faults or (added and machine.seconds_left() < CHECK_S):
                continue
            try:
                timed_ns, code, timing = torch_step(machine, what, mode)
            except (RuntimeError, ValueError, subprocess.TimeoutExpired) as error:
                self.faults[mode] = str(error)
                continue
            added.append(100 * (timed_ns - bare_ns) / bare_ns)
            if code != "RC-IN-LOCKSTEP":
                self.faults[mode] = str(code)
            elif timing != mode:
                self.faults[mode] = f"the GPU was timed by {timing}"

    def medians(self):
        return {mode: statistics.median(found) for mode, found in self.added.items() if found}

    def hold(self):
        medians = self.medians()
        return not self.faults and all(medians[mode] <= goal for (kind, mode), goal
                                       in GOALS.items() if kind == "step" and mode in medians)

    def text(self):
        medians = self.medians()
        words = [f"{mode} {medians[mode]:+.2f} %" for mode in medians]
        words += [f"{mode}: {fault}" for mode, fault in self.faults.items()]
        pairs = max(len(found) for found in self.added.values())
        return f"step {', '.join(words)} (medians of {pairs} pairs)"


def check_torch(what, modes):
    def check(machine):
        has_torch(machine)
        steps = Steps(modes)
        for number in range(1 if machine.emulated else TORCH_PAIRS):
            if number > 0 and machine.seconds_left() < (len(modes) + 2) * CHECK_S:
                break
            steps.measure(machine, what)
        return not steps.faults if machine.emulated else steps.hold(), steps.text()
    return check


CHECKS = [
    ("every call is recorded and timed", check_recorder),
    ("the profiler plugin alone records every call", check_plugin),
    ("CUDA graphs: every replay is seen", check_graphs),
    ("the GPU writes progress words into the file", check_words),
    ("CUPTI tells of every kernel", check_cupti),
    ("GPU times agree with CUDA events of the program's own", check_durations("events")),
    ("CUPTI's times agree with CUDA events of the program's own", check_durations("cupti")),
    ("time added to an 8-byte AllReduce on the host", check_latency),
    ("training in several processes is in lockstep", check_training),
    ("a call left out is found", check_hang("missing-call", "RC-MISSING-CALL")),
    ("a blocked stream is found", check_hang("stream-block", "RC-STREAM-BLOCKED")),
    ("a wait outside of NCCL is found", check_hang("wait-outside", "RC-STUCK-OUTSIDE")),
    ("PyTorch DDP trains as before", check_torch("eager", ("off", *TIMINGS))),
    ("PyTorch DDP trains as before, its step a CUDA graph", check_torch("graphs", ("events",))),
]


def run_check(check, machine):
    try:
        holds, text = check(machine)
        return "yes" if holds else "NO", text
    except Skip as skip:
        return "skipped", str(skip)
    except (RuntimeError, ValueError, KeyError, StopIteration, IndexError,
            subprocess.TimeoutExpired) as error:
        return "NO", f"{type(error).__name__}: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--emulate", action="store_true")
    parser.add_argument("--minutes", type=float, default=9, help="begin no check after these (9)")
    parser.add_argument("--output", help="also write the table there")
    parser.add_argument("--strict", action="store_true", help="a check that is skipped fails")
    parser.add_argument("--only", default="", help="checks whose name contains this")
    arguments = parser.parse_args()
    try:
        machine = Machine(arguments.emulate)
        machine.deadline = time.monotonic() + 60 * arguments.minutes
    except Skip as skip:
        print(f"gpu_check: {skip}", file=sys.stderr)
        return 2
    lines = [f"{time.strftime('%Y-%m-%d')}: {machine.gpus} x {machine.gpu}, driver "
             f"{machine.driver}, NCCL {machine.nccl}, {platform.machine()}",
             "Emulated: no time below says anything about a GPU." if machine.emulated else "",
             *([""] if machine.emulated else []), "| check | holds | seen |", "| --- | --- | --- |"]
    print("\n".join(lines), flush=True)
    failed = False
    for name, check in CHECKS:
        if arguments.only not in name:
            continue
        if machine.seconds_left() < CHECK_S:
            holds, text = "skipped", "no time was left (--minutes)"
        else:
            holds, text = run_check(check, machine)
        failed = failed or holds == "NO" or (arguments.strict and holds == "skipped")
        lines.append(f"| {name} | {holds} | {text} |")
        print(lines[-1], flush=True)
        if arguments.output:  # after each: a machine may be taken away
            with open(arguments.output, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
