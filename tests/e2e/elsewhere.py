#!/usr/bin/env python3
"""A run directory on a file system of FUSE that is slow, hangs, or answers with an error: the job
runs as without Rollcall, and the verdict is right. Skipped where there is no FUSE."""
import os
import signal
import subprocess
import sys
import tempfile
import time

import job
from job import Job, expect, expect_equal

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
# The module of python3-fusepy belongs to the system's own interpreter.
SYSTEM_PYTHON = "/usr/bin/python3"


def fuse_is_here():
    asked = subprocess.run([SYSTEM_PYTHON, "-c", "import fusepy"], stderr=subprocess.DEVNULL)
    return asked.returncode == 0 and os.access("/dev/fuse", os.W_OK)


class Server:
    """A mounted file system, what is behind it, and a word that says how it answers."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="rollcall-fuse-")
        self.mount, self.backing, self.control, self.local = (
            os.path.join(self.folder.name, name)
            for name in ("mount", "backing", "control", "local"))
        for path in (self.mount, self.backing, self.local):
            os.mkdir(path)
        self.answer("")
        self.program = subprocess.Popen(
            [SYSTEM_PYTHON, os.path.join(HERE, "slow_files.py"), self.mount, self.backing,
             self.control], preexec_fn=job.die_with_parent)
        self.wait_until(lambda: os.path.ismount(self.mount), "the mount")
        return self

    def __exit__(self, *_):
        self.answer("")
        subprocess.run(["fusermount3", "-u", "-z", self.mount], check=False)
        self.program.kill()
        self.program.wait()
        self.folder.cleanup()

    def answer(self, words):
        with open(self.control + ".new", "w", encoding="ascii") as file:
            file.write(words)
        os.rename(self.control + ".new", self.control)

    def settings(self):
        return {"ROLLCALL_LOCAL_DIR": self.local}

    def rings(self):
        return [name for name in os.listdir(self.local) if name.endswith(".ring")]

    @staticmethod
    def wait_until(condition, what):
        until = time.monotonic() + job.PATIENCE_S
        while not condition():
            expect(time.monotonic() < until, f"waited for {what} in vain")
            time.sleep(0.02)


def job_on(server, ranks, arguments):
    """Its files lie on the server, and what it says of itself beside the other tests' jobs."""
    run = Job(ranks, arguments, environment=server.settings())
    run.run_directory = os.path.join(server.mount, "run")
    run.command[run.command.index("-d") + 1] = run.run_directory
    return run


def code_of(report):
    return report["findings"][0]["code"]


def faults_are_found_on_a_slow_server():
    for kind, code in (("count", "RC-COUNT-MISMATCH"), ("missing-call", "RC-MISSING-CALL"),
                       ("comm-order", "RC-DEADLOCK-COMMS")):
        with Server() as server, job_on(server, 4, [*job.shape_arguments(4), "--steps", "3",
                                                    "--fault", f"{kind}@1:1"]) as run:
            server.answer("delay 0.002")
            run.start()
            expect(not run.wait_for_end_or_hang(), f"{kind}: the job does not hang")
            expect_equal(len(server.rings()), 4, f"{kind}: rings in the local directory")
            expect_equal(code_of(run.diff("--stalled-after", "1")), code, f"{kind}: while it hangs")
            run.kill()
            expect_equal(code_of(run.diff()), code, f"{kind}: after SIGKILL")
            expect_equal(server.rings(), [], f"{kind}: rings that were not brought home")
            report = run.diff()
            expect_equal(code_of(report), code, f"{kind}: at home")


def by_hand(server, arguments):
    """mini_train alone, without `rollcall run`, whose own look at the directory would be slow."""
    environment = job.clean_environment({
        **server.settings(), "ROLLCALL_DIR": os.path.join(server.mount, "run"),
        "LD_PRELOAD": job.SHIM, "LD_LIBRARY_PATH": job.EMULATOR, "RANK": "0", "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(job.free_port())})
    return subprocess.Popen([job.MINI_TRAIN, "--dp", "1", "--tp", "1", "--pp", "1", *arguments],
                            stdout=subprocess.DEVNULL, env=environment,
                            preexec_fn=job.die_with_parent)


def nothing_of_the_server_is_mapped():
    with Server() as server, job_on(server, 1, ["--dp", "1", "--tp", "1", "--pp", "1", "--steps",
                                                "100000000"]) as run:
        run.start()
        server.wait_until(server.rings, "a ring in the local directory")
        server.wait_until(lambda: os.path.isdir(run.run_directory) and any(
            name.endswith(".ring") for name in os.listdir(run.run_directory)), "the copy")
        server.wait_until(run.pids, "the first line of the log")
        with open(f"/proc/{run.pids()[0]}/maps", encoding="utf-8") as file:
            maps = file.read()
        expect(server.local in maps, "the ring is not mapped")
        expect(server.mount not in maps, f"a file of the server is mapped:\n{maps}")
        # Whatever it answers now, the job goes on.
        server.answer("fail read write open getattr")
        size = run.log_bytes()
        server.wait_until(lambda: run.log_bytes() > size, "the next step of the job")
        server.answer("")


def a_server_that_takes_long_does_not_hold_the_job():
    for delay in ("0.001", "0.05"):
        with Server() as server:
            server.answer(f"delay {delay}")
            process = by_hand(server, ["--steps", "3"])
            try:
                expect_equal(process.wait(job.PATIENCE_S), 0, f"status with a delay of {delay} s")
            finally:
                process.kill()
                process.wait()


def sigterm_ends_a_job_whose_server_takes_long():
    """A request that the server has taken is waited for in the kernel, whatever the signal."""
    with Server() as server:
        server.answer("delay 1")
        process = by_hand(server, ["--steps", "100000000"])
        try:
            server.wait_until(server.rings, "a ring in the local directory")
            process.send_signal(signal.SIGTERM)
            expect_equal(process.wait(job.PATIENCE_S), -signal.SIGTERM, "the end of the job")
        finally:
            server.answer("")
            process.kill()
            process.wait()


if __name__ == "__main__":
    if not fuse_is_here():
        print("skipped: needs /dev/fuse, fusermount3 and python3-fusepy")
        sys.exit(SKIPPED)
    sys.exit(job.main([
        ("faults are found on a slow server, while the job hangs and after it was killed",
         faults_are_found_on_a_slow_server),
        ("nothing of the server is mapped, and its errors do not reach the job",
         nothing_of_the_server_is_mapped),
        ("a server that takes long does not hold the job",
         a_server_that_takes_long_does_not_hold_the_job),
        ("SIGTERM ends a job whose server takes long", sigterm_ends_a_job_whose_server_takes_long),
    ]))
