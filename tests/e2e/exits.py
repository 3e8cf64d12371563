#!/usr/bin/env python3
"""What is on file of a process that ends by itself, by whatever way, and what is said of it."""
import os
import sys

import job
from job import Job, expect, expect_equal

HERE = os.path.dirname(os.path.abspath(__file__))
GUEST = os.path.join(job.BUILD, "tests", "e2e", "guest")
PRINTED = ["before 64", "forked child 22", "child of vfork 23", "behind 128"]


def leave(how, status):
    """The lines of `dump` of a process that ends so, and whose children ended by _exit before."""
    with Job(1, ["leave-by-" + how], program=[GUEST]) as run:
        expect_equal(run.run(), status, f"status by {how} ({run.describe()})")
        expect_equal(run.stdout().splitlines(), PRINTED, f"stdout by {how}")
        lines = run.dump()
        runs = [line for line in lines if line["type"] == "run"]
        expect_equal(len(runs), 1, f"files by {how}")
        expect_equal(len([line for line in lines if line.get("op") == "AllReduce"]), 2,
                     f"calls in front of and behind the children, by {how}")
        last_ns = max(line["called_ns"] for line in lines if line["type"] == "op")
        exits = [line for line in lines if line.get("name") == "ProcessExit"]
        return runs[0]["exited_ns"], exits, last_ns


def every_way_leaves_one_record():
    for how in ("exit", "_exit", "_Exit", "quick_exit"):
        exited_ns, exits, last_ns = leave(how, 31)
        expect_equal(len(exits), 1, f"exit events by {how}")
        expect(exited_ns is not None, f"no exit record by {how}")
        expect(exited_ns > last_ns and exits[0]["time_ns"] > last_ns,
               f"the exit by {how} comes before the last call, which its children have not made")


def killed_leaves_none():
    exited_ns, exits, _ = leave("kill", -9)
    expect_equal((exited_ns, exits), (None, []), "exit record of a process that was killed")


DOUBT = {
    "off": ("RC-INSUFFICIENT", "ranks 1-3 ended by themselves then, and rank 0 has not"),
    "events": ("RC-STUCK-OUTSIDE", "ranks 1-3 ended by themselves, rank 0 did not"),
}


def ranks_that_are_through_are_not_dead():
    """By os._exit, while rank 0 goes on by itself: as a rank that saves a checkpoint does."""
    for timing in ("off", "events"):
        with Job(4, program=[sys.executable, os.path.join(HERE, "leaving_client.py")]) as run:
            run.command += [run.folder]
            run.environment["ROLLCALL_GPU_TIMING"] = timing
            run.start()
            run.wait_until(lambda: count_of_exits(run) == 3, "the end of three ranks")
            # However long a busy machine took until here.
            young = run.diff("--stalled-after", "600")
            expect_equal((codes_of(young), young["status"]), (["RC-IN-LOCKSTEP"], 0),
                         f"the verdict while rank 0 goes on ({young})")
            # Where that takes longer than a call may, it is the one that stays to be looked at.
            run.wait_until(lambda: codes_of(run.diff("--stalled-after", "1")) != ["RC-IN-LOCKSTEP"],
                           "doubt about the rank that stays")
            late = run.diff("--stalled-after", "1")
            # What the GPUs of the others did last is on no file; that of rank 0 is through, which
            # needs their part.
            code, words = DOUBT[timing]
            expect_equal(codes_of(late), [code], f"the doubt ({late})")
            expect(words in late["findings"][0]["summary"], f"the doubt is about rank 0 ({late})")
            with open(os.path.join(run.folder, "end"), "wb"):
                pass
            expect_equal(run.wait(), 0, f"the job's status ({run.describe()})")
            expect_equal(codes_of(run.diff()), ["RC-IN-LOCKSTEP"], "the verdict at the end")


