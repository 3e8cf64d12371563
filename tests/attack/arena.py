"""Where Rollcall is attacked: slow and failing disks, little memory, other users, sandboxes.

An attack is a test of this folder, `attack.NAME` in ctest, written like one of tests/e2e: pairs of
a sentence and a function, at the end `sys.exit(arena.main([...]))`. What a machine may lack is
required (`arena.require`), and a test that requires what is absent is skipped and says so.

    with arena.SlowDisk() as disk:                     a folder on a file system of our own
        disk.order(delay_s=0.005, errors={"read": errno.EIO})
    with arena.MemoryLimit(100 << 20) as memory:       a memory cgroup
        execute(command, environment, preexec_fn=memory.enter)
    with arena.OpenBuild() as build:                   what nobody may start
        execute([build.place(job.ROLLCALL)], environment, preexec_fn=arena.as_nobody)
    execute([*arena.in_user_namespace(), *command], environment)
    execute(command, environment, preexec_fn=lambda: arena.refuse(["mlock"], errno.EPERM))

Everything that is mounted here is mounted in a namespace of the test alone, so that nothing of it
is left even where the test is killed.
"""
import ctypes
import errno
import json
import os
import platform
import pwd
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import job
from job import LIBC, SKIPPED, Failure, die_with_parent

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 1 << 12, 1 << 14, 1 << 18
MNT_DETACH = 2
# The interpreter that Debian's python3-fusepy belongs to; another one may come first on the PATH.
SYSTEM_PYTHON = "/usr/bin/python3"
CGROUP_ROOT = "/sys/fs/cgroup"


class Skip(Exception):
    """What this machine does not have."""


def require(condition, what_is_absent):
    if not condition:
        raise Skip(what_is_absent)


def require_root():
    require(os.geteuid() == 0, "only root can")


def main(tests):
    """Like job.main. A function that raises Skip is skipped."""
    def skipping(function):
        def run():
            try:
                return function()
            except Skip as skip:
                return str(skip)
        return run

    return job.main([(sentence, skipping(function)) for sentence, function in tests])


def wait_until(condition, what, timeout_s=job.PATIENCE_S):
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"{what} did not happen within {timeout_s} s")
        time.sleep(0.02)


# --- disks ----------------------------------------------------------------------------------------


def enter_own_mount_namespace():
    """Once per test program. What is mounted from here on is seen by it and its children alone."""
    require_root()
    if enter_own_mount_namespace.entered:
        return
    require(LIBC.unshare(CLONE_NEWNS) == 0, "a mount namespace is not allowed here")
    require(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) == 0,
            "mounts cannot be made private here")
    enter_own_mount_namespace.entered = True


enter_own_mount_namespace.entered = False


def is_mounted(path):
    with open("/proc/self/mounts", encoding="utf-8") as file:
        return any(line.split()[1] == path for line in file)


