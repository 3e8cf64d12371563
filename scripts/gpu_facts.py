#!/usr/bin/env python3
"""What this CUDA driver does where its documentation leaves open what GPU timing rests on.

Prints one JSON object of facts. Run by scripts/gpu_check.py, without the recorder; by itself it
needs libcuda.so.1 and a GPU.
"""
import ctypes
import json
import mmap
import os
import sys
import tempfile
import threading
import time

NON_BLOCKING, RELAXED, PORTABLE_MAPPED = 1, 2, 3
WORD_BYTES = 1 << 20


class Refused(Exception):
    """A call that has to work did not."""


class Driver:
    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")

    def ask(self, name, *arguments):
        """The CUresult."""
        return getattr(self.library, name)(*arguments)

    def call(self, name, *arguments):
        result = self.ask(name, *arguments)
        if result != 0:
            raise Refused(f"{name} answered {result}")


def made(driver, name, *arguments):
    handle = ctypes.c_void_p()
    driver.call(name, ctypes.byref(handle), *arguments)
    return handle


def elapsed_backwards(driver, stream):
    """Milliseconds from the later of two events to the earlier: times in front of a reference."""
    first, last = made(driver, "cuEventCreate", 0), made(driver, "cuEventCreate", 0)
    driver.call("cuEventRecord", first, stream)
    driver.call("cuStreamSynchronize", stream)
    driver.call("cuEventRecord", last, stream)
    driver.call("cuStreamSynchronize", stream)
    milliseconds = ctypes.c_float()
    result = driver.ask("cuEventElapsedTime", ctypes.byref(milliseconds), last, first)
    return milliseconds.value if result == 0 else f"error {result}"


def results_without_context(driver, stream, event):
    """Of calls by a thread that has never had a context."""
    found = {}

    def ask():
        status = ctypes.c_int()
        found["cuStreamIsCapturing"] = driver.ask("cuStreamIsCapturing", stream,
                                                  ctypes.byref(status))
        found["cuEventRecord"] = driver.ask("cuEventRecord", event, stream)
        found["cuEventQuery"] = driver.ask("cuEventQuery", event)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found


def registration(driver, folder, keeps=None):
    """The CUresult of registering pages of a file in this folder; `keeps` is called with them."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(WORD_BYTES)
        pages = mmap.mmap(file.fileno(), WORD_BYTES)
        memory = (ctypes.c_char * WORD_BYTES).from_buffer(pages)
        address = ctypes.c_void_p(ctypes.addressof(memory))
        result = driver.ask("cuMemHostRegister_v2", address, ctypes.c_size_t(WORD_BYTES),
                            PORTABLE_MAPPED)
        if result == 0:
            if keeps is not None:
                keeps(address)
            driver.ask("cuMemHostUnregister", address)
        del memory
        pages.close()
    return result


def captured_write(driver, stream, address):
    """The CUresult of a write that is captured, and of an executable of its graph."""
    device = ctypes.c_uint64()
    driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(device), address, 0)
    driver.call("cuStreamBeginCapture_v2", stream, RELAXED)
    write = driver.ask("cuStreamWriteValue64_v2", stream, device, ctypes.c_uint64(1), 0)
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    ended = driver.ask("cuStreamEndCapture", stream, ctypes.byref(graph))
    results = {"write": write, "end": ended}
    if write == ended == 0:
        results["instantiate"] = driver.ask("cuGraphInstantiateWithFlags",
                                            ctypes.byref(executable), graph, ctypes.c_uint64(0))
    if results.get("instantiate") == 0:
        results["launch"] = driver.ask("cuGraphLaunch", executable, stream)
        driver.call("cuStreamSynchronize", stream)
        results["written"] = ctypes.c_uint64.from_address(address.value).value
        driver.ask("cuGraphExecDestroy", executable)
    if graph.value:
        driver.ask("cuGraphDestroy", graph)
    return results


# Of a kernel that runs for as many nanoseconds as it is told. The driver compiles it.
SPIN = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 length) {
  .reg .u64 %length, %start, %now;
  .reg .pred %on;
  ld.param.u64 %length, [length];
  mov.u64 %start, %globaltimer;
again:
  mov.u64 %now, %globaltimer;
  sub.u64 %now, %now, %start;
  setp.lt.u64 %on, %now, %length;
  @%on bra again;
  ret;
}
"""
SPIN_NS = 300_000_000


