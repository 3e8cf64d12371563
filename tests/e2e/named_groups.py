#!/usr/bin/env python3
"""What the job calls its groups: rollcall_nccl.torch puts it on file, and verdicts say it."""
import os
import subprocess
import sys

import job
from job import Job, expect, expect_equal

HERE = os.path.dirname(os.path.abspath(__file__))
MODULES = os.path.join(os.path.dirname(os.path.dirname(HERE)), "packaging", "python")


def start(*words):
    run = Job(4, program=[sys.executable, os.path.join(HERE, "named_groups_client.py")],
              environment={"PYTHONPATH": MODULES})
    run.command += [run.folder, *words]
    return run


def communicators_have_the_descriptions():
    with start() as run:
        expect_equal(run.run(), 0, f"status ({run.describe()})")
        names = {line["name"] for line in run.dump() if line["type"] == "comm"}
        expect_equal(names, {"default_pg:0", "mesh_dp:a0a0a0a0", "mesh_dp:a1a1a1a1",
                             "mesh_tp:b0b0b0b0", "mesh_tp:b1b1b1b1", ("c0" * 20)[:39]},
                     "names of communicators")
        expect_equal([finding["code"] for finding in run.diff()["findings"]], ["RC-IN-LOCKSTEP"],
                     "the verdict")
        files = sorted(name for name in os.listdir(run.run_directory) if name.endswith(".groups"))
        rings = sorted(name for name in os.listdir(run.run_directory) if name.endswith(".ring"))
        expect_equal([name[:-len(".groups")] for name in files],
                     [name[:-len(".ring")] for name in rings], "files beside the rings")
        modes = {os.stat(os.path.join(run.run_directory, name)).st_mode & 0o777 for name in files}
        expect_equal(modes, {0o600}, "their rights")


def a_verdict_says_the_description():
    with start("skip") as run:
        run.start()
        diff = ["diff", run.run_directory, "--stalled-after", "1"]
        run.wait_until(lambda: run.rollcall(*diff).returncode == 1, "a verdict about a hang")
        run.kill()
        leading = run.diff()["findings"][0]
        expect_equal([one["rank"] for one in leading["culprits"]], [3], "the culprits")
        expect(" of mesh_tp:b1b1b1b1" in leading["summary"], leading["summary"])


def it_does_nothing_where_nothing_is_to_be_done():
    """Without PyTorch; and in a process that is not recorded, with what stands in for it."""
    program = ("import named_groups_client, sys\n"
               "groups = named_groups_client.Groups() if 'with' in sys.argv else None\n"
               "import rollcall_nccl.torch\n"
               "if groups: groups.add('0', 'default_pg')\n"
               "print(rollcall_nccl.torch.name_groups(), end='')\n")
    for words in ([], ["with"]):
        done = subprocess.run([sys.executable, "-c", program, *words], text=True,
                              capture_output=True, check=False, timeout=job.PATIENCE_S,
                              env=job.clean_environment({"PYTHONPATH": f"{MODULES}:{HERE}"}))
        expect_equal((done.returncode, done.stdout, done.stderr), (0, "False", ""),
                     f"status and output {words}")


def main():
    return job.main([
        ("communicators have the descriptions of PyTorch's groups",
         communicators_have_the_descriptions),
        ("a verdict says the description of a group", a_verdict_says_the_description),
        ("without PyTorch or a record the module does nothing",
         it_does_nothing_where_nothing_is_to_be_done),
    ])


if __name__ == "__main__":
    sys.exit(main())
