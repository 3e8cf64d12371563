"""One rank compiles again, and asks the others about it, which do not.

https://github.com/pytorch/pytorch/pull/155558
"""
import torch.distributed as dist

from reported_job import wait


def compile_anew(ranks, group):
    dist.all_gather_into_tensor(ranks.ones(ranks.size), ranks.ones(1), group=group)
    wait()


def job(ranks):
    compiler = dist.new_group(range(ranks.size))
    for step in range(6):
        if step == 0 or step == 4 and (ranks.is_healthy or ranks.planted(3)):
            compile_anew(ranks, compiler)
        dist.all_reduce(ranks.ones(64))
        dist.all_reduce(ranks.ones(1))
        wait()
