#!/usr/bin/env python3
"""What this CUDA driver does where its documentation leaves open what GPU timing rests on.

Prints one JSON object of facts. Run by scripts/gpu_check.py, without the recorder; by itself it
needs libcuda.so.1 and a GPU.
"""
import contextlib
import ctypes
import json
import mmap
import os
import statistics
import sys
import tempfile
import threading
import time

NON_BLOCKING, RELAXED, PORTABLE_MAPPED, SET_DEPENDENCIES, DEVICE_LAUNCH = 1, 2, 3, 1, 4
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


@contextlib.contextmanager
def pages_of_a_file(folder):
    """The address of 1 MiB of a file in this folder."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.truncate(WORD_BYTES)
        pages = mmap.mmap(file.fileno(), WORD_BYTES)
        memory = (ctypes.c_char * WORD_BYTES).from_buffer(pages)
        yield ctypes.c_void_p(ctypes.addressof(memory))
        del memory
        pages.close()


def registering(address):
    """The driver's call, for those pages."""
    return "cuMemHostRegister_v2", address, ctypes.c_size_t(WORD_BYTES), PORTABLE_MAPPED


def registration(driver, folder, keeps=None):
    """The CUresult of registering pages of a file in this folder; `keeps` is called with them."""
    with pages_of_a_file(folder) as address:
        result = driver.ask(*registering(address))
        if result == 0:
            if keeps is not None:
                keeps(address)
            driver.ask("cuMemHostUnregister", address)
    return result


class Marks:
    """Words written beside what a stream captures, as core/gpu/marks.h has them."""

    def __init__(self, driver, stream, word):
        self.driver, self.stream, self.word = driver, stream, word
        self.newest = None

    def nodes(self):
        """What the next captured node of the stream will wait for."""
        status, identity = ctypes.c_int(), ctypes.c_uint64()
        graph, nodes, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
        self.driver.call("cuStreamGetCaptureInfo_v2", self.stream, ctypes.byref(status),
                         ctypes.byref(identity), ctypes.byref(graph), ctypes.byref(nodes),
                         ctypes.byref(count))
        if count.value == 0:
            return []
        return list((ctypes.c_void_p * count.value).from_address(nodes.value))

    def wait_for(self, nodes):
        self.driver.call("cuStreamUpdateCaptureDependencies", self.stream,
                         (ctypes.c_void_p * len(nodes))(*nodes) if nodes else None,
                         ctypes.c_size_t(len(nodes)), SET_DEPENDENCIES)

    def write(self, value):
        self.driver.call("cuMemsetD32Async", self.word, value, ctypes.c_size_t(1), self.stream)
        return self.nodes()[0]

    def put(self, value):
        before = self.nodes()
        if self.newest is None:
            self.wait_for([])
            self.newest = self.write(0)
        self.wait_for([*before, self.newest])
        self.newest = self.write(value)
        self.wait_for(before)


def captured(driver, stream, action):
    """A graph of what `action` makes the stream do."""
    graph = ctypes.c_void_p()
    driver.call("cuStreamBeginCapture_v2", stream, RELAXED)
    try:
        action()
    finally:
        ended = driver.ask("cuStreamEndCapture", stream, ctypes.byref(graph))
    if ended != 0:
        raise Refused(f"cuStreamEndCapture answered {ended}")
    return graph


def executable_of(driver, graph, flags=0):
    return made(driver, "cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(flags))


def word_of(driver, address):
    """The driver's address of registered memory."""
    word = ctypes.c_uint64()
    driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(word), address, 0)
    return word


def read_word(address):
    return ctypes.c_uint64.from_address(address.value).value


def type_of_node(driver, graph):
    """Of the first one: as the runtime numbers them, 2 is a memset."""
    node, kind, count = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_size_t(1)
    driver.call("cuGraphGetNodes", graph, ctypes.byref(node), ctypes.byref(count))
    driver.call("cuGraphNodeGetType", node, ctypes.byref(kind))
    return kind.value


def captured_marks(driver, spin, stream, address):
    """What a replay of a kernel between two marks writes, and what the host sees of it while the
    kernel runs; and what else becomes of such a graph."""
    marks = [Marks(driver, stream, ctypes.c_uint64(word_of(driver, address).value + offset))
             for offset in (0, 8)]

    def marked(mark):
        mark.put(1)
        spin(LONG_NS)
        mark.put(2)

    graph, other = (captured(driver, stream, lambda mark=mark: marked(mark)) for mark in marks)
    executable = executable_of(driver, graph)
    driver.call("cuGraphLaunch", executable, stream)
    until = time.monotonic() + LONG_NS / 2e9
    while read_word(address) == 0 and time.monotonic() < until:
        pass
    while_it_runs = read_word(address)
    driver.call("cuStreamSynchronize", stream)
    # The other one writes elsewhere: as when an executable is brought up to date by a new capture.
    found = {"while_it_runs": while_it_runs, "written": read_word(address),
             "node_type": told(type_of_node, driver, graph),
             "brought_up_to_date": driver.ask("cuGraphExecUpdate_v2", executable, other,
                                              (ctypes.c_uint64 * 8)()),
             "for_launch_by_device": driver.ask(
                 "cuGraphInstantiateWithFlags", ctypes.byref(ctypes.c_void_p()), other,
                 ctypes.c_uint64(DEVICE_LAUNCH))}
    driver.ask("cuGraphExecDestroy", executable)
    driver.ask("cuGraphDestroy", graph)
    driver.ask("cuGraphDestroy", other)
    return found


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
LONG_NS = 300_000_000


