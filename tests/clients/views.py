"""What the tests have in common that hand a file of Rollcall to those who read such files."""
import importlib.util
import os
import subprocess
import sys

BUILD = os.environ.get("ROLLCALL_E2E_BUILD", "build/release")
ROLLCALL = os.path.join(BUILD, "tools", "rollcall")
SKIPPED = 77
PATIENCE_S = 300

failures = []


def check(holds, sentence, found=""):
    print(f"passed  {sentence}" if holds else f"FAILED  {sentence}: {found}", flush=True)
    if not holds:
        failures.append(sentence)


def find_packages(*names):
    """Goes on in the interpreter that has them, where this one has not."""
    absent = [name for name in names if not importlib.util.find_spec(name)]
    if not absent:
        return
    python = os.path.join(BUILD, "clients", "views", "bin", "python")
    if os.path.exists(python) and not os.environ.get("ROLLCALL_VIEWS_FOUND"):
        os.environ["ROLLCALL_VIEWS_FOUND"] = "1"
        os.execv(python, [python, *sys.argv])
    print(f"skipped  without {' and '.join(absent)}; `make test-clients` installs what is needed")
    sys.exit(SKIPPED)


def record(run, ranks, *command, watch=()):
    """A job on emulated GPUs."""
    subprocess.run([ROLLCALL, "run", "-q", "-n", str(ranks), "--emulate", *watch, "-d", run, "--",
                    *command], timeout=PATIENCE_S, check=False, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)


def record_training(run, ranks, *options):
    """Pipelines send and receive. It ends once it hangs."""
    record(run, ranks, os.path.join(BUILD, "examples", "mini_train"), "--pp", "2", *options,
           watch=("--watch", "3", "--kill-on-hang"))
