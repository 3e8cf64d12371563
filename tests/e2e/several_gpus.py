#!/usr/bin/env python3
"""Processes that drive several GPUs each: the rank that breaks step is named, not its process."""
import json
import os
import sys
import tempfile

import job
from job import Job, expect, expect_equal

PROCESSES = 2
GPUS = 4
RANKS = PROCESSES * GPUS
STEPS = 20
CALLS = 3  # of a step
# While the first thread that calls sets the timing up, the others' calls are not timed; they wait
# for it in the first step.
TIMED_STEPS = STEPS - 1
FAULTY = 6
# 100: every operation is timed, however slow the machine that runs this test.
TIMED = {"ROLLCALL_GPU_TIMING": "events", "ROLLCALL_OVERHEAD_BUDGET": "100"}
PROGRAM = os.path.join(job.BUILD, "tests", "e2e", "several_gpus")


class SeveralGpus(Job):
    def __init__(self, style, fault="", options=(), environment=None):
        self.meeting = tempfile.TemporaryDirectory(prefix="rollcall-e2e-")
        super().__init__(PROCESSES, [GPUS, style, fault], program=[PROGRAM], gpus=RANKS,
                         options=options,
                         environment={"SEVERAL_GPUS_ID": os.path.join(self.meeting.name, "id"),
                                      **(environment or {})})

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


def check_info(run):
    done = run.rollcall("info", run.run_directory)
    info = json.loads(run.rollcall("info", run.run_directory, "--json").stdout)
    for at, process in enumerate(info["processes"]):
        ranks = range(at * GPUS, (at + 1) * GPUS)
        expect_equal(process.get("gpus"), [{"rank": rank, "device": rank} for rank in ranks],
                     f"the GPUs ({done.stdout})")
        span = f"{ranks[0]}-{ranks[-1]}"
        rows = [line.split()[:2] for line in done.stdout.splitlines()
                if f" {process['pid']} " in line]
        expect_equal(rows, [[span, span]], f"the row of a process ({done.stdout})")


def check_trace(run):
    done = run.rollcall("trace", run.run_directory)
    events = json.loads(done.stdout)["traceEvents"]
    names = {event["pid"]: event["args"]["name"] for event in events
             if event["name"] == "process_name"}
    expect_equal(sorted(names), list(range(RANKS)), "the processes of the trace")
    for rank, name in names.items():
        expect(name.startswith(f"rank {rank} (GPU {rank}) "), f"the name of rank {rank}: {name}")
        for kinds in (("host",), ("gpu", "enqueued")):
            calls = [event for event in events
                     if event["pid"] == rank and event.get("cat") in kinds
                     and event["name"] != "GroupEnd"]
            expect_equal(len(calls), STEPS * CALLS, f"calls of rank {rank}, {kinds}")
            expect_equal({event["args"]["comm_rank"] for event in calls}, {rank}, "whose they are")
            expect_equal(len({event["tid"] for event in calls}), 1, f"tracks of {kinds}")
        expect(sum(event["cat"] == "gpu" for event in calls) >= TIMED_STEPS * CALLS,
               f"too few calls of rank {rank} are slices of its GPU")


def check_stats(run, has_bandwidth):
    operations = run.stats()["operations"]
    expect_equal(len(operations), CALLS, "rows")
    for row in operations:
        expect_equal((row["nranks"], row["calls"]), (RANKS, RANKS * STEPS),
                     f"the counts of {row}")
        expect(row["timed"] >= RANKS * TIMED_STEPS, f"too few timed: {row}")
        expect_equal(row["busbw_gbps"] is not None, has_bandwidth, f"the bandwidth of {row}")


def check_dump(run):
    ends = [line.get("comm_rank", -1) for line in run.dump() if line.get("kind") == "CommDestroy"]
    expect_equal(sorted(ends), list(range(RANKS)), "the ranks that destroyed their communicator")


def check_shown(style, has_bandwidth):
    with SeveralGpus(style, environment=TIMED) as run:
        expect_equal(run.run(), 0, f"the status ({run.describe()})")
        check_info(run)
        check_trace(run)
        check_stats(run, has_bandwidth)
        check_dump(run)


def each_gpu_is_shown():
    check_shown("threads", True)
    # The GPUs share the groups, and none of a GPU's calls is alone in one.
    check_shown("group", False)


def calls_of_one_group_have_bandwidths():
    check_shown("calls", True)


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
        ("info, trace, stats and dump show each GPU as a rank", each_gpu_is_shown),
        ("calls for all GPUs in a group of their own have bandwidths",
         calls_of_one_group_have_bandwidths),
    ]))
