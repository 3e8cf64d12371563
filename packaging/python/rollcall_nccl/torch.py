"""Tells the recorder what PyTorch's process groups are called.

    import rollcall_nccl.torch          # anywhere in front of init_process_group()

PyTorch's newer backend tells NCCL the number or a hash of a group and keeps its description (that
of new_group(group_desc=...), of a mesh's dimension) to itself. With this import the verdict says
"mesh_dp:4314d7ee" for "4314d7ee2124be46...", and where a rank stands in the mesh.

Where nothing records, where PyTorch is not installed, or is one that keeps its groups elsewhere,
the import does nothing. It never raises, and makes no call of NCCL or CUDA.
"""
import ctypes

__all__ = ["is_watching"]

# "undefined" is PyTorch's own word.
_NAMELESS = ("", "undefined", None)


def _recorder():
    """rollcall_name_group() of the preloaded library; None without one."""
    try:
        function = ctypes.CDLL(None).rollcall_name_group
    except (AttributeError, OSError):
        return None
    function.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    function.restype = ctypes.c_int
    return function


def _tell(function, name, group):
    description = getattr(group, "group_desc", None)
    if description in _NAMELESS or not isinstance(description, str) or not isinstance(name, str):
        return
    function(name.encode("utf-8", "replace"), description.encode("utf-8", "replace"))


class _Names(dict):
    """PyTorch's table of its groups' names, which every way of making a group fills in."""

    def __init__(self, function, names):
        super().__init__(names)
        self._function = function
        for group, name in names.items():
            _tell(function, name, group)

    def __setitem__(self, group, name):
        super().__setitem__(group, name)
        _tell(self._function, name, group)


def _watch():
    function = _recorder()
    if function is None:
        return False
    try:
        from torch.distributed import distributed_c10d  # pylint: disable=import-outside-toplevel
    except Exception:  # pylint: disable=broad-exception-caught
        return False  # whatever is wrong with PyTorch, the job's own import of it says so
    names = getattr(distributed_c10d, "_pg_names", None)
    if not isinstance(names, dict):
        return False
    if not isinstance(names, _Names):
        distributed_c10d._pg_names = _Names(function, names)  # pylint: disable=protected-access
    world = getattr(distributed_c10d, "_world", None)
    return isinstance(getattr(world, "pg_names", None), _Names)


_IS_WATCHING = _watch()


def is_watching():
    """Whether groups that PyTorch makes from now on are told to the recorder."""
    return _IS_WATCHING
