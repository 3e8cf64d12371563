#!/usr/bin/env python3
"""Hangs as people reported them: who is named, for what, at which line, and what is not said.

    reported_hangs.py PYTHON [WORDS OF A SENTENCE]

PYTHON is an interpreter that has PyTorch. The jobs are in reported/, each with its reference.
"""
import os
import sys
from dataclasses import dataclass

from pytorch_job import HERE, Failure, PytorchJob, Zygotes, expect, expect_equal, job

# What is true of no job here: all ranks are on file, all run until they are killed or end.
FALSE_OF_ALL = ("left no file", "recorder did not run", "default_pg", "was started",
                "communicator rank", "1 are ", "1 later positions")


@dataclass(frozen=True)
class Case:
    name: str               # of the script
    codes: tuple            # any of these
    culprits: tuple
    seq: int = -1           # of the first culprit, where the place is a matter of fact
    # Words of the script's line from which the culprit's call comes, where it has to be named.
    line: str = ""
    said: tuple = ()        # in the first sentence
    not_said: tuple = ()    # anywhere
    also_said: tuple = ()   # anywhere
    confidence: tuple = ("certain", "likely")
    ranks: int = 4
    has_twin: bool = False  # whether the healthy version is run as well

    def path(self):
        return os.path.join(HERE, "reported", f"{self.name}.py")

    def sentence(self):
        with open(self.path(), encoding="utf-8") as file:
            return file.readline().strip().strip('"')

    def site(self):
        """"reported/best_loss.py:14", of the only line that holds these words."""
        with open(self.path(), encoding="utf-8") as file:
            numbers = [number for number, text in enumerate(file, 1) if self.line in text]
        expect_equal(len(numbers), 1, f"lines of {self.name} with {self.line!r}")
        return f"reported/{self.name}.py:{numbers[0]}"


