"""Who else saw a job's calls: PyTorch's Flight Recorder, and NCCL itself, in its log.

Neither knows Rollcall. A dump of the Flight Recorder becomes lines as a script's own call log has
them (examples/pytorch/call_log.py), without what it does not say: reductions and roots. A log of
NCCL (NCCL_DEBUG=INFO, subsystem COLL) becomes the operations that NCCL was asked for.
"""
import pickle
import re

# The Flight Recorder's name of a call, behind "nccl:" or "nccl2:" -> PyTorch's dispatcher's.
DISPATCHED = {
    "all_reduce": "allreduce_", "allreduce_coalesced": "allreduce_coalesced_",
    "barrier": "barrier", "all_reduce_barrier": "barrier",
    "broadcast": "broadcast_", "reduce": "reduce_", "all_gather": "allgather_",
    "_all_gather_base": "_allgather_base_", "_reduce_scatter_base": "_reduce_scatter_base_",
    "all_to_all_single": "alltoall_base_", "all_to_all": "alltoall_base_",
    "gather": "gather_", "scatter": "scatter_", "send": "send", "recv": "recv_"}
# The former backend's entry for the end of a batch, beside those of its members.
END_OF_BATCH = "coalesced"
DTYPES = {"Byte": "uint8", "Int": "int32", "Long": "int64", "Float": "float32",
          "Double": "float64", "BFloat16": "bfloat16"}
# Of a tensor that this rank does not have: the parts of what others gather.
NO_TENSOR = "UNKNOWN_SCALAR"
# Where it is needed to know who exchanges with whom; in all our programs it is this one.
ROOT = 0

LINE = re.compile(r"NCCL INFO (\w+): opCount \w+ sendbuff \S+ recvbuff \S+ count (\d+) "
                  r"datatype (\d+) op (\d+) root (\d+) comm (\S+) \[nranks=(\d+)\]")
NCCL_DTYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32",
               "float64", "bfloat16")
NCCL_REDUCTIONS = ("sum", "prod", "max", "min", "avg")
REDUCING = ("AllReduce", "Reduce", "ReduceScatter")
ROOTED = ("Broadcast", "Reduce")
TRANSFERS = ("Send", "Recv")


def tensors(sizes, dtypes):
    found = []
    for shape, dtype in zip(sizes, dtypes):
        if dtype == NO_TENSOR:
            continue
        elements = 1
        for extent in shape:
            elements *= extent
        found.append([elements, DTYPES[dtype]])
    return found


def line_of_entry(entry):
    """`name peer` of the Flight Recorder, "nccl2:send 0->1", as a line of a call log."""
    name, _, ends = entry["profiling_name"].partition(":")[2].partition(" ")
    inputs = tensors(entry["input_sizes"], entry["input_dtypes"])
    outputs = tensors(entry["output_sizes"], entry["output_dtypes"])
    # Both backends list a scattered tensor's parts, on opposite sides.
    whole = outputs if len(outputs) == 1 else inputs
    line = {"call": DISPATCHED[name], "process_group": entry["process_group"][0],
            "reduce_op": None, "root_rank": ROOT if name in ("gather", "scatter") else None,
            "tensors": inputs or outputs, "input_tensors": inputs, "output_tensors": whole}
    if inputs:
        line["input_tensor"] = line["input"] = inputs[0]
    if outputs:
        line["output_tensor"] = outputs[0]
    if ends:
        line["dst"] = line["src"] = int(re.split("->|<-", ends)[1])
    return line


def calls_of_dump(path):
    """Lines of a call log from one rank's dump. A transfer of the former backend that is in no
    batch has `is_alone`."""
    with open(path, "rb") as file:
        entries = pickle.load(file)["entries"]
    lines = []
    for entry in entries:
        if entry["profiling_name"].endswith(":" + END_OF_BATCH):
            for line in reversed(lines):
                if "dst" not in line:
                    break
                line["is_alone"] = False
            continue
        line = line_of_entry(entry)
        line["is_alone"] = "dst" in line and entry["profiling_name"].startswith("nccl:")
        lines.append(line)
    return lines


def operations_of_log(path):
    """What NCCL was asked for, in order; `comm` is a number by first appearance."""
    operations, communicators = [], {}
    with open(path, encoding="utf-8") as file:
        for found in map(LINE.search, file):
            if not found:
                continue
            op, comm, ranks = found[1], found[6], int(found[7])
            count, dtype, redop, root = (int(found[at]) for at in range(2, 6))
            operations.append({
                "op": op, "count": count, "dtype": NCCL_DTYPES[dtype],
                "redop": NCCL_REDUCTIONS[redop] if op in REDUCING else None,
                "root": root if op in ROOTED else None,
                "peer": root if op in TRANSFERS else None,
                "comm": communicators.setdefault(comm, len(communicators)), "ranks": ranks})
    return operations


def with_numbered_groups(calls):
    """What torch_calls expects, with groups numbered by first appearance, as in a log."""
    groups = {}
    return [{name: call[name] for name in ("op", "count", "dtype", "redop", "root", "peer")}
            | {"comm": groups.setdefault(call["comm"], len(groups))} for call in calls]
