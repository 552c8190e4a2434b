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

OPS |= {f"image_{name}": number for number, name in enumerate("has layer put list remove prune export".split(), 48)}
OPS |= {"build": 18, "backup": 32, "backup_hold": 33, "backup_go": 34, "backup_take": 35, "backup_free": 36}


class Layer(ctypes.Structure):
    _fields_ = [("digest", ctypes.c_char * 65), ("diff_id", ctypes.c_char * 65),
                ("offset", ctypes.c_uint64), ("size", ctypes.c_uint64)]


class Request(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("op", ctypes.c_uint32), ("id", ctypes.c_char * ID),
                ("image", ctypes.c_char * IMAGE), ("hostname", ctypes.c_char * NAME),
                ("memory_bytes", ctypes.c_uint64), ("disk_bytes", ctypes.c_uint64),
                ("cpu_milli", ctypes.c_uint32), ("pids", ctypes.c_uint32), ("grace_ms", ctypes.c_uint32),
                ("persistent", ctypes.c_uint32), ("other", ctypes.c_char * ID), ("volume", ctypes.c_char * ID),
                ("drop_volume", ctypes.c_uint32), ("socket", ctypes.c_uint32), ("layer", Layer),
                ("pid", ctypes.c_uint32), ("again", ctypes.c_uint32), ("container", ctypes.c_char * 65)]


class Reply(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("code", ctypes.c_int32), ("name", ctypes.c_char * 32),
                ("msg", ctypes.c_char * 160), ("cause", ctypes.c_char * 320), ("len", ctypes.c_uint32)]


class Unpacked(ctypes.Structure):
    _fields_ = [("found", ctypes.c_uint32), ("bytes", ctypes.c_uint64), ("entries", ctypes.c_uint64)]


class Listed(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char * IMAGE), ("bytes", ctypes.c_uint64), ("uses", ctypes.c_uint32),
                ("text_len", ctypes.c_uint32)]


class Pruned(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint64), ("layers", ctypes.c_uint32)]


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
        self.server = server
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.sock.settimeout(timeout)
        self.sock.connect(os.path.join(server.data, "run", "engine.sock"))

    def send(self, op, ident="", fds=(), **fields):
        fields = {k: v.encode() if isinstance(v, str) else v for k, v in fields.items()}
        request = bytes(Request(version=1, op=OPS[op], id=ident.encode(), **fields))
        socket.send_fds(self.sock, [request], list(fds)) if fds else self.sock.sendall(request)

    def answer(self):
        """The bytes behind the reply, and what came in a memfd, or through a pipe to its end."""
        fds = array("i")
        data, extra, _, _ = self.sock.recvmsg(65536, socket.CMSG_SPACE(4))
        for level, kind, raw in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(raw[:4])
        listed = b""
        for fd in fds:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                listed = os.pread(fd, 1 << 24, 0)
            elif stat.S_ISFIFO(os.fstat(fd).st_mode):
                listed = open(fd, "rb", closefd=False).read()
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

    # ---- images ----

    def has(self, diff_id):
        return self.ask("image_has", layer=Layer(diff_id=diff_id.encode()))[0] == b"\1"

    def layer(self, file, diff_id, digest="", offset=0, size=None):
        """One layer out of a file; what the engine says of it."""
        size = os.fstat(file.fileno()).st_size - offset if size is None else size
        layer = Layer(digest.encode(), diff_id.encode(), offset, size)
        return Unpacked.from_buffer_copy(self.ask("image_layer", fds=[file.fileno()], layer=layer)[0])

    def put(self, name, text):
        fd = os.memfd_create("text")
        try:
            os.write(fd, text.encode())
            self.ask("image_put", fds=[fd], image=name)
        finally:
            os.close(fd)

    def images(self, name=""):
        """What there is: name to size, uses and text."""
        listed, found = self.ask("image_list", image=name)[1], {}
        while listed:
            one = Listed.from_buffer_copy(listed)
            text, listed = listed[ctypes.sizeof(Listed):][:one.text_len], listed[ctypes.sizeof(Listed) + one.text_len:]
            found[one.name.decode()] = one.bytes, one.uses, text.decode()
        return found

    def prune(self):
        return Pruned.from_buffer_copy(self.ask("image_prune")[0])

    def create(self, ident, **fields):
        fields = {"image": "node:20-bookworm", "hostname": "box", "memory_bytes": 128 << 20,
                  "disk_bytes": 200 * 1000 * 1000, "cpu_milli": 1000, "pids": 64, **fields}
        return self.ask("create", ident, **fields)

    def snapshot(self, ident, other):
        return Copied.from_buffer_copy(self.ask("snapshot", ident, other=other)[0])

    def usage(self, ident):
        # Who made it knows it by these.
        foreign = {"pid": self.server.init(ident), "container": self.server.group(ident)} if self.server.docker else {}
        return Usage.from_buffer_copy(self.ask("usage", ident, **foreign)[0])

    def kept(self):
        listed = self.ask("kept")[1]
        return sorted(listed[i:i + ID].rstrip(b"\0").decode() for i in range(0, len(listed), ID))

    def close(self):
        self.sock.close()
