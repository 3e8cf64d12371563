#!/usr/bin/env python3
"""Jobs that share a directory, with ROLLCALL_DIR by hand and without ROLLCALL_RUN_ID."""
import sys
import tempfile

import job
from job import Job, expect, expect_equal


def job_into(directory, *arguments):
    """`rollcall run` numbers the run: the ranks' environment loses the number again."""
    program = ["env", "-u", "ROLLCALL_RUN_ID", f"ROLLCALL_DIR={directory}", job.MINI_TRAIN]
    run = Job(2, [*job.shape_arguments(2), "--steps", "3", *arguments], program=program)
    run.command += ["--log", run.log_prefix]
    return run


def one_after_the_other():
    with tempfile.TemporaryDirectory(prefix="rollcall-e2e-jobs-") as directory:
        with job_into(directory, "--fault", "count@1:2") as hung:
            hung.start()
            expect(not hung.wait_for_end_or_hang(), f"the first job hangs\n{hung.describe()}")
        with job_into(directory) as healthy:
            expect_equal(healthy.run(), 0, "the second job")
            outcome = healthy.rollcall("diff", directory)
    expect_equal(outcome.returncode, 1, f"exit status\n{outcome.stdout}{outcome.stderr}")
    expect("RC-COUNT-MISMATCH" in outcome.stdout, outcome.stdout)
    expect("HOLDS 2 JOBS" in outcome.stderr, outcome.stderr)
    expect("RC-IN-LOCKSTEP" in outcome.stderr, f"the other one is named: {outcome.stderr}")


def side_by_side():
    with tempfile.TemporaryDirectory(prefix="rollcall-e2e-jobs-") as directory:
        with job_into(directory) as first, job_into(directory) as second:
            first.start()
            second.start()
            expect_equal((first.wait(), second.wait()), (0, 0), "both jobs")
            outcome = first.rollcall("diff", directory)
    expect_equal(outcome.returncode, 0, f"exit status\n{outcome.stdout}{outcome.stderr}")
    expect("HOLDS 2 JOBS" in outcome.stderr, outcome.stderr)
    expect("RC-IN-LOCKSTEP" in outcome.stdout, outcome.stdout)


if __name__ == "__main__":
    sys.exit(job.main([
        ("a job that hung is found beside a healthy one that began later", one_after_the_other),
        ("ranks of two jobs that run at one time are not compared", side_by_side),
    ]))
