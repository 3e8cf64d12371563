#!/usr/bin/env python3
"""Holds shim/api_table.h against NVIDIA's own releases of NCCL.

  scripts/check_api.py [--cache DIR] [--all] [VERSION...]

Fetches wheels (nvidia-nccl-cu12, nvidia-nccl-cu13) with pip, the oldest and newest of each by
default, with --all (or ALL=1) every release from 2.13 to 2.32, keeps what it reads of them in the
cache, and proves for each that
  * every exported nccl* symbol is intercepted or listed as passed through with its reason, and the
    table claims no function for this release that it does not export;
  * every declaration agrees with that release's nccl.h (tests/shim/abi_test.cpp is compiled).
A release that cannot be fetched is an error: nothing was proved about it.
"""
import argparse
import os
import re
import subprocess
import sys

import nccl_releases
from nccl_releases import RELEASES, ROOT

COMPILER = os.environ.get("CXX", "c++")
DEFAULT_PACKAGES = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")

# Enough of CUDA for nccl.h, where no toolkit is installed.
CUDA_STUB = """#pragma once
#include <stddef.h>
#include <stdint.h>
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
#define CUDART_VERSION 12000
"""
SINCE_IN_TEST = re.compile(r"NCCL_VERSION_CODE >= (\d+)\n(ROLLCALL_NCCL_\w+)\(")


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def intercepted_in(version_code):
    """Names the table claims for a release: lists are by version, the test says which number."""
    since = {"ROLLCALL_NCCL_2_3": 0, "ROLLCALL_NCCL_2_4": 2400, "ROLLCALL_NCCL_DEVICE": 22803}
    since.update({name: int(code) for code, name in SINCE_IN_TEST.findall(
        read("tests", "shim", "abi_test.cpp"))})
    names = set()
    table = read("shim", "api_table.h").replace("\\\n", " ")
    for name, body in re.findall(r"#define (ROLLCALL_NCCL_\w+)\(X\)(.*)", table):
        rows = re.findall(r"X\((?:event|group|operation), (nccl\w+)", body)
        if rows and name not in since:
            raise nccl_releases.Failure(
                f"tests/shim/abi_test.cpp does not say since when {name} holds")
        if rows and version_code >= since[name]:
            names.update(rows)
    return names


def passed_through():
    table = read("shim", "api_table.h").replace("\\\n", " ")
    body = re.search(r"#define ROLLCALL_NCCL_PASSED_THROUGH\(X\)(.*)", table).group(1)
    return set(re.findall(r"X\((nccl\w+),", body))


def compile_abi_test(include, cache):
    stub = os.path.join(cache, "cuda_stub")
    os.makedirs(stub, exist_ok=True)
    for name in ("cuda_runtime.h", "cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h"):
        with open(os.path.join(stub, name), "w", encoding="utf-8") as file:
            file.write(CUDA_STUB)
    command = [COMPILER, "-std=c++20", "-fsyntax-only", "-I" + ROOT, "-isystem", stub, "-isystem",
               include, os.path.join(ROOT, "tests", "shim", "abi_test.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line for line in done.stderr.splitlines() if "error" in line] if done.returncode else []


def check(package, version, cache):
    release = nccl_releases.read(package, version, cache)
    exported = release.exports
    claimed = intercepted_in(nccl_releases.number_of(version))
    found = [f"exports {name}, which the table does not know"
             for name in sorted(exported - claimed - passed_through())]
    found += [f"does not export {name}, which the table claims"
              for name in sorted(claimed - exported)]
    found += compile_abi_test(release.include, cache)
    print(f"{package} {version}: {len(exported)} exported, {len(exported & claimed)} intercepted, "
          f"{len(exported - claimed)} passed through" + ("" if found else ", declarations agree"))
    for line in found:
        print(f"  {line}")
    return not found


def chosen(arguments):
    if arguments.versions:
        return [(package, version) for package, versions in RELEASES.items()
                for version in versions if version in arguments.versions]
    if arguments.all:
        return [(package, version) for package, versions in RELEASES.items()
                for version in versions]
    return [(package, RELEASES[package][end]) for package in DEFAULT_PACKAGES for end in (0, -1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", default=nccl_releases.CACHE)
    parser.add_argument("--all", action="store_true", default=os.environ.get("ALL") == "1")
    parser.add_argument("versions", nargs="*", help="releases, for example 2.28.9")
    arguments = parser.parse_args()
    releases = chosen(arguments)
    if not releases:
        parser.error("none of these releases is in the list at the top of this script")
    agrees = True
    for package, version in releases:
        try:
            agrees &= check(package, version, arguments.cache)
        except nccl_releases.Failure as failure:
            print(f"check-api: {failure}", file=sys.stderr)
            return 2
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
