"""One training loop per parallel style, each as short as people write it."""
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn

import faults

WIDTH = 64
ROWS = 8
MICRO_BATCHES = 2


@dataclass(frozen=True)
class Job:
    rank: int
    ranks: int
    device: torch.device
    steps: int
    fault: faults.Fault

    def batch(self):
        return torch.ones(ROWS, WIDTH, device=self.device)

    def report(self, step, loss):
        """Waits for the GPU, as every loop does that prints its loss."""
        value = loss.item()
        if self.rank == 0:
            print(f"step {step} loss {value:.6f}", flush=True)


def network(layers=2):
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
                           for _ in range(layers)])


def optimizer_of(model):
    return torch.optim.SGD(model.parameters(), lr=0.01)


def update(model, optimizer, batch):
    loss = model(batch).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def metrics_of(job, step, loss):
    """Loss and counts of a step, summed over the ranks."""
    metrics = torch.zeros(5 if job.fault.strikes("shape", step) else 4, device=job.device)
    metrics[0] = loss
    if job.fault.strikes("dtype", step):
        metrics = metrics.double()
    dist.all_reduce(metrics)
    return metrics[0]


def ddp(job):
    """Data parallel: gradients are summed while the backward pass runs."""
    model = nn.parallel.DistributedDataParallel(network().to(job.device),
                                                device_ids=[job.device.index])
    optimizer = optimizer_of(model)
    for step in range(job.steps):
        job.fault.before_step(step)
        if job.fault.strikes("uneven-batches", step):
            break
        try:
            if job.fault.strikes("exception-handler", step):
                raise ValueError("a sample cannot be decoded")
            loss = update(model, optimizer, job.batch())
        except ValueError:
            failed = torch.ones(1, dtype=torch.int32, device=job.device)
            dist.all_reduce(failed, op=dist.ReduceOp.MAX)
            loss = torch.zeros((), device=job.device)
        if job.fault.strikes("rank0-only", step):
            dist.all_reduce(torch.zeros(3, device=job.device))
        if job.fault.strikes("checkpoint-gather", step):
            weight = next(model.parameters()).detach()
            dist.all_gather([torch.empty_like(weight) for _ in range(job.ranks)], weight)
        job.report(step, metrics_of(job, step, loss))


def fsdp2(job):
    """Parameters are sharded over the ranks and gathered layer by layer."""
    from torch.distributed.fsdp import fully_shard

    model = network().to(job.device)
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = optimizer_of(model)
    for step in range(job.steps):
        job.fault.before_step(step)
        if job.fault.strikes("skip-shard", step):
            loss = torch.zeros((), device=job.device)
        else:
            loss = update(model, optimizer, job.batch())
        job.report(step, metrics_of(job, step, loss))