def spinner(driver, stream):
    """Launches it."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.call("cuModuleLoadData", ctypes.byref(module), SPIN)
    driver.call("cuModuleGetFunction", ctypes.byref(function), module, b"spin")

    def spin(length_ns):
        length = ctypes.c_uint64(length_ns)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(length))
        driver.call("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, None)

    return spin


def milliseconds_of(action, *arguments):
    start = time.perf_counter()
    action(*arguments)
    return round(1000 * (time.perf_counter() - start), 3)


def registration_beside_a_kernel(driver, spin, stream):
    """Milliseconds that registering 1 MiB takes, and letting go of it, beside a kernel that runs
    for 300: the recorder registers on the thread that captures a graph."""
    registration(driver, "/dev/shm")  # what the first one costs is not asked
    found = {}
    with pages_of_a_file("/dev/shm") as address:
        for name, call in (("register_ms", registering(address)),
                           ("let_go_ms", ("cuMemHostUnregister", address))):
            spin(LONG_NS)
            found[name] = milliseconds_of(driver.call, *call)
            driver.call("cuStreamSynchronize", stream)
    return found


NODES, REPLAYS, ROUNDS, SHORT_NS, MIDDLE_NS = 100, 20, 9, 5_000, 40_000


def replay_times(driver, spin, stream, address):
    """Median microseconds of a replay of so many short kernels: plain, with a mark in front of each
    and one behind it, and with writes by the stream itself instead of marks."""
    word = word_of(driver, address)

    def plain():
        for _ in range(NODES):
            spin(SHORT_NS)

    def marked():
        marks = Marks(driver, stream, word)
        for number in range(NODES):
            marks.put(2 * number + 1)
            spin(SHORT_NS)
            marks.put(2 * number + 2)

    def written():
        for number in range(NODES):
            for value in (2 * number + 1, 2 * number + 2):
                if value % 2 == 0:
                    spin(SHORT_NS)
                driver.call("cuStreamWriteValue64_v2", stream, word, ctypes.c_uint64(value), 0)

    graphs = [captured(driver, stream, action) for action in (plain, marked, written)]
    executables = [executable_of(driver, graph) for graph in graphs]

    def replay(executable):
        for _ in range(REPLAYS):
            driver.call("cuGraphLaunch", executable, stream)
        driver.call("cuStreamSynchronize", stream)

    times = [[] for _ in executables]
    for _ in range(ROUNDS):
        for executable, found in zip(executables, times):
            found.append(1000 * milliseconds_of(lambda: replay(executable)) / REPLAYS)
    for executable, graph in zip(executables, graphs):
        driver.ask("cuGraphExecDestroy", executable)
        driver.ask("cuGraphDestroy", graph)
    return [statistics.median(found[1:]) for found in times]


def cost_of_marks(driver, spin, stream, address):
    """Nanoseconds that the two marks beside one captured operation add to a replay, and what two
    writes in its stream would."""
    plain_us, marked_us, written_us = replay_times(driver, spin, stream, address)
    return {"replay_us": round(plain_us, 1),
            "ns_per_operation": round(1000 * (marked_us - plain_us) / NODES),
            "ns_of_stream_writes": round(1000 * (written_us - plain_us) / NODES)}


def cost_of_events(driver, spin, stream):
    """Nanoseconds that recording an event takes: of the launching thread, Python's share included,
    and of the stream, between kernels that are long enough for the thread to be ahead."""
    event = made(driver, "cuEventCreate", 0)

    def record():
        driver.call("cuEventRecord", event, stream)

    def kernels(events):
        for _ in range(NODES):
            spin(MIDDLE_NS)
            for _ in range(events):
                record()
        driver.call("cuStreamSynchronize", stream)

    host_ms, stream_ms = [], []
    for _ in range(ROUNDS):
        host_ms.append(milliseconds_of(lambda: [record() for _ in range(NODES)]))
        driver.call("cuStreamSynchronize", stream)
        plain_ms = milliseconds_of(lambda: kernels(0))
        stream_ms.append((milliseconds_of(lambda: kernels(2)) - plain_ms) / 2)
    return {"host_ns": round(1e6 * statistics.median(host_ms) / NODES),
            "stream_ns": round(1e6 * statistics.median(stream_ms) / NODES)}


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

    spin = spinner(driver, stream)

    def mark(address):
        facts["marks"] = captured_marks(driver, spin, stream, address)
        facts["cost"] = told(cost_of_marks, driver, spin, stream, address)

    facts["event"] = told(cost_of_events, driver, spin, stream)
    facts["register_in_memory"] = registration(driver, "/dev/shm", mark)
    facts["register_on_disk"] = registration(driver, os.getcwd())
    facts["beside_kernel"] = told(registration_beside_a_kernel, driver, spin, stream)
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
