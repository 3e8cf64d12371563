"""While an optimizer's state is scattered, the first rank of the second host reduces instead.

https://github.com/mosaicml/composer/issues/3080
"""
import torch.distributed as dist

from reported_job import wait


def job(ranks):
    dist.all_reduce(ranks.ones(1))
    for width in (16, 32, 48):
        dist.broadcast(ranks.ones(width), src=0)
        wait()
    if ranks.planted(2):
        dist.all_reduce(ranks.ones(1))
    dist.broadcast(ranks.ones(64), src=0)
    wait()
    dist.all_reduce(ranks.ones(1))
