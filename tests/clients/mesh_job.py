"""Four ranks in a mesh of two by two: mesh_job.py PACKAGES BACKEND [healthy]

PACKAGES is the folder of rollcall_nccl. Rank 3 leaves out the last sum over its pair of dimension
tp, but for `healthy`.
"""
import os
import sys

sys.path.insert(0, sys.argv[1])

# pylint: disable=wrong-import-position
import rollcall_nccl.torch as names
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

RANK = int(os.environ["RANK"])
STEPS = 3


def main():
    torch.cuda.set_device(RANK)
    dist.init_process_group(sys.argv[2])
    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
    nameless = dist.new_group([0, 1, 2, 3])
    tensor = torch.ones(16, device="cuda")
    for step in range(STEPS):
        dist.all_reduce(tensor)
        dist.all_reduce(tensor, group=mesh["dp"].get_group())
        dist.all_reduce(tensor, group=nameless)
        if step < STEPS - 1 or RANK != 3 or "healthy" in sys.argv:
            dist.all_reduce(tensor, group=mesh["tp"].get_group())
    torch.cuda.synchronize()
    dist.destroy_process_group()
    print(f"watched {names.is_watching()}")


if __name__ == "__main__":
    main()
