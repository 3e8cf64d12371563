#!/usr/bin/env python3
"""Configuration files instead of variables: NCCL's names the plugin, Rollcall's say where the
record goes. What lies in a file's place does a job no harm."""
import ctypes
import os
import subprocess
import sys

import job
from job import expect, expect_equal
from unharmed import Folder, emulator_environment, execute, rings_in

CALLS = 20
CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


def write(path, *lines):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(line + "\n" for line in lines))
    os.chmod(path, 0o644)
    return path


def run_job(environment, preload=(), **more):
    """One process that makes calls; returns its stderr."""
    environment = emulator_environment(ROLLCALL_EMULATE_GPUS="1", LD_PRELOAD=":".join(preload),
                                       **environment)
    status, out, errors = execute([job.DLOPEN_USER, str(CALLS)], environment, **more)
    expect_equal((status, out), (0, f"1 GPUs, {CALLS} AllReduce of 1000 elements, 0 wrong\n"),
                 f"status and output ({errors})")
    return errors


def rollcall(*words, **environment):
    return subprocess.run([job.ROLLCALL, *words], text=True, capture_output=True, check=False,
                          stdin=subprocess.DEVNULL, env=job.clean_environment(environment),
                          timeout=job.PATIENCE_S).stdout


def the_record_goes_where_a_file_says():
    with Folder() as folder:
        path = write(os.path.join(folder, "rollcall.conf"), "# of this test",
                     "ROLLCALL_DIR=${WHERE}/runs/${NUMBER:-none}", "ROLLCALL_RING_SLOTS=128")
        where = {"XDG_CONFIG_HOME": folder, "WHERE": folder}
        expect_equal(run_job(where, [job.SHIM]), "", "stderr")
        run = os.path.join(folder, "runs", "none")
        expect_equal(len(rings_in(run)), 1, "recorded processes")
        listed = rollcall("config", **where)
        expect(f"{run} (from {path}; default rollcall-runs)" in listed, listed)
        of_run = rollcall("doctor", run)
        expect(f"ROLLCALL_DIR={run} ({path}), ROLLCALL_RING_SLOTS=128 ({path})" in of_run, of_run)
        before = rollcall("doctor", "--", job.DLOPEN_USER, **where)
        expect(f"{path} sets ROLLCALL_DIR={run}, ROLLCALL_RING_SLOTS=128" in before, before)


def the_environment_has_the_last_word():
    with Folder() as folder:
        write(os.path.join(folder, "rollcall.conf"), f"ROLLCALL_DIR={folder}/file",
              "ROLLCALL_ENABLE=0")
        where = {"XDG_CONFIG_HOME": folder, "ROLLCALL_DIR": f"{folder}/variable"}
        run_job(where, [job.SHIM])
        expect(not os.path.exists(f"{folder}/variable"), "recorded, though a file switches it off")
        run_job({**where, "ROLLCALL_ENABLE": "1"}, [job.SHIM])
        expect_equal(len(rings_in(f"{folder}/variable")), 1, "recorded processes")
        expect(not os.path.exists(f"{folder}/file"), "recorded where the file says")


def a_run_gets_a_folder_below_the_one_of_a_file():
    with Folder() as folder:
        write(os.path.join(folder, "rollcall.conf"), f"ROLLCALL_DIR={folder}/runs")
        status, _, errors = execute(
            [job.ROLLCALL, "run", "-q", "--emulate=1", "--", job.DLOPEN_USER, str(CALLS)],
            job.clean_environment({"XDG_CONFIG_HOME": folder}), cwd=folder)
        expect_equal(status, 0, f"status ({errors})")
        runs = os.listdir(os.path.join(folder, "runs"))
        expect(len(runs) == 1 and runs[0].endswith("-dlopen_user"), f"the runs are {runs}")
        expect(not os.path.exists(os.path.join(folder, "rollcall-runs")), "a second folder")


