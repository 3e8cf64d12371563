#!/usr/bin/env python3
"""The table of torch_calls against what NVIDIA's NCCL was asked for by PyTorch 2.15.

The samples are one run per backend of a program that makes nearly every kind of call, with PyTorch
unmodified and NCCL 2.30.7's own host code: PyTorch's account of its calls (Flight Recorder) and
NCCL's (NCCL_DEBUG=INFO). Neither Rollcall nor its emulated NCCL had a part in them.
"""
import os
import sys

import torch_calls
import witnesses

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))

import job  # noqa: E402
from job import expect, expect_equal  # noqa: E402

SAMPLES = os.path.join(os.path.dirname(HERE), "import", "samples", "pytorch-2.15")
RANKS = 4
# What the dumps do not say, from the program: reductions other than a sum, roots.
REDUCTIONS = {1: "max"}
ROOTS = {"broadcast_": 1, "reduce_": 0}
# Two groups of two, rank 0 and 2 in the first one.
GROUPS = {"0": RANKS, "1": 2, "2": 2}


def places_of(rank, is_legacy):
    return {name: torch_calls.Place(rank if ranks == RANKS else rank // 2, ranks, is_legacy)
            for name, ranks in GROUPS.items()}


def told_completely(lines):
    for position, line in enumerate(lines):
        line["reduce_op"] = REDUCTIONS.get(position, "sum")
        line["root_rank"] = ROOTS.get(line["call"], line["root_rank"])
    return lines


def expected_operations(folder, rank, is_legacy):
    lines = told_completely(witnesses.calls_of_dump(os.path.join(folder, f"rank_{rank}")))
    calls = torch_calls.expected_calls(lines, places_of(rank, is_legacy))
    alone = [line for line in lines if line["is_alone"]]
    if alone:
        # The former backend makes a communicator for a pair that exchanges outside a batch.
        last = max(at for at, call in enumerate(calls) if call["peer"] is not None)
        calls[last]["comm"] = "pair"
        expect_equal(len(alone), 1, "transfers outside a batch")
    return witnesses.with_numbered_groups(calls)


def table_is_what_nccl_saw(backend):
    folder = os.path.join(SAMPLES, f"{backend}-ok")
    kinds = set()
    for rank in range(RANKS):
        seen = witnesses.operations_of_log(os.path.join(folder, f"nccl_rank_{rank}.log"))
        expected = expected_operations(folder, rank, backend == "legacy")
        sizes = [operation.pop("ranks") for operation in seen]
        for position, (mine, theirs) in enumerate(zip(expected, seen)):
            expect_equal(theirs, mine, f"operation {position} of rank {rank}, in NCCL's log")
        expect_equal(len(seen), len(expected), f"operations of rank {rank}")
        expect_equal(set(sizes), {2, RANKS}, f"sizes of rank {rank}'s communicators")
        kinds |= {operation["op"] for operation in seen}
    expect(len(kinds) == 8, f"kinds of operations: {sorted(kinds)}")


if __name__ == "__main__":
    sys.exit(job.main([
        (f"NVIDIA's NCCL was asked for what the table says, by PyTorch's {words} backend",
         lambda backend=backend: table_is_what_nccl_saw(backend))
        for backend, words in (("nccl2", "present"), ("legacy", "former"))]))
