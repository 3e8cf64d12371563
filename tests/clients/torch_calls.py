"""What PyTorch 2.15 makes of a call of torch.distributed in NCCL, as a table, for its present
backend (`nccl`) and its former one (`nccl-legacy`).

Held against what NVIDIA's NCCL says that PyTorch asked it for (torch_calls_test.py), and in every
healthy job of pytorch_faults.py against NCCL's log and PyTorch's Flight Recorder of the same run
(witnesses.py). The groups have one communicator each (init_process_group got a device_id).
"""
import json

REDUCTIONS = {"sum", "avg", "min", "max"}
# Issued by the same traceable code, and no communication.
SILENT = {"_wrap_tensor_autograd", "wait_tensor"}
NCCL_DTYPES = {"uint8": "uint8", "int32": "int32", "int64": "int64", "float32": "float32",
               "float64": "float64", "bfloat16": "bfloat16"}


def read_log(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def collective(op, tensor, *, redop=None, root=None):
    count, dtype = tensor
    return {"op": op, "count": count, "dtype": NCCL_DTYPES[dtype], "redop": redop, "root": root,
            "peer": None}


def transfer(op, tensor, peer):
    return collective(op, tensor) | {"peer": peer}


def all_gather_list(line, place):
    """A list of tensors is no single buffer: the present backend broadcasts each of them."""
    mine = line["input_tensors"][0]
    if place.is_legacy:
        return [collective("AllGather", mine)]
    return [collective("Broadcast", mine, root=root) for root in range(place.ranks)]


def from_root(line, place, op_of_root, op_of_others, tensor):
    """Gather and scatter: the root exchanges with every other rank; its own part it copies."""
    root = line["root_rank"]
    if place.rank != root:
        return [transfer(op_of_others, tensor, root)]
    return [transfer(op_of_root, tensor, peer) for peer in range(place.ranks) if peer != root]


def functional_sum(line, _):
    return [collective("AllReduce", line["input"], redop=line["reduce_op"])]


# call -> the NCCL operations that this rank issues; several of them are one NCCL group.
TABLE = {
    "allreduce_": lambda line, _: [
        collective("AllReduce", line["tensors"][0], redop=line["reduce_op"])],
    "all_reduce": functional_sum,
    "allreduce_coalesced_": lambda line, _: [
        collective("AllReduce", tensor, redop=line["reduce_op"]) for tensor in line["tensors"]],
    "barrier": lambda line, _: [collective("AllReduce", [1, "float32"], redop="sum")],
    "broadcast_": lambda line, _: [
        collective("Broadcast", line["tensors"][0], root=line["root_rank"])],
    "reduce_": lambda line, _: [
        collective("Reduce", line["tensors"][0], redop=line["reduce_op"], root=line["root_rank"])],
    "allgather_": all_gather_list,
    "_allgather_base_": lambda line, _: [collective("AllGather", line["input_tensor"])],
    "_reduce_scatter_base_": lambda line, _: [
        collective("ReduceScatter", line["output_tensor"], redop=line["reduce_op"])],
    # NCCL's count is that of one rank's part.
    "alltoall_base_": lambda line, place: [
        collective("AlltoAll", [line["input"][0] // place.ranks, line["input"][1]])],
    "gather_": lambda line, place: from_root(line, place, "Recv", "Send", line["input_tensors"][0]),
    "scatter_": lambda line, place: from_root(line, place, "Send", "Recv",
                                              line["output_tensors"][0]),
    "send": lambda line, _: [transfer("Send", line["tensors"][0], line["dst"])],
    "recv_": lambda line, _: [transfer("Recv", line["tensors"][0], line["src"])],
}


class Place:
    """One rank in one group."""

    def __init__(self, rank, ranks, is_legacy):
        self.rank, self.ranks, self.is_legacy = rank, ranks, is_legacy


def expected_calls(log, places):
    """The operations that the log implies, each with its group's name and its position there.
    `places`: the name of a group -> this rank's Place in it."""
    calls, positions = [], {}
    for line in log:
        if line["call"] in SILENT:
            continue
        group = line.get("process_group", line.get("group_name"))
        for call in TABLE[line["call"]](line, places[group]):
            is_transfer = call["peer"] is not None
            key = (group, call["op"], call["peer"]) if is_transfer else (group,)
            position = positions[key] = positions.get(key, -1) + 1
            calls.append(call | {"comm": group, "seq": None if is_transfer else position,
                                 "p2p_seq": position if is_transfer else None})
    return calls