class SlowDisk:
    """`path` is a folder on the file system of slow_files.py; `folder` is the one below it, where
    the same files are seen directly."""

    def __init__(self):
        require(os.path.exists("/dev/fuse"), "no /dev/fuse")
        known = subprocess.run([SYSTEM_PYTHON, "-c", "import importlib.util as util; raise "
                                "SystemExit(not any(map(util.find_spec, ('fusepy', 'fuse'))))"],
                               check=False, capture_output=True)
        require(known.returncode == 0, f"{SYSTEM_PYTHON} has no fusepy (python3-fusepy)")
        enter_own_mount_namespace()
        self.base = tempfile.mkdtemp(prefix="rollcall-attack-")
        self.folder, self.path = (os.path.join(self.base, name) for name in ("below", "disk"))
        self.control = os.path.join(self.base, "control")
        self.log = os.path.join(self.base, "log")
        self.server = None

    def __enter__(self):
        os.mkdir(self.folder)
        os.mkdir(self.path)
        self.order()
        with open(self.log, "wb") as log:
            self.server = subprocess.Popen(
                [SYSTEM_PYTHON, os.path.join(HERE, "slow_files.py"), self.folder, self.path,
                 self.control], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=job.clean_environment({"PYTHONDONTWRITEBYTECODE": "1"}),
                preexec_fn=die_with_parent)
        try:
            wait_until(lambda: is_mounted(self.path) or self.server.poll() is not None, "the mount")
            with open(self.log, encoding="utf-8", errors="replace") as log:
                require(self.server.poll() is None, f"no FUSE here: {log.read().strip()[-200:]}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        # Its end answers whoever waits for it.
        self.server.kill()
        self.server.wait()
        LIBC.umount2(self.path.encode(), MNT_DETACH)
        shutil.rmtree(self.base, ignore_errors=True)

    def order(self, delay_s=0.0, errors=None):
        """From the next request on. `errors`: name of a request, or "any" -> errno."""
        new = self.control + ".new"
        with open(new, "w", encoding="utf-8") as file:
            json.dump({"delay_s": delay_s, "errors": errors or {}}, file)
        os.rename(new, self.control)


class SmallDisk:
    """`path` is a tmpfs of so many bytes."""

    def __init__(self, size_bytes):
        enter_own_mount_namespace()
        self.size_bytes = size_bytes
        self.path = tempfile.mkdtemp(prefix="rollcall-attack-")

    def __enter__(self):
        if LIBC.mount(b"none", self.path.encode(), b"tmpfs", 0,
                      f"size={self.size_bytes}".encode()) != 0:
            os.rmdir(self.path)
            raise Skip("a tmpfs cannot be mounted here")
        return self

    def __exit__(self, *exception):
        LIBC.umount2(self.path.encode(), MNT_DETACH)
        shutil.rmtree(self.path, ignore_errors=True)


# --- memory ---------------------------------------------------------------------------------------


class MemoryLimit:
    """A memory cgroup of so many bytes, of version 1 or 2, whichever is mounted."""

    def __init__(self, limit_bytes):
        require_root()
        version_1 = os.path.join(CGROUP_ROOT, "memory")
        self.is_version_1 = os.path.exists(os.path.join(version_1, "memory.limit_in_bytes"))
        root = version_1 if self.is_version_1 else CGROUP_ROOT
        require(os.path.exists(os.path.join(root, "cgroup.procs")), "no memory cgroup is mounted")
        self.path = os.path.join(root, f"rollcall-attack-{os.getpid()}-{id(self):x}")
        self.limit_bytes = limit_bytes

    def __enter__(self):
        try:
            if not self.is_version_1:
                self._write("cgroup.subtree_control", "+memory", folder=CGROUP_ROOT)
            os.mkdir(self.path)
        except OSError as error:
            raise Skip(f"no memory cgroup can be made here ({error.strerror})") from None
        try:
            self._write("memory.limit_in_bytes" if self.is_version_1 else "memory.max",
                        self.limit_bytes)
            # Without swap, or a limit is none.
            self._write_if_there("memory.memsw.limit_in_bytes", self.limit_bytes)
            self._write_if_there("memory.swap.max", 0)
        except OSError as error:
            self.__exit__()
            raise Skip(f"a memory cgroup takes no limit here ({error.strerror})") from None
        return self

    def __exit__(self, *exception):
        for pid in self._read("cgroup.procs").split():
            os.kill(int(pid), signal.SIGKILL)
        wait_until(self._is_removed, "the end of a memory cgroup")

    def _is_removed(self):
        try:
            os.rmdir(self.path)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            return False
        return True

    def _read(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8") as file:
            return file.read()

    def _write(self, name, value, folder=None):
        with open(os.path.join(folder or self.path, name), "w", encoding="utf-8") as file:
            file.write(str(value))

    def _write_if_there(self, name, value):
        if os.path.exists(os.path.join(self.path, name)):
            self._write(name, value)

    def enter(self):
        """In the child, before its program."""
        self._write("cgroup.procs", os.getpid())

    def reclaim(self):
        """Takes from its processes all pages that can be read again, those of files above all."""
        try:
            if self.is_version_1:
                self._write("memory.force_empty", 1)
            else:
                self._write("memory.reclaim", self.limit_bytes)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EBUSY):
                raise

    def out_of_memory_kills(self):
        name = "memory.oom_control" if self.is_version_1 else "memory.events"
        for line in self._read(name).splitlines():
            key, _, value = line.partition(" ")
            if key == "oom_kill":
                return int(value)
        raise Skip("this kernel does not count what it kills for want of memory")


# --- users and namespaces -----------------------------------------------------------------------


def nobody():
    """Who owns what somebody else's job leaves: pwd's entry."""
    require_root()
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise Skip("there is no user nobody") from None


class OpenBuild:
    """The build folder where everybody may go, for it may be in a folder that only root sees.
    `place(job.ROLLCALL)` is that program there; `folder` is one to write into."""

    def __init__(self):
        nobody()
        enter_own_mount_namespace()
        self.base = tempfile.mkdtemp(prefix="rollcall-attack-")
        self.build, self.folder = (os.path.join(self.base, name) for name in ("build", "folder"))

    def __enter__(self):
        os.chmod(self.base, 0o755)
        os.mkdir(self.build)
        os.mkdir(self.folder, 0o755)
        if LIBC.mount(job.BUILD.encode(), self.build.encode(), None, MS_BIND, None) != 0:
            shutil.rmtree(self.base)
            raise Skip("a folder cannot be shown in another place here")
        return self

    def __exit__(self, *exception):
        # Never remove what is mounted: it is the build itself.
        if LIBC.umount2(self.build.encode(), MNT_DETACH) != 0:
            raise Failure(f"{self.build} cannot be unmounted")
        shutil.rmtree(self.base, ignore_errors=True)

    def place(self, path):
        return os.path.join(self.build, os.path.relpath(path, job.BUILD))


def as_nobody():
    """In the child, before its program; the parent has asked `nobody()` whether that goes."""
    user = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)


