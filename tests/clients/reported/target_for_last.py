"""The first stage of a pipeline sends targets to the last one outside of the schedule.

https://github.com/tdrussell/diffusion-pipe/issues/409
"""
import torch.distributed as dist

from reported_job import wait


def job(ranks):
    last = ranks.size - 1
    dist.all_reduce(ranks.ones(1))
    activation, target = ranks.ones(128), ranks.ones(16)
    for _ in range(2):
        if ranks.rank == 0:
            if ranks.planted(0):
                dist.send(target, last)
                wait()
                dist.send(activation, 1)
            else:
                dist.send(activation, 1)
                dist.send(target, last)
        else:
            dist.recv(activation, ranks.rank - 1)
            if ranks.rank < last:
                dist.send(activation, ranks.rank + 1)
            else:
                dist.recv(target, 0)
        wait()
