"""Traces as PyTorch's profiler writes them, made of the calls of a run."""
import gzip
import json
import subprocess

TORCH_NAMES = {"AllReduce": "all_reduce", "AllGather": "allGatherSingleImpl",
               "ReduceScatter": "reduceScatterSingleImpl", "Broadcast": "broadcast"}
BEFORE_NS, BEHIND_NS = 7000, 3000  # a record begins before its call, and ends behind it
SKIPPED_BY_TORCH = 3  # it counted as many collectives that NCCL never saw
PID, THREAD, STREAM = 7, 0, 13  # of a thread without a number nothing is known


def calls_of(rollcall, run, rank):
    """The collectives of a rank that PyTorch would have a record of."""
    said = subprocess.run([rollcall, "dump", run], check=True, capture_output=True, text=True)
    lines = map(json.loads, said.stdout.splitlines())
    return [one for one in lines if one["type"] == "op" and one["job_rank"] == rank
            and one["op"] in TORCH_NAMES and one["returned_ns"]]


def record(call, external, begin_us, lasts_us):
    return {"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": PID, "tid": THREAD,
            "ts": begin_us, "dur": lasts_us,
            "args": {"External id": external, "Collective name": TORCH_NAMES[call["op"]],
                     "dtype": "undescribed", "Seq": call["seq"] + SKIPPED_BY_TORCH,
                     "Process Group Name": call["comm"], "Group size": 2,
                     "Process Group Ranks": "[]", "Rank": 0,
                     "In msg nelems": call["count"], "Out msg nelems": call["count"]}}


def kernel(external, begin_us, lasts_us):
    """What the GPU did, and the end of the arrow to it."""
    return [{"ph": "X", "cat": "kernel", "name": "ncclDevKernel", "pid": 0, "tid": STREAM,
             "ts": begin_us, "dur": lasts_us,
             "args": {"External id": external, "grid": [24, 1, 1], "occupancy": 0.5}},
            {"ph": "f", "bp": "e", "cat": "ac2g", "name": "ac2g", "id": external, "pid": 0,
             "tid": STREAM, "ts": begin_us}]


def names():
    texts = (("process_name", PID, 0, {"name": "python"}),
             ("process_labels", PID, 0, {"labels": "CPU"}),
             ("process_sort_index", PID, 0, {"sort_index": PID}),
             ("thread_name", PID, THREAD, {"name": f"thread {PID} (python)"}),
             ("process_name", 0, 0, {"name": "python"}),
             ("process_labels", 0, 0, {"labels": "GPU 0"}),
             ("process_sort_index", 0, 0, {"sort_index": 5000000}),
             ("thread_name", 0, STREAM, {"name": f"stream {STREAM}"}))
    return [{"ph": "M", "name": name, "ts": 0.0, "pid": pid, "tid": tid, "args": told}
            for name, pid, tid, told in texts]


def write_kineto(path, rank, calls, ahead_ns=0, more=()):
    """A record around each call, on a clock that is so much ahead; returns baseTimeNanoseconds."""
    base_ns = calls[0]["called_ns"] // 10**9 * 10**9 - 10**15
    events = names()
    for external, call in enumerate(calls, 100 + 1_000_000 * rank):
        begin_us = (call["called_ns"] - BEFORE_NS + ahead_ns - base_ns) / 1000
        lasts_us = (call["returned_ns"] - call["called_ns"] + BEFORE_NS + BEHIND_NS) / 1000
        events.append(record(call, external, begin_us, lasts_us))
        events.append({"ph": "s", "cat": "ac2g", "name": "ac2g", "id": external, "pid": PID,
                       "tid": THREAD, "ts": begin_us + 1})
        events += kernel(external, begin_us + lasts_us + 5, 2)
    events += more
    text = json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": rank}, "host_name": "n",
                       "baseTimeNanoseconds": base_ns, "traceEvents": events})
    with (gzip.open if path.endswith(".gz") else open)(path, "wt") as file:
        file.write(text)
    return base_ns