CASES = (
    Case("best_loss", ("RC-COUNT-MISMATCH",), (0,), 39, "parameter.full_tensor()",
         ("rank 0 made 4 calls more than ranks 1-3",), has_twin=True),
    Case("save_barrier", ("RC-MISSING-CALL",), (0,), 4, "        save(ranks)",
         ("rank 0 made AllReduce of 1 float32",), has_twin=True),
    Case("local_leaders", ("RC-OP-MISMATCH",), (2,), 4,
         said=("rank 2 called AllReduce", "where ranks 0-1,3 called Broadcast")),
    Case("more_elements", ("RC-COUNT-MISMATCH",), (0,), 0,
         said=("rank 0 called AllReduce of 8192", "ranks 1-7 called AllReduce of 4096"),
         not_said=("left out", "left that"), confidence=("certain",), ranks=8),
    Case("local_patience", ("RC-OP-MISMATCH",), (1,), 20, "dist.barrier",
         ("rank 1 called AllReduce of 1 float32", "ranks 0,2-3 called AllReduce of 136"),
         has_twin=True),
    Case("skipped_norm", ("RC-MISSING-CALL",), (2,), 7, "first(ranks.ones",
         ("rank 2 called AllGather of 17 float32", "ranks 0-1,3 called AllGather of 25"),
         confidence=("likely",)),
    Case("rollouts", ("RC-OP-MISMATCH", "RC-MISSING-CALL"), (1,), 18, "dist.all_gather_into_tensor",
         ("rank 1 called AllGather of 3 float32", "ranks 0,2-3 called AllReduce"), has_twin=True),
    Case("uneven_gather", ("RC-COUNT-MISMATCH",), (3,), 16, "dist.all_gather(",
         ("rank 3 called Broadcast of 50 float32", "ranks 0-2 called Broadcast of 80"),
         ("left out", "left that")),
    # The two are in the same boat.
    Case("send_first", ("RC-DEADLOCK-P2P",), (0, 1), line="dist.send(mine, peer)",
         said=("ranks 0-1 wait for each other in a circle of sends and receives",), ranks=2,
         has_twin=True),
    # It comes to the gather later: that is on no file while its host waits.
    Case("saving_thread", ("RC-MISSING-CALL", "RC-ORDER-MISMATCH"), (2,), 7, "dist.barrier",
         ("rank 2 called AllReduce of 1 float32", "ranks 0-1,3 called AllGather of 32"),
         confidence=("likely",), has_twin=True),
    Case("hubert_nan", ("RC-OP-MISMATCH", "RC-MISSING-CALL"), (2,), 18,
         said=("rank 2 called AllReduce of 1 float32", "ranks 0-1,3 called AllGather of 1")),
    Case("early_answer", ("RC-MISSING-CALL",), (0,), 52, "forward(ranks, 2, 112)",
         ("rank 0 left out 12 calls, the first AllGather of 48 float32",), has_twin=True),
    Case("main_saves", ("RC-OP-MISMATCH", "RC-MISSING-CALL"), (0,), 8, "parameter.full_tensor()",
         ("rank 0 called AllGather of 96 float32", "ranks 1-3 called AllReduce of 1"),
         has_twin=True),
    Case("main_gathers", ("RC-OP-MISMATCH", "RC-MISSING-CALL"), (0,), 11,
         "dist.all_gather_into_tensor", ("rank 0 called AllGather of 4 float32",)),
    Case("crossed_groups", ("RC-MISSING-CALL", "RC-DEADLOCK-COMMS"), (1,), 3, has_twin=True),
    Case("order_of_a_set", ("RC-ORDER-MISMATCH",), (1,), 6,
         said=("rank 1 made 2 calls from seq 6", "in another order than ranks 0,2-3")),
    Case("missing_key", ("RC-MISSING-CALL",), (3,), 23,
         said=("rank 3 left out AllReduce of 1 float32 (sum) at seq 23",), has_twin=True),
    # Its sizes are those of the others' next step, which is on no file.
    Case("idle_step", ("RC-COUNT-MISMATCH", "RC-MISSING-CALL"), (1,), 13,
         said=("rank 1 called AllGather of 32", "ranks 0,2-3 called AllGather of 64"),
         has_twin=True),
    Case("empty_half", ("RC-DTYPE-MISMATCH",), (1,), 3,
         said=("rank 1 called AllReduce of 96 bfloat16", "AllReduce of 96 float32"),
         not_said=("left out", "left that"), confidence=("certain",)),
    # Its call comes from autograd, with no line of the script.
    Case("one_batch_more", ("RC-COUNT-MISMATCH", "RC-OP-MISMATCH", "RC-MISSING-CALL"), (0,), 22,
         "    dist.all_reduce(ranks.ones(2))",
         ("rank 0 called AllReduce of 136", "ranks 1-3 called AllReduce of 2"),
         confidence=("likely",), has_twin=True),
    Case("skipped_micro_batch", ("RC-MISSING-CALL",), (2,), 16,
         said=("rank 2 ended by itself",), not_said=("if it waits",)),
    # The transfer that was waited for first leads: chance decides which of the two it is.
    Case("wrong_splits", ("RC-P2P-MISMATCH",), (2,), line="dist.all_to_all_single",
         said=("rank 2 sent",),
         also_said=("rank 2 sent 16 float32 to rank 0, which expects 24 float32",
                    "rank 2 sent 32 float32 to rank 3, which expects 24 float32"),
         has_twin=True),
    Case("target_for_last", ("RC-P2P-UNMATCHED",), (0,),
         said=("rank 0 never made the send that belongs to the Recv of 128 float32",),
         has_twin=True),
    Case("short_last_batch", ("RC-COUNT-MISMATCH",), (0,), 3,
         said=("rank 0 called Broadcast of 20 int64", "ranks 1-3 called Broadcast of 32 int64"),
         confidence=("certain",)),
    # Whether it repeats the first half of a step or leaves the second one out is on no file.
    Case("none_gradients", ("RC-COUNT-MISMATCH", "RC-MISSING-CALL"), (1,), 10,
         said=("may instead have left out 2 of the others' calls",), confidence=("likely",),
         has_twin=True),
    Case("caught_memory_error", ("RC-OP-MISMATCH", "RC-MISSING-CALL"), (3,), 22,
         "    dist.barrier(device_ids", ("rank 3 called AllReduce of 1 float32",)),
    Case("stage_order", ("RC-DEADLOCK-P2P",), (3,),
         said=("ranks 2-3 wait for each other in a circle", "rank 3 called in another order"),
         has_twin=True),
    # The shape of its steps shows that calls are missing; whether they would come later does not.
    Case("dummy_batch", ("RC-MISSING-CALL",), (2,), 18,
         "        dist.all_reduce(ranks.ones(4))", confidence=("likely",),
         has_twin=True),
    Case("guard_recompile", ("RC-DEADLOCK-COMMS",), (3,), 1, "    dist.all_gather_into_tensor",
         confidence=("likely",)),
    Case("crossed_mesh", ("RC-DEADLOCK-COMMS",), (1, 6), 2, "dist.all_reduce(ranks.ones(64)",
         ("ranks 1-2,5-6 wait for each other in a circle",), confidence=("likely",), ranks=8),
    # Each has another count: nobody is in the majority.
    Case("ragged_gather", ("RC-COUNT-MISMATCH",), (0, 1, 2, 3), 3, "dist.all_gather_into_tensor",
         ("all 4 ranks", "passed different counts to AllGather", "16 to 22 float32")),
    # Two against two.
    Case("daemon_twice", ("RC-OP-MISMATCH",), (1, 3, 0, 2), 4, "dist.broadcast",
         ("ranks 1,3 called Broadcast", "ranks 0,2 called AllGather", "nothing on file tells"),
         confidence=("likely",)),
    Case("fewer_microbatches", ("RC-P2P-UNMATCHED",), (3,),
         line="dist.recv(activation, ranks.rank - 1)",
         said=("rank 3 has been in Recv of 96 float32 from 2", "rank 2 did what it always did"),
         has_twin=True),
    Case("retry_step", ("RC-OP-MISMATCH", "RC-COUNT-MISMATCH"), (1,), 13,
         "            backward(ranks, False)",
         ("rank 1 called AllReduce of 96", "ranks 0,2-3 called AllReduce of 64")),
    Case("empty_queue", ("RC-MISSING-CALL",), (0,), 6, "dist.all_reduce(ranks.ones(64))",
         ("rank 0 has not made the call that others wait in",), confidence=("certain",)),
)


