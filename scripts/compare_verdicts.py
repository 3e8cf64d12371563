#!/usr/bin/env python3
"""Do two builds report the same of every job?

  scripts/compare_verdicts.py OLD NEW [--seeds N] [--first N] [--runs DIR]...

OLD and NEW are build folders (build/release). Compared are, text and JSON of `rollcall diff`:

  - the random jobs FIRST to FIRST+N-1 of tests/sim (10,000 unless told otherwise);
  - the samples of other recorders' files in tests/import;
  - a job of each fault and shape that `rollcall synth` can write;
  - every run below each DIR. `TMPDIR=DIR ROLLCALL_E2E_KEEP=1 ctest --preset release -L e2e` leaves
    those of the end-to-end tests there.

Exit status 0: all are the same. 1: not so; the first job of each kind that differs is shown, as a
diff of its two reports. 2: a build or a run could not be used.

  scripts/compare_verdicts.py --self-test    proves that a difference is found
"""
import argparse
import concurrent.futures
import difflib
import os
import shutil
import stat
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SAMPLES = os.path.join(ROOT, "tests", "import", "samples")
# The time of writing that every sample gets: what is said of a foreign file depends on it, and a
# checkout gives each its own.
SAMPLE_TIME_S = 1_700_000_000
SYNTHETIC_SHAPES = [(8, 1500, "tp=2,pp=2"), (4, 60, "pp=2"), (16, 200, "dp=4,tp=2,pp=2")]
SHOWN_LINES_MAX = 200


class Unusable(Exception):
    """What could not be run, and what it said."""


class Build:
    """One of the two: what its programs say."""

    def __init__(self, folder):
        self.folder = folder
        self.sim_test = os.path.join(folder, "tests", "sim", "sim_test")
        self.rollcall = os.path.join(folder, "tools", "rollcall")
        for program in (self.sim_test, self.rollcall):
            if not os.access(program, os.X_OK):
                raise Unusable(f"{program} cannot be run: build the targets sim_test and rollcall")

    def simulate(self, first, last, kind, path):
        """Lets the simulator write `path`: "DIGESTS", or the "REPORTS" themselves."""
        environment = {**os.environ, "ROLLCALL_SIM_FIRST": str(first),
                       "ROLLCALL_SIM_SEEDS": str(last), f"ROLLCALL_SIM_{kind}": path}
        for name in ("ROLLCALL_SIM_SEED", "ROLLCALL_SIM_TABLE"):
            environment.pop(name, None)
        done = subprocess.run([self.sim_test], env=environment, text=True, capture_output=True,
                              check=False)
        # It fails where a verdict is wrong, which may be so in both builds; it is not to crash.
        if done.returncode < 0 or not os.path.exists(path):
            raise Unusable(f"{self.sim_test} ended with {done.returncode} and wrote no "
                           f"{kind.lower()}; does this build know ROLLCALL_SIM_{kind}?\n"
                           f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
        with open(path, encoding="utf-8") as file:
            return file.read()

    def digests(self, first, last, scratch):
        """seed -> its whole line."""
        path = os.path.join(scratch, "digests")
        lines = self.simulate(first, last, "DIGESTS", path).splitlines()
        return {int(line.split()[0]): line for line in lines}

    def report_of_seed(self, seed, scratch):
        return self.simulate(seed, seed, "REPORTS", os.path.join(scratch, "report"))

    def report_of_run(self, directory):
        said = ""
        for options in (["--json"], ["--all"]):
            done = subprocess.run([self.rollcall, "diff", directory, *options], text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, check=False,
                                  errors="replace")
            said += f"{done.stdout}{done.stderr}(exit status {done.returncode})\n"
        return said


def in_both(builds, function):
    """What `function` says of each build. They run beside each other."""
    with concurrent.futures.ThreadPoolExecutor(len(builds)) as pool:
        return list(pool.map(function, builds))


def show(name, old, new):
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), f"{name}, old",
                                      f"{name}, new", lineterm=""))
    for line in lines[:SHOWN_LINES_MAX]:
        print(line)
    if len(lines) > SHOWN_LINES_MAX:
        print(f"… and {len(lines) - SHOWN_LINES_MAX} more lines")


def compare_seeds(builds, first, last, scratch):
    """How many random jobs were compared, and how many of these differ."""
    folders = {build: tempfile.mkdtemp(dir=scratch) for build in builds}
    old, new = in_both(builds, lambda build: build.digests(first, last, folders[build]))
    seeds = sorted(old.keys() | new.keys())
    different = [seed for seed in seeds if old.get(seed) != new.get(seed)]
    if different:
        seed = different[0]
        print(f"seed {seed}: {old.get(seed, 'no job')} | {new.get(seed, 'no job')}")
        show(f"seed {seed}", *in_both(builds, lambda build: build.report_of_seed(
            seed, folders[build])))
        print("also different: " + " ".join(map(str, different[1:50])) +
              (" …" if len(different) > 50 else ""))
    return len(seeds), len(different)


def runs_below(root):
    """Folders that hold ring files; where there are none, all that hold any file."""
    with_rings, with_files = [], []
    for folder, subfolders, files in os.walk(root):
        subfolders.sort()
        if files:
            with_files.append(folder)
        if any(name.endswith(".ring") for name in files):
            with_rings.append(folder)
    return with_rings or with_files


