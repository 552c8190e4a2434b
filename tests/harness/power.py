# SPDX-License-Identifier: Apache-2.0
"""A disk that remembers every write and every flush, so that its power can be cut at any of them, afterwards.

The disk is a loop device over a file of a FUSE filesystem that this module serves: the kernel's block layer sends each write
and each flush here, in order, and they go into a log. A cut at n is an image with all that was flushed before the n-th event,
and of what came after the last flush nothing, all, or any part, down to single sectors: what a disk with a volatile cache may
leave. What is not shown: a disk that lies about flushes."""
import ctypes
import errno
import mmap
import os
import random
import signal
import struct
import subprocess
from contextlib import contextmanager
from pathlib import Path

from harness.wait import until

LIBC = ctypes.CDLL(None, use_errno=True)
SECTOR = 512
FILE_NODE, NAME = 2, b"disk"
(LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, WRITE, STATFS, RELEASE, FSYNC, FLUSH, INIT, BATCH_FORGET, INTERRUPT) = (
    1, 2, 3, 4, 14, 15, 16, 17, 18, 20, 25, 26, 42, 36)
MAX_WRITE = 1 << 20
ENTRY = struct.Struct("<QQ")  # offset and length; a flush has the length 0


def run(*args):
    return subprocess.run([str(a) for a in args], check=True, capture_output=True, text=True).stdout.strip()


