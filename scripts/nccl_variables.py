#!/usr/bin/env python3
"""Writes or checks settings/variable_table.h: the environment variables that NCCL reads.

  scripts/nccl_variables.py [--cache DIR]          reads every release of NCCL from 2.13 on and
                                                   writes the table
  scripts/nccl_variables.py --check [VERSION...]   changes nothing; exit status 1 when one of these
                                                   releases holds a name that the table does not
                                                   give it, or lacks one

NCCL reads variables by name, so the names stand in the library's text, each as a string of its own.
Some strings of that form are other things than variables; they do no harm in a table of what is
read. Which of them must agree between ranks is written in the table by hand and kept.
"""
import argparse
import os
import re
import sys

import nccl_releases

TABLE = os.path.join(nccl_releases.ROOT, "settings", "variable_table.h")
ROW = re.compile(r"^  X\((\w+), (\d+), (\d+), (\w+)\)", re.MULTILINE)

HEAD = """\
// The environment variables that NCCL reads, by the names that its releases hold: since which
// release, until which, and whether all ranks of a communicator must have the same value.
// Names and releases are written by scripts/nccl_variables.py and checked by `make check-api`; the
// last column is kept by hand: settings of algorithm, protocol, channels, chunks and transport that
// NCCL does not negotiate when it creates a communicator.
#pragma once

#include <cstdint>

namespace rollcall::settings {

// The releases that were read, oldest and newest.
inline constexpr uint32_t kOldestNccl = %d;
inline constexpr uint32_t kNewestNccl = %d;

// X(name, first, last, must_agree), by name. `first` and `last` are version codes.
// clang-format off
#define ROLLCALL_NCCL_VARIABLES(X) \\
"""
TAIL = """// clang-format on

}  // namespace rollcall::settings
"""


def read_table():
    if not os.path.exists(TABLE):
        return {}
    with open(TABLE, encoding="utf-8") as file:
        return {name: (int(first), int(last), agree)
                for name, first, last, agree in ROW.findall(file.read())}


def all_releases():
    """One package for each release, oldest first."""
    releases = {}
    for package, versions in nccl_releases.RELEASES.items():
        for version in versions:
            releases.setdefault(nccl_releases.number_of(version), (package, version))
    return sorted(releases.items())


def write(cache):
    kept = read_table()
    seen = {}
    releases = all_releases()
    for code, (package, version) in releases:
        names = nccl_releases.read(package, version, cache).variables
        print(f"{package} {version}: {len(names)} names")
        for name in names:
            first, _ = seen.get(name, (code, code))
            seen[name] = (first, code)
    rows = [f"  X({name}, {first}, {last}, {kept.get(name, (0, 0, 'false'))[2]})"
            for name, (first, last) in sorted(seen.items())]
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write(HEAD % (releases[0][0], releases[-1][0]))
        file.write(" \\\n".join(rows) + "\n")
        file.write(TAIL)
    print(f"{os.path.relpath(TABLE)}: {len(rows)} names")
    return 0


def check(versions, cache):
    table = read_table()
    agrees = True
    for code, (package, version) in all_releases():
        if version not in versions:
            continue
        names = nccl_releases.read(package, version, cache).variables
        claimed = {name for name, (first, last, _) in table.items() if first <= code <= last}
        # A name may have been away for a release between its first and its last.
        wrong = [f"holds {name}, which the table does not give it"
                 for name in sorted(names - claimed)]
        if code in (all_releases()[0][0], all_releases()[-1][0]):
            wrong += [f"lacks {name}, which the table gives it" for name in sorted(claimed - names)]
        print(f"NCCL {version}: {len(names)} names of variables"
              + ("" if wrong else ", all in the table"))
        for line in wrong:
            print(f"  {line}")
        agrees = agrees and not wrong
    return 0 if agrees else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", default=nccl_releases.CACHE)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("versions", nargs="*", help="releases, for example 2.28.9")
    arguments = parser.parse_args()
    versions = arguments.versions or [version for _, (_, version) in (
        all_releases() if os.environ.get("ALL") == "1" else all_releases()[-1:])]
    try:
        if arguments.check:
            return check(versions, arguments.cache)
        return write(arguments.cache)
    except nccl_releases.Failure as failure:
        print(f"nccl-variables: {failure}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
