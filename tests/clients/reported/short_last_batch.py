"""Rank 0 broadcasts the indices of a last batch that is not full to ranks that expect a full one.

https://github.com/deepspeedai/DeepSpeed/pull/5117
"""
import torch
import torch.distributed as dist

from reported_job import wait


def job(ranks):
    for batch in range(4):
        size = 32
        if batch == 3 and ranks.planted(0):
            size = 20
        dist.broadcast(ranks.ones(size, dtype=torch.int64), src=0)
        wait()
