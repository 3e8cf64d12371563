"""A job that PyTorch's profiler watches: profiler_job.py DIR BACKEND [OTHER_HOST AHEAD_NS]

Each rank writes its trace to DIR. Calls of every kind that the profiler describes are made in its
window, and others before and behind it; two groups, one thread each way, a batch of transfers. The
number of ranks is even. With OTHER_HOST, the library of other_host.c, the second half of them runs
on another host, whose clock is so much ahead.
"""
import os
import sys
import types

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
if len(sys.argv) > 3 and "OTHER_HOST_NAME" not in os.environ:
    IS_OTHER = RANK >= RANKS // 2
    os.environ["OTHER_HOST_NAME"] = "node1" if IS_OTHER else "node0"
    os.environ["OTHER_HOST_AHEAD_NS"] = sys.argv[4] if IS_OTHER else "0"
    os.environ["LD_PRELOAD"] = sys.argv[3] + ":" + os.environ.get("LD_PRELOAD", "")
    os.execv(sys.executable, [sys.executable, *sys.argv])

# pylint: disable=wrong-import-position
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

PEER = RANK ^ 1
ELEMENTS = 1024
STEPS = 4


def spare_inductor():
    """The profiler asks Inductor for one setting and imports all of it: 6 s of each process."""
    package = types.ModuleType("torch._inductor")
    package.config = types.ModuleType("torch._inductor.config")
    package.config.triton = types.SimpleNamespace(cudagraphs=False)
    sys.modules[package.__name__] = torch._inductor = package
    sys.modules[package.config.__name__] = package.config


def step(tensor, gathered, group):
    dist.all_reduce(tensor)
    dist.all_gather_into_tensor(gathered, tensor, group=group)
    dist.reduce_scatter_tensor(tensor, gathered, group=group)
    dist.broadcast(tensor, 0)
    dist.all_to_all_single(gathered, gathered.clone())
    dist.all_reduce(tensor, async_op=True).wait()
    if RANK < PEER:
        dist.send(tensor, PEER)
    else:
        dist.recv(tensor, PEER)
    batch = [dist.P2POp(dist.isend, tensor, PEER),
             dist.P2POp(dist.irecv, gathered[:ELEMENTS], PEER)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()


def main():
    spare_inductor()
    torch.cuda.set_device(RANK)
    dist.init_process_group(sys.argv[2])
    group = dist.new_group(list(range(RANKS)))
    tensor = torch.ones(ELEMENTS, device="cuda")
    gathered = torch.empty(RANKS * ELEMENTS, device="cuda")
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
