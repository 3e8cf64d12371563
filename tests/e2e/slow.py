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
# As long as a busy machine may need for the line at the end of a job.
WITH_SUMMARY = {"ROLLCALL_SUMMARY_SECONDS": "60"}


def recorded(fault, *, ranks=RANKS, steps=STEPS, options=(), environment=None, status=0):
    failing = ["sh", "-c", f'"$@" && exit {status}', "sh", job.MINI_TRAIN]
    return Job(ranks, ["--dp", str(ranks), "--tp", "1", "--pp", "1", "--steps", str(steps),
                       "--bucket-elements", "256", "--fault", fault,
                       "--straggler-delay-ms", str(int(1000 * SLEEP_S))],
               program=failing if status else None, options=options,
               environment={**EVERY_OPERATION, **(environment or {})})


def summary_lines(run):
    """What `rollcall run` said of the steps."""
    return [line for line in run.stderr().splitlines()
            if " were compared" in line or "rollcall slow" in line]


def asked(run, *arguments):
    outcome = run.rollcall("slow", run.run_directory, *arguments)
    expect(not outcome.stderr, f"stderr of slow: {outcome.stderr}")
    return outcome


def sleeping_rank():
    with recorded(f"straggler@{CULPRIT}:0", environment=WITH_SUMMARY) as run:
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
        page = run.rollcall("report", run.run_directory).stdout
        steps = page[page.index('<section id="steps">'):]
        said = f"<h3>RC-STRAGGLER ({finding['confidence']}): rank {CULPRIT} ("
        expect(said in steps, steps[:500])
        lines = summary_lines(run)
        expect_equal(len(lines), 1, f"lines about the steps\n{run.stderr()}")
        expect(f"of {STEPS} steps of emulated GPUs were compared" in lines[0], lines[0])
        expect("; RC-STRAGGLER (" in lines[0] and f"): rank {CULPRIT} (" in lines[0], lines[0])
        expect(lines[0].endswith(f"; for more: rollcall slow {run.run_directory}"), lines[0])
        text = asked(run)
        expect(text.stdout.startswith("RC-STRAGGLER"), text.stdout)
        expect("had passed when its process made the call" in text.stdout, text.stdout)
        expect_equal(text.returncode, 4, "the exit status of the text")


def healthy_twin():
    with recorded("none", environment=WITH_SUMMARY) as run:
        expect_equal(run.run(), 0, "the job")
        lines = summary_lines(run)
        expect_equal(len(lines), 1, f"lines about the steps\n{run.stderr()}")
        expect("of a step is charged to one cause; for more: " in lines[0], lines[0])
        outcome = asked(run, "--json")
        answer = json.loads(outcome.stdout)
        expect(answer["finding"] is None, f"somebody is named: {outcome.stdout}")
        expect_equal(answer["steps"]["found"], STEPS, "the steps")
        expect_equal(outcome.returncode, 0, "the exit status")
        text = asked(run)
        expect(text.stdout.startswith("Nobody is named"), text.stdout)
        compared_with_itself(run)


def compared_with_itself(run):
    """A run differs from itself in nothing, whatever the machine did to its steps."""
    outcome = run.rollcall("slow", run.run_directory, run.run_directory)
    expect_equal(outcome.returncode, 0, f"the exit status\n{outcome.stdout}{outcome.stderr}")
    expect("The steps do not differ by more than they vary" in outcome.stdout, outcome.stdout)
    expect("no part differs that much" in outcome.stdout, outcome.stdout)
    expect("Versions, settings, ranks and hosts are the same" in outcome.stdout, outcome.stdout)
    outcome = run.rollcall("slow", run.run_directory, run.run_directory, "--json")
    against = json.loads(outcome.stdout)["against"]
    expect_equal((against["compared"], against["parts_compared"], against["differences"]),
                 (True, True, []), "what the JSON has of both")


def without_times():
    with recorded("none") as run:
        run.environment.update({"ROLLCALL_GPU_TIMING": "off", **WITH_SUMMARY})
        expect_equal(run.run(), 0, "the job")
        expect_equal(summary_lines(run), [], "lines about the steps of a job that was not timed")
        outcome = asked(run)
        expect_equal(outcome.returncode, 3, f"the exit status\n{outcome.stdout}")
        expect("ROLLCALL_GPU_TIMING" in outcome.stdout, outcome.stdout)


def jobs_whose_steps_are_not_told_of():
    """Too few steps, and a limit that is no number; a job that failed in the end, whose verdict
    leads; one that was asked to be quiet; and where the line is switched off."""
    for case, steps, status, options, seconds in (
            ("a short job", 10, 0, (), "soon"),
            ("a job that fails", STEPS, 3, (), "60"),
            ("--quiet", STEPS, 0, ("--quiet",), "60"),
            ("switched off", STEPS, 0, (), "0")):
        with recorded("none", ranks=2, steps=steps, options=options, status=status,
                      environment={"ROLLCALL_SUMMARY_SECONDS": seconds}) as run:
            expect_equal(run.run(), status, f"{case}: the job ({run.describe()})")
            expect_equal(summary_lines(run), [], f"{case}: lines about the steps")
            expect_equal(run.stderr().count("is not a number of seconds"), int(seconds == "soon"),
                         f"{case}: complaints about the limit\n{run.stderr()}")


if __name__ == "__main__":
    sys.exit(job.main([
        ("a rank that sleeps in every step is named, alone", sleeping_rank),
        ("in its healthy twin nobody is named", healthy_twin),
        ("without GPU times slow says that it cannot tell", without_times),
        ("of few steps, of a failed job and of a quiet one no line is said",
         jobs_whose_steps_are_not_told_of),
    ]))
