#!/usr/bin/env python3
"""Jobs that other launchers start, and programs that load NCCL in other ways."""
import os
import shutil
import subprocess
import sys

import job
from job import Job, clean_environment, expect, expect_equal


def recorded_runs(run):
    return [line for line in run.dump() if line["type"] == "run"]


def mpi_ranks_are_recorded():
    if not os.path.exists(job.MPI_ALLREDUCE) or not shutil.which("mpirun"):
        return "MPI is not installed"
    mpirun = ["mpirun", "-np", "4", "--oversubscribe"]
    if os.geteuid() == 0:
        mpirun.append("--allow-run-as-root")
    with Job(4, program=[job.MPI_ALLREDUCE]) as run:
        plain_environment = clean_environment({"LD_LIBRARY_PATH": job.EMULATOR,
                                               "ROLLCALL_EMULATE_GPUS": "4"})
        plain = subprocess.run([*mpirun, job.MPI_ALLREDUCE, "7"], env=plain_environment, text=True,
                               capture_output=True, timeout=job.PATIENCE_S, check=False)
        expect_equal(plain.returncode, 0, f"mpirun without Rollcall ({plain.stderr})")
        run.command = [*mpirun, job.ROLLCALL, "run", "--emulate=4", "-d", run.run_directory, "--",
                       job.MPI_ALLREDUCE, "7"]
        expect_equal(run.run(), 0, f"mpirun with Rollcall ({run.describe()})")
        expect_equal(sorted(line for line in run.stdout().splitlines() if line.startswith("rank ")),
                     sorted(plain.stdout.splitlines()), "what the job printed")
        expect_equal(sorted(line["job_rank"] for line in recorded_runs(run)), [0, 1, 2, 3],
                     "job ranks, from OMPI_COMM_WORLD_RANK")
        report = run.diff()
        expect_equal([finding["code"] for finding in report["findings"]], ["RC-IN-LOCKSTEP"],
                     "the verdict")
        expect_equal(report["run"]["ranks"], 4, "ranks of the run")
    return None


def dlopen_is_covered():
    with Job(1, program=[job.DLOPEN_USER, "6"]) as run:
        run.command = [job.ROLLCALL, "run", "--emulate=3", "-d", run.run_directory, "--",
                       job.DLOPEN_USER, "6"]
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        lines = run.dump()
        runs = [line for line in lines if line["type"] == "run"]
        expect_equal(len(runs), 1, "recorded processes")
        expect("dlsym" in runs[0]["coverage"], f"coverage is {runs[0]['coverage']}")
        comms = [line for line in lines if line["type"] == "comm"]
        expect_equal([(line["rank"], line["nranks"], line["how"]) for line in comms],
                     [(rank, 3, "init_all") for rank in range(3)], "communicators")
        expect_equal(len({line["key"] for line in comms}), 1, "communicator keys")
        calls = [line for line in lines if line["type"] == "op" and line["op"] == "AllReduce"]
        expect_equal(len(calls), 3 * 6, "recorded AllReduce calls")
        codes = [finding["code"] for finding in run.diff()["findings"]]
        expect_equal(codes, ["RC-IN-LOCKSTEP"], "the verdict")


if __name__ == "__main__":
    sys.exit(job.main([
        ("a job that mpirun starts is recorded with MPI's ranks", mpi_ranks_are_recorded),
        ("a program that loads NCCL with dlopen is recorded", dlopen_is_covered),
    ]))
