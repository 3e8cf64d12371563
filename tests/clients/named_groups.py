#!/usr/bin/env python3
"""Four ranks in a mesh of two by two, and a group of two, which rollcall_nccl.torch names."""
import os

import rollcall_nccl.torch
import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    number = torch.ones(1, device="cuda")
    dist.all_reduce(number)
    pair = dist.new_group([0, 1], group_desc="the first two")
    if dist.get_rank() < 2:
        dist.all_reduce(number, group=pair)
    mesh = dist.device_mesh.init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
    for dimension in ("dp", "tp"):
        dist.all_reduce(number, group=mesh.get_group(dimension))
    torch.cuda.synchronize()
    assert rollcall_nccl.torch.name_groups(), "there is no record"
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
