#!/usr/bin/env python3
"""What the GPUs did, told by events around the calls: times, states, and the verdicts on them."""
import sys

import job
from job import Job, expect, expect_equal

# 100: every operation is timed, however slow the machine that runs this test.
TIMED = {"ROLLCALL_GPU_TIMING": "events", "ROLLCALL_OVERHEAD_BUDGET": "100"}
PATIENT = ["--stalled-after", "1"]


def operations(run):
    return [line for line in run.dump() if line["type"] == "op" and line["op"] != "GroupEnd"]


def statistics(run):
    return [line for line in run.dump() if line["type"] == "stats"]


def stuck(ranks, fault, environment=None):
    arguments = ["--steps", "3", "--bucket-elements", "256", "--fault", fault,
                 *job.shape_arguments(ranks)]
    return Job(ranks, arguments, environment={**TIMED, **(environment or {})})


def judged(run, *options):
    return run.diff(*options)["findings"][0]


def wait_for_verdict(run, code):
    """The host may be through with a step long before the emulated GPUs of a busy machine are."""
    run.wait_until(lambda: judged(run, *PATIENT)["code"] == code, f"the verdict {code}")


def every_operation_is_timed():
    arguments = ["--steps", "3", "--bucket-elements", "256", *job.shape_arguments(4)]
    with Job(4, arguments, environment=TIMED) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        ops = operations(run)
        expect(len(ops) > 100, f"only {len(ops)} operations")
        for op in ops:
            expect_equal(op["state"], "finished", f"the state of {op}")
            expect(op["called_ns"] <= op["started_ns"] <= op["finished_ns"], f"times of {op}")
        expect_equal([s["counters"]["gpu_untimed"] for s in statistics(run)], [0] * 4,
                     "operations given up")
        report = run.diff()
        expect_equal(report["findings"][0]["code"], "RC-IN-LOCKSTEP", "the verdict")
        expect_equal(len(report["findings"]), 1, "findings")


def off_means_off():
    with Job(2, ["--dp", "2", "--steps", "2"], environment={"ROLLCALL_GPU_TIMING": "off"}) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        for op in operations(run):
            expect_equal((op["state"], op["started_ns"]), ("returned", None), "state and start")


def blocked_stream_is_named():
    for ranks in (2, 8):
        with stuck(ranks, "stream-block@1:1") as run:
            run.start()
            run.wait_until(lambda: run.planted_fault(1), "the planted fault")
            wait_for_verdict(run, "RC-STREAM-BLOCKED")
            for options in (PATIENT, None):
                if options is None:
                    run.kill()
                finding = judged(run, *(options or []))
                expect_equal(finding["code"], "RC-STREAM-BLOCKED", f"verdict\n{run.diff_text()}")
                expect_equal([c["rank"] for c in finding["culprits"]], [1], "culprits")
                expect_equal(finding["culprits"][0]["seq"], run.planted_fault(1)["seq"], "seq")
                expect_equal(finding["confidence"], "certain", "confidence")


def stuck_kernel_is_named():
    # Rank 1's 20th operation takes hours; the others come through it and wait in a later one.
    with stuck(2, "none", {"ROLLCALL_EMULATE_FAULT": "slow=4000000000@1:20"}) as run:
        run.start()
        expect(not run.wait_for_end_or_hang(), "the job ended")
        wait_for_verdict(run, "RC-STUCK-ON-GPU")
        finding = judged(run, *PATIENT)
        expect_equal([c["rank"] for c in finding["culprits"]], [1], "culprits")
        run.kill()
        finding = judged(run)
        expect_equal(finding["code"], "RC-STUCK-ON-GPU", "verdict after SIGKILL")


def waiting_outside_is_named():
    with stuck(2, "wait-outside@1:1") as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        wait_for_verdict(run, "RC-STUCK-OUTSIDE")
        finding = judged(run, *PATIENT)
        expect_equal(finding["culprits"], [], "culprits")
        run.kill()
        expect_equal(judged(run)["code"], "RC-STUCK-OUTSIDE", "verdict after SIGKILL")


def a_host_fault_is_still_the_hosts():
    with stuck(2, "host-stuck@1:1") as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        wait_for_verdict(run, "RC-MISSING-CALL")


def a_program_that_loads_nccl_itself_is_timed():
    with Job(1, ["20"], program=[job.DLOPEN_USER], environment=TIMED) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        ops = operations(run)
        expect(ops, "nothing was recorded")
        # One group over several devices: every operation is on the stream of its own.
        for op in ops:
            expect_equal(op["state"], "finished", f"the state of {op}")


if __name__ == "__main__":
    sys.exit(job.main([
        ("every operation of a healthy job is timed", every_operation_is_timed),
        ("without GPU timing there are no GPU times", off_means_off),
        ("a blocked stream is named", blocked_stream_is_named),
        ("a stuck kernel is named", stuck_kernel_is_named),
        ("a job that waits outside of NCCL is told so", waiting_outside_is_named),
        ("a rank that sleeps on the host is still a missing call", a_host_fault_is_still_the_hosts),
        ("a program that loads NCCL itself is timed", a_program_that_loads_nccl_itself_is_timed),
    ]))
