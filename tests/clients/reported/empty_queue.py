"""The main rank waits on the host for a batch that nobody puts into its queue.

https://github.com/huggingface/trl/pull/6144
"""
import queue

import torch.distributed as dist

from reported_job import wait


def job(ranks):
    batches = queue.Queue()
    for step in range(5):
        if ranks.rank == 0:
            if step != 3 or not ranks.planted(0):
                batches.put(step)
            batches.get()
        dist.broadcast(ranks.ones(48), 0)
        dist.all_reduce(ranks.ones(64))
        wait()
