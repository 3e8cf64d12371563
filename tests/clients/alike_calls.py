"""Three reductions of one number in each step, which nothing tells apart but the script's lines.

    {"script": "alike_calls", "arguments": [DUMPS, MODE, STEP]}      see zygote.py

MODE and STEP may be absent. In this step rank 1 leaves one out (`missing`), makes one twice
(`extra`) or two in another order (`order`). Each rank leaves PyTorch's Flight Recorder dump in
DUMPS, then all meet in a barrier.
"""
import os

import torch
import torch.distributed as dist

STEPS = 6


def reduce_loss(number):
    dist.all_reduce(number)


def reduce_norm(number):
    dist.all_reduce(number)


def reduce_accuracy(number):
    dist.all_reduce(number)


STEP = (reduce_loss, reduce_norm, reduce_accuracy)
ODD = {"missing": (reduce_loss, reduce_accuracy),
       "extra": (reduce_loss, reduce_norm, reduce_norm, reduce_accuracy),
       "order": (reduce_loss, reduce_accuracy, reduce_norm)}


def write_dump(folder):
    path = os.path.join(folder, f"rank_{dist.get_rank()}")
    with open(path + ".part", "wb") as file:
        file.write(torch._C._distributed_c10d._dump_fr_trace(True, True, False, "nccl2"))
    os.rename(path + ".part", path)  # whole, once it is there


def main(arguments):
    folder, mode, odd_step = (*arguments, "", -1)[:3]
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    number = torch.ones(1, device="cuda")
    for step in range(STEPS):
        is_odd = dist.get_rank() == 1 and step == int(odd_step)
        for reduce in ODD.get(mode, STEP) if is_odd else STEP:
            reduce(number)
    write_dump(folder)
    torch.cuda.synchronize()
    dist.barrier()
    torch.cuda.synchronize()
    dist.destroy_process_group()
    return 0
