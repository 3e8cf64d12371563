#!/usr/bin/env python3
"""What CUPTI tells of the kernels: times, launches and names, and what happens without it."""
import json
import os
import sys

import job
from job import Job, expect, expect_equal
from gpu import operations, statistics

CUPTI = os.path.join(job.EMULATOR, "libcupti.so.13")
TIMED = {"ROLLCALL_GPU_TIMING": "cupti", "ROLLCALL_OVERHEAD_BUDGET": "100"}
SHIM_WITHOUT_CUPTI = os.path.join(job.BUILD, "shim", "librollcall-without-cupti.so")


class BuiltWithoutCupti(job.Way):
    """Recorded by a shim as it is built where there is no cupti.h, and by no other."""

    def __init__(self):
        super().__init__("shim")

    def environment(self):
        return {"LD_PRELOAD": os.path.abspath(SHIM_WITHOUT_CUPTI)}

    def command(self, command):
        return [sys.executable, job.WITHOUT_SHIM, *command]


def training(ranks, *arguments, environment=None, steps=3, way=job.WAY):
    return Job(ranks, ["--steps", str(steps), "--bucket-elements", "256", *arguments,
                       *job.shape_arguments(ranks)],
               environment={**TIMED, **(environment or {})}, way=way)


def meta(run, key):
    return [line["meta"].get(key) for line in run.dump() if line["type"] == "run"]


def counters(run, name):
    return [line["counters"][name] for line in statistics(run)]


def stderr_of(run):
    with open(run.stderr_path, encoding="utf-8") as file:
        return file.read()


def complaints(run):
    return [line for line in stderr_of(run).splitlines() if "ROLLCALL_GPU_TIMING=cupti" in line]


def every_operation_has_its_kernel():
    with training(4) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        expect_equal(meta(run, "gpu_timing"), ["cupti"] * 4, "how operations were timed")
        expect_equal(complaints(run), [], "what was said")
        ops = operations(run)
        exited = {line["pid"]: line["exited_ns"] for line in run.dump() if line["type"] == "run"}
        expect(len(ops) > 100, f"only {len(ops)} operations")
        for op in ops:
            expect_equal(op["state"], "finished", f"the state of {op}")
            expect(op["called_ns"] <= op["launched_ns"] <= op["started_ns"] <= op["finished_ns"]
                   <= exited[op["pid"]], f"times of {op}")
            name = "SendRecv" if op["op"] in ("Send", "Recv") else op["op"] + "_"
            expect(op["kernel"].startswith("ncclDevKernel_" + name), f"the kernel of {op}")
        for name in ("gpu_untimed", "gpu_records_dropped", "gpu_kernels_unmatched",
                     "gpu_kernels_unnamed", "checks_failed"):
            expect_equal(counters(run, name), [0] * 4, name)
        report = run.diff()
        expect_equal([f["code"] for f in report["findings"]], ["RC-IN-LOCKSTEP"], "the verdict")


def operations_of_a_group_share_their_kernel():
    # The stages in the middle send to the one before and receive from the one behind in one group.
    arguments = ["--steps", "3", "--dp", "1", "--tp", "1", "--pp", "4"]
    with Job(4, arguments, environment=TIMED) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        groups = {}
        for op in operations(run):
            if op["group"] is not None:
                groups.setdefault((op["pid"], op["group"]), []).append(op)
        shared = [ops for ops in groups.values() if len(ops) > 1]
        expect(shared, "no group had two operations on one stream")
        for ops in shared:
            expect_equal({op["kernel"] for op in ops}, {"ncclDevKernel_SendRecv"}, "kernels")
            expect_equal(len({(op["started_ns"], op["finished_ns"]) for op in ops}), 1,
                         f"times of {ops}")
        expect_equal(counters(run, "gpu_untimed"), [0] * 4, "operations given up")


def the_trace_names_the_kernels():
    with training(2) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        path = os.path.join(run.folder, "trace.json")
        done = run.rollcall("trace", run.run_directory, "-o", path)
        expect_equal(done.returncode, 0, f"exit status of trace ({done.stderr})")
        with open(path, encoding="utf-8") as file:
            slices = [line for line in json.load(file)["traceEvents"] if line.get("cat") == "gpu"]
        expect(slices, "no slice on a stream's track")
        for line in slices:
            expect(line["args"]["kernel"].startswith("ncclDevKernel_"), f"the kernel of {line}")
            expect("launched_ns" in line["args"], f"the launch of {line}")


