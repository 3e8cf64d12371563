#!/usr/bin/env python3
"""Every way into NCCL that can be tried without a GPU, each in a healthy job and in one that hangs.

    ways_in.py --torch PYTHON [WORDS OF A SENTENCE]
    ways_in.py --torch-cuda12 PYTHON [WORDS OF A SENTENCE]
    ways_in.py --torch-cuda11 PYTHON [WORDS OF A SENTENCE]

PYTHON is an interpreter that has PyTorch, nccl4py and mpi4py, or only an older PyTorch, of the
CUDA 12 or 11 line.
"""
import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

import pytorch_faults
import pytorch_job
from job import Job, clean_environment, expect, expect_equal
from pytorch_job import Zygotes, job

FAULT = pytorch_faults.faults.KINDS["shape"]
# DDP crashes in PyTorch's own reducer when a backend is written in Python, as nccl4py's is.
WITHOUT_DDP = pytorch_faults.faults.KINDS["skip-shard"]
TORCHRUN_PATIENCE_S = 400
CUDA11_REPLAYS = 5
VARYING = re.compile(r"\d+\.\d s|\d+ MiB")
WARNING_HEAD = re.compile(r"^\[rank\d+\]:W\d{4} [\d:.]+ \d+ ")


def backend_is_recorded(zygotes, backend, fault=FAULT):
    def test():
        pytorch_faults.healthy(zygotes.one(), backend, fault.parallel)
        pytorch_faults.faulty(zygotes.one(), backend, fault)
    return test


def words_of(output):
    """What a rank printed, without times and process ids, which PyTorch's warnings begin with, and
    without what Triton's bindings say at the end of what the zygote has kept (gc.freeze)."""
    own, _, _ = output.partition("nanobind: leaked")
    return [WARNING_HEAD.sub("", line) for line in own.splitlines()]


def large_outcome_of(zygote):
    """Of large.py with a model that is not, and without its times and sizes, which vary."""
    small = ["--layers", "2", "--width", "256", "--tokens", "16", "--steps", "2"]
    with pytorch_job.PytorchJob(zygote, 2, small, script="large") as run:
        run.wait_for_end_or_hang()
        return run.statuses(), [VARYING.sub("…", line) for rank in range(2)
                                for line in words_of(run.output(rank))]


def large_is_the_same_without_rollcall(zygotes):
    def test():
        plain = large_outcome_of(zygotes.one(with_recorder=False))
        expect_equal(plain[0], [0, 0], "statuses without Rollcall")
        expect_equal(plain[1][:2], ["step 0: …", "step 1: …"], "what it prints")
        expect_equal(large_outcome_of(zygotes.one()), plain, "statuses and output with Rollcall")
    return test


