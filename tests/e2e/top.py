#!/usr/bin/env python3
"""`rollcall top` beside a job with a rank that is behind: for programs, in a pipe, by a person."""
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time

import job
from groups import Groups
from job import expect, expect_equal

ROWS, COLUMNS = 24, 80


def rows_of(run):
    done = run.rollcall("top", run.run_directory, "--json")
    expect_equal(done.returncode, 0, f"exit status ({done.stderr})")
    report = json.loads(done.stdout)
    expect_equal(report["schema"], "rollcall.top/1", "the schema")
    return report["ranks"]


def start_with_one_behind(run):
    run.start()
    for rank in range(4):
        run.wait_for_steps(rank)
    run.touch("stuck")
    run.wait_until(lambda: rows_of(run)[0]["lag"] == 0 and any(row["lag"] for row in rows_of(run)),
                   "a rank that is behind")


def who_waits_and_who_is_behind():
    with Groups("--watch", "0") as run:
        start_with_one_behind(run)
        # The recorder looks at the ends of what GPUs ran now and then.
        run.wait_until(lambda: ("through", 1) in {(row["state"], row["rank"])
                                                  for row in rows_of(run)},
                       "that rank 1 is known to be through")
        rows = {row["rank"]: row for row in rows_of(run)}
        expect_equal(sorted(rows), [0, 1, 2, 3], "ranks")
        expect_equal((rows[0]["lag"], rows[1]["lag"]), (0, 1), "how far they are behind")
        expect(rows[0]["state"] in ("in call", "on GPU"), f"rank 0 waits: {rows[0]}")
        expect_equal((rows[1]["state"], rows[1]["op"]), ("through", "AllReduce"), "rank 1")
        expect_equal(rows[0]["comm"], rows[1]["comm"], "the communicator of a pair")
        expect(rows[0]["comm"] != rows[2]["comm"], "that of the other pair")
        expect_equal({row["liveness"] for row in rows.values()}, {"running"}, "life")
        older = rows[0]["age_ns"]
        run.wait_until(lambda: rows_of(run)[0]["age_ns"] > older, "that its call grows older")
        expect_equal(rows_of(run)[0]["rank"], 0, "the worst comes first")
        text = []

        def says_one_is_behind():
            text[:] = run.rollcall("top", run.run_directory).stdout.splitlines()
            # A rank of the other pair, which goes on, is behind for moments.
            return "4 ranks on 1 host" in text[0] and " 1 behind" in text[0] if text else False
        run.wait_until(says_one_is_behind, "that one rank is behind")
        # What the steps cost stands between the two, where it is known.
        header = next(at for at, line in enumerate(text) if line.startswith(" RANK HOST"))
        first = text[header + 1]
        expect(first.split()[0] == "0" and "AllReduce" in first, first)
        run.remove("stuck")
        run.end()
        expect_equal({row["liveness"] for row in rows_of(run)}, {"exited"}, "life at the end")


def what_a_rank_costs():
    """A rank that sleeps in every step, as long as a busy machine hides nothing of it."""
    arguments = ["--dp", "4", "--tp", "1", "--pp", "1", "--steps", "1000", "--bucket-elements",
                 "256", "--fault", "straggler@2:0", "--straggler-delay-ms", "200"]
    with job.Job(4, arguments, environment={"ROLLCALL_OVERHEAD_BUDGET": "100"}) as run:
        run.start()
        report = {}

        def is_charged():
            done = run.rollcall("top", run.run_directory, "--json")
            report.update(json.loads(done.stdout) if done.stdout else {})
            return any(row["charged_share"] for row in report.get("ranks", []))
        run.wait_until(is_charged, "that a rank is charged")
        shares = {row["rank"]: row["charged_share"] for row in report["ranks"]}
        expect_equal(max(shares, key=lambda rank: shares[rank] or 0), 2, f"the dearest of {shares}")
        expect("steps of emulated GPUs were compared" in report["steps"], report["steps"])
        text = ""

        def says_what_steps_cost():
            nonlocal text
            text = run.rollcall("top", run.run_directory).stdout
            return "were compared" in text
        run.wait_until(says_what_steps_cost, "the line about the steps")
        expect("were compared" in text.splitlines()[1], text)
        header = next(line for line in text.splitlines() if line.startswith(" RANK HOST"))
        expect("  LAG CHARGED LINE" in header, header)
        run.kill()


def read_until(terminal, condition, what):
    text, deadline = "", time.monotonic() + job.PATIENCE_S
    while not condition(text):
        expect(time.monotonic() < deadline, f"{what} did not come: {text!r}")
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                text += os.read(terminal, 65536).decode(errors="replace")
            except OSError:
                break
    expect(condition(text), f"{what} did not come: {text!r}")
    return text


def on_a_terminal_it_redraws_until_q():
    with Groups("--watch", "0") as run:
        start_with_one_behind(run)
        terminal, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        before = termios.tcgetattr(theirs)
        top = subprocess.Popen([job.ROLLCALL, "top", run.run_directory, "--interval", "0.2"],
                               stdin=theirs, stdout=theirs, stderr=theirs, env=run.environment,
                               preexec_fn=job.die_with_parent)
        text = read_until(terminal, lambda text: text.count(" RANK HOST") >= 3, "a third screen")
        for line in text.split("\x1b[H")[1].split("\r\n")[:-1]:
            shown = line.replace("\x1b[K", "")
            expect(len(shown) <= COLUMNS, f"a line of {len(shown)} columns: {shown!r}")
        os.write(terminal, b"q")
        read_until(terminal, lambda text: "\x1b[?1049l" in text, "the end of its screen")
        expect_equal(top.wait(job.PATIENCE_S), 0, "exit status")
        expect_equal(termios.tcgetattr(theirs), before, "what the terminal is set to")
        os.close(terminal)
        os.close(theirs)
        run.remove("stuck")
        run.end()


def of_nothing_it_says_so():
    with Groups() as run:
        done = run.rollcall("top", run.run_directory)
        expect_equal((done.returncode, done.stdout), (2, ""), "a directory that is not there")
        expect("is no directory" in done.stderr, done.stderr)


if __name__ == "__main__":
    sys.exit(job.main([
        ("top tells who waits, who is behind, and who is gone", who_waits_and_who_is_behind),
        ("on a terminal top redraws, and leaves it as it was", on_a_terminal_it_redraws_until_q),
        ("top tells which share of a step each rank costs", what_a_rank_costs),
        ("top says what is no run directory", of_nothing_it_says_so),
    ]))
