"""Four ranks, in rows of two and columns of two, whose GPUs wait for each other; rank 3 does what
KIND says:

  blocked    puts a host function that does not end in front of its column's call, on a side stream
  no-column  captures no call of its column
  order      replays two graphs in the other order, once
  branch     captures such a host function in front of its column's call, on one of two streams
  skip       leaves out, once, the replay in front of that of a graph with calls on two streams
  anew       captures its graph anew, and replays that: nothing is wrong with it

    {"script": "gpu_waits", "arguments": [KIND, "healthy"]}      see zygote.py
"""
import ctypes
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

STEPS, FAULT_STEP, ODD = 4, 2, 3


def capture(calls):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        calls()
    return graph


def block(stream):
    runtime = ctypes.CDLL("libcudart.so.13")
    sleep = ctypes.cast(ctypes.CDLL(None).sleep, ctypes.c_void_p)
    status = runtime.cudaLaunchHostFunc(ctypes.c_void_p(stream.cuda_stream), sleep,
                                        ctypes.c_void_p(100000))
    assert status == 0, status


class Rank:
    def __init__(self, kind, is_healthy):
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
        self.kind = kind
        self.fault = kind if dist.get_rank() == ODD and not is_healthy else ""
        mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("column", "row"))
        self.row, self.column = mesh.get_group("row"), mesh.get_group("column")
        self.small, self.large = torch.ones(8, device=device), torch.ones(16, device=device)
        self.graphs = []
        for group in (self.row, self.column):
            dist.all_reduce(self.small, group=group)

    def planted(self, kind, is_captured=False):
        """Whether this rank does here what `kind` says, or captures that it will."""
        if self.fault == kind and not is_captured:
            print("planted", flush=True)
        return self.fault == kind

    def step_eagerly(self, step):
        side = torch.cuda.Stream()
        dist.all_reduce(self.small, group=self.row)
        if step == FAULT_STEP and self.planted("blocked"):
            block(side)
        with torch.cuda.stream(side):
            dist.all_reduce(self.small, group=self.column)
        torch.cuda.current_stream().wait_stream(side)

    def capture(self):
        def calls():
            dist.all_reduce(self.small, group=self.row)
            if not self.planted("no-column", is_captured=True):
                dist.all_reduce(self.small, group=self.column)
            dist.all_reduce(self.small, group=self.row)

        if self.kind in ("branch", "skip"):
            self.graphs = [capture(lambda: dist.all_reduce(self.small, group=self.row)),
                           capture(self.call_side_by_side)]
            return
        self.graphs = [capture(calls),
                       capture(lambda: dist.all_gather_into_tensor(self.large, self.small,
                                                                   group=self.row))]

    def call_side_by_side(self):
        """A call of the row and one of the column, each on its communicator's stream, then one of
        all."""
        in_row = dist.all_reduce(self.small, group=self.row, async_op=True)
        if self.planted("branch", is_captured=True):
            block(torch.cuda.current_stream())
        in_column = dist.all_reduce(self.large, group=self.column, async_op=True)
        for work in (in_row, in_column):
            work.wait()
        dist.all_reduce(self.small)

    def step_by_graphs(self, step):
        is_odd = step == FAULT_STEP
        if is_odd and self.planted("anew"):
            self.capture()
        for graph in reversed(self.graphs) if is_odd and self.planted("order") else self.graphs:
            if not (is_odd and graph is self.graphs[0] and self.planted("skip")):
                graph.replay()
        dist.all_reduce(self.large, group=self.row)

    def run(self, is_eager):
        if not is_eager:
            self.capture()
            if self.fault in ("no-column", "branch"):
                print("planted", flush=True)
        for step in range(STEPS):
            (self.step_eagerly if is_eager else self.step_by_graphs)(step)
            torch.cuda.synchronize()
            dist.all_reduce(self.small)
            torch.cuda.synchronize()
        self.graphs.clear()


def main(arguments):
    kind = arguments[0]
    rank = Rank(kind, "healthy" in arguments)
    rank.run(kind == "blocked")
    dist.destroy_process_group()
    return 0
