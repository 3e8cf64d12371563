#!/usr/bin/env python3
"""Jobs that share a directory, with ROLLCALL_DIR by hand and without ROLLCALL_RUN_ID."""
import os
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


def others_say_which_job():
    """`info`, `stats` and `trace` are about one job: which one it is and how to name another."""
    with tempfile.TemporaryDirectory(prefix="rollcall-e2e-jobs-") as directory:
        older = newest = None
        for steps in (3, 5):
            with job_into(directory, "--steps", str(steps)) as run:
                before = set(os.listdir(directory))
                expect_equal(run.run(), 0, f"the job of {steps} steps")
                older, newest = newest, rings_of(set(os.listdir(directory)) - before)
                for command in ("info", "stats", "trace"):
                    check_names(run, command, directory, older, newest)


def rings_of(names):
    return sorted(name for name in names if name.endswith(".ring"))


def check_names(run, command, directory, older, newest):
    outcome = run.rollcall(command, directory)
    expect_equal(outcome.returncode, 0, f"{command}: exit status\n{outcome.stderr}")
    if older is None:
        expect("JOBS" not in outcome.stderr, f"{command} of one job: {outcome.stderr}")
        return
    lines = outcome.stderr.splitlines()
    taken = [line for line in lines if "HOLDS 2 JOBS" in line]
    named = [line for line in lines if f"rollcall {command} " in line]
    expect_equal((len(taken), len(named)), (1, 1), f"{command}: lines about jobs\n{outcome.stderr}")
    for name in newest:
        expect(name in taken[0] and name not in named[0], f"{command}: {name}\n{outcome.stderr}")
    for name in older:
        expect(name in named[0] and name not in taken[0], f"{command}: {name}\n{outcome.stderr}")
    words = named[0].split(f"rollcall {command} ")[1].split()
    other = run.rollcall(command, *words)
    expect_equal(other.returncode, 0, f"{command} of the older job's files\n{other.stderr}")
    expect("JOBS" not in other.stderr, f"{command} of the older job's files: {other.stderr}")
    expect(other.stdout != outcome.stdout, f"{command}: both jobs look alike")


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


def one_hangs_while_another_trains():
    """Whichever began later, nobody may be told that all is well."""
    for order in ("hung first", "healthy first"):
        with tempfile.TemporaryDirectory(prefix="rollcall-e2e-jobs-") as directory:
            hung = job_into(directory, "--fault", "count@1:2")
            healthy = job_into(directory, "--steps", "100000000")
            with hung, healthy:
                for run in (hung, healthy) if order == "hung first" else (healthy, hung):
                    before = set(os.listdir(directory))
                    run.start()
                    run.wait_until(
                        lambda: len(rings_of(set(os.listdir(directory)) - before)) == 2, "rings")
                expect(not hung.wait_for_end_or_hang(), f"{order}: the job does not hang")
                outcome = hung.rollcall("diff", directory, "--stalled-after", "1")
                expect(healthy.running(), f"{order}: the healthy job has ended")
            expect_equal(outcome.returncode, 1,
                         f"{order}: exit status\n{outcome.stdout}{outcome.stderr}")
            expect("RC-COUNT-MISMATCH" in outcome.stdout, f"{order}: {outcome.stdout}")
            expect("HOLDS 2 JOBS" in outcome.stderr, f"{order}: {outcome.stderr}")
            expect("rank 1" in outcome.stdout, f"{order}: {outcome.stdout}")


if __name__ == "__main__":
    sys.exit(job.main([
        ("a job that hangs is found while another trains in the same directory",
         one_hangs_while_another_trains),
        ("a job that hung is found beside a healthy one that began later", one_after_the_other),
        ("info, stats and trace say of which job they are, and name the files of the others",
         others_say_which_job),
        ("ranks of two jobs that run at one time are not compared", side_by_side),
    ]))
