#!/usr/bin/env python3
"""Processes that drive several GPUs each: the rank that breaks step is named, not its process."""
import os
import sys
import tempfile

import job
from job import Job, expect, expect_equal

PROCESSES = 2
GPUS = 4
RANKS = PROCESSES * GPUS
FAULTY = 6
PROGRAM = os.path.join(job.BUILD, "tests", "e2e", "several_gpus")


class SeveralGpus(Job):
    def __init__(self, style, fault="", options=()):
        self.meeting = tempfile.TemporaryDirectory(prefix="rollcall-e2e-")
        super().__init__(PROCESSES, [GPUS, style, fault], program=[PROGRAM], gpus=RANKS,
                         options=options,
                         environment={"SEVERAL_GPUS_ID": os.path.join(self.meeting.name, "id")})

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self.meeting.cleanup()


def check_healthy(style):
    with SeveralGpus(style) as run:
        expect_equal(run.run(), 0, f"the status ({run.describe()})")
        report = run.diff()
        expect_equal([finding["code"] for finding in report["findings"]], ["RC-IN-LOCKSTEP"],
                     f"the verdict ({run.diff_text()})")
        expect(f"all {RANKS} GPUs of {PROCESSES} processes" in report["findings"][0]["summary"],
               f"how many there are is not told: {run.diff_text()}")


def check_fault(style, fault, code, expected):
    """`expected`: the ranks that are named, each with the position, but for those of a process that
    ended while its other threads called on: `None`."""
    with SeveralGpus(style, fault, ("--watch", "2", "--kill-on-hang")) as run:
        expect_equal(run.run(), 1, f"the status of a job that hangs ({run.describe()})")
        text = run.diff_text()
        report = run.diff()
        leading = report["findings"][0]
        expect_equal(leading["code"], code, f"the verdict ({text})")
        culprits = leading["culprits"]
        expect(culprits, f"nobody is named: {text}")
        for culprit in culprits:
            expect_equal(culprit["process"], 1, f"the process ({text})")
            expect_equal((culprit["comm_rank"], culprit["gpu"]), (culprit["rank"],) * 2,
                         f"the rank and GPU ({text})")
        if expected is not None:
            expect_equal([(culprit["rank"], culprit["seq"]) for culprit in culprits], expected,
                         f"the culprits ({text})")
        expect_equal(leading["victims"]["count"], RANKS - len(culprits), f"who waits ({text})")
        expect("those of the communicator" in report["ranks_are"], "what the ranks are")


def healthy_by_threads():
    check_healthy("threads")


def healthy_by_groups():
    check_healthy("group")


def faults_by_threads():
    check_fault("threads", "missing", "RC-MISSING-CALL", [(FAULTY, 22)])
    check_fault("threads", "count", "RC-COUNT-MISMATCH", [(FAULTY, 22)])
    check_fault("threads", "stick", "RC-MISSING-CALL", [(FAULTY, 23)])
    check_fault("threads", "exit", "RC-RANK-DEAD", None)


def faults_by_groups():
    check_fault("group", "missing", "RC-MISSING-CALL", [(FAULTY, 22)])
    check_fault("group", "count", "RC-COUNT-MISMATCH", [(FAULTY, 22)])


def one_thread_that_ends_is_the_last_ranks():
    """Its calls for the GPUs behind the faulty one are missing first, in the order of calls."""
    check_fault("group", "exit", "RC-RANK-DEAD", [(RANKS - 1, 21)])
    check_fault("group", "stick", "RC-MISSING-CALL", [(RANKS - 1, 21)])


if __name__ == "__main__":
    sys.exit(job.main([
        ("a job of a thread for each GPU is in lockstep", healthy_by_threads),
        ("a job of one thread and groups is in lockstep", healthy_by_groups),
        ("a GPU of a process with a thread for each is named", faults_by_threads),
        ("a GPU of a process with one thread is named", faults_by_groups),
        ("of a thread that stops amid a group, the GPU whose call comes next is named",
         one_thread_that_ends_is_the_last_ranks),
    ]))
