#!/usr/bin/env python3
"""A run directory on a file system that is slow, or answers with an error: the job runs as without
Rollcall, and the verdict is right."""
import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
import time

import arena
import job
from arena import wait_until
from job import Job, expect, expect_equal


class Server:
    """A slow disk for the run directory, and a folder for the rings themselves."""

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.disk = stack.enter_context(arena.SlowDisk())
            self.local = stack.enter_context(tempfile.TemporaryDirectory(prefix="rollcall-attack-"))
            self.run_directory = os.path.join(self.disk.path, "run")
            self.order = self.disk.order
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self.stack.__exit__(*exception)

    def stop(self):
        """Whoever waits for it gets an error."""
        self.disk.server.kill()

    def settings(self):
        return {"ROLLCALL_LOCAL_DIR": self.local}

    def rings(self):
        return [name for name in os.listdir(self.local) if name.endswith(".ring")]

    def has_copies(self):
        below = os.path.join(self.disk.folder, "run")
        return os.path.isdir(below) and any(name.endswith(".ring") for name in os.listdir(below))


def job_on(server, ranks, arguments):
    """Its files lie on the server, and what it says of itself beside the other tests' jobs."""
    run = Job(ranks, arguments, environment=server.settings())
    run.run_directory = server.run_directory
    run.command[run.command.index("-d") + 1] = run.run_directory
    return run


def code_of(report):
    return report["findings"][0]["code"]


def faults_are_found_on_a_slow_server():
    for kind, code in (("count", "RC-COUNT-MISMATCH"), ("missing-call", "RC-MISSING-CALL"),
                       ("comm-order", "RC-DEADLOCK-COMMS")):
        with Server() as server, job_on(server, 4, [*job.shape_arguments(4), "--steps", "3",
                                                    "--fault", f"{kind}@1:1"]) as run:
            server.order(delay_s=0.002)
            run.start()
            expect(not run.wait_for_end_or_hang(), f"{kind}: the job does not hang")
            expect_equal(len(server.rings()), 4, f"{kind}: rings in the local directory")
            expect_equal(code_of(run.diff("--stalled-after", "1")), code, f"{kind}: while it hangs")
            run.kill()
            # To bring four rings home takes thousands of requests.
            server.order()
            expect_equal(code_of(run.diff()), code, f"{kind}: after SIGKILL")
            expect_equal(server.rings(), [], f"{kind}: rings that were not brought home")
            report = run.diff()
            expect_equal(code_of(report), code, f"{kind}: at home")