def job_of(zygotes, case, *words):
    return PytorchJob(zygotes.one(), case.ranks, [case.name, *words], script="reported_job")


def expect_verdict(run, case):
    leading = run.diff()["findings"][0]
    expect(leading["code"] in case.codes, f"{leading['code']} is none of {case.codes}")
    culprits = tuple(one["rank"] for one in leading["culprits"])
    expect_equal(culprits, case.culprits, "the culprits")
    if case.seq >= 0:
        expect_equal(leading["culprits"][0]["seq"], case.seq, "the position")
    expect(leading["confidence"] in case.confidence, f"it is {leading['confidence']}")
    for words in case.said:
        expect(words in leading["summary"], f"{words!r} is not said")
    text = run.diff_text()
    if case.line:
        expect(f"{case.site()} " in text, f"{case.site()} is not named")
    for words in case.also_said:
        expect(words in text, f"{words!r} is not said anywhere")
    for words in (*FALSE_OF_ALL, *case.not_said):
        expect(words not in text, f"{words!r} is said")


def is_told(zygotes, case):
    def test():
        with job_of(zygotes, case) as run:
            ended = run.wait_for_end_or_hang(planted_by=case.culprits[0])
            expect(not ended, f"the job does not hang\n{run.describe()}")
            run.kill()
            if os.environ.get("ROLLCALL_E2E_SHOW"):
                print(run.diff_text(), flush=True)
            try:
                expect_verdict(run, case)
            except Failure as failure:
                raise Failure(f"{failure}\n{run.diff_text()}\n{run.describe()}") from None
        if case.has_twin:
            expect_lockstep(zygotes, case)
    return test


def expect_lockstep(zygotes, case):
    with job_of(zygotes, case, "healthy") as run:
        expect(run.wait_for_end_or_hang(), f"the healthy job hangs\n{run.describe()}")
        expect_equal(run.statuses(), [0] * case.ranks, f"exit statuses\n{run.describe()}")
        expect_equal([finding["code"] for finding in run.diff()["findings"]], ["RC-IN-LOCKSTEP"],
                     f"the verdict on the healthy job\n{run.diff_text()}")


def main():
    python = sys.argv[1]
    sys.argv[1:] = sys.argv[2:3]
    with Zygotes(python) as zygotes:
        return job.main([(f"{case.name}: {case.sentence()}", is_told(zygotes, case))
                         for case in CASES])


if __name__ == "__main__":
    sys.exit(main())
