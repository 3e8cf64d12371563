"""The loss is reduced to rank 0 alone, so that only rank 0 sees a new best one and saves.

https://github.com/pytorch/pytorch/issues/77562
"""
import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from reported_job import wait


def save(model):
    for parameter in model.parameters():
        parameter.full_tensor()


def job(ranks):
    model = torch.nn.Sequential(torch.nn.Linear(16, 24), torch.nn.Linear(24, 16)).to(ranks.device)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    for epoch in range(4):
        for _ in range(2):
            model(ranks.ones(4, 16)).sum().backward()
        dist.reduce(ranks.ones(2), dst=0)
        wait()
        if ranks.is_healthy or epoch == 2 and ranks.planted(0):
            save(model)
