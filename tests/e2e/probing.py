#!/usr/bin/env python3
"""`rollcall watch`: whether a job hangs, told by the exit status, once or when it comes to it."""
import json
import os
import signal
import subprocess
import sys

import job
from groups import Groups
from job import Job, expect, expect_equal, shape_arguments

LIVES, HANGS, UNUSABLE, UNDECIDED = 0, 1, 2, 3
OF_PROGRAM = 93
# Longer than any test takes: what stands still is young.
PATIENT = ["--patience", "3600"]
IMPATIENT = ["--patience", "1"]
LOOK_CPU_S = 0.1


def probe(run, *options, directory=None):
    done = run.rollcall("watch", "--probe", directory or run.run_directory, *options)
    return done.returncode, done.stdout


def start_groups(run):
    run.start()
    for rank in range(4):
        run.wait_for_steps(rank)


def wait_for(run, wanted, *options):
    """What the first probe says that has this exit status. On a busy machine an earlier one may not
    have been answered in time."""
    said = []

    def has_come():
        status, text = probe(run, *options)
        said.append(text)
        return status == wanted

    run.wait_until(has_come, f"a probe with the exit status {wanted}")
    return said[-1]


def wait_for_hang(run, *options):
    return wait_for(run, HANGS, *options)


def a_healthy_job_passes():
    with Groups("--watch", "0") as run:
        start_groups(run)
        expect_equal(probe(run), (LIVES, "no hang is known of 4 ranks\n"), "the probe")
        run.end()
        status, text = probe(run)
        expect_equal(status, LIVES, "the probe of a job that is over")
        expect("is over: none of its processes is left" in text, text)


def a_hang_fails_without_anybody_who_watches():
    with Groups("--watch", "0") as run:
        start_groups(run)
        run.touch("stuck")
        text = wait_for_hang(run, *IMPATIENT)
        expect("RC-MISSING-CALL" in text and "rank 1" in text, text)
        wait_for(run, OF_PROGRAM, *IMPATIENT, "--exit-by-class")
        expect_equal(probe(run, *PATIENT), (LIVES, "no hang is known of 4 ranks\n"),
                     "the probe of a young wait")
        expect_equal([name for name in os.listdir(run.run_directory)
                      if not name.startswith(os.uname().nodename)], [], "what a probe left")
        run.remove("stuck")
        run.wait_for_steps(0)
        expect_equal(probe(run, *PATIENT)[0], LIVES, "the probe of a job that goes on")
        run.end()


def changes_of(run):
    place = os.path.join(run.run_directory, "incidents")
    folders = os.listdir(place)
    expect_equal(len(folders), 1, f"incidents ({folders})")
    return os.path.join(place, folders[0], "changes.txt")


def a_verdict_on_file_counts_once_it_has_lasted():
    with Groups("--watch", "2") as run:
        start_groups(run)
        run.touch("stuck")
        text = wait_for_hang(run, *PATIENT)
        expect("RC-MISSING-CALL: " in text and "rank 1" in text, text)
        changes = changes_of(run)
        expect("nothing has changed for" in open(changes, encoding="utf-8").read(), "the change")
        os.rename(changes, changes + ".away")
        expect_equal(probe(run, *PATIENT)[0], LIVES, "the probe where the verdict is early")
        os.rename(changes + ".away", changes)
        expect_equal(probe(run, *PATIENT)[0], HANGS, "the probe where it has lasted")
        expect_equal(probe(run, *PATIENT, "--exit-by-class")[0], OF_PROGRAM, "the class")
        run.remove("stuck")
        run.wait_until(lambda: "calls NCCL again" in run.stderr(), "that it is over")
        expect_equal(probe(run, *PATIENT)[0], LIVES, "the probe of a job that goes on")
        run.touch("stuck")
        run.wait_until(lambda: len(os.listdir(os.path.dirname(os.path.dirname(changes)))) == 2,
                       "a second incident")
        wait_for_hang(run, *PATIENT)
        run.kill()
        # Who inherits the ranks of a killed launcher may be slow to take note of their end.
        text = wait_for(run, LIVES, *PATIENT)
        expect("is over" in text, text)


