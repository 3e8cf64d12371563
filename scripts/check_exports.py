#!/usr/bin/env python3
"""What the injected libraries show to the job and need from its system.

  scripts/check_exports.py LIBRARY...

For each library: exports are nccl* functions of shim/api_table.h, dlsym, dlvsym, _exit, _Exit,
rollcall_name_group and ncclProfiler_v*, nothing else, and every intercepted function is among them
if one is; it needs libc, libdl and libpthread only; no symbol asks for a glibc newer than 2.28; it
cannot be unloaded.
Exit status 1 with one line per violation.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NEEDED = {"libc.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2",
          "ld-linux-aarch64.so.1"}
GLIBC_NEWEST = (2, 28)
HOOKS = {"dlsym", "dlvsym", "_exit", "_Exit", "rollcall_name_group"}
PLUGIN = re.compile(r"ncclProfiler_v[0-9]+$")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def intercepted_functions():
    with open(os.path.join(ROOT, "shim", "api_table.h"), encoding="utf-8") as table:
        return set(re.findall(r"X\((?:event|group|operation), (nccl\w+)", table.read()))


def violations_of_exports(exports, intercepted):
    found = [f"exports {name}, which is none of nccl*, ncclProfiler_v*, {', '.join(sorted(HOOKS))}"
             for name in sorted(exports)
             if name not in intercepted | HOOKS and not PLUGIN.match(name)]
    if exports & intercepted:
        found += [f"does not export {name}" for name in sorted((intercepted | HOOKS) - exports)]
    return found


def violations_of_needs(dynamic):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    found = [f"needs {name}" for name in needed if name not in NEEDED]
    if "NODELETE" not in dynamic:
        found.append("can be unloaded: link it with -z nodelete")
    return found


def violations_of_versions(symbols):
    found = []
    for version, name in re.findall(r"\*UND\*.*\(?GLIBC_([0-9.]+)\)?\s+(\S+)", symbols):
        if tuple(map(int, version.split(".")[:2])) > GLIBC_NEWEST:
            found.append(f"{name} needs glibc {version}: bind it in cmake/glibc_compat.h")
    return found


def check(library):
    exports = {line.split()[-1].split("@")[0]
               for line in output_of("nm", "-D", "--defined-only", library).splitlines()}
    return (violations_of_exports(exports, intercepted_functions())
            + violations_of_needs(output_of("readelf", "-dW", library))
            + violations_of_versions(output_of("objdump", "-T", library)))


def main():
    libraries = sys.argv[1:]
    if not libraries or libraries[0].startswith("-"):
        print(__doc__)
        return 2
    status = 0
    for library in libraries:
        if not os.path.exists(library):
            print(f"{library}: no such file; build it first", file=sys.stderr)
            return 2
        found = check(library)
        for violation in found:
            print(f"{library}: {violation}")
        status |= bool(found)
        if not found:
            print(f"{library}: exports, needs and glibc versions are as they should be")
    return status


if __name__ == "__main__":
    sys.exit(main())
