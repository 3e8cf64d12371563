#!/usr/bin/env python3
"""What follows a verdict: hosts to leave out."""
import os
import sys

import job
from groups import Groups
from job import Job, expect, expect_equal

HOST = os.uname().nodename

TRAINING = ["--dp", "2", "--steps", "3"]
HANGING = [*TRAINING, "--fault", "host-stuck@1:1"]
# The memory of rank 1's GPU. mini_train then aborts, and its peers end; a client of Groups ends
# alone, and its peer waits for ever.
FAULTY = {"ROLLCALL_EMULATE_FAULT": "ecc@1:9"}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def a_faulty_gpu_excludes_its_host():
    with Groups("--watch", "1", "--on-hang", "end", "--exit-by-class", environment=FAULTY) as run:
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
        folder, = os.listdir(place)
        expect(f"{HOST} is added to {excluded}" in read(place, folder, "changes.txt"), folder)


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
        run.command[at:at] = ["--watch", "1", "--on-hang", "end", "--exit-by-class",
                              "--exclude-file", excluded]
        expect_equal(run.run(), 93, f"status ({run.describe()})")
        expect(not os.path.exists(excluded), "a list of hosts for a fault of the program")
    with Job(2, TRAINING) as run:
        excluded = os.path.join(run.folder, "excluded")
        at = run.command.index("--")
        run.command[at:at] = ["--exclude-file", excluded]
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        expect(not os.path.exists(excluded), "a list of hosts for a healthy job")


if __name__ == "__main__":
    sys.exit(job.main([
        ("the host of a faulty GPU is excluded, once, and is what the exit status says",
         a_faulty_gpu_excludes_its_host),
        ("it is, too, where the job fails before anybody says that it hangs",
         a_job_that_fails_at_once_excludes_its_host_too),
        ("no host is excluded for a fault of the program, or for nothing",
         a_program_excludes_nobody),
    ]))
