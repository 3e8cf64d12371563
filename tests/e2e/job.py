"""A distributed job under test: started, watched until it ends or hangs, killed, judged.

Every test program of this folder gets the build folder in ROLLCALL_E2E_BUILD. A job works in a
temporary folder of its own and leaves nothing behind; ROLLCALL_E2E_KEEP=1 keeps the folder.
"""
import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("ROLLCALL_E2E_BUILD", "build/release")
ROLLCALL = os.path.join(BUILD, "tools", "rollcall")
SHIM = os.path.join(BUILD, "shim", "librollcall.so")
PLUGIN = os.path.join(BUILD, "profiler_plugin", "libnccl-profiler-rollcall.so")
EMULATOR = os.path.join(BUILD, "emulator")
MINI_TRAIN = os.path.join(BUILD, "examples", "mini_train")
COLLECTIVE_LOOP = os.path.join(BUILD, "examples", "collective_loop")
DLOPEN_USER = os.path.join(BUILD, "examples", "dlopen_user")
MPI_ALLREDUCE = os.path.join(BUILD, "examples", "mpi_allreduce")

# The exit status that ctest knows as skipped.
SKIPPED = 77

LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1

# Long enough for 16 processes on a loaded machine of 2 cores; a healthy job takes about a second.
PATIENCE_S = 180
# A job whose logs do not grow for this long hangs, on a machine that has processors for it. The
# analysis calls a rank absent after a second.
QUIET_S = 1.5

WITHOUT_SHIM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "without_shim.py")


class Way:
    """How a job is recorded: by the shim, by the profiler plugin alone, or by both, through the
    interface that a release of NCCL has. ROLLCALL_E2E_WAY: "shim", "plugin-v7", "both-v4"."""

    def __init__(self, text):
        self.text = text
        self.name, _, version = text.partition("-v")
        self.version = int(version or 0)
        self.shim = self.name != "plugin"
        self.plugin = self.name != "shim"
        # From version 5 on NCCL tells of calls, before of launches only.
        self.calls = self.shim or self.version >= 5

    def environment(self):
        if not self.plugin:
            return {}
        return {"NCCL_PROFILER_PLUGIN": PLUGIN, "ROLLCALL_EMULATE_PROFILER": str(self.version)}

    def command(self, command):
        return command if self.shim else [sys.executable, WITHOUT_SHIM, *command]


WAY = Way(os.environ.get("ROLLCALL_E2E_WAY", "shim"))
# Every mini_train of the tests with these, "--non-blocking" say.
MINI_TRAIN_ARGUMENTS = os.environ.get("ROLLCALL_E2E_ARGUMENTS", "").split()

# How many ranks, and how they share the work: data, tensor and pipeline parallel.
SHAPES = {2: (2, 1, 1), 4: (1, 2, 2), 8: (2, 2, 2), 16: (4, 2, 2)}
PIPELINE_SHAPES = {2: (1, 1, 2), 4: (1, 2, 2), 8: (2, 2, 2), 16: (4, 2, 2)}


def shape_arguments(ranks, shapes=None):
    dp, tp, pp = (shapes or SHAPES)[ranks]
    return ["--dp", str(dp), "--tp", str(tp), "--pp", str(pp)]


class Failure(Exception):
    """What was expected and what was seen, for the person who reads the test's output."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


def expect_equal(seen, expected, what):
    expect(seen == expected, f"{what}: expected {expected!r}, saw {seen!r}")


def process_is_there(pid):
    """False for a zombie, too: it holds nothing any more."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def members_of(process_group):
    """The processes of a group that are still there."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == process_group and fields[0] not in ("Z", "X"):
            found.append(int(pid))
    return found


# So many runnable processes per processor hold up none that mostly waits.
CROWD = 4


def pace():
    """How fast a job gets on at this moment: 1 where the machine has processors for it."""
    with open("/proc/loadavg", encoding="utf-8") as file:
        runnable = int(file.read().split()[3].partition("/")[0])
    return min(1, CROWD * os.cpu_count() / max(runnable, 1))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def die_with_parent():
    """In the child: a test that is killed takes its job along, or a job that hangs on purpose would
    hang for ever. `rollcall run` sees to its ranks."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def clean_environment(extra=None):
    """The tests' environment without what would change a job, and with `extra`."""
    prefixes = ("ROLLCALL_", "NCCL_", "EMU_", "OMPI_", "PMIX_", "SLURM_")
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "LD_PRELOAD",
             "LD_LIBRARY_PATH")
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(prefixes) and name not in names}
    # No configuration file of whoever runs the tests. NCCL's own variable is recorded with the
    # job's, and is set where there is a file only.
    environment["XDG_CONFIG_HOME"] = "/nonexistent"
    if os.path.exists(os.path.expanduser("~/.nccl.conf")):
        environment["NCCL_CONF_FILE"] = os.devnull
    # What the steps of a short job on a busy machine took is nobody's business but of slow.py.
    environment["ROLLCALL_SUMMARY_SECONDS"] = "0"
    # ROLLCALL_E2E_SETTINGS="NAME=VALUE …": every job of the tests with these, for trying a setting.
    environment.update(word.split("=", 1)
                       for word in os.environ.get("ROLLCALL_E2E_SETTINGS", "").split())
    environment.update(extra or {})
    return environment


