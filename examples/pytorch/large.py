#!/usr/bin/env python3
"""A model far larger than the machine: a dry run of FSDP2 and AdamW on emulated GPUs.

  rollcall run --emulate=8 -- torchrun --nproc-per-node 8 large.py

The defaults make a transformer of 64 billion parameters in bfloat16. Nothing of it is ever
computed, and memory that nobody touches is never there; the collectives are all called.
"""
import argparse
import os
import resource
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional


class Block(nn.Module):
    """A layer of a transformer: attention, then a network of four times the width."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width, bias=False)
        self.attend = nn.Linear(width, width, bias=False)
        self.widen = nn.Linear(width, 4 * width, bias=False)
        self.narrow = nn.Linear(4 * width, width, bias=False)

    def forward(self, tokens):
        rows, length, width = tokens.shape
        query, key, value = (
            part.view(rows, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.project(self.norm(tokens)).chunk(3, dim=-1))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        tokens = tokens + self.attend(mixed.transpose(1, 2).reshape(rows, length, width))
        return tokens + self.narrow(functional.gelu(self.widen(tokens)))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layers", type=int, default=80)
    parser.add_argument("--width", type=int, default=8192)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args(arguments)

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    with torch.device("meta"):
        model = nn.Sequential(*[Block(options.width, options.width // 128)
                                for _ in range(options.layers)]).bfloat16()
    parameters = sum(parameter.numel() for parameter in model.parameters())
    for block in model:
        fully_shard(block)
    fully_shard(model)
    model.to_empty(device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    batch = torch.zeros(1, options.tokens, options.width, dtype=torch.bfloat16, device=device)
    for step in range(options.steps):
        start = time.monotonic()
        loss = model(batch).float().pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        torch.cuda.synchronize()
        if dist.get_rank() == 0:
            print(f"step {step}: {time.monotonic() - start:.1f} s", flush=True)
    if dist.get_rank() == 0:
        resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{parameters / 1e9:.1f} billion parameters, rank 0 held at most {resident:.0f} MiB",
              flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
