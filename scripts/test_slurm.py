#!/usr/bin/env python3
"""Runs jobs under a Slurm of its own, of one node on this machine, and looks what is recorded.

  scripts/test_slurm.py BUILD      BUILD: a build folder, of which it takes command, library,
                                   emulator and examples

The SPANK plugin is built against the Slurm of this machine. Daemons, sockets and files are this
test's own, in a temporary folder, and gone when it ends. Exit status 77 where Slurm or the rights
are missing (root, or a user that may start slurmd).
"""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "cc")
PATIENCE_S = 120
SKIPPED = 77
JOB_OUTPUT = "1 GPUs, 20 AllReduce of 1000 elements, 0 wrong"


def expect(condition, sentence):
    if not condition:
        raise AssertionError(sentence)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


class Cluster:
    """Of one node. `with Cluster(build) as cluster: cluster.srun(…)`."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.folder = tempfile.mkdtemp(prefix="rollcall-slurm-")
        self.daemons = []

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w", encoding="utf-8") as out:
            out.write(text)
        os.chmod(self.path(name), mode)
        return self.path(name)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in reversed(self.daemons):
            try:
                daemon.wait(30)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        os.chmod(self.folder, 0o755)
        for name in ("state", "spool", "log", "work", "library"):
            os.mkdir(self.path(name))
        shutil.copy(os.path.join(ROOT, "packaging", "slurm", "task_prolog.sh"),
                    self.path("library"))
        os.symlink(os.path.join(self.build, "shim", "librollcall.so"),
                   self.path("library", "librollcall.so"))
        plugin = self.path("spank_rollcall.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", plugin,
                        os.path.join(ROOT, "packaging", "slurm", "spank_rollcall.c")], check=True)
        self.write("plugstack.conf",
                   f"optional {plugin} library={self.path('library', 'librollcall.so')}\n")
        with open(self.path("munge.key"), "wb") as key:
            key.write(os.urandom(128))
        os.chmod(self.path("munge.key"), 0o600)
        control, node = free_ports(2)
        host = socket.gethostname().split(".")[0]
        self.write("slurm.conf", "\n".join((
            "ClusterName=rollcall", f"SlurmctldHost={host}(127.0.0.1)", "SlurmUser=root",
            f"SlurmctldPort={control}", f"SlurmdPort={node}", "AuthType=auth/munge",
            f"AuthInfo=socket={self.path('munge.socket')}", "CredType=cred/munge",
            f"StateSaveLocation={self.path('state')}", f"SlurmdSpoolDir={self.path('spool')}",
            f"SlurmctldPidFile={self.path('slurmctld.pid')}",
            f"SlurmdPidFile={self.path('slurmd.pid')}", "ProctrackType=proctrack/linuxproc",
            "TaskPlugin=task/none", "SwitchType=switch/none", "MpiDefault=none",
            "ReturnToService=2", "SelectType=select/cons_tres",
            f"PlugStackConfig={self.path('plugstack.conf')}",
            f"NodeName={host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN",
            f"PartitionName=all Nodes={host} Default=YES State=UP OverSubscribe=FORCE:8", "")))
        self.daemon("munged", "--foreground", "--force", "--num-threads=1",
                    f"--key-file={self.path('munge.key')}",
                    f"--socket={self.path('munge.socket')}",
                    f"--pid-file={self.path('munge.pid')}",
                    f"--seed-file={self.path('munge.seed')}",
                    f"--log-file={self.path('log', 'munge')}")
        self.wait_until(lambda: os.path.exists(self.path("munge.socket")), "munged's socket")
        self.daemon("slurmctld", "-D", "-f", self.path("slurm.conf"))
        self.daemon("slurmd", "-D", "-f", self.path("slurm.conf"), "-N", host)
        self.wait_until(lambda: "idle" in self.run("sinfo", "-h", "-o", "%t").stdout, "a node")

    def daemon(self, *command):
        with open(self.path("log", command[0] + ".out"), "wb") as out:
            self.daemons.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out,
                                                 stderr=out, env=self.environment()))

    def wait_until(self, condition, what):
        end = time.monotonic() + PATIENCE_S
        while not condition():
            expect(time.monotonic() < end, f"{what} did not come\n{self.logs()}")
            time.sleep(0.2)

    def logs(self):
        text = ""
        for name in sorted(os.listdir(self.path("log"))):
            with open(self.path("log", name), encoding="utf-8", errors="replace") as log:
                text += f"--- {name}\n{log.read()[-2000:]}"
        return text

    def environment(self, **more):
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("SLURM", "ROLLCALL_", "LD_", "NCCL_"))}
        return {**clean, "SLURM_CONF": self.path("slurm.conf"), **more}

    def run(self, *command, **more):
        return subprocess.run(command, text=True, capture_output=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=PATIENCE_S, cwd=self.path("work"),
                              env=self.environment(**more))

    def job(self, *options, **environment):
        """Two tasks, each of which is a job of one GPU; what they print is right."""
        done = self.run("srun", "-n", "2", "--overcommit", *options,
                        os.path.join(self.build, "examples", "dlopen_user"), "20",
                        LD_LIBRARY_PATH=os.path.join(self.build, "emulator"),
                        ROLLCALL_EMULATE_GPUS="1", **environment)
        expect((done.returncode, done.stdout.count(JOB_OUTPUT)) == (0, 2),
               f"srun ended with {done.returncode}:\n{done.stdout}{done.stderr}\n{self.logs()}")
        return done

    def rings(self, folder="work"):
        """By the folder that they are in, below the one that jobs are submitted from."""
        found = {}
        for parent, _, names in os.walk(self.path(folder)):
            rings = sum(name.endswith(".ring") for name in names)
            if rings:
                found[os.path.relpath(parent, self.path(folder))] = rings
        return found

    def forget_rings(self):
        shutil.rmtree(self.path("work"))
        os.mkdir(self.path("work"))


def spank_records_who_asks(cluster):
    cluster.job()
    expect(not cluster.rings(), f"recorded without being asked: {cluster.rings()}")
    cluster.job("--rollcall")
    folders = cluster.rings()
    expect(list(folders.values()) == [2], f"not both tasks in one folder: {folders}")
    expect(list(folders)[0].startswith("rollcall-runs/"), f"recorded in {folders}")
    cluster.job(f"--rollcall={cluster.path('work', 'mine')}")
    expect(cluster.rings().get("mine") == 2, f"recorded in {cluster.rings()}")


def spank_appends(cluster):
    shown = cluster.run("srun", "--rollcall", "sh", "-c", "echo $LD_PRELOAD $ROLLCALL_RUN_ID",
                        LD_PRELOAD="libdl.so.2").stdout.split()
    library = cluster.path("library", "librollcall.so")
    expect(shown[0] == f"libdl.so.2:{library}", f"LD_PRELOAD is {shown}")
    expect(shown[1].startswith("slurm-"), f"the run's id is {shown}")


def spank_can_be_on_for_all(cluster):
    plugin = cluster.path("spank_rollcall.so")
    library = cluster.path("library", "librollcall.so")
    cluster.write("plugstack.conf", f"optional {plugin} library={library} default=on\n")
    cluster.job("--rollcall=off")
    expect(not cluster.rings(), f"recorded, though switched off: {cluster.rings()}")
    cluster.job()
    expect(list(cluster.rings().values()) == [2], f"recorded in {cluster.rings()}")
    cluster.write("plugstack.conf", f"optional {plugin} library=/absent default=on\n")
    cluster.forget_rings()
    cluster.job()
    expect(not cluster.rings(), "recorded by a library that is not there")
    cluster.write("plugstack.conf", f"optional {plugin} library={library}\n")


def batch_scripts_are_recorded_by_step(cluster):
    script = cluster.write("batch.sh", "\n".join((
        "#!/bin/sh", "#SBATCH -n 2 --overcommit --rollcall --wait", "echo preload=$LD_PRELOAD",
        "for step in 0 1; do", "  srun -n 2 --overcommit --rollcall "
        f"{cluster.build}/examples/dlopen_user 20", "done", "")), 0o755)
    output = cluster.path("work", "output")
    done = cluster.run("sbatch", "--output", output, script, ROLLCALL_EMULATE_GPUS="1",
                       LD_LIBRARY_PATH=os.path.join(cluster.build, "emulator"))
    with open(output, encoding="utf-8") as file:
        printed = file.read()
    expect(done.returncode == 0, f"sbatch: {done.stdout}{done.stderr}{printed}")
    expect(printed.startswith("preload=\n"), f"the script itself is preloaded: {printed}")
    expect(sorted(cluster.rings().values()) == [2, 2], f"recorded in {cluster.rings()}: {printed}")


def task_prolog_records(cluster):
    prolog = cluster.path("library", "task_prolog.sh")
    cluster.job(f"--task-prolog={prolog}")
    expect(list(cluster.rings().values()) == [2], f"recorded in {cluster.rings()}")
    cluster.forget_rings()
    cluster.job(f"--task-prolog={prolog}", ROLLCALL_ENABLE="0")
    expect(not cluster.rings(), f"recorded, though switched off: {cluster.rings()}")


def a_verdict_is_reached(cluster):
    """`rollcall run` in each task: one directory, and the rank that left a call out."""
    command = os.path.join(cluster.build, "tools", "rollcall")
    job = cluster.run(
        "srun", "-K", "-n", "4", "--overcommit", "--export=ALL,MASTER_ADDR=127.0.0.1,MASTER_PORT="
        f"{free_ports(1)[0]}", "sh", "-c",
        "RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_PROCID WORLD_SIZE=4 exec \"$@\"", "sh", command,
        "run", "-q", "-d", "hung", "--watch", "3", "--kill-on-hang", "--",
        os.path.join(cluster.build, "examples", "mini_train"), "--fault", "missing-call@2:3",
        LD_LIBRARY_PATH=os.path.join(cluster.build, "emulator"), ROLLCALL_EMULATE_GPUS="4",
        ROLLCALL_EMULATE_SESSION=os.path.basename(cluster.folder))
    expect(job.returncode != 0, f"the job did not hang: {job.stdout}")
    verdict = cluster.run(command, "diff", "hung").stdout
    expect("RC-MISSING-CALL" in verdict and "where ranks 0-1,3 called" in verdict, verdict)


TESTS = (
    ("the SPANK plugin records steps that ask for it, and no others", spank_records_who_asks),
    ("it appends to LD_PRELOAD and names the run", spank_appends),
    ("it can be on for everybody, who can switch it off, and a missing library stops no job",
     spank_can_be_on_for_all),
    ("steps of a batch script are recorded each in a folder, the script itself is not",
     batch_scripts_are_recorded_by_step),
    ("the TaskProlog records every step, and leaves alone who says so", task_prolog_records),
    ("`rollcall run` below srun reaches one verdict about all tasks", a_verdict_is_reached),
)


def main(words):
    if len(words) != 1:
        print(__doc__)
        return 2
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if not os.path.exists("/usr/include/slurm/spank.h"):
        missing.append("slurm/spank.h")
    if missing or os.geteuid() != 0:
        print("skipped: " + (f"{', '.join(missing)} not installed" if missing else "not root"))
        return SKIPPED
    failed = 0
    with Cluster(words[0]) as cluster:
        for sentence, test in TESTS:
            try:
                cluster.forget_rings()
                test(cluster)
                print(f"test_slurm: {sentence}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"test_slurm: NOT SO: {sentence}\n{error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    sys.exit(main(sys.argv[1:]))
