"""Predictions as long as each rank's own longest sentence are gathered without padding.

https://github.com/huggingface/accelerate/issues/167
"""
import torch.distributed as dist

from reported_job import wait


def job(ranks):
    for _ in range(3):
        dist.all_reduce(ranks.ones(64))
        wait()
    length = 16
    if ranks.planted(*range(4)):
        length += 2 * ranks.rank
    dist.all_gather_into_tensor(ranks.ones(length * ranks.size), ranks.ones(length))
    wait()
    dist.all_reduce(ranks.ones(64))
    wait()
