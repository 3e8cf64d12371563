"""Metrics are gathered under `if is_main_process`.

https://github.com/huggingface/accelerate/issues/2785
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from reported_job import wait


def gather_for_metrics(ranks):
    dist.all_gather_into_tensor(ranks.ones(4 * ranks.size), ranks.ones(4))
    wait()


def job(ranks):
    model = DistributedDataParallel(torch.nn.Linear(16, 8).to(ranks.device))
    for _ in range(3):
        for _ in range(3):
            model(ranks.ones(4, 16)).sum().backward()
        wait()
        if ranks.is_healthy or ranks.planted(0):
            gather_for_metrics(ranks)
