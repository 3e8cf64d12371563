#!/usr/bin/env python3
"""Other preloaded libraries, in front of Rollcall's and behind it: an allocator, a hook of the
GPU's memory, and a library between the job and NCCL that hands out communicators of its own."""
import os
import sys

import job
from job import Job, expect, expect_equal
from unharmed import TRAINING, train_without_rollcall

RANKS = 4
FOLDER = os.path.join(job.BUILD, "tests", "e2e", "neighbours")
ALLOCATOR, SAVER, WRAPPER = (os.path.join(FOLDER, f"lib{name}.so")
                             for name in ("allocator", "saver", "wrapper"))
NEIGHBOURS = [ALLOCATOR, SAVER, WRAPPER]
# How the wrapper finds NCCL: behind itself, or in a library that it opens.
BY_HANDLE = {"WRAPPED_NCCL": os.path.join(job.EMULATOR, "libnccl.so.2")}
ARGUMENTS = [*TRAINING, *job.shape_arguments(RANKS)]
ORDERS = {"in front of Rollcall": NEIGHBOURS, "behind Rollcall": [job.SHIM, *NEIGHBOURS]}


def told(run, name):
    """What a neighbour said at the end of each process: pid -> number."""
    return {int(pid): int(number) for word, pid, number in (
        line.split() for line in run.stderr().splitlines() if line.startswith(name + " "))
        if word == name}


def calls_by_rank(run):
    calls = {}
    for line in run.dump():
        if line["type"] == "op":
            calls.setdefault(line["job_rank"], []).append((line["op"], line["count"], line["seq"]))
    return calls


def all_of_them_and_rollcall_hear_of_each_call_once():
    plain = train_without_rollcall(RANKS, ARGUMENTS)
    with Job(RANKS, ARGUMENTS, program=[job.MINI_TRAIN]) as alone:
        expect_equal(alone.run(), 0, f"status without neighbours ({alone.describe()})")
        calls = calls_by_rank(alone)
        expect_equal(sorted(calls), list(range(RANKS)), "recorded ranks without neighbours")
    wrapped = set()
    for order, libraries in ORDERS.items():
        for way in ({}, BY_HANDLE):
            what = f"{order}, {'by a handle' if way else 'by RTLD_NEXT'}"
            with Job(RANKS, ARGUMENTS,
                     environment={"LD_PRELOAD": ":".join(libraries), **way}) as run:
                expect_equal(run.run(), 0, f"{what}: status ({run.describe()})")
                expect_equal(run.results(), plain, f"{what}: what the job printed")
                expect_equal(calls_by_rank(run), calls, f"{what}: the recorded calls")
                codes = [finding["code"] for finding in run.diff()["findings"]]
                expect_equal(codes, ["RC-IN-LOCKSTEP"], f"{what}: the verdict")
                ranks = set(run.pids().values())
                for name in ("allocator", "saver", "wrapper"):
                    said = told(run, name)
                    expect(ranks <= set(said), f"{what}: no {name} was used in {ranks}: {said}")
                wrapped.add(tuple(sorted(number for pid, number in told(run, "wrapper").items()
                                         if pid in ranks)))
    expect_equal(len(wrapped), 1, f"different numbers of calls that the wrapper had ({wrapped})")


def a_hang_is_named_in_both_orders():
    for order, libraries in ORDERS.items():
        with Job(RANKS, [*ARGUMENTS, "--fault", "missing-call@2:1"],
                 environment={"LD_PRELOAD": ":".join(libraries), **BY_HANDLE}) as run:
            run.start()
            expect(not run.wait_for_end_or_hang(), f"{order}: the job ended ({run.describe()})")
            run.kill()
            found = run.diff()["findings"][0]
            expect_equal((found["code"], [one["rank"] for one in found["culprits"]]),
                         ("RC-MISSING-CALL", [2]), f"{order}: the verdict ({run.diff_text()})")


def main():
    return job.main([
        ("other preloaded libraries and Rollcall hear of each call once, in both orders",
         all_of_them_and_rollcall_hear_of_each_call_once),
        ("a hang is named beside other preloaded libraries, in both orders",
         a_hang_is_named_in_both_orders),
    ])


if __name__ == "__main__":
    sys.exit(main())