def replays_have_the_times_of_their_graph():
    with training(2, "--graphs", steps=5) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        lines = run.dump()
        captured = [line for line in lines if line["type"] == "op" and line["graph"]
                    and line["op"] != "GraphLaunch"]
        expect_equal(len(captured), 2 * 5, "captured operations")
        for op in captured:
            expect_equal((op["state"], op.get("kernel")), ("returned", None), f"what {op} tells")
        launches = [line for line in lines if line.get("op") == "GraphLaunch"]
        expect_equal(len(launches), 2 * 4, "replays")
        for launch in launches:
            expect_equal((launch["state"], launch.get("kernel")), ("finished", None), f"{launch}")
            expect(launch["called_ns"] <= launch["started_ns"] <= launch["finished_ns"],
                   f"times of {launch}")
        # Positions in graphs do not need CUPTI.
        graphs = [line for line in lines if line["type"] == "graph"]
        expect_equal([[lane["position"] for lane in g["lanes"]] for g in graphs], [[10]] * 2,
                     "positions")
        expect_equal(counters(run, "gpu_untimed"), [0] * 2, "operations given up")


def refused(environment, reason, ranks=2, way=job.WAY):
    """CUPTI does not let us: one line per process, and events instead."""
    with training(ranks, environment=environment, way=way) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        said = complaints(run)
        expect_equal(len(said), ranks, f"lines on stderr\n{stderr_of(run)}")
        for line in said:
            expect(reason in line and line.endswith("CUDA events are used instead"), line)
        expect_equal(meta(run, "gpu_timing"), ["events"] * ranks, "how operations were timed")
        for text in meta(run, "gpu_cupti"):
            expect(text.startswith("off (") and reason in text, text)
        for op in operations(run):
            expect_equal((op["state"], op.get("kernel")), ("finished", None), f"what {op} tells")


def another_client_keeps_cupti():
    refused({"ROLLCALL_EMULATE_CUPTI_SUBSCRIBER": "1"},
            "another client of CUPTI, a profiler, is active in this process")


def without_a_library_there_are_events():
    refused({"ROLLCALL_CUPTI": "/no/such/libcupti.so.13"}, "cannot be loaded")


def a_build_without_the_header_uses_events():
    refused({}, "this build of Rollcall has no CUPTI (cupti.h was not found)",
            way=BuiltWithoutCupti())


def a_library_that_lacks_a_function_is_not_used():
    refused({"ROLLCALL_CUPTI": os.path.join(job.EMULATOR, "libnvidia-ml.so.1")}, "it has no cupti")


def dropped_records_are_counted_and_shown():
    with training(2, environment={"ROLLCALL_EMULATE_CUPTI_DROP": "5"}) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        dropped = counters(run, "gpu_records_dropped")
        expect(all(number > 0 for number in dropped), f"dropped: {dropped}")
        info = run.rollcall("info", run.run_directory).stdout
        expect(f"{sum(dropped)}  activity records that CUPTI dropped" in info, info)
        ops = operations(run)
        without = [op for op in ops if op["state"] != "finished"]
        expect(0 < len(without) < len(ops) / 2, f"{len(without)} of {len(ops)} without times")
        for op in without:
            expect_equal((op["started_ns"], op["finished_ns"], op.get("kernel")),
                         (None, None, None), f"what is known of {op}")
            expect(op["state"] == "launched", f"the launch of {op} was told of")
        report = run.diff()
        expect_equal(report["findings"][0]["code"], "RC-IN-LOCKSTEP", "the verdict")


