"""Pauses and resumes the recorder of this process, as `rollcall ctl` would: in its ring file."""
import glob
import mmap
import os
import sys

CAPTURE_SWITCH = 576  # docs/FORMAT.md, header of the ring file: u32, 0 record, 1 pause


class Switch:
    def __init__(self):
        pattern = os.path.join(os.environ["ROLLCALL_DIR"], f"*.{os.getpid()}.*.ring")
        (path,) = glob.glob(pattern)
        with open(path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)

    def set(self, is_paused):
        self.memory[CAPTURE_SWITCH:CAPTURE_SWITCH + 4] = int(is_paused).to_bytes(4, sys.byteorder)

    def in_turns(self, pairs, run):
        """[(what `run` returns with the recorder, without it)], recording again at the end."""
        measured = []
        for number in range(pairs):
            results = {}
            for is_paused in (False, True) if number % 2 else (True, False):
                self.set(is_paused)
                results[is_paused] = run()
            measured.append((results[False], results[True]))
        self.set(False)
        return measured
