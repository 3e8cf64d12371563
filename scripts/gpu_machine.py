"""The machine that scripts/gpu_check.py checks, and programs on it under `rollcall run`."""
import ctypes
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("ROLLCALL_GPU_CHECK_BUILD", "build/release")
ROLLCALL = os.path.join(BUILD, "tools", "rollcall")
EXAMPLES = os.path.join(BUILD, "examples")
PLUGIN = os.path.join(BUILD, "profiler_plugin", "libnccl-profiler-rollcall.so")
PATIENCE_S = 90
WARM_UP_S, SHARING_S = 60, 45
RANKS_MAX = 4
MPS_CONTROL = "nvidia-cuda-mps-control"
TIMINGS = ("events", "progress", "cupti")
# CUDA runtimes that the examples are built for, what their programs are called then, and the driver
# that each needs.
RUNTIMES = (("libcudart.so.13", "", 13000), ("libcudart.so.12", "_cuda12", 12000),
            ("libcudart.so.11.0", "_cuda11", 11040))
# How two ranks may share a GPU: by the switch that NCCL has from 2.30.3 on, or as if each were on a
# host of its own.
SWITCH, HOSTS = "NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_HOSTID"
SWITCH_SINCE = (2, 30, 3)


class Skip(Exception):
    """Why a step cannot be done on this machine."""


class OutOfTime(Exception):
    """The time for all steps is over: that says nothing of the one that was not through."""


