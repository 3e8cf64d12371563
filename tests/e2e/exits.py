#!/usr/bin/env python3
"""What is on file of a process that ends by itself, by whatever way, and what is said of it."""
import os
import sys

import job
from job import Job, expect, expect_equal

HERE = os.path.dirname(os.path.abspath(__file__))
GUEST = os.path.join(job.BUILD, "tests", "e2e", "guest")
PRINTED = ["before 64", "forked child 22", "child of vfork 23", "behind 128"]


def leave(how, status):
    """The lines of `dump` of a process that ends so, and whose children ended by _exit before."""
    with Job(1, ["leave-by-" + how], program=[GUEST]) as run:
        expect_equal(run.run(), status, f"status by {how} ({run.describe()})")
        expect_equal(run.stdout().splitlines(), PRINTED, f"stdout by {how}")
        lines = run.dump()
        runs = [line for line in lines if line["type"] == "run"]
        expect_equal(len(runs), 1, f"files by {how}")
        expect_equal(len([line for line in lines if line.get("op") == "AllReduce"]), 2,
                     f"calls in front of and behind the children, by {how}")
        last_ns = max(line["called_ns"] for line in lines if line["type"] == "op")
        exits = [line for line in lines if line.get("name") == "ProcessExit"]
        return runs[0]["exited_ns"], exits, last_ns


def every_way_leaves_one_record():
    for how in ("exit", "_exit", "_Exit", "quick_exit"):
        exited_ns, exits, last_ns = leave(how, 31)
        expect_equal(len(exits), 1, f"exit events by {how}")
        expect(exited_ns is not None, f"no exit record by {how}")
        expect(exited_ns > last_ns and exits[0]["time_ns"] > last_ns,
               f"the exit by {how} comes before the last call, which its children have not made")


def killed_leaves_none():
    exited_ns, exits, _ = leave("kill", -9)
    expect_equal((exited_ns, exits), (None, []), "exit record of a process that was killed")


DOUBT = {
    "off": ("RC-INSUFFICIENT", "ranks 1-3 ended by themselves then, and rank 0 has not"),
    "events": ("RC-STUCK-OUTSIDE", "ranks 1-3 ended by themselves, rank 0 did not"),
}


def ranks_that_are_through_are_not_dead():
    """By os._exit, while rank 0 goes on by itself: as a rank that saves a checkpoint does."""
    for timing in ("off", "events"):
        with Job(4, program=[sys.executable, os.path.join(HERE, "leaving_client.py")]) as run:
            run.command += [run.folder]
            run.environment["ROLLCALL_GPU_TIMING"] = timing
            run.start()
            run.wait_until(lambda: count_of_exits(run) == 3, "the end of three ranks")
            # However long a busy machine took until here.
            young = run.diff("--stalled-after", "600")
            expect_equal((codes_of(young), young["status"]), (["RC-IN-LOCKSTEP"], 0),
                         f"the verdict while rank 0 goes on ({young})")
            # Where that takes longer than a call may, it is the one that stays to be looked at.
            run.wait_until(lambda: codes_of(run.diff("--stalled-after", "1")) != ["RC-IN-LOCKSTEP"],
                           "doubt about the rank that stays")
            late = run.diff("--stalled-after", "1")
            # What the GPUs of the others did last is on no file; that of rank 0 is through, which
            # needs their part.
            code, words = DOUBT[timing]
            expect_equal(codes_of(late), [code], f"the doubt ({late})")
            expect(words in late["findings"][0]["summary"], f"the doubt is about rank 0 ({late})")
            with open(os.path.join(run.folder, "end"), "wb"):
                pass
            expect_equal(run.wait(), 0, f"the job's status ({run.describe()})")
            expect_equal(codes_of(run.diff()), ["RC-IN-LOCKSTEP"], "the verdict at the end")


def rank_that_leaves_early_is_named():
    """With any status, and by exit as by _exit."""
    for how, status in (("_exit", 0), ("_exit", 3), ("exit", 0), ("exit", 3)):
        with Job(3, program=[sys.executable, os.path.join(HERE, "leaving_client.py")]) as run:
            run.command += [run.folder, how, status]
            run.command = [str(word) for word in run.command]
            run.start()
            run.wait_until(lambda: count_of_exits(run) == 1, "the end of rank 2")
            run.wait_until(lambda: "RC-RANK-DEAD" in codes_of(run.diff("--stalled-after", "1")),
                           "the verdict on the rank that left")
            first = run.diff("--stalled-after", "1")["findings"][0]
            expect_equal((first["code"], [culprit["rank"] for culprit in first["culprits"]]),
                         ("RC-RANK-DEAD", [2]), f"the verdict by {how}({status})")
            expect("ended by itself" in first["summary"], f"by {how}({status}): {first}")


def count_of_exits(run):
    if not os.path.isdir(run.run_directory):
        return 0
    done = run.rollcall("dump", run.run_directory)
    return done.stdout.count('"name":"ProcessExit"')


def codes_of(report):
    return [finding["code"] for finding in report["findings"]]


if __name__ == "__main__":
    sys.exit(job.main([
        ("a process that ends by itself leaves one exit record, and its children none in its file",
         every_way_leaves_one_record),
        ("a process that is killed leaves no exit record", killed_leaves_none),
        ("ranks that end by os._exit behind the last collective are not called dead",
         ranks_that_are_through_are_not_dead),
        ("a rank that ends by itself too early is named, whatever the way and the status",
         rank_that_leaves_early_is_named),
    ]))
