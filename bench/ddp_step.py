#!/usr/bin/env python3
"""What recording adds to a training step of PyTorch's DDP, measured within one run.

  rollcall run -q -n 2 --emulate=2 -d DIR -- python3 bench/ddp_step.py ROLLCALL JSON [PAIRS]

Recording is paused and resumed (`rollcall ctl`) between blocks of steps, and each block with it is
held against the block without it beside it, in turns first and second: whatever else the machine
does hits both alike. Writes the median of the paired differences, of the time that passed and of
rank 0's processor time, which also has the recorder's own thread in it and is steadier on a busy
machine. The goal holds, or is missed, where the median is further from it than twice its standard
error; else the machine was too noisy to tell, and "holds" is null. A paused recorder still passes
each call through: that is left out.
"""
import json
import os
import statistics
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

WIDTH, LAYERS, ROWS = 256, 8, 64
STEPS = 10  # of a block
GOAL_PERCENT = 0.5


class Training:
    def __init__(self, device):
        network = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())
                                  for _ in range(LAYERS)]).to(device)
        self.model = nn.parallel.DistributedDataParallel(network, device_ids=[device.index],
                                                         bucket_cap_mb=0.25)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batch = torch.ones(ROWS, WIDTH, device=device)

    def step(self):
        loss = self.model(self.batch).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def block(self):
        """One step to settle behind the switch, then a block of them, to the end on the GPU: ns
        that passed, and ns of this process."""
        self.step()
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        start_ns, start_own_ns = time.monotonic_ns(), time.process_time_ns()
        for _ in range(STEPS):
            self.step()
        torch.cuda.synchronize()
        return time.monotonic_ns() - start_ns, time.process_time_ns() - start_own_ns


def switch(rollcall, action):
    """On all ranks; it holds from each rank's next call on."""
    if dist.get_rank() == 0:
        subprocess.run([rollcall, "ctl", action, os.environ["ROLLCALL_DIR"]], check=True,
                       stdout=subprocess.DEVNULL, env={"PATH": os.environ["PATH"]})
    dist.barrier()
    torch.cuda.synchronize()


def measure(rollcall, training, pairs):
    """[(block with the recorder, block without it)], in ns."""
    measured = []
    for number in range(pairs):
        block = {}
        for action in ("resume", "pause") if number % 2 else ("pause", "resume"):
            switch(rollcall, action)
            block[action] = training.block()
        measured.append((block["resume"], block["pause"]))
    return measured


def rows_of_clock(name, measured):
    added = [100 * (recorded / plain - 1) for recorded, plain in measured]
    low, middle, high = statistics.quantiles(added, n=4)
    # Of a median, from the spread of the middle half, as for a normal distribution.
    error = 1.25 * (high - low) / 1.35 / len(added) ** 0.5
    distance = GOAL_PERCENT - middle
    return [{"name": f"DDP step: {name} added, median of {len(added)} pairs", "value": middle,
             "unit": "%", "goal": GOAL_PERCENT,
             "holds": None if abs(distance) < 2 * error else distance > 0},
            {"name": f"DDP step: {name} added, spread of the middle half", "value": high - low,
             "unit": "% points", "goal": None}]


def rows_of(measured):
    passed = [(recorded[0], plain[0]) for recorded, plain in measured]
    own = [(recorded[1], plain[1]) for recorded, plain in measured]
    step_ms = statistics.median(plain for _, plain in passed) / STEPS / 1e6
    return [{"name": "DDP step on the emulator, 2 ranks", "value": step_ms, "unit": "ms",
             "goal": None}, *rows_of_clock("time", passed), *rows_of_clock("processor time", own)]


def main():
    rollcall, path = sys.argv[1:3]
    pairs = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    training = Training(device)
    for _ in range(STEPS):
        training.step()
    measured = measure(rollcall, training, pairs)
    if dist.get_rank() == 0:
        with open(path, "w", encoding="utf-8") as file:
            json.dump(rows_of(measured), file, indent=1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