def output_of(command):
    try:
        return subprocess.run(command, text=True, capture_output=True, check=False,
                              timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def memory_folder():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def library_folders(environment, packages):
    """Folders that hold an NCCL or a CUDA runtime: those of NCCL_HOME first, then what pip
    installed with PyTorch, whose rows should measure the NCCL that it came with."""
    def of_variable(name):
        home = environment.get(name)
        return [os.path.join(home, "lib"), os.path.join(home, "lib64")] if home else []

    candidates = of_variable("NCCL_HOME")
    for site in packages:
        candidates += sorted(glob.glob(os.path.join(site, "nvidia", "*", "lib")))
    candidates += of_variable("CUDA_HOME")
    candidates += ["/usr/lib/x86_64-linux-gnu", "/usr/local/cuda/lib64"]
    wanted = ("libnccl.so.2", *(name for name, _, _ in RUNTIMES))
    return [folder for folder in candidates
            if any(os.path.exists(os.path.join(folder, name)) for name in wanted)]


def cuda_of(version):
    return f"{version // 1000}.{version % 1000 // 10}"


def runtime_for(driver, has):
    """What the programs that can run are called with: the newest runtime that is found and that
    the driver can serve."""
    needed = []
    for name, suffix, least in RUNTIMES:
        if not has(name):
            continue
        if driver >= least:
            return suffix
        needed.append(f"{name} needs a driver for CUDA {cuda_of(least)}")
    raise Skip("; ".join(needed) + f", and this one is for {cuda_of(driver)}"
               if needed else
               f"none of {', '.join(name for name, _, _ in RUNTIMES)} was found; set CUDA_HOME")


def asked_driver():
    """Its version and how many GPUs it shows this process."""
    version, count = ctypes.c_int(), ctypes.c_int()
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise Skip(f"there is no driver: {error}") from None
    for name, *arguments in (("cuDriverGetVersion", ctypes.byref(version)), ("cuInit", 0),
                             ("cuDeviceGetCount", ctypes.byref(count))):
        status = getattr(driver, name)(*arguments)
        if status != 0:
            raise Skip(f"{name} answers {status}")
    return version.value, count.value


def nccl_version(path):
    """As three numbers; none where the library cannot say it."""
    version = ctypes.c_int()
    try:
        ctypes.CDLL(path).ncclGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return ()
    return version.value // 10000, version.value // 100 % 100, version.value % 100


class SideBySide:
    """NVIDIA's Multi-Process Service for as long as this lasts, in a folder of its own: processes
    that share a GPU run side by side on it, instead of in turns. No setting of the machine is
    touched. Where there is none they take turns, and nothing is said."""

    def __init__(self, machine, is_wanted):
        self.machine = machine
        self.folder = tempfile.mkdtemp(prefix="gpu-check-mps-") if is_wanted else None
        self.environment = {"CUDA_MPS_PIPE_DIRECTORY": self.folder,
                            "CUDA_MPS_LOG_DIRECTORY": self.folder} if is_wanted else {}

    def ask(self, *arguments, text=None):
        return subprocess.run([MPS_CONTROL, *arguments], input=text, text=True, check=True,
                              capture_output=True, timeout=30,
                              env={**os.environ, **self.environment})

    def __enter__(self):
        if self.folder is None:
            return []
        try:
            self.ask("-d")
        except (OSError, subprocess.SubprocessError):
            return []
        self.machine.beside = self.environment
        return ["side by side by the Multi-Process Service"]

    def __exit__(self, *exception):
        if self.machine.beside:
            self.machine.beside = {}
            try:
                self.ask(text="quit\n")
            except (OSError, subprocess.SubprocessError) as fault:
                print(f"gpu_check: the Multi-Process Service did not end: {fault}", file=sys.stderr)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


class Machine:
    def __init__(self, emulated_gpus, emulated_cuda=13):
        self.emulated = emulated_gpus
        self.deadline = float("inf")
        self.sharing = None  # of several ranks on one GPU: the variable that allows it
        self.sharing_fault = None
        self.beside = {}  # what lets processes that share a GPU run side by side
        self.keep = None  # a folder for what each run left
        self.runs = 0
        if emulated_gpus:
            self.gpus, self.folders = emulated_gpus, []
            self.suffix = runtime_for(1000 * emulated_cuda + 990, lambda name: True)
            self.nccl = SWITCH_SINCE
            self.about = f"{self.gpus} x emulated GPU, programs for CUDA {emulated_cuda}"
            return
        driver, self.gpus = asked_driver()
        names = output_of(["nvidia-smi", "--query-gpu=name,driver_version",
                           "--format=csv,noheader"]).splitlines()
        if not names or self.gpus == 0:
            raise Skip("there is no GPU that nvidia-smi and the driver name")
        self.folders = library_folders(
            os.environ, [path for path in sys.path if path.endswith("-packages")])
        nccl = self.find("libnccl.so.2")
        if nccl is None:
            raise Skip("libnccl.so.2 was not found; set NCCL_HOME, or run this with the python "
                       "that has PyTorch")
        self.suffix = runtime_for(driver, self.find)
        self.nccl = nccl_version(nccl)
        gpu, _, name = names[0].partition(", ")
        self.about = (f"{self.gpus} x {gpu}, driver {name} (CUDA {cuda_of(driver)}), "
                      f"NCCL {'.'.join(map(str, self.nccl)) or 'unknown'} "
                      f"({nccl})")

    def find(self, name):
        for folder in self.folders:
            if os.path.exists(os.path.join(folder, name)):
                return os.path.join(folder, name)
        return None

    def seconds_left(self):
        return self.deadline - time.monotonic()

    def patience_s(self, longest_s=PATIENCE_S):
        return max(1, min(longest_s, self.seconds_left()))

    def program(self, name):
        return os.path.join(EXAMPLES, name + self.suffix)

    def ranks(self):
        """At least two: NCCL launches no kernel for one."""
        return max(2, min(self.gpus, RANKS_MAX))

    def is_shared(self, ranks):
        return ranks > self.gpus

    def side_by_side(self, ranks):
        is_wanted = self.is_shared(ranks) and not self.emulated and shutil.which(MPS_CONTROL)
        return SideBySide(self, bool(is_wanted))

    @property
    def is_side_by_side(self):
        return bool(self.beside)

    def environment(self, extra):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("ROLLCALL_")}
        if self.folders:
            before = environment.get("LD_LIBRARY_PATH")
            environment["LD_LIBRARY_PATH"] = ":".join(self.folders + ([before] if before else []))
        environment.update(self.beside)
        environment.update(extra)
        return environment

    def warm_up(self):
        """The first process that reads NCCL and PyTorch, and finds its GPU asleep, may take a
        minute: not one that is measured. Returns its seconds."""
        start = time.monotonic()
        if not self.emulated:
            program = [self.program("collective_loop"), "1", "8"]
            for first in (program, [sys.executable, "-c", "import torch; torch.zeros(1).cuda()"]):
                try:
                    with Run(self, first, "none", ranks=1) as run:
                        run.finish(WARM_UP_S)
                except RuntimeError:
                    pass  # the rows say what does not work
        return time.monotonic() - start

    def find_sharing(self):
        """Tries without Rollcall how two ranks can share the GPU, where they have to."""
        if not self.is_shared(self.ranks()):
            return
        ways = [SWITCH, HOSTS] if self.nccl >= SWITCH_SINCE else [HOSTS]
        for self.sharing in ways:
            self.sharing_fault = None
            try:
                with Run(self, [self.program("collective_loop"), "3", "8"], "none") as run:
                    run.finish(SHARING_S)
                return
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                self.sharing_fault = (f"two ranks on one GPU ({self.sharing}) do not work here "
                                      f"without Rollcall: {error}")


