#!/usr/bin/env python3
"""The shim in front of a real NCCL's host code, on the emulated CUDA runtime.

    ROLLCALL_REAL_NCCL=DIR make test      DIR holds a libnccl.so.2 that links libcudart.so.13

Kernels of the emulated GPU do nothing, so results are not compared; what NCCL does on the host is
real: bootstrap, communicators, groups, its calls to itself. A NCCL with a static CUDA runtime, as
in NVIDIA's packages, cannot run here.
"""
import os
import sys

import job
from job import Job, expect, expect_equal
from sequence import expect_same_calls, logged_calls, recorded_calls

REAL_NCCL = os.environ.get("ROLLCALL_REAL_NCCL", "")
STAND_INS = ("libcuda.so.1", "libcudart.so.13", "libnvidia-ml.so.1")


def real_job(ranks, arguments):
    run = Job(ranks, ["--no-verify", "--steps", "3", "--bucket-elements", "256", *arguments])
    run.command = [word for word in run.command if not word.startswith("--emulate")]
    run.environment.update({
        "LD_PRELOAD": ":".join(os.path.join(job.EMULATOR, name) for name in STAND_INS),
        "LD_LIBRARY_PATH": os.path.abspath(REAL_NCCL),
        "ROLLCALL_EMULATE_GPUS": str(ranks),
        "ROLLCALL_EMULATE_SESSION": os.path.basename(run.folder),
        "NCCL_SOCKET_IFNAME": "lo",
    })
    return run


def the_sequence_is_recorded(ranks, arguments):
    with real_job(ranks, arguments) as run:
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        lines = run.dump()
        for line in lines:
            if line["type"] == "run":
                path = line["meta"]["nccl_path"]
                expect(os.path.realpath(REAL_NCCL) in os.path.realpath(path), f"NCCL is {path}")
        for rank, pid in run.pids().items():
            expect_same_calls(logged_calls(run, rank), recorded_calls(lines, pid), rank)
        codes = [finding["code"] for finding in run.diff()["findings"]]
        expect_equal(codes, ["RC-IN-LOCKSTEP"], "the verdict")


if __name__ == "__main__":
    if not REAL_NCCL:
        print("skipped: set ROLLCALL_REAL_NCCL to the folder of a libnccl.so.2 with a shared CUDA "
              "runtime")
        sys.exit(77)
    sys.exit(job.main([
        ("two ranks of a real NCCL are recorded call for call",
         lambda: the_sequence_is_recorded(2, ["--dp", "2"])),
        ("a real NCCL's tensor and pipeline groups are recorded call for call",
         lambda: the_sequence_is_recorded(4, job.shape_arguments(4))),
    ]))
