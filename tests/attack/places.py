#!/usr/bin/env python3
"""Runs in odd places: on another disk, behind a link, of another user, in a cage. The job is
unharmed, and what was recorded is complete."""
import errno
import json
import os
import subprocess
import sys
import tempfile

import arena
import job
import unharmed
from job import expect, expect_equal
from unharmed import Folder, emulator_environment, execute, rings_in

CALLS = 40
REMOVER = f"""
import ctypes, shutil, sys
sys.path.insert(0, {os.path.dirname(unharmed.__file__)!r})
import ctypes_client as client
nccl, cuda = client.Library("libnccl.so.2"), client.Library("libcudart.so.13")
for removes in (True, False):
    unique_id = client.UniqueId()
    nccl.call("ncclGetUniqueId", ctypes.byref(unique_id))
    print(client.train(nccl, cuda, unique_id, 0, 1, 10))
    if removes:
        shutil.rmtree(sys.argv[1])
"""


def same(path):
    return path


def rollcall(*words, place=same, **more):
    done = subprocess.run([place(job.ROLLCALL), *words], check=False, text=True,
                          capture_output=True, stdin=subprocess.DEVNULL,
                          env=job.clean_environment(), timeout=job.PATIENCE_S, **more)
    return done.returncode, done.stdout, done.stderr


def expect_complete(run_directory, calls=CALLS):
    """One process, which has made so many collectives, all of them on file."""
    status, out, errors = rollcall("info", run_directory, "--json")
    expect_equal(status, 0, f"status of info ({errors})")
    processes = json.loads(out)["processes"]
    expect_equal(len(processes), 1, "recorded processes")
    expect_equal((processes[0]["dropped"], processes[0]["lost"], processes[0]["torn"]), (0, 0, 0),
                 "calls dropped, lost, torn")
    status, out, errors = rollcall("dump", run_directory)
    expect_equal(status, 0, f"status of dump ({errors})")
    operations = [line["op"] for line in map(json.loads, out.splitlines())
             if line["type"] == "op"]
    expect_equal(operations.count("AllReduce"), calls, "AllReduces on file")


def run_job(run_directory, begin=(), calls=CALLS, place=same, **more):
    """One process on one GPU; returns its stderr. A ring in the local place goes with it: an
    orderly exit has copied all of it."""
    with tempfile.TemporaryDirectory(prefix="rollcall-attack-local-") as local:
        os.chmod(local, 0o777)  # also for jobs of another user
        environment = emulator_environment(
            LD_LIBRARY_PATH=place(job.EMULATOR), LD_PRELOAD=place(job.SHIM),
            ROLLCALL_DIR=run_directory, ROLLCALL_LOCAL_DIR=local, ROLLCALL_EMULATE_GPUS="1")
        status, out, errors = execute([*begin, place(job.DLOPEN_USER), str(calls)], environment,
                                      job.PATIENCE_S, **more)
    expect_equal((status, out), (0, f"1 GPUs, {calls} AllReduce of 1000 elements, 0 wrong\n"),
                 f"status and output ({errors})")
    return errors


def disk_of_a_file_system_in_user_space():
    with arena.SlowDisk() as disk:
        run_job(os.path.join(disk.path, "run"))
        expect_complete(os.path.join(disk.path, "run"))
        expect_complete(os.path.join(disk.folder, "run"))


def disk_that_fails_at_once():
    with arena.SlowDisk() as disk:
        disk.order(errors={"create": errno.EIO})
        errors = run_job(os.path.join(disk.path, "run"))
        expect_equal(rings_in(disk.folder), [], "ring files")
        expect_equal(len([line for line in errors.splitlines() if "rollcall" in line]), 1,
                     f"lines about it in {errors!r}")


def directory_behind_a_link():
    with Folder() as folder:
        os.mkdir(os.path.join(folder, "there"))
        link = os.path.join(folder, "run")
        os.symlink("there", link)
        run_job(link)
        expect_complete(link)
        expect_complete(os.path.join(folder, "there"))


def directory_that_goes_away():
    with Folder() as folder:
        run = os.path.join(folder, "run")
        environment = emulator_environment(LD_PRELOAD=job.SHIM, ROLLCALL_DIR=run)
        status, out, errors = execute([sys.executable, "-c", REMOVER, run], environment,
                                      job.PATIENCE_S)
        expect_equal((status, out), (0, "1.0\n1.0\n"), f"status and output ({errors})")
        expect(not os.path.exists(run), "the directory came back")
        status, _, errors = rollcall("info", run)
        expect_equal(status, 2, f"status of info ({errors})")
        expect(run in errors, f"it does not name the directory: {errors!r}")


