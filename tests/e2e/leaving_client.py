#!/usr/bin/env python3
"""Ranks that end one after the other.

    leaving_client.py FOLDER                 all but rank 0 end by os._exit(0) behind the last
                                             collective; rank 0 when there is a file FOLDER/end
    leaving_client.py FOLDER HOW STATUS      the last rank ends, by `exit` or `_exit`, in front of a
                                             collective that the others call
"""
import os
import sys
import time

from ctypes_client import Library, id_through_file, train


def main():
    nccl, cuda = Library("libnccl.so.2"), Library("libcudart.so.12")
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    is_early = len(sys.argv) > 2 and rank == ranks - 1
    unique_id = id_through_file(nccl, sys.argv[1], rank)
    steps = 5 if len(sys.argv) == 2 or is_early else 6
    train(nccl, cuda, unique_id, rank, ranks, steps, keeps=True)
    if is_early:
        {"exit": sys.exit, "_exit": os._exit}[sys.argv[2]](int(sys.argv[3]))
    if rank != 0:
        os._exit(0)
    while not os.path.exists(os.path.join(sys.argv[1], "end")):
        time.sleep(0.05)


if __name__ == "__main__":
    main()
