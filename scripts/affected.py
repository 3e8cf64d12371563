#!/usr/bin/env python3
"""Which sources or headers a change may have broken, a line each, of those that git knows.

  scripts/affected.py headers|sources [BASE] [--unless FILE]...
  scripts/affected.py --self-test

BASE is a commit; without it the merge base with origin/main, and the last commit where that is
HEAD, or unknown. BASE = all, nothing to compare with, or a change of a FILE: everything.

headers  those that changed, and those that include such a one, however far away
sources  those that changed, and those that include a header that changed themselves; of a header
         that no source includes itself, every source of its folder
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

INCLUDE = re.compile(r'^\s*#\s*include\s+["<]([^">]+)[">]', re.MULTILINE)
# Of a hook of another repository, or of this one's, git must not hear.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


def git(*words):
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False,
                          env=ENVIRONMENT)
    return done.stdout.split("\n")[:-1] if done.returncode == 0 else None


def base_of(wanted):
    """None: there is nothing to compare with."""
    if wanted:
        return None if wanted == "all" else wanted
    head = git("rev-parse", "HEAD")
    merge_base = git("merge-base", "HEAD", "origin/main")
    if merge_base and merge_base != head:
        return merge_base[0]
    before = git("rev-parse", "-q", "--verify", "HEAD~1")
    return before[0] if before else None


def included_by(path):
    """As seen from the root, from its own folder, and from that of the emulator's NCCL and CUDA."""
    with open(path, encoding="utf-8", errors="replace") as file:
        names = INCLUDE.findall(file.read())
    folders = ("", os.path.dirname(path), "emulator/include")
    return {os.path.normpath(os.path.join(folder, name)) for name in names for folder in folders}


def closure(changed, headers):
    """Also of what is gone: who still includes it does not compile."""
    includes = {header: included_by(header) for header in headers}
    found = set(changed)
    while True:
        more = {header for header in headers if header not in found and includes[header] & found}
        if not more:
            return found & set(headers)
        found |= more


def sources_of(changed, sources):
    headers = {path for path in changed if path.endswith(".h")}
    includes = {source: included_by(source) for source in sources}
    unclaimed = headers - set().union(*includes.values())
    folders = {os.path.dirname(header) for header in unclaimed}
    return {source for source in sources if source in changed or includes[source] & headers or
            os.path.dirname(source) in folders}


def self_test():
    """A folder of its own: c includes b.h, which includes a.h; d.h is nobody's."""
    files = {"x/a.h": "", "x/b.h": '#include "a.h"\n', "x/c.cpp": '#include "x/b.h"\n',
             "x/e.cpp": '#include <vector>\n', "y/d.h": "", "y/f.cpp": "", "rules": ""}
    cases = {  # what changes: headers, sources
        "x/a.h": ("x/a.h x/b.h", "x/c.cpp x/e.cpp"), "x/b.h": ("x/b.h", "x/c.cpp"),
        "x/e.cpp": ("", "x/e.cpp"), "y/d.h": ("y/d.h", "y/f.cpp"),
        "rules": ("x/a.h x/b.h y/d.h", "x/c.cpp x/e.cpp y/f.cpp"),
    }
    script = os.path.abspath(__file__)
    who = ["-c", "user.name=test", "-c", "user.email=test@localhost", "-c", "commit.gpgsign=false"]
    with tempfile.TemporaryDirectory(prefix="rollcall-affected-") as folder:
        os.chdir(folder)
        for path, text in files.items():
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        for words in (["init", "-q"], ["add", "-A"], [*who, "commit", "-q", "-m", "first"],
                      [*who, "commit", "-q", "--allow-empty", "-m", "second"]):
            subprocess.run(["git", *words], check=True, env=ENVIRONMENT)
        for changed, expected in cases.items():
            with open(changed, "a", encoding="utf-8") as file:
                file.write("// changed\n")
            for kind, names in zip(("headers", "sources"), expected):
                done = subprocess.run([script, kind, "--unless", "rules"], check=True, text=True,
                                      capture_output=True)
                assert done.stdout.split() == names.split(), (changed, kind, done.stdout)
            subprocess.run(["git", "checkout", "-q", "."], check=True, env=ENVIRONMENT)
        os.remove("x/a.h")
        done = subprocess.run([script, "headers"], check=True, text=True, capture_output=True)
        assert done.stdout.split() == ["x/b.h"], done.stdout
        subprocess.run(["git", "checkout", "-q", "."], check=True, env=ENVIRONMENT)
        done = subprocess.run([script, "headers", "no-such-commit"], check=True, text=True,
                              capture_output=True)
        assert len(done.stdout.split()) == 3, done.stdout


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("headers", "sources"))
    parser.add_argument("base", nargs="?", default="")
    parser.add_argument("--unless", action="append", default=[])
    arguments = parser.parse_args()
    is_header = arguments.kind == "headers"
    known = git("ls-files", "*.h" if is_header else "*.cpp")
    if not known:
        sys.exit("affected: `git ls-files` names no file here; is this a clone that git may read?")
    every = [path for path in known if os.path.exists(path)]
    base = base_of(arguments.base)
    changed = git("diff", "--name-only", "--no-renames", base, "--") if base else None
    if changed is None or set(changed) & set(arguments.unless):
        affected = set(every)
    else:
        affected = closure(set(changed), every) if is_header else sources_of(set(changed), every)
    sys.stdout.writelines(path + "\n" for path in every if path in affected)


if __name__ == "__main__":
    main()
