#!/usr/bin/env python3
"""`rollcall run` beside a job that hangs: it says so, ends it when told to, passes on signals."""
import json
import os
import signal
import sys

import job
from groups import Groups
from job import Job, expect, expect_equal

TRAINING = ["--dp", "2", "--steps", "3"]
HANGING = [*TRAINING, "--fault", "host-stuck@1:1"]


def expect_all_gone(run):
    run.wait_until(lambda: not run.own_pids(), "the end of every rank")


def watch_names_the_verdict():
    with Job(2, HANGING, options=["--watch", "1"]) as run:
        run.start()
        run.wait_until(lambda: "RC-MISSING-CALL" in run.stderr() + run.stdout(),
                       "the verdict of --watch")
        expect(run.running(), "--watch alone must not end the job")
        expect("RC-MISSING-CALL" not in run.stdout(), "the job's stdout is the job's alone")


def watch_can_end_the_job():
    with Job(2, HANGING, options=["--watch", "1", "--kill-on-hang"]) as run:
        run.start()
        expect(run.wait() != 0, "a job that was ended for hanging has not succeeded")
        expect("RC-MISSING-CALL" in run.stderr(), f"no verdict\n{run.describe()}")
        expect_all_gone(run)


def wrong_results_are_no_hang():
    """What a watcher asks for: a job that computes nonsense and goes on is not to be ended."""
    with Job(2, ["--dp", "2", "--steps", "3", "--fault", "redop@1:1"]) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        asked = {options: run.rollcall("diff", run.run_directory, *options).returncode
                 for options in ((), ("--only-hangs",))}
        expect_equal(asked, {(): 1, ("--only-hangs",): 4}, run.diff_text())
    with Job(2, HANGING) as run:
        run.start()
        expect(not run.wait_for_end_or_hang(), f"the job does not hang ({run.describe()})")
        run.kill()
        hangs = run.rollcall("diff", run.run_directory, "--only-hangs")
        expect_equal(hangs.returncode, 1, run.diff_text())


def a_young_wait_is_told_as_one():
    """Of a running job: the same hang, asked about early, late, and when nobody can call again."""
    with Job(2, HANGING) as run:
        run.start()
        expect(not run.wait_for_end_or_hang(), f"the job does not hang ({run.describe()})")
        young = "RC-WAITING", 3
        run.wait_until(lambda: verdict_of(run, "--stalled-after", "600") == young,
                       "the wait is told while it is young")
        lead = run.diff("--stalled-after", "600")["findings"][0]
        expect_equal((lead["culprits"], lead["severity"]), ([], "info"), "nobody is accused")
        expect("RC-MISSING-CALL" in lead["summary"], f"what it will be: {lead}")
        expect_equal(verdict_of(run, "--stalled-after", "1"), ("RC-MISSING-CALL", 1), "the hang")
        run.kill()
        run.wait_until(lambda: verdict_of(run, "--stalled-after", "600") ==
                       ("RC-MISSING-CALL", 1), "the verdict on a job that is over")


def verdict_of(run, *options):
    report = run.diff(*options)
    return report["findings"][0]["code"], report["status"]


def watch_tells_that_nothing_moves():
    """No rank is the reason that the files tell: the job is left alone, and that is said."""
    with Job(2, ["--dp", "2", "--steps", "3", "--fault", "wait-outside@1:1"],
             environment={"ROLLCALL_GPU_TIMING": "off"},
             options=["--watch", "1", "--kill-on-hang"]) as run:
        run.start()
        run.wait_until(lambda: "nothing has advanced" in run.stderr(), "a word of --watch")
        run.wait_until(lambda: "Next:" in run.stderr(), "the rest of it")
        expect("the job is not ended" in run.stderr(), run.stderr())
        expect("RC-INSUFFICIENT" in run.stderr(), run.stderr())
        expect(run.running(), "the job was ended")


