#!/usr/bin/env python3
"""The shim in front of a real NCCL's host code, and the profiler plugin in it, on the emulated CUDA
runtime.

    ROLLCALL_REAL_NCCL=DIR make test      DIR holds a libnccl.so.2 that links libcudart.so.13

Kernels of the emulated GPU do nothing, so results are not compared; what NCCL does on the host is
real: bootstrap, communicators, groups, its calls to itself. A NCCL with a static CUDA runtime, as
in NVIDIA's packages, cannot run here.
"""
import os
import sys

import job
import plugin
from job import Job, Way, expect, expect_equal
from plugin import Seen
from sequence import COMPARED, TOLD, expect_same_calls, logged_calls, recorded_calls

REAL_NCCL = os.environ.get("ROLLCALL_REAL_NCCL", "")
STAND_INS = ("libcuda.so.1", "libcudart.so.13", "libcudart.so.12", "libnvidia-ml.so.1")

SHIM, PLUGIN, BOTH = Way("shim"), Way("plugin-v7"), Way("both-v7")


def on_real_nccl(run, gpus):
    """The job with the stand-ins preloaded, but NCCL's."""
    run.command = [word for word in run.command if not word.startswith("--emulate")]
    run.environment.update({
        "LD_PRELOAD": ":".join(os.path.join(job.EMULATOR, name) for name in STAND_INS),
        "LD_LIBRARY_PATH": os.path.abspath(REAL_NCCL),
        "ROLLCALL_EMULATE_GPUS": str(gpus),
        "ROLLCALL_EMULATE_SESSION": os.path.basename(run.folder),
        "NCCL_SOCKET_IFNAME": "lo",
    })
    return run


def real_job(ranks, arguments, way):
    return on_real_nccl(Job(ranks, ["--no-verify", "--steps", "3", "--bucket-elements", "256",
                                    *arguments], way=way), ranks)


def real_client(rounds, environment, way, *arguments):
    return on_real_nccl(plugin.client(rounds, environment, way, *arguments), plugin.RANKS)


def expect_enriched(lines):
    """NCCL 2.29 and later tell nothing of a Broadcast behind its call."""
    launched = [line for line in lines if line["type"] == "op"
                and line["op"] not in ("Broadcast", "GroupEnd")]
    for line in launched:
        expect("launched_ns" in line, f"no launch in {line}")
        expect(line.get("algorithm") or line["seq"] is None, f"no algorithm in {line}")


def the_sequence_is_recorded(ranks, arguments, way=SHIM):
    compared = COMPARED if way.shim else TOLD
    with real_job(ranks, arguments, way) as run:
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        lines = run.dump()
        for line in lines:
            if line["type"] == "run" and way.shim:
                path = line["meta"]["nccl_path"]
                expect(os.path.realpath(REAL_NCCL) in os.path.realpath(path), f"NCCL is {path}")
            if line["type"] == "run" and way.plugin:
                expect("plugin" in line["coverage"], f"coverage is {line['coverage']}")
            if line["type"] == "stats":
                for counter in ("plugin_stale", "plugin_stopped_twice", "plugin_unjoined"):
                    expect_equal(line["counters"][counter], 0, counter)
        if way.plugin:
            expect_enriched(lines)
        for rank, pid in run.pids().items():
            expect_same_calls(logged_calls(run, rank, compared),
                              recorded_calls(lines, pid, compared), rank)
        codes = [finding["code"] for finding in run.diff()["findings"]]
        expect_equal(codes, ["RC-IN-LOCKSTEP"], "the verdict")


def loaded_again():
    rounds = 3
    for way in (PLUGIN, BOTH):
        with real_client(rounds, {}, way) as run:
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            seen = Seen(run)
        what = way.text
        expect_equal(len(seen.runs), 1, f"files of one process, {what}")
        expect_equal(len(seen.comms), plugin.RANKS * rounds, f"communicators, {what}")
        calls = [line["op"] for line in seen.ops if line["op"] != "GroupEnd"]
        expected = {"AllReduce": 4, "Broadcast": 2, "Send": 2, "Recv": 2}
        expect_equal({name: calls.count(name) for name in set(calls)},
                     {name: count * rounds for name, count in expected.items()}, f"calls, {what}")
        seen.expect_clean()


def chained():
    """All that NCCL tells without the network and without its kernels' own words."""
    for suffix, mask in (("", "0x7f07"), ("_v5", "0xf07"), ("_v4", "0x7")):
        plugin.chain_hears(suffix, "", mask, make_client=real_client)


if __name__ == "__main__":
    if not REAL_NCCL:
        print("skipped: set ROLLCALL_REAL_NCCL to the folder of a libnccl.so.2 with a shared CUDA "
              "runtime")
        sys.exit(77)
    sys.exit(job.main([
        ("two ranks of a real NCCL are recorded call for call",
         lambda: the_sequence_is_recorded(2, ["--dp", "2"])),
        ("a real NCCL's tensor and pipeline groups are recorded call for call",
         lambda: the_sequence_is_recorded(4, job.shape_arguments(4))),
        ("the plugin alone records a real NCCL's calls, all but their reductions",
         lambda: the_sequence_is_recorded(4, job.shape_arguments(4), PLUGIN)),
        ("beside the shim, the plugin adds to the record of the same calls",
         lambda: the_sequence_is_recorded(4, job.shape_arguments(4), BOTH)),
        ("a real NCCL unloads the plugin and loads it again", loaded_again),
        ("a chained plugin hears of a real NCCL what it would hear alone", chained),
    ]))
