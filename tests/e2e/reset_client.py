#!/usr/bin/env python3
"""Resets its GPU amid its work: one rank, one reduction before the reset and one behind it."""
import ctypes
import sys

from ctypes_client import Library, id_through_file, train


def main():
    nccl, cuda = Library("libnccl.so.2"), Library("libcudart.so.12")
    for attempt in range(2):
        train(nccl, cuda, id_through_file(nccl, sys.argv[1], 0), 0, 1, 1, keeps=attempt == 0)
        if attempt == 0:
            cuda.call("cudaDeviceReset")
    return 0


if __name__ == "__main__":
    sys.exit(main())