def watch_takes_back_what_was_early():
    with Job(2, ["--dp", "2", "--steps", "1000000"], options=["--watch", "1"]) as run:
        run.start()
        run.wait_until(lambda: len(run.own_pids()) == 2, "both ranks")
        run.wait_until(lambda: run.log_bytes() > 10_000, "some calls")
        stopped = max(run.own_pids())
        os.kill(stopped, signal.SIGSTOP)
        run.wait_until(lambda: "RC-RANK-STOPPED" in run.stderr(), "the verdict of --watch")
        expect("calls NCCL again" not in run.stderr(), run.stderr())
        os.kill(stopped, signal.SIGCONT)
        run.wait_until(lambda: "calls NCCL again" in run.stderr(), "that it was early")
        expect_equal(run.stderr().count("calls NCCL again"), 1, "sentences")


def watch_is_quiet_about_a_healthy_job():
    with Job(2, ["--dp", "2", "--steps", "2"], options=["--watch", "30"]) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        expect("RC-" not in run.stderr(), f"a verdict about a healthy job\n{run.stderr()}")


def a_short_time_limit_names_who_is_missing():
    """Shorter than `diff` waits before it calls a call of a running job missing."""
    with Job(2, HANGING, options=["--timeout", "12"]) as run:
        run.start()
        expect_equal(run.wait(), 124, f"status ({run.describe()})")
        expect("RC-MISSING-CALL" in run.stderr(), f"no verdict\n{run.describe()}")
        expect("no verdict" not in run.stderr(), f"two verdicts\n{run.describe()}")


# Starts two ranks, the second with "$1"; where it fails, the first is killed a while later.
ATTEMPT = f"""
attempt() {{
  WORLD_SIZE=2 RANK=0 LOCAL_RANK=0 {job.MINI_TRAIN} --dp 2 --steps 3 & first=$!
  WORLD_SIZE=2 RANK=1 LOCAL_RANK=1 {job.MINI_TRAIN} --dp 2 --steps 3 $1 ||
    {{ sleep 1; kill -KILL $first; }}
  wait $first
}}
export MASTER_ADDR=127.0.0.1 TORCHELASTIC_MAX_RESTARTS=1
"""


def watch_waits_for_a_restart():
    """A launcher takes longer than the watch to start again what has failed."""
    attempts = "; sleep 10; ".join(
        f"export MASTER_PORT={job.free_port()} TORCHELASTIC_RESTART_COUNT={number}; "
        f"attempt '{fault}'"
        for number, fault in enumerate(("--fault exit@1:1", "")))
    with Job(2) as run:
        run.command = [job.ROLLCALL, "run", "--emulate=2", "-d", run.run_directory, "--watch", "8",
                       "--kill-on-hang", "--", "sh", "-c", ATTEMPT + attempts]
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        expect("RC-" not in run.stderr(), f"a verdict between two attempts\n{run.stderr()}")
        expect("attempt-1" in os.listdir(run.run_directory), "the second attempt was recorded")


def signals_are_passed_on():
    with Job(2, HANGING) as run:
        run.start()
        run.wait_until(lambda: run.planted_fault(1), "the planted fault")
        os.kill(run.process.pid, signal.SIGTERM)
        expect(run.wait() != 0, "a job that was told to end has not succeeded")
        expect_all_gone(run)


def watch_finds_a_group_that_hangs_beside_another():
    with Groups("--watch", "2") as run:
        run.start()
        for rank in range(4):
            run.wait_for_steps(rank)
        run.touch("stuck")
        run.wait_until(lambda: "Next:" in run.stderr(), "the verdict of --watch")
        expect("one communicator has not advanced" in run.stderr(), run.stderr())
        expect("RC-MISSING-CALL" in run.stderr() and "rank 1" in run.stderr(), run.stderr())
        run.wait_for_steps(2)
        expect("calls NCCL again" not in run.stderr(), run.stderr())
        run.remove("stuck")
        run.wait_until(lambda: "calls NCCL again" in run.stderr(), "that it is over")
        run.end()
        expect_equal(run.stderr().count("The verdict:"), 1, f"verdicts ({run.stderr()})")


def start_and_get_stuck(run):
    run.start()
    for rank in range(4):
        run.wait_for_steps(rank)
    run.touch("stuck")


