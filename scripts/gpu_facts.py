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


def facts_of(driver):
    driver.call("cuInit", 0)
    driver.call("cuCtxSetCurrent", made(driver, "cuDevicePrimaryCtxRetain", 0))
    stream, event = made(driver, "cuStreamCreate", NON_BLOCKING), made(driver, "cuEventCreate", 0)
    facts = {"elapsed_backwards_ms": elapsed_backwards(driver, stream),
             "without_context": results_without_context(driver, stream, event)}

    def write(address):
        facts["captured_write"] = captured_write(driver, stream, address)

    facts["register_in_memory"] = registration(driver, "/dev/shm", write)
    facts["register_on_disk"] = registration(driver, os.getcwd())
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
