#!/usr/bin/env python3
"""How scripts/gpu_check.py judges, and what it chooses, where no GPU is needed to tell."""
import contextlib
import os
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path += [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "tests", "e2e")]

import gpu_check
import gpu_machine
import job
import paired
from job import expect, expect_equal


@contextlib.contextmanager
def raises_skip(text):
    try:
        yield
    except gpu_machine.Skip as skip:
        expect(text in str(skip), f"why it was skipped: {skip}")
        return
    raise job.Failure("it was not skipped")


def a_row_that_fails_leaves_the_others():
    machine = gpu_machine.Machine(1)

    def broken(_):
        return 0 < None, "never said"

    holds, text = gpu_check.run_check(broken, machine)
    expect_equal(holds, "NO", "what the row says")
    expect(text.startswith("TypeError: "), text)
    expect_equal(gpu_check.run_check(lambda _: (True, "fine"), machine), ("yes", "fine"),
                 "the next one")
    expect_equal(gpu_check.row_of("name", "yes", "a|b\nc"), "| name | yes | a/b c |", "a row")


def what_was_not_timed_has_no_median():
    def operation(state, started_ns, finished_ns):
        return {"state": state, "started_ns": started_ns, "finished_ns": finished_ns}

    untimed = operation("returned", None, None)
    expect_equal(gpu_check.median_ns([]), None, "of no operation")
    expect_equal(gpu_check.median_ns([untimed, untimed]), None, "of two that were not timed")
    expect_equal(gpu_check.median_ns([untimed, operation("finished", 5, 12)]), 7, "of one")


def a_goal_inside_the_interval_is_neither_held_nor_missed():
    expect_equal(paired.holds((0.1, 0.4), 0.5), True, "below")
    expect_equal(paired.holds((0.6, 0.9), 0.5), False, "above")
    expect_equal(paired.holds((0.1, 0.9), 0.5), None, "around")
    expect_equal(paired.interval_of([3.0] * 5), (3.0, 3.0), "without noise")
    expect_equal([gpu_check.word(answer) for answer in (True, False, None)],
                 ["yes", "NO", "neither"], "words")
    expect_equal(gpu_check.worst([True, None, False]), False, "with one missed")
    expect_equal(gpu_check.worst([True, None]), None, "with one that is not known")
    expect_equal(gpu_check.worst([True, True]), True, "with all held")


def the_newest_runtime_that_the_driver_serves_is_taken():
    def found(name):
        return name

    expect_equal(gpu_machine.runtime_for(13000, found), "", "for CUDA 13")
    expect_equal(gpu_machine.runtime_for(12080, found), "_cuda12", "for CUDA 12.8")
    expect_equal(gpu_machine.runtime_for(11080, found), "_cuda11", "for CUDA 11.8")
    with raises_skip("libcudart.so.11.0 needs a driver for CUDA 11.4, and this one is for 11.0"):
        gpu_machine.runtime_for(11000, lambda name: name == "libcudart.so.11.0")
    with raises_skip("libcudart.so.13 needs a driver for CUDA 13.0, and this one is for 12.8"):
        gpu_machine.runtime_for(12080, lambda name: name == "libcudart.so.13")
    with raises_skip("set CUDA_HOME"):
        gpu_machine.runtime_for(13000, lambda name: None)


def the_nccl_of_pytorch_is_taken_before_that_of_cuda():
    with tempfile.TemporaryDirectory() as root:
        def folder(*parts):
            path = os.path.join(root, *parts)
            os.makedirs(path)
            with open(os.path.join(path, "libnccl.so.2"), "w", encoding="utf-8"):
                return path

        named = folder("named", "lib")
        pip = folder("site-packages", "nvidia", "nccl", "lib")
        cuda = folder("cuda", "lib64")
        os.makedirs(os.path.join(root, "cuda", "lib"))  # holds nothing
        environment = {"NCCL_HOME": os.path.join(root, "named"),
                       "CUDA_HOME": os.path.join(root, "cuda")}
        found = gpu_machine.library_folders(environment, [os.path.join(root, "site-packages")])
        expect_equal([path for path in found if path.startswith(root)], [named, pip, cuda],
                     "folders")


def no_wait_is_longer_than_the_time_that_is_left():
    machine = gpu_machine.Machine(1)
    machine.deadline = time.monotonic() + 1000
    expect(900 < machine.patience_s(2000) <= 1000, f"{machine.patience_s(2000)} s")
    expect_equal(machine.patience_s(10), 10, "a shorter one, in s")
    machine.deadline = time.monotonic() - 1
    expect_equal(gpu_check.run_check(lambda _: (True, ""), machine)[0], "not reached", "a row")


def a_mark_in_a_graph_that_was_not_written_is_seen():
    def graph(pid, positions, operations):
        return {"type": "graph", "pid": pid, "operations": operations,
                "lanes": [{"position": position} for position in positions]}

    lines = [graph(1, [6, 4], 5), graph(2, [0], 5), {"type": "op"}]
    expect_equal(gpu_check.positions_of(lines), {1: (10, 10), 2: (0, 10)}, "positions")