def outcome_of(zygote, backend, style):
    """Kernels that would fill a tensor do nothing here. Fresh memory is zero; what PyTorch's cache
    hands out again holds what was there, addresses among it, which differ from process to process.
    """
    with pytorch_job.PytorchJob(zygote, 2, ["--parallel", style, "--backend", backend],
                                environment={"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}) as run:
        run.wait_for_end_or_hang()
        logs = []
        for rank in range(2):
            with open(f"{run.call_log_prefix()}.{rank}", encoding="utf-8") as file:
                logs.append(file.read())
        return run.statuses(), [words_of(run.output(rank)) for rank in range(2)], logs


def output_is_the_same_without_rollcall(zygotes, backend):
    """Losses, output, exit status, and the calls that the script made."""
    def test():
        for style in pytorch_faults.STYLES:
            plain = outcome_of(zygotes.one(with_recorder=False), backend, style)
            recorded = outcome_of(zygotes.one(), backend, style)
            expect_equal(plain[0], [0, 0], f"statuses of {style} without Rollcall")
            losses = [line for line in plain[1][0] if line.startswith("step ")]
            expect(len(losses) >= 2, f"losses of {style}: {plain[1][0]}")
            for what, before, after in zip(("statuses", "output", "calls"), plain, recorded):
                expect_equal(after, before, f"{what} of {style}")
    return test


def line_of(script, text):
    with open(script, encoding="utf-8") as file:
        return 1 + next(at for at, line in enumerate(file.read().split("\n")) if text in line)


def torchrun_hang_is_named(python):
    """The README's command: nothing of the job is prepared, and the launcher is the real one."""
    def test():
        with Job(4) as run:
            torchrun = [python, "-m", "torch.distributed.run", "--nproc-per-node", "4"]
            run.command = [job.ROLLCALL, "run", "--emulate=4", "-d", run.run_directory, "--watch",
                           "15", "--kill-on-hang", "--", *torchrun,
                           os.path.join(pytorch_job.EXAMPLES, "train.py"), "--fault",
                           f"{FAULT.name}@2:1"]
            run.environment.update({"OMP_NUM_THREADS": "1"})
            run.start()
            expect_equal(run.wait(TORCHRUN_PATIENCE_S), 1, f"the status ({run.describe()})")
            expect("RC-COUNT-MISMATCH" in run.stderr(), f"no verdict\n{run.describe()}")
            leading = run.diff()["findings"][0]
            expect_equal(leading["code"], "RC-COUNT-MISMATCH", "the verdict")
            expect_equal([one["rank"] for one in leading["culprits"]], [2], "the culprits")
            script = os.path.join(pytorch_job.EXAMPLES, "styles.py")
            evidence = " ".join(one["text"] for one in leading["evidence"])
            expect(f"called at {script}:{line_of(script, 'all_reduce(metrics)')} metrics_of"
                   in evidence, f"the script's line is not in {evidence}")
            # torchrun itself and its helpers call no NCCL.
            rings = rings_in(run.run_directory)
            expect_equal(len(rings), 4, f"files of processes that called NCCL: {rings}")
    return test


# 100: every operation is timed, however slow the machine that runs this test.
TIMED = {"ROLLCALL_GPU_TIMING": "events", "ROLLCALL_OVERHEAD_BUDGET": "100"}


def timed_job(zygotes, ranks, script, *words):
    return pytorch_job.PytorchJob(zygotes.one(), ranks, words, script=script, environment=TIMED)


def expect_healthy(run, ranks):
    run.wait_for_end_or_hang()
    expect_equal(run.statuses(), [0] * ranks, f"exit statuses\n{run.describe()}")
    expect_lockstep(run, ranks)


def leading_of_hang(run, planted_by):
    """The verdict on a job that hangs by itself, for good, and is then killed."""
    for rank in planted_by:
        ended = run.wait_for_end_or_hang(planted_by=rank)
        expect(not ended, f"the job does not hang\n{run.describe()}")
    run.wait_until(lambda: hangs(run), "a verdict about a hang")
    run.kill()
    return run.diff()["findings"][0]


def kept_graph_is_named(zygotes):
    """Of jobs that are alike but for the moment at which their graph goes."""
    def test():
        with timed_job(zygotes, 2, "kept_graph") as run:
            expect_healthy(run, 2)
        with timed_job(zygotes, 2, "kept_graph", "keep") as run:
            leading = leading_of_hang(run, [0, 1])
            expect_equal(leading["code"], "RC-STUCK-IN-CALL", f"\n{run.diff_text()}")
            expect_equal([one["rank"] for one in leading["culprits"]], [0, 1], "the culprits")
            expect("captured into CUDA graphs" in leading["summary"], leading["summary"])
    return test


# What rank 3 does in gpu_waits.py -> the verdict; whom the other ranks wait for they cannot see.
GPU_WAITS = {"blocked": "RC-STREAM-BLOCKED", "no-column": "RC-GRAPH-DIVERGED",
             "order": "RC-ORDER-MISMATCH", "branch": "RC-STREAM-BLOCKED",
             "skip": "RC-MISSING-CALL"}


def rank_that_gpus_wait_for_is_named(zygotes, kind):
    def test():
        with timed_job(zygotes, 4, "gpu_waits", kind, "healthy") as run:
            expect_healthy(run, 4)
        with timed_job(zygotes, 4, "gpu_waits", kind) as run:
            leading = leading_of_hang(run, [3])
            expect_equal(leading["code"], GPU_WAITS[kind], f"\n{run.diff_text()}")
            expect_equal([one["rank"] for one in leading["culprits"]], [3], "the culprits")
    return test


def graphs_captured_anew_are_in_lockstep(zygotes):
    def test():
        with timed_job(zygotes, 4, "gpu_waits", "anew") as run:
            expect_healthy(run, 4)
            expect("counted as the calls it holds" in run.diff()["findings"][0]["summary"],
                   run.diff_text())
    return test


def cuda11_job(python, *words):
    # What this PyTorch's watchdog asks of events would break a capture.
    return Job(2, program=[python, here("cuda11_job.py"), str(CUDA11_REPLAYS), *words],
               options=["--watch", "6", "--kill-on-hang"],
               environment={**TIMED, "NCCL_ASYNC_ERROR_HANDLING": "0"})


def cuda11_is_recorded(python):
    def test():
        with cuda11_job(python) as run:
            run.start()
            expect_equal(run.wait(TORCHRUN_PATIENCE_S), 0, f"the status ({run.describe()})")
            expect_equal(run.stdout().count("done 11.7"), 2, f"ranks on CUDA 11 ({run.stdout()})")
            expect_lockstep(run, 2)
            lines = run.dump()
            calls = [line for line in lines if line["type"] == "op" and line["op"] != "GroupEnd"]
            captured = [call for call in calls if call["graph"] and call["op"] != "GraphLaunch"]
            expect_equal([call["op"] for call in captured], ["AllReduce"] * 4, "captured calls")
            for call in calls:
                expect(call in captured or call["state"] == "finished", f"the state of {call}")
            replays = [call["replay"] for call in calls if call["op"] == "GraphLaunch"]
            expect_equal(sorted(replays), sorted(2 * [0, *range(CUDA11_REPLAYS)]), "the replays")
            graphs = [line for line in lines if line["type"] == "graph"]
            expect_equal(sorted((graph["operations"], graph["launches"],
                                 graph["lanes"][0]["position"]) for graph in graphs),
                         [(1, 1, 2)] * 2 + [(1, CUDA11_REPLAYS, 2)] * 2, "the graphs")
    return test


def replay_left_out_on_cuda11_is_named(python):
    def test():
        with cuda11_job(python, "skip") as run:
            run.start()
            run.wait(TORCHRUN_PATIENCE_S)
            expect("done" not in run.stdout(), f"the job does not hang ({run.describe()})")
            leading = run.diff()["findings"][0]
            expect_equal(leading["code"], "RC-GRAPH-DIVERGED", f"\n{run.diff_text()}")
            expect_equal([one["rank"] for one in leading["culprits"]], [1], "the culprits")
    return test


ALIKE_STEP = 3
# mode -> verdict, severity, and which of the step's three calls is the first that is not as it
# should be
ALIKE = {"missing": ("RC-MISSING-CALL", "hang", 1), "extra": ("RC-MISSING-CALL", "hang", 2),
         "order": ("RC-ORDER-MISMATCH", "corruption", 1)}


def alike_calls_are_told_apart(zygotes):
    """By the recorder and by PyTorch's dumps; the latter were written before the job hangs."""
    def test():
        for mode in ("", *ALIKE):
            with tempfile.TemporaryDirectory(prefix="rollcall-clients-") as dumps, \
                    pytorch_job.PytorchJob(
                        zygotes.one(), 3, [dumps, *([mode, str(ALIKE_STEP)] if mode else [])],
                        script="alike_calls", environment={"TORCH_FR_BUFFER_SIZE": "2000"}) as run:
                # However long PyTorch takes to write them; a job that hangs does so behind them.
                run.wait_until(lambda: is_dumped(dumps, 3), "the ranks' dumps")
                if ALIKE.get(mode, ("", ""))[1] == "hang":
                    run.wait_until(lambda: hangs(run), "a verdict about a hang")
                    run.kill()
                else:
                    run.wait_for_end_or_hang()
                    expect_equal(run.statuses(), [0] * 3, f"exit statuses\n{run.describe()}")
                if not mode:
                    expect_lockstep(run, 3)
                # Positions begin with 0 in the records, with 1 in PyTorch's dumps.
                expect_alike(run, run.run_directory, mode, 0, ALIKE.get(mode, ("", "", 0))[1])
                # Whether the calls behind it were through by then is a matter of moments.
                expect_alike(run, dumps, mode, 1, None)
    return test


def is_dumped(folder, ranks):
    return all(os.path.exists(os.path.join(folder, f"rank_{rank}")) for rank in range(ranks))


def hangs(run):
    return run.diff("--stalled-after", "3")["findings"][0]["severity"] == "hang"


def expect_alike(run, folder, mode, first, severity):
    done = run.rollcall("diff", folder, "--json")
    leading = json.loads(done.stdout)["findings"][0]
    if not mode:
        expect_equal(leading["culprits"], [], f"the culprits\n{done.stdout}")
        return
    code, _, place = ALIKE[mode]
    expect_equal((leading["code"], severity and leading["severity"]), (code, severity), done.stdout)
    expect_equal([(one["rank"], one["seq"]) for one in leading["culprits"]],
                 [(1, first + 3 * ALIKE_STEP + place)], done.stdout)
    wanted = "reduce_accuracy" if mode == "order" else "reduce_norm"
    expect(wanted in leading["summary"], leading["summary"])


def expect_lockstep(run, ranks):
    report = run.diff()
    expect_equal([finding["code"] for finding in report["findings"]], ["RC-IN-LOCKSTEP"],
                 f"the verdict\n{run.diff_text()}")
    expect_equal(report["run"]["ranks"], ranks, "ranks of the run")


def rings_in(folder):
    return [name for name in os.listdir(folder) if name.endswith(".ring")]


def here(name):
    return os.path.join(pytorch_job.HERE, name)


def nccl4py_alone_is_recorded(python):
    def test():
        with Job(2, program=[python, here("nccl4py_client.py")]) as run:
            run.command += [run.folder, "3"]
            run.start()
            expect_equal(run.wait(TORCHRUN_PATIENCE_S), 0, f"the status ({run.describe()})")
            expect_equal(sorted(run.stdout().splitlines()),
                         [f"rank {rank} of 2 done" for rank in range(2)], "what it printed")
            calls = [line["op"] for line in run.dump() if line["type"] == "op"]
            expect_equal(calls, ["AllReduce"] * 6, "recorded calls")
            expect_lockstep(run, 2)
    return test


def crash_of_nccl4py_in_ddp_is_pytorchs_own(python):
    """On the CPU, with neither Rollcall nor its emulator in the process: DDP needs tensors in the
    future of a reduction, and the backend nccl4py gives it True."""
    def test():
        statuses = {}
        for holds in ("tensors", "true"):
            done = subprocess.run([python, here("python_backend.py"), holds], text=True,
                                  env=clean_environment(), capture_output=True, check=False,
                                  timeout=TORCHRUN_PATIENCE_S)
            statuses[holds] = done.returncode
        expect_equal(statuses, {"tensors": 0, "true": -signal.SIGSEGV}, "exit statuses")
    return test


def helpers_leave_nothing_behind(python):
    def test():
        with Job(2, program=[python, here("helpers_job.py")]) as run:
            run.start()
            expect_equal(run.wait(TORCHRUN_PATIENCE_S), 0, f"the status ({run.describe()})")
            seen = [int(line.split()[3]) for line in run.stdout().splitlines() if "helpers" in line]
            expect_equal(len(seen), 4, f"lines about helpers ({run.describe()})")
            # Loader workers, two and then one, and a resource tracker; on rank 0 a pool, too.
            expect(min(seen) >= 2 and max(seen) >= 4, f"there were helpers: {seen}")
            expect_equal(len(rings_in(run.run_directory)), 2, "files of processes with NCCL calls")
            expect_lockstep(run, 2)
    return test


def came_with_an_old_id(finding):
    """PyTorch 2.15 keeps one store for all attempts, with the unique id of the first in it: a rank
    that is there before rank 0 has put a new one in takes that, and NCCL refuses it."""
    return finding["code"] == "RC-ASYNC-ERROR" and "made the unique id" in finding["summary"]


def restarts_of_torchrun_are_linked(python):
    def test():
        with Job(2) as run:
            run.command = [job.ROLLCALL, "run", "--emulate=2", "-d", run.run_directory, "--",
                           python, "-m", "torch.distributed.run", "--nproc-per-node", "2",
                           "--max-restarts", "1", os.path.join(pytorch_job.EXAMPLES, "train.py"),
                           "--fault", "raise@1:1"]
            run.environment["OMP_NUM_THREADS"] = "1"
            run.start()
            expect_equal(run.wait(TORCHRUN_PATIENCE_S), 1, f"the status ({run.describe()})")
            inside = sorted(os.listdir(run.run_directory))
            expect_equal([name for name in inside if not name.endswith(".ended")],
                         ["attempt-0", "attempt-1"], "directories of the attempts")
            # torchrun, which outlives them all, ended with 1.
            expect_equal(len(inside), 3, f"one file of how the whole job ended: {inside}")
            expect("attempt-0" in run.diff_text(), f"the older one is named: {run.diff_text()}")
            for attempt in ("attempt-0", "attempt-1"):
                folder = os.path.join(run.run_directory, attempt)
                expect_equal(len(rings_in(folder)), 2, f"files of {attempt} ({run.describe()})")
                done = run.rollcall("diff", folder, "--json")
                leading = json.loads(done.stdout)["findings"][0]
                is_old_id = attempt == "attempt-1" and came_with_an_old_id(leading)
                expect(is_old_id or leading["code"] in pytorch_faults.faults.KINDS["raise"].codes,
                       f"{attempt} leads with {leading['code']}: {leading['summary']}")
                expect_equal([one["rank"] for one in leading["culprits"]], [1],
                             f"the culprits of {attempt}")
    return test


def notebook_is_recorded(python):
    cells = [f"import ctypes, sys; sys.path.insert(0, {pytorch_job.E2E!r})\n"
             "import ctypes_client as client",
             "nccl, cuda = client.Library('libnccl.so.2'), client.Library('libcudart.so.12')\n"
             "unique_id = client.UniqueId()\n"
             "nccl.call('ncclGetUniqueId', ctypes.byref(unique_id))",
             "print('sum', client.train(nccl, cuda, unique_id, 0, 1, 3))"]

    def test():
        with Job(1) as run:
            run.command = [python, here("notebook.py"), os.path.abspath(job.ROLLCALL), "run", "-q",
                           "--emulate=1", "-d", run.run_directory, "--", "--", *cells]
            run.start()
            expect_equal(run.wait(TORCHRUN_PATIENCE_S), 0, f"the status ({run.describe()})")
            expect("sum 1.0" in run.stdout(), f"the last cell's output\n{run.describe()}")
            lines = run.dump()
            expect_equal([line["job_rank"] for line in lines if line["type"] == "run"], [None],
                         "ranks of recorded processes")
            calls = [line["op"] for line in lines if line["type"] == "op"]
            expect_equal(calls, ["AllReduce"] * 3, "recorded calls")
            codes = [finding["code"] for finding in run.diff()["findings"]]
            expect_equal(codes, ["RC-IN-LOCKSTEP"], f"the verdict\n{run.diff_text()}")
    return test


def groups_of_a_mesh_have_their_names(python, backend):
    packages = os.path.join(pytorch_job.ROOT, "packaging", "python")

    def mesh_job(*words):
        return Job(4, program=[python, here("mesh_job.py"), packages, backend, *words],
                   options=["--watch", "6", "--kill-on-hang"])

    def test():
        with mesh_job("healthy") as run:
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            expect_equal(run.stdout().count("watched True"), 4, "ranks that tell their names")
            names = {line["name"].partition(":")[0] for line in run.dump()
                     if line["type"] == "comm"}
            # A group without a description keeps the name that NCCL was told.
            expect({"default_pg", "mesh_dp", "mesh_tp"} < names and len(names) == 4,
                   f"names of communicators: {names}")
        with mesh_job() as run:
            run.start()
            run.wait(TORCHRUN_PATIENCE_S)
            leading = run.diff()["findings"][0]
            expect_equal(leading["code"], "RC-MISSING-CALL", f"\n{run.diff_text()}")
            expect_equal([one["coordinates"] for one in leading["culprits"]],
                         [{"dp": 1, "tp": 1}], "the culprits' places")
            expect("rank 3 (dp 1, tp 1)" in run.diff_text(), f"the text\n{run.diff_text()}")
    return test


def mpi4py_is_recorded(python):
    def test():
        if not shutil.which("mpirun"):
            return "MPI is not installed"
        if subprocess.run([python, "-c", "from mpi4py import MPI"], env=clean_environment(),
                          stderr=subprocess.DEVNULL, check=False).returncode != 0:
            return "mpi4py is not installed"
        script = os.path.join(pytorch_job.ROOT, "tests", "e2e", "ctypes_client.py")
        with Job(3) as run:
            root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            run.command = ["mpirun", "-np", "3", "--oversubscribe", *root, job.ROLLCALL, "run",
                           "--emulate=3", "-d", run.run_directory, "--", python, script, "--mpi"]
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            sums = sorted(line for line in run.stdout().splitlines() if " sum " in line)
            expect_equal(sums, [f"rank {rank} sum 6.0" for rank in range(3)], "the results")
            expect_lockstep(run, 3)
        return None
    return test


def tests_of_older(zygotes):
    return [("an older PyTorch of the CUDA 12 line is recorded, healthy and hanging",
             backend_is_recorded(zygotes, "nccl"))]


def tests_of_cuda11(python):
    return [("a PyTorch of the CUDA 11 line is recorded and its GPU timed, graphs included",
             cuda11_is_recorded(python)),
            ("a replay that one rank leaves out under CUDA 11 is named",
             replay_left_out_on_cuda11_is_named(python))]


def tests_of_present(python, zygotes):
    backends = {"nccl": FAULT, "nccl-legacy": FAULT, "nccl-lazy": FAULT, "nccl4py": WITHOUT_DDP}
    return [
        ("a script under torchrun hangs for real, and its verdict names the rank",
         torchrun_hang_is_named(python)),
        *[(f"what a job on {backend} prints, loses, calls and returns is the same without Rollcall",
           output_is_the_same_without_rollcall(zygotes, backend))
          for backend in pytorch_faults.DESCRIBED],
        ("what large.py prints and returns is the same without Rollcall",
         large_is_the_same_without_rollcall(zygotes)),
        *[(f"PyTorch's backend {backend} is recorded, healthy and hanging",
           backend_is_recorded(zygotes, backend, fault)) for backend, fault in backends.items()],
        ("a process group that is destroyed before its CUDA graph is named",
         kept_graph_is_named(zygotes)),
        *[(f"the rank that GPUs wait for is named through other communicators ({kind})",
           rank_that_gpus_wait_for_is_named(zygotes, kind)) for kind in GPU_WAITS],
        ("graphs that one rank captures anew are in lockstep with the others'",
         graphs_captured_anew_are_in_lockstep(zygotes)),
        ("calls that only their lines tell apart are told apart, by the records and by PyTorch's "
         "dumps", alike_calls_are_told_apart(zygotes)),
        *[(f"the groups of a mesh on {backend} are called as the script calls them, and a culprit "
           "has its place there", groups_of_a_mesh_have_their_names(python, backend))
          for backend in pytorch_faults.DESCRIBED],
        ("a Python program that mpirun starts (mpi4py) is recorded", mpi4py_is_recorded(python)),
        ("a program on NCCL's own Python bindings alone (nccl4py) is recorded",
         nccl4py_alone_is_recorded(python)),
        ("what crashes DDP on nccl4py crashes it on the CPU, too",
         crash_of_nccl4py_in_ddp_is_pytorchs_own(python)),
        ("a notebook's kernel is recorded", notebook_is_recorded(python)),
        ("loader workers, resource trackers and compile workers leave nothing behind",
         helpers_leave_nothing_behind(python)),
        ("each attempt of an elastic torchrun has a directory and a verdict of its own",
         restarts_of_torchrun_are_linked(python)),
    ]


def main():
    parser = argparse.ArgumentParser()
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--torch")
    which.add_argument("--torch-cuda12")
    which.add_argument("--torch-cuda11")
    parser.add_argument("words", nargs="?", default="")
    options = parser.parse_args()
    sys.argv[1:] = [options.words]
    if options.torch_cuda11:
        return job.main(tests_of_cuda11(options.torch_cuda11))
    with Zygotes(options.torch or options.torch_cuda12) as zygotes:
        if options.torch:
            return job.main(tests_of_present(options.torch, zygotes))
        return job.main(tests_of_older(zygotes))


if __name__ == "__main__":
    sys.exit(main())
