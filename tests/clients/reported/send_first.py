"""Two ranks exchange tensors, and each sends before it receives.

https://github.com/NVIDIA/nccl/issues/479
"""
import torch.distributed as dist


def job(ranks):
    peer = 1 - ranks.rank
    dist.all_reduce(ranks.ones(1))
    mine, other = ranks.ones(256), ranks.ones(256)
    if ranks.planted(0, 1):
        dist.send(mine, peer)
        dist.recv(other, peer)
        return
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, peer),
                                        dist.P2POp(dist.irecv, other, peer)]):
        work.wait()
