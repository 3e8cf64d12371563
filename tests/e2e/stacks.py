#!/usr/bin/env python3
"""`rollcall stacks`: where the threads of all ranks stand, without rights and without the GIL."""
import glob
import json
import os
import re
import signal
import struct
import subprocess
import sys

import job
import left_rings
import stacks_client
from job import Job, expect, expect_equal
from launchers import read_interpreters

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stacks_client.py")
# All that run answer at once; on a busy machine before the command's own end is waited for.
TIMEOUT = ("--timeout", str(job.PATIENCE_S - 30))


def frames_in(run, rank):
    """Of each thread of Python the frames as FILE:LINE FUNCTION, by the recorder of that rank."""
    path, = [path for path in glob.glob(os.path.join(run.run_directory, "*.stacks"))
             if f".{run.pid_of[rank]}." in path]
    stacks, facts = [], {}
    with open(path, encoding="utf-8") as file:
        for line in file.read().splitlines():
            key, _, value = line.partition(" ")
            if key == "python_thread":
                stacks.append([])
            elif key == "frame":
                stacks[-1].append(value)
            facts.setdefault(key, []).append(value)
    return sorted(stacks), facts


def frames_by_the_interpreter(run, rank):
    """The same by faulthandler, which runs in a handler of a signal."""
    path = os.path.join(run.folder, str(rank))
    os.kill(run.pid_of[rank], signal.SIGUSR1)

    def text():
        with open(path, encoding="utf-8") as file:
            return file.read()
    # The current thread comes last.
    run.wait_until(lambda: "in <module>" in text(), "the frames of the interpreter")
    stacks = []
    for line in text().splitlines():
        found = re.match(r'  File "(.*)", line (\d+) in (.*)', line)
        if found:
            stacks[-1].append(f"{found[1]}:{found[2]} {found[3]}")
        elif re.match(r"(Current thread|Thread) 0x", line):
            stacks.append([])
    return sorted(stack for stack in stacks if stack)


class Standing(Job):
    """Four ranks that stand still, of which the last is stopped."""

    def __init__(self, python, **arguments):
        super().__init__(4, program=[python, SCRIPT], **arguments)
        self.command += [self.folder]
        self.pid_of = {}

    def start(self):
        super().start()
        for rank in range(4):
            ready = os.path.join(self.folder, f"{rank}.ready")
            self.wait_until(lambda path=ready: os.path.exists(path), f"rank {rank}")
        for line in self.info():
            self.pid_of[line["rank"]] = line["pid"]

    def info(self):
        shown = subprocess.run([job.ROLLCALL, "top", self.run_directory, "--json"], text=True,
                               capture_output=True, check=True).stdout
        return json.loads(shown)["ranks"]

    def stop(self, rank):
        """A signal is on its way for a while: until all threads have it."""
        pid = self.pid_of[rank]
        os.kill(pid, signal.SIGSTOP)

        def is_stopped():
            states = []
            for path in glob.glob(f"/proc/{pid}/task/*/stat"):
                try:
                    with open(path, encoding="utf-8", errors="replace") as file:
                        states.append(file.read().rpartition(") ")[2][:1])
                except OSError:
                    return False
            return set(states) == {"T"}
        self.wait_until(is_stopped, f"the stop of rank {rank}")

    def stacks_once_all_stand(self):
        """Ranks tell that they are ready in front of what they stand in."""
        texts = []

        def all_stand():
            texts.append(self.stacks())
            standing = ["".join(line for stack in frames_in(self, rank)[0] for line in stack[:1])
                        for rank in range(3)]
            return ("sleep_for_ever" in standing[0] and "hold_the_gil" in standing[1] and
                    standing[2].count("sleep_for_ever") == stacks_client.THREADS + 1)
        self.wait_until(all_stand, "that all stand where they are to")
        return texts[-1]

    def stacks(self, *options):
        shown = self.rollcall("stacks", self.run_directory, *TIMEOUT, *options)
        expect_equal(shown.returncode, 0, f"status ({shown.stderr})")
        return shown.stdout


