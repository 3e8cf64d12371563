#!/usr/bin/env python3
"""Each classic of examples/pytorch yields its verdict, and a healthy run of each style none.

    pytorch_faults.py PYTHON [BACKEND [WORDS OF A SENTENCE]]

PYTHON is an interpreter that has PyTorch.
"""
import os
import sys

import pytorch_job
from pytorch_job import Failure, PytorchJob, Zygote, expect, expect_equal, job

sys.path.insert(0, pytorch_job.EXAMPLES)

import faults  # noqa: E402

RANKS = 4
STEP = 1
CULPRIT = {"rank0-only": 0, "new-group": 3, "crossed-pipeline": 1}
STEPS = {"new-group": 0}
# A cycle has no single culprit.
SEVERAL = ("group-order", "crossed-pipeline")
STYLES = ("ddp", "fsdp2", "tensor", "pipeline", "moe", "mixed")


def healthy(zygote, backend, style):
    with PytorchJob(zygote, RANKS, ["--parallel", style, "--backend", backend]) as run:
        run.wait_for_end_or_hang()
        expect_equal(run.statuses(), [0] * RANKS, f"exit statuses\n{run.describe()}")
        report = run.diff()
        expect_equal([finding["code"] for finding in report["findings"]], ["RC-IN-LOCKSTEP"],
                     f"the verdict\n{run.diff_text()}")
        expect_equal(report["run"]["ranks"], RANKS, "ranks of the run")


def faulty(zygote, backend, kind):
    culprit = CULPRIT.get(kind.name, 2)
    fault = f"{kind.name}@{culprit}:{STEPS.get(kind.name, STEP)}"
    with PytorchJob(zygote, RANKS, ["--fault", fault, "--backend", backend]) as run:
        ended = run.wait_for_end_or_hang(planted_by=culprit)
        expect("planted" in run.output(culprit), f"no fault was planted\n{run.describe()}")
        expect(not ended, f"the job does not hang\n{run.describe()}\n{run.diff_text()}")
        run.kill()
        leading = run.diff()["findings"][0]
        if os.environ.get("ROLLCALL_E2E_SHOW"):
            print(run.diff_text(), flush=True)
        try:
            expect(leading["code"] in kind.codes, f"{leading['code']} is none of {kind.codes}")
            culprits = sorted(one["rank"] for one in leading["culprits"])
            expect(culprit in culprits, f"rank {culprit} is not among the culprits {culprits}")
            if kind.name not in SEVERAL:
                expect_equal(culprits, [culprit], "the culprits")
        except Failure as failure:
            raise Failure(f"{fault}: {failure}\n{run.diff_text()}\n{run.describe()}") from None


def main():
    python = sys.argv[1]
    backend = sys.argv[2] if len(sys.argv) > 2 else "nccl"
    zygote = Zygote(python)
    tests = [(f"a healthy {style} job on {backend} is in lockstep",
              lambda style=style: healthy(zygote, backend, style)) for style in STYLES]
    tests += [(f"{kind.name} on {backend}: a rank that {kind.description} is named",
               lambda kind=kind: faulty(zygote, backend, kind)) for kind in faults.KINDS.values()]
    sys.argv[1:] = sys.argv[3:4]
    try:
        return job.main(tests)
    finally:
        zygote.close()


if __name__ == "__main__":
    sys.exit(main())
