"""A job of two ranks that PyTorch's profiler watches: profiler_job.py DIR

Each rank writes its trace to DIR. Calls of every kind that the profiler describes are made in its
window, and others before and behind it; two groups, one thread each way, a batch of transfers.
"""
import os
import sys

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

RANK = int(os.environ["RANK"])
ELEMENTS = 1024
STEPS = 4


def step(tensor, gathered, group):
    dist.all_reduce(tensor)
    dist.all_gather_into_tensor(gathered, tensor, group=group)
    dist.reduce_scatter_tensor(tensor, gathered, group=group)
    dist.broadcast(tensor, 0)
    dist.all_to_all_single(gathered, gathered.clone())
    dist.all_reduce(tensor, async_op=True).wait()
    if RANK == 0:
        dist.send(tensor, 1)
    else:
        dist.recv(tensor, 0)
    batch = [dist.P2POp(dist.isend, tensor, 1 - RANK),
             dist.P2POp(dist.irecv, gathered[:ELEMENTS], 1 - RANK)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()


def main():
    torch.cuda.set_device(RANK)
    dist.init_process_group(sys.argv[2])
    group = dist.new_group([0, 1])
    tensor = torch.ones(ELEMENTS, device="cuda")
    gathered = torch.empty(2 * ELEMENTS, device="cuda")
    step(tensor, gathered, group)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(STEPS):
            step(tensor, gathered, group)
        dist.barrier()
    step(tensor, gathered, group)
    profiler.export_chrome_trace(os.path.join(sys.argv[1], f"{RANK}.pt.trace.json"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