def what_cupti_cannot_know_is_not_judged():
    """A kernel that hangs has no record: nobody may say that its stream is blocked."""
    with training(2, environment={"ROLLCALL_EMULATE_FAULT": "slow=4000000000@1:20"}) as run:
        run.start()
        expect(not run.wait_for_end_or_hang(), "the job ended")
        codes = {f["code"] for f in run.diff("--stalled-after", "1")["findings"]}
        expect(not codes & {"RC-STREAM-BLOCKED", "RC-STUCK-ON-GPU", "RC-STUCK-OUTSIDE"},
               f"verdicts {codes}")
        run.kill()
        code = run.diff()["findings"][0]["code"]
        expect_equal(code, "RC-INSUFFICIENT", f"verdict after SIGKILL\n{run.diff_text()}")


def copy_engines_have_no_kernel():
    client = [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                           "profiled_client.py")]
    environment = {**TIMED, "NCCL_CTA_POLICY": "2"}
    with Job(1, ["1", "windows"], program=client, environment=environment, gpus=2) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        ops = operations(run)
        copied = [op for op in ops if op["op"] in ("AllGather", "AlltoAll")]
        expect_equal(len(copied), 6, "operations that copy engines carry out")
        for op in ops:
            expect_equal((op["state"], "kernel" in op),
                         ("returned", False) if op in copied else ("finished", True), f"{op}")
        expect_equal(counters(run, "gpu_untimed"), [len(copied)], "operations given up")


def nvidias_library_does_no_harm():
    """In front of an emulated driver it finds no GPU of its own, whatever it then says."""
    homes = (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda")
    folders = ("lib64", "extras/CUPTI/lib64")
    found = [path for home in homes for folder in folders
             if os.path.exists(path := os.path.join(home, folder, "libcupti.so.13"))]
    if not found:
        return "libcupti.so.13 is not installed"
    with training(2, environment={"ROLLCALL_CUPTI": found[0]}) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        for line in complaints(run):
            expect("CUPTI_ERROR" in line, line)
        timing = "events" if complaints(run) else "cupti"
        expect_equal(meta(run, "gpu_timing"), [timing] * 2, "how operations were timed")
        report = run.diff()
        expect_equal(report["findings"][0]["code"], "RC-IN-LOCKSTEP", "the verdict")
    return None


def several_devices_of_one_process():
    with Job(1, ["20"], program=[job.DLOPEN_USER], environment=TIMED, gpus=3) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        ops = [op for op in operations(run) if op["op"] != "GroupEnd"]
        expect_equal({op["comm_rank"] for op in ops}, {0, 1, 2}, "ranks that called")
        for op in ops:
            expect_equal(op["state"], "finished", f"the state of {op}")


def one_rank_has_no_kernels():
    with Job(1, ["20"], program=[job.DLOPEN_USER], environment=TIMED, gpus=1) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        ops = [op for op in operations(run) if op["op"] != "GroupEnd"]
        expect(ops, "nothing was recorded")
        for op in ops:
            expect_equal((op["state"], "kernel" in op), ("returned", False), f"{op}")
        # Nothing of them is awaited when the process is over.
        expect_equal(counters(run, "gpu_untimed"), [len(ops)], "operations given up")


if __name__ == "__main__":
    sys.exit(job.main([
        ("every operation has the times, the launch and the name of its kernel",
         every_operation_has_its_kernel),
        ("operations of a group on one stream share their kernel",
         operations_of_a_group_share_their_kernel),
        ("the trace names the kernels", the_trace_names_the_kernels),
        ("replays have the times of their graph", replays_have_the_times_of_their_graph),
        ("another client of CUPTI keeps it, and events are used", another_client_keeps_cupti),
        ("without a libcupti events are used", without_a_library_there_are_events),
        ("built without cupti.h, events are used", a_build_without_the_header_uses_events),
        ("a libcupti that lacks a function is not used",
         a_library_that_lacks_a_function_is_not_used),
        ("records that CUPTI dropped are counted and shown", dropped_records_are_counted_and_shown),
        ("what CUPTI cannot know is not judged", what_cupti_cannot_know_is_not_judged),
        ("operations of copy engines have no kernel, and are not waited for",
         copy_engines_have_no_kernel),
        ("collectives of one rank have no kernel, and are given up at the latest at the exit",
         one_rank_has_no_kernels),
        ("NVIDIA's own libcupti does a job without GPUs no harm", nvidias_library_does_no_harm),
        ("a group over several devices of one process is timed", several_devices_of_one_process),
    ]))
