"""Each metric is reduced by itself, and one rank's dictionary lacks a key.

https://github.com/Lightning-AI/pytorch-lightning/issues/19106
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from reported_job import wait


def log(ranks, metrics):
    for _ in metrics:
        dist.all_reduce(ranks.ones(1))
        wait()


def job(ranks):
    model = DistributedDataParallel(torch.nn.Linear(16, 8).to(ranks.device))
    for step in range(5):
        model(ranks.ones(4, 16)).sum().backward()
        metrics = ["loss", "accuracy", "auxiliary"]
        if step == 3 and ranks.planted(3):
            metrics.pop()
        log(ranks, metrics)
