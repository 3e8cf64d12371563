#!/usr/bin/env python3
"""Holds shim/api_table.h against NVIDIA's own releases of NCCL.

  scripts/check_api.py [--cache DIR] [--all] [VERSION...]

Fetches wheels (nvidia-nccl-cu12, nvidia-nccl-cu13) with pip into the cache, the oldest and newest
of each by default, with --all (or ALL=1) every release from 2.13 to 2.32, and proves for each that
  * every exported nccl* symbol is intercepted or listed as passed through with its reason, and the
    table claims no function for this release that it does not export;
  * every declaration agrees with that release's nccl.h (tests/shim/abi_test.cpp is compiled).
A release that cannot be fetched is an error: nothing was proved about it.
"""
import argparse
import glob
import os
import re
import subprocess
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
COMPILER = os.environ.get("CXX", "c++")

RELEASES = {
    "nvidia-nccl-cu11": ["2.13.4", "2.14.3", "2.15.5"],
    "nvidia-nccl-cu12": [
        "2.16.2", "2.16.5", "2.17.1", "2.18.1", "2.18.3", "2.19.3", "2.20.5", "2.21.5", "2.22.3",
        "2.23.4", "2.24.3", "2.25.1", "2.25.1.post1", "2.26.2", "2.26.2.post1", "2.26.5", "2.27.3",
        "2.27.5", "2.27.6", "2.27.7", "2.28.3", "2.28.7", "2.28.9", "2.29.2", "2.29.3", "2.29.7",
        "2.30.3", "2.30.4", "2.30.7", "2.31.2", "2.32.3"],
    "nvidia-nccl-cu13": [
        "2.27.7", "2.28.3", "2.28.7", "2.28.9", "2.29.2", "2.29.3", "2.29.7", "2.30.3", "2.30.4",
        "2.30.7", "2.31.2", "2.32.3"],
}
DEFAULT_PACKAGES = ("nvidia-nccl-cu12", "nvidia-nccl-cu13")

# Enough of CUDA for nccl.h, where no toolkit is installed.
CUDA_STUB = """#pragma once
#include <stddef.h>
#include <stdint.h>
typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
#define CUDART_VERSION 12000
"""
# Linker's marks that older libraries export besides their functions do not begin with nccl.
EXPORT = re.compile(r" ([A-Z]) (nccl\w+)$")
SINCE_IN_TEST = re.compile(r"NCCL_VERSION_CODE >= (\d+)\n(ROLLCALL_NCCL_\w+)\(")


class Failure(Exception):
    """Something could not be fetched, unpacked or compiled: the sentence says what."""


def number_of(version):
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major * (1000 if minor <= 8 else 10000) + minor * 100 + patch


def fetch(package, version, cache):
    """The wheel's path; from the cache if it is there."""
    folder = os.path.join(cache, "wheels")
    os.makedirs(folder, exist_ok=True)
    pattern = os.path.join(folder, f"{package.replace('-', '_')}-{version}-*.whl")
    if not glob.glob(pattern):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                   "--only-binary", ":all:", "--disable-pip-version-check", "--dest", folder,
                   f"{package}=={version}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0 or not glob.glob(pattern):
            reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise Failure(f"cannot fetch {package} {version}: {reason}")
    return glob.glob(pattern)[0]


def unpack(wheel, cache):
    folder = os.path.join(cache, "unpacked", os.path.basename(wheel)[:-4])
    if not os.path.exists(os.path.join(folder, "done")):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(".h") or os.path.basename(name) == "libnccl.so.2":
                    archive.extract(name, folder)
        with open(os.path.join(folder, "done"), "w", encoding="utf-8"):
            pass
    found = glob.glob(os.path.join(folder, "**", "libnccl.so.2"), recursive=True)
    headers = glob.glob(os.path.join(folder, "**", "nccl.h"), recursive=True)
    if not found or not headers:
        raise Failure(f"{wheel}: no libnccl.so.2 or nccl.h inside")
    return found[0], os.path.dirname(headers[0])


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
            raise Failure(f"tests/shim/abi_test.cpp does not say since when {name} holds")
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
    library, include = unpack(fetch(package, version, cache), cache)
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                             capture_output=True, text=True).stdout
    exported = {match.group(2) for match in map(EXPORT.search, symbols.splitlines()) if match}
    claimed = intercepted_in(number_of(version))
    found = [f"exports {name}, which the table does not know"
             for name in sorted(exported - claimed - passed_through())]
    found += [f"does not export {name}, which the table claims"
              for name in sorted(claimed - exported)]
    found += compile_abi_test(include, cache)
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
    parser.add_argument("--cache", default=os.path.join(ROOT, "build", "nccl"))
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
        except (Failure, zipfile.BadZipFile) as failure:
            print(f"check-api: {failure}", file=sys.stderr)
            return 2
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
