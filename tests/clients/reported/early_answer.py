"""With sharded parameters, one rank is done generating while the others go on, layer by layer.

https://github.com/deepspeedai/DeepSpeed/issues/8262
"""
import torch.distributed as dist

from reported_job import wait


def forward(ranks, layers, width):
    for _ in range(layers):
        dist.all_gather_into_tensor(ranks.ones(width * ranks.size), ranks.ones(width))
    wait()


def job(ranks):
    for rollout in range(3):
        tokens = 5
        if rollout == 2 and ranks.planted(0):
            tokens = 2
        for _ in range(tokens):
            forward(ranks, 4, 48)
        forward(ranks, 2, 112)
