#!/usr/bin/env python3
"""What recording adds to a training step of PyTorch's DDP, measured within one run.

  rollcall run -q -n 2 --emulate=2 -d DIR -- python3 bench/ddp_step.py JSON [PAIRS]

Each rank pauses and resumes its recorder, as `rollcall ctl` would, between short runs of steps, and
each run with it has one without it beside it, first and second in turns: whatever else the machine
does hits both alike. Every step is waited for on the GPU and timed by itself. What recording adds
is the median step with it over the median step without it, of rank 0; of the time that passed, and
of rank 0's processor time, which has the recorder's own thread in it. How far that can be trusted
is found by drawing as many pairs of runs from those measured, with repetition, again and again
(bootstrap): the interval holds 95 of 100 such results. The goal holds, or is missed, where the
interval lies on one side of it; else the machine was too noisy to tell, and "holds" is null. A
paused recorder still passes each call through: that is left out.
"""
import glob
import json
import mmap
import os
import random
import statistics
import sys
import time

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
        """One step, to the end on the GPU: ns that passed, and ns of this process."""
        start_ns, start_own_ns = time.monotonic_ns(), time.process_time_ns()
        loss = self.model(self.batch).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        torch.cuda.synchronize()
        return time.monotonic_ns() - start_ns, time.process_time_ns() - start_own_ns

    def run(self):
        self.step()
        return [self.step() for _ in range(STEPS)]


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
    """[(run with the recorder, run without it)], each a list of steps."""
    measured = []
    for number in range(pairs):
        run = {}
        for is_paused in (False, True) if number % 2 else (True, False):
            switch.set(is_paused)
            run[is_paused] = training.run()
        measured.append((run[False], run[True]))
    return measured


def added_percent(pairs):
    recorded = statistics.median(step for run, _ in pairs for step in run)
    plain = statistics.median(step for _, run in pairs for step in run)
    return 100 * (recorded / plain - 1)


def rows_of_clock(name, pairs):
    draw = random.Random(1)
    drawn = sorted(added_percent(draw.choices(pairs, k=len(pairs))) for _ in range(DRAWS))
    low, high = drawn[DRAWS * 25 // 1000], drawn[DRAWS * 975 // 1000]
    holds = True if high <= GOAL_PERCENT else False if low > GOAL_PERCENT else None
    title = f"DDP step: {name} added"
    return [{"name": f"{title}, {len(pairs)} pairs of {STEPS} steps", "value": added_percent(pairs),
             "unit": "%", "goal": GOAL_PERCENT, "holds": holds},
            {"name": f"{title}: lower end of 95 %", "value": low, "unit": "%", "goal": None},
            {"name": f"{title}: upper end of 95 %", "value": high, "unit": "%", "goal": None}]


def rows_of(measured):
    def of_clock(clock):
        return [tuple([step[clock] for step in run] for run in pair) for pair in measured]

    passed, own = of_clock(0), of_clock(1)
    step_ms = statistics.median(step for _, run in passed for step in run) / 1e6
    return [{"name": "DDP step on the emulator, 2 ranks", "value": step_ms, "unit": "ms",
             "goal": None}, *rows_of_clock("time", passed), *rows_of_clock("processor time", own)]


def main():
    path = sys.argv[1]
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 1500
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
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
