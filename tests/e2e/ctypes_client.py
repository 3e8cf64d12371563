#!/usr/bin/env python3
"""Calls NCCL as vLLM and other Python programs do: a library found by name, functions by ctypes.

    ctypes_client.py FOLDER [STEPS [RANK RANKS]]

One rank per process, as given, or from RANK and WORLD_SIZE, or from MPI where mpi4py started it
(--mpi). The unique id goes through a file in FOLDER, or through MPI. Prints the last sum.
"""
import ctypes
import os
import sys
import time

FLOAT32, SUM = 7, 0
TO_DEVICE, TO_HOST = 1, 2
COUNT = 1000


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Library:
    """Functions of a shared library that raise when they fail."""

    def __init__(self, name):
        self.library = ctypes.CDLL(name)

    def call(self, function, *arguments):
        status = getattr(self.library, function)(*arguments)
        if status != 0:
            raise RuntimeError(f"{function} failed with {status}")


def id_through_file(nccl, folder, rank):
    path = os.path.join(folder, "unique_id")
    unique_id = UniqueId()
    if rank == 0:
        nccl.call("ncclGetUniqueId", ctypes.byref(unique_id))
        with open(path + ".new", "wb") as file:
            file.write(bytes(unique_id))
        os.rename(path + ".new", path)
        return unique_id
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return UniqueId.from_buffer_copy(file.read())


def id_through_mpi(nccl, world):
    unique_id = UniqueId()
    if world.Get_rank() == 0:
        nccl.call("ncclGetUniqueId", ctypes.byref(unique_id))
    return UniqueId.from_buffer_copy(world.bcast(bytes(unique_id), root=0))


def train(nccl, cuda, unique_id, rank, ranks, steps, keeps=False):
    cuda.call("cudaSetDevice", rank)
    comm = ctypes.c_void_p()
    nccl.call("ncclCommInitRank", ctypes.byref(comm), ranks, unique_id, rank)
    host = (ctypes.c_float * COUNT)(*[rank + 1.0] * COUNT)
    device, stream = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.call("cudaMalloc", ctypes.byref(device), ctypes.c_size_t(ctypes.sizeof(host)))
    cuda.call("cudaStreamCreate", ctypes.byref(stream))
    for _ in range(steps):
        cuda.call("cudaMemcpy", device, host, ctypes.c_size_t(ctypes.sizeof(host)), TO_DEVICE)
        nccl.call("ncclAllReduce", device, device, ctypes.c_size_t(COUNT), FLOAT32, SUM, comm,
                  stream)
        cuda.call("cudaStreamSynchronize", stream)
    cuda.call("cudaMemcpy", host, device, ctypes.c_size_t(ctypes.sizeof(host)), TO_HOST)
    if not keeps:
        nccl.call("ncclCommDestroy", comm)
    return host[COUNT - 1]


def main():
    nccl, cuda = Library("libnccl.so.2"), Library("libcudart.so.12")
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    if sys.argv[1] == "--mpi":
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        rank, ranks = world.Get_rank(), world.Get_size()
        unique_id = id_through_mpi(nccl, world)
    else:
        given = sys.argv[3:] or (os.environ["RANK"], os.environ["WORLD_SIZE"])
        rank, ranks = map(int, given)
        unique_id = id_through_file(nccl, sys.argv[1], rank)
    total = train(nccl, cuda, unique_id, rank, ranks, steps)
    # One write: print makes two when Python is unbuffered, and the ranks share the file.
    os.write(sys.stdout.fileno(), f"rank {rank} sum {total}\n".encode())


if __name__ == "__main__":
    main()