def kill_on_hang_ends_all_for_one_group():
    with Groups("--watch", "2", "--kill-on-hang") as run:
        run.start()
        for rank in range(4):
            run.wait_for_steps(rank)
        run.touch("stuck")
        expect_equal(run.wait(), 1, f"status ({run.describe()})")
        expect("RC-MISSING-CALL" in run.stderr(), run.stderr())


def on_hang_says_what_follows():
    with Groups("--watch", "4", "--on-hang", "end", "--exit-by-class") as run:
        start_and_get_stuck(run)
        expect_equal(run.wait(), 93, f"status of a hang of class program ({run.describe()})")
        expect("ending the job (--on-hang end)" in run.stderr(), run.stderr())
    with Groups("--watch", "1", "--on-verdict", "echo said by the hook", "--on-hang", "log") as run:
        start_and_get_stuck(run)
        folder = os.path.join(run.run_directory, "incidents")
        run.wait_until(lambda: os.path.isdir(folder) and "nothing has changed for" in "".join(
            read(one, "changes.txt") for one in incidents_of(run)
            if os.path.exists(os.path.join(one, "changes.txt"))), "a verdict that has lasted")
        run.remove("stuck")
        run.wait_until(lambda: "calls NCCL again" in run.stderr(), "that it is over")
        run.end()
        expect("said by the hook" not in run.stderr(), run.stderr())
    for options, what in ((["--on-hang", "notify"], "--on-verdict COMMAND"),
                          (["--on-hang", "end", "--watch", "0"], "--on-hang end needs the watch"),
                          (["--on-hang", "end", "--kill-on-hang"], "--kill-on-hang"),
                          (["--on-hang", "panic"], "--on-hang")):
        with Job(2, HANGING, options=options) as run:
            expect_equal(run.run(), 2, f"status ({run.describe()})")
            expect(what in run.stderr(), run.stderr())


def a_job_that_fails_by_itself_has_the_status_of_its_class():
    """mini_train gives up, as PyTorch's watchdog ends a job that hangs: one rank with 6, and it
    aborts, so that the other may end with 4 before."""
    giving_up = [*TRAINING, "--fault", "missing-call@1:1", "--hang-timeout", "3"]
    for options, statuses in (([], (4, 6)), (["--exit-by-class"], (93,))):
        with Job(2, giving_up, options=["--watch", "0", *options]) as run:
            expect(run.run() in statuses, f"status, not one of {statuses} ({run.describe()})")
            expect("RC-MISSING-CALL" in run.stderr(), run.stderr())
            asked = {options: run.rollcall("diff", run.run_directory, *options).returncode
                     for options in ((), ("--exit-by-class",))}
            expect_equal(asked, {(): 1, ("--exit-by-class",): 93}, run.diff_text())
    # Of unknown class, and of no verdict, it keeps its own.
    with Job(2, [*TRAINING, "--fault", "abort@1:1"],
             options=["--exit-by-class"]) as run:
        expect(run.run() in (4, 5), f"status of a rank that aborted ({run.describe()})")
        expect("RC-ABORT-CASCADE" in run.stderr(), run.stderr())
    with Job(2, ["--dp", "2", "--steps", "1"], options=["--exit-by-class"]) as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
    with Job(2, HANGING, options=["--exit-by-class", "--timeout", "4"]) as run:
        expect_equal(run.run(), 124, f"status ({run.describe()})")


def watch_is_quiet_about_ranks_that_pause_alike():
    """A checkpoint, an evaluation: the pair is through with what it called, the other goes on."""
    with Groups("--watch", "1", "--kill-on-hang") as run:
        run.start()
        for rank in range(4):
            run.wait_for_steps(rank)
        run.touch("pause")
        before = run.steps(0)
        run.wait_for_steps(2, 150)  # at least three seconds
        expect(run.steps(0) <= before + 20, "ranks 0 and 1 have paused")
        run.remove("pause")
        run.wait_for_steps(0)
        run.end()
        expect("RC-" not in run.stderr(), f"a verdict about a healthy job\n{run.stderr()}")


