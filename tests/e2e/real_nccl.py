#!/usr/bin/env python3
"""The shim in front of a real NCCL's host code, and the profiler plugin in it, on the emulated CUDA
runtime.

    ROLLCALL_REAL_NCCL=DIR make test      DIR holds a libnccl.so.2 that links libcudart.so.13

Kernels of the emulated GPU do nothing, so results are not compared; what NCCL does on the host is
real: bootstrap, communicators, groups, its calls to itself. A NCCL with a static CUDA runtime, as
in NVIDIA's packages, cannot run here.
"""
import functools
import os
import subprocess
import sys

import job
import plugin
from job import Job, Way, expect, expect_equal
from plugin import Seen
from sequence import expect_same_calls, logged_calls, recorded_calls, told_calls

REAL_NCCL = os.environ.get("ROLLCALL_REAL_NCCL", "")
STAND_INS = ":".join(os.path.join(job.EMULATOR, name) for name in
                     ("libcuda.so.1", "libcudart.so.13", "libcudart.so.12", "libnvidia-ml.so.1"))
ASK_VERSION = ("import ctypes; number = ctypes.c_int(); "
               "ctypes.CDLL('libnccl.so.2').ncclGetVersion(ctypes.byref(number)); "
               "print(number.value)")
IN_PROGRESS = 7
# The first release that has each version of the profiler interface.
INTERFACES = ((23100, 7), (22900, 6), (22800, 5), (22700, 4), (22600, 3), (22400, 2), (22300, 1))


@functools.lru_cache(maxsize=None)
def nccl_version():
    done = subprocess.run([sys.executable, "-c", ASK_VERSION], text=True, capture_output=True,
                          check=False, env=job.clean_environment(
                              {"LD_PRELOAD": STAND_INS,
                               "LD_LIBRARY_PATH": os.path.abspath(REAL_NCCL)}))
    expect_equal(done.returncode, 0, f"status of asking NCCL for its version ({done.stderr})")
    return int(done.stdout)


def interface():
    """The newest version of the profiler interface that this NCCL has; 0 where it has none."""
    return next((version for since, version in INTERFACES if nccl_version() >= since), 0)


def through_plugin(name):
    """The way "plugin" or "both" through it."""
    return Way(f"{name}-v{interface()}")


def on_real_nccl(run, gpus):
    """The job with the stand-ins preloaded, but NCCL's."""
    run.command = [word for word in run.command if not word.startswith("--emulate")]
    run.environment.update({
        "LD_PRELOAD": STAND_INS,
        "LD_LIBRARY_PATH": os.path.abspath(REAL_NCCL),
        "ROLLCALL_EMULATE_GPUS": str(gpus),
        "ROLLCALL_EMULATE_SESSION": os.path.basename(run.folder),
        "NCCL_SOCKET_IFNAME": "lo",
    })
    return run


def real_job(ranks, arguments, way, environment=None):
    return on_real_nccl(Job(ranks, ["--no-verify", "--steps", "3", "--bucket-elements", "256",
                                    *arguments], environment=environment, way=way), ranks)


def real_client(rounds, environment, way, *arguments):
    return on_real_nccl(plugin.client(rounds, environment, way, *arguments), plugin.RANKS)


def expect_enriched(lines):
    """NCCL 2.29 and later tell nothing of a Broadcast behind its call."""
    silent = ("GroupEnd", "GraphLaunch") + (("Broadcast",) if nccl_version() >= 22900 else ())
    for line in lines:
        if line["type"] == "op" and line["op"] not in silent:
            expect("launched_ns" in line, f"no launch in {line}")
            expect(line.get("algorithm") or line["seq"] is None, f"no algorithm in {line}")


def expect_right_run(lines, way):
    for line in lines:
        if line["type"] == "run" and way.shim:
            path = line["meta"]["nccl_path"]
            expect(os.path.realpath(REAL_NCCL) in os.path.realpath(path), f"NCCL is {path}")
        if line["type"] == "run":
            expect_equal(line["meta"]["nccl_version"], str(nccl_version()), "NCCL's version")
        if line["type"] == "run" and way.plugin:
            expect("plugin" in line["coverage"], f"coverage is {line['coverage']}")
            expect_equal(line["meta"]["plugin_interface"], str(interface()), "the interface used")
        if line["type"] == "stats":
            for counter in ("plugin_stale", "plugin_stopped_twice", "plugin_unjoined"):
                expect_equal(line["counters"][counter], 0, counter)


def recorded_sequence(ranks, arguments, name, environment=None):
    """What is on record of a job, after it was found to be what the job called."""
    way = Way(name) if name == "shim" else through_plugin(name)
    with real_job(ranks, arguments, way, environment) as run:
        expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
        lines = run.dump()
        expect_right_run(lines, way)
        if way.plugin:
            expect_enriched(lines)
        for rank, pid in run.pids().items():
            logged = logged_calls(run, rank) if way.shim else told_calls(run, rank, way.version)
            recorded = recorded_calls(lines, pid, tuple(logged[0]))
            expect_same_calls(logged, recorded, rank)
        codes = [finding["code"] for finding in run.diff()["findings"]]
        expect_equal(codes, ["RC-IN-LOCKSTEP"], "the verdict")
        return lines


