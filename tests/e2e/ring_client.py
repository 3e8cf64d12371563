#!/usr/bin/env python3
"""Ranks that exchange with their neighbours in a group, and reduce.

    ring_client.py FOLDER [count] [estimate] [experts [missing]]

count: rank 1 reduces one element more in the fourth round.
experts: each round has an AlltoAll, too; missing: rank 1 leaves out that of the fourth round.
estimate: rank 1 asks NCCL before each odd round what that would take.
"""
import ctypes
import os
import sys

from ctypes_client import COUNT, FLOAT32, SUM, Library, id_through_file

ROUNDS = 6


def main():
    nccl, cuda = Library("libnccl.so.2"), Library("libcudart.so.12")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    unique_id = id_through_file(nccl, sys.argv[1], rank)
    cuda.call("cudaSetDevice", rank)
    comm, stream, device = (ctypes.c_void_p() for _ in range(3))
    nccl.call("ncclCommInitRank", ctypes.byref(comm), ranks, unique_id, rank)
    cuda.call("cudaMalloc", ctypes.byref(device), ctypes.c_size_t(8 * (COUNT + 1)))
    cuda.call("cudaStreamCreate", ctypes.byref(stream))
    received = ctypes.c_void_p(device.value + 4 * (COUNT + 1))

    def exchange():
        nccl.call("ncclSend", device, ctypes.c_size_t(COUNT), FLOAT32, (rank + 1) % ranks, comm,
                  stream)
        nccl.call("ncclRecv", received, ctypes.c_size_t(COUNT), FLOAT32, (rank - 1) % ranks, comm,
                  stream)

    def reduce(count):
        nccl.call("ncclAllReduce", device, device, ctypes.c_size_t(count), FLOAT32, SUM, comm,
                  stream)

    experts, missing = "experts" in sys.argv[2:], "missing" in sys.argv[2:]
    for number in range(ROUNDS):
        if experts and not (missing and rank == 1 and number == 3):
            nccl.call("ncclAlltoAll", device, received, ctypes.c_size_t(COUNT // ranks), FLOAT32,
                      comm, stream)
        if rank == 1 and "estimate" in sys.argv[2:] and number % 2 == 1:
            nccl.call("ncclGroupStart")
            exchange()
            reduce(COUNT)
            nccl.call("ncclGroupSimulateEnd", None)
        nccl.call("ncclGroupStart")
        exchange()
        nccl.call("ncclGroupEnd")
        reduce(COUNT + (rank == 1 and "count" in sys.argv[2:] and number == 3))
    cuda.call("cudaStreamSynchronize", stream)
    nccl.call("ncclCommDestroy", comm)


if __name__ == "__main__":
    main()