def copy_samples(scratch):
    copy = os.path.join(scratch, "samples")
    shutil.copytree(SAMPLES, copy)
    for folder, _, files in os.walk(copy):
        for name in files:
            os.utime(os.path.join(folder, name), (SAMPLE_TIME_S, SAMPLE_TIME_S))
    return copy


def synthesise(build, scratch):
    """A run for each fault that `rollcall synth` knows, in each shape."""
    root = os.path.join(scratch, "synthetic")
    listed = subprocess.run([build.rollcall, "synth", "--list-faults"], text=True,
                            capture_output=True, check=True).stdout
    faults = [line.split("\t")[0] for line in listed.splitlines()]
    for fault in faults:
        for ranks, ops, layout in SYNTHETIC_SHAPES:
            planted = fault if fault == "none" else f"{fault}@1"
            directory = os.path.join(root, f"{fault}-{ranks}")
            done = subprocess.run(
                [build.rollcall, "synth", "-o", directory, "--ranks", str(ranks), "--ops", str(ops),
                 "--layout", layout, "--fault", planted], text=True, capture_output=True,
                check=False)
            if done.returncode != 0:
                raise Unusable(f"rollcall synth could not write {directory}: {done.stderr}")
    return root


def compare_runs(builds, root):
    """How many runs below `root` were compared, and how many of these differ."""
    runs = runs_below(root)
    if not runs:
        raise Unusable(f"{root} holds no run")
    different = 0
    for run in runs:
        old, new = in_both(builds, lambda build: build.report_of_run(run))
        if old == new:
            continue
        different += 1
        name = os.path.relpath(run, root)
        if different == 1:
            show(name, old, new)
        else:
            print(f"also different: {name}")
    return len(runs), different


def compare(builds, arguments, scratch):
    """True where everything is the same."""
    last = arguments.first + arguments.seeds - 1
    parts = []
    if arguments.seeds > 0:
        parts.append(("random jobs", lambda: compare_seeds(builds, arguments.first, last, scratch)))
    parts.append(("samples", lambda: compare_runs(builds, copy_samples(scratch))))
    parts.append(("synthetic runs", lambda: compare_runs(builds, synthesise(builds[1], scratch))))
    for root in arguments.runs:
        parts.append((f"runs of {root}", lambda root=root: compare_runs(builds, root)))
    same = True
    for name, part in parts:
        count, different = part()
        print(f"{name}: {count} compared, {different} differ", flush=True)
        same = same and different == 0
    return same


# --- self-test ------------------------------------------------------------------------------------

FAKE_SIM_TEST = """#!/bin/sh
test -z "$ROLLCALL_SIM_DIGESTS" ||
  printf '1 aa none\\n2 {digest} count\\n' > "$ROLLCALL_SIM_DIGESTS"
test -z "$ROLLCALL_SIM_REPORTS" || echo 'report {digest}' > "$ROLLCALL_SIM_REPORTS"
exit 1
"""
FAKE_ROLLCALL = """#!/bin/sh
case "$1" in
  synth) test "$2" = -o && mkdir -p "$3" && : > "$3/a.ring" || printf 'none\\tx\\n' ;;
  diff) echo 'verdict {word}' ;;
esac
"""


def fake_build(folder, digest, word):
    for path, text in (("tests/sim/sim_test", FAKE_SIM_TEST.format(digest=digest)),
                       ("tools/rollcall", FAKE_ROLLCALL.format(word=word))):
        path = os.path.join(folder, path)
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return folder


def self_test():
    with tempfile.TemporaryDirectory() as scratch:
        builds = [fake_build(os.path.join(scratch, name), digest, word) for name, digest, word in
                  (("base", "bb", "yes"), ("digest", "cc", "yes"), ("word", "bb", "no"))]

        def status_of(*command):
            return subprocess.run([sys.executable, __file__, *command, "--seeds", "2"],
                                  text=True, capture_output=True, check=False)
        same = status_of(builds[0], builds[0])
        assert same.returncode == 0, same
        digest = status_of(builds[0], builds[1])
        assert digest.returncode == 1 and "-report bb\n+report cc\n" in digest.stdout, digest
        assert "random jobs: 2 compared, 1 differ" in digest.stdout, digest
        assert "synthetic runs: 3 compared, 0 differ" in digest.stdout, digest
        word = status_of(builds[0], builds[2])
        assert word.returncode == 1 and "-verdict yes\n+verdict no" in word.stdout, word
        assert "random jobs: 2 compared, 0 differ" in word.stdout, word
        nothing = status_of(builds[0], os.path.join(scratch, "nothing"))
        assert nothing.returncode == 2 and "build the targets" in nothing.stderr, nothing
    print("compare_verdicts: self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("old", nargs="?")
    parser.add_argument("new", nargs="?")
    parser.add_argument("--seeds", type=int, default=10_000, metavar="N")
    parser.add_argument("--first", type=int, default=1, metavar="N")
    parser.add_argument("--runs", action="append", default=[], metavar="DIR")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    if arguments.old is None or arguments.new is None:
        parser.error("name two build folders")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            builds = [Build(arguments.old), Build(arguments.new)]
            return 0 if compare(builds, arguments, scratch) else 1
    except Unusable as unusable:
        print(f"compare_verdicts: {unusable}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
