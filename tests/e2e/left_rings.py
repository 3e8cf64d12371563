#!/usr/bin/env python3
"""Rings that earlier runs left in the local place (ROLLCALL_LOCAL_DIR): which of them the next
`rollcall run` removes."""
import contextlib
import os
import shutil
import struct
import sys
import tempfile

import job
from job import Job, expect, expect_equal

NOTE = 2048  # core/format/ring_copy.h: is_copy, reserved, copied_ticks, live_path
LIVE_PATH_BYTES = 1024
# Of FileHeader (core/format/ring_layout.h): the run, and the time of day in each of three anchors.
RUN_ID_OFFSET = 288
REALTIME_OFFSETS = (304 + 16, 344 + 16, 376 + 16)


class LeftRing:
    """A ring as a job leaves it, killed: itself in `local`, and its copy in the run directory."""

    def __init__(self, stack):
        self.local = stack.enter_context(tempfile.TemporaryDirectory(prefix="rollcall-e2e-local-"))
        self.run = stack.enter_context(Job(2, [*job.shape_arguments(2), "--steps", "2"]))
        expect_equal(self.run.run(), 0, "the job whose ring is left")
        name = next(name for name in os.listdir(self.run.run_directory) if name.endswith(".ring"))
        self.copy = os.path.join(self.run.run_directory, name)
        with open(self.copy, "rb") as file:
            self.bytes = bytearray(file.read())
        self.run_id, = struct.unpack_from("<Q", self.bytes, RUN_ID_OFFSET)
        self.path = os.path.join(self.local, self.name_with(self.run_id))
        self.write(self.path, 0)
        self.write(self.copy, 1)

    def name_with(self, run_id):
        return f"rollcall.{os.geteuid()}.{run_id:016x}.{os.path.basename(self.copy)}"

    def write(self, path, is_copy):
        note = struct.pack("<IIQ", is_copy, 0, 1) + self.path.encode().ljust(LIVE_PATH_BYTES, b"\0")
        self.bytes[NOTE:NOTE + len(note)] = note
        with open(path, "wb") as file:
            file.write(self.bytes)
        os.chmod(path, 0o600)

    def grow_older(self, seconds):
        for offset in REALTIME_OFFSETS:
            realtime_ns, = struct.unpack_from("<Q", self.bytes, offset)
            struct.pack_into("<Q", self.bytes, offset, realtime_ns - int(seconds * 1e9))
        self.write(self.path, 0)

    def next_run(self):
        """Long enough for the thread that sweeps."""
        with Job(1, [], program=["sleep", "2"]) as run:
            run.environment["ROLLCALL_LOCAL_DIR"] = self.local
            run.run()

    def is_left(self):
        return os.path.lexists(self.path)


def with_ring(check):
    def run():
        with contextlib.ExitStack() as stack:
            check(LeftRing(stack))
    return run


def complete(ring):
    ring.next_run()
    expect(not ring.is_left(), "a ring whose copy is complete is removed")
    expect(os.path.exists(ring.copy), "its copy stays")


def incomplete(ring):
    with open(ring.copy, "r+b") as file:
        file.seek(-4096, os.SEEK_END)
        file.write(b"\x01")
    ring.next_run()
    expect(ring.is_left(), "a ring that holds more than its copy stays")


def without_directory(ring):
    shutil.rmtree(ring.run.run_directory)
    ring.next_run()
    expect(ring.is_left(), "a ring whose run directory is gone for less than an hour stays")


def long_without_directory(ring):
    ring.grow_older(3600)
    shutil.rmtree(ring.run.run_directory)
    ring.next_run()
    expect(not ring.is_left(), "a ring over for an hour goes where its run directory is gone")


def old_with_directory(ring):
    ring.grow_older(3600)
    os.remove(ring.copy)
    ring.next_run()
    expect(ring.is_left(), "an old ring without a copy stays while its run directory is there")


def of_another_name(ring):
    other = os.path.join(ring.local, ring.name_with(ring.run_id ^ 1))
    os.rename(ring.path, other)
    link = ring.path
    os.symlink(other, link)
    ring.next_run()
    expect(os.path.lexists(other), "a file that is not named after its process stays")
    expect(os.path.lexists(link), "a link stays")


if __name__ == "__main__":
    sys.exit(job.main([
        ("a ring whose copy is complete is removed by the next run", with_ring(complete)),
        ("a ring that holds more than its copy stays", with_ring(incomplete)),
        ("a ring whose run directory has just gone stays", with_ring(without_directory)),
        ("a ring whose run directory is gone is removed after an hour",
         with_ring(long_without_directory)),
        ("an old ring stays while its run directory is there", with_ring(old_with_directory)),
        ("a link, and a file under another name, stay", with_ring(of_another_name)),
    ]))
