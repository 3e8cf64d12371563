"""One rank runs out of memory within its backward pass, and begins the step anew.

https://github.com/mosaicml/composer/pull/1690
"""
import torch.distributed as dist

from reported_job import wait


class OutOfMemory(Exception):
    pass


def backward(ranks, fails):
    for bucket in (96, 64, 32):
        dist.all_reduce(ranks.ones(bucket))
        wait()
        if fails and bucket == 96:
            raise OutOfMemory


def job(ranks):
    for step in range(5):
        try:
            backward(ranks, step == 3 and ranks.planted(1))
        except OutOfMemory:
            backward(ranks, False)
        dist.all_reduce(ranks.ones(1))
        wait()
