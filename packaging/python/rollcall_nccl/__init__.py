"""Where Rollcall's libraries are, and the environment that puts them in front of NCCL.

For launchers that set a job's environment themselves (Ray, Kubernetes, a cluster's own scripts).
Everybody else puts `rollcall run --` in front of the job.

    import rollcall_nccl
    ray.init(runtime_env={"env_vars": rollcall_nccl.env("/scratch/run1")})

Importing this loads nothing into the process: the libraries act in processes that are started with
the environment.
"""
import os

__all__ = ["command_path", "env", "plugin_path", "preload_path", "__version__"]
__version__ = "@VERSION@"

_FOLDER = os.path.join("lib", "rollcall")
# site-packages, python3.x, lib, prefix; or the folder of `pip install --target`.
_LEVELS_MAX = 5


def _library_folder():
    above = os.path.dirname(os.path.abspath(__file__))
    for _ in range(_LEVELS_MAX):
        above = os.path.dirname(above)
        folder = os.path.join(above, _FOLDER)
        if os.path.isfile(os.path.join(folder, "librollcall.so")):
            return folder
    raise FileNotFoundError(
        f"{_FOLDER}/librollcall.so is in no folder above {os.path.abspath(__file__)}; install "
        "rollcall-nccl again with pip")


def command_path():
    """The program `rollcall` itself, whatever has become of the script of that name."""
    return os.path.join(_library_folder(), "rollcall")


def preload_path():
    """librollcall.so: for LD_PRELOAD, and for NCCL_PROFILER_PLUGIN beside it."""
    return os.path.join(_library_folder(), "librollcall.so")


def plugin_path():
    """libnccl-profiler-rollcall.so: for NCCL_PROFILER_PLUGIN alone."""
    return os.path.join(_library_folder(), "libnccl-profiler-rollcall.so")


def env(directory=None, run_id=None, base=None):
    """The variables that record a job, as a dict to be added to the job's environment.

    directory: the run directory (ROLLCALL_DIR); None leaves it to the variable that is set, or to
    rollcall-runs in the job's working directory. run_id: the same text on all hosts of a job that
    is started host by host (ROLLCALL_RUN_ID). base: the environment that is added to, by default
    this process's. What LD_PRELOAD holds there stays in front; a path that is in it already is not
    added again.
    """
    base = os.environ if base is None else base
    library = preload_path()
    if any(mark in library for mark in ": "):
        raise ValueError(f"{library} cannot be preloaded, because its path holds a space or a "
                         "colon; install rollcall-nccl under another path")
    before = base.get("LD_PRELOAD", "")
    is_there = library in before.replace(":", " ").split()
    variables = {"LD_PRELOAD": before if is_there else f"{before}:{library}".lstrip(":")}
    if directory is not None:
        variables["ROLLCALL_DIR"] = os.fspath(directory)
    if run_id is not None:
        variables["ROLLCALL_RUN_ID"] = str(run_id)
    return variables
