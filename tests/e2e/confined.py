#!/usr/bin/env python3
"""A program that confines itself, or whose ring file somebody else writes over, does with Rollcall
what it does without."""
import os
import random
import shutil
import subprocess
import sys
import tempfile

import job
from job import clean_environment, expect, expect_equal

PROGRAM = os.path.join(job.BUILD, "tests", "e2e", "confined")
CANNOT = 77


class Run:
    """The program in a mode, in a shell with what stands in front of it."""

    def __init__(self, mode, before="", preloads=True, **variables):
        self.folder = tempfile.mkdtemp(prefix="rollcall-e2e-")
        os.chmod(self.folder, 0o777)  # the program may become another user
        self.directory = os.path.join(self.folder, "run")
        self.environment = clean_environment(variables)
        if preloads:
            self.environment |= {"ROLLCALL_DIR": self.directory, "ROLLCALL_MAX_HISTORY": "1m"}
            before += f' export LD_PRELOAD="{job.SHIM}";'
        self.command = ["bash", "-c", f'{before} exec "{PROGRAM}" {mode}']

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        shutil.rmtree(self.folder, ignore_errors=True)

    def finish(self):
        done = subprocess.run(self.command, env=self.environment, capture_output=True, text=True,
                              timeout=120, check=False, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    def start(self):
        return subprocess.Popen(self.command, env=self.environment, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def info(self):
        return subprocess.run([job.ROLLCALL, "info", self.directory], capture_output=True,
                              text=True, check=False, timeout=60).stdout

    def rings(self):
        if not os.path.isdir(self.directory):
            return []
        return [os.path.join(self.directory, name) for name in os.listdir(self.directory)
                if name.endswith(".ring")]


def same_as_without(mode, before="", **variables):
    """What the recorder left, of a program that did what it does without; None where this machine
    does not let it confine itself."""
    with Run(mode, before, preloads=False) as plain:
        expected = plain.finish()
    if expected[0] == CANNOT:
        print(f"  (this machine does not let a program do that: {mode})")
        return None
    expect_equal(expected[0], 0, f"status of {mode} without Rollcall: {expected}")
    with Run(mode, before, **variables) as run:
        seen = run.finish()
        expect_equal(seen[:2], expected[:2], f"status and output of {mode} ({seen[2]})")
        expect_equal(len(run.rings()), 1, f"ring files of {mode}")
        with open(run.rings()[0], "rb") as ring:
            expect_equal(ring.read(8), b"ROLLCALL", f"what the ring file of {mode} begins with")
        return run.info()


def first_call_with_little_stack():
    same_as_without("little-stack")
    same_as_without("little-stack", ROLLCALL_VERBOSE="2", ROLLCALL_CHROME_TRACE="1")


def errno_is_kept():
    same_as_without("errno")


def standard_output_closed_and_few_descriptors():
    for limit in (64, 16, 1024):
        for closed in (">&-", "<&- >&-", ">&- 2>&-"):
            same_as_without("plain", f"ulimit -n {limit}; exec {closed};")


def memory_can_be_locked():
    same_as_without("locked-memory")


def tsc_is_forbidden():
    info = same_as_without("no-tsc")
    if info is not None:
        expect("monotonic" in info.lower(), f"the clock's name in {info}")


def filter_of_system_calls():
    for mode in ("filter-kills", "filter-refuses"):
        for _ in range(5):
            if same_as_without(mode) is None:
                break


VALUES = (b"\x00", b"\xff", b"\xee")
HEADER = 4096
END_OF_TABLES = 64 << 10


def scribbled_from_outside():
    chance = random.Random(25)
    for variables in ({}, {"ROLLCALL_HISTORY": "0"}, {"ROLLCALL_CHROME_TRACE": "1"}):
        for value in (*VALUES, None):
            with Run("at-command", **variables) as run:
                process = run.start()
                expect_equal(process.stdout.read(1), b".", "the first calls")
                with open(run.rings()[0], "r+b") as ring:
                    size = os.fstat(ring.fileno()).st_size
                    areas = [(at, 64) for at in range(0, 1024, 64)] + [(0, HEADER),
                             (HEADER, END_OF_TABLES), (0, size)]
                    for start, length in areas:
                        length = min(length, size - start)
                        data = chance.randbytes(length) if value is None else value * length
                        ring.seek(start)
                        ring.write(data)
                        ring.flush()
                        process.stdin.write(b"x")
                        process.stdin.flush()
                        expect_equal(process.stdout.read(1), b".",
                                     f"calls behind {data[:8]!r} at {start} ({variables})")
                out, errors = process.communicate(timeout=120)
                calls = 2000 * (len(areas) + 1)
                expect_equal((process.returncode, out),
                             (0, f"at-command: {calls} calls\n".encode()), f"the end ({errors})")


if __name__ == "__main__":
    sys.exit(job.main([
        ("a first call in a thread with 16 KiB of stack works", first_call_with_little_stack),
        ("calls that succeed leave errno alone", errno_is_kept),
        ("where the job has closed its standard output, none of our files is there",
         standard_output_closed_and_few_descriptors),
        ("a small program locks its memory under the usual limit", memory_can_be_locked),
        ("where reading the TSC is forbidden, the clock is another", tsc_is_forbidden),
        ("a filter of system calls behind the first call ends nothing that it allows",
         filter_of_system_calls),
        ("whatever is written into the ring file, the job runs on", scribbled_from_outside),
    ]))
