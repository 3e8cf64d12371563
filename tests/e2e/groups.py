"""A job of two pairs of ranks, each with a communicator of its own (groups_client.py)."""
import os
import sys

from job import Job, expect_equal

CLIENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "groups_client.py")


class Groups(Job):
    """`with Groups("--watch", "2") as run: run.start() … run.touch("stuck")`."""

    def __init__(self, *options, **settings):
        super().__init__(4, program=[sys.executable, CLIENT], options=options, **settings)
        self.command.append(self.folder)

    def touch(self, name):
        with open(os.path.join(self.folder, name), "wb"):
            pass

    def remove(self, name):
        os.remove(os.path.join(self.folder, name))

    def steps(self, rank):
        path = os.path.join(self.folder, f"steps{rank}")
        return os.path.getsize(path) if os.path.exists(path) else 0

    def wait_for_steps(self, rank, number=20):
        before = self.steps(rank)
        self.wait_until(lambda: self.steps(rank) >= before + number, f"steps of rank {rank}")

    def end(self):
        self.touch("end")
        expect_equal(self.wait(), 0, f"status ({self.describe()})")
