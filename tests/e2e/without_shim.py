#!/usr/bin/env python3
"""Runs a command under `rollcall run` with everything preloaded but the shim.

    without_shim.py COMMAND [arguments]

So a job is recorded by the profiler plugin alone, as where nothing can be preloaded.
"""
import os
import sys


def main():
    kept = [path for path in os.environ.get("LD_PRELOAD", "").split(":")
            if os.path.basename(path) != "librollcall.so"]
    os.environ["LD_PRELOAD"] = ":".join(kept)
    os.execvp(sys.argv[1], sys.argv[1:])


if __name__ == "__main__":
    main()
