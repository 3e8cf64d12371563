#!/usr/bin/env python3
"""`rollcall trace --merge` packs a run with PyTorch's traces, joined and on one clock.

    merge.py ROLLCALL

The run is synthetic, and so are the traces: a record of PyTorch's profiler around each call.
"""
import gzip
import json
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "clients"))
from kineto_made import BEFORE_NS, BEHIND_NS, calls_of, write_kineto
from pftrace import Trace

ROLLCALL = sys.argv[1]
AHEAD_NS = 200_000  # so much its clock is wrong


def rollcall(*arguments, status=0):
    done = subprocess.run([ROLLCALL, *map(str, arguments)], text=True, capture_output=True,
                          check=False)
    if done.returncode != status:
        raise AssertionError(f"{arguments}: status {done.returncode}, not {status}\n"
                             f"{done.stdout}{done.stderr}")
    return done


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def member_of(name):
    return "kineto/" + name.replace(".gz", "")


def check_archive(folder, bases):
    with zipfile.ZipFile(os.path.join(folder, "run.zip")) as archive:
        expect(archive.testzip() is None, "a member is damaged")
        expect(archive.namelist()[0] == "rollcall.pftrace", archive.namelist())
        for name in bases:
            with open(os.path.join(folder, "profiles", name), "rb") as file:
                text = file.read()
            # A packed file would be an archive in an archive, whose clock no manifest sets.
            text = gzip.decompress(text) if name.endswith(".gz") else text
            expect(archive.read(member_of(name)) == text, f"{name} was changed")
        text = archive.read("perfetto_manifest.json").decode()
    # By this Perfetto knows it.
    expect(text.startswith('{"perfetto_manifest"'), text)
    manifest = json.loads(text)["perfetto_manifest"]
    expect(manifest["version"] == 1, text)
    files = {one["path"]: one for one in manifest["files"]}
    expect(files.keys() == {"rollcall.pftrace", *map(member_of, bases)}, text)
    machines = {one["machine"]["name"] for one in files.values() if "machine" in one}
    expect(len(machines) == len(bases), "a machine for each file, for their process ids are alike")
    for name, base_ns in bases.items():
        clocks = files[member_of(name)]["clocks"]
        expect(clocks["sync_to"] == {"file": "rollcall.pftrace", "clock": "REALTIME"}, clocks)
        expect("clock" not in clocks, "JSON has no clock of its own")
        expect(abs(clocks["offset_ns"] - base_ns) <= BEFORE_NS, (name, clocks, base_ns))
    bound_ns = manifest["attributes"]["rollcall.rank_0.clock_bound_ns"]
    expect(0 < bound_ns <= BEFORE_NS, f"the bound of rank 0 is {bound_ns} ns")


def check_one_trace(trace, calls):
    """That of rank 0 lies below rank 0, that of rank 1, whose clock was wrong, below rank 1, and
    each record encloses its call."""
    for rank, of_rank in enumerate(calls):
        below = [one for one in trace.slices if one.path.startswith(f"ranks/rank {rank} ")]
        records = {one.arguments["External id"]: one for one in below
                   if one.name == "record_param_comms"}
        made = {one.arguments["External id"]: one for one in below
                if one.category == "call" and "External id" in one.arguments}
        expect(len(records) == len(of_rank) and records.keys() == made.keys(),
               (rank, len(records), len(made)))
        for number, record in records.items():
            expect(record.path.endswith("/PyTorch/python 7 (CPU)/thread 7 (python)"), record.path)
            # As far as the clock that was wrong could be put right.
            expect(record.begin_ns - BEHIND_NS <= made[number].begin_ns <= made[number].end_ns
                   <= record.end_ns + BEFORE_NS, (rank, record, made[number]))


