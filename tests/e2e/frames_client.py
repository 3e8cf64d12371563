#!/usr/bin/env python3
"""One process that calls NCCL from functions of every kind that CPython runs in its own way.

    frames_client.py FILE

Writes into FILE, for each call, the frames of this script as the interpreter itself knows them, as
Rollcall writes them. The calls are repeated until the interpreter has specialised its instructions.
"""
import ctypes
import sys
import threading

from ctypes_client import COUNT, FLOAT32, SUM, Library, UniqueId

REPEATED = 40
FRAMES_NAMED = 4  # kFramesNamedMax

written = []


def note_frames():
    texts, frame = [], sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == __file__:
            texts.append(f"{__file__}:{frame.f_lineno} {frame.f_code.co_name}")
        frame = frame.f_back
    written.append(" < ".join(texts[:FRAMES_NAMED]))


class Reducer:
    def __init__(self, nccl, cuda):
        unique_id, self.comm = UniqueId(), ctypes.c_void_p()
        cuda.call("cudaSetDevice", 0)
        nccl.call("ncclGetUniqueId", ctypes.byref(unique_id))
        nccl.call("ncclCommInitRank", ctypes.byref(self.comm), 1, unique_id, 0)
        self.device, stream = ctypes.c_void_p(), ctypes.c_void_p()
        cuda.call("cudaMalloc", ctypes.byref(self.device), ctypes.c_size_t(4 * COUNT))
        cuda.call("cudaStreamCreate", ctypes.byref(stream))
        self.function = nccl.library.ncclAllReduce
        self.arguments = (self.device, self.device, ctypes.c_size_t(COUNT), FLOAT32, SUM,
                          self.comm, stream)

    def reduce(self):
        # Both on one line: what is noted is what the call has.
        return [note_frames(), self.function(*self.arguments)]

    def __enter__(self):
        return self.reduce()

    def __exit__(self, *exception):
        self.reduce()

    @property
    def reduced(self):
        return self.reduce()


class InConstructor:
    def __init__(self, reducer):
        self.outcome = reducer.reduce()


def in_generator(reducer):
    for _ in range(2):
        yield reducer.reduce()


async def in_inner_coroutine(reducer):
    return reducer.reduce()


async def in_coroutine(reducer):
    await in_inner_coroutine(reducer)


def in_cells(reducer):
    outer = reducer

    def inner():
        return outer.reduce()
    return inner()


def call_all(reducer):
    reducer.reduce()
    InConstructor(reducer)
    for _ in in_generator(reducer):
        pass
    try:
        in_coroutine(reducer).send(None)
    except StopIteration:
        pass
    in_cells(reducer)
    _ = [reducer.reduce() for _ in range(2)]
    sorted([1, 2], key=lambda _: (reducer.reduce(), 0)[1])  # from C back into Python
    with reducer:
        _ = reducer.reduced
    exec(compile("reducer.reduce()", __file__, "exec"))


def main():
    nccl = Library("libnccl.so.2")
    reducer = Reducer(nccl, Library("libcudart.so.12"))
    for _ in range(REPEATED):
        call_all(reducer)
    thread = threading.Thread(target=call_all, args=(reducer,))
    thread.start()
    thread.join()
    nccl.call("ncclCommDestroy", reducer.comm)
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in written))


if __name__ == "__main__":
    main()
