#!/usr/bin/env python3
"""The job is unharmed: it prints, computes and returns the same with and without Rollcall, whatever
goes wrong inside Rollcall."""
import ctypes
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile

import job
from job import Job, clean_environment, expect, expect_equal

GUEST = os.path.join(job.BUILD, "tests", "e2e", "guest")
TRAINING = ["--steps", "2", "--bucket-elements", "128"]


def emulator_environment(**extra):
    """Runs a program on the stand-ins without `rollcall run`: they are found like real ones."""
    return clean_environment({"LD_LIBRARY_PATH": job.EMULATOR, "ROLLCALL_EMULATE_GPUS": "4"}
                             | extra)


def execute(command, environment, timeout_s=job.PATIENCE_S, **more):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=environment, timeout=timeout_s, check=False, **more)
    except subprocess.TimeoutExpired:
        return "hangs", "", ""
    return done.returncode, done.stdout, done.stderr


class Folder:
    """A folder for the recorder's files."""

    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="rollcall-e2e-")

    def __enter__(self):
        return self.path

    def __exit__(self, *exception):
        shutil.rmtree(self.path, ignore_errors=True)


def rings_in(folder):
    return [name for _, _, names in os.walk(folder) for name in names if name.endswith(".ring")]


def expect_unharmed(command, *, recorded=True, shim=None, told=str, **more):
    """Runs a single process with and without the shim; returns the folder's ring files and the
    shim's stderr. `told`: of its output, what must not differ from run to run."""
    plain = execute(command, emulator_environment())
    expect(plain[0] != "hangs", f"{' '.join(command)} hangs without Rollcall")
    with Folder() as folder:
        variables = {"LD_PRELOAD": job.SHIM, "ROLLCALL_DIR": os.path.join(folder, "run")}
        variables.update(shim or {})
        shimmed = execute(command, emulator_environment(**variables), **more)
        expect_equal((shimmed[0], told(shimmed[1])), (plain[0], told(plain[1])),
                     f"status and stdout of {' '.join(command)} (stderr: {shimmed[2]})")
        rings = rings_in(folder)
        if recorded:
            expect(rings, f"{' '.join(command)}: nothing was recorded (stderr: {shimmed[2]})")
        return rings, shimmed[2]


# --- every example ------------------------------------------------------------------------------


def train_without_rollcall(ranks, arguments):
    """The same ranks, started by hand."""
    environment = emulator_environment(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                                       MASTER_PORT=str(job.free_port()),
                                       ROLLCALL_EMULATE_GPUS=str(ranks))
    started = [subprocess.Popen([job.MINI_TRAIN, *arguments], text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, preexec_fn=job.die_with_parent,
                                env=environment | {"RANK": str(rank), "LOCAL_RANK": str(rank)})
               for rank in range(ranks)]
    lines = []
    for process in started:
        out, err = process.communicate(timeout=job.PATIENCE_S)
        expect_equal(process.returncode, 0, f"status of a rank without Rollcall ({err})")
        lines += out.splitlines()
    return sorted(lines)


def training_is_the_same():
    arguments = [*TRAINING, *job.shape_arguments(4)]
    plain = train_without_rollcall(4, arguments)
    expect_equal(len(plain), 2 + 4, f"lines of a job of 4 ranks and 2 steps ({plain})")
    with Job(4, arguments, program=[job.MINI_TRAIN]) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        expect_equal(run.results(), plain, "what the job printed")
        expect_equal(len(rings_in(run.run_directory)), 4, "recorded processes")


def exit_status_passes_through():
    for arguments, status in ((["--steps", "x"], 2), (["--fault", "exit@0:0"], 3)):
        with Job(2 if status == 3 else 1, arguments, options=[]) as run:
            run.start()
            if status == 3:
                run.wait_until(lambda: run.planted_fault(0), "the planted fault")
                for rank, pid in run.pids().items():
                    if rank != 0:
                        os.kill(pid, signal.SIGKILL)
            expect_equal(run.wait(), status, f"status ({run.describe()})")


def dlopen_user_is_the_same():
    rings, _ = expect_unharmed([job.DLOPEN_USER])
    expect_equal(len(rings), 1, "ring files of one process")


