#!/usr/bin/env python3
"""One process with two GPUs that makes its communicators, calls NCCL and destroys them, often.

    profiled_client.py [ROUNDS [windows] [late]]

With `windows` the buffers are in windows of all ranks, so that NCCL has other ways than its usual
kernels, and some calls carry a user tag. With `late` each call of rank 1 comes LATE_S behind that
of rank 0.

Every destroy is the last one of its round, so NCCL unloads a profiler plugin each time and loads it
again. Calls from one thread: what a plugin hears of them has one order.
"""
import ctypes
import sys
import time

from ctypes_client import COUNT, FLOAT32, SUM, Library

RANKS = 2
USER_TAG = 42
LATE_S = 0.4
SYMMETRIC = 1  # NCCL_WIN_COLL_SYMMETRIC


class CollectiveConfig(ctypes.Structure):
    """ncclCollConfig_t of NCCL 2.31."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                ("extension", ctypes.c_void_p), ("ctas", ctypes.c_int * 4),
                ("algorithm", ctypes.c_char_p), ("forced", ctypes.c_int),
                ("policy", ctypes.c_int), ("user_tag", ctypes.c_uint64)]

    def __init__(self, user_tag):
        undefined = -2 ** 31
        super().__init__(ctypes.sizeof(self), 0xcafebeef, 23100, None, (undefined,) * 4, None,
                         undefined, undefined, user_tag)


class Gpu:
    def __init__(self, cuda, number):
        self.number = number
        self.device, self.other, self.stream = (ctypes.c_void_p() for _ in range(3))
        cuda.call("cudaSetDevice", number)
        self.size = ctypes.c_size_t(RANKS * COUNT * ctypes.sizeof(ctypes.c_float))
        for buffer in (self.device, self.other):
            cuda.call("cudaMalloc", ctypes.byref(buffer), self.size)
        cuda.call("cudaStreamCreate", ctypes.byref(self.stream))


def on_every_rank(nccl, gpus, call):
    nccl.call("ncclGroupStart")
    for gpu in gpus:
        call(gpu)
    nccl.call("ncclGroupEnd")


def one_rank_late(nccl, gpus, call):
    """In a group of its own each rank's kernel is launched at once."""
    for gpu in gpus:
        if gpu.number > 0:
            time.sleep(LATE_S)
        on_every_rank(nccl, [gpu], call)


def calls_of_windows(nccl, comms):
    """What each GPU calls, in order, with buffers that every rank can reach."""
    count, config = ctypes.c_size_t(COUNT), CollectiveConfig(USER_TAG)

    def register(gpu):
        for buffer in (gpu.device, gpu.other):
            nccl.call("ncclCommWindowRegister", ctypes.c_void_p(comms[gpu.number]), buffer,
                      gpu.size, ctypes.byref(ctypes.c_void_p()), SYMMETRIC)

    def collective(name, *more):
        return lambda gpu: nccl.call(name, gpu.device, gpu.other, count, FLOAT32, *more[:-1],
                                     ctypes.c_void_p(comms[gpu.number]), gpu.stream, *more[-1])

    return [register, collective("ncclAllGather", ()), collective("ncclAlltoAll", ()),
            collective("ncclAllReduce", SUM, ()),
            collective("ncclAllReduceConfig", SUM, (ctypes.byref(config),)),
            collective("ncclAllGatherConfig", (ctypes.byref(config),)),
            collective("ncclReduceScatter", SUM, ())]


def calls(nccl, comms):
    count = ctypes.c_size_t(COUNT)

    def all_reduce(gpu):
        nccl.call("ncclAllReduce", gpu.device, gpu.device, count, FLOAT32, SUM,
                  ctypes.c_void_p(comms[gpu.number]), gpu.stream)

    def broadcast(gpu):
        nccl.call("ncclBroadcast", gpu.device, gpu.device, count, FLOAT32, 1,
                  ctypes.c_void_p(comms[gpu.number]), gpu.stream)

    def exchange(gpu):
        peer = 1 - gpu.number
        for function in ("ncclSend", "ncclRecv"):
            nccl.call(function, gpu.device, count, FLOAT32, peer,
                      ctypes.c_void_p(comms[gpu.number]), gpu.stream)

    return [all_reduce, broadcast, exchange, all_reduce]


def one_round(nccl, cuda, gpus, choose_calls):
    comms = (ctypes.c_void_p * RANKS)()
    nccl.call("ncclCommInitAll", comms, RANKS, None)
    for number, call in enumerate(choose_calls(nccl, comms)):
        # Windows are registered by all ranks together.
        if "late" in sys.argv[2:] and number > 0:
            one_rank_late(nccl, gpus, call)
        else:
            on_every_rank(nccl, gpus, call)
    for gpu in gpus:
        cuda.call("cudaSetDevice", gpu.number)
        cuda.call("cudaStreamSynchronize", gpu.stream)
    for comm in comms:
        nccl.call("ncclCommDestroy", ctypes.c_void_p(comm))


def main():
    nccl, cuda = Library("libnccl.so.2"), Library("libcudart.so.12")
    gpus = [Gpu(cuda, number) for number in range(RANKS)]
    choose_calls = calls_of_windows if "windows" in sys.argv[2:] else calls
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        one_round(nccl, cuda, gpus, choose_calls)


if __name__ == "__main__":
    main()
