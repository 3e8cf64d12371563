#!/usr/bin/env python3
"""Pairs of ranks that know nothing of each other: 0 and 1, 2 and 3, ...

    groups_client.py FOLDER

Each pair adds numbers up, step after step. Files in FOLDER change that: `stuck`, rank 1 calls
nothing more while it is there; `pause`, ranks 0 and 1 call nothing while it is there, both behind
the same step; `end`, all end.
"""
import ctypes
import os
import sys
import time

from ctypes_client import FLOAT32, SUM, TO_DEVICE, TO_HOST, Library, id_through_file

END, PAUSE = 1.0, 100.0


class Pair:
    def __init__(self, folder, rank):
        self.folder, self.rank = folder, rank
        self.nccl, self.cuda = Library("libnccl.so.2"), Library("libcudart.so.12")
        self.cuda.call("cudaSetDevice", rank)
        place = os.path.join(folder, f"pair{rank // 2}")
        os.makedirs(place, exist_ok=True)
        self.comm = ctypes.c_void_p()
        unique_id = id_through_file(self.nccl, place, rank % 2)
        self.nccl.call("ncclCommInitRank", ctypes.byref(self.comm), 2, unique_id, rank % 2)
        self.host = (ctypes.c_float * 1)()
        self.bytes = ctypes.c_size_t(ctypes.sizeof(self.host))
        self.device, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.cuda.call("cudaMalloc", ctypes.byref(self.device), self.bytes)
        self.cuda.call("cudaStreamCreate", ctypes.byref(self.stream))

    def has(self, name):
        return os.path.exists(os.path.join(self.folder, name))

    def wait_while(self, name):
        while self.has(name):
            time.sleep(0.02)

    def sum(self, value):
        """The same on both ranks."""
        self.host[0] = value
        self.cuda.call("cudaMemcpy", self.device, self.host, self.bytes, TO_DEVICE)
        self.nccl.call("ncclAllReduce", self.device, self.device, ctypes.c_size_t(1), FLOAT32, SUM,
                       self.comm, self.stream)
        self.cuda.call("cudaStreamSynchronize", self.stream)
        self.cuda.call("cudaMemcpy", self.host, self.device, self.bytes, TO_HOST)
        return self.host[0]

    def step(self):
        """False: it was the last one."""
        is_first = self.rank % 2 == 0
        wish = END if is_first and self.has("end") else 0.0
        if self.rank == 0 and self.has("pause"):
            wish += PAUSE
        agreed = self.sum(wish)
        if agreed >= PAUSE:
            self.wait_while("pause")
        return agreed % PAUSE == 0.0


def main():
    rank = int(os.environ["RANK"])
    pair = Pair(sys.argv[1], rank)
    while pair.step():
        with open(os.path.join(pair.folder, f"steps{rank}"), "ab") as file:
            file.write(b".")
        time.sleep(0.02)
        if rank == 1:
            pair.wait_while("stuck")
    pair.nccl.call("ncclCommDestroy", pair.comm)


if __name__ == "__main__":
    main()
