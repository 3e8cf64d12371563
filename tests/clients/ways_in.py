#!/usr/bin/env python3
"""Every way into NCCL that can be tried without a GPU, each in a healthy job and in one that hangs.

    ways_in.py --torch PYTHON [--torch-cuda12 PYTHON] [WORDS OF A SENTENCE]

PYTHON is an interpreter that has PyTorch, nccl4py and mpi4py. An older PyTorch of the CUDA 12 line
is optional: its test is skipped, and says so, where there is none.
"""
import argparse
import os
import shutil
import subprocess
import sys

import pytorch_faults
import pytorch_job
from job import Job, clean_environment, expect, expect_equal
from pytorch_job import Zygote, job

FAULT = pytorch_faults.faults.KINDS["shape"]
# DDP crashes in PyTorch's own reducer when a backend is written in Python, as nccl4py's is.
WITHOUT_DDP = pytorch_faults.faults.KINDS["skip-shard"]
TORCHRUN_PATIENCE_S = 240


def backend_is_recorded(python, backend, fault=FAULT):
    def test():
        zygote = Zygote(python)
        try:
            pytorch_faults.healthy(zygote, backend, fault.parallel)
            pytorch_faults.faulty(zygote, backend, fault)
        finally:
            zygote.close()
    return test


def older_pytorch(python):
    if not python:
        return lambda: "no interpreter with an older PyTorch was given"
    return backend_is_recorded(python, "nccl")


def output_is_the_same_without_rollcall(python):
    def test():
        seen = []
        for with_recorder in (False, True):
            zygote = Zygote(python, with_recorder)
            try:
                with pytorch_job.PytorchJob(zygote, 2, ["--parallel", "ddp"]) as run:
                    run.wait_for_end_or_hang()
                    seen.append((run.statuses(), [run.output(rank) for rank in range(2)]))
            finally:
                zygote.close()
        expect_equal(seen[1], seen[0], "exit statuses and output of the ranks")
        expect("step 2 loss" in seen[0][1][0], f"the job trained: {seen[0]}")
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
            run.environment.update({"OMP_NUM_THREADS": "1", "ROLLCALL_PYTHON_FRAMES": "1"})
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
            rings = [name for name in os.listdir(run.run_directory) if name.endswith(".ring")]
            expect_equal(len(rings), 4, f"files of processes that called NCCL: {rings}")
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
            report = run.diff()
            expect_equal([finding["code"] for finding in report["findings"]], ["RC-IN-LOCKSTEP"],
                         "the verdict")
            expect_equal(report["run"]["ranks"], 3, "ranks of the run")
        return None
    return test


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torch", required=True)
    parser.add_argument("--torch-cuda12")
    parser.add_argument("words", nargs="?", default="")
    options = parser.parse_args()
    sys.argv[1:] = [options.words]
    python = options.torch
    backends = {"nccl": FAULT, "nccl-legacy": FAULT, "nccl-lazy": FAULT, "nccl4py": WITHOUT_DDP}
    return job.main([
        ("a script under torchrun hangs for real, and its verdict names the rank",
         torchrun_hang_is_named(python)),
        ("what PyTorch prints and returns is the same without Rollcall",
         output_is_the_same_without_rollcall(python)),
        *[(f"PyTorch's backend {backend} is recorded, healthy and hanging",
           backend_is_recorded(python, backend, fault)) for backend, fault in backends.items()],
        ("an older PyTorch of the CUDA 12 line is recorded, healthy and hanging",
         older_pytorch(options.torch_cuda12)),
        ("a Python program that mpirun starts (mpi4py) is recorded", mpi4py_is_recorded(python)),
    ])


if __name__ == "__main__":
    sys.exit(main())
