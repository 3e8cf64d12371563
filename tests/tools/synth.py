#!/usr/bin/env python3
"""`rollcall synth` writes runs in which `rollcall diff` finds what was planted, and nothing else.

    synth.py ROLLCALL
"""
import filecmp
import json
import os
import subprocess
import sys
import tempfile

ROLLCALL = sys.argv[1]
CULPRIT = 1  # of the first pipeline stage in every layout below
# Runs with segments and digests, runs that fit the ring, and one rank that is out of the ordinary.
SHAPES = [(8, 1500, "tp=2,pp=2"), (4, 60, "pp=2"), (16, 200, "dp=4,tp=2,pp=2")]
WITHOUT_CULPRIT = ("none", "straggler", "stream-block")
# A circle has several ranks on it.
SEVERAL = ("comm-order", "p2p-cycle")


def rollcall(*arguments, status=None):
    done = subprocess.run([ROLLCALL, *map(str, arguments)], text=True, capture_output=True,
                          check=False)
    if status is not None and done.returncode != status:
        raise AssertionError(f"{arguments}: status {done.returncode}, not {status}\n"
                             f"{done.stdout}{done.stderr}")
    return done


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def synthesise(folder, name, *arguments):
    directory = os.path.join(folder, name)
    rollcall("synth", "-o", directory, *arguments, status=0)
    return directory


def judge(directory):
    return json.loads(rollcall("diff", directory, "--json").stdout)


def check_fault(folder, fault, verdict, shape):
    ranks, ops, layout = shape
    planted = fault if fault == "none" else f"{fault}@{CULPRIT}"
    directory = synthesise(folder, f"{fault}-{ranks}", "--ranks", ranks, "--ops", ops, "--layout",
                           layout, "--fault", planted)
    report = judge(directory)
    lead = report["findings"][0]
    where = f"{fault} at {ranks} ranks: {json.dumps(report['findings'], indent=1)[:3000]}"
    expect(lead["code"] == verdict, f"not {verdict}: {where}")
    expect(len(report["findings"]) == 1, f"more than one finding: {where}")
    if fault in WITHOUT_CULPRIT:
        return
    culprits = [culprit["rank"] for culprit in lead["culprits"]]
    expect(CULPRIT in culprits, f"rank {CULPRIT} is not among {culprits}: {where}")
    expect(len(culprits) == 1 or fault in SEVERAL, f"more than one culprit: {where}")


def every_fault_is_named(folder):
    faults = [line.split("\t") for line in rollcall("synth", "--list-faults").stdout.splitlines()]
    expect(len(faults) > 20, "the table of faults is short")
    for fault, verdict, _ in faults:
        for shape in SHAPES:
            check_fault(folder, fault, verdict, shape)


def what_is_left_on_disk_changes_no_verdict(folder):
    """With few calls held, equal ones are skipped by their digests; the fault is found as well."""
    for fault in ("none", "missing-call", "count", "comm-order", "p2p-count", "kill"):
        for place in ("", ":30"):
            planted = fault if fault == "none" else f"{fault}@{CULPRIT}{place}"
            directory = synthesise(folder, f"{fault}{place[1:]}", "--ranks", 8, "--ops", 6000,
                                   "--layout", "tp=2,pp=2", "--fault", planted)
            whole = json.loads(rollcall("diff", directory, "--window", 0, "--json").stdout)
            part = json.loads(rollcall("diff", directory, "--held", 600, "--json").stdout)
            expect("left on disk" not in json.dumps(whole["issues"]), whole["issues"])
            expect("left on disk" in json.dumps(part["issues"]), part["issues"])
            for key in ("code", "culprits", "confidence"):
                expect(whole["findings"][0][key] == part["findings"][0][key],
                       f"{planted}: {whole['findings'][0]}\n{part['findings'][0]}")
            expect(len(part["findings"]) == 1, part["findings"])


