"""A rank that has nothing to do in a step leaves its collectives out; sizes differ in each step.

https://github.com/vllm-project/vllm/issues/43547
"""
import torch.distributed as dist

from reported_job import wait

TOKENS = (24, 8, 40, 16, 64, 32, 48, 56)


def step(ranks, tokens):
    dist.all_reduce(ranks.ones(ranks.size, dtype=int))
    wait()
    dist.all_gather_into_tensor(ranks.ones(tokens * ranks.size), ranks.ones(tokens))
    dist.reduce_scatter_tensor(ranks.ones(tokens), ranks.ones(tokens * ranks.size))
    wait()


def job(ranks):
    for number, tokens in enumerate(TOKENS):
        if number == 4 and ranks.planted(1):
            continue
        step(ranks, tokens)
