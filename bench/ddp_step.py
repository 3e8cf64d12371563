#!/usr/bin/env python3
"""What recording adds to a training step of PyTorch's DDP, measured within one run.

  rollcall run -q -n 2 --emulate=2 -d DIR -- python3 bench/ddp_step.py JSON [PAIRS]

--help lists what else can be set, for scripts/gpu_check.py. Each rank pauses and resumes its
recorder, as `rollcall ctl` would, between short runs of steps, and each run with it has one without
it beside it, first and second in turns: whatever else the machine does hits both alike. On the
emulator each rank has a core to itself, as far as there are enough.

Two clocks are read, on rank 0. The time that passed, step by step, each waited for on the GPU: its
median with the recorder over that without it, median of the pairs. It swings with every turn that
the scheduler takes among the threads of two ranks and of their emulated GPUs. And the processor
time of the job's threads and of the recorder's, the emulator's left out: how much more a step takes
of it, against the time that a step takes.

How far a result can be trusted is said by an interval (bench/paired.py). The goal holds, or is
missed, where the interval lies on one side of it; else the machine was too noisy to tell, and
"holds" is null. A paused recorder still passes each call through: that is left out.
"""
import argparse
import inspect
import json
import os
import statistics
import time

import paired
from recorder_switch import Switch


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("json")
    parser.add_argument("pairs", nargs="?", type=int, default=4000)
    parser.add_argument("--seconds", type=float, help="at most as many pairs as fit into these")
    parser.add_argument("--goal", type=float, default=0.5, help="per cent of a step (0.5)")
    parser.add_argument("--width", type=int, default=256, help="of a layer (256)")
    parser.add_argument("--rows", type=int, default=64, help="of a batch (64)")
    parser.add_argument("--bucket-mb", type=float, default=0.25, help="of gradients (0.25)")
    parser.add_argument("--graph", action="store_true", help="the whole step is a CUDA graph")
    return parser.parse_args()


ARGUMENTS = read_arguments()
LOCAL_RANK = int(os.environ["LOCAL_RANK"])
IS_EMULATED = "ROLLCALL_EMULATE_GPUS" in os.environ
CORES = sorted(os.sched_getaffinity(0))
if IS_EMULATED:  # before there are threads to leave out; a real NCCL's share the core with nobody
    os.sched_setaffinity(0, {CORES[LOCAL_RANK % len(CORES)]})
if ARGUMENTS.graph:  # the watchdog asks events, which breaks a capture
    for prefix in ("TORCH_", ""):  # since 2.2, and before
        os.environ[prefix + "NCCL_ASYNC_ERROR_HANDLING"] = "0"

import torch
import torch.distributed as dist
from torch import nn

LAYERS = 8
STEPS = 8  # of a run, behind one that is not measured
WARM_UP = 12  # DDP wants eleven before a capture


class Training:
    def __init__(self, device):
        width = ARGUMENTS.width
        network = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.ReLU())
                                  for _ in range(LAYERS)]).to(device)
        self.model = nn.parallel.DistributedDataParallel(network, device_ids=[device.index],
                                                         bucket_cap_mb=ARGUMENTS.bucket_mb)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batch = torch.ones(ARGUMENTS.rows, width, device=device)
        self.graph = None

    def calls_of_step(self):
        loss = self.model(self.batch).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def capture(self, stream):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            self.calls_of_step()
        self.graph = graph

    def step(self):
        """One step, to the end on the GPU: ns that passed."""
        start_ns = time.monotonic_ns()
        if self.graph is None:
            self.calls_of_step()
        else:
            self.graph.replay()
        torch.cuda.synchronize()
        return time.monotonic_ns() - start_ns

    def run(self):
        """The median step of a run: ns that passed; and ns of processor time in each."""
        self.step()
        start_ns = processor_time_ns()
        steps = [self.step() for _ in range(STEPS)]
        return statistics.median(steps), (processor_time_ns() - start_ns) / STEPS


def processor_time_ns():
    """Of the threads of this process, except those that stand for GPUs."""
    total = 0
    for thread in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{thread}/comm", encoding="utf-8") as file:
            if file.read().startswith("emu-"):
                continue
        total += time.clock_gettime_ns(~int(thread) << 3 | 6)  # what pthread_getcpuclockid gives
    return total


def pairs_that_fit(training, device):
    """The same number on every rank."""
    if ARGUMENTS.seconds is None or ARGUMENTS.pairs == 0:
        return ARGUMENTS.pairs
    start = time.monotonic()
    training.run()
    took_s = 2 * (time.monotonic() - start)
    fitting = torch.tensor([min(ARGUMENTS.pairs, max(2, int(ARGUMENTS.seconds / took_s)))],
                           device=device)
    dist.broadcast(fitting, 0)
    return int(fitting.item())


def rows_of_clock(name, added):
    """`added`: of each pair, in percent of a step."""
    low, high = interval = paired.interval_of(added)
    holds = paired.holds(interval, ARGUMENTS.goal)
    title = f"DDP step: {name} added"
    return [{"name": f"{title}, {len(added)} pairs of {STEPS} steps",
             "value": statistics.median(added), "unit": "%", "goal": ARGUMENTS.goal,
             "holds": holds},
            {"name": f"{title}: lower end of 95 %", "value": low, "unit": "%", "goal": None},
            {"name": f"{title}: upper end of 95 %", "value": high, "unit": "%", "goal": None}]


def rows_of(measured, ranks):
    step_ns = statistics.median(passed for _, (passed, _) in measured)
    passed = [100 * (recorded / plain - 1) for (recorded, _), (plain, _) in measured]
    own = [100 * (recorded - plain) / step_ns for (_, recorded), (_, plain) in measured]
    where = " on the emulator" if IS_EMULATED else ""
    return [{"name": f"DDP step{where}, {ranks} ranks", "value": step_ns / 1e6, "unit": "ms",
             "goal": None}, *rows_of_clock("time", passed), *rows_of_clock("processor time", own)]


def captured(device):
    """Warm, and captured on the stream on which it was made: PyTorch's notes on capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        training = Training(device)
        for _ in range(WARM_UP):
            training.step()
    torch.cuda.current_stream().wait_stream(side)
    training.capture(side)
    return training


def start_process_group(device):
    bound = {"device_id": device}
    if bound.keys() <= inspect.signature(dist.init_process_group).parameters.keys():  # since 2.3
        dist.init_process_group("nccl", **bound)
    else:
        dist.init_process_group("nccl")


def main():
    device = torch.device("cuda", LOCAL_RANK % torch.cuda.device_count())
    torch.cuda.set_device(device)
    start_process_group(device)
    training = captured(device) if ARGUMENTS.graph else Training(device)
    training.run()
    pairs = pairs_that_fit(training, device)
    if pairs == 0:  # no recorder is needed
        step_ms = training.run()[0] / 1e6
        rows = [{"name": "DDP step", "value": step_ms, "unit": "ms", "goal": None}]
    else:
        rows = rows_of(Switch().in_turns(pairs, training.run), dist.get_world_size())
    if dist.get_rank() == 0:
        with open(ARGUMENTS.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    torch.cuda.synchronize()
    training.graph = None  # NCCL ends no communicator whose kernels a graph holds
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
