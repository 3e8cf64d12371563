#!/usr/bin/env python3
"""One process with two GPUs that makes its communicators, calls NCCL and destroys them, often.

    profiled_client.py [ROUNDS]

Every destroy is the last one of its round, so NCCL unloads a profiler plugin each time and loads it
again. Calls from one thread: what a plugin hears of them has one order.
"""
import ctypes
import sys

from ctypes_client import COUNT, FLOAT32, SUM, Library

RANKS = 2


class Gpu:
    def __init__(self, cuda, number):
        self.number = number
        self.device, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.call("cudaSetDevice", number)
        size = ctypes.c_size_t(RANKS * COUNT * ctypes.sizeof(ctypes.c_float))
        cuda.call("cudaMalloc", ctypes.byref(self.device), size)
        cuda.call("cudaStreamCreate", ctypes.byref(self.stream))


def on_every_rank(nccl, gpus, call):
    nccl.call("ncclGroupStart")
    for gpu in gpus:
        call(gpu)
    nccl.call("ncclGroupEnd")


def one_round(nccl, cuda, gpus):
    comms = (ctypes.c_void_p * RANKS)()
    nccl.call("ncclCommInitAll", comms, RANKS, None)
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

    for call in (all_reduce, broadcast, exchange, all_reduce):
        on_every_rank(nccl, gpus, call)
    for gpu in gpus:
        cuda.call("cudaSetDevice", gpu.number)
        cuda.call("cudaStreamSynchronize", gpu.stream)
    for comm in comms:
        nccl.call("ncclCommDestroy", ctypes.c_void_p(comm))


def main():
    nccl, cuda = Library("libnccl.so.2"), Library("libcudart.so.12")
    gpus = [Gpu(cuda, number) for number in range(RANKS)]
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1):
        one_round(nccl, cuda, gpus)


if __name__ == "__main__":
    main()
