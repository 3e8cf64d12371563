"""A job that hangs, for a first look: one rank leaves out a collective.

    rollcall run -n 4 --emulate --watch 3 --kill-on-hang -- python3 -m rollcall_nccl.demo

Needs rollcall-nccl-emulator, or GPUs and NCCL. Each process is a rank and sums numbers with the
others, step after step, through the NCCL that it finds, as vLLM does; rank 2 leaves out the sum of
step 3. With ROLLCALL_DEMO_FAULT=none nobody does, and the job ends.
"""
import ctypes
import os
import socket
import sys
import time

STEPS, COUNT = 6, 1000
FLOAT32, SUM = 7, 0
BAD_RANK, BAD_STEP = 2, 3
PATIENCE_S = 60


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_byte * 128)]


class Library:
    """Functions of a shared library that raise when they fail."""

    def __init__(self, *names):
        for name in names:
            try:
                self.library = ctypes.CDLL(name)
                return
            except OSError as error:
                problem = error
        sys.exit(f"demo: {problem}; put `rollcall run --emulate --` in front of it, with "
                 "rollcall-nccl-emulator installed")

    def __call__(self, function, *arguments):
        status = getattr(self.library, function)(*arguments)
        if status != 0:
            raise RuntimeError(f"{function} failed with {status}")


def shared_id(nccl, rank, ranks, address):
    """Rank 0 makes the identifier and hands it to the others."""
    if rank == 0:
        unique_id = UniqueId()
        nccl("ncclGetUniqueId", ctypes.byref(unique_id))
        with socket.create_server(address) as server:
            for _ in range(ranks - 1):
                with server.accept()[0] as other:
                    other.sendall(bytes(unique_id))
        return unique_id
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            with socket.create_connection(address, timeout=PATIENCE_S) as server:
                return UniqueId.from_buffer_copy(server.makefile("rb").read(128))
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def train(nccl, cuda, rank, ranks, address):
    cuda("cudaSetDevice", int(os.environ.get("LOCAL_RANK", rank)))
    comm, stream, buffer = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    nccl("ncclCommInitRank", ctypes.byref(comm), ranks, shared_id(nccl, rank, ranks, address), rank)
    cuda("cudaStreamCreate", ctypes.byref(stream))
    cuda("cudaMalloc", ctypes.byref(buffer), ctypes.c_size_t(4 * COUNT))
    is_bad = rank == BAD_RANK and os.environ.get("ROLLCALL_DEMO_FAULT") != "none"
    for step in range(STEPS):
        if not (is_bad and step == BAD_STEP):
            nccl("ncclAllReduce", buffer, buffer, ctypes.c_size_t(COUNT), FLOAT32, SUM, comm,
                 stream)
        nccl("ncclBroadcast", buffer, buffer, ctypes.c_size_t(COUNT), FLOAT32, 0, comm, stream)
        cuda("cudaStreamSynchronize", stream)
        if rank == 0:
            print(f"step {step}", flush=True)
    nccl("ncclCommDestroy", comm)


def main():
    if "RANK" not in os.environ:
        sys.exit("demo: RANK is not set; start it with `rollcall run -n 4 --emulate --watch 3 "
                 "--kill-on-hang -- python3 -m rollcall_nccl.demo`")
    address = (os.environ.get("MASTER_ADDR", "127.0.0.1"),
               int(os.environ.get("MASTER_PORT", "29500")))
    train(Library("libnccl.so.2"),
          Library("libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"),
          int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), address)


if __name__ == "__main__":
    main()
