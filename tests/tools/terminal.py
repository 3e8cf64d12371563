#!/usr/bin/env python3
"""`rollcall run` in an interactive shell: pipelines, loops, Ctrl-C, Ctrl-Z, and what the shell sees
of the job's end. argv: the command, the folder of the stand-in for the recorder."""
import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

COMMAND, LIBRARIES = map(os.path.abspath, sys.argv[1:3])
PATIENCE_S = 60
PROMPT = "ready> "
RUN = f"{COMMAND} run -q -- "
# Prints how often it was interrupted once it is given a line.
COUNTER = """import signal
count = []
signal.signal(signal.SIGINT, lambda *_: count.append(1))
signal.signal(signal.SIGTERM, lambda *_: print("told to end", flush=True))
print("begun", flush=True)
line = input()
print(f"got {line} interrupted {len(count)}\\n", end="", flush=True)
"""


def environment():
    names = {name: value for name, value in os.environ.items()
             if not name.startswith(("ROLLCALL_", "SLURM_", "OMPI_", "PMI", "LD_PRELOAD"))}
    return {**names, "ROLLCALL_LIB_DIR": LIBRARIES, "PS1": PROMPT, "TERM": "dumb", "HISTFILE": ""}


class Shell:
    """bash -i on a terminal of its own, in a folder of its own."""

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="rollcall-test-")
        self.seen = ""
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.chdir(self.folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], environment())
        self.expect(PROMPT)
        self.command("stty -echo; bind 'set enable-bracketed-paste off' 2>/dev/null")
        return self

    def __exit__(self, *exception):
        os.close(self.terminal)
        os.kill(self.pid, signal.SIGHUP)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def send(self, text):
        os.write(self.terminal, text.encode())

    def expect(self, text):
        """Reads until `text`, and returns what came in front of it."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                raise AssertionError(f"{text!r} did not come: {self.seen!r}")
            self.seen += os.read(self.terminal, 4096).decode(errors="replace")
        before, _, self.seen = self.seen.partition(text)
        return before

    def command(self, line):
        """What a command that ends by itself prints."""
        self.send(line + "\n")
        return self.expect(PROMPT)

    def states(self):
        """Name and state of each process of the terminal's session."""
        found = []
        for folder in os.listdir("/proc"):
            try:
                with open(f"/proc/{folder}/stat", encoding="utf-8") as file:
                    name, _, rest = file.read().rpartition(")")
            except OSError:
                continue
            fields = rest.split()
            if len(fields) > 3 and fields[3] == str(self.pid):
                found.append((name.partition("(")[2], fields[0]))
        return found

    def wait_until_stopped(self, processes):
        """That many, or one more: `rollcall run` may just have had a helper."""
        deadline = time.monotonic() + PATIENCE_S
        while sum(state == "T" for _, state in self.states()) < processes:
            assert time.monotonic() < deadline, f"these should stand: {self.states()}"
            time.sleep(0.02)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)


def keys_reach_a_pager_behind_the_job():
    with Shell() as shell:
        # As less does: the keys come from the terminal, not from the pipe.
        shell.send(RUN + "sh -c 'echo text; exec sleep 600' | "
                   "sh -c 'read line; echo begun; read key </dev/tty; echo key $key $line'\n")
        shell.expect("begun")
        shell.send("q\n")
        shell.expect("key q text")
        shell.send("\x03")
        shell.expect(PROMPT)
        assert "Stopped" not in shell.command("jobs"), "the pipeline was stopped"
        assert "a b" in shell.command(RUN + "echo b | sed 's/^/a /'")


def ctrl_c_ends_a_loop():
    with Shell() as shell:
        shell.write("loop.sh",
                    f"for i in 1 2 3; do {RUN} sh -c 'echo begun; exec sleep 600'; done\n")
        shell.send("bash loop.sh\n")
        shell.expect("begun")
        shell.send("\x03")
        between = shell.expect(PROMPT)
        assert "begun" not in between, f"the loop went on: {between!r}"
        assert "status 130" in shell.command("echo status $?"), "the script did not die of SIGINT"


def a_loop_goes_on_as_it_would_after_a_job_that_takes_ctrl_c():
    with Shell() as shell:
        shell.write("count.py", COUNTER)
        shell.write("loop.sh", f"for i in 1 2; do {RUN} {sys.executable} count.py; done\n")
        shell.send("bash loop.sh; echo status $?\n")
        for _ in range(2):
            shell.expect("begun")
            shell.send("\x03")
            shell.send("end\n")
            shell.expect("got end interrupted 1")
        shell.expect("status 0")


def ctrl_c_reaches_the_job_once_and_never_kills_a_program_that_uses_it():
    with Shell() as shell:
        shell.write("count.py", COUNTER)
        shell.send(RUN + f"{sys.executable} count.py\n")
        shell.expect("begun")
        shell.send("\x03")
        shell.send("x\n")
        shell.expect("got x interrupted 1\r\n")
        shell.expect(PROMPT)