def in_user_namespace():
    """What a command line begins with to run in user and mount namespaces of its own, as their root
    and nobody outside."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "--"]
    try:
        done = subprocess.run([*command, "true"], check=False, capture_output=True, text=True)
    except FileNotFoundError:
        raise Skip("there is no unshare (util-linux)") from None
    require(done.returncode == 0, f"no user namespace here: {done.stderr.strip()}")
    return command


# --- sandboxes ------------------------------------------------------------------------------------

# By architecture: its number in a filter, that of seccomp(2), and of the calls that tests name.
SYSTEM_CALLS = {
    "x86_64": (0xC000003E, 317, {
        "read": 0, "write": 1, "open": 2, "mmap": 9, "fcntl": 72, "ftruncate": 77, "mkdir": 83,
        "clone": 56, "fallocate": 285, "openat": 257, "rseq": 334, "clone3": 435, "mlock": 149}),
    "aarch64": (0xC00000B7, 277, {
        "read": 63, "write": 64, "mmap": 222, "fcntl": 25, "ftruncate": 46, "mkdirat": 34,
        "clone": 220, "fallocate": 47, "openat": 56, "rseq": 293, "clone3": 435, "mlock": 228}),
}
PR_SET_NO_NEW_PRIVS = 38
SECCOMP_SET_MODE_FILTER = 1
FILTER_ALL_THREADS = 1
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06


def filter_program(listed, action_of_listed, action_of_others):
    """Instructions of the kernel's filter machine. `listed`: names or numbers of system calls."""
    machine = platform.machine()
    require(machine in SYSTEM_CALLS, f"no filter is written for {machine}")
    architecture, _, numbers = SYSTEM_CALLS[machine]
    wanted = [call if isinstance(call, int) else numbers[call] for call in listed
              if isinstance(call, int) or call in numbers]
    number_offset, architecture_offset = 0, 4
    program = [(LOAD_WORD, 0, 0, architecture_offset), (JUMP_IF_EQUAL, 1, 0, architecture),
               (RETURN, 0, 0, ALLOW), (LOAD_WORD, 0, 0, number_offset)]
    for number in wanted:
        program += [(JUMP_IF_EQUAL, 0, 1, number), (RETURN, 0, 0, action_of_listed)]
    return [*program, (RETURN, 0, 0, action_of_others)]


def install_filter(program, all_threads=False):
    """For this process from here on, and for what it becomes and starts."""
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    argument = Program(len(program), ctypes.addressof(buffer))
    if LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError("no_new_privs was refused")
    call = SYSTEM_CALLS[platform.machine()][1]
    flags = FILTER_ALL_THREADS if all_threads else 0
    if LIBC.syscall(call, SECCOMP_SET_MODE_FILTER, flags, ctypes.byref(argument)) != 0:
        raise OSError("a filter of system calls was refused")


def refuse(calls, error, all_threads=False):
    """In the child, before its program: these calls fail with `error`."""
    install_filter(filter_program(calls, ERRNO | error, ALLOW), all_threads)


def require_filters():
    """In the parent, before it starts a child that wants one."""
    require(platform.machine() in SYSTEM_CALLS, f"no filter is written for {platform.machine()}")
    with open("/proc/self/status", encoding="utf-8") as file:
        require("\nSeccomp:" in file.read(), "this kernel filters no system calls")
