#!/usr/bin/env python3
"""The arena does what it promises: or an attack that nothing survives would pass."""
import errno
import os
import subprocess
import sys
import time

import arena
import job
from job import expect, expect_equal

HOG = "block = bytearray(int(__import__('sys').argv[1])); print(len(block))"


def python(code, *arguments, **more):
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], check=False,
                          capture_output=True, text=True, timeout=60, **more)
    return done.returncode, done.stdout, done.stderr


def error_of(function):
    try:
        function()
    except OSError as error:
        return error.errno
    return 0


def slow_disk_passes_through():
    with arena.SlowDisk() as disk:
        path, below = (os.path.join(where, "file") for where in (disk.path, disk.folder))
        with open(path, "wb") as file:
            file.write(b"x" * 10000)
        with open(below, "rb") as file:
            expect_equal(file.read(), b"x" * 10000, "what is below")
        os.rename(path, path + "2")
        expect_equal(os.listdir(disk.folder), ["file2"], "names below")
    expect(not os.path.exists(disk.base), "its folder is left")


def slow_disk_obeys():
    with arena.SlowDisk() as disk:
        path = os.path.join(disk.path, "file")
        disk.order(errors={"create": errno.ENOSPC})
        expect_equal(error_of(lambda: os.mknod(path)), errno.ENOSPC, "error of a new file")
        disk.order()
        with open(path, "wb") as file:
            disk.order(errors={"write": errno.EIO})
            expect_equal(error_of(lambda: os.pwrite(file.fileno(), b"x", 0)), errno.EIO,
                         "error of a write")
            disk.order(delay_s=0.3)
            start = time.monotonic()
            os.pwrite(file.fileno(), b"x", 0)
            expect(time.monotonic() - start >= 0.3, "the write was not late")
            disk.order()


def memory_limit_kills():
    with arena.MemoryLimit(32 << 20) as memory:
        expect_equal(python(HOG, 1 << 20, preexec_fn=memory.enter)[:2], (0, f"{1 << 20}\n"),
                     "a small program")
        expect_equal(memory.out_of_memory_kills(), 0, "kills")
        expect_equal(python(HOG, 64 << 20, preexec_fn=memory.enter)[0], -9, "a large one's status")
        expect_equal(memory.out_of_memory_kills(), 1, "kills")
        memory.reclaim()
    expect(not os.path.exists(memory.path), "its folder is left")


def nobody_is_somebody_else():
    user = arena.nobody()
    groups = f"{user.pw_gid}\n"
    for words, expected in (("-u", f"{user.pw_uid}\n"), ("-G", groups)):
        done = subprocess.run(["id", words], check=False, capture_output=True, text=True,
                              preexec_fn=arena.as_nobody)
        expect_equal((done.returncode, done.stdout), (0, expected), f"id {words}")
    with arena.OpenBuild() as build:
        done = subprocess.run([build.place(job.ROLLCALL), "--version"], check=False,
                              capture_output=True, text=True, preexec_fn=arena.as_nobody)
        expect_equal(done.returncode, 0, f"status of the command ({done.stderr})")
    expect(not os.path.exists(build.base), "its folder is left")
    expect(os.path.exists(job.ROLLCALL), "the build is gone")


def refused_calls_fail():
    arena.require_filters()
    code = "import os\ntry: os.posix_fallocate(os.memfd_create('a'), 0, 1)\nexcept OSError as e: " \
        "print(e.errno)"
    expect_equal(python(code)[:2], (0, ""), "without a filter")
    status, out, errors = python(code,
                                 preexec_fn=lambda: arena.refuse(["fallocate"], errno.ENODEV))
    expect_equal((status, out), (0, f"{errno.ENODEV}\n"), f"with one ({errors})")


def what_is_absent_is_skipped():
    def wants():
        arena.require(False, "no such thing")

    expect_equal(arena.main([("", wants)]), arena.SKIPPED, "status where all is skipped")
    expect_equal(arena.main([("", wants), ("", lambda: None)]), 0, "status where one is")


if __name__ == "__main__":
    sys.argv = sys.argv[:1]
    sys.exit(arena.main([
        ("a slow disk shows the files of the folder below it", slow_disk_passes_through),
        ("a slow disk is as late as ordered, and fails as ordered", slow_disk_obeys),
        ("a memory limit kills what wants more, and nothing else", memory_limit_kills),
        ("a program started as nobody is nobody's", nobody_is_somebody_else),
        ("a call that a filter refuses fails with the error ordered", refused_calls_fail),
        ("a test that requires what is absent is skipped", what_is_absent_is_skipped),
    ]))
