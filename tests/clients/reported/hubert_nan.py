"""A rank whose loss is not a number returns from its step before the frames are gathered.

https://github.com/pytorch/audio/issues/3749
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from reported_job import wait


def step(ranks, model, is_finite):
    loss = model(ranks.ones(4, 16)).sum()
    if not is_finite:
        return
    dist.all_gather_into_tensor(ranks.ones(ranks.size), ranks.ones(1))
    loss.backward()


def job(ranks):
    model = DistributedDataParallel(torch.nn.Linear(16, 8).to(ranks.device))
    for number in range(6):
        step(ranks, model, not (number == 3 and ranks.planted(2)))
        wait()
    dist.barrier(device_ids=[ranks.device.index])
