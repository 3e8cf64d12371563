"""A rank that captures an all_reduce into a CUDA graph, replays it, and destroys its process group;
with the argument `keep` before the graph is gone, for which NCCL waits for ever.

    {"script": "kept_graph", "arguments": ["keep"]}      see zygote.py
"""
import os

import torch
import torch.distributed as dist


def main(arguments):
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
    if "keep" in arguments:
        print("planted", flush=True)
    else:
        graph.reset()
    dist.destroy_process_group()
    return 0