def tensor(job):
    """The weights of each layer are divided over the ranks (DTensor)."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)

    mesh = init_device_mesh("cuda", (job.ranks,))
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH))
    model = parallelize_module(model.to(job.device), mesh,
                               {"0": ColwiseParallel(), "2": RowwiseParallel()})
    optimizer = optimizer_of(model)
    for step in range(job.steps):
        job.fault.before_step(step)
        loss = update(model, optimizer, job.batch())
        job.report(step, metrics_of(job, step, loss))


def pipeline(job):
    """Each rank holds one stage; micro-batches flow through (torch.distributed.pipelining)."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    # The shapes are given, so that the stages need not tell each other.
    example = torch.zeros(ROWS // MICRO_BATCHES, WIDTH, device=job.device, requires_grad=True)
    stage = PipelineStage(network(1).to(job.device), job.rank, job.ranks, job.device,
                          input_args=example if job.rank else example.detach(),
                          output_args=example)
    schedule = ScheduleGPipe(stage, n_microbatches=MICRO_BATCHES,
                             loss_fn=lambda output, target: (output - target).pow(2).mean())
    for step in range(job.steps):
        job.fault.before_step(step)
        exchange_boundaries(job, step)
        if job.rank == 0:
            schedule.step(job.batch())
        elif job.rank == job.ranks - 1:
            schedule.step(target=job.batch())
        else:
            schedule.step()
        job.report(step, metrics_of(job, step, torch.zeros((), device=job.device)))


def exchange_boundaries(job, step):
    """A hand-written exchange with the neighbour: even ranks send first, odd ranks receive first.
    Large enough that a send waits for its receiver."""
    peer = job.rank ^ 1
    if peer >= job.ranks:
        return
    mine = torch.zeros(1 << 20, device=job.device)
    theirs = torch.empty_like(mine)
    sends_first = job.rank % 2 == 0 or job.fault.strikes("crossed-pipeline", step)
    for is_send in (sends_first, not sends_first):
        if is_send:
            dist.send(mine, peer)
        else:
            dist.recv(theirs, peer)


def moe(job):
    """A mixture of experts: tokens travel to their expert's rank and back."""
    gate = nn.parallel.DistributedDataParallel(network(1).to(job.device),
                                               device_ids=[job.device.index])
    expert = network(1).to(job.device)
    optimizer = torch.optim.SGD([*gate.parameters(), *expert.parameters()], lr=0.01)
    tokens = torch.ones(job.ranks * ROWS, WIDTH, device=job.device)
    for step in range(job.steps):
        job.fault.before_step(step)
        routed = gate(tokens).detach()
        arrived = torch.empty_like(routed)
        if not job.fault.strikes("skip-experts", step):
            dist.all_to_all_single(arrived, routed)
            dist.all_to_all_single(routed, expert(arrived).detach())
        loss = gate(tokens).pow(2).mean() + expert(routed).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        job.report(step, metrics_of(job, step, loss.detach()))


def mixed(job):
    """Groups of two beside the world, batched point-to-point, coalesced and asynchronous calls."""
    pairs = [[first, first + 1] for first in range(0, job.ranks - 1, 2)]
    own = None
    for number, pair in enumerate(pairs):
        if number == len(pairs) - 1 and job.fault.strikes("new-group", 0):
            continue
        group = dist.new_group(pair)
        if job.rank in pair:
            own = group
    for step in range(job.steps):
        job.fault.before_step(step)
        gradient = torch.ones(WIDTH, device=job.device)
        groups = [own, None] if own is not None else [None]
        if job.fault.strikes("group-order", step):
            groups.reverse()
        for group in groups:
            # On the group's own stream; no host waits, and the next group's stream does.
            dist.all_reduce(gradient, group=group, async_op=True).wait()
        ring(job)
        rooted(job)
        work = dist.all_reduce(torch.ones(WIDTH, device=job.device), async_op=True)
        dist.all_reduce_coalesced([torch.ones(3, device=job.device),
                                   torch.ones(5, device=job.device)])
        work.wait()
        job.report(step, metrics_of(job, step, gradient[0]))


def ring(job):
    """Every rank sends to the next and receives from the one before it, in one batch."""
    mine = torch.ones(WIDTH, device=job.device)
    theirs = torch.empty_like(mine)
    calls = [dist.P2POp(dist.isend, mine, (job.rank + 1) % job.ranks),
             dist.P2POp(dist.irecv, theirs, (job.rank - 1) % job.ranks)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()


def rooted(job):
    """What has a root, and rank 0 it is."""
    mine = torch.ones(WIDTH, device=job.device)
    parts = [torch.ones(WIDTH, device=job.device) for _ in range(job.ranks)]
    is_root = job.rank == 0
    dist.gather(mine, parts if is_root else None, dst=0)
    dist.scatter(mine, parts if is_root else None, src=0)
    dist.reduce(mine, dst=0, op=dist.ReduceOp.MAX)


STYLES = {style.__name__: style for style in (ddp, fsdp2, tensor, pipeline, moe, mixed)}
