#!/usr/bin/env python3
"""`rollcall slow` on jobs of real processes: a rank that sleeps in every step, and a healthy twin.

The sleep is long against everything that a busy machine does to a step, so that who is named does
not depend on it.
"""
import json
import sys

import job
from job import Job, expect, expect_equal

RANKS = 4
CULPRIT = 2
STEPS = 30
SLEEP_S = 0.2
# Every operation is timed, however slow the machine is.
EVERY_OPERATION = {"ROLLCALL_OVERHEAD_BUDGET": "100"}


def recorded(fault):
    return Job(RANKS, ["--dp", str(RANKS), "--tp", "1", "--pp", "1", "--steps", str(STEPS),
                       "--bucket-elements", "256", "--fault", fault,
                       "--straggler-delay-ms", str(int(1000 * SLEEP_S))],
               environment=EVERY_OPERATION)


def asked(run, *arguments):
    outcome = run.rollcall("slow", run.run_directory, *arguments)
    expect(not outcome.stderr, f"stderr of slow: {outcome.stderr}")
    return outcome


def sleeping_rank():
    with recorded(f"straggler@{CULPRIT}:0") as run:
        expect_equal(run.run(), 0, "the job")
        outcome = asked(run, "--json")
        answer = json.loads(outcome.stdout)
        expect_equal(answer["schema"], "rollcall.slow/1", "the schema")
        finding = answer["finding"]
        expect(finding, f"nobody is named: {outcome.stdout}")
        expect_equal(finding["code"], "RC-STRAGGLER", "the code")
        expect_equal([culprit["rank"] for culprit in finding["culprits"]], [CULPRIT], "culprits")
        expect_equal(outcome.returncode, 4, "the exit status")
        expect(finding["recovered_ns"] > 0.25e9 * SLEEP_S, f"hardly anything is saved: {finding}")
        text = asked(run)
        expect(text.stdout.startswith("RC-STRAGGLER"), text.stdout)
        expect("had passed when its process made the call" in text.stdout, text.stdout)
        expect_equal(text.returncode, 4, "the exit status of the text")


def healthy_twin():
    with recorded("none") as run:
        expect_equal(run.run(), 0, "the job")
        outcome = asked(run, "--json")
        answer = json.loads(outcome.stdout)
        expect(answer["finding"] is None, f"somebody is named: {outcome.stdout}")
        expect_equal(answer["steps"]["found"], STEPS, "the steps")
        expect_equal(outcome.returncode, 0, "the exit status")
        text = asked(run)
        expect(text.stdout.startswith("Nobody is named"), text.stdout)


def without_times():
    with recorded("none") as run:
        run.environment["ROLLCALL_GPU_TIMING"] = "off"
        expect_equal(run.run(), 0, "the job")
        outcome = asked(run)
        expect_equal(outcome.returncode, 3, f"the exit status\n{outcome.stdout}")
        expect("ROLLCALL_GPU_TIMING" in outcome.stdout, outcome.stdout)


if __name__ == "__main__":
    sys.exit(job.main([
        ("a rank that sleeps in every step is named, alone", sleeping_rank),
        ("in its healthy twin nobody is named", healthy_twin),
        ("without GPU times slow says that it cannot tell", without_times),
    ]))
