#!/usr/bin/env python3
"""A rank that comes when the others' patience is over is named, not those who gave up."""
import os
import signal
import sys

import job
from job import Job, expect, expect_equal

RANKS = 4
LATE = 2
PATIENCE_S = 4


def names_who_came_too_late():
    """Stopped for longer than the others wait, by --hang-timeout, before they abort and exit."""
    arguments = ["--steps", "3", "--bucket-elements", "256", "--fault", f"stop@{LATE}:1",
                 "--hang-timeout", str(PATIENCE_S), *job.shape_arguments(RANKS)]
    with Job(RANKS, arguments) as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(LATE), "the planted stop")
        stopped = run.pids()[LATE]
        run.wait_until(lambda: run.own_pids() == [stopped], "the end of the others")
        os.kill(stopped, signal.SIGCONT)
        expect(run.wait() != 0, "the job ended well")
        report = run.diff()
        leading = report["findings"][0]
        expect_equal((leading["code"], leading["confidence"]), ("RC-MISSING-CALL", "likely"),
                     f"the verdict ({run.diff_text()})")
        expect_equal([culprit["rank"] for culprit in leading["culprits"]], [LATE], "the culprits")
        expect_equal([finding["code"] for finding in leading["consequences"]],
                     ["RC-ABORT-CASCADE"], "what follows from it")


def leaves_who_came_in_time_in_peace():
    """The same stop, and patience."""
    arguments = ["--steps", "3", "--bucket-elements", "256", "--fault", f"stop@{LATE}:1",
                 "--hang-timeout", "60", *job.shape_arguments(RANKS)]
    with Job(RANKS, arguments) as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(LATE), "the planted stop")
        run.wait_until(lambda: run.diff("--stalled-after", "1")["status"] == 1, "a hang")
        os.kill(run.pids()[LATE], signal.SIGCONT)
        expect_equal(run.wait(), 0, f"the job's status ({run.describe()})")
        expect_equal(run.diff()["findings"][0]["code"], "RC-IN-LOCKSTEP", "the verdict")


def main():
    return job.main([
        ("a rank that comes when the others have given up is named", names_who_came_too_late),
        ("a rank that comes while they wait is not", leaves_who_came_in_time_in_peace),
    ])


if __name__ == "__main__":
    sys.exit(main())
