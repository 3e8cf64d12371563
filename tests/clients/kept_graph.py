#!/usr/bin/env python3
"""Captures an all_reduce into a CUDA graph, replays it, and destroys its process group; with `keep`
before the graph is gone, for which NCCL waits for ever."""
import os
import sys

import torch
import torch.distributed as dist


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    numbers = torch.ones(4, device=device)
    dist.all_reduce(numbers)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(numbers)
    graph.replay()
    torch.cuda.synchronize()
    if "keep" not in sys.argv:
        graph.reset()
    dist.destroy_process_group()
    print("done", flush=True)


if __name__ == "__main__":
    main()
