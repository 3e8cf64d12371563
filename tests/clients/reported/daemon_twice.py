"""Half of the ranks see that a daemon runs already, the others start it with a broadcast.

https://github.com/NVIDIA-NeMo/Automodel/pull/3824
"""
import torch.distributed as dist

from reported_job import wait


def start_daemon(ranks):
    dist.broadcast(ranks.ones(1, dtype=int), 0)
    wait()


def save(ranks, starts_daemon):
    if starts_daemon:
        start_daemon(ranks)
    dist.all_gather_into_tensor(ranks.ones(16 * ranks.size), ranks.ones(16))
    wait()


def job(ranks):
    for step in range(3):
        dist.all_reduce(ranks.ones(64))
        wait()
        if step == 1:
            save(ranks, True)
            save(ranks, ranks.planted(1, 3))
