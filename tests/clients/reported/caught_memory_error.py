"""One rank runs out of memory in its forward pass, catches that, and goes on to the next batch.

https://github.com/facebookresearch/fairseq/pull/3989
"""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from reported_job import wait


def forward(ranks, model, batch):
    if batch == 5 and ranks.planted(3):
        raise torch.cuda.OutOfMemoryError("too long")
    return model(ranks.ones(4, 16))


def job(ranks):
    model = DistributedDataParallel(torch.nn.Linear(16, 8).to(ranks.device))
    for batch in range(8):
        try:
            forward(ranks, model, batch).sum().backward()
        except torch.cuda.OutOfMemoryError:
            continue
        finally:
            wait()
        dist.all_gather_into_tensor(ranks.ones(6 * ranks.size), ranks.ones(6))
    dist.barrier(device_ids=[ranks.device.index])
