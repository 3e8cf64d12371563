"""The part of a model that holds synchronized batch normalization is not called for a first frame.

https://github.com/pytorch/pytorch/issues/44957
"""
import torch
import torch.distributed as dist

from reported_job import wait


def job(ranks):
    first = torch.nn.SyncBatchNorm(8).to(ranks.device)
    second = torch.nn.SyncBatchNorm(12).to(ranks.device)
    for frame in range(5):
        first(ranks.ones(4, 8))
        if not (frame == 3 and ranks.planted(2)):
            second(ranks.ones(4, 12))
        wait()
    dist.barrier(device_ids=[ranks.device.index])
