#!/usr/bin/env python3
"""Checks which folder includes which.

The folders are stages of a flow (docs/ARCHITECTURE.md). A file may include its own folder and the
folders its stage is allowed, nothing across and nothing upward; the injected folders may not
include libraries that must never reach somebody else's process.

  scripts/check_layering.py              checks the tracked files of this repository
  scripts/check_layering.py --self-test  proves that a violation is found
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

CORE = ["core/base", "core/format", "core/ring", "core/gpu", "core/capture"]
READERS = ["core/base", "core/format", "settings", "trace", "analysis", "statistics", "comparison",
           "slow", "report", "report/page"]

# The floors of the analysis, from the ground up: each may include those below it. A name without an
# ending is a folder, or a header with its source.
FLOORS = [f"analysis/{name}" for name in (
    "verdict", "options", "finding", "terms", "record", "testimony", "alignment", "waits", "facts",
    "gpu", "slips", "words", "rules", "explain", "views")]

# folder -> folders it may include besides itself. Longest folder wins.
ALLOWED = {
    "core/base": [],
    "core/format": CORE[:1],
    "core/ring": CORE[:2],
    "core/gpu": CORE[:3],
    "core/capture": CORE[:4],
    "shim": CORE,
    "profiler_plugin": CORE,
    "settings": [],
    "trace": READERS[:2],
    "analysis": READERS[:4],
    "statistics": READERS[:5],
    "comparison": READERS[:5],
    "slow": READERS[:5],
    "report": READERS[:8],
    "report/page": READERS[:9],
    "tools": READERS,
    "emulator": [],
    "examples": [],
    "bench": CORE + READERS + ["shim", "profiler_plugin"],
    "fuzz": CORE + READERS + ["tests"],  # the files that tests make by hand
    **{floor: READERS[:4] + FLOORS[:below] for below, floor in enumerate(FLOORS)},
}
# Whoever may include a folder may include the floors in it; but one floor not what lies above it.
for folder, others in ALLOWED.items():
    if "analysis" in others and folder not in FLOORS or folder == "analysis":
        ALLOWED[folder] = others + FLOORS
# Tests may include anything: they are not part of the flow.
UNCHECKED = ["tests"]

INJECTED = CORE + ["shim", "profiler_plugin"]
# Headers that pull code into the process which has no business there. ConcurrentQueue is headers
# only and allocates nothing after its construction, so it may stay.
BANNED_IN_INJECTED = re.compile(
    r"^(fmt/|CLI/|nlohmann/|zstd|catch|iostream$|fstream$|sstream$|iomanip$|format$|regex$|"
    r"filesystem$|locale$|cuda_runtime)")

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def folder_of(path):
    """The longest folder of the tables that holds `path`, or None."""
    found = None
    for folder in list(ALLOWED) + UNCHECKED:
        is_in = path.startswith((folder + "/", folder + "."))
        if is_in and (found is None or len(folder) > len(found)):
            found = folder
    return found


def resolve(root, including, name):
    """Repository path of a quoted include, or None where it is not a file of the repository."""
    for candidate in (name, os.path.join(os.path.dirname(including), name)):
        candidate = os.path.normpath(candidate)
        if os.path.isfile(os.path.join(root, candidate)):
            return candidate
    return None


def violations_of(root, path):
    own = folder_of(path)
    if own is None:
        # core/ has no files of its own: each belongs to one of its layers.
        if path.startswith("core/"):
            yield f"{path}: lies in no layer; core/ is split into {', '.join(CORE)}"
        return
    if own in UNCHECKED:
        return
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        text = file.read()
    for match in INCLUDE.finditer(text):
        line = text.count("\n", 0, match.start(1)) + 1
        name = match.group(2)
        if own in INJECTED and BANNED_IN_INJECTED.match(name):
            yield f"{path}:{line}: includes <{name}>, which must not reach the job's process"
        target = resolve(root, path, name)
        if target is None:
            if name.startswith(tuple(folder + "/" for folder in ALLOWED)):
                yield f"{path}:{line}: includes {name}, which does not exist"
            continue
        other = folder_of(target)
        if other is None or other == own or other in ALLOWED[own]:
            continue
        allowed = ", ".join(ALLOWED[own]) or "nothing outside its folder"
        yield f"{path}:{line}: {own} includes {target}; {own} may include {allowed}"


def check(root, paths):
    found = []
    for path in sorted(paths):
        if path.endswith((".h", ".cpp", ".c", ".inc")) and os.path.isfile(os.path.join(root, path)):
            found.extend(violations_of(root, path))
    return found


def self_test():
    files = {
        "core/base/limits.h": "#include <cstdint>\n",
        "core/format/ring_layout.h": '#include "core/base/limits.h"\n',
        "core/capture/recorder.cpp": '#include "core/ring/ring.h"\n#include "recorder.h"\n',
        "core/capture/recorder.h": "",
        "core/ring/ring.h": "",
        "emulator/device/device.h": "",
        "trace/loader.h": "",
        "analysis/facts.h": '#include "analysis/record/index.h"\n',
        "analysis/record/index.h": '#include "trace/loader.h"\n',
        "analysis/analysis.h": "",
        "analysis/procedure.cpp": '#include "analysis/facts.h"\n#include "analysis/analysis.h"\n',
        "report/text.cpp": '#include "analysis/record/index.h"\n#include "analysis/analysis.h"\n',
        "tools/main.cpp": '#include "trace/loader.h"\n#include <fmt/core.h>\n',
        "tests/all.cpp": '#include "emulator/device/device.h"\n#include "trace/loader.h"\n',
    }
    bad = {
        "core/base/up.h": ('#include "core/format/ring_layout.h"\n', 1),
        "shim/across.cpp": ('int x;\n#include "trace/loader.h"\n', 2),
        "shim/library.cpp": ("#include <fmt/core.h>\n", 1),
        "core/capture/stream.cpp": ("#include <iostream>\n", 1),
        "trace/writer.cpp": ('#include "core/capture/recorder.h"\n', 1),
        "emulator/peek.cpp": ('  #  include "core/base/limits.h"\n', 1),
        "shim/emulated.cpp": ('#include "emulator/device/device.h"\n', 1),
        "trace/gone.cpp": ('#include "trace/gone.h"\n', 1),
        "analysis/record/up.cpp": ('#include "analysis/facts.h"\n', 1),
        "analysis/facts.cpp": ('#include "analysis/analysis.h"\n', 1),
        "trace/verdict.cpp": ('#include "analysis/record/index.h"\n', 1),
        "core/loose.h": ("", None),
    }
    with tempfile.TemporaryDirectory() as root:
        for path, text in list(files.items()) + [(p, t) for p, (t, _) in bad.items()]:
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                file.write(text)
        clean = check(root, files)
        assert clean == [], clean
        for path, (_, line) in bad.items():
            found = check(root, [path])
            expected = path if line is None else f"{path}:{line}:"
            assert len(found) == 1 and found[0].startswith(expected), (path, found)
    print("check_layering: self-test passed")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True,
                            text=True).stdout.splitlines()
    found = check(root, listed)
    for line in found:
        print(line)
    if found:
        print(f"check_layering: {len(found)} includes cross a layer; docs/ARCHITECTURE.md says why "
              "the layers are as they are", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
