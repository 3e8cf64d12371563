"""What a script asks of torch.distributed, as a file: `train.py --log-calls PREFIX`.

One line of JSON per operation, written before it is issued: its name as PyTorch's dispatcher has it
("allreduce_"), and its arguments by the names of its schema. A tensor is [elements, dtype], a group
its name. PyTorch's own calls are seen too: DDP's gradients, FSDP2's gathering, DTensor's sums.
"""
import json

import torch
from torch.distributed import ProcessGroup, ReduceOp
from torch.utils._python_dispatch import TorchDispatchMode

# Of the two namespaces the second is what traceable code calls, for example DTensor.
NAMESPACES = ("c10d", "_c10d_functional")
UNBOXED = {"process_group": lambda boxed: ProcessGroup.unbox(boxed).group_name}
# Not in PyTorch 2.7: there the reduction is not told.
if hasattr(ReduceOp, "unbox"):
    UNBOXED["reduce_op"] = (
        lambda boxed: str(ReduceOp.unbox(boxed).op).rpartition(".")[2].lower())


class CallLog(TorchDispatchMode):
    def __init__(self, prefix, rank):
        super().__init__()
        self.file = open(f"{prefix}.{rank}", "w", encoding="utf-8")

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace in NAMESPACES:
            self.write(function, args)
        return function(*args, **(kwargs or {}))

    def write(self, function, values):
        line = {"call": function._schema.name.partition("::")[2]}
        for argument, value in zip(function._schema.arguments, values):
            line[argument.name] = plain(argument.name, value)
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def plain(name, value):
    if isinstance(value, torch.Tensor):
        return [value.numel(), str(value.dtype).removeprefix("torch.")]
    if isinstance(value, (list, tuple)):
        return [plain(name, one) for one in value]
    if isinstance(value, torch.ScriptObject):
        return UNBOXED[name](value) if name in UNBOXED else None
    return value
