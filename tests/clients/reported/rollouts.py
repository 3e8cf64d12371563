"""Episodes differ in length, but their steps reduce a flag over all ranks; the shortest gathers.

https://github.com/TensorAuto/OpenTau/pull/409
"""
import torch
import torch.distributed as dist

from reported_job import wait


def job(ranks):
    for episode in range(4):
        steps = 6
        if episode == 2 and ranks.planted(1):
            steps = 4
        for _ in range(steps):
            dist.all_reduce(ranks.ones(1, dtype=torch.int32))
            wait()
        dist.all_gather_into_tensor(ranks.ones(3 * ranks.size), ranks.ones(3))
        wait()
