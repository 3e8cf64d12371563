#!/usr/bin/env python3
"""A small training job in the usual parallel styles of PyTorch, and what can go wrong in it.

  torchrun --nproc-per-node 4 train.py --parallel fsdp2 --steps 4
  torchrun --nproc-per-node 4 train.py --fault shape@2:1

Knows nothing of Rollcall. Runs on GPUs as it is, and on emulated ones:

  rollcall run --emulate=4 -- torchrun --nproc-per-node 4 train.py --fault shape@2:1
"""
import argparse
import contextlib
import datetime
import os
import sys

import torch
import torch.distributed as dist

import faults
import styles


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parallel", choices=sorted(styles.STYLES),
                        help="how the ranks share the work (default: the fault's, else ddp)")
    parser.add_argument("--backend", default="nccl", help="of init_process_group (default nccl)")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=600, metavar="SECONDS",
                        help="after which PyTorch's watchdog ends a collective (default 600)")
    parser.add_argument("--fault", default=faults.NONE, metavar="KIND@RANK:STEP")
    parser.add_argument("--log-calls", metavar="PREFIX",
                        help="write what the ranks ask of torch.distributed to PREFIX.RANK")
    parser.add_argument("--list-faults", action="store_true",
                        help="print name, parallel style, codes and description of each fault")
    options = parser.parse_args(arguments)
    if options.parallel is None:
        kind = faults.KINDS.get(options.fault.partition("@")[0])
        options.parallel = kind.parallel if kind else "ddp"
    return options


def list_faults():
    for kind in faults.KINDS.values():
        print(kind.name, kind.parallel, ",".join(kind.codes), kind.description, sep="\t")


def register_nccl4py():
    """NCCL's own Python bindings as a backend: PyTorch has it, and registers it only when asked."""
    from torch.distributed._nccl4py import _register_nccl4py_backend

    _register_nccl4py_backend()


def call_log(options, rank):
    if options.log_calls is None:
        return contextlib.nullcontext()
    from call_log import CallLog

    return CallLog(options.log_calls, rank)


def main(arguments=None):
    options = parse(arguments)
    if options.list_faults:
        list_faults()
        return 0
    torch.manual_seed(0)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    if options.backend == "nccl4py":
        register_nccl4py()
    dist.init_process_group(options.backend, device_id=device,
                            timeout=datetime.timedelta(seconds=options.timeout))
    rank = dist.get_rank()
    job = styles.Job(rank=rank, ranks=dist.get_world_size(), device=device, steps=options.steps,
                     fault=faults.Fault(options.fault, rank))
    with call_log(options, rank):
        styles.STYLES[options.parallel](job)
        dist.barrier()
        torch.cuda.synchronize()
    print(f"rank {rank} done", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
