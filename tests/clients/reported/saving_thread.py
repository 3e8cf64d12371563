"""A thread that saves and the main thread's barrier use one process group, in any order.

https://github.com/KempnerInstitute/KempnerForge/issues/104
"""
import threading

import torch
import torch.distributed as dist

from reported_job import wait


def save(ranks):
    torch.cuda.set_device(ranks.device)
    dist.all_gather_into_tensor(ranks.ones(32 * ranks.size), ranks.ones(32))


def job(ranks):
    for step in range(4):
        dist.all_reduce(ranks.ones(64))
        thread = threading.Thread(target=save, args=[ranks])
        is_late = step == 2 and ranks.planted(2)
        if not is_late:
            thread.start()
            thread.join()
        dist.barrier(device_ids=[ranks.device.index])
        if is_late:
            thread.start()
            thread.join()
        wait()
