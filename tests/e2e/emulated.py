#!/usr/bin/env python3
"""What a dry run says of functions that the emulated GPU does not have."""
import json
import os
import sys

import job
from job import Job, expect_equal

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ctypes_client.py")
NOT_SUPPORTED = 801
# Before NCCL is there, and after a collective; each of them twice.
ABSENT = ("cudaGraphicsMapResources", "cudaIpcGetMemHandle")
PROGRAM = f"""
import ctypes, sys
sys.path.insert(0, {os.path.dirname(CLIENT)!r})
import ctypes_client as client
nccl, cuda = client.Library("libnccl.so.2"), client.Library("libcudart.so.13")
unique_id = client.UniqueId()
nccl.library.ncclGetVersion(ctypes.byref(ctypes.c_int()))
wanted = sys.argv[1] == "asks"
statuses = [getattr(cuda.library, {ABSENT[0]!r})() for _ in range(2) if wanted]
nccl.call("ncclGetUniqueId", ctypes.byref(unique_id))
client.train(nccl, cuda, unique_id, 0, 1, 1)
statuses += [getattr(cuda.library, {ABSENT[1]!r})() for _ in range(2) if wanted]
if sys.argv[1] == "launches":
    driver = ctypes.CDLL("libcuda.so.1")
    for _ in range(2):
        statuses.append(driver.cuLaunchKernel(ctypes.c_void_p(1), 1, 1, 1, 1, 1, 1, 0, None,
                                              None, None))
print("statuses", statuses)
"""


def run_client(does):
    """Of a job: its output, its stderr, the meta keys and `info` about what is not emulated."""
    with Job(1, program=[sys.executable, "-c", PROGRAM, does]) as run:
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        meta = next(line["meta"] for line in run.dump() if line["type"] == "run")
        keys = sorted(key for key in meta if key.startswith("not_emulated."))
        info = json.loads(run.rollcall("info", run.run_directory, "--json").stdout)
        return (run.stdout().strip(), run.stderr(), keys,
                [name for process in info["processes"] for name in process["not_emulated"]])


def absent_functions_are_named():
    output, errors, keys, info = run_client("asks")
    expect_equal(output, f"statuses {[NOT_SUPPORTED] * 4}", "what the functions answer")
    for name in ABSENT:
        expect_equal(errors.count(f"{name} is not emulated: cudaErrorNotSupported"), 1,
                     f"lines about {name} in {errors!r}")
    expect_equal(keys, [f"not_emulated.{name}" for name in ABSENT], "keys of the meta")
    expect_equal(info, list(ABSENT), "what info names")


def nothing_is_named_in_vain():
    output, errors, keys, info = run_client("does nothing")
    expect_equal(output, "statuses []", "what the functions answer")
    expect_equal(errors.count("is not emulated"), 0, f"lines in {errors!r}")
    expect_equal((keys, info), ([], []), "meta and info")


def kernels_are_known_to_do_nothing():
    output, errors, keys, info = run_client("launches")
    expect_equal(output, "statuses [0, 0]", "what the launches answer")
    expect_equal(errors.count("is not emulated"), 0, f"lines in {errors!r}")
    expect_equal((keys, info), (["not_emulated.kernels"], ["kernels"]), "meta and info")


if __name__ == "__main__":
    sys.exit(job.main([
        ("a function that the emulator lacks fails, and is named once on stderr and in the meta",
         absent_functions_are_named),
        ("a job that asks for nothing that the emulator lacks is told of nothing",
         nothing_is_named_in_vain),
        ("a launch of a kernel, which does nothing, is on file and on no stderr",
         kernels_are_known_to_do_nothing),
    ]))
