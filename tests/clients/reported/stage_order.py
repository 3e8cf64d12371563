"""Neighbours in a pipeline both send first: one an activation ahead, one a gradient back.

https://github.com/pytorch/pytorch/issues/172668
"""
import torch.distributed as dist

from reported_job import wait


def exchange(ranks, peer, sends_first):
    mine, other = ranks.ones(64), ranks.ones(64)
    steps = [lambda: dist.send(mine, peer), lambda: dist.recv(other, peer)]
    for step in steps if sends_first else reversed(steps):
        step()
    wait()


def job(ranks):
    """Ranks 0 and 1 are neighbours, and 2 and 3."""
    dist.all_reduce(ranks.ones(1))
    for microbatch in range(4):
        peer = ranks.rank ^ 1
        sends_first = ranks.rank % 2 == 0
        if microbatch == 2 and ranks.planted(3):
            sends_first = True
        exchange(ranks, peer, sends_first)
    dist.all_reduce(ranks.ones(1))