def ctrl_z_stops_the_job_and_fg_brings_it_back():
    with Shell() as shell:
        shell.send(RUN + "sh -c 'echo begun; read line; echo line $line'\n")
        shell.expect("begun")
        shell.send("\x1a")
        shell.expect("Stopped")
        shell.expect(PROMPT)
        # The job stands, too: its shell is stopped.
        shell.wait_until_stopped(2)
        shell.send("fg\n")
        shell.send("word\n")
        shell.expect("line word")
        shell.expect(PROMPT)


def a_job_in_the_background_stays_there():
    with Shell() as shell:
        shell.send(RUN + "sh -c 'read line; echo line $line' &\n")
        shell.expect(PROMPT)
        # It wants to read, and waits for the terminal as any job does.
        shell.send("while ! jobs | grep -q Stopped; do sleep 0.05; done; fg\n")
        shell.send("word\n")
        shell.expect("line word")


def a_signal_to_the_command_reaches_the_job():
    with Shell() as shell:
        shell.write("count.py", COUNTER)
        shell.send(f"mkfifo fifo; {RUN} {sys.executable} count.py <>fifo & echo started $!.\n")
        pid = int(shell.expect(".\r\n").split()[-1])
        shell.expect("begun")
        os.kill(pid, signal.SIGTERM)
        shell.expect("told to end")
        shell.send("echo end >fifo\n")
        shell.expect("got end interrupted 0")


def a_group_that_is_interrupted_without_a_terminal_ends():
    loop = f"for i in 1 2 3; do {RUN} sh -c 'echo begun; exec sleep 600'; done"
    with tempfile.TemporaryDirectory() as folder:
        with subprocess.Popen(["bash", "-c", loop], cwd=folder, env=environment(), text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              start_new_session=True) as script:
            assert script.stdout.readline() == "begun\n"
            os.killpg(script.pid, signal.SIGINT)
            assert script.stdout.read() == "", "the loop went on"
        assert script.returncode == -signal.SIGINT, script.returncode


def the_command_ends_by_the_signal_that_ended_the_job():
    for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGABRT):
        for options in ([], ["-n", "2"]):
            with tempfile.TemporaryDirectory() as folder:
                done = subprocess.run([COMMAND, "run", "-q", *options, "--", "sh", "-c",
                                       f"kill -{int(number)} $$"], cwd=folder, env=environment(),
                                      stderr=subprocess.DEVNULL, start_new_session=True,
                                      timeout=PATIENCE_S, check=False)
                assert done.returncode == -number, (number, options, done.returncode)
                left = [name for name in os.listdir(folder) if name.startswith("core")]
                assert not left, left


def an_ignored_hangup_is_not_passed_on():
    with tempfile.TemporaryDirectory() as folder:
        ready = os.path.join(folder, "ready")
        with subprocess.Popen(["nohup", COMMAND, "run", "-q", "--", "sh", "-c",
                               f"setsid sh -c 'sleep 0.5; echo late >late' & echo >{ready}; "
                               "while [ ! -e over ]; do sleep 0.05; done; exit 4"],
                              cwd=folder, env=environment(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              start_new_session=True) as run:
            wait_for(lambda: os.path.exists(ready))
            for _ in range(4):
                os.kill(run.pid, signal.SIGHUP)
            with open(os.path.join(folder, "over"), "w", encoding="utf-8"):
                pass
            assert run.wait(PATIENCE_S) == 4, run.returncode
            # Nobody asked for an end, so that nothing is ended with it.
            wait_for(lambda: os.path.exists(os.path.join(folder, "late")))


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


TESTS = [
    keys_reach_a_pager_behind_the_job,
    ctrl_c_ends_a_loop,
    a_loop_goes_on_as_it_would_after_a_job_that_takes_ctrl_c,
    ctrl_c_reaches_the_job_once_and_never_kills_a_program_that_uses_it,
    ctrl_z_stops_the_job_and_fg_brings_it_back,
    a_job_in_the_background_stays_there,
    a_signal_to_the_command_reaches_the_job,
    a_group_that_is_interrupted_without_a_terminal_ends,
    the_command_ends_by_the_signal_that_ended_the_job,
    an_ignored_hangup_is_not_passed_on,
]

if __name__ == "__main__":
    failed = 0
    for test in TESTS:
        if len(sys.argv) > 3 and sys.argv[3] not in test.__name__:
            continue
        start = time.monotonic()
        try:
            test()
        except AssertionError as failure:
            failed += 1
            print(f"FAILED  {test.__name__}: {failure}", flush=True)
            continue
        print(f"holds  {test.__name__}  ({time.monotonic() - start:.1f} s)", flush=True)
    sys.exit(1 if failed else 0)
