"""A micro-batch without anchors is skipped on one rank, and with it the synchronized backward pass.

https://github.com/NVIDIA-NeMo/Automodel/pull/2468
"""
import contextlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from reported_job import wait

ACCUMULATED = 2


def job(ranks):
    model = DistributedDataParallel(torch.nn.Linear(16, 8).to(ranks.device))
    for number in range(5 * ACCUMULATED):
        is_last = number % ACCUMULATED == ACCUMULATED - 1
        if number == 7 and ranks.planted(2):
            continue
        with contextlib.nullcontext() if is_last else model.no_sync():
            model(ranks.ones(4, 16)).sum().backward()
        if is_last:
            dist.all_reduce(ranks.ones(1))
            wait()
