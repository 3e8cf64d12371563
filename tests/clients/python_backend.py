"""DDP on the CPU with a backend written in Python, in one process: no GPU, no NCCL, no Rollcall.

    python_backend.py tensors|true

The future of a reduction holds the reduced tensors, as PyTorch's own backends have it, or only
`True`, as the backend `nccl4py` of PyTorch 2.15 has it. DDP takes tensors out of it unasked.
"""
import sys

import torch
import torch.distributed as dist


class DoneWork(dist._Work):
    def __init__(self, result):
        super().__init__()
        self.future = torch.futures.Future()
        self.future.set_result(result)

    def wait(self, timeout=None):
        return True

    def get_future(self):
        return self.future


class AloneBackend(dist.ProcessGroup):
    """Of one rank: what it is asked to reduce or to gather is there already."""

    def __init__(self, holds_tensors):
        super().__init__(0, 1)
        self.holds_tensors = holds_tensors

    def done(self, tensors):
        return DoneWork(tensors if self.holds_tensors else True)

    def allreduce(self, tensors, opts=None):
        return self.done(tensors)

    def broadcast(self, tensors, opts=None):
        return self.done(tensors)

    def allgather(self, outputs, inputs, opts=None):
        for output, one in zip(outputs, inputs):
            output[0].copy_(one)
        return self.done([tensor for output in outputs for tensor in output])

    def getBackendName(self):
        return "alone"


def main():
    holds_tensors = {"tensors": True, "true": False}[sys.argv[1]]
    dist.Backend.register_backend("alone", lambda *_: AloneBackend(holds_tensors),
                                  devices=["cpu"])
    dist.init_process_group("alone", store=dist.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    model(torch.ones(2, 4)).sum().backward()
    print("gradient", model.module.bias.grad.tolist())


if __name__ == "__main__":
    main()
