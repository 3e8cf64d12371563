"""A file system of FUSE that passes everything on to a folder, and answers as it is told.

    slow_files.py MOUNT FOLDER CONTROL

CONTROL holds one of: nothing; "delay SECONDS", of every request; "fail OPERATION...", with EIO;
"hang", until it holds something else. Needs python3-fusepy.
"""
import errno
import os
import sys
import time

from fusepy import FUSE, FuseOSError, Operations

STATUS = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid")
DISK = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_flag",
        "f_frsize", "f_namemax")


class PassThrough(Operations):
    def __init__(self, folder, control):
        self.folder = folder
        self.control = control

    def words(self):
        with open(self.control, encoding="ascii") as file:
            return file.read().split()

    def __call__(self, operation, *arguments):
        words = self.words()
        if words[:1] == ["delay"]:
            time.sleep(float(words[1]))
        if words[:1] == ["fail"] and operation in words[1:]:
            raise FuseOSError(errno.EIO)
        while self.words()[:1] == ["hang"]:
            time.sleep(0.05)
        try:
            return super().__call__(operation, *arguments)
        except OSError as error:
            raise FuseOSError(error.errno) from None

    def at(self, path):
        return self.folder + path

    def getattr(self, path, fh=None):
        status = os.lstat(self.at(path))
        return {name: getattr(status, name) for name in STATUS}

    def statfs(self, path):
        disk = os.statvfs(self.at(path))
        return {name: getattr(disk, name) for name in DISK}

    def readdir(self, path, fh):
        return [".", "..", *os.listdir(self.at(path))]

    def mkdir(self, path, mode):
        os.mkdir(self.at(path), mode)

    def rmdir(self, path):
        os.rmdir(self.at(path))

    def unlink(self, path):
        os.unlink(self.at(path))

    def rename(self, old, new):
        os.rename(self.at(old), self.at(new))

    def create(self, path, mode, fi=None):
        return os.open(self.at(path), os.O_RDWR | os.O_CREAT, mode)

    def open(self, path, flags):
        return os.open(self.at(path), os.O_RDWR)

    def read(self, path, size, offset, fh):
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        return os.pwrite(fh, data, offset)

    def truncate(self, path, length, fh=None):
        os.truncate(self.at(path), length)

    def fsync(self, path, datasync, fh):
        return 0

    def release(self, path, fh):
        os.close(fh)


FUSE(PassThrough(sys.argv[2], sys.argv[3]), sys.argv[1], foreground=True)
