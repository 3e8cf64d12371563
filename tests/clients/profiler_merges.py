#!/usr/bin/env python3
"""The traces of PyTorch's profiler and a run's own are one: `rollcall trace --merge`.

  tests/clients/profiler_merges.py PYTHON [BACKEND]

PYTHON is an interpreter that has PyTorch 2.12 or later. Its profiler watches jobs of 2 and of 8
ranks on emulated GPUs (profiler_job.py), half of which believe to be on another host, whose clock
is wrong (other_host.c). Each record of a collective must have its calls, and these lie within it,
as far as the archive says that the clocks agree; and the hosts' clocks must have been put right as
far as it says. The same holds in the one trace that is for older versions of Perfetto.
"""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile

import pftrace
import views
from views import check

JOB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "profiler_job.py")
OTHER_HOST = os.path.abspath(os.path.join(views.BUILD, "tests", "clients", "other_host.so"))
AHEAD_NS = -97_300_000_000
ROUNDED_NS = 1  # times of PyTorch's files are microseconds with three decimals


def calls_in(data):
    """By rank and "External id": the calls of a run's trace."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for one in pftrace.Trace(data).slices:
        if one.category == "call" and "External id" in one.arguments:
            rank = int(re.match(r"ranks/rank (\d+) ", one.path).group(1))
            found[rank][one.arguments["External id"]].append((one.begin_ns, one.end_ns))
    return found


def record(python, backend, ranks, folder):
    run, profiles = os.path.join(folder, "run"), os.path.join(folder, "profiles")
    os.mkdir(profiles)
    views.record(run, ranks, python, JOB, profiles, backend, OTHER_HOST, str(AHEAD_NS))
    return run, profiles


def merge(run, profiles, file):
    done = subprocess.run([views.ROLLCALL, "trace", run, "--merge", profiles, "-o", file],
                          check=False, capture_output=True, text=True)
    check(done.returncode == 0, "the run and PyTorch's traces are merged", done.stderr)
    found = re.search(r"([\d,]+) of ([\d,]+) records", done.stderr)
    check(found and found.group(1) == found.group(2) and found.group(1) != "0",
          f"every record has its call ({found.group(0) if found else ''})", done.stderr)
    check("the clocks of hosts agree within" in done.stderr, "the bound of the hosts is stated",
          done.stderr)


def is_record_of_calls(name, arguments):
    return name == "record_param_comms" and \
        arguments.get("Collective name") not in (None, "wait")


def enclose(rank, records, calls, bound_ns):
    """Whether each record has calls, and encloses them. Of each record: its "External id", when it
    began and ended, and what it is."""
    bound_ns += ROUNDED_NS
    outside = []
    for external, begin_ns, end_ns, what in records:
        its_calls = calls.get(external, [])
        if not its_calls or not all(begin_ns - bound_ns <= begin and end <= end_ns + bound_ns
                                    for begin, end in its_calls):
            outside.append((what, its_calls, begin_ns, end_ns))
    check(records and not outside,
          f"rank {rank}: each of {len(records)} records encloses its calls, within the "
          f"{bound_ns} ns that are stated", outside[:3])


def records_in_file(text, offset_ns):
    return [(one["args"]["External id"], one["ts"] * 1000 + offset_ns,
             (one["ts"] + one["dur"]) * 1000 + offset_ns, one["args"])
            for one in json.loads(text)["traceEvents"]
            if is_record_of_calls(one.get("name"), one.get("args", {}))]


def compare_hosts(manifest, texts):
    """By how much the files of the second host were moved against those of the first."""
    moved, bounds = {}, {}
    for rank, text in texts.items():
        member = next(one for one in manifest["files"]
                      if one["path"] == f"kineto/{rank}.pt.trace.json")
        moved[rank] = (member["clocks"]["offset_ns"] - json.loads(text)["baseTimeNanoseconds"])
        name = f"rollcall.rank_{rank}"
        bounds[rank] = (manifest["attributes"][name + ".clock_bound_ns"]
                        + manifest["attributes"].get(name + ".host_clock_bound_ns", 0))
    half = len(texts) // 2
    wrong = [(one, other) for one in range(half) for other in range(half, len(texts))
             if abs(moved[one] - moved[other] - AHEAD_NS) > bounds[one] + bounds[other]]
    check(not wrong, f"the hosts' clocks, {AHEAD_NS} ns apart, are put right within what is stated",
          (wrong[:3], moved, bounds))
    check(max(bounds.values()) < 200_000_000, "what is stated is much less", bounds)


def look_at_archive(archive, profiles, ranks):
    """Returns what it states: the bound of each rank."""
    texts, bounds = {}, {}
    with zipfile.ZipFile(archive) as members:
        check(members.testzip() is None, "the archive is whole")
        manifest = json.loads(members.read("perfetto_manifest.json"))["perfetto_manifest"]
        calls = calls_in(members.read("rollcall.pftrace"))
        for rank in range(ranks):
            texts[rank] = members.read(f"kineto/{rank}.pt.trace.json")
            with open(os.path.join(profiles, f"{rank}.pt.trace.json"), "rb") as file:
                check(file.read() == texts[rank], f"rank {rank}: PyTorch's file is as it was")
            member = next(one for one in manifest["files"]
                          if one["path"] == f"kineto/{rank}.pt.trace.json")
            bounds[rank] = manifest["attributes"][f"rollcall.rank_{rank}.clock_bound_ns"]
            records = records_in_file(texts[rank], member["clocks"]["offset_ns"])
            enclose(rank, records, calls[rank], bounds[rank])
    compare_hosts(manifest, texts)
    return bounds


def look_at_trace(file, bounds):
    with open(file, "rb") as opened:
        data = opened.read()
    calls = calls_in(data)
    slices = pftrace.Trace(data).slices
    for rank, bound_ns in bounds.items():
        records = [(one.arguments["External id"], one.begin_ns, one.end_ns, one.arguments)
                   for one in slices if one.path.startswith(f"ranks/rank {rank} ")
                   and is_record_of_calls(one.name, one.arguments)]
        enclose(rank, records, calls[rank], bound_ns)


def main():
    python, backend = sys.argv[1], (sys.argv + ["nccl"])[2]
    for ranks in (2, 8):
        print(f"{ranks} ranks, {backend}")
        with tempfile.TemporaryDirectory(prefix="rollcall-views-") as folder:
            run, profiles = record(python, backend, ranks, folder)
            archive, trace = os.path.join(folder, "run.zip"), os.path.join(folder, "run.pftrace")
            merge(run, profiles, archive)
            merge(run, profiles, trace)
            if views.failures:
                return 1
            look_at_trace(trace, look_at_archive(archive, profiles, ranks))
    return 1 if views.failures else 0


if __name__ == "__main__":
    sys.exit(main())
