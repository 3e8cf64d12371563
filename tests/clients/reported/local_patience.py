"""Each rank stops early by its own validation metric, and one loses patience first.

https://github.com/speechbrain/speechbrain/issues/1939
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from reported_job import wait


def job(ranks):
    model = DistributedDataParallel(torch.nn.Linear(16, 8).to(ranks.device))
    for epoch in range(6):
        for _ in range(2):
            model(ranks.ones(4, 16)).sum().backward()
        dist.all_reduce(ranks.ones(1))
        wait()
        if epoch == 3 and ranks.planted(1):
            break
    dist.barrier(device_ids=[ranks.device.index])
