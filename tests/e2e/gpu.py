#!/usr/bin/env python3
"""What the GPUs did, told by events around the calls: times, states, and the verdicts on them."""
import os
import sys

import job
from job import Job, expect, expect_equal

# 100: every operation is timed, however slow the machine that runs this test.
TIMED = {"ROLLCALL_GPU_TIMING": "events", "ROLLCALL_OVERHEAD_BUDGET": "100"}
PATIENT = ["--stalled-after", "1"]
# What the GPU has not begun. The profiler plugin knows what NCCL launched.
# Who hears of launches: the plugin, and the shim where calls come back before them.
HEARS_LAUNCHES = job.WAY.plugin or "--non-blocking" in job.MINI_TRAIN_ARGUMENTS
NOT_BEGUN = ("returned", "launched") if HEARS_LAUNCHES else ("returned",)


def operations(run):
    return [line for line in run.dump() if line["type"] == "op"
            and line["op"] not in ("GroupEnd", "GraphLaunch")]


def statistics(run):
    return [line for line in run.dump() if line["type"] == "stats"]


def stuck(ranks, fault, environment=None, shapes=None):
    arguments = ["--steps", "3", "--bucket-elements", "256", "--fault", fault,
                 *job.shape_arguments(ranks, shapes)]
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
            expect(op["state"] in NOT_BEGUN, f"the state of {op}")
            expect_equal(op["started_ns"], None, "the start")


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


PLANTED_ORDER = "on rank 1 Reduce 4 of world came before"


def hang_of_planted_order(run):
    """Whether the job hangs in the calls that were planted, on the rank that they were planted on.
    Its groups have streams of their own, which on a busy machine may meet in the same way by
    themselves, a few calls before or on another rank."""
    run.start()
    expect(not run.wait_for_end_or_hang(), "the job ended")
    wait_for_verdict(run, "RC-STUCK-ON-GPU")
    return PLANTED_ORDER in judged(run, *PATIENT)["summary"]


def expect_planted_order(run):
    for options in (PATIENT, []):
        finding = judged(run, *options)
        expect_equal(finding["code"], "RC-STUCK-ON-GPU", f"verdict\n{run.diff_text()}")
        expect_equal(finding["confidence"], "likely", "confidence")
        expect(PLANTED_ORDER in finding["summary"], finding["summary"])
        expect("room for both" in finding["next"], finding["next"])
        run.kill()


def gpus_without_room_for_two_calls_are_told_of():
    """All hosts call in one order. The first GPU to begin with the later call waits in it for those
    that run the earlier one, and has no room for that."""
    shapes = {4: (2, 2, 1), 8: (2, 2, 2)}
    room = {"ROLLCALL_EMULATE_NCCL_KERNELS": "1"}
    for ranks in shapes:
        for _ in range(5):
            with stuck(ranks, "stream-order@1:1", room, shapes) as run:
                is_planted = hang_of_planted_order(run)
                if is_planted:
                    expect_planted_order(run)
                    break
        expect(is_planted, f"five jobs of {ranks} ranks hung in other calls than the planted ones")


def waiting_outside_is_named():
    with stuck(2, "wait-outside@1:1") as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        # Of a job that is gone the last sign of life counts, not the present.
        run.wait_until(lambda: judged(run, "--stalled-after", "3")["code"] == "RC-STUCK-OUTSIDE",
                       "signs of life 2 s behind what a job that is gone may be quiet")
        finding = judged(run, *PATIENT)
        expect_equal(finding["culprits"], [], "culprits")
        run.kill()
        expect_equal(judged(run)["code"], "RC-STUCK-OUTSIDE", "verdict after SIGKILL")


def a_host_fault_is_still_the_hosts():
    with stuck(2, "host-stuck@1:1") as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        wait_for_verdict(run, "RC-MISSING-CALL")


