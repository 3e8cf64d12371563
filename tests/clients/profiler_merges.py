#!/usr/bin/env python3
"""The traces of PyTorch's profiler and a run's own are one: `rollcall trace --merge`.

  tests/clients/profiler_merges.py PYTHON [BACKEND]

PYTHON is an interpreter that has PyTorch 2.12 or later. Its profiler watches a job of two ranks on
emulated GPUs (profiler_job.py); each of its records of a collective must have its calls, and these
lie within it, as far as the archive says that the clocks agree.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile

import views
from views import check

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "profiler_job.py")
RANKS = 2
# Of Perfetto's messages, release 59; report/perfetto/fields.h has them all.
PACKET, CLOCKS, TIME, SEQUENCE, EVENT, INTERNED = 1, 6, 8, 10, 11, 12
ANNOTATION, TYPE, TRACK = 4, 9, 11
BEGIN, END = 1, 2


def fields(data):
    """(number, value) of a message of Protocol Buffers: integers, or bytes."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            size = 8 if tag & 7 == 1 else varint()
            yield tag >> 3, data[at:at + size]
            at += size


class Calls:
    """Begin and end of the calls of each rank that have an "External id", by it."""

    def __init__(self, trace):
        self.found = collections.defaultdict(lambda: collections.defaultdict(list))
        self.names = collections.defaultdict(dict)
        self.now = {}
        self.open = collections.defaultdict(list)
        self.order = []  # of sequences that have such calls: that of the ranks
        for number, packet in fields(trace):
            if number == PACKET:
                self.read(packet)

    def read(self, packet):
        told = dict(fields(packet))
        sequence = told.get(SEQUENCE)
        if CLOCKS in told:
            clock = dict(fields(next(value for _, value in fields(told[CLOCKS]))))
            self.now[sequence] = clock[2]
        for number, entry in fields(told.get(INTERNED, b"")):
            if number == 3:  # names of arguments
                entry = dict(fields(entry))
                self.names[sequence][entry[1]] = entry[2].decode()
        if EVENT not in told:
            return
        self.now[sequence] += told.get(TIME, 0)
        event = dict(fields(told[EVENT]))
        track = sequence, event.get(TRACK)
        if event[TYPE] == BEGIN:
            arguments = [dict(fields(value)) for number, value in fields(told[EVENT])
                         if number == ANNOTATION]
            external = [one[3] for one in arguments
                        if self.names[sequence][one[1]] == "External id"]
            self.open[track].append((self.now[sequence], external))
        elif event[TYPE] == END:
            begin_ns, external = self.open[track].pop()
            if external:
                if sequence not in self.order:
                    self.order.append(sequence)
                self.found[sequence][external[0]].append((begin_ns, self.now[sequence]))

    def of_rank(self, rank):
        return self.found[self.order[rank]] if rank < len(self.order) else {}


def merge(python, backend, folder):
    run, profiles = os.path.join(folder, "run"), os.path.join(folder, "profiles")
    os.mkdir(profiles)
    views.record(run, RANKS, python, JOB, profiles, backend)
    archive = os.path.join(folder, "run.zip")
    done = subprocess.run([views.ROLLCALL, "trace", run, "--merge", profiles, "-o", archive],
                          check=False, capture_output=True, text=True)
    check(done.returncode == 0, "the run and PyTorch's traces are merged", done.stderr)
    found = re.search(r"([\d,]+) of ([\d,]+) records", done.stderr)
    check(found and found.group(1) == found.group(2) and found.group(1) != "0",
          f"every record has its call ({found.group(0) if found else ''})", done.stderr)
    return archive, profiles


def enclose(rank, manifest, calls, text):
    """Whether each record has calls, and encloses them."""
    member = next(one for one in manifest["files"]
                  if one["path"] == f"kineto/{rank}.pt.trace.json")
    offset_ns = member["clocks"]["offset_ns"]
    bound_ns = manifest["attributes"][f"rollcall.rank_{rank}.clock_bound_ns"]
    records = [one for one in json.loads(text)["traceEvents"]
               if one.get("name") == "record_param_comms"
               and one["args"].get("Collective name") not in (None, "wait")]
    outside = []
    for record in records:
        begin_ns = record["ts"] * 1000 + offset_ns - bound_ns
        end_ns = (record["ts"] + record["dur"]) * 1000 + offset_ns + bound_ns
        its_calls = calls.get(record["args"]["External id"], [])
        if not its_calls or not all(begin_ns <= begin and end <= end_ns
                                    for begin, end in its_calls):
            outside.append((record["args"]["Collective name"], record["args"].get("Seq"),
                            its_calls, begin_ns, end_ns))
    check(records and not outside,
          f"rank {rank}: each of {len(records)} records encloses its calls, within the "
          f"{bound_ns} ns that are stated", outside[:3])


def main():
    python, backend = sys.argv[1], (sys.argv + ["nccl"])[2]
    with tempfile.TemporaryDirectory(prefix="rollcall-views-") as folder:
        archive, profiles = merge(python, backend, folder)
        if views.failures:
            return 1
        with zipfile.ZipFile(archive) as members:
            check(members.testzip() is None, "the archive is whole")
            manifest = json.loads(members.read("perfetto_manifest.json"))["perfetto_manifest"]
            calls = Calls(members.read("rollcall.pftrace"))
            for rank in range(RANKS):
                text = members.read(f"kineto/{rank}.pt.trace.json")
                with open(os.path.join(profiles, f"{rank}.pt.trace.json"), "rb") as file:
                    check(file.read() == text, f"rank {rank}: PyTorch's file is as it was")
                enclose(rank, manifest, calls.of_rank(rank), text)
    return 1 if views.failures else 0


if __name__ == "__main__":
    sys.exit(main())
