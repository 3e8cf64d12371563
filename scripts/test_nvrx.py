#!/usr/bin/env python3
"""Lets the launcher of NVIDIA's Resiliency Extension ask whether a job is to be started again.

  scripts/test_nvrx.py BUILD      BUILD: a build folder, of which it takes command, libraries and
                                  emulator

Real ft_launcher, real PyTorch, emulated GPUs: a job whose ranks call an all_reduce of other sizes
is stopped although it has restarts left, with the status 93 that tells a scheduler not to queue it
again; one that a signal ended is started anew. What it needs is installed into BUILD/clients/nvrx
(6 GB). Exit status 77 where there is no Python 3.12.
"""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VERSION = "0.7.0"
PYTHON = "3.12"
# Built for newer systems than many have: of the package only what is written in Python is used.
PLATFORM = "manylinux_2_39_x86_64"
NEEDS = ("torch", "numpy", "httpx", "defusedxml", "packaging", "psutil", "pydantic",
         "pydantic-settings", "pyyaml", "nvidia-ml-py", "grpcio", "grpcio-tools", "protobuf",
         "fastapi", "uvicorn", "setproctitle")
SKIPPED = 77
PATIENCE_S = 300
NOT_AGAIN = 93
LAUNCHER = "from nvidia_resiliency_ext.fault_tolerance.launcher import main; main()"


def find_python():
    known = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{PYTHON}*/bin/python")))
    for python in (shutil.which(f"python{PYTHON}"), *known):
        works = python and subprocess.run([python, "-c", "import venv"], check=False,
                                          stderr=subprocess.DEVNULL).returncode == 0
        if works:
            return python
    return None


def installed(build):
    """The interpreter of an environment that has the launcher; None where there is no Python."""
    folder = os.path.join(build, "clients", "nvrx")
    python = os.path.join(folder, "bin", "python")
    if os.path.exists(os.path.join(folder, "ready")):
        return python
    base = find_python()
    if base is None:
        return None
    print(f"test_nvrx: installing nvidia-resiliency-ext {VERSION} and PyTorch into {folder}",
          flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([base, "-m", "venv", folder], check=True)
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", *NEEDS], check=True)
    with tempfile.TemporaryDirectory() as wheels:
        subprocess.run([*pip, "download", "--no-deps", "--only-binary=:all:", "--platform",
                        PLATFORM, "--dest", wheels, f"nvidia-resiliency-ext=={VERSION}"],
                       check=True)
        wheel, = glob.glob(os.path.join(wheels, "*.whl"))
        site, = glob.glob(os.path.join(folder, "lib", "python*", "site-packages"))
        subprocess.run([python, "-m", "zipfile", "-e", wheel, site], check=True)
    with open(os.path.join(folder, "ready"), "w", encoding="utf-8"):
        pass
    return python


class Trial:
    """`with Trial(build, python, "shape@2:1", 5) as trial: trial.run()`."""

    def __init__(self, build, python, fault, restarts):
        self.rollcall = os.path.join(build, "tools", "rollcall")
        self.python = python
        self.fault = fault
        self.restarts = restarts
        self.folder = tempfile.mkdtemp(prefix="rollcall-nvrx-")
        self.directory = os.path.join(self.folder, "run")
        self.service = subprocess.Popen(
            [sys.executable, os.path.join(ROOT, "packaging", "nvrx", "attribution.py"),
             self.directory, "--port", "0", "--rollcall", self.rollcall],
            stdout=subprocess.PIPE, text=True)
        self.endpoint = self.service.stdout.readline().split()[-1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.service.kill()
        self.service.wait()
        self.service.stdout.close()
        if not os.environ.get("ROLLCALL_E2E_KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def run(self):
        """The status of the launcher, and what it printed."""
        train = [os.path.join(ROOT, "examples", "pytorch", "train.py"), "--timeout", "10",
                 "--steps", "3", "--fault", self.fault]
        command = [
            self.rollcall, "run", "--emulate=4", "-q", "-d", self.directory, "--",
            self.python, "-c", LAUNCHER, "--nnodes", "1", "--nproc-per-node", "4",
            "--max-restarts", str(self.restarts), "--ft-attribution-endpoint", self.endpoint,
            "--ft-attribution-stop-action", "no-restart", "--ft-per-cycle-applog-prefix",
            os.path.join(self.folder, "job.log"), *train]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "ROLLCALL_EMULATE_QUIET": "1"}
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              timeout=PATIENCE_S)
        return done.returncode, done.stdout

    def attempts(self):
        names = os.listdir(self.directory) if os.path.isdir(self.directory) else []
        return sorted(name for name in names if name.startswith("attempt-"))

    def verdict(self, attempt):
        done = subprocess.run([self.rollcall, "diff", os.path.join(self.directory, attempt),
                               "--json"], stdout=subprocess.PIPE, text=True, check=False)
        return json.loads(done.stdout)["findings"][0]


def expect_equal(seen, expected, what, output):
    if seen == expected:
        return
    sys.exit(f"test_nvrx: {what}: expected {expected!r}, saw {seen!r}\n{output[-6000:]}")


def a_fault_of_the_program_ends_the_job(build, python):
    with Trial(build, python, "shape@2:1", 5) as trial:
        status, output = trial.run()
        # The launcher does not wait for the answer: a second attempt may have begun.
        expect_equal(trial.verdict("attempt-0")["code"], "RC-COUNT-MISMATCH", "verdict", output)
        expect_equal(status, NOT_AGAIN, "status of the launcher", output)


def a_rank_that_was_killed_is_started_again(build, python):
    with Trial(build, python, "kill@1:1", 1) as trial:
        status, output = trial.run()
        expect_equal(trial.attempts(), ["attempt-0", "attempt-1"], "attempts of the job", output)
        expect_equal(trial.verdict("attempt-0")["code"], "RC-RANK-DEAD", "verdict", output)
        expect_equal(status, 1, "status of the launcher, whose restarts are used up", output)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    python = installed(build)
    if python is None:
        print(f"test_nvrx: skipped: there is no Python {PYTHON}, the only one that version "
              f"{VERSION} of the Extension is built for")
        return SKIPPED
    for test in (a_fault_of_the_program_ends_the_job, a_rank_that_was_killed_is_started_again):
        test(build, python)
        print(f"test_nvrx: holds  {test.__name__.replace('_', ' ')}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
