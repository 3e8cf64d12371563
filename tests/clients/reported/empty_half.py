"""A rank without answers in its half of a sequence makes zeros of another type to be summed up.

https://github.com/radixark/miles/pull/2827
"""
import torch
import torch.distributed as dist

from reported_job import wait


def job(ranks):
    for sequence in range(4):
        dtype = torch.float32
        if sequence == 3 and ranks.planted(1):
            dtype = torch.bfloat16
        dist.all_reduce(ranks.ones(96, dtype=dtype))
        wait()