def the_file_of_nccl_loads_the_plugin():
    """No variable of Rollcall's, and nothing preloaded."""
    with Folder() as folder:
        nccl = write(os.path.join(folder, "nccl.conf"), "# for every job",
                     f"NCCL_PROFILER_PLUGIN={os.path.abspath(job.PLUGIN)}")
        write(os.path.join(folder, "rollcall.conf"), f"ROLLCALL_DIR={folder}/run")
        run_job({"XDG_CONFIG_HOME": folder, "NCCL_CONF_FILE": nccl})
        expect_equal(len(rings_in(f"{folder}/run")), 1, "recorded processes")
        described = rollcall("doctor", f"{folder}/run")
        expect("NCCL's profiler interface alone tells of calls" in described, described)


def etc_is_read_last():
    """In a child with a file system of its own."""
    child = os.fork()
    if child == 0:
        os._exit(etc_in_own_namespace())
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == job.SKIPPED:
        return "a mount namespace is not allowed here"
    expect_equal(status, 0, "status of the child, which says above what it saw")
    return None


def etc_in_own_namespace():
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0 or \
            libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
        return job.SKIPPED
    with Folder() as folder:
        etc, own = os.path.join(folder, "etc"), os.path.join(folder, "own")
        write(os.path.join(etc, "nccl.conf"), f"NCCL_PROFILER_PLUGIN={os.path.abspath(job.PLUGIN)}")
        write(os.path.join(etc, "rollcall.conf"), f"ROLLCALL_DIR={folder}/system",
              "ROLLCALL_RING_SLOTS=256")
        if libc.mount(etc.encode(), b"/etc", None, 4096, None) != 0:  # MS_BIND
            return job.SKIPPED
        by_home = {"HOME": own, "XDG_CONFIG_HOME": ""}
        try:
            run_job(by_home)
            expect_equal(len(rings_in(f"{folder}/system")), 1, "processes by the system's file")
            write(os.path.join(own, ".config", "rollcall.conf"), f"ROLLCALL_DIR={folder}/user")
            run_job(by_home)
            expect_equal(len(rings_in(f"{folder}/user")), 1, "processes by the user's file")
            listed = rollcall("doctor", f"{folder}/user")
            expect("ROLLCALL_RING_SLOTS=256 (/etc/rollcall.conf)" in listed, listed)
        except job.Failure as failure:
            print(failure, file=sys.stderr, flush=True)
            return 1
        finally:
            libc.umount2(b"/etc", 2)
    return 0


def what_lies_in_its_place_does_no_harm():
    with Folder() as folder:
        path = os.path.join(folder, "rollcall.conf")

        def said_of(sentence):
            errors = run_job({"XDG_CONFIG_HOME": folder, "ROLLCALL_DIR": f"{folder}/run"},
                             [job.SHIM])
            expect_equal(errors.count("\n"), 1, f"lines on stderr ({errors})")
            expect(errors.startswith(f"rollcall: {path}") and sentence in errors, errors)
            os.unlink(path)

        os.mkfifo(path)
        said_of("this is no file; the file is not used")
        os.symlink("/dev/zero", path)
        said_of("this is no file; the file is not used")
        write(path, "ROLLCALL_ENABLE=0")
        os.chmod(path, 0o666)
        said_of("others than its owner may write to it")
        write(path, "#" * 70_000)
        said_of("it is larger than 64 KiB")
        write(path, "\0\x01", "LD_PRELOAD=/x.so", "nonsense")
        said_of("line 1: there is a character in it that is no text; the line is not used (2 more")
        expect_equal(len(rings_in(f"{folder}/run")), 5, "recorded processes")


def main():
    return job.main([
        ("the record goes where a configuration file says, and the command tells which",
         the_record_goes_where_a_file_says),
        ("the environment has the last word", the_environment_has_the_last_word),
        ("`rollcall run` makes a run's folder below the one of a file",
         a_run_gets_a_folder_below_the_one_of_a_file),
        ("NCCL's own configuration file loads the plugin, without any variable",
         the_file_of_nccl_loads_the_plugin),
        ("/etc is read behind the user's files, NCCL's and Rollcall's", etc_is_read_last),
        ("what lies in a file's place costs one line and does no harm",
         what_lies_in_its_place_does_no_harm),
    ])


if __name__ == "__main__":
    sys.exit(main())