def latencies_are_held_against_their_goal_and_only_those_that_have_one():
    def answers(percent, goal):
        latencies = gpu_check.Latencies(gpu_machine.Machine(1), 2)
        latencies.add("events", {"latency_ns": 1000, "host_ns": 500,
                                 "latency_added_percent": percent,
                                 "host_added_ns": [10] * len(percent)}, goal)
        expect(latencies.words[0].startswith("events "), f"{latencies.words}")
        return latencies.answers

    expect_equal(answers([0.1] * 9, 2.0), [True], "less than the goal")
    expect_equal(answers([9.0] * 9, 2.0), [False], "more")
    expect_equal(answers([-9.0, 9.0] * 5, 2.0), [None], "nobody knows")
    expect_equal(answers([9.0] * 9, None), [], "without a goal")


def a_step_that_time_ran_out_in_is_not_missed():
    machine = gpu_machine.Machine(1)

    def late(_):
        raise gpu_machine.OutOfTime("no time was left")

    expect_equal(gpu_check.run_check(late, machine), ("not reached", "no time was left"), "a row")


def the_head_says_why_two_ranks_cannot_share_the_gpu():
    machine = gpu_machine.Machine(1)
    machine.sharing = gpu_machine.HOSTS
    expect(any("take turns on it" in line for line in gpu_check.head_of(machine, 0)), "shared")
    machine.sharing_fault = "two ranks do not work here: refused"
    head = gpu_check.head_of(machine, 0)
    expect("Two ranks do not work here: refused." in head, f"{head}")
    expect(not any("take turns on it" in line for line in head), f"{head}")


def two_ranks_share_one_gpu_and_only_one():
    for gpus, ranks, is_shared in ((1, 2, True), (2, 2, False), (8, 4, False)):
        machine = gpu_machine.Machine(gpus)
        expect_equal((machine.ranks(), machine.is_shared(machine.ranks())), (ranks, is_shared),
                     f"ranks on {gpus} GPUs")
    machine = gpu_machine.Machine(1)
    machine.sharing_fault = "refused"
    with raises_skip("refused"):
        gpu_machine.Run(machine, ["program"])


def the_service_that_lets_ranks_run_side_by_side_is_ended_again():
    machine = gpu_machine.Machine(1)
    with machine.side_by_side(2) as words:
        expect_equal((words, machine.is_side_by_side), ([], False), "on emulated GPUs")
    machine.emulated = 0
    with tempfile.TemporaryDirectory() as folder:
        log, path = os.path.join(folder, "log"), os.environ["PATH"]
        os.environ["PATH"] = f"{folder}:{path}"
        for status in (0, 1):
            program = os.path.join(folder, gpu_machine.MPS_CONTROL)
            with open(program, "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\nif [ $# = 0 ]; then set -- "$(cat)"; fi\n'
                           f'echo "$1 $CUDA_MPS_PIPE_DIRECTORY" >> {log}\nexit {status}\n')
            os.chmod(program, 0o755)
            works = status == 0
            with machine.side_by_side(2) as words:
                expect_equal(bool(words), works, "what is said of it")
                expect_equal(machine.is_side_by_side, works, "whether it is there")
                piped = machine.environment({}).get("CUDA_MPS_PIPE_DIRECTORY")
                expect_equal(piped is not None, works, "whether ranks find it")
                kept = piped or kept
            expect_equal(machine.is_side_by_side, False, "afterwards")
            expect(not os.path.exists(kept), "its folder is gone")
        os.environ["PATH"] = path
        with open(log, encoding="utf-8") as file:
            lines = file.read().splitlines()
    expect_equal(lines[:2], [f"-d {kept}", f"quit {kept}"], "what was asked of it")
    expect_equal(len(lines), 3, "one that did not start is not ended")


if __name__ == "__main__":
    sys.exit(job.main([
        ("a row that fails leaves the others", a_row_that_fails_leaves_the_others),
        ("what was not timed has no median", what_was_not_timed_has_no_median),
        ("a goal inside the interval is neither held nor missed",
         a_goal_inside_the_interval_is_neither_held_nor_missed),
        ("the newest CUDA runtime that the driver serves is taken",
         the_newest_runtime_that_the_driver_serves_is_taken),
        ("the NCCL of PyTorch is taken before that of CUDA",
         the_nccl_of_pytorch_is_taken_before_that_of_cuda),
        ("no wait is longer than the time that is left",
         no_wait_is_longer_than_the_time_that_is_left),
        ("a mark in a graph that was not written is seen",
         a_mark_in_a_graph_that_was_not_written_is_seen),
        ("a step that time ran out in is not missed", a_step_that_time_ran_out_in_is_not_missed),
        ("latencies are held against their goal, and only those that have one",
         latencies_are_held_against_their_goal_and_only_those_that_have_one),
        ("the head says why two ranks cannot share the GPU",
         the_head_says_why_two_ranks_cannot_share_the_gpu),
        ("two ranks share one GPU, and only one", two_ranks_share_one_gpu_and_only_one),
        ("the service that lets ranks run side by side is ended again",
         the_service_that_lets_ranks_run_side_by_side_is_ended_again),
    ]))