def graphs_are_replayed_and_counted():
    arguments = ["--graphs", "--steps", "5", "--bucket-elements", "256", *job.shape_arguments(2)]
    with Job(2, arguments, environment=TIMED) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        lines = run.dump()
        captured = [line for line in lines if line["type"] == "op" and line["graph"]
                    and line["op"] != "GraphLaunch"]
        expect_equal(len(captured), 2 * 5, "captured operations")
        for op in captured:
            expect_equal(op["state"], "returned", f"the state of {op}")
        graphs = [line for line in lines if line["type"] == "graph"]
        expect_equal([(g["operations"], g["launches"]) for g in graphs], [(5, 4)] * 2, "graphs")
        # Through: two marks for each of five operations on one stream.
        expect_equal([[lane["position"] for lane in g["lanes"]] for g in graphs], [[10]] * 2,
                     "positions")
        launches = [line for line in lines if line.get("op") == "GraphLaunch"]
        expect_equal(sorted(l["replay"] for l in launches), [0, 0, 1, 1, 2, 2, 3, 3], "replays")
        for launch in launches:
            expect_equal((launch["state"], launch["count"]), ("finished", 5), f"{launch}")
            expect(launch["called_ns"] <= launch["started_ns"] <= launch["finished_ns"],
                   f"times of {launch}")
        for line in statistics(run):
            expect_equal([line["counters"][name] for name in
                          ("graph_unmarked", "graph_table_full", "gpu_unwritten")], [0] * 3,
                         "counters")
        report = run.diff()
        expect_equal([f["code"] for f in report["findings"]], ["RC-IN-LOCKSTEP"], "verdict")


def expect_diverged(run, *options):
    report = run.diff(*options)
    finding = report["findings"][0]
    expect_equal(finding["code"], "RC-GRAPH-DIVERGED", f"verdict\n{run.diff_text()}")
    expect_equal([c["rank"] for c in finding["culprits"]], [1], f"culprits\n{run.diff_text()}")
    expect_equal(finding["confidence"], "certain", "confidence")
    expect_equal(len(report["findings"]), 1, "findings")
    return finding


def diverged_live_and_killed(run):
    """The finding while the job hangs, and again when it was killed."""
    run.start()
    run.wait_until(lambda: run.planted_fault(1), "the planted fault")
    wait_for_verdict(run, "RC-GRAPH-DIVERGED")
    yield expect_diverged(run, *PATIENT)
    run.kill()
    yield expect_diverged(run)


def a_graph_that_differs_is_named():
    with stuck(2, "graph-capture@1:1") as run:
        for finding in diverged_live_and_killed(run):
            expect_equal(finding["culprits"][0]["seq"], run.planted_fault(1)["seq"], "seq")
            expect("captured 4 operations" in finding["summary"], finding["summary"])
            expect("operation 5 of the graph, AllGather" in finding["summary"],
                   finding["summary"])


def a_replay_that_is_missing_is_named():
    for ranks in (2, 8):
        with stuck(ranks, "graph-replay@1:2") as run:
            for finding in diverged_live_and_killed(run):
                expect("1 time," in finding["summary"], finding["summary"])
                expect("2 times" in finding["summary"], finding["summary"])
                expect("is inside AllReduce" in finding["summary"], finding["summary"])


def remove(run, ending):
    paths = [os.path.join(run.run_directory, name) for name in os.listdir(run.run_directory)
             if name.endswith(ending)]
    expect(paths, f"no file ends with {ending}")
    for path in paths:
        os.unlink(path)


def what_was_captured_outlives_the_history():
    """The rings have gone round often, and the bound of the history has removed the old segments:
    here it is the test that does so."""
    arguments = ["--steps", "200", "--bucket-elements", "256", "--fault", "graph-replay@1:150",
                 *job.shape_arguments(2)]
    with Job(2, arguments, environment={**TIMED, "ROLLCALL_RING_SLOTS": "256"}) as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        wait_for_verdict(run, "RC-GRAPH-DIVERGED")
        run.kill()
        finding = judged(run, "--held", "200")
        expect_equal((finding["code"], [c["rank"] for c in finding["culprits"]]),
                     ("RC-GRAPH-DIVERGED", [1]), "verdict with most calls left on disk")
        remove(run, ".segment")
        for options in ([], ["--window", "8"]):
            finding = judged(run, *options)
            expect_equal((finding["code"], [c["rank"] for c in finding["culprits"]]),
                         ("RC-GRAPH-DIVERGED", [1]), f"verdict\n{run.diff_text()}")
            expect("inside AllReduce" in finding["summary"], finding["summary"])
        remove(run, ".captured")
        finding = judged(run)
        expect_equal((finding["code"], finding["culprits"]), ("RC-INSUFFICIENT", []),
                     f"verdict without what was captured\n{run.diff_text()}")
        expect("no longer on file" in finding["summary"], finding["summary"])


