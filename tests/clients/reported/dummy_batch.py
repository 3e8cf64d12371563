"""A rank without requests does not run the empty batch that the experts' exchange needs.

https://github.com/vllm-project/vllm/pull/51984
"""
import torch.distributed as dist

from reported_job import wait


def layer(ranks, experts):
    dist.all_gather_into_tensor(ranks.ones(32 * ranks.size), ranks.ones(32), group=experts)
    dist.reduce_scatter_tensor(ranks.ones(32), ranks.ones(32 * ranks.size), group=experts)


def job(ranks):
    experts = dist.new_group(range(ranks.size))
    for step in range(5):
        dist.all_reduce(ranks.ones(4))
        wait()
        if step == 3 and ranks.planted(2):
            continue
        for _ in range(3):
            layer(ranks, experts)
        wait()
