#!/usr/bin/env python3
"""Ranks that join one communicator, one of them wrongly.

    joining_client.py FOLDER WHAT RANK

RANK is wrong about WHAT: `more` or `fewer` ranks than there are, the `rank` that it is (the one
before it), or the `id`; with `ids` every rank has a unique id of its own. `launched`: the launcher
has given it the rank before it.
"""
import ctypes
import os
import sys

from ctypes_client import Library, UniqueId, id_through_file


def main():
    folder, what, wrong = sys.argv[1], sys.argv[2], int(sys.argv[3])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    is_wrong = rank == wrong
    if is_wrong and what == "launched":
        os.environ["RANK"] = str(rank - 1)
    nccl, cuda = Library("libnccl.so.2"), Library("libcudart.so.12")
    cuda.call("cudaSetDevice", rank)
    unique_id = id_through_file(nccl, folder, rank)
    if what == "ids" or (is_wrong and what == "id"):
        unique_id = UniqueId()
        nccl.call("ncclGetUniqueId", ctypes.byref(unique_id))
    if is_wrong:
        rank -= what in ("rank", "launched")
        ranks += {"more": 1, "fewer": -1}.get(what, 0)
    nccl.call("ncclCommInitRank", ctypes.byref(ctypes.c_void_p()), ranks, unique_id, rank)


if __name__ == "__main__":
    main()