# The recorder's own thread never looks at an event: what is known, the GPU has written.
UNWATCHED = {"ROLLCALL_GPU_TIMING": "progress", "ROLLCALL_GPU_POLL_MS": "3600000"}


def progress_of_a_process_that_cannot_speak():
    for fault in ("stop", "kill"):
        with stuck(4, f"{fault}@1:1", UNWATCHED) as run:
            run.start()
            run.wait_until(lambda: run.planted_fault(1), "the planted fault")
            pid = run.pids()[1]
            # Step 0 ended with a wait for the streams: the GPU is through with all of it. A step
            # begins with the Broadcast of the flag.
            mine = [line for line in operations(run) if line["pid"] == pid]
            steps = [i for i, op in enumerate(mine) if op["op"] == "Broadcast"]
            expect_equal(len(steps), 2, "steps")
            first, second = mine[:steps[1]], mine[steps[1]:]
            expect(len(first) > 5, f"only {len(first)} operations")
            for op in first:
                expect_equal((op["state"], op["started_ns"], op["finished_ns"]),
                             ("finished", None, None), f"what is known of {op}")
            for op in second:
                expect(op["state"] in (*NOT_BEGUN, "started", "finished"), f"the state of {op}")
            run.kill()
            after = [line for line in operations(run) if line["pid"] == pid]
            expect_equal([op["state"] for op in after[:steps[1]]], ["finished"] * len(first),
                         "states after SIGKILL to all")


def a_blocked_stream_is_seen_in_the_words_alone():
    with stuck(2, "stream-block@1:1", UNWATCHED) as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        wait_for_verdict(run, "RC-STREAM-BLOCKED")
        expect_equal([c["rank"] for c in judged(run, *PATIENT)["culprits"]], [1], "culprits")


def a_program_that_loads_nccl_itself_is_timed():
    with Job(1, ["20"], program=[job.DLOPEN_USER], environment=TIMED) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        ops = operations(run)
        expect(ops, "nothing was recorded")
        # One group over several devices: every operation is on the stream of its own.
        for op in ops:
            expect_equal(op["state"], "finished", f"the state of {op}")


def a_gpu_that_is_reset_takes_nothing_along():
    # Nobody looks at the events before the job has reset the GPU, and made its context anew.
    environment = {**TIMED, "ROLLCALL_GPU_POLL_MS": "3600000"}
    with Job(1, [], environment=environment) as run:
        client = os.path.join(os.path.dirname(os.path.abspath(__file__)), "reset_client.py")
        run.command[run.command.index("--") + 1:] = [sys.executable, client, run.folder]
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        expect_equal([op["finished_ns"] is not None for op in operations(run)], [False, True],
                     f"what is known of the two operations ({operations(run)})")
        expect_equal([s["counters"]["gpu_untimed"] for s in statistics(run)], [1], "given up")
        metas = [line for line in run.dump() if line["type"] == "process"]
        expect_equal([meta for meta in metas if "gpu_fault" in str(meta)], [], "refused calls")


if __name__ == "__main__":
    sys.exit(job.main([
        ("every operation of a healthy job is timed", every_operation_is_timed),
        ("without GPU timing there are no GPU times", off_means_off),
        ("a blocked stream is named", blocked_stream_is_named),
        ("a stuck kernel is named", stuck_kernel_is_named),
        ("GPUs that have no room for two calls, and come to them in other orders, are told of",
         gpus_without_room_for_two_calls_are_told_of),
        ("a job that waits outside of NCCL is told so", waiting_outside_is_named),
        ("a rank that sleeps on the host is still a missing call", a_host_fault_is_still_the_hosts),
        ("graphs are replayed, and counted", graphs_are_replayed_and_counted),
        ("a rank that captured differently is named", a_graph_that_differs_is_named),
        ("a rank that replayed once less is named", a_replay_that_is_missing_is_named),
        ("what was captured outlives the history", what_was_captured_outlives_the_history),
        ("what the GPU wrote is read of a rank that was stopped or killed",
         progress_of_a_process_that_cannot_speak),
        ("a blocked stream is seen in the words alone",
         a_blocked_stream_is_seen_in_the_words_alone),
        ("a program that loads NCCL itself is timed", a_program_that_loads_nccl_itself_is_timed),
        ("a GPU that is reset loses what ran on it, and nothing that comes after",
         a_gpu_that_is_reset_takes_nothing_along),
    ]))
