"""Names PyTorch's process groups in the record: `import rollcall_nccl.torch` in the script.

NCCL, and so Rollcall, hears only the name by which PyTorch itself tells a group apart, a number or
a digest. After this import the description goes on file, too, and a verdict says "mesh_tp:aaa4f203"
instead of "group aaa4f203 of ranks 0-1". Only the rank that imports it writes; ranks that do not
are none the worse.

Groups that exist already are named as well. In a process that is not recorded, and without
PyTorch, nothing happens.
"""
import os
import threading

__all__ = ["name_groups"]

ENDING = ".groups"
HEAD = "rollcall_groups 1"
# PyTorch's own word for a group without a description.
UNDESCRIBED = "undefined"
_lock = threading.Lock()
_known = {}  # groups that are gone have calls on file, too


def _mapped(ending):
    """The first file of this ending that is in this process's memory; None without one."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            path = line.rstrip("\n").partition("/")[2]
            if path.endswith(ending):
                return "/" + path
    return None


def _is_recorded():
    return _mapped("/librollcall.so") or _mapped("/libnccl-profiler-rollcall.so")


def _described_groups():
    """PyTorch's groups: name -> description, without those that have none."""
    from torch.distributed import distributed_c10d as c10d

    found = {}
    for group in list(c10d._world.pg_map):
        description = getattr(group, "group_desc", UNDESCRIBED)
        name = str(getattr(group, "group_name", ""))
        if description and description != UNDESCRIBED and name and not name.isspace():
            found[name] = " ".join(str(description).split())
    return found


def _write(ring, groups):
    """The whole of it beside the ring, in one step: a reader sees the old text or the new one."""
    path = ring[:-len(".ring")] + ENDING
    folder, name = os.path.split(path)
    new = os.path.join(folder, f".{name}")
    lines = [HEAD] + [f"{name} {text}" for name, text in groups.items() if " " not in name]
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8", errors="replace") as out:
        out.write("".join(line + "\n" for line in lines))
    os.replace(new, path)


def name_groups():
    """Puts the descriptions of all groups on file. True: the record is there, and has them."""
    with _lock:
        ring = _mapped(".ring")
        if ring is None:
            return False
        _known.update(_described_groups())
        _write(ring, _known)
        return True


def _note():
    """After a group was made. PyTorch's default backend, whose names say nothing, has called NCCL
    by then, and with the first call the record begins."""
    try:
        if _is_recorded():
            name_groups()
    except Exception:  # of PyTorch's insides, of the disk: it costs the names
        pass


def _attach():
    """Every way of PyTorch's to make a group ends in _register_process_group, since 2.2."""
    try:
        from torch.distributed import distributed_c10d as c10d
    except ImportError:
        return
    plain = getattr(c10d, "_register_process_group", None)
    if plain is None or hasattr(plain, "rollcall_plain"):
        return

    def register(*arguments, **named):
        made = plain(*arguments, **named)
        _note()
        return made

    register.rollcall_plain = plain
    c10d._register_process_group = register
    _note()


_attach()
