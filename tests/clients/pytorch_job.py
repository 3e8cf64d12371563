"""A PyTorch job under test: ranks forked from one zygote, watched, killed, judged."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
E2E = os.path.join(ROOT, "tests", "e2e")
sys.path.insert(0, E2E)

import job  # noqa: E402
from job import Failure, expect, expect_equal  # noqa: E402

EXAMPLES = os.path.join(ROOT, "examples", "pytorch")
SHIM = os.path.abspath(job.SHIM)
STAND_INS = [os.path.abspath(os.path.join(job.EMULATOR, name)) for name in (
    "libcuda.so.1", "libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libnccl.so.2",
    "libnvidia-ml.so.1", "libcublasLt.so.13", "libcublas.so.13", "libcublasLt.so.12",
    "libcublas.so.12", "libcublasLt.so.11", "libcublas.so.11")]
PRESENT_TORCH = "2.15."
PATIENCE_S = 240
# Ranks whose records do not grow for this long hang: their steps take milliseconds.
QUIET_S = 3


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Zygote:
    """One for a whole series of jobs, of one interpreter and one set of preloaded libraries."""

    def __init__(self, python, with_recorder=True):
        preload = ([SHIM] if with_recorder else []) + STAND_INS
        environment = job.clean_environment({
            "LD_PRELOAD": ":".join(preload), "OMP_NUM_THREADS": "1", "ROLLCALL_EMULATE_QUIET": "1",
            "TORCH_CUDNN_SDPA_DEPRIORITIZED": "1"})
        self.process = subprocess.Popen(
            [python, os.path.join(HERE, "zygote.py"), EXAMPLES], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True,
            preexec_fn=job.die_with_parent)
        ready, version = self.process.stdout.readline().split()
        expect_equal(ready, "ready", "the zygote's first word")
        # The one of requirements.txt: the tables of the tests describe it.
        self.is_present = version.startswith(PRESENT_TORCH)
        self.statuses = {}

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def ended(self):
        self.statuses.update(dict(self.ask({"ended": True})))
        return self.statuses

    def close(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)


class Zygotes:
    """`with Zygotes(python) as zygotes: zygotes.one(with_recorder=False)`: each kind started once,
    when it is wanted, for all tests: that costs a quarter of a minute of processor time."""

    def __init__(self, python):
        self.python = python
        self.started = {}

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for zygote in self.started.values():
            zygote.close()

    def one(self, with_recorder=True):
        if with_recorder not in self.started:
            self.started[with_recorder] = Zygote(self.python, with_recorder)
        return self.started[with_recorder]


class PytorchJob:
    """`with PytorchJob(zygote, 4, ["--fault", …]) as run:` train.py on emulated GPUs."""

    def __init__(self, zygote, ranks, arguments, *, script="train", flight_recorder=False,
                 environment=None):
        self.zygote = zygote
        self.folder = tempfile.mkdtemp(prefix="rollcall-clients-")
        self.run_directory = os.path.join(self.folder, "run")
        os.mkdir(self.run_directory, 0o700)
        self.dumps = os.path.join(self.folder, "dumps")
        os.mkdir(self.dumps)
        # Of PyTorch itself, when its watchdog finds that a collective takes too long.
        self.watchdog_dumps = os.path.join(self.folder, "watchdog")
        os.mkdir(self.watchdog_dumps)
        self.pipes = []
        logging = ["--log-calls", self.call_log_prefix()] if script == "train" else []
        more = {"flight_recorder": self.dump_prefix()} if flight_recorder else {}
        shared = {
            "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()), "ROLLCALL_DIR": self.run_directory,
            "ROLLCALL_RUN_ID": f"{os.getpid():08x}{time.monotonic_ns() & 0x7fffffff:08x}",
            "ROLLCALL_EMULATE_GPUS": str(ranks),
            "ROLLCALL_EMULATE_SESSION": os.path.basename(self.folder),
            "TORCH_FR_BUFFER_SIZE": "2000" if flight_recorder else "0",
            "TORCH_FR_DUMP_TEMP_FILE": os.path.join(self.watchdog_dumps, "rank_"),
            "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "COLL",
            "NCCL_DEBUG_FILE": os.path.join(self.folder, "nccl.%p"), **(environment or {})}
        self.pids = [zygote.ask({
            "environment": {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            "script": script, "arguments": [*arguments, *logging],
            "output": self.output_path(rank), **more})
            for rank in range(ranks)]

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.kill()
        for pipe in self.pipes:
            os.close(pipe)
        if os.environ.get("ROLLCALL_E2E_KEEP"):
            print(f"kept {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)

    def call_log_prefix(self):
        return os.path.join(self.folder, "calls")

    def nccl_log(self, rank):
        """What NCCL itself was asked for, in its own words; the ranks have a file each."""
        return os.path.join(self.folder, f"nccl.{self.pids[rank]}")

    def dump_prefix(self):
        return os.path.join(self.dumps, "flight_recorder")

    def dump_flight_recorder(self, may_be_silent=False):
        """By request, as an operator would, from every rank that is still there."""
        alive = [self.pids.index(pid) for pid in self.running()]
        for rank in alive:
            # Does not wait for a reader: a rank that cannot answer may be unable to listen, too.
            pipe = os.open(f"{self.dump_prefix()}.{rank}.request", os.O_RDWR)
            self.pipes.append(pipe)
            os.write(pipe, b"!")
        if may_be_silent:
            time.sleep(QUIET_S)
            return
        self.wait_until(lambda: all(os.path.exists(f"{self.dump_prefix()}.{rank}")
                                    for rank in alive), "PyTorch's dumps")

    def remove_request_pipes(self):
        for name in os.listdir(self.dumps):
            if name.endswith(".request"):
                os.unlink(os.path.join(self.dumps, name))

    def output_path(self, rank):
        return os.path.join(self.folder, f"output.{rank}")

    def output(self, rank):
        try:
            with open(self.output_path(rank), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def running(self):
        ended = self.zygote.ended()
        return [pid for pid in self.pids if pid not in ended]

    def statuses(self):
        ended = self.zygote.ended()
        return [ended.get(pid) for pid in self.pids]

    def kill(self):
        for pid in self.running():
            os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: not self.running(), "the end of the ranks after SIGKILL")

    def wait_until(self, condition, what):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            expect(time.monotonic() < deadline,
                   f"{what} did not happen within {PATIENCE_S} s\n{self.describe()}")
            time.sleep(0.1)

    def records(self):
        """A number for each process that moves whenever it calls NCCL."""
        done = self.rollcall("info", self.run_directory, "--json")
        if done.returncode != 0:
            return ()
        return tuple((process["pid"], process["recorded"], process["events"])
                     for process in json.loads(done.stdout)["processes"])

    def wait_for_end_or_hang(self, planted_by=None):
        """True when all ranks ended by themselves; False when those left make no more calls."""
        if planted_by is not None:
            self.wait_until(lambda: "planted" in self.output(planted_by) or not self.running(),
                            "the planted fault")
        seen, since = None, time.monotonic()
        deadline = since + PATIENCE_S
        while self.running():
            records = self.records()
            if records != seen or planted_by is None:
                seen, since = records, time.monotonic()
            if time.monotonic() - since > QUIET_S:
                return False
            expect(time.monotonic() < deadline, f"neither end nor hang\n{self.describe()}")
            time.sleep(0.2)
        return True

    def describe(self):
        text = [f"folder: {self.folder}", f"statuses: {self.statuses()}"]
        for rank in range(len(self.pids)):
            text.append(f"output of rank {rank}: {self.output(rank)[-1500:]}")
        return "\n".join(text)

    def rollcall(self, *arguments):
        return subprocess.run([job.ROLLCALL, *arguments], stdin=subprocess.DEVNULL, text=True,
                              capture_output=True, env=job.clean_environment(),
                              timeout=PATIENCE_S, check=False)

    def dump(self):
        """Every line of `rollcall dump`, as objects."""
        done = self.rollcall("dump", self.run_directory)
        expect_equal(done.returncode, 0, f"exit status of dump ({done.stderr})")
        return [json.loads(line) for line in done.stdout.splitlines()]

    def diff(self, *options, directory=None):
        done = self.rollcall("diff", directory or self.run_directory, "--json", *options)
        try:
            return json.loads(done.stdout)
        except json.JSONDecodeError:
            raise Failure(f"no JSON from diff: {done.stdout} {done.stderr}\n"
                          f"{self.describe()}") from None

    def diff_text(self, directory=None):
        done = self.rollcall("diff", directory or self.run_directory)
        return f"{done.stdout}{done.stderr}"
