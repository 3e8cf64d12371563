"""Rank 0 reduces twice as many elements as the others.

https://github.com/pytorch/pytorch/issues/97191
"""
import torch.distributed as dist


def job(ranks):
    count = 4096
    if ranks.planted(0):
        count *= 2
    dist.all_reduce(ranks.ones(count))
