#!/usr/bin/env python3
"""Ranks that stand still in ways of their own, until they are killed.

    stacks_client.py FOLDER [confined]

One process per rank, each with a communicator of its own. By rank: 0 sleeps some functions deep, 1
holds the GIL in C for ever, 2 has THREADS threads that wait, 3 sleeps, too, and is to be stopped.
"confined": under a filter that refuses to read the memory of processes, as containers have.
SIGUSR1 has the interpreter itself write the frames of all threads into FOLDER/<rank>.
"""
import ctypes
import faulthandler
import os
import signal
import struct
import sys
import threading
import time

from ctypes_client import COUNT, FLOAT32, SUM, Library, UniqueId

THREADS = 60


def call_once(rank):
    nccl, cuda = Library("libnccl.so.2"), Library("libcudart.so.12")
    unique_id, comm = UniqueId(), ctypes.c_void_p()
    cuda.call("cudaSetDevice", rank)
    nccl.call("ncclGetUniqueId", ctypes.byref(unique_id))
    nccl.call("ncclCommInitRank", ctypes.byref(comm), 1, unique_id, 0)
    device, stream = ctypes.c_void_p(), ctypes.c_void_p()
    cuda.call("cudaMalloc", ctypes.byref(device), ctypes.c_size_t(4 * COUNT))
    cuda.call("cudaStreamCreate", ctypes.byref(stream))
    nccl.call("ncclAllReduce", device, device, ctypes.c_size_t(COUNT), FLOAT32, SUM, comm, stream)


def refuse_reads_of_memory():
    """A filter of system calls: process_vm_readv answers EPERM."""
    number = {"x86_64": 310, "aarch64": 270}[os.uname().machine]
    # Load the number; where it is that one, the first answer, else the second.
    steps = ((0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x00050001),
             (0x06, 0, 0, 0x7fff0000))
    filters = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(filters))
    libc = ctypes.CDLL(None, use_errno=True)
    set_no_new_privileges, set_seccomp, by_filter = 38, 22, 2
    if (libc.prctl(set_no_new_privileges, 1, 0, 0, 0) != 0 or
            libc.prctl(set_seccomp, by_filter, program, 0, 0) != 0):
        raise OSError(ctypes.get_errno(), "no filter of system calls")


def can_refuse_reads_of_memory():
    """Tried in a process of its own."""
    child = os.fork()
    if child == 0:
        try:
            refuse_reads_of_memory()
        except (OSError, KeyError):
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def sleep_for_ever():
    time.sleep(100000)


class Sleeper:
    def __init__(self):
        sleep_for_ever()


def in_generator():
    yield [Sleeper() for _ in range(2)]


def hold_the_gil():
    """A mutex that is locked twice: a signal does not end that, and PyDLL keeps the GIL."""
    libc, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(256)
    libc.pthread_mutex_lock(mutex)
    libc.pthread_mutex_lock(mutex)


def wait_in_threads():
    for _ in range(THREADS):
        threading.Thread(target=sleep_for_ever, daemon=True).start()
    for _ in in_generator():
        pass


def main():
    folder, rank = sys.argv[1], int(os.environ["RANK"])
    if "confined" in sys.argv:
        refuse_reads_of_memory()
    call_once(rank)
    # pylint: disable=consider-using-with
    faulthandler.register(signal.SIGUSR1, open(os.path.join(folder, str(rank)), "w"),
                          all_threads=True)
    with open(os.path.join(folder, f"{rank}.ready"), "w"):
        pass
    if rank == 1:
        hold_the_gil()
    elif rank == 2:
        wait_in_threads()
    for _ in in_generator():
        pass


if __name__ == "__main__":
    main()
