#!/usr/bin/env python3
"""Steps of DDP and an all_reduce in a CUDA graph, with what a PyTorch of the CUDA 11 line has. With
`skip` rank 1 leaves out the last of the replays."""
import os
import sys

import torch
import torch.distributed as dist

STEPS = 3
REPLAYS = 5


def train(device):
    model = torch.nn.Linear(64, 64).to(device)
    parallel = torch.nn.parallel.DistributedDataParallel(model, device_ids=[device])
    optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        parallel(torch.zeros(8, 64, device=device)).sum().backward()
        optimizer.step()
    torch.cuda.synchronize()


def replay(device, replays):
    numbers = torch.zeros(1024, device=device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(numbers)
    for _ in range(replays):
        graph.replay()
    torch.cuda.synchronize()


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    train(device)
    is_short = "skip" in sys.argv and dist.get_rank() == 1
    replay(device, REPLAYS - (1 if is_short else 0))
    dist.barrier()
    print("done", torch.version.cuda, flush=True)


if __name__ == "__main__":
    main()
