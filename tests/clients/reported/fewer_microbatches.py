"""The last stage of a pipeline runs one micro-batch more than the stages before it.

https://github.com/pytorch/torchtitan/issues/775
"""
import torch.distributed as dist

from reported_job import wait


def stage(ranks, microbatches):
    activation = ranks.ones(96)
    for _ in range(microbatches):
        if ranks.rank > 0:
            dist.recv(activation, ranks.rank - 1)
        if ranks.rank < ranks.size - 1:
            dist.send(activation, ranks.rank + 1)


def job(ranks):
    dist.all_reduce(ranks.ones(1))
    for step in range(4):
        stage(ranks, 4 if step == 2 and ranks.planted(3) else 3)
        dist.all_reduce(ranks.ones(8))
        wait()
