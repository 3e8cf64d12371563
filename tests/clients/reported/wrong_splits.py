"""One rank sends another share of its rows to its peers than these expect of it.

https://github.com/pytorch/pytorch/issues/117486
"""
import torch.distributed as dist

from reported_job import wait


def job(ranks):
    for step in range(4):
        received = [6] * ranks.size
        sent = list(received)
        if step == 3 and ranks.planted(2):
            sent[0], sent[3] = 4, 8
        dist.all_to_all_single(ranks.ones(sum(received), 4), ranks.ones(sum(sent), 4), received,
                               sent)
        wait()