def milliseconds_of(action):
    start = time.perf_counter()
    action()
    return round(1000 * (time.perf_counter() - start), 3)


def registration_beside_a_kernel(driver, stream):
    """Milliseconds that registering 1 MiB takes while nothing runs, and beside a kernel that runs
    for 300: the recorder does it on the thread that captures a graph."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuModuleLoadData", ctypes.byref(module), SPIN)
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"spin")
    length = ctypes.c_uint64(SPIN_NS)
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(length))

    def register():
        registration(driver, "/dev/shm")

    register()  # what the first one costs is not asked
    idle_ms = milliseconds_of(register)
    driver.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)
    beside_ms = milliseconds_of(register)
    driver.call("cuStreamSynchronize", stream)
    return {"idle_ms": idle_ms, "beside_kernel_ms": beside_ms}


NODES, REPLAYS = 200, 200


def replay_time(driver, stream, target, word):
    """Microseconds of one replay of as many small fills, with a write of `word` in front of and
    behind each, or without."""
    driver.call("cuStreamBeginCapture_v2", stream, RELAXED)
    for number in range(NODES):
        if word is not None:
            driver.call("cuStreamWriteValue64_v2", stream, word, ctypes.c_uint64(2 * number), 0)
        driver.call("cuMemsetD32Async", target, 1, ctypes.c_size_t(64), stream)
        if word is not None:
            driver.call("cuStreamWriteValue64_v2", stream, word, ctypes.c_uint64(2 * number + 1), 0)
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuStreamEndCapture", stream, ctypes.byref(graph))
    driver.call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_uint64(0))
    driver.call("cuGraphLaunch", executable, stream)
    driver.call("cuStreamSynchronize", stream)

    def replay():
        for _ in range(REPLAYS):
            driver.call("cuGraphLaunch", executable, stream)
        driver.call("cuStreamSynchronize", stream)

    took_us = 1000 * milliseconds_of(replay) / REPLAYS
    driver.ask("cuGraphExecDestroy", executable)
    driver.ask("cuGraphDestroy", graph)
    return took_us


def cost_of_marks(driver, stream, address):
    """Nanoseconds that the two writes around one captured operation add to a replay."""
    word, target = ctypes.c_uint64(), ctypes.c_uint64()
    driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(word), address, 0)
    driver.call("cuMemAlloc_v2", ctypes.byref(target), ctypes.c_size_t(4096))
    plain_us = replay_time(driver, stream, target, None)
    marked_us = replay_time(driver, stream, target, word)
    driver.ask("cuMemFree_v2", target)
    return {"replay_us": round(plain_us, 1),
            "ns_per_operation": round(1000 * (marked_us - plain_us) / NODES)}


def told(question, *arguments):
    """What is asked only to be told: a driver that does not do it has said so."""
    try:
        return question(*arguments)
    except (AttributeError, Refused) as fault:
        return f"not asked: {fault}"


def facts_of(driver):
    driver.call("cuInit", 0)
    driver.call("cuCtxSetCurrent", made(driver, "cuDevicePrimaryCtxRetain", 0))
    stream, event = made(driver, "cuStreamCreate", NON_BLOCKING), made(driver, "cuEventCreate", 0)
    facts = {"elapsed_backwards_ms": elapsed_backwards(driver, stream),
             "without_context": results_without_context(driver, stream, event)}

    def write(address):
        facts["captured_write"] = captured_write(driver, stream, address)
        facts["marks"] = told(cost_of_marks, driver, stream, address)

    facts["register_in_memory"] = registration(driver, "/dev/shm", write)
    facts["register_on_disk"] = registration(driver, os.getcwd())
    facts["register"] = told(registration_beside_a_kernel, driver, stream)
    return facts


def main():
    try:
        print(json.dumps(facts_of(Driver())))
    except (OSError, Refused) as fault:
        print(f"gpu_facts: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