def by_hand(server, arguments, enter=lambda: None):
    """mini_train alone, without `rollcall run`, whose own look at the directory would be slow."""
    environment = job.clean_environment({
        **server.settings(), "ROLLCALL_DIR": server.run_directory,
        "LD_PRELOAD": job.SHIM, "LD_LIBRARY_PATH": job.EMULATOR, "RANK": "0", "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(job.free_port())})
    def begin():
        job.die_with_parent()
        enter()

    return subprocess.Popen([job.MINI_TRAIN, "--dp", "1", "--tp", "1", "--pp", "1", *arguments],
                            stdout=subprocess.DEVNULL, env=environment, preexec_fn=begin)


def nothing_of_the_server_is_mapped():
    with Server() as server, job_on(server, 1, ["--dp", "1", "--tp", "1", "--pp", "1", "--steps",
                                                "100000000"]) as run:
        run.start()
        wait_until(server.rings, "a ring in the local directory")
        wait_until(server.has_copies, "the copy")
        wait_until(run.pids, "the first line of the log")
        with open(f"/proc/{run.pids()[0]}/maps", encoding="utf-8") as file:
            maps = file.read()
        expect(server.local in maps, "the ring is not mapped")
        expect(server.disk.path not in maps, f"a file of the server is mapped:\n{maps}")
        # Whatever it answers now, the job goes on.
        server.order(errors={name: errno.EIO for name in ("read", "write", "open", "getattr")})
        size = run.log_bytes()
        wait_until(lambda: run.log_bytes() > size, "the next step of the job")
        server.order()


def pages_that_cannot_be_read_again_end_no_job():
    with Server() as server, arena.MemoryLimit(256 << 20) as memory:
        process = by_hand(server, ["--steps", "100000000"], enter=memory.enter)
        try:
            wait_until(server.has_copies, "the copy")
            server.order(errors={"read": errno.EIO})
            for _ in range(5):
                memory.reclaim()
            server.order(errors={"any": errno.EIO})
            memory.reclaim()
            process.send_signal(signal.SIGTERM)
            expect_equal(process.wait(job.PATIENCE_S), -signal.SIGTERM, "the end of the job")
        finally:
            server.order()
            process.kill()
            process.wait()


def a_server_that_takes_long_does_not_hold_the_job():
    for delay_s in (0.001, 0.05):
        with Server() as server:
            server.order(delay_s=delay_s)
            process = by_hand(server, ["--steps", "3"])
            try:
                expect_equal(process.wait(job.PATIENCE_S), 0, f"status with a delay of {delay_s} s")
            finally:
                process.kill()
                process.wait()


def sigterm_ends_a_job_whose_server_takes_long():
    """A request that the server has taken is waited for in the kernel, whatever the signal."""
    with Server() as server:
        server.order(delay_s=1)
        process = by_hand(server, ["--steps", "100000000"])
        try:
            wait_until(server.rings, "a ring in the local directory")
            process.send_signal(signal.SIGTERM)
            expect_equal(process.wait(job.PATIENCE_S), -signal.SIGTERM, "the end of the job")
        finally:
            server.order()
            process.kill()
            process.wait()


def a_server_that_does_not_answer_does_not_keep_the_job_from_its_start():
    """`rollcall run` asks it for the run directory, from the same terminal and with the same pipes
    as the job."""
    with Server() as server:
        server.order(delay_s=10_000)
        begun_s = time.monotonic()
        done = subprocess.run(
            [job.ROLLCALL, "run", "-d", server.run_directory, "--", "sh", "-c", "echo up; exit 3"],
            check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env=job.clean_environment(server.settings()), timeout=job.PATIENCE_S)
        expect_equal((done.returncode, done.stdout), (3, "up\n"), f"job's end ({done.stderr})")
        expect(f"{server.run_directory} could not be made: its file system has not answered for "
               "10.0 s" in done.stderr, f"it is not said: {done.stderr!r}")
        expect(time.monotonic() - begun_s >= 10, "the server was not asked")


def what_a_server_makes_too_late_is_removed():
    with Server() as server:
        server.order(delay_s=4)
        # mkdir alone takes two requests.
        done = subprocess.run(
            [job.ROLLCALL, "run", "-d", server.run_directory, "--", "true"], check=False,
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env=job.clean_environment(server.settings()), timeout=job.PATIENCE_S)
        expect_equal(done.returncode, 0, f"status ({done.stderr})")
        expect("not recorded" in done.stderr, f"it is not said: {done.stderr!r}")
        below = os.path.join(server.disk.folder, "run")
        wait_until(lambda: os.path.isdir(below), "the directory that comes too late")
        server.order()
        wait_until(lambda: not os.path.isdir(below), "its removal")


def a_directory_that_was_there_stays():
    with Server() as server:
        os.mkdir(server.run_directory)
        server.order(delay_s=4)
        done = subprocess.run(
            [job.ROLLCALL, "run", "-d", server.run_directory, "--", "true"], check=False,
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
            env=job.clean_environment(server.settings()), timeout=job.PATIENCE_S)
        expect("not recorded" in done.stderr, f"it is not said: {done.stderr!r}")
        server.order()
        asked = "-d " + server.run_directory
        wait_until(lambda: asked not in command_lines(), "the end of the process that asked")
        expect(os.path.isdir(os.path.join(server.disk.folder, "run")), "it was removed")


def command_lines():
    return subprocess.run(["ps", "-eo", "args"], check=True, capture_output=True, text=True).stdout


def is_kept_by_the_server(pid):
    """In the kernel, until a file system in user space answers."""
    with open(f"/proc/{pid}/wchan", encoding="utf-8") as file:
        return "request_wait_answer" in file.read()


def a_signal_reaches_the_job_while_the_server_does_not_answer():
    """`rollcall run` looks at the run directory now and then, and is kept by it."""
    with Server() as server:
        asked = os.path.join(server.local, "asked")
        script = f"trap 'echo asked > {asked}; exit 7' TERM; echo up; while :; do sleep 0.1; done"
        process = subprocess.Popen(
            [job.ROLLCALL, "run", "-d", server.run_directory, "--watch", "2", "--", "sh", "-c",
             script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=job.clean_environment(server.settings()), start_new_session=True,
            preexec_fn=job.die_with_parent)
        try:
            expect_equal(process.stdout.readline(), "up\n", "the job's first line")
            server.order(delay_s=10_000)
            wait_until(lambda: is_kept_by_the_server(process.pid), "a look at the run directory")
            process.send_signal(signal.SIGTERM)
            wait_until(lambda: os.path.exists(asked), "the signal in the job")
            expect_equal(process.poll(), None, "the end of rollcall run")
            server.stop()
            errors = process.communicate(timeout=job.PATIENCE_S)[1]
            expect_equal(process.returncode, 7, f"the job's status ({errors})")
        finally:
            process.kill()


if __name__ == "__main__":
    sys.exit(arena.main([
        ("faults are found on a slow server, while the job hangs and after it was killed",
         faults_are_found_on_a_slow_server),
        ("nothing of the server is mapped, and its errors do not reach the job",
         nothing_of_the_server_is_mapped),
        ("pages that the server does not give back end no job",
         pages_that_cannot_be_read_again_end_no_job),
        ("a server that takes long does not hold the job",
         a_server_that_takes_long_does_not_hold_the_job),
        ("SIGTERM ends a job whose server takes long", sigterm_ends_a_job_whose_server_takes_long),
        ("a server that does not answer does not keep the job from its start",
         a_server_that_does_not_answer_does_not_keep_the_job_from_its_start),
        ("a directory that was there stays, although the server was late",
         a_directory_that_was_there_stays),
        ("a signal reaches the job while the server does not answer",
         a_signal_reaches_the_job_while_the_server_does_not_answer),
        ("what a server makes too late is removed", what_a_server_makes_too_late_is_removed),
    ]))
