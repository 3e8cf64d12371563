#!/usr/bin/env python3
"""What recording adds to a training step of PyTorch's DDP, measured within one run.

  rollcall run -q -n 2 --emulate=2 -d DIR -- python3 bench/ddp_step.py JSON [PAIRS]

Each rank pauses and resumes its recorder, as `rollcall ctl` would, between short runs of steps, and
each run with it has one without it beside it, first and second in turns: whatever else the machine
does hits both alike. Each rank has a core to itself, as far as there are enough.

Two clocks are read, on rank 0. The time that passed, step by step, each waited for on the GPU: its
median with the recorder over that without it, median of the pairs. It swings with every turn that
the scheduler takes among the threads of two ranks and of their emulated GPUs. And the processor
time of the job's threads and of the recorder's, the emulator's left out: how much more a step takes
of it, against the time that a step takes.

How far a result can be trusted is found by drawing as many pairs of runs from those measured, with
repetition, again and again (bootstrap): the interval holds 95 of 100 such results. The goal holds,
or is missed, where the interval lies on one side of it; else the machine was too noisy to tell, and
"holds" is null. A paused recorder still passes each call through: that is left out.
"""
import glob
import json
import mmap
import os
import random
import statistics
import sys
import time

LOCAL_RANK = int(os.environ["LOCAL_RANK"])
CORES = sorted(os.sched_getaffinity(0))
os.sched_setaffinity(0, {CORES[LOCAL_RANK % len(CORES)]})  # before there are threads to leave out

import torch
import torch.distributed as dist
from torch import nn

WIDTH, LAYERS, ROWS = 256, 8, 64
STEPS = 8  # of a run, behind one that is not measured
GOAL_PERCENT = 0.5
DRAWS = 200
CAPTURE_SWITCH = 576  # docs/FORMAT.md, header of the ring file: u32, 0 record, 1 pause


class Training:
    def __init__(self, device):
        network = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
                                  for _ in range(LAYERS)]).to(device)
        self.model = nn.parallel.DistributedDataParallel(network, device_ids=[device.index],
                                                         bucket_cap_mb=0.25)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batch = torch.ones(ROWS, WIDTH, device=device)

    def step(self):
        """One step, to the end on the GPU: ns that passed."""
        start_ns = time.monotonic_ns()
        loss = self.model(self.batch).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
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


class Switch:
    """Of this process's recorder: in its ring file."""

    def __init__(self):
        pattern = os.path.join(os.environ["ROLLCALL_DIR"], f"*.{os.getpid()}.*.ring")
        (path,) = glob.glob(pattern)
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)

    def set(self, is_paused):
        self.memory[CAPTURE_SWITCH:CAPTURE_SWITCH + 4] = int(is_paused).to_bytes(4, sys.byteorder)


def measure(training, switch, pairs):
    """[(run with the recorder, run without it)]."""
    measured = []
    for number in range(pairs):
        run = {}
        for is_paused in (False, True) if number % 2 else (True, False):
            switch.set(is_paused)
            run[is_paused] = training.run()
        measured.append((run[False], run[True]))
    return measured


def rows_of_clock(name, added):
    """`added`: of each pair, in percent of a step."""
    draw = random.Random(1)
    drawn = sorted(statistics.median(draw.choices(added, k=len(added))) for _ in range(DRAWS))
    low, high = drawn[DRAWS * 25 // 1000], drawn[DRAWS * 975 // 1000]
    holds = True if high <= GOAL_PERCENT else False if low > GOAL_PERCENT else None
    title = f"DDP step: {name} added"
    return [{"name": f"{title}, {len(added)} pairs of {STEPS} steps",
             "value": statistics.median(added), "unit": "%", "goal": GOAL_PERCENT, "holds": holds},
            {"name": f"{title}: lower end of 95 %", "value": low, "unit": "%", "goal": None},
            {"name": f"{title}: upper end of 95 %", "value": high, "unit": "%", "goal": None}]


def rows_of(measured):
    step_ns = statistics.median(passed for _, (passed, _) in measured)
    passed = [100 * (recorded / plain - 1) for (recorded, _), (plain, _) in measured]
    own = [100 * (recorded - plain) / step_ns for (_, recorded), (_, plain) in measured]
    return [{"name": "DDP step on the emulator, 2 ranks", "value": step_ns / 1e6, "unit": "ms",
             "goal": None}, *rows_of_clock("time", passed), *rows_of_clock("processor time", own)]


def main():
    path = sys.argv[1]
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    device = torch.device("cuda", LOCAL_RANK)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    training = Training(device)
    training.run()
    measured = measure(training, Switch(), pairs)
    if dist.get_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows_of(measured), file, indent=1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