def expect_stacks_by(python):
    with Standing(python) as run:
        run.start()
        run.stop(3)
        text = run.stacks_once_all_stand()
        for rank in (0, 1, 2):
            seen, facts = frames_in(run, rank)
            expect_equal(facts["source"], ["recorder"], f"who wrote it, of rank {rank}")
            expect_equal(facts["end"], ["1"], f"its end, of rank {rank}")
            expect_equal(len(facts.get("holds_gil", [])), 1 if rank == 1 else 0,
                         f"holders of the GIL in rank {rank}, by {python}")
            if rank != 2:  # faulthandler tells of a hundred threads at most
                expect_equal(seen, frames_by_the_interpreter(run, rank),
                             f"the frames of rank {rank}, by {python}")
        expect("holds the GIL" in text, text)
        expect("Of rank 3 the recorder did not answer" in text, text)
        expect(", stopped   [rank 3" in text, text)
        _, facts = frames_in(run, 3)
        expect_equal((facts["source"], "frame" in facts), (["outside"], False), "of rank 3")
        os.kill(run.pid_of[3], signal.SIGCONT)
        tree = json.loads(run.stacks("--json"))
        expect_equal((tree["schema"], tree["ranks"], tree["outside"], tree["without"]),
                     ("rollcall.stacks/1", "0-3", "", []), "after SIGCONT")
        hold = place_of(tree["frames"], "hold_the_gil")
        expect_equal((hold["ranks"], hold["absent"]), ("1", "0,2-3"), "who holds the GIL")
        expect_equal(place_of(tree["frames"], "<module>")["absent"], "",
                     "whom the script lacks")
        os.kill(run.pid_of[0], signal.SIGKILL)
        run.wait_until(lambda: not job.process_is_there(run.pid_of[0]), "the end of rank 0")
        expect("Not there: rank 0 (ended)." in run.stacks(), "a rank that is gone")
        run.kill()


def place_of(frames, function):
    for one in frames:
        found = one if one["frame"].endswith(" " + function) else place_of(one["frames"], function)
        if found:
            return found
    return None


def stacks_are_those_of_the_interpreter():
    pythons = read_interpreters()
    for python in pythons:
        expect_stacks_by(python)
    return None if pythons else "the frames of this Python are not read"


def a_filter_that_refuses_to_read_memory_changes_nothing():
    pythons = read_interpreters()
    if not pythons:
        return "the frames of this Python are not read"
    if not stacks_client.can_refuse_reads_of_memory():
        return "no filter of system calls is allowed here, or none is known for this processor"
    with Standing(pythons[0]) as run:
        run.command += ["confined"]
        run.start()
        run.stacks_once_all_stand()
        expect_equal(frames_in(run, 0)[0], frames_by_the_interpreter(run, 0), "the frames")
        expect("python_unread" not in frames_in(run, 0)[1], "frames that were not read")
        run.kill()
    return None


def a_program_without_python_tells_of_its_threads():
    with Job(2, ["--dp", "2", "--steps", "3", "--fault", "host-stuck@1:1"]) as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        shown = run.rollcall("stacks", run.run_directory, *TIMEOUT).stdout
        expect("Threads without frames of Python:" in shown and "mini_train" in shown, shown)
        expect("did not answer" not in shown and "Python, " not in shown, shown)
        run.kill()


def of_another_host(path, to):
    """A ring's copy, as one of another host lies in a run directory."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        boot_id = file.read().strip()
    with open(path, "rb") as file:
        data = bytearray(file.read())
    expect_equal(data[:left_rings.NOTE].count(boot_id), 1, "places of the boot's number")
    at = data.index(boot_id)
    data[at:at + len(boot_id)] = b"0" * len(boot_id)
    struct.pack_into("<I", data, left_rings.NOTE, 1)
    with open(to, "wb") as file:
        file.write(data)
    return data


def copies_of_rings_on_another_host_are_not_written_to():
    with Job(2, ["--dp", "2", "--steps", "3", "--fault", "host-stuck@1:1"]) as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        copies = os.path.join(run.folder, "copies")
        os.mkdir(copies)
        written = {}
        for path in glob.glob(os.path.join(run.run_directory, "*.ring")):
            to = os.path.join(copies, os.path.basename(path))
            written[to] = of_another_host(path, to)
        shown = run.rollcall("stacks", copies, *TIMEOUT).stdout
        expect_equal(len(written), 2, "rings")
        expect("Not there: ranks 0-1 (on another host" in shown, shown)
        for path, data in written.items():
            with open(path, "rb") as file:
                expect(file.read() == data, f"{path} was written to")
        run.kill()


def a_directory_without_a_run_is_refused():
    with Job(1) as run:
        empty = os.path.join(run.folder, "empty")
        os.mkdir(empty)
        for path in (empty, os.path.join(run.folder, "nowhere")):
            shown = run.rollcall("stacks", path)
            expect_equal(shown.returncode, 2, f"status of {path}")
            expect(path in shown.stderr, shown.stderr)


if __name__ == "__main__":
    sys.exit(job.main([
        ("stacks are those that the interpreter tells, and ranks that are stopped or gone are "
         "named", stacks_are_those_of_the_interpreter),
        ("a filter that refuses to read memory changes nothing",
         a_filter_that_refuses_to_read_memory_changes_nothing),
        ("a program without Python tells what its threads wait for",
         a_program_without_python_tells_of_its_threads),
        ("copies of rings on another host are not written to, and nobody waits for their processes",
         copies_of_rings_on_another_host_are_not_written_to),
        ("a directory without a run is refused", a_directory_without_a_run_is_refused),
    ]))
