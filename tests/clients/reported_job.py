"""A rank of one of the jobs in reported/: set up, handed to its job(), ended in good order.

    {"script": "reported_job", "arguments": [NAME, "healthy"]}      see zygote.py; NAME of reported/

Kernels compute nothing on emulated GPUs, so whatever decides about a call is decided on the host.
"""
import importlib
import os

import torch
import torch.distributed as dist


class Ranks:
    """What every job needs to know: who it is, of how many, and whether it is to go wrong."""

    def __init__(self, is_healthy):
        self.is_healthy = is_healthy
        self.rank = dist.get_rank()
        self.size = dist.get_world_size()
        self.device = torch.device("cuda", torch.cuda.current_device())

    def planted(self, *ranks):
        """Whether this rank, if it is among `ranks`, does here what the report is about."""
        if self.is_healthy or self.rank not in ranks:
            return False
        print("planted", flush=True)
        return True

    def ones(self, *shape, dtype=torch.float32):
        return torch.ones(*shape, dtype=dtype, device=self.device)


def wait():
    """As .item(), .cpu() and print() of a tensor do."""
    torch.cuda.synchronize()


def main(arguments):
    script = importlib.import_module(f"reported.{arguments[0]}")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(getattr(script, "BACKEND", "nccl"))
    script.job(Ranks("healthy" in arguments))
    wait()
    dist.destroy_process_group()
    return 0
