#!/usr/bin/env python3
"""What Rollcall recorded is what mini_train says it called, call for call."""
import os
import sys

import job
from job import Failure, Job, Way, expect, expect_equal

COMPARED = ("comm", "op", "count", "dtype", "redop", "root", "peer", "seq", "p2p_seq")
# What NCCL tells its profiler plugin of a call.
TOLD = tuple(name for name in COMPARED if name != "redop")
BYTES = {"int8": 1, "int32": 4, "float32": 4, "float64": 8}


def logged_calls(run, rank, compared=COMPARED, by_first_call=False):
    keys = run.communicator_keys(by_first_call)[rank]
    calls = []
    for line in run.log(rank):
        if line["type"] == "op":
            calls.append({name: line[name] for name in compared} | {"comm": keys[line["comm"]]})
    return calls


def told_calls(run, rank, version):
    """What the plugin alone can know of them through this version of the interface: before 5 there
    are launches only, and NCCL launches these two by their bytes."""
    calls = logged_calls(run, rank, TOLD, by_first_call=version < 4)
    for call in calls:
        if version < 5 and call["op"] in ("AllGather", "Broadcast"):
            call.update(count=call["count"] * BYTES[call["dtype"]], dtype="int8")
    return calls


def recorded_calls(lines, pid, compared=COMPARED):
    return [{name: line[name] for name in compared} for line in lines
            if line["type"] == "op" and line["pid"] == pid
            and line["op"] not in ("GroupEnd", "GraphLaunch")]


def expect_same_calls(logged, recorded, rank):
    for position, (mine, theirs) in enumerate(zip(logged, recorded)):
        expect_equal(theirs, mine, f"call {position} of rank {rank}, recorded")
    expect_equal(len(recorded), len(logged), f"calls recorded of rank {rank}")


def compare(ranks, arguments, environment=None):
    with Job(ranks, [*arguments, *job.shape_arguments(ranks)], environment=environment) as run:
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        lines = run.dump()
        pids = run.pids()
        expect_equal(sorted(pids), list(range(ranks)), "ranks with a log")
        for rank, pid in pids.items():
            logged = logged_calls(run, rank)
            expect(len(logged) > 10, f"rank {rank} logged only {len(logged)} calls")
            expect_same_calls(logged, recorded_calls(lines, pid), rank)
        return lines


def every_call_is_recorded():
    lines = compare(8, ["--steps", "3", "--bucket-elements", "256"])
    for line in lines:
        if line["type"] == "op":
            expect_equal(line["result"], 0, f"result of {line}")
        if line["type"] == "run":
            expect("plt" in line["coverage"], f"coverage is {line['coverage']}")
        if line["type"] == "stats":
            expect_equal(sum(line["dropped"].values()), 0, f"dropped records in {line}")


def history_outlives_the_ring():
    """With a ring of 64 slots the calls can only come from the segments."""
    # 13 calls in 20 ms: the flusher has a hundred milliseconds to come round.
    compare(2, ["--steps", "25", "--bucket-elements", "16", "--step-ms", "20"],
            {"ROLLCALL_RING_SLOTS": "64"})


def a_killed_rank_loses_no_call():
    with Job(2, ["--steps", "5", "--dp", "2", "--fault", "kill@1:3"]) as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        run.wait_for_end_or_hang()
        pid = run.pids()[1]
        run.kill()
        try:
            expect_same_calls(logged_calls(run, 1), recorded_calls(run.dump(), pid), 1)
        except Failure as failure:
            raise Failure(f"{failure}\n{run.describe()}") from None


def estimates_are_no_calls():
    """One rank asks what a round would take; with and without a defect behind that."""
    client = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ring_client.py")
    # Beside the plugin of such a NCCL the operations of groups are held until the group's end.
    for way in (Way("shim"), Way("both-v4")):
        with Job(3, program=[sys.executable, client], way=way) as run:
            run.command += [run.folder, "estimate"]
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            expect_equal(run.diff()["findings"][0]["code"], "RC-IN-LOCKSTEP", "the verdict")
            calls = [line for line in run.dump() if line["type"] == "op"]
            for op in ("AllReduce", "Send", "Recv"):
                expect_equal(len([line for line in calls if line["op"] == op]), 3 * 6,
                             f"{op} calls on record")
        with Job(3, program=[sys.executable, client], way=way) as run:
            run.command += [run.folder, "estimate", "count"]
            run.start()
            stale = ("diff", run.run_directory, "--stalled-after", "1")
            run.wait_until(lambda: ", hang," in run.rollcall(*stale).stdout, "a hang")
            leading = run.diff("--stalled-after", "1")["findings"][0]
            expect_equal((leading["code"], [(line["rank"], line["seq"])
                                            for line in leading["culprits"]]),
                         ("RC-COUNT-MISMATCH", [(1, 3)]), f"the verdict: {leading}")


if __name__ == "__main__":
    sys.exit(job.main([
        ("the recorded sequence is the program's own, call for call", every_call_is_recorded),
        ("calls that the ring no longer holds come from the history", history_outlives_the_ring),
        ("a killed rank's calls are all on file", a_killed_rank_loses_no_call),
        ("what was estimated was not called", estimates_are_no_calls),
    ]))