def check_kept(trace, calls):
    """Arguments, arrows and moments of a file."""
    of_gpu = [one for one in trace.slices
              if "/rank 0 " in one.path and one.path.endswith("python 0 (GPU 0)/stream 13")]
    expect(len(of_gpu) == len(calls), len(of_gpu))
    expect(of_gpu[0].arguments == {"External id": 100, "grid": "[24, 1, 1]", "occupancy": 0.5},
           of_gpu[0])
    ends = {}
    for one in trace.slices:
        if "PyTorch" in one.path:
            for flow in one.flows:
                ends.setdefault(flow, []).append(one.name)
    expect(len(ends) == 2 * len(calls) + len(calls), "an arrow for each record of each file")
    expect(all(names == ["record_param_comms", "ncclDevKernel"] for names in ends.values()), ends)
    moment, = trace.moments
    expect((moment.name, moment.arguments) == ("[memory]", {"Bytes": -512, "at": '{"a": [1, []]}'}),
           moment)


def check_single(folder, run, profiles, calls):
    """One trace for a Perfetto that opens no archive."""
    path = os.path.join(folder, "run.pftrace")
    said = rollcall("trace", run, "--merge", profiles, "-o", path).stderr
    check_sentences(said, sum(map(len, calls)))
    expect('r0.json: left out 1 event of the kind "C"' in said, said)
    with open(path, "rb") as file:
        trace = Trace(file.read())
    check_one_trace(trace, calls)
    check_kept(trace, calls[0])
    # Nobody knows whose it is: behind the ranks, by its own clock.
    expect(any(one.path.startswith("ranks/PyTorch, rank 9 (n)/python 7 (CPU)/")
               for one in trace.slices), "r9.json is in the trace")
    os.remove(path)


def check_sentences(said, records):
    expect(f"{records} of {records} records of PyTorch's profiler are joined" in said, said)
    expect("by time" not in said and "not joined" not in said, said)
    expect("r9.json: there is no recording of its process" in said, said)
    expect("on a host the clocks of both agree within" in said, said)


def check_ranks(folder, run, profiles):
    """--ranks chooses among the files, too."""
    path = os.path.join(folder, "some.zip")
    said = rollcall("trace", run, "--merge", profiles, "--ranks", 1, "-o", path).stderr
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    expect(names == ["rollcall.pftrace", "kineto/r1.json", "perfetto_manifest.json"], names)
    expect(" of 1 of 2 processes are in" in said, said)
    os.remove(path)
    said = rollcall("trace", run, "--merge", os.path.join(profiles, "r9.json"), "--ranks", 1, "-o",
                    path, status=2).stderr
    expect("has no trace of the ranks that --ranks names" in said, said)
    rollcall("trace", run, "--merge", profiles, "--ranks", "all", "-o", path)
    with zipfile.ZipFile(path) as archive:
        expect(len(archive.namelist()) == 5, archive.namelist())
    os.remove(path)


def check_names(folder, run, calls):
    """Files whose names are one once they are unpacked, and two of one rank without a recording."""
    profiles = os.path.join(folder, "more")
    os.mkdir(profiles)
    for name in ("file-2.pt.trace.json", "r.json", "r.json.gz"):
        write_kineto(os.path.join(profiles, name), 9, calls)
    path = os.path.join(folder, "names.zip")
    rollcall("trace", run, "--merge", profiles, "-o", path)
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        files = json.loads(archive.read("perfetto_manifest.json"))["perfetto_manifest"]["files"]
    expect(len(set(names)) == len(names) == 5, names)
    expect([one["path"] for one in files] == names[:4], (files, names))
    os.remove(path)
    path = os.path.join(folder, "names.pftrace")
    rollcall("trace", run, "--merge", profiles, "-o", path)
    with open(path, "rb") as file:
        paths = {one.path.split("/")[1] for one in Trace(file.read()).slices}
    expect({"PyTorch, rank 9 (n)", "PyTorch, rank 9 (n), file 2",
            "PyTorch, rank 9 (n), file 3"} <= paths, paths)
    os.remove(path)
    shutil.rmtree(profiles)


def check_terminal(run, profiles):
    """No bytes of a trace on a terminal."""
    terminal, its_end = pty.openpty()
    done = subprocess.run([ROLLCALL, "trace", run, "--merge", profiles, "--format", "perfetto"],
                          stdout=its_end, stderr=subprocess.PIPE, text=True, check=False)
    os.close(its_end)
    expect(done.returncode == 2 and "a trace is not for a terminal" in done.stderr, done)
    os.close(terminal)