# The shim watches the GPUs unless it is told not to; the plugin alone does not.
WATCHES_GPUS = WAY.shim and clean_environment().get("ROLLCALL_GPU_TIMING") != "off"


class Job:
    """`with Job(8, ["--steps", "2"]) as job: job.start() …`: mini_train under `rollcall run`."""

    def __init__(self, ranks, arguments=(), *, program=None, options=(), environment=None,
                 way=WAY, gpus=None):
        self.ranks = ranks
        # The GPU writes into files in memory alone.
        in_memory = (environment or {}).get("ROLLCALL_GPU_TIMING") == "progress"
        self.folder = tempfile.mkdtemp(prefix="rollcall-e2e-",
                                       dir="/dev/shm" if in_memory else None)
        self.run_directory = os.path.join(self.folder, "run")
        self.log_prefix = os.path.join(self.folder, "log")
        self.stdout_path = os.path.join(self.folder, "stdout")
        self.stderr_path = os.path.join(self.folder, "stderr")
        own = [MINI_TRAIN, *MINI_TRAIN_ARGUMENTS, "--log", self.log_prefix]
        command = way.command(list(program or own))
        self.command = [ROLLCALL, "run", "-n", str(ranks), f"--emulate={gpus or ranks}", "-d",
                        self.run_directory, *options, "--", *command, *map(str, arguments)]
        self.environment = clean_environment({**way.environment(), **(environment or {})})
        self.process = None
        self.killed = False

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.kill()
        if os.environ.get("ROLLCALL_E2E_KEEP"):
            print(f"kept {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    # --- life -----------------------------------------------------------------------------------

    def start(self):
        with open(self.stdout_path, "wb") as out, open(self.stderr_path, "wb") as err:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=err, env=self.environment,
                                            start_new_session=True, preexec_fn=die_with_parent)
        return self

    def wait(self, timeout_s=PATIENCE_S):
        """The exit status of a job that is expected to end by itself."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Failure(f"the job did not end within {timeout_s} s\n{self.describe()}") from None

    def run(self):
        self.start()
        return self.wait()

    def running(self):
        return self.process is not None and self.process.poll() is None

    def wait_until(self, condition, what, timeout_s=PATIENCE_S):
        deadline = time.monotonic() + timeout_s
        while not condition():
            expect(time.monotonic() < deadline,
                   f"{what} did not happen within {timeout_s} s\n{self.describe()}")
            time.sleep(0.05)

    def wait_for_end_or_hang(self):
        """True when the job ended by itself, False when it hangs."""
        # Time counts as quiet as far as the job could have run in it.
        size, quiet_s, before = -1, 0.0, time.monotonic()
        deadline = before + PATIENCE_S
        while self.running():
            now = time.monotonic()
            quiet_s += (now - before) * pace()
            before = now
            if self.log_bytes() != size:
                size, quiet_s = self.log_bytes(), 0.0
            if quiet_s > QUIET_S:
                return False
            expect(now < deadline, f"the job neither ends nor hangs\n{self.describe()}")
            time.sleep(0.05)
        return True

    def pids(self):
        """Of the ranks that have written a line; the launcher is not among them."""
        found = {}
        for rank in range(self.ranks):
            for line in self.log(rank):
                if line["type"] == "start":
                    found[rank] = line["pid"]
        return found

    def kill(self):
        """SIGKILL to everything at once, as a scheduler does at the end of a time limit."""
        if self.process is None or self.killed:
            return
        self.killed = True
        # The ranks first: those that were stopped would be continued by the kernel when the command
        # is gone, and live on for a moment.
        for pid in self.own_pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)
        # Half of a job that is being killed is a job of which half is dead.
        self.wait_until(lambda: not self.own_pids() and not members_of(self.process.pid),
                        "the end of the ranks after SIGKILL")

    def own_pids(self):
        """Ranks that are still there. A number of the log may be another process's by now; this
        job's have its folder in their command line, and none while the kernel is ending them."""
        mine = []
        for pid in self.pids().values():
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    line = file.read()
                if (not line or self.folder.encode() in line) and process_is_there(pid):
                    mine.append(pid)
            except OSError:
                pass
        return mine

    # --- what it wrote --------------------------------------------------------------------------

    def log(self, rank):
        """mini_train's own account, by line. A line that is being written is left out."""
        try:
            with open(f"{self.log_prefix}.{rank}", encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def log_bytes(self):
        return sum(os.path.getsize(f"{self.log_prefix}.{rank}") for rank in range(self.ranks)
                   if os.path.exists(f"{self.log_prefix}.{rank}"))

    def planted_fault(self, rank):
        for line in self.log(rank):
            if line["type"] == "fault":
                return line
        return None

    def stdout(self):
        with open(self.stdout_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def stderr(self):
        with open(self.stderr_path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def results(self):
        """What mini_train printed, in an order that does not depend on which rank was faster."""
        return sorted(line for line in self.stdout().splitlines()
                      if line.startswith(("step ", "rank ")))

    def describe(self):
        """Everything a person needs when a test has failed."""
        parts = [f"command: {' '.join(self.command)}", "stdout:", self.stdout()[-3000:],
                 "stderr:", self.stderr()[-3000:]]
        for rank in range(self.ranks):
            parts += [f"log of rank {rank}, its end:"]
            parts += [json.dumps(line) for line in self.log(rank)[-3:]]
        return "\n".join(parts)

    # --- what Rollcall says about it --------------------------------------------------------------

    def rollcall(self, *arguments):
        return subprocess.run([ROLLCALL, *arguments], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, env=self.environment, timeout=PATIENCE_S,
                              check=False)

    def diff(self, *options):
        """The verdict: the JSON document, checked against the exit status."""
        done = self.rollcall("diff", self.run_directory, "--json", *options)
        try:
            report = json.loads(done.stdout)
        except json.JSONDecodeError as error:
            raise Failure(f"`rollcall diff --json` printed no JSON ({error}), exit status "
                          f"{done.returncode}:\n{done.stdout[:2000]}\n{done.stderr}") from None
        expect_equal(report["schema"], "rollcall.diff/2", "the schema")
        expect_equal(done.returncode, report["status"], "exit status and the document's")
        expect(report["findings"], f"there is no finding at all: {done.stdout[:2000]}")
        return report

    def diff_text(self):
        done = self.rollcall("diff", self.run_directory)
        return f"{done.stdout}{done.stderr}(exit status {done.returncode})"

    def dump(self):
        """Every line of `rollcall dump`, as objects."""
        done = self.rollcall("dump", self.run_directory)
        expect_equal(done.returncode, 0, f"exit status of dump ({done.stderr})")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def stats(self):
        """The JSON of `rollcall stats`."""
        done = self.rollcall("stats", self.run_directory, "--json")
        expect_equal(done.returncode, 0, f"exit status of stats ({done.stderr})")
        return json.loads(done.stdout)

    def communicator_keys(self, by_first_call=False):
        """rank -> {communicator's name in the log: its key}, by the order of creation, or of the
        first call: where the profiler plugin alone records, up to version 3 of its interface."""
        keys = {}
        pids = self.pids()
        kind = "op" if by_first_call else "comm"
        names = {pid: dict.fromkeys(line["comm"] for line in self.log(rank) if line["type"] == kind)
                 for rank, pid in pids.items()}
        recorded = {}
        for line in self.dump():
            if line["type"] == "comm":
                recorded.setdefault(line["pid"], []).append(line["key"])
        for rank, pid in pids.items():
            keys[rank] = dict(zip(names[pid], recorded.get(pid, [])))
        return keys


def main(tests):
    """Runs `tests`, (sentence, function) pairs, all or those whose sentence holds argv[1]. Where
    all of them were skipped, the program counts as skipped, too."""
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    failed = ran = left_out = 0
    for sentence, function in tests:
        if wanted not in sentence:
            continue
        ran += 1
        start = time.monotonic()
        try:
            skipped = function()
        except Failure as failure:
            failed += 1
            print(f"FAILED  {sentence}\n{failure}\n", flush=True)
            continue
        left_out += bool(skipped)
        word = f"skipped ({skipped}):" if skipped else "holds"
        print(f"{word}  {sentence}  ({time.monotonic() - start:.1f} s)", flush=True)
    if ran == 0:
        print(f"no test has '{wanted}' in its sentence", file=sys.stderr)
        return 2
    if failed:
        return 1
    return SKIPPED if left_out == ran else 0