class Recorder:
    """The filesystem's own process: writes go to the image, and to the log."""

    def __init__(self, image, log, counter, fuse):
        self.image, self.log, self.fuse = os.open(image, os.O_RDWR), open(log, "ab", buffering=0), fuse
        self.size = os.fstat(self.image).st_size
        self.counter = mmap.mmap(os.open(counter, os.O_RDWR), 8)
        self.count = 0

    def record(self, offset, data):
        self.log.write(ENTRY.pack(offset, len(data)) + data)
        self.count += 1
        self.counter[:8] = struct.pack("<Q", self.count)

    def attributes(self, node):
        mode, size = (0o100600, self.size) if node == FILE_NODE else (0o40700, 0)
        return struct.pack("<6Q3I7I", node, size, size // SECTOR, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, op, node, body):
        """The bytes of the answer, or an errno."""
        if op == INIT:
            return struct.pack("<4I2H2I2H2I6I", 7, 31, MAX_WRITE, 1 << 5 | 1 << 22, 12, 9, MAX_WRITE, 1, MAX_WRITE // 4096,
                               0, 0, 0, *[0] * 6)
        if op == LOOKUP:
            if body.rstrip(b"\0") != NAME:
                return errno.ENOENT
            return struct.pack("<4Q2I", FILE_NODE, 1, 3600, 3600, 0, 0) + self.attributes(FILE_NODE)
        if op in (GETATTR, SETATTR):
            return struct.pack("<Q2I", 3600, 0, 0) + self.attributes(node)
        if op == OPEN:
            return struct.pack("<Q2I", 1, 2, 0)
        if op == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            return os.pread(self.image, size, offset)
        if op == WRITE:
            _, offset, size = struct.unpack_from("<QQI", body)
            data = body[40:40 + size]
            os.pwrite(self.image, data, offset)
            self.record(offset, data)
            return struct.pack("<2I", size, 0)
        if op == FSYNC:
            self.record(0, b"")
            return b""
        if op == STATFS:
            return struct.pack("<5Q4I6I", 1 << 20, 1 << 20, 1 << 20, 9, 9, 4096, 255, 4096, 0, *[0] * 6)
        return b"" if op in (FLUSH, RELEASE) else errno.ENOSYS

    def serve(self):
        while True:
            try:
                request = os.read(self.fuse, MAX_WRITE + 4096)
            except OSError as e:
                if e.errno == errno.ENODEV:  # unmounted
                    return
                if e.errno in (errno.EINTR, errno.ENOENT, errno.EAGAIN):
                    continue
                raise
            _, op, unique, node = struct.unpack_from("<IIQQ", request)
            if op in (FORGET, BATCH_FORGET, INTERRUPT):
                continue
            said = self.answer(op, node, request[40:])
            failed = isinstance(said, int)
            data = b"" if failed else said
            os.write(self.fuse, struct.pack("<IiQ", 16 + len(data), -said if failed else 0, unique) + data)


class Disk:
    """The recorded disk with an ext4 on it, mounted at `.mount` while `recording`."""

    def __init__(self, where, size_mb=256):
        self.where = Path(where)
        self.first, self.image, self.log = (self.where / n for n in ("first.img", "image", "log"))
        self.mount = self.where / "mount"
        self.mount.mkdir()
        self.events = []
        with open(self.first, "wb") as f:
            f.truncate(size_mb << 20)
        run("mkfs.ext4", "-q", "-E", "nodiscard,lazy_itable_init=0", "-J", "size=8", self.first)
        run("cp", "--sparse=always", self.first, self.image)

    def now(self):
        """How many events there were."""
        return struct.unpack("<Q", self.counter[:8])[0]

    @contextmanager
    def recording(self):
        (self.where / "fuse").mkdir()
        counter = self.where / "counter"
        counter.write_bytes(bytes(8))
        self.counter = mmap.mmap(os.open(counter, os.O_RDWR), 8)
        fuse = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={fuse},rootmode=40000,user_id=0,group_id=0".encode()
        if LIBC.mount(b"cay-power", str(self.where / "fuse").encode(), b"fuse", 0, options) < 0:
            raise OSError(ctypes.get_errno(), "cannot mount FUSE")
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                Recorder(self.image, self.log, counter, fuse).serve()
                status = 0
            finally:
                os._exit(status)
        os.close(fuse)
        device = None
        try:
            device = run("losetup", "--find", "--show", self.where / "fuse" / NAME.decode())
            run("mount", device, self.mount)
            try:
                yield self
            finally:
                until(lambda: subprocess.run(["umount", self.mount]).returncode == 0, "unmounted", 20, 0.2)
        finally:
            if device:
                run("losetup", "-d", device)
            until(lambda: subprocess.run(["umount", self.where / "fuse"], capture_output=True).returncode == 0,
                  "the recorder is free", 20, 0.1)
            assert os.waitpid(pid, 0)[1] == 0
        self.read_log()

    def read_log(self):
        with open(self.log, "rb") as f:
            while head := f.read(ENTRY.size):
                offset, length = ENTRY.unpack(head)
                self.events.append((offset, length, f.tell()))
                f.seek(length, 1)

    @contextmanager
    def cut(self, n, keep, seed):
        """Mounted as the disk is when power goes at the n-th event. Of what was not flushed stays: `keep` is "none", "all",
        "some" (each write or not) or "torn" (each sector or not)."""
        chance = random.Random(seed)
        image = self.where / "cut.img"
        run("cp", "--sparse=always", self.first, image)
        flushed = max((i for i in range(n) if self.events[i][1] == 0), default=-1)
        with open(self.log, "rb") as log, open(image, "r+b") as out:
            for i, (offset, length, at) in enumerate(self.events[:n]):
                log.seek(at)
                data = log.read(length)
                if i < flushed or keep == "all" or (keep == "some" and chance.random() < 0.5):
                    os.pwrite(out.fileno(), data, offset)
                elif keep == "torn":
                    # Its own first block ext4 trusts a disk to write whole: torn, it would be for e2fsck, and not for us.
                    whole = SECTOR if offset else max(length, SECTOR)
                    for s in range(0, length, whole):
                        if chance.random() < 0.5:
                            os.pwrite(out.fileno(), data[s:s + whole], offset + s)
        run("mount", "-o", "loop", image, self.mount)
        try:
            yield self.mount
        finally:
            until(lambda: subprocess.run(["umount", self.mount], capture_output=True).returncode == 0, "unmounted", 20, 0.2)
            image.unlink()