def check_torn(folder, run, profiles):
    """NaN is no JSON: the one trace ends there, which is said, and what has the rest."""
    with open(os.path.join(profiles, "r0.json"), encoding="utf-8") as file:
        text = file.read().replace('"occupancy": 0.5', '"occupancy": NaN', 1)
    torn, path = os.path.join(folder, "torn.json"), os.path.join(folder, "torn.pftrace")
    with open(torn, "w", encoding="utf-8") as file:
        file.write(text)
    said = rollcall("trace", run, "--merge", torn, "-o", path).stderr
    expect("an archive (-o run.zip) has the whole file" in said, said)
    os.remove(path)
    path = os.path.join(folder, "torn.zip")
    said = rollcall("trace", run, "--merge", torn, "-o", path).stderr
    expect("is no JSON" in said and "an archive" not in said, said)
    os.remove(path)
    os.remove(torn)


def check_refusals(folder, run, profiles):
    text = rollcall("trace", run, "--merge", profiles, "-o", os.path.join(folder, "run.json"),
                    status=2).stderr
    expect("name a file like run.zip" in text, text)
    text = rollcall("trace", run, "--merge", profiles, "-o", os.path.join(folder, "run.pftrace"),
                    "--format", "json", status=2).stderr
    expect("or like run.pftrace for a Perfetto before v58" in text, text)
    text = rollcall("trace", run, "--merge", run, "-o", os.path.join(folder, "other.zip"),
                    status=2).stderr
    expect("no trace of PyTorch's profiler" in text, text)
    for cut in (("--around", "3"), ("--window", "5"), ("--steps", "3-4")):
        text = rollcall("trace", run, "--merge", profiles, *cut,
                        "-o", os.path.join(folder, "other.zip"), status=2).stderr
        expect("leave --around, --steps and --window out" in text, text)
    expect(sorted(os.listdir(folder)) == ["profiles", "run", "run.zip"], os.listdir(folder))


def events_of_other_kinds(call):
    """A moment, whose arguments are of all kinds, and one that no trace can hold."""
    base_ns = call["called_ns"] // 10**9 * 10**9 - 10**15
    begin_us = (call["called_ns"] - base_ns) / 1000
    return [{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": 7,
             "tid": 0, "ts": begin_us, "args": {"Bytes": -512, "at": {"a": [1, []]}}},
            {"ph": "C", "name": "load", "pid": 7, "tid": 0, "ts": begin_us, "args": {"x": 1}}]


def main():
    with tempfile.TemporaryDirectory(prefix="rollcall-merge-") as folder:
        run, profiles = os.path.join(folder, "run"), os.path.join(folder, "profiles")
        os.mkdir(profiles)
        rollcall("synth", "-o", run, "--ranks", 2, "--ops", 300)
        calls = [calls_of(ROLLCALL, run, rank) for rank in (0, 1)]
        expect(min(map(len, calls)) > 100, "the run has calls")
        # A window of the profiler: neither the first calls nor the last.
        calls = [one[20:-20] for one in calls]
        # Its clock may be wrong; what the calls prove, is put right.
        bases = {"r0.json": write_kineto(os.path.join(profiles, "r0.json"), 0, calls[0],
                                         more=events_of_other_kinds(calls[0][0])),
                 "r1.json.gz": write_kineto(os.path.join(profiles, "r1.json.gz"), 1, calls[1],
                                            AHEAD_NS) - AHEAD_NS,
                 "r9.json": write_kineto(os.path.join(profiles, "r9.json"), 9, calls[1])}
        with open(os.path.join(profiles, "notes.txt"), "w", encoding="utf-8") as file:
            file.write("no trace\n")
        said = rollcall("trace", run, "--merge", profiles, "-o",
                        os.path.join(folder, "run.zip")).stderr
        check_sentences(said, sum(map(len, calls)))
        check_archive(folder, bases)
        check_single(folder, run, profiles, calls)
        check_ranks(folder, run, profiles)
        check_names(folder, run, calls[0])
        check_terminal(run, profiles)
        check_torn(folder, run, profiles)
        check_refusals(folder, run, profiles)


if __name__ == "__main__":
    main()