# The launcher preloads the library; this takes it out again and leaves the others (the emulator).
WITHOUT_SHIM = ('LD_PRELOAD=$(printf %s "$LD_PRELOAD" | tr : "\\n" | grep -v librollcall.so | '
                'paste -sd:) exec "$@"')


class Run:
    """Ranks of a program under `rollcall run`, in one of the modes."""

    def __init__(self, machine, program, mode="events", ranks=None, budget="100", settings=None):
        self.machine = machine
        self.ranks = machine.ranks() if ranks is None else ranks
        is_shared = machine.is_shared(self.ranks)
        if is_shared and machine.sharing_fault:
            raise Skip(machine.sharing_fault)
        # Files in memory: the driver may refuse to register those of a disk.
        self.folder = tempfile.mkdtemp(prefix="gpu-check-", dir=memory_folder())
        self.directory = os.path.join(self.folder, "run")
        settings = {"ROLLCALL_GPU_TIMING": mode if mode in TIMINGS else "off", **(settings or {})}
        if budget is not None:
            settings["ROLLCALL_OVERHEAD_BUDGET"] = budget
        if mode in ("plugin", "both"):
            settings["NCCL_PROFILER_PLUGIN"] = os.path.abspath(PLUGIN)
        if not machine.emulated and "NCCL_DEBUG" not in os.environ:
            settings["NCCL_DEBUG"] = "WARN"  # why it fails, where it does
        if is_shared and machine.sharing == SWITCH:
            settings[SWITCH] = "1"
        if is_shared and machine.sharing == HOSTS:
            # As if on two hosts they talk by sockets: by the one interface that is always there.
            settings.update({"NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1",
                             "NCCL_NET": "Socket"})
        self.command = [ROLLCALL, "run", "-d", self.directory, "-n", str(self.ranks)]
        self.command += [f"--emulate={machine.emulated}"] if machine.emulated else []
        self.command.append("--")
        if mode in ("none", "plugin"):
            # In front of the program and behind the launcher: the library is not preloaded there.
            self.command += ["sh", "-c", WITHOUT_SHIM, "sh"]
        if is_shared and machine.sharing == HOSTS:
            self.command += ["sh", "-c", 'NCCL_HOSTID="rank$RANK" exec "$@"', "sh"]
        self.command += list(program)
        self.environment = machine.environment(settings)
        self.process = None

    def __enter__(self):
        self.out = open(os.path.join(self.folder, "out"), "w+", encoding="utf-8",
                        errors="replace")
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=subprocess.STDOUT, env=self.environment)
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.out.close()
        if self.machine.keep is not None:
            self.keep()
        shutil.rmtree(self.folder, ignore_errors=True)

    def keep(self):
        """What it printed and what Rollcall recorded, by the order of the runs."""
        self.machine.runs += 1
        to = os.path.join(self.machine.keep, f"{self.machine.runs:03}")
        shutil.copytree(self.folder, to, dirs_exist_ok=True)
        with open(os.path.join(to, "command"), "w", encoding="utf-8") as file:
            file.write(" ".join(self.command) + "\n")

    def text(self):
        self.out.seek(0)
        return self.out.read()

    def finish(self, longest_s=PATIENCE_S):
        patience_s = self.machine.patience_s(longest_s)
        try:
            status = self.process.wait(patience_s)
        except subprocess.TimeoutExpired:
            if patience_s < longest_s:
                raise OutOfTime(f"no time was left after {patience_s:.0f} s (--minutes)") from None
            raise RuntimeError(f"it did not end within {patience_s:.0f} s") from None
        text = self.text()
        if status != 0:
            lines = [line for line in text.splitlines() if line.strip()]
            said = [line for line in lines if not line.startswith("rollcall: ")] or lines
            warned = [line for line in said if "NCCL WARN" in line]
            raise RuntimeError(f"exit status {status}: {' / '.join((warned or said)[-2:])}")
        return text

    # --- what Rollcall says about it

    def ask(self, *arguments):
        try:
            done = subprocess.run([ROLLCALL, *arguments], text=True, capture_output=True,
                                  check=False, timeout=self.machine.patience_s())
        except subprocess.TimeoutExpired:
            if self.machine.seconds_left() < 1:
                raise OutOfTime("no time was left to ask about the run (--minutes)") from None
            raise
        return done.stdout

    def verdict(self, *options):
        """The leading code; none where there is nothing to judge yet."""
        text = self.ask("diff", self.directory, "--json", *options)
        return json.loads(text)["findings"][0]["code"] if text else "no verdict"

    def lines(self, kind):
        """Of `rollcall dump`."""
        lines = map(json.loads, self.ask("dump", self.directory).splitlines())
        return [line for line in lines if line["type"] == kind]

    def metas(self):
        return [line["meta"] for line in self.lines("run")]
