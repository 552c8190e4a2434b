# SPDX-License-Identifier: Apache-2.0
"""Asking the engine itself, past the server: src/engine/message.h in ctypes."""
import ctypes
import os
import select
import socket
import stat
from array import array

ID, NAME, IMAGE = 24, 64, 256
OPS = {name: number for number, name in enumerate(
    "hello create start stop destroy connect usage list events down pause resume snapshot drop kept limit socket".split(), 1)}

OPS |= {"backup": 32, "backup_hold": 33, "backup_go": 34, "backup_take": 35, "backup_free": 36}


class Request(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("op", ctypes.c_uint32), ("id", ctypes.c_char * ID),
                ("image", ctypes.c_char * IMAGE), ("hostname", ctypes.c_char * NAME),
                ("memory_bytes", ctypes.c_uint64), ("disk_bytes", ctypes.c_uint64),
                ("cpu_milli", ctypes.c_uint32), ("pids", ctypes.c_uint32), ("grace_ms", ctypes.c_uint32),
                ("persistent", ctypes.c_uint32), ("other", ctypes.c_char * ID), ("volume", ctypes.c_char * ID),
                ("drop_volume", ctypes.c_uint32), ("socket", ctypes.c_uint32)]


class Reply(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("code", ctypes.c_int32), ("name", ctypes.c_char * 32),
                ("msg", ctypes.c_char * 160), ("cause", ctypes.c_char * 320), ("len", ctypes.c_uint32)]


class Copied(ctypes.Structure):
    _fields_ = [("method", ctypes.c_char * 16), ("ms", ctypes.c_int64), ("bytes", ctypes.c_uint64)]


class Usage(ctypes.Structure):
    _fields_ = [("cpu_us", ctypes.c_uint64), ("memory_bytes", ctypes.c_uint64), ("memory_peak_bytes", ctypes.c_uint64),
                ("pids", ctypes.c_uint32), ("oom_kills", ctypes.c_uint64), ("pids_refused", ctypes.c_uint64),
                ("disk_bytes", ctypes.c_uint64), ("disk_limit_bytes", ctypes.c_uint64),
                ("io_read_bytes", ctypes.c_uint64), ("io_write_bytes", ctypes.c_uint64)]


class Refused(Exception):
    def __init__(self, reply):
        super().__init__(f"{reply.code} {reply.name.decode()} {reply.msg.decode()} {reply.cause.decode()}")
        self.code, self.name, self.msg = reply.code, reply.name.decode(), reply.msg.decode()


class Engine:
    """One connection; the server's own are beside it."""

    def __init__(self, server, timeout=60):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(timeout)
        self.sock.connect(os.path.join(server.data, "run", "engine.sock"))

    def send(self, op, ident="", **fields):
        fields = {k: v.encode() if isinstance(v, str) else v for k, v in fields.items()}
        self.sock.sendall(bytes(Request(version=1, op=OPS[op], id=ident.encode(), **fields)))

    def answer(self):
        """The bytes behind the reply, and what came in a memfd."""
        fds = array("i")
        data, extra, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(4))
        for level, kind, raw in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(raw[:4])
        listed = b""
        for fd in fds:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                listed = os.pread(fd, 1 << 24, 0)
            os.close(fd)
        if len(data) < ctypes.sizeof(Reply):
            raise ConnectionError("the engine hung up")
        reply = Reply.from_buffer_copy(data)
        if reply.code < 0:
            raise Refused(reply)
        return data[ctypes.sizeof(Reply):], listed

    def has_answer(self):
        return bool(select.select([self.sock], [], [], 0)[0])

    def ask(self, op, ident="", **fields):
        self.send(op, ident, **fields)
        return self.answer()

    def create(self, ident, **fields):
        fields = {"image": "node:20-bookworm", "hostname": "box", "memory_bytes": 128 << 20,
                  "disk_bytes": 200 * 1000 * 1000, "cpu_milli": 1000, "pids": 64, **fields}
        return self.ask("create", ident, **fields)

    def snapshot(self, ident, other):
        return Copied.from_buffer_copy(self.ask("snapshot", ident, other=other)[0])

    def usage(self, ident):
        return Usage.from_buffer_copy(self.ask("usage", ident)[0])

    def kept(self):
        listed = self.ask("kept")[1]
        return sorted(listed[i:i + ID].rstrip(b"\0").decode() for i in range(0, len(listed), ID))

    def close(self):
        self.sock.close()