def somebody_elses_job():
    nobody = arena.nobody()
    with arena.OpenBuild() as build:
        theirs, own = (os.path.join(build.folder, name) for name in ("theirs", "own"))
        os.mkdir(theirs)
        os.chown(theirs, nobody.pw_uid, nobody.pw_gid)
        run_job(theirs, place=build.place, preexec_fn=arena.as_nobody)
        expect_equal({os.stat(os.path.join(theirs, name)).st_uid for name in os.listdir(theirs)},
                     {nobody.pw_uid}, "owners of the files")
        expect_complete(theirs)
        # The other way round nothing is to be seen.
        run_job(own)
        status, out, errors = rollcall("info", own, place=build.place, preexec_fn=arena.as_nobody)
        expect_equal((status, out), (2, ""), f"status and output of info as nobody ({errors})")
        expect(own in errors, f"it does not name the directory: {errors!r}")


def job_in_a_user_namespace():
    begin = arena.in_user_namespace()
    with Folder() as folder:
        run_job(os.path.join(folder, "run"), begin)
        expect_complete(os.path.join(folder, "run"))


def job_with_little_memory():
    """Its history on disk is larger than what the job may have."""
    plain = 64 << 20
    with Folder() as folder, arena.MemoryLimit(plain) as memory:
        run = os.path.join(folder, "run")
        run_job(run, calls=4000, preexec_fn=memory.enter)
        expect_complete(run, 4000)
        expect_equal(memory.out_of_memory_kills(), 0, "kills for want of memory")


def history_in_memory():
    """Of a directory in memory the history is the job's own memory, and takes little of it."""
    limit, iterations = 64 << 20, 2_000_000
    arena.require(os.path.isdir("/dev/shm"), "no /dev/shm")
    with tempfile.TemporaryDirectory(prefix="rollcall-attack-", dir="/dev/shm") as folder, \
            arena.MemoryLimit(limit) as memory:
        run = os.path.join(folder, "run")
        environment = emulator_environment(LD_PRELOAD=job.SHIM, ROLLCALL_DIR=run,
                                           ROLLCALL_EMULATE_GPUS="1")
        status, _, errors = execute([job.COLLECTIVE_LOOP, str(iterations), "8"], environment,
                                    4 * job.PATIENCE_S, preexec_fn=memory.enter)
        expect_equal(status, 0, f"status ({errors})")
        expect_equal(memory.out_of_memory_kills(), 0, "kills for want of memory")
        history = sum(os.path.getsize(os.path.join(run, name)) for name in os.listdir(run)
                      if name.endswith(".segment"))
        expect(0 < history <= limit // 16, f"{history} bytes of history")
        status, out, errors = rollcall("info", run, "--json")
        expect_equal(status, 0, f"status of info ({errors})")
        process = json.loads(out)["processes"][0]
        expect(process["lost"] > 0, "no call was left out")
        expect_equal(process["on_file"] + process["lost"], process["recorded"],
                     "calls that are on file or counted")


def job_without_clone3():
    """As in a container whose filter is older than the call."""
    arena.require_filters()
    with Folder() as folder:
        run = os.path.join(folder, "run")
        run_job(run, preexec_fn=lambda: arena.refuse(["clone3"], errno.ENOSYS))
        expect_complete(run)


if __name__ == "__main__":
    sys.exit(arena.main([
        ("a job records on a file system in user space", disk_of_a_file_system_in_user_space),
        ("a disk on which no file can be made costs one warning", disk_that_fails_at_once),
        ("a run directory behind a symbolic link is recorded into", directory_behind_a_link),
        ("a job goes on when its run directory is removed", directory_that_goes_away),
        ("root reads what another user's job recorded, and not the other way round",
         somebody_elses_job),
        ("a job in a user namespace is recorded", job_in_a_user_namespace),
        ("a job in a small memory cgroup is recorded and not killed", job_with_little_memory),
        ("history in memory leaves a memory cgroup to its job, and what is left out is counted",
         history_in_memory),
        ("a job is recorded where a filter refuses clone3", job_without_clone3),
    ]))
