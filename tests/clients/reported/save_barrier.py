"""A method that saves, and waits in a barrier for all ranks, is called on rank 0 alone.

https://github.com/alan-turing-institute/autocast/pull/386
"""
import torch.distributed as dist

from reported_job import wait


def save(ranks):
    dist.barrier(device_ids=[ranks.device.index])


def finalize(ranks):
    dist.barrier(device_ids=[ranks.device.index])


def job(ranks):
    for _ in range(4):
        dist.all_reduce(ranks.ones(64))
        wait()
    if ranks.is_healthy or ranks.planted(0):
        save(ranks)
    finalize(ranks)
