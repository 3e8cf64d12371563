#!/usr/bin/env python3
"""Ranks that join a communicator and contradict each other about it are told apart from ranks that
never come."""
import os
import sys

import job
from job import Job, expect, expect_equal

HERE = os.path.dirname(os.path.abspath(__file__))
RANKS = 4
WRONG = 1


def judged(what):
    """The verdict while the ranks wait, and when all of them were killed."""
    with Job(RANKS, program=[sys.executable, os.path.join(HERE, "joining_client.py")]) as run:
        run.command += [run.folder, what, str(WRONG)]
        run.start()
        run.wait_until(lambda: count_of_joins(run) == RANKS, "all ranks in the call")
        run.wait_until(lambda: is_hang(run.diff("--stalled-after", "2")), f"a verdict on {what}")
        alive = run.diff("--stalled-after", "2")["findings"]
        run.kill()
        run.wait_until(lambda: not run.diff()["run"]["live"], "the end of all ranks")
        dead = run.diff()["findings"]
        for finding in (alive[0], dead[0]):
            expect_equal(finding["code"], "RC-INIT-INCOMPLETE", f"{what}: the verdict ({finding})")
        expect_equal(blamed(dead[0]), blamed(alive[0]), f"{what}: culprits when all are dead")
        expect_equal(len(alive), 1, f"{what}: findings ({alive})")
        return alive[0]


def count_of_joins(run):
    if not os.path.isdir(run.run_directory):
        return 0
    return run.rollcall("dump", run.run_directory).stdout.count('"type":"comm"')


def is_hang(report):
    return report["findings"][0]["severity"] == "hang"


def blamed(finding):
    return [culprit["rank"] for culprit in finding["culprits"]]


def another_number_of_ranks():
    for what, number in (("more", RANKS + 1), ("fewer", RANKS - 1)):
        finding = judged(what)
        expect_equal((blamed(finding), finding["confidence"]), ([WRONG], "certain"), what)
        expect(f"rank {WRONG} joined world as one of {number} ranks, and ranks 0,2-3 as of {RANKS}"
               in finding["summary"], finding["summary"])
        expect_equal(finding["victims"]["ranks"], "0,2-3", "who waits")


def another_rank():
    finding = judged("rank")
    expect_equal((blamed(finding), finding["confidence"]), ([WRONG], "certain"), "the culprit")
    expect("ranks 0-1 both joined world as its rank 0, and nobody as its rank 1"
           in finding["summary"], finding["summary"])


def a_launchers_rank_twice():
    """Both have the same job rank then, which is no second attempt of one process."""
    finding = judged("launched")
    expect_equal(blamed(finding), [0, 0], "the culprits")
    expect_equal(len({culprit["pid"] for culprit in finding["culprits"]}), 2, "their processes")
    expect("2 processes joined world as its rank 0, and nobody as its rank 1"
           in finding["summary"], finding["summary"])


def another_unique_id():
    finding = judged("id")
    expect_equal((blamed(finding), finding["confidence"]), ([WRONG], "likely"), "the culprit")
    expect("with another unique id than ranks 0,2-3" in finding["summary"], finding["summary"])
    finding = judged("ids")
    expect_equal(blamed(finding), list(range(RANKS)), "all are culprits, or none")
    expect("with a unique id of their own" in finding["summary"], finding["summary"])


if __name__ == "__main__":
    sys.exit(job.main([
        ("a rank that joins with another number of ranks is named", another_number_of_ranks),
        ("a rank that joins as another is named", another_rank),
        ("two processes that were started as one rank are told of", a_launchers_rank_twice),
        ("unique ids that were to be one are told of", another_unique_id),
    ]))
