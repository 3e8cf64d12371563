"""On a mesh two ranks reduce across replicas before they exchange with their shards.

https://github.com/meta-pytorch/torchrec/pull/4149
"""
import torch.distributed as dist

from reported_job import wait


def job(ranks):
    shards = [dist.new_group(range(first, first + 4)) for first in (0, 4)]
    replicas = [dist.new_group([first, first + 4]) for first in range(4)]
    shard, replica = shards[ranks.rank // 4], replicas[ranks.rank % 4]

    def exchange():
        dist.all_to_all_single(ranks.ones(32), ranks.ones(32), group=shard)
        wait()

    def reduce():
        dist.all_reduce(ranks.ones(64), group=replica)
        wait()

    for step in range(4):
        calls = [exchange, reduce]
        if step == 2 and ranks.planted(1, 6):
            calls.reverse()
        for call in calls:
            call()