def rank_that_leaves_early_is_named():
    """With any status, and by exit as by _exit."""
    for how, status in (("_exit", 0), ("_exit", 3), ("exit", 0), ("exit", 3)):
        with Job(3, program=[sys.executable, os.path.join(HERE, "leaving_client.py")]) as run:
            run.command += [run.folder, how, status]
            run.command = [str(word) for word in run.command]
            run.start()
            run.wait_until(lambda: count_of_exits(run) == 1, "the end of rank 2")
            run.wait_until(lambda: "RC-RANK-DEAD" in codes_of(run.diff("--stalled-after", "1")),
                           "the verdict on the rank that left")
            first = run.diff("--stalled-after", "1")["findings"][0]
            expect_equal((first["code"], [culprit["rank"] for culprit in first["culprits"]]),
                         ("RC-RANK-DEAD", [2]), f"the verdict by {how}({status})")
            expect("ended by itself" in first["summary"], f"by {how}({status}): {first}")


def count_of_exits(run):
    if not os.path.isdir(run.run_directory):
        return 0
    done = run.rollcall("dump", run.run_directory)
    return done.stdout.count('"name":"ProcessExit"')


def codes_of(report):
    return [finding["code"] for finding in report["findings"]]


# mini_train to its end, and a status that is not its own.
CRASHING = ["sh", "-c", 'test "$RANK" = 1 || sleep 2; "$@"; exit $((RANK == 1 ? 3 : 0))', "sh"]
TRAIN = ["--dp", "2", "--steps", "2"]


def a_crash_is_not_in_lockstep():
    """All calls are equal; only `rollcall run` knows that the job failed."""
    with Job(2, TRAIN, program=[*CRASHING, job.MINI_TRAIN]) as run:
        expect_equal(run.run(), 3, f"status ({run.describe()})")
        report = run.diff()
        lead = report["findings"][0]
        expect_equal((codes_of(report)[0], report["status"]), ("RC-INSUFFICIENT", 3),
                     f"the verdict ({report})")
        expect("RC-IN-LOCKSTEP" not in codes_of(report), f"it is in lockstep, too: {report}")
        expect("rank 1" in lead["summary"] and "exit status 3" in lead["summary"], str(lead))
        expect("nothing to do" not in lead["next"], str(lead))
        expect_equal([culprit["rank"] for culprit in lead["culprits"]], [1], "who failed first")
        expect_equal([(end["status"], end["signal"], end["by"]) for end in report["run"]["ends"]],
                     [(3, None, "job")], "what is on file of the end")
        expect("RC-INSUFFICIENT" in run.stderr(), f"`rollcall run` says so itself: {run.stderr()}")
    with Job(2, TRAIN) as run:
        # One command, as a launcher is; it ends itself by a signal.
        arguments = " ".join(run.command[run.command.index("--") + 1:])
        ranks = " & ".join(f"RANK={rank} LOCAL_RANK={rank} {arguments}" for rank in range(2))
        run.command = [job.ROLLCALL, "run", "--emulate=2", "-d", run.run_directory, "--", "sh",
                       "-c", f"{ranks} & wait; kill -KILL $$"]
        run.environment.update(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                               MASTER_PORT=str(job.free_port()))
        expect_equal(run.run(), -9, f"status ({run.describe()})")
        lead = run.diff()["findings"][0]
        expect("the job was killed by signal 9" in lead["summary"], str(lead))
        expect_equal(lead["culprits"], [], "no rank is known")


def a_good_end_leaves_no_word():
    with Job(2, TRAIN) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        expect_equal([name for name in os.listdir(run.run_directory) if name.endswith(".ended")],
                     [], "what says how the job ended")
        report = run.diff()
        expect_equal((codes_of(report), report["status"], report["run"]["ends"]),
                     (["RC-IN-LOCKSTEP"], 0, []), "the verdict")


if __name__ == "__main__":
    sys.exit(job.main([
        ("a process that ends by itself leaves one exit record, and its children none in its file",
         every_way_leaves_one_record),
        ("a process that is killed leaves no exit record", killed_leaves_none),
        ("ranks that end by os._exit behind the last collective are not called dead",
         ranks_that_are_through_are_not_dead),
        ("a rank that ends by itself too early is named, whatever the way and the status",
         rank_that_leaves_early_is_named),
        ("of a job that crashed nobody says that it was in lockstep", a_crash_is_not_in_lockstep),
        ("a job that ended with 0 leaves no word of its end", a_good_end_leaves_no_word),
    ]))