def collective_loop_is_the_same():
    """Three of the four numbers of a line are times."""
    def sizes(output):
        lines = [line.split() for line in output.splitlines()]
        expect(all(len(line) == 4 and min(map(int, line)) >= 0 for line in lines),
               f"lines of four numbers: {output!r}")
        return [line[0] for line in lines]

    command = [job.COLLECTIVE_LOOP, "3", "8", "65536", "100"]
    rings, _ = expect_unharmed(command, told=sizes)
    expect_equal(len(rings), 1, "ring files of one process")
    plain = execute(command, emulator_environment())
    expect_equal((plain[0], sizes(plain[1])), (0, ["8", "65536", "100"]), "status and sizes")
    # Refused before any call: nothing to record, and the same words.
    wrong = [job.COLLECTIVE_LOOP, "none"]
    rings, errors = expect_unharmed(wrong, recorded=False)
    plain = execute(wrong, emulator_environment())
    expect_equal((plain[0], plain[2], rings), (2, errors, []), "status, stderr, ring files")


# --- a hostile environment ------------------------------------------------------------------------


def expect_one_warning(stderr):
    lines = [line for line in stderr.splitlines() if "rollcall" in line.lower()]
    expect_equal(len(lines), 1, f"lines of warning ({stderr!r})")


def unwritable_directory():
    # Root may write everywhere but into /proc.
    rings, stderr = expect_unharmed([job.DLOPEN_USER], recorded=False,
                                    shim={"ROLLCALL_DIR": "/proc/rollcall-cannot-write-here"})
    expect_equal(rings, [], "ring files")
    expect_one_warning(stderr)
    expect("/proc/rollcall-cannot-write-here" in stderr, f"the warning names no file: {stderr!r}")


def directory_is_a_file():
    with tempfile.NamedTemporaryFile(prefix="rollcall-e2e-") as file:
        _, stderr = expect_unharmed([job.DLOPEN_USER], recorded=False,
                                    shim={"ROLLCALL_DIR": file.name})
        expect_one_warning(stderr)


def full_disk():
    if os.geteuid() != 0:
        return "only root can mount a small file system"
    with Folder() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            return "a tmpfs cannot be mounted here"
        try:
            _, stderr = expect_unharmed([job.DLOPEN_USER], recorded=False,
                                        shim={"ROLLCALL_DIR": folder})
            expect_one_warning(stderr)
        finally:
            subprocess.run(["umount", folder], check=True)
    return None


def disk_fills_up_later():
    """The ring, of 2,420 KiB, leaves half of it to the job; the history does not."""
    if os.geteuid() != 0:
        return "only root can mount a small file system"
    with Folder() as folder:
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4844k", "none", folder],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            return "a tmpfs cannot be mounted here"
        try:
            shim = {"ROLLCALL_DIR": folder, "ROLLCALL_RING_SLOTS": "64"}
            expect_unharmed([job.DLOPEN_USER, "3000"], recorded=False, shim=shim)
            expect_equal(len(rings_in(folder)), 1, "ring files")
            segments = [name for name in os.listdir(folder) if name.endswith(".segment")]
            expect(all(os.path.getsize(os.path.join(folder, name)) < 4096 for name in segments),
                   "history was written although the job needs the room")
        finally:
            subprocess.run(["umount", folder], check=True)
    return None


def limited_file_size():
    # Above what the emulated memory needs, below a ring of 128 MiB.
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 20, 64 << 20))

    _, stderr = expect_unharmed([job.DLOPEN_USER], recorded=False, preexec_fn=limit,
                                shim={"ROLLCALL_RING_SLOTS": "1048576"})
    expect_one_warning(stderr)


def limited_files():
    """As few descriptors as the program needs, and the two a recorder holds at most; it would like
    more, for a moment each, and has to do without."""
    def limited_to(count):
        return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))

    command = [job.DLOPEN_USER]
    enough = 64
    while execute(command, emulator_environment(), 5, preexec_fn=limited_to(enough - 1))[0] == 0:
        enough -= 1
    for count in range(enough + 2, enough + 6):
        expect_unharmed(command, recorded=False, preexec_fn=limited_to(count))


def nonsense_variables():
    nonsense = [
        {"ROLLCALL_RING_SLOTS": "many"}, {"ROLLCALL_RING_SLOTS": "-1"},
        {"ROLLCALL_RING_SLOTS": "99999999999999999999"}, {"ROLLCALL_MAX_HISTORY": "12q"},
        {"ROLLCALL_HISTORY": "perhaps"}, {"ROLLCALL_GPU_TIMING": "sundial"},
        {"ROLLCALL_VERBOSE": "\x01\xff"}, {"ROLLCALL_NO_SUCH_VARIABLE": "1"},
        {"ROLLCALL_RUN_ID": "x" * 5000}, {"ROLLCALL_ENABLE": ""}, {"ROLLCALL_CHROME_TRACE": "2"},
    ]
    for variables in nonsense:
        expect_unharmed([job.DLOPEN_USER], shim=variables)


