"""Weights are broadcast in two groups that share two ranks, which take them in opposite order.

https://github.com/run-ai/runai-model-streamer/issues/165
"""
import torch.distributed as dist

from reported_job import wait


def job(ranks):
    first, second = dist.new_group([0, 1, 2]), dist.new_group([0, 1, 3])
    for layer in range(4):
        order = [first, second]
        if layer == 3 and ranks.planted(1):
            order.reverse()
        for group in order:
            if ranks.rank in dist.get_process_group_ranks(group):
                dist.broadcast(ranks.ones(64), src=0, group=group)
                wait()
