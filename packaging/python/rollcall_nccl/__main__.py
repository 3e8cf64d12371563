"""python -m rollcall_nccl ...: the command, where another package has taken its name.

    python -m rollcall_nccl preload-path    the library for LD_PRELOAD
    python -m rollcall_nccl plugin-path     the library for NCCL_PROFILER_PLUGIN
    python -m rollcall_nccl env [DIR]       lines for a shell: eval "$(python -m rollcall_nccl env)"
    python -m rollcall_nccl ...             anything else is `rollcall ...`
"""
import os
import shlex
import sys

import rollcall_nccl


def main(words):
    if words == ["preload-path"]:
        print(rollcall_nccl.preload_path())
    elif words == ["plugin-path"]:
        print(rollcall_nccl.plugin_path())
    elif words[:1] == ["env"] and len(words) <= 2:
        for name, value in rollcall_nccl.env(*words[1:]).items():
            print(f"export {name}={shlex.quote(value)}")
    else:
        command = rollcall_nccl.command_path()
        # In place of this process: signals and the exit status are the command's.
        os.execv(command, ["rollcall"] + words)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except (OSError, ValueError) as error:
        sys.exit(f"rollcall_nccl: {error}")