def long_directory():
    expect_unharmed([job.DLOPEN_USER], recorded=False,
                    shim={"ROLLCALL_DIR": "/tmp/" + "x/" * 3000})


def switched_off():
    rings, stderr = expect_unharmed([job.DLOPEN_USER], recorded=False,
                                    shim={"ROLLCALL_ENABLE": "0"})
    expect_equal(rings, [], "ring files")
    expect_equal(stderr, "", "stderr")


# --- a process that lives dangerously ------------------------------------------------------------


def guest(habit):
    return lambda: expect_unharmed([GUEST, habit]) and None


def forked_child_has_its_own_file():
    rings, _ = expect_unharmed([GUEST, "fork-first"])
    expect_equal(len(rings), 2, f"ring files of parent and child ({rings})")


def child_without_gpu_leaves_no_file():
    rings, _ = expect_unharmed([GUEST, "fork"])
    expect_equal(len(rings), 1, f"ring files of a parent with idle children ({rings})")


def thread_called(pid, name):
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="utf-8") as file:
            if file.read().strip() == name:
                return int(thread)
    return None


def break_thread(thread):
    """The thread goes on at address 0, as after a call through a broken pointer. False where one
    process may not do that to another."""
    seize, interrupt, poke_user, detach = 0x4206, 0x4207, 6, 17
    system_call, instruction = 15 * 8, 16 * 8  # in x86-64's struct user
    wait_for_threads = 0x40000000
    ptrace = job.LIBC.ptrace
    ptrace.restype = ctypes.c_long
    ptrace.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p]
    if ptrace(seize, thread, None, None) != 0:
        return False
    ptrace(interrupt, thread, None, None)
    os.waitpid(thread, wait_for_threads)
    ptrace(poke_user, thread, system_call, ctypes.c_void_p(-1))  # it is in none to start again
    ptrace(poke_user, thread, instruction, None)
    ptrace(detach, thread, None, None)
    return True


def leading_finding(run):
    finding = run.diff("--stalled-after", "1")["findings"][0]
    return finding["code"], [culprit["rank"] for culprit in finding["culprits"]]


def flusher_that_dies():
    """In a rank that the others wait for: its own code does nothing at all."""
    if platform.machine() != "x86_64":
        return "it is written for x86-64"
    with Job(2, ["--dp", "2", "--steps", "3", "--fault", "host-stuck@1:1"]) as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        run.wait_until(lambda: leading_finding(run) == ("RC-MISSING-CALL", [1]),
                       "the verdict on a rank that is alive")
        pid = run.pids()[1]
        if not break_thread(thread_called(pid, "rollcall")):
            return "one process may not trace another here"
        run.wait_until(lambda: not job.process_is_there(pid), "the end of the rank")
        expect(job.process_is_there(run.pids()[0]), "rank 0 goes on waiting")
        # Its threads end one after the other, and with the last of them the lock on its file.
        run.wait_until(lambda: leading_finding(run) == ("RC-RANK-DEAD", [1]),
                       "the verdict on what it left")
    return None


if __name__ == "__main__":
    sys.exit(job.main([
        ("mini_train prints and computes the same", training_is_the_same),
        ("the exit status passes through", exit_status_passes_through),
        ("dlopen_user, which also calls dlclose, is the same", dlopen_user_is_the_same),
        ("collective_loop is the same, but for the times it measures",
         collective_loop_is_the_same),
        ("a directory that cannot be written costs one warning", unwritable_directory),
        ("a directory that is a file costs one warning", directory_is_a_file),
        ("a full disk costs one warning", full_disk),
        ("a disk that fills up later is survived", disk_fills_up_later),
        ("a limit of file size costs one warning", limited_file_size),
        ("a limit of descriptors is survived", limited_files),
        ("nonsense in ROLLCALL_ variables is survived", nonsense_variables),
        ("a directory name of 6,000 bytes is survived", long_directory),
        ("ROLLCALL_ENABLE=0 records nothing and says nothing", switched_off),
        ("a forked child that uses NCCL has a file of its own", forked_child_has_its_own_file),
        ("a forked child that never uses NCCL leaves no file", child_without_gpu_leaves_no_file),
        ("threads with a communicator in common are unharmed", guest("threads")),
        ("exit in the middle of calls is unharmed", guest("exit")),
        ("_exit in the middle of calls is unharmed", guest("_exit")),
        ("abort in the middle of calls is unharmed", guest("abort")),
        ("a fatal signal in the middle of calls is unharmed", guest("signal")),
        ("NCCL calls in exit handlers are unharmed", guest("atexit")),
        ("a flusher that dies takes its rank along, and the rank is found dead", flusher_that_dies),
    ]))
