"""A streaming loader gives rank 0 one batch more than the others.

https://github.com/Lightning-AI/litData/issues/233
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from reported_job import wait


def validate(ranks):
    dist.all_reduce(ranks.ones(2))
    wait()


def job(ranks):
    model = DistributedDataParallel(torch.nn.Linear(16, 8).to(ranks.device))
    for epoch in range(3):
        batches = 4
        if epoch == 2 and ranks.planted(0):
            batches = 5
        for _ in range(batches):
            model(ranks.ones(4, 16)).sum().backward()
            wait()
        validate(ranks)