# As torchrun does: where the first attempt is given up, the ranks are ended and started again.
ATTEMPTS = f"""
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 TORCHELASTIC_MAX_RESTARTS=1
attempt() {{
  export TORCHELASTIC_RESTART_COUNT=$1 MASTER_PORT=$2
  RANK=1 LOCAL_RANK=1 {job.MINI_TRAIN} --dp 2 --steps 1000000 $3 & second=$!
  RANK=0 LOCAL_RANK=0 {job.MINI_TRAIN} --dp 2 --steps 1000000 & first=$!
}}
attempt 0 $1 "--fault host-stuck@1:1"
while [ ! -e go ]; do sleep 0.1; done
kill -KILL $first $second
wait
attempt 1 $2
wait
"""


def start_attempts(run, watch):
    os.mkdir(run.run_directory)
    run.command = [job.ROLLCALL, "run", "--emulate=2", "-d", run.run_directory, "--watch", watch,
                   "--", "sh", "-c", f"cd {run.folder}; {ATTEMPTS}", "launcher",
                   str(job.free_port()), str(job.free_port())]
    run.start()


def a_verdict_about_an_earlier_attempt_does_not_count():
    with Job(2) as run:
        start_attempts(run, "2")
        wait_for_hang(run, *PATIENT)
        with open(os.path.join(run.folder, "go"), "wb"):
            pass
        run.wait_until(lambda: probe(run, *PATIENT) == (LIVES, "no hang is known of 2 ranks\n"),
                       "a probe that passes")
        expect("attempt-1" in os.listdir(run.run_directory), "the second attempt was recorded")
        expect(changes_of(run), "the verdict is there still")


def pid_of_rank(run, rank):
    rows = json.loads(run.rollcall("top", run.run_directory, "--json").stdout)["ranks"]
    return next(row["pid"] for row in rows if row["rank"] == rank)


def a_dead_rank_fails():
    with Groups("--watch", "0") as run:
        start_groups(run)
        os.kill(pid_of_rank(run, 1), signal.SIGKILL)
        text = wait_for_hang(run, *IMPATIENT)
        expect("RC-RANK-DEAD" in text, text)
        wait_for_hang(run, *IMPATIENT, "--exit-by-class")  # of unknown class


def who_is_known_to_wait_for_nobody_passes():
    """All is at a standstill, and no rank is known to be the reason."""
    with Job(2, ["--dp", "2", "--steps", "3", "--fault", "wait-outside@1:1"],
             environment={"ROLLCALL_GPU_TIMING": "off"}, options=["--watch", "1"]) as run:
        run.start()
        run.wait_until(lambda: "nothing has advanced" in run.stderr(), "a word of --watch")
        expect_equal(probe(run, *IMPATIENT)[0], LIVES, "the probe")


