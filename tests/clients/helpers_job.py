"""Two ranks with helper processes: data loader workers, a resource tracker and, of rank 0, compile
workers.

Prints `rank R with N helpers` while they are there.
"""
import os
from multiprocessing import shared_memory

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset


def descendants(pid):
    """Processes that are there now, below this one. Threads and processes may end meanwhile."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
    children = []
    for task in tasks:
        try:
            with open(f"/proc/{pid}/task/{task}/children", encoding="utf-8") as file:
                children += map(int, file.read().split())
        except OSError:
            continue
    return children + [one for child in children for one in descendants(child)]


def compile_workers():
    from torch._inductor import config
    from torch._inductor.async_compile import AsyncCompile

    config.compile_threads = 2
    AsyncCompile.warm_pool()


def main():
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank = dist.get_rank()
    if rank == 0:  # Each of these imports takes ten seconds of processor time.
        compile_workers()
    tracked = shared_memory.SharedMemory(create=True, size=4096)
    data = TensorDataset(torch.ones(16, 4))
    # Forked from a process that has used NCCL, and started afresh with its environment.
    for context, workers in (("fork", 2), ("spawn", 1)):
        loader = DataLoader(data, batch_size=4, num_workers=workers,
                            multiprocessing_context=context)
        for number, (batch,) in enumerate(loader):
            dist.all_reduce(batch.to(device))
            if number == 0:
                print(f"rank {rank} with {len(descendants(os.getpid()))} helpers", flush=True)
    tracked.close()
    tracked.unlink()
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
