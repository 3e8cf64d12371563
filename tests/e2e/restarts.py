#!/usr/bin/env python3
"""What follows a verdict: hosts to leave out, and launchers that start the job again, or do not."""
import os
import subprocess
import sys

import job
from groups import Groups
from job import Job, expect, expect_equal

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DRAIN = os.path.join(REPOSITORY, "packaging", "slurm", "drain.sh")
TRAIN = os.path.join(REPOSITORY, "examples", "slurm", "train.sbatch")
HOST = os.uname().nodename
SHORT_HOST = HOST.split(".", maxsplit=1)[0]

# Longer than ranks come apart at their start on a busy machine.
WATCH = "6"
TRAINING = ["--dp", "2", "--steps", "3"]
HANGING = [*TRAINING, "--fault", "host-stuck@1:1"]
# The memory of rank 1's GPU. mini_train then aborts, and its peers end; a client of Groups ends
# alone, and its peer waits for ever.
FAULTY = {"ROLLCALL_EMULATE_FAULT": "ecc@1:9"}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def write_program(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def a_faulty_gpu_excludes_its_host():
    with Groups("--watch", WATCH, "--on-hang", "end", "--exit-by-class", environment=FAULTY) as run:
        excluded = os.path.join(run.folder, "excluded")
        with open(excluded, "w", encoding="utf-8") as file:
            file.write("another")
        at = run.command.index("--")
        run.command[at:at] = ["--exclude-file", excluded]
        expect_equal(run.run(), 94, f"status ({run.describe()})")
        expect("RC-CUDA-ERROR" in run.stderr(), run.stderr())
        expect_equal(read(excluded), f"another\n{HOST}\n", "the list")
        expect(f"{HOST} is added to {excluded}, for RC-CUDA-ERROR is certain and of class node."
               in run.stderr(), run.stderr())
        place = os.path.join(run.run_directory, "incidents")
        folders = os.listdir(place)
        expect_equal(len(folders), 1, f"incidents ({folders})")
        changes = read(place, folders[0], "changes.txt")
        expect(f"{HOST} is added to {excluded}" in changes, changes)


def a_job_that_fails_at_once_excludes_its_host_too():
    with Job(2, TRAINING, environment=FAULTY) as run:
        excluded = os.path.join(run.folder, "excluded")
        at = run.command.index("--")
        run.command[at:at] = ["--exit-by-class", "--exclude-file", excluded]
        expect_equal(run.run(), 94, f"status ({run.describe()})")
        expect_equal(read(excluded), f"{HOST}\n", "the list")
    with Job(2, TRAINING, environment=FAULTY) as run:
        expect_equal(run.run(), 4, f"status without an option ({run.describe()})")
        expect(not os.path.exists(os.path.join(run.run_directory, "incidents")), "an incident")


def a_program_excludes_nobody():
    with Job(2, HANGING) as run:
        excluded = os.path.join(run.folder, "excluded")
        at = run.command.index("--")
        run.command[at:at] = ["--watch", WATCH, "--on-hang", "end", "--exit-by-class",
                              "--exclude-file", excluded]
        expect_equal(run.run(), 93, f"status ({run.describe()})")
        expect(not os.path.exists(excluded), "a list of hosts for a fault of the program")
    with Job(2, TRAINING) as run:
        excluded = os.path.join(run.folder, "excluded")
        at = run.command.index("--")
        run.command[at:at] = ["--exclude-file", excluded]
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        expect(not os.path.exists(excluded), "a list of hosts for a healthy job")


def drain(folder, hosts, origin="node", certain="1", refuses=False, job_id="7"):
    """The exit status of drain.sh, and what it has asked of Slurm."""
    asked = os.path.join(folder, "asked")
    write_program(folder, "scontrol", f'for word; do echo "$word"; done >> {asked}; '
                                      f'exit {int(refuses)}\n')
    environment = {"PATH": f"{folder}:{os.environ['PATH']}", "ROLLCALL_VERDICT": "RC-CUDA-ERROR",
                   "ROLLCALL_VERDICT_CLASS": origin, "ROLLCALL_VERDICT_CERTAIN": certain,
                   "ROLLCALL_INCIDENT": "/run/incidents/1", "ROLLCALL_CULPRIT_HOSTS": hosts}
    if job_id:
        environment["SLURM_JOB_ID"] = job_id
    done = subprocess.run([DRAIN], env=environment, text=True, capture_output=True, check=False)
    lines = read(asked).splitlines() if os.path.exists(asked) else []
    if lines:
        os.remove(asked)
    return done.returncode, lines


def drain_asks_slurm_for_a_certain_verdict_of_class_node():
    drained = ["update", "NodeName=gpu1,gpu2", "State=DRAIN",
               "Reason=rollcall: RC-CUDA-ERROR, /run/incidents/1"]
    with Job(1) as run:
        hosts = "gpu1.example.org,gpu2"
        expect_equal(drain(run.folder, hosts), (0, [*drained, "requeue", "7"]), "in a job")
        expect_equal(drain(run.folder, hosts, job_id=""), (0, drained), "outside of one")
        expect_equal(drain(run.folder, hosts, refuses=True), (1, drained), "where Slurm refuses")
        for origin in ("program", "fabric", "outside", "unknown", ""):
            expect_equal(drain(run.folder, hosts, origin), (0, []), f"of class {origin}")
        expect_equal(drain(run.folder, hosts, certain="0"), (0, []), "of one that is not certain")
        for hostile in ("", "gpu[1-999]", "gpu1 State=DOWN", "a\nb", "gpu1;reboot", "$(id)"):
            expect_equal(drain(run.folder, hostile), (1, []), f"of hosts {hostile!r}")


def the_command_of_a_verdict_drains():
    with Groups("--watch", WATCH, "--on-verdict", DRAIN, "--on-hang", "end",
                environment=FAULTY) as run:
        asked = os.path.join(run.folder, "asked")
        write_program(run.folder, "scontrol", f'for word; do echo "$word"; done >> {asked}\n')
        run.environment["PATH"] = f"{run.folder}:{os.environ['PATH']}"
        expect_equal(run.run(), 1, f"status ({run.describe()})")
        expect(os.path.exists(asked), f"Slurm was asked for nothing ({run.describe()})")
        expect_equal(read(asked).splitlines()[:3],
                     ["update", f"NodeName={SHORT_HOST}", "State=DRAIN"], "what was asked")


def sbatch(run, arguments, **environment):
    """The exit status of the batch script, what it printed, and how it was submitted again."""
    asked = os.path.join(run.folder, "asked")
    write_program(run.folder, "srun", 'shift; exec "$@"\n')
    write_program(run.folder, "sbatch", f'{{ echo "$TRAIN_TRIES"; for word; do echo "$word"; done; '
                                        f'}} > {asked}\n')
    write_program(run.folder, "rollcall",
                  f'if [ "$1" = run ]; then shift; set -- run -n 2 --emulate=2 --watch {WATCH} '
                  f'"$@"; fi\n'
                  f'exec {job.ROLLCALL} "$@"\n')
    done = subprocess.run(
        [TRAIN, job.MINI_TRAIN, *arguments], cwd=run.folder, text=True, capture_output=True,
        check=False, timeout=job.PATIENCE_S,
        env={**run.environment, "PATH": f"{run.folder}:{os.environ['PATH']}", "SLURM_JOB_ID": "7",
             **environment})
    lines = read(asked).splitlines() if os.path.exists(asked) else None
    return done.returncode, done.stdout, lines


def a_batch_script_starts_again_what_a_restart_may_help():
    with Job(2) as run:
        expect_equal(sbatch(run, TRAINING)[::2], (0, None), "of a job that went well")
    with Job(2) as run:
        status, text, again = sbatch(run, HANGING)
        expect_equal((status, again), (93, None), f"of a fault of the program ({text})")
        expect("RC-MISSING-CALL" in text and "a restart would repeat it" in text, text)
    with Job(2) as run:
        status, text, again = sbatch(run, TRAINING, **FAULTY)
        expect(status != 0 and again is not None, f"of a faulty GPU: {status}\n{text}")
        expect_equal(again, ["2", f"--exclude={SHORT_HOST}", "--export=ALL", TRAIN,
                             job.MINI_TRAIN, *TRAINING], "how it is submitted again")
        expect("RC-CUDA-ERROR" in text, text)
    with Job(2) as run:
        status, text, again = sbatch(run, TRAINING, TRAIN_TRIES="1", **FAULTY)
        expect(status != 0 and again is None, f"of the last try: {status}, {again}\n{text}")


def each_try_of_a_batch_script_has_a_directory_of_its_own():
    """What is in the environment, the next try gets, too. Names that a user may have for something
    else mean nothing."""
    with Job(2) as run:
        runs = os.path.join(run.folder, "runs")
        for number in ("7", "8"):
            status, text, _ = sbatch(run, ["--dp", "2", "--steps", "1"], TRAIN_RUNS=runs,
                                     RUN="/nonexistent", EXCLUDE="/nonexistent", TRIES="0",
                                     SLURM_JOB_ID=number)
            expect_equal(status, 0, text)
        expect_equal(sorted(os.listdir(runs)), ["7", "8"], "run directories")


# What torchrun does with ranks that it starts through `rollcall run`: where one fails, all others
# are ended, and all are started again, at most once.
TORCHRUN = """
export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 TORCHELASTIC_MAX_RESTARTS=1 TORCHELASTIC_RUN_ID=job
for TORCHELASTIC_RESTART_COUNT in 0 1; do
  export TORCHELASTIC_RESTART_COUNT
  eval "export MASTER_PORT=\\$PORT$TORCHELASTIC_RESTART_COUNT"
  for RANK in 1 0; do
    export RANK LOCAL_RANK=$RANK
    "$@" $(if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then echo --fault host-stuck@1:1; fi) &
    eval "rank$RANK=$!"
  done
  wait $rank0 && wait $rank1 && exit 0
  status=$?
  echo "attempt $TORCHELASTIC_RESTART_COUNT ended with $status"
  kill $rank1
  wait $rank1
done
exit $status
"""


def a_launcher_starts_the_ranks_again():
    with Job(2) as run:
        run.environment.update(PORT0=str(job.free_port()), PORT1=str(job.free_port()))
        run.command = ["sh", "-c", TORCHRUN, "torchrun", job.ROLLCALL, "run", "--emulate=2", "-d",
                       run.run_directory, "--watch", WATCH, "--on-hang", "end", "--exit-by-class",
                       "--", job.MINI_TRAIN, *TRAINING]
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        expect("attempt 0 ended with 93" in run.stdout(), run.describe())
        expect("attempt 1 ended" not in run.stdout(), run.describe())
        expect("attempt-1" in os.listdir(run.run_directory), str(os.listdir(run.run_directory)))


if __name__ == "__main__":
    sys.exit(job.main([
        ("the host of a faulty GPU is excluded, once, and is what the exit status says",
         a_faulty_gpu_excludes_its_host),
        ("it is, too, where the job fails before anybody says that it hangs",
         a_job_that_fails_at_once_excludes_its_host_too),
        ("no host is excluded for a fault of the program, or for nothing",
         a_program_excludes_nobody),
        ("drain.sh asks Slurm for a certain verdict of class node, and for no other",
         drain_asks_slurm_for_a_certain_verdict_of_class_node),
        ("a verdict's command drains the host of a faulty GPU", the_command_of_a_verdict_drains),
        ("a batch script starts again what a restart may help, without the hosts that are blamed",
         a_batch_script_starts_again_what_a_restart_may_help),
        ("each try of a batch script has a run directory of its own",
         each_try_of_a_batch_script_has_a_directory_of_its_own),
        ("a launcher starts ranks again that were ended for a hang",
         a_launcher_starts_the_ranks_again),
    ]))
