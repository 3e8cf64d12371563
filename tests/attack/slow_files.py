#!/usr/bin/env python3
"""A file system that answers late, or with an error: everything goes through to a folder.

    slow_files.py FOLDER MOUNT_POINT CONTROL

CONTROL is a JSON object, read again at every request: {"delay_s": 0.005, "errors": {"read": 5}}.
The names are those of the requests: read, write, open, create, getattr, truncate, fsync and so on;
"any" stands for all of them. There is no fallocate here, as in many real file systems: the C
library then writes the blocks one by one.

Runs with the Python that has fusepy (python3-fusepy); the tests start it, see arena.py.
"""
import errno
import json
import os
import sys
import time

try:
    import fusepy as fuse
except ImportError:
    import fuse

ATTRIBUTES = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size",
              "st_uid", "st_blocks")
FILE_SYSTEM = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files",
               "f_flag", "f_frsize", "f_namemax")


class SlowFiles(fuse.Operations):
    use_ns = True

    def __init__(self, folder, control):
        self.folder = folder
        self.control = control

    def __call__(self, operation, path, *arguments):
        with open(self.control, encoding="utf-8") as file:
            orders = json.load(file)
        time.sleep(orders.get("delay_s", 0))
        errors = orders.get("errors", {})
        error = errors.get(operation, errors.get("any"))
        if error:
            raise fuse.FuseOSError(error)
        method = getattr(self, operation, None)
        if method is None:
            raise fuse.FuseOSError(errno.ENOSYS)
        below = self.folder + path if path else path
        try:
            return method(below, *arguments)
        except OSError as failed:
            raise fuse.FuseOSError(failed.errno) from None

    # --- folders and names ----------------------------------------------------------------------

    def getattr(self, path, handle=None):
        status = os.lstat(path) if handle is None else os.fstat(handle)
        found = {name: getattr(status, name) for name in ATTRIBUTES}
        for name in ("st_atime", "st_ctime", "st_mtime"):
            found[name] = getattr(status, name + "_ns")
        return found

    def access(self, path, mode):
        if not os.access(path, mode):
            raise fuse.FuseOSError(errno.EACCES)

    def readdir(self, path, handle):
        return [".", "..", *os.listdir(path)]

    def mkdir(self, path, mode):
        os.mkdir(path, mode)

    def rmdir(self, path):
        os.rmdir(path)

    def unlink(self, path):
        os.unlink(path)

    def rename(self, path, new_name):
        os.rename(path, self.folder + new_name)

    def symlink(self, path, points_to):
        os.symlink(points_to, path)

    def readlink(self, path):
        return os.readlink(path)

    def chmod(self, path, mode):
        os.chmod(path, mode)

    def chown(self, path, user, group):
        os.chown(path, user, group, follow_symlinks=False)

    def utimens(self, path, times=None):
        os.utime(path, ns=times)

    def statfs(self, path):
        status = os.statvfs(path)
        return {name: getattr(status, name) for name in FILE_SYSTEM}

    # --- files ----------------------------------------------------------------------------------

    def create(self, path, mode, _=None):
        return os.open(path, os.O_RDWR | os.O_CREAT, mode)

    def open(self, path, flags):
        # The kernel reads the rest of a page before it writes a part of one.
        if flags & os.O_ACCMODE == os.O_WRONLY:
            flags = flags & ~os.O_ACCMODE | os.O_RDWR
        return os.open(path, flags & ~(os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_TRUNC))

    def read(self, _, size, offset, handle):
        return os.pread(handle, size, offset)

    def write(self, _, content, offset, handle):
        return os.pwrite(handle, content, offset)

    def truncate(self, path, length, handle=None):
        os.truncate(path if handle is None else handle, length)

    def flush(self, *_):
        pass

    def fsync(self, _, datasync, handle):
        os.fsync(handle)

    def release(self, _, handle):
        os.close(handle)


if __name__ == "__main__":
    root, mount_point, orders_path = sys.argv[1:]
    fuse.FUSE(SlowFiles(root, orders_path), mount_point, foreground=True, allow_other=True)
