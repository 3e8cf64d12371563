"""What a rank of train.py can do wrong: the classics of distributed training.

Each row: the name, the parallel style whose loop contains the place, the codes that `rollcall diff`
may lead with, and what the rank does. The first code is the one of the default backend; another one
stands where NCCL sees the defect in another way, or where the job's end looks different.
"""
import os
import signal
import sys
import time
from dataclasses import dataclass

NONE = "none"


@dataclass(frozen=True)
class Kind:
    name: str
    parallel: str
    codes: tuple
    description: str


KINDS = {kind.name: kind for kind in (
    Kind("uneven-batches", "ddp", ("RC-MISSING-CALL", "RC-OP-MISMATCH", "RC-COUNT-MISMATCH"),
         "runs out of batches one step before the others"),
    Kind("rank0-only", "ddp", ("RC-OP-MISMATCH", "RC-COUNT-MISMATCH", "RC-MISSING-CALL"),
         "calls an all_reduce behind `if rank == …` that the others do not call"),
    Kind("exception-handler", "ddp", ("RC-OP-MISMATCH", "RC-COUNT-MISMATCH", "RC-MISSING-CALL"),
         "fails in the forward pass and tells the others by all_reduce from the handler"),
    # The former backend keeps a rank that has raised alive while it shuts down.
    Kind("raise", "ddp", ("RC-RANK-DEAD", "RC-MISSING-CALL"),
         "raises, and is not there for the next all_reduce"),
    Kind("stuck-loader", "ddp", ("RC-MISSING-CALL",),
         "waits for ever for its data loader"),
    Kind("checkpoint-gather", "ddp", ("RC-OP-MISMATCH", "RC-MISSING-CALL"),
         "gathers a checkpoint, which all ranks would have to do"),
    Kind("shape", "ddp", ("RC-COUNT-MISMATCH",),
         "reduces a tensor with one element more"),
    Kind("dtype", "ddp", ("RC-DTYPE-MISMATCH",),
         "reduces a tensor of float64 where the others have float32"),
    Kind("kill", "ddp", ("RC-RANK-DEAD",),
         "is killed (SIGKILL), as by the kernel when memory runs out"),
    Kind("skip-shard", "fsdp2", ("RC-OP-MISMATCH", "RC-COUNT-MISMATCH", "RC-MISSING-CALL"),
         "skips a step of a sharded model, and with it all gathering of parameters"),
    Kind("group-order", "mixed", ("RC-DEADLOCK-COMMS",),
         "uses the world group before its pair's, the others the reverse"),
    Kind("new-group", "mixed", ("RC-SPLIT-MISMATCH", "RC-INIT-INCOMPLETE", "RC-MISSING-CALL"),
         "does not take part in creating a new group"),
    Kind("crossed-pipeline", "pipeline", ("RC-DEADLOCK-P2P",),
         "sends to its neighbour, which sends to it, before either receives"),
    Kind("skip-experts", "moe", ("RC-OP-MISMATCH", "RC-COUNT-MISMATCH", "RC-MISSING-CALL"),
         "has no token for its experts and skips the exchange"),
)}


class Fault:
    """`KIND@RANK:STEP`, or none. Asked by the training loop at each place where it may strike."""

    def __init__(self, text, rank):
        self.kind, self.step, self.here, self.announced = NONE, -1, False, False
        if text == NONE:
            return
        kind, at, place = text.partition("@")
        fault_rank, colon, step = place.partition(":")
        if kind not in KINDS or not at or not colon:
            raise SystemExit(f"train.py: --fault {text}: expected KIND@RANK:STEP with a KIND of "
                             f"{', '.join(KINDS)}")
        self.kind, self.step, self.here = kind, int(step), int(fault_rank) == rank

    def strikes(self, kind, step):
        """True where this rank is to do `kind` now."""
        if not (self.here and self.kind == kind and self.step == step):
            return False
        if not self.announced:
            self.announced = True
            print(f"train.py: planted {kind} at step {step}", file=sys.stderr, flush=True)
        return True

    def before_step(self, step):
        """The defects that end or stop a rank between two steps."""
        if self.strikes("kill", step):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.strikes("raise", step):
            raise RuntimeError("train.py: planted: this rank's batch cannot be read")
        if self.strikes("stuck-loader", step):
            while True:
                time.sleep(3600)
