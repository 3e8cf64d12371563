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
        text = run.rollcall("top", run.run_directory).stdout.splitlines()
        expect("4 ranks on 1 host" in text[0] and "1 behind" in text[0], text[0])
        expect(text[2].startswith(" RANK HOST"), text[2])
        expect(text[3].split()[0] == "0" and "AllReduce" in text[3], text[3])
        run.remove("stuck")
        run.end()
        expect_equal({row["liveness"] for row in rows_of(run)}, {"exited"}, "life at the end")


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
        ("top says what is no run directory", of_nothing_it_says_so),
    ]))
