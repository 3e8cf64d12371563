#!/usr/bin/env python3
"""`rollcall trace --merge` packs a run with PyTorch's traces, joined and on one clock.

    merge.py ROLLCALL

The run is synthetic, and so are the traces: a record of PyTorch's profiler around each call.
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile
import zipfile

ROLLCALL = sys.argv[1]
TORCH_NAMES = {"AllReduce": "all_reduce", "AllGather": "allGatherSingleImpl",
               "ReduceScatter": "reduceScatterSingleImpl", "Broadcast": "broadcast"}
BEFORE_NS, BEHIND_NS = 7000, 3000  # a record begins before its call, and ends behind it
SKIPPED_BY_TORCH = 3  # it counted as many collectives that NCCL never saw
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


def calls_of(run, rank):
    lines = map(json.loads, rollcall("dump", run).stdout.splitlines())
    return [one for one in lines if one["type"] == "op" and one["job_rank"] == rank
            and one["op"] in TORCH_NAMES and one["returned_ns"]]


def write_kineto(path, rank, calls, ahead_ns=0):
    base_ns = calls[0]["called_ns"] // 10**9 * 10**9 - 10**15
    events = []
    for number, call in enumerate(calls):
        begin_ns = call["called_ns"] - BEFORE_NS + ahead_ns - base_ns
        lasts_ns = call["returned_ns"] - call["called_ns"] + BEFORE_NS + BEHIND_NS
        events.append({
            "ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 7, "tid": 0,
            "ts": begin_ns / 1000, "dur": lasts_ns / 1000,
            "args": {"External id": 100 + number, "Collective name": TORCH_NAMES[call["op"]],
                     "dtype": "undescribed", "Seq": call["seq"] + SKIPPED_BY_TORCH,
                     "Process Group Name": call["comm"], "Group size": 2,
                     "Process Group Ranks": "[]", "Rank": 0,
                     "In msg nelems": call["count"], "Out msg nelems": call["count"]}})
    text = json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": rank}, "host_name": "n",
                       "baseTimeNanoseconds": base_ns, "traceEvents": events})
    with (gzip.open if path.endswith(".gz") else open)(path, "wt") as file:
        file.write(text)
    return base_ns


def check_archive(folder, bases):
    with zipfile.ZipFile(os.path.join(folder, "run.zip")) as archive:
        expect(archive.testzip() is None, "a member is damaged")
        expect(archive.namelist()[0] == "rollcall.pftrace", archive.namelist())
        for name in bases:
            with open(os.path.join(folder, "profiles", name), "rb") as file:
                expect(archive.read("kineto/" + name) == file.read(), f"{name} was changed")
        text = archive.read("perfetto_manifest.json").decode()
    # By this Perfetto knows it.
    expect(text.startswith('{"perfetto_manifest"'), text)
    manifest = json.loads(text)["perfetto_manifest"]
    expect(manifest["version"] == 1, text)
    files = {one["path"]: one for one in manifest["files"]}
    expect(files.keys() == {"rollcall.pftrace", *("kineto/" + name for name in bases)}, text)
    machines = {one["machine"]["name"] for one in files.values() if "machine" in one}
    expect(len(machines) == len(bases), "a machine for each file, for their process ids are alike")
    for name, base_ns in bases.items():
        clocks = files["kineto/" + name]["clocks"]
        expect(clocks["sync_to"] == {"file": "rollcall.pftrace", "clock": "REALTIME"}, clocks)
        expect("clock" not in clocks, "JSON has no clock of its own")
        expect(abs(clocks["offset_ns"] - base_ns) <= BEFORE_NS, (name, clocks, base_ns))
    bound_ns = manifest["attributes"]["rollcall.rank_0.clock_bound_ns"]
    expect(0 < bound_ns <= BEFORE_NS, f"the bound of rank 0 is {bound_ns} ns")


def check_sentences(said, records):
    expect(f"{records} of {records} records of PyTorch's profiler are joined" in said, said)
    expect("by time" not in said and "not joined" not in said, said)
    expect("r9.json: there is no recording of its process" in said, said)
    expect("on a host the clocks of both agree within" in said, said)


def check_refusals(folder, run, profiles):
    text = rollcall("trace", run, "--merge", profiles, "-o", os.path.join(folder, "run.json"),
                    status=2).stderr
    expect("name a file like run.zip" in text, text)
    text = rollcall("trace", run, "--merge", run, "-o", os.path.join(folder, "other.zip"),
                    status=2).stderr
    expect("no trace of PyTorch's profiler" in text, text)
    for cut in (("--around", "3"), ("--window", "5")):
        text = rollcall("trace", run, "--merge", profiles, *cut,
                        "-o", os.path.join(folder, "other.zip"), status=2).stderr
        expect("leave --around and --window out" in text, text)
    expect(sorted(os.listdir(folder)) == ["profiles", "run", "run.zip"], os.listdir(folder))


def main():
    with tempfile.TemporaryDirectory(prefix="rollcall-merge-") as folder:
        run, profiles = os.path.join(folder, "run"), os.path.join(folder, "profiles")
        os.mkdir(profiles)
        rollcall("synth", "-o", run, "--ranks", 2, "--ops", 300)
        calls = [calls_of(run, rank) for rank in (0, 1)]
        expect(min(map(len, calls)) > 100, "the run has calls")
        # A window of the profiler: neither the first calls nor the last.
        calls = [one[20:-20] for one in calls]
        # Its clock may be wrong; what the calls prove, is put right.
        bases = {"r0.json": write_kineto(os.path.join(profiles, "r0.json"), 0, calls[0]),
                 "r1.json.gz": write_kineto(os.path.join(profiles, "r1.json.gz"), 1, calls[1],
                                            AHEAD_NS) - AHEAD_NS,
                 "r9.json": write_kineto(os.path.join(profiles, "r9.json"), 9, calls[1])}
        with open(os.path.join(profiles, "notes.txt"), "w", encoding="utf-8") as file:
            file.write("no trace\n")
        said = rollcall("trace", run, "--merge", profiles, "-o",
                        os.path.join(folder, "run.zip")).stderr
        check_sentences(said, sum(map(len, calls)))
        check_archive(folder, bases)
        check_refusals(folder, run, profiles)


if __name__ == "__main__":
    main()
