#!/usr/bin/env python3
"""Four ranks in a mesh of two by two, whose groups are called as PyTorch calls them: by digests.

    named_groups_client.py FOLDER [skip]

skip: rank 3 leaves out a reduction with its neighbour. What rollcall_nccl.torch knows of PyTorch is
its list of groups; a list of the same kind stands in for it here.
"""
import ctypes
import os
import sys
import types

from ctypes_client import COUNT, FLOAT32, SUM, Library, id_through_file

UNDEFINED = -2**31
MAGIC, VERSION = 0xcafebeef, 23007


class Config(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint),
                *((f"first{at}", ctypes.c_int) for at in range(4)), ("net_name", ctypes.c_char_p),
                *((f"second{at}", ctypes.c_int) for at in range(2)), ("comm_name", ctypes.c_char_p),
                *((f"third{at}", ctypes.c_int) for at in range(10))]

    def __init__(self, name):
        super().__init__(size=ctypes.sizeof(Config), magic=MAGIC, version=VERSION,
                         comm_name=name.encode())
        for field, kind in self._fields_:
            if kind is ctypes.c_int:
                setattr(self, field, UNDEFINED)


class Groups:
    """PyTorch's list, as torch.distributed.distributed_c10d has it."""

    def __init__(self):
        self.module = types.ModuleType("torch.distributed.distributed_c10d")
        self.module._world = types.SimpleNamespace(pg_map={})
        self.module._register_process_group = lambda name, group: None
        distributed = types.ModuleType("torch.distributed")
        distributed.distributed_c10d = self.module
        sys.modules |= {"torch": types.ModuleType("torch"), "torch.distributed": distributed,
                        self.module.__name__: self.module}

    def add(self, name, description):
        group = types.SimpleNamespace(group_name=name, group_desc=description)
        # A namespace has no hash, and PyTorch's groups have.
        self.module._world.pg_map = {**self.module._world.pg_map, Key(group): None}
        self.module._register_process_group(name, group)


class Key:
    def __init__(self, group):
        self.group_name, self.group_desc = group.group_name, group.group_desc


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    groups = Groups()
    import rollcall_nccl.torch
    nccl, cuda = Library("libnccl.so.2"), Library("libcudart.so.12")
    cuda.call("cudaSetDevice", rank)
    world, stream, data = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    cuda.call("cudaMalloc", ctypes.byref(data), ctypes.c_size_t(4 * COUNT))
    cuda.call("cudaStreamCreate", ctypes.byref(stream))
    nccl.call("ncclCommInitRankConfig", ctypes.byref(world), ranks,
              id_through_file(nccl, sys.argv[1], rank), rank, ctypes.byref(Config("0")))
    groups.add("0", "default_pg")
    assert rollcall_nccl.torch.name_groups(), "there is no record"
    for letter, description, colour in (("a", "mesh_dp", rank % 2), ("c", "undefined", 0),
                                        ("b", "mesh_tp", rank // 2)):
        name = f"{letter}{colour}" * 20
        part = ctypes.c_void_p()
        nccl.call("ncclCommSplit", world, colour, rank, ctypes.byref(part),
                  ctypes.byref(Config(name)))
        groups.add(name, description)
        for step in range(3):
            if rank == 3 and step == 2 and description == "mesh_tp" and "skip" in sys.argv:
                continue
            nccl.call("ncclAllReduce", data, data, ctypes.c_size_t(COUNT), FLOAT32, SUM, part,
                      stream)
        cuda.call("cudaStreamSynchronize", stream)


if __name__ == "__main__":
    main()