def the_watch_needs_no_option():
    with Groups() as run:
        run.start()
        for rank in range(4):
            run.wait_for_steps(rank)
        run.touch("stuck")
        run.wait_until(lambda: "RC-MISSING-CALL" in run.stderr(), "the verdict by default")
        expect("the verdict comes in" in run.stderr(), f"no word before it: {run.stderr()}")
        expect(run.running(), "nobody is ended for it")
    with Job(2, HANGING, options=["--watch", "0", "--kill-on-hang"]) as run:
        expect_equal(run.run(), 2, f"status ({run.describe()})")
        expect("--watch 0" in run.stderr(), run.stderr())


def incidents_of(run):
    place = os.path.join(run.run_directory, "incidents")
    return [os.path.join(place, name) for name in sorted(os.listdir(place))]


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def a_verdict_is_kept_with_what_became_of_it():
    with Groups("--watch", "2") as run:
        run.start()
        for rank in range(4):
            run.wait_for_steps(rank)
        run.touch("stuck")
        run.wait_until(lambda: "Saved in " in run.stderr(), "the incident")
        folder, = incidents_of(run)
        expect(folder.endswith("-RC-MISSING-CALL") and f"Saved in {folder}" in run.stderr(),
               f"the folder {folder}\n{run.stderr()}")
        incident = json.loads(read(folder, "incident.json"))
        expect_equal([incident[key] for key in ("schema", "code", "class")],
                     ["rollcall.incident/1", "RC-MISSING-CALL", "program"], "the incident")
        expect_equal(incident["verdict"]["findings"][0]["summary"], incident["summary"], "verdict")
        expect("nccl_version" in incident["environment"]["common"], str(incident["environment"]))
        text = read(folder, "verdict.txt")
        expect("RC-MISSING-CALL, hang" in text and "  > seq " in text, text)
        expect("Rank 1 stands at groups_client.py:" in run.stderr(), run.stderr())
        expect("groups_client.py" in read(folder, "stacks.txt"), read(folder, "stacks.txt"))
        expect_equal(json.loads(read(folder, "stacks.json"))["ranks"], "0-3", "ranks with stacks")
        run.remove("stuck")
        run.wait_until(lambda: "calls NCCL again" in run.stderr(), "that it is over")
        changes = read(folder, "changes.txt")
        expect("the job calls NCCL again, after" in changes, changes)
        name = os.path.basename(folder)
        line, = [one for one in run.diff()["incidents"] if name in one]
        expect("calls NCCL again" in line, line)
        run.end()
        expect(name in run.diff_text(), run.diff_text())
    with Groups("--watch", "2") as run:
        run.start()
        for rank in range(4):
            run.wait_for_steps(rank)
        run.touch("stuck")
        run.wait_until(lambda: "Saved in " in run.stderr(), "the incident")
        run.kill()  # as a scheduler does
        folder, = incidents_of(run)
        expect_equal(json.loads(read(folder, "incident.json"))["code"], "RC-MISSING-CALL", "code")


def what_became_of_a_verdict_is_written_into_no_file_of_somebody_else():
    """Who may write into the run directory can put anything in the place of changes.txt."""
    for kind, put in (("a link", os.symlink), ("a second name", os.link),
                      ("a pipe", lambda victim, place: os.mkfifo(place))):
        with Groups("--watch", "2") as run:
            start_and_get_stuck(run)
            run.wait_until(lambda: "Saved in " in run.stderr(), "the incident")
            folder, = incidents_of(run)
            victim = os.path.join(run.folder, "victim")
            with open(victim, "w", encoding="utf-8") as file:
                file.write("as it was")
            put(victim, os.path.join(folder, "put"))
            os.rename(os.path.join(folder, "put"), os.path.join(folder, "changes.txt"))
            run.remove("stuck")
            run.wait_until(lambda: "calls NCCL again" in run.stderr(), "that it is over")
            run.end()
            expect_equal(read(victim), "as it was", f"what {kind} leads to")


# Tells what it gets, and fails: that is nobody's affair.
HOOK = """
{ echo "$ROLLCALL_VERDICT $ROLLCALL_VERDICT_CLASS $ROLLCALL_VERDICT_CERTAIN"
  echo "$ROLLCALL_INCIDENT $ROLLCALL_CULPRIT_HOSTS"; cat; } >> %s; echo said by the hook; exit 9
"""


