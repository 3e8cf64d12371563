"""Calls NCCL through NVIDIA's Python bindings alone: nccl4py loads NCCL by dlopen, and reaches CUDA
through cuda.core and the driver API.

    nccl4py_client.py FOLDER STEPS         one rank, from RANK and WORLD_SIZE

The unique id goes through a file in FOLDER.
"""
import os
import sys
import time

import nccl.core as nccl
from cuda.core import Device


def unique_id(folder, rank):
    path = os.path.join(folder, "unique_id")
    if rank == 0:
        made = nccl.get_unique_id()
        with open(path + ".new", "wb") as file:
            file.write(made.as_bytes)
        os.rename(path + ".new", path)
        return made
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return nccl.UniqueId.from_bytes(file.read())


def main():
    folder, steps = sys.argv[1], int(sys.argv[2])
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = Device(rank)
    device.set_current()
    stream = device.create_stream()
    world = nccl.Communicator.init(ranks, rank, unique_id(folder, rank))
    buffer = nccl.mem_alloc(1024, device)
    for _ in range(steps):
        world.allreduce(buffer, buffer, nccl.SUM, stream=stream)
    stream.sync()
    world.destroy()
    os.write(sys.stdout.fileno(), f"rank {rank} of {ranks} done\n".encode())


if __name__ == "__main__":
    main()
