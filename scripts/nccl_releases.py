"""NVIDIA's releases of NCCL on PyPI, and what the checks read in them.

A wheel has some 300 MB and its library as much again. Of both only the headers and the names that
the library holds are kept, in CACHE/PACKAGE-VERSION; that folder appears when it is complete.
"""
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CACHE = os.path.join(ROOT, "build", "nccl")

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

# Linker's marks that older libraries export besides their functions do not begin with nccl.
EXPORT = re.compile(r" [A-Z] (nccl\w+)$")
# What stands in front of the first string of a section may look like a letter.
VARIABLE = re.compile(rb"(NCCL_[A-Z0-9]+(?:_[A-Z0-9]+)*)\0")


class Failure(Exception):
    """Something could not be fetched, unpacked or compiled: the sentence says what."""


class Release:
    """What one wheel says: `include` is a folder with nccl.h, the others are sets of names."""

    def __init__(self, folder):
        self.include = os.path.join(folder, "include")
        with open(os.path.join(folder, "names.json"), encoding="utf-8") as file:
            names = json.load(file)
        self.exports = set(names["exports"])
        self.variables = set(names["variables"])


def number_of(version):
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major * (1000 if minor <= 8 else 10000) + minor * 100 + patch


def fetch(package, version, folder):
    """The wheel's path in the folder; pip's own temporary files are there too."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir",
               "--only-binary", ":all:", "--disable-pip-version-check", "--dest", folder,
               f"{package}=={version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, "TMPDIR": folder})
    wheels = glob.glob(os.path.join(folder, "*.whl"))
    if done.returncode != 0 or not wheels:
        reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise Failure(f"cannot fetch {package} {version}: {reason}")
    return wheels[0]


def keep(wheel, folder):
    """Headers and names of a wheel, into a folder."""
    os.makedirs(os.path.join(folder, "include"))
    library = os.path.join(folder, "libnccl.so.2")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            base = os.path.basename(name)
            if base == "libnccl.so.2":
                target = library
            elif base.endswith(".h") and ".." not in name:
                target = os.path.join(folder, "include", name.partition("/include/")[2] or base)
            else:
                continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with archive.open(name) as source, open(target, "wb") as file:
                shutil.copyfileobj(source, file)
    if not os.path.exists(library) or not os.path.exists(os.path.join(folder, "include", "nccl.h")):
        raise Failure(f"{os.path.basename(wheel)}: no libnccl.so.2 or nccl.h inside")
    symbols = subprocess.run(["nm", "-D", "--defined-only", library], check=True,
                             capture_output=True, text=True).stdout
    with open(library, "rb") as file:
        variables = {name.decode() for name in VARIABLE.findall(file.read())}
    os.remove(library)
    exports = {match.group(1) for match in map(EXPORT.search, symbols.splitlines()) if match}
    with open(os.path.join(folder, "names.json"), "w", encoding="utf-8") as file:
        json.dump({"exports": sorted(exports), "variables": sorted(variables)}, file)


def read(package, version, cache):
    """The release, from the cache if it is there. Raises Failure."""
    folder = os.path.join(cache, f"{package}-{version}")
    if not os.path.exists(folder):
        try:
            os.makedirs(cache, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as work:
                kept = os.path.join(work, "kept")
                keep(fetch(package, version, work), kept)
                os.rename(kept, folder)
        except (OSError, zipfile.BadZipFile, subprocess.CalledProcessError) as error:
            if os.path.exists(folder):  # another run was faster
                return Release(folder)
            raise Failure(f"cannot read {package} {version}: {error}") from error
    return Release(folder)