def a_command_is_run_at_the_verdict():
    with Groups("--watch", "2") as run:
        told = os.path.join(run.folder, "told")
        at = run.command.index("--watch")
        run.command[at:at] = ["--on-verdict", HOOK % told]
        run.start()
        for rank in range(4):
            run.wait_for_steps(rank)
        run.touch("stuck")
        run.wait_until(lambda: os.path.exists(told) and read(told).endswith("}\n"), "the command")
        verdict, place, document = read(told).split("\n", 2)
        code, origin, certain = verdict.split()
        folder, = incidents_of(run)
        expect_equal((code, origin, place.split()), ("RC-MISSING-CALL", "program",
                                                     [folder, os.uname().nodename]), "environment")
        expect(certain in ("0", "1"), verdict)
        expect_equal(json.loads(document), json.loads(read(folder, "incident.json")), "its input")
        run.remove("stuck")
        run.wait_until(lambda: "calls NCCL again" in run.stderr(), "that it is over")
        run.touch("stuck")
        run.wait_until(lambda: len(incidents_of(run)) == 2, "a second incident")
        run.wait_until(lambda: "is not started: it ran less than" in run.stderr(), "the cool-down")
        expect_equal(len(read(told)), len(verdict) + len(place) + len(document) + 2, "runs")
        run.remove("stuck")
        run.end()
        expect("said by the hook" in run.stderr() and "said by the hook" not in run.stdout(),
               run.stderr())


def a_healthy_job_runs_no_command():
    with Groups("--watch", "1") as run:
        told = os.path.join(run.folder, "told")
        at = run.command.index("--watch")
        run.command[at:at] = ["--on-verdict", f"touch {told}"]
        run.start()
        run.wait_for_steps(0)
        run.touch("pause")
        run.wait_for_steps(2, 100)
        run.remove("pause")
        run.end()
        expect(not os.path.exists(told), "the command was run")
        expect(not os.path.exists(os.path.join(run.run_directory, "incidents")), "an incident")


if __name__ == "__main__":
    sys.exit(job.main([
        ("--watch names the verdict of a job that hangs", watch_names_the_verdict),
        ("--kill-on-hang ends a job that hangs", watch_can_end_the_job),
        ("a hang and wrong results are told apart for a watcher", wrong_results_are_no_hang),
        ("a wait that is too young for a verdict is told as one", a_young_wait_is_told_as_one),
        ("--watch tells that nothing moves where no rank is known to be the reason, and ends "
         "nothing", watch_tells_that_nothing_moves),
        ("--watch takes back what was early", watch_takes_back_what_was_early),
        ("--timeout names who is missing within a short limit, too",
         a_short_time_limit_names_who_is_missing),
        ("--watch says nothing about a healthy job", watch_is_quiet_about_a_healthy_job),
        ("--kill-on-hang does not end a job that is being started again",
         watch_waits_for_a_restart),
        ("SIGTERM reaches every rank", signals_are_passed_on),
        ("a group of ranks that hangs is found while another goes on",
         watch_finds_a_group_that_hangs_beside_another),
        ("--kill-on-hang ends a job of which one group hangs", kill_on_hang_ends_all_for_one_group),
        ("--on-hang says what follows a hang", on_hang_says_what_follows),
        ("--exit-by-class gives the class of its verdict to a job that fails by itself",
         a_job_that_fails_by_itself_has_the_status_of_its_class),
        ("a pause of all ranks of a group is no alarm",
         watch_is_quiet_about_ranks_that_pause_alike),
        ("the watch needs no option, and --watch 0 turns it off", the_watch_needs_no_option),
        ("a verdict is kept, with what became of it", a_verdict_is_kept_with_what_became_of_it),
        ("what became of a verdict is written into no file of somebody else",
         what_became_of_a_verdict_is_written_into_no_file_of_somebody_else),
        ("--on-verdict runs a command, and not again soon", a_command_is_run_at_the_verdict),
        ("--on-verdict leaves a healthy job alone", a_healthy_job_runs_no_command),
    ]))