def the_sequence_is_recorded(ranks, arguments, name="shim"):
    recorded_sequence(ranks, arguments, name)


def captured():
    """Of each rank the operations of a step's gradients. The plugin hears of captures from 2.28 on,
    the shim where it times the GPU."""
    for name in ("shim", "plugin", "both") if interface() > 0 else ("shim",):
        for timing in ("off", "events"):
            lines = recorded_sequence(2, ["--dp", "2", "--graphs"], name,
                                      {"ROLLCALL_GPU_TIMING": timing})
            is_heard = (timing == "events" and name != "plugin") or (
                interface() >= 5 and name != "shim")
            ops = [line["op"] for line in lines if line["type"] == "op" and line["graph"]
                   and line["op"] not in ("GroupEnd", "GraphLaunch")]
            of_a_rank = ["AllReduce"] * 3 + ["ReduceScatter", "AllGather"]
            expect_equal(sorted(ops), sorted(2 * of_a_rank) if is_heard else [],
                         f"operations recorded as captured, {name}, GPU timing {timing}")


def without_blocking():
    """Beside the shim the plugin hears inside the call which one it is, from 2.28 on."""
    for name in ("shim", "both") if interface() >= 5 else ("shim",):
        for arguments in (["--dp", "2", "--graphs"], ["--pp", "2"]):
            lines = recorded_sequence(2, ["--non-blocking", *arguments], name,
                                      {"ROLLCALL_GPU_TIMING": "events"})
            calls = [line for line in lines if line["type"] == "op"
                     and line["op"] not in ("GroupEnd", "GraphLaunch") and not line["graph"]]
            expect(any(call["result"] == IN_PROGRESS for call in calls), "no call came back early")
            for call in calls:
                expect_equal(call["state"], "finished", f"the state of {call}")
                expect(call["result"] != IN_PROGRESS or "launched_ns" in call, f"{call}")


def loaded_again():
    rounds = 3
    for name in ("plugin", "both"):
        with real_client(rounds, {}, through_plugin(name)) as run:
            expect_equal(run.run(), 0, f"the job's status ({run.describe()})")
            seen = Seen(run)
        expect_equal(len(seen.runs), 1, f"files of one process, {name}")
        expect_equal(len(seen.comms), plugin.RANKS * rounds, f"communicators, {name}")
        calls = [line["op"] for line in seen.ops if line["op"] != "GroupEnd"]
        expected = {"AllReduce": 4, "Broadcast": 2, "Send": 2, "Recv": 2}
        expect_equal({op: calls.count(op) for op in set(calls)},
                     {op: count * rounds for op, count in expected.items()}, f"calls, {name}")
        seen.expect_clean()


def chained():
    """All that NCCL tells without the network and without its kernels' own words. A plugin of a
    newer interface than NCCL's is not loaded, neither alone nor behind Rollcall's."""
    for suffix, version, mask in (("", 1, "0x7f07"), ("", 1, "0x2"), ("", 1, "0x4"),
                                  ("_v5", 5, "0xf07"), ("_v4", 4, "0x7")):
        if version <= interface():
            plugin.chain_hears(suffix, "", mask, make_client=real_client)


def main():
    if not REAL_NCCL:
        print("skipped: set ROLLCALL_REAL_NCCL to the folder of a libnccl.so.2 with a shared CUDA "
              "runtime")
        return 77
    print(f"NCCL {nccl_version()}, profiler interface {interface() or 'none'}", flush=True)
    tests = [
        ("two ranks of a real NCCL are recorded call for call",
         lambda: the_sequence_is_recorded(2, ["--dp", "2"])),
        ("a real NCCL's tensor and pipeline groups are recorded call for call",
         lambda: the_sequence_is_recorded(4, job.shape_arguments(4))),
        ("what a real NCCL captures into a CUDA graph is recorded as captured", captured),
        ("operations of a real NCCL's non-blocking communicators are timed", without_blocking),
    ]
    if interface() > 0:
        tests += [
            ("the plugin alone records a real NCCL's calls, as far as its release tells of them",
             lambda: the_sequence_is_recorded(4, job.shape_arguments(4), "plugin")),
            ("beside the shim, the plugin adds to the record of the same calls",
             lambda: the_sequence_is_recorded(4, job.shape_arguments(4), "both")),
            ("a real NCCL unloads the plugin and loads it again", loaded_again),
            ("a chained plugin hears of a real NCCL what it would hear alone", chained),
        ]
    return job.main(tests)


if __name__ == "__main__":
    sys.exit(main())