def runs_and_ranks_are_compared(folder):
    old = synthesise(folder, "old", "--ranks", 8, "--ops", 400, "--layout", "tp=2,pp=2")
    new = synthesise(folder, "new", "--ranks", 8, "--ops", 400, "--layout", "tp=2,pp=2", "--fault",
                     "extra-call@5")
    same = rollcall("diff", old, old, status=0)
    expect("made the same calls" in same.stdout, same.stdout)
    report = json.loads(rollcall("diff", old, new, "--json", status=1).stdout)
    expect(report["schema"] == "rollcall.compare/1", report)
    changed = [(group["ranks"], edit["kind"], edit["length"])
               for group in report["groups"] for edit in group["edits"] if edit["kind"] != "same"]
    expect(changed == [("5", "added", 1)], changed)
    text = rollcall("diff", old, new, status=1).stdout
    expect("+ AllReduce 7777 float32 sum" in text, text)
    rollcall("diff", new, "--ranks", "0,1", status=0)
    text = rollcall("diff", new, "--ranks", "4,5", status=1).stdout
    expect("+ AllReduce 7777 float32 sum" in text, text)
    done = rollcall("diff", new, "--ranks", "0,99", status=2)
    expect("no file of rank 99" in done.stderr, done.stderr)


def a_fault_in_the_middle_ends_the_job_there(folder):
    arguments = ("--ranks", 4, "--ops", 3000, "--fault", "missing-call@2:100")
    directory = synthesise(folder, "middle", *arguments)
    report = judge(directory)
    lead = report["findings"][0]
    expect(lead["code"] == "RC-MISSING-CALL", lead)
    # Three collectives of the world in each step, behind the parameters' broadcasts.
    setup = 3000 % 9
    expect([(c["rank"], c["seq"]) for c in lead["culprits"]] == [(2, setup + 300)], lead)


def the_same_arguments_give_the_same_bytes(folder):
    arguments = ("--ranks", 4, "--ops", 500, "--layout", "tp=2", "--seed", 9)
    first = synthesise(folder, "first", *arguments)
    second = synthesise(folder, "second", *arguments)
    names = sorted(os.listdir(first))
    expect(names == sorted(os.listdir(second)) and len(names) == 8, f"the files are {names}")
    same, different, unread = filecmp.cmpfiles(first, second, names, shallow=False)
    expect(not different and not unread and len(same) == 8, f"{different} {unread}")


def the_number_of_calls_is_as_asked(folder):
    directory = synthesise(folder, "calls", "--ranks", 2, "--ops", 2000)
    text = rollcall("dump", directory, status=0).stdout
    calls = sum(json.loads(line)["type"] == "op" for line in text.splitlines())
    expect(calls == 4000, f"{calls} calls")


def what_cannot_be_written_is_refused_with_a_sentence(folder):
    directory = os.path.join(folder, "refused")
    for arguments, word in (
            (("--ranks", 4, "--ops", 100, "--layout", "tp=3"), "divided"),
            (("--ranks", 4, "--ops", 100, "--layout", "dp=3,tp=2"), "6 ranks, not 4"),
            (("--ranks", 4, "--ops", 100, "--layout", "xp=2"), "no part of a layout"),
            (("--ranks", 4, "--ops", 100, "--fault", "nonsense@1:1"), "--list-faults"),
            (("--ranks", 4, "--ops", 100, "--fault", "count"), "KIND@RANK:STEP"),
            (("--ranks", 4, "--ops", 100, "--fault", "count@4:1"), "the last rank is 3"),
            (("--ranks", 4, "--ops", 100, "--fault", "count@1:99"), "the last step"),
            (("--ranks", 4, "--ops", 100, "--fault", "p2p-count@1:1"), "pipeline stage"),
            (("--ranks", 4), "needs -o DIR")):
        done = rollcall("synth", "-o", directory, *arguments, status=2)
        expect(word in done.stderr, f"{arguments}: {done.stderr}")
        expect(not os.path.exists(directory), f"{arguments}: something was written")


def main():
    for test in (every_fault_is_named, what_is_left_on_disk_changes_no_verdict,
                 runs_and_ranks_are_compared, a_fault_in_the_middle_ends_the_job_there,
                 the_same_arguments_give_the_same_bytes, the_number_of_calls_is_as_asked,
                 what_cannot_be_written_is_refused_with_a_sentence):
        with tempfile.TemporaryDirectory(prefix="rollcall-synth-") as folder:
            test(folder)
        print(f"{test.__name__.replace('_', ' ')}: holds")


if __name__ == "__main__":
    main()
