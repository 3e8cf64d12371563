#!/usr/bin/env python3
"""Steps of DDP and an all_reduce in a CUDA graph, with what a PyTorch of the CUDA 11 line has. The
first argument is the number of replays; with `skip` rank 1 leaves out the last one."""
import ctypes
import os
import sys

import torch
import torch.distributed as dist

STEPS = 3


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


def replay_by_runtime(device):
    """One replay of a graph made by CUDA 11's cudaGraphInstantiate, which PyTorch does not call."""
    cuda = ctypes.CDLL("libcudart.so.11.0")

    def call(function, *arguments):
        answer = getattr(cuda, function)(*arguments)
        if answer != 0:
            raise RuntimeError(f"{function} answered {answer}")

    numbers = torch.zeros(1024, device=device)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
    handle = ctypes.c_void_p(stream.cuda_stream)
    with torch.cuda.stream(stream):
        call("cudaStreamBeginCapture", handle, 1)  # thread-local
        dist.all_reduce(numbers)
        call("cudaStreamEndCapture", handle, ctypes.byref(graph))
    call("cudaGraphInstantiate", ctypes.byref(executable), graph, None, None, ctypes.c_size_t(0))
    call("cudaGraphLaunch", executable, handle)
    torch.cuda.synchronize()
    # NCCL ends no communicator that a graph still holds.
    call("cudaGraphExecDestroy", executable)
    call("cudaGraphDestroy", graph)


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    train(device)
    skips = "skip" in sys.argv
    replay(device, int(sys.argv[1]) - (1 if skips and dist.get_rank() == 1 else 0))
    if not skips:
        replay_by_runtime(device)
    dist.barrier()
    # In one piece: the ranks share the file.
    sys.stdout.write(f"done {torch.version.cuda}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
