#!/usr/bin/env python3
"""What recording adds to a small AllReduce, measured within one process.

  rollcall run -q -n 2 --emulate=2 -d DIR -- python3 bench/latency_pairs.py JSON [SECONDS]

Each rank pauses and resumes its recorder between batches of calls, and each batch with it has one
without it beside it, first and second in turns: whatever else the machine does hits both alike. A
batch is what nccl-tests time: calls queued one behind another, and one wait for the GPU at the end.
Of it two times are kept, per call: until all are queued (the host's), and until all are through
(the latency). A paused recorder still passes each call through: that is left out. Python's own
share of a call, about a microsecond, is in what percentages refer to.

NCCL and the driver are called by ctypes, so that no compiler is needed where this runs.
"""
import ctypes
import json
import os
import statistics
import sys
import time

from recorder_switch import Switch

CALLS = 20     # of a batch, as nccl-tests have them
WARM_UP = 12   # batches
PAIRS_MAX = 4000
BYTES = 8
INT8, SUM, NON_BLOCKING = 0, 0, 1
RANK, RANKS = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", 0))
PATIENCE_S = 60


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Failed(Exception):
    pass


def check(status, call):
    if status != 0:
        raise Failed(f"{call} answered {status}")


def shared(name, value=None):
    """Bytes that rank 0 has for all, in the run's directory."""
    path = os.path.join(os.environ["ROLLCALL_DIR"], name)
    if RANK == 0:
        with open(path + ".new", "wb") as file:
            file.write(value)
        os.rename(path + ".new", path)
        return value
    deadline = time.monotonic() + PATIENCE_S
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            raise Failed(f"rank 0 left no {name}")
        time.sleep(0.001)
    with open(path, "rb") as file:
        return file.read()


class Calls:
    """AllReduces of one communicator on one stream."""

    def __init__(self):
        self.nccl = ctypes.CDLL("libnccl.so.2")
        self.driver = ctypes.CDLL("libcuda.so.1")
        check(self.driver.cuInit(0), "cuInit")
        count, context = ctypes.c_int(), ctypes.c_void_p()
        check(self.driver.cuDeviceGetCount(ctypes.byref(count)), "cuDeviceGetCount")
        device = LOCAL_RANK % count.value
        check(self.driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
              "cuDevicePrimaryCtxRetain")
        check(self.driver.cuCtxSetCurrent(context), "cuCtxSetCurrent")
        self.stream, self.data, self.comm = (ctypes.c_void_p(), ctypes.c_uint64(),
                                             ctypes.c_void_p())
        check(self.driver.cuStreamCreate(ctypes.byref(self.stream), NON_BLOCKING),
              "cuStreamCreate")
        check(self.driver.cuMemAlloc_v2(ctypes.byref(self.data), ctypes.c_size_t(4096)),
              "cuMemAlloc")
        unique_id = UniqueId()
        if RANK == 0:
            check(self.nccl.ncclGetUniqueId(ctypes.byref(unique_id)), "ncclGetUniqueId")
        told = shared("unique_id", bytes(unique_id))
        ctypes.memmove(ctypes.byref(unique_id), told, 128)
        check(self.nccl.ncclCommInitRank(ctypes.byref(self.comm), RANKS, unique_id, RANK),
              "ncclCommInitRank")
        self.all_reduce = self.nccl.ncclAllReduce
        self.all_reduce.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                    ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
        # Out of place: of one rank NCCL does nothing else.
        self.arguments = (self.data.value, self.data.value + 2048, BYTES, INT8, SUM,
                          self.comm.value, self.stream.value)

    def wait(self):
        check(self.driver.cuStreamSynchronize(self.stream), "cuStreamSynchronize")

    def batch(self):
        """ns per call until all are queued, and until all are through."""
        check(self.all_reduce(*self.arguments), "ncclAllReduce")
        self.wait()
        start_ns = time.perf_counter_ns()
        for _ in range(CALLS):
            self.all_reduce(*self.arguments)
        queued_ns = time.perf_counter_ns()
        self.wait()
        end_ns = time.perf_counter_ns()
        return (queued_ns - start_ns) / CALLS, (end_ns - start_ns) / CALLS

    def end(self):
        check(self.nccl.ncclCommDestroy(self.comm), "ncclCommDestroy")


def pairs_that_fit(calls, seconds):
    """The same number on every rank: each batch waits for all."""
    for _ in range(WARM_UP // 2):
        calls.batch()
    start = time.monotonic()
    for _ in range(WARM_UP // 2):
        calls.batch()
    took_s = (time.monotonic() - start) / (WARM_UP // 2)
    fitting = max(2, min(PAIRS_MAX, int(seconds / (2 * took_s))))
    return int(shared("pairs", str(fitting).encode()))


def facts_of(measured):
    """What is added: of the host's time in ns, of the latency in per cent, pair by pair."""
    plain_host = statistics.median(plain[0] for _, plain in measured)
    plain_latency = statistics.median(plain[1] for _, plain in measured)
    return {"host_ns": plain_host, "latency_ns": plain_latency,
            "host_added_ns": [recorded[0] - plain[0] for recorded, plain in measured],
            "latency_added_percent": [100 * (recorded[1] - plain[1]) / plain_latency
                                      for recorded, plain in measured]}


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    try:
        calls = Calls()
        calls.batch()  # the first call makes the ring file
        pairs = pairs_that_fit(calls, seconds)
        measured = Switch().in_turns(pairs, calls.batch)
        calls.end()
    except (Failed, OSError) as fault:
        print(f"latency_pairs: {fault}", file=sys.stderr)
        return 1
    if RANK == 0:
        with open(sys.argv[1], "w", encoding="utf-8") as file:
            json.dump(facts_of(measured), file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