def forget_machine(run):
    """The rings look as if they had been written on another machine."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        boot = file.read().strip()
    for name in os.listdir(run.run_directory):
        if not name.endswith(".ring"):
            continue
        with open(os.path.join(run.run_directory, name), "r+b") as ring:
            at = ring.read(4096).index(boot)
            ring.seek(at)
            ring.write(b"x" * len(boot))


def ranks_of_another_machine_count_while_they_beat():
    with Groups("--watch", "0") as run:
        start_groups(run)
        run.touch("stuck")
        wait_for_hang(run, *IMPATIENT)
        forget_machine(run)
        text = wait_for_hang(run, *IMPATIENT)
        expect("RC-MISSING-CALL" in text, text)
        run.kill()
        run.wait_until(lambda: "is over" in probe(run, *IMPATIENT)[1], "that nobody beats")
        expect_equal(probe(run, *IMPATIENT)[0], LIVES, "the probe of what is left of it")


def of_nothing_a_probe_passes():
    with Groups() as run:
        status, text = probe(run)
        expect_equal(status, LIVES, "the probe of a directory that is not there")
        expect("is no directory, or is not there yet" in text, text)
        os.mkdir(run.run_directory)
        status, text = probe(run)
        expect_equal(status, LIVES, "the probe of an empty directory")
        expect("nothing is recorded in" in text, text)
        done = run.rollcall("watch", "--probe")
        expect_equal((done.returncode, done.stdout), (UNUSABLE, ""), "a probe of no directory")


def a_look_is_cheap():
    with Job(8, [*shape_arguments(8), "--steps", "1000000"], options=["--watch", "0"]) as run:
        run.start()
        run.wait_until(lambda: len(run.own_pids()) == 8 and run.log_bytes() > 10_000, "8 ranks")
        costs = []
        for _ in range(5):
            look = subprocess.Popen([job.ROLLCALL, "watch", "--probe", run.run_directory],
                                    stdout=subprocess.PIPE, env=run.environment, text=True)
            expect("of 8 ranks" in look.stdout.read(), "the probe of 8 ranks")
            _, status, usage = os.wait4(look.pid, 0)
            look.returncode = os.waitstatus_to_exitcode(status)
            look.stdout.close()
            costs.append(usage.ru_utime + usage.ru_stime)
        expect(min(costs) <= LOOK_CPU_S, f"seconds of a processor that looks took: {costs}")


def without_probe_it_waits():
    with Groups("--watch", "0") as run:
        done = run.rollcall("watch", run.run_directory)
        expect_equal(done.returncode, UNUSABLE, "a directory that is not there")
        expect("is no directory" in done.stderr, done.stderr)
        start_groups(run)
        with subprocess.Popen([job.ROLLCALL, "watch", run.run_directory, *IMPATIENT], text=True,
                              stdout=subprocess.PIPE, env=run.environment,
                              preexec_fn=job.die_with_parent) as watch:
            run.touch("stuck")
            text = watch.stdout.read()
            expect_equal(watch.wait(job.PATIENCE_S), HANGS, f"exit status ({text})")
        expect("RC-MISSING-CALL" in text, text)
        run.remove("stuck")
        run.end()
        done = run.rollcall("watch", run.run_directory)
        expect_equal(done.returncode, LIVES, f"exit status ({done.stdout})")
        expect("is over" in done.stdout, done.stdout)


def of_a_job_that_has_not_begun_it_tells_and_gives_up_when_told():
    with Groups("--watch", "0") as run:
        done = run.rollcall("watch", run.run_directory, "--start-within", "0.2")
        expect_equal(done.returncode, UNDECIDED, "a directory that does not come")
        expect("is not there yet; waiting for the job" in done.stderr, done.stderr)
        expect("nothing was recorded in" in done.stdout, done.stdout)
        os.mkdir(run.run_directory)
        done = run.rollcall("watch", run.run_directory, "--start-within", "0.2")
        expect_equal(done.returncode, UNDECIDED, "a directory that stays empty")
        expect_equal(done.stderr.count("waiting for the job's first NCCL call"), 1, done.stderr)
        expect_equal(run.rollcall("watch", "--probe", "--start-within", "1",
                                  run.run_directory).returncode, UNUSABLE, "a probe that waits")
        with subprocess.Popen([job.ROLLCALL, "watch", run.run_directory], env=run.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=job.die_with_parent) as watch:
            try:
                line = watch.stderr.readline()
                expect("waiting for the job's first NCCL call" in line, line)
                start_groups(run)
                # On a slow machine it is told again.
                while "waiting for the job's first NCCL call" in line:
                    line = watch.stderr.readline()
                expect("runs; waiting until it hangs or is over" in line, line)
                expect_equal(watch.poll(), None, "exit status of the watch, which goes on")
            finally:
                watch.kill()
        run.end()
        # A time that bounds the start alone.
        done = run.rollcall("watch", run.run_directory, "--start-within", "0")
        expect_equal((done.returncode, done.stderr), (LIVES, ""), "of a job that is over")


def between_two_attempts_it_waits():
    with Job(2) as run:
        start_attempts(run, "0")
        run.wait_until(lambda: "of 2 ranks" in probe(run, *PATIENT)[1], "2 ranks")
        with subprocess.Popen([job.ROLLCALL, "watch", run.run_directory, *PATIENT],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env=run.environment, preexec_fn=job.die_with_parent) as watch:
            line = watch.stderr.readline()
            expect("runs; waiting until it hangs or is over" in line, line)
            with open(os.path.join(run.folder, "go"), "wb"):
                pass
            run.wait_until(lambda: "attempt-1" in os.listdir(run.run_directory), "a second attempt")
            run.wait_until(lambda: "of 2 ranks" in probe(run, *PATIENT)[1], "2 ranks again")
            expect_equal(watch.poll(), None, "exit status of the watch, which goes on")
            watch.kill()


RANKS = f"""
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=$1
RANK=1 LOCAL_RANK=1 {job.MINI_TRAIN} --dp 2 --steps 1000000 $2 &
RANK=0 LOCAL_RANK=0 {job.MINI_TRAIN} --dp 2 --steps 1000000 &
wait
"""


def start_ranks(run, directory, fault):
    run.environment["ROLLCALL_RUN_ID"] = "run1"
    run.command = [job.ROLLCALL, "run", "--emulate=2", "-d", directory, "--watch", "2", "--", "sh",
                   "-c", RANKS, "ranks", str(job.free_port()), fault]
    run.start()


def a_verdict_about_ranks_that_are_gone_does_not_count():
    """As in a pod: started again, in the same directory and under the same run id."""
    with Job(2) as run, Job(2) as again:
        start_ranks(run, run.run_directory, "--fault host-stuck@1:1")
        # A directory may be given with a slash at its end.
        run.wait_until(lambda: probe(run, *PATIENT, directory=run.run_directory + "/")[0] == HANGS,
                       "a probe that fails")
        run.kill()
        start_ranks(again, run.run_directory, "")
        run.wait_until(lambda: probe(run, *PATIENT) == (LIVES, "no hang is known of 2 ranks\n"),
                       "a probe that passes")
        changes_of(run)  # the verdict is there still


if __name__ == "__main__":
    sys.exit(job.main([
        ("a probe of a healthy job passes, and of one that is over", a_healthy_job_passes),
        ("a probe of a job that hangs fails, without a verdict on file, and passes while the wait "
         "is young", a_hang_fails_without_anybody_who_watches),
        ("a verdict on file counts once it has lasted, until the job goes on or is over",
         a_verdict_on_file_counts_once_it_has_lasted),
        ("a verdict about an earlier attempt does not count",
         a_verdict_about_an_earlier_attempt_does_not_count),
        ("a probe fails where a rank is dead and others wait", a_dead_rank_fails),
        ("a probe passes where no rank is known to hold others up",
         who_is_known_to_wait_for_nobody_passes),
        ("ranks of another machine count as long as their recorders show that they run",
         ranks_of_another_machine_count_while_they_beat),
        ("a probe passes where nothing is recorded, or no directory is there",
         of_nothing_a_probe_passes),
        ("a look at 8 ranks takes a tenth of a second at most", a_look_is_cheap),
        ("watch waits for a hang, or for the end", without_probe_it_waits),
        ("watch says that a job has not begun, and gives up when told to",
         of_a_job_that_has_not_begun_it_tells_and_gives_up_when_told),
        ("watch does not take the time between two attempts for the end",
         between_two_attempts_it_waits),
        ("a verdict about ranks that are gone does not count for those in their place",
         a_verdict_about_ranks_that_are_gone_does_not_count),
    ]))
