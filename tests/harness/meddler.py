# SPDX-License-Identifier: Apache-2.0
"""Somebody between cay and its Docker Engine: passes everything on, counts it, and does to a few exchanges what a rule
says. It listens at a socket, or at a port, plain or with TLS."""
import json
import socket
import tempfile
import threading
from pathlib import Path

LOSE = "the Engine did it, nobody hears of it"
CUT = "the Engine never hears of it"
HALF = "the answer ends in the middle"
GARBAGE = "the answer is none"
LONG = "the answer says that it is longer than it is"
SHORT = "the answer says that it is shorter than it is"
BAD_CHUNK = "the answer comes in a chunk without a size"
NO_JSON = "the answer's JSON is none"
TRICKLE = "the answer comes a byte a second, and does not end"
HANG = "nobody answers until the meddler is told to let go"


class Gone(Exception):
    pass


class Meddler:
    """rule(method, path) gives one of the above, or (status, object) to answer with, or a function that makes another
    object of the answer's, or None: all is well."""

    def __init__(self, to, tcp=False, tls=None):
        self.to = to.removeprefix("unix://")
        self.rule = lambda method, path: None
        self.seen = []  # (method, path), without the version and the query
        self.tls = tls
        self.let_go = threading.Event()
        self.open = set()
        if tcp:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.host = f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"
        else:
            self.dir = tempfile.TemporaryDirectory(prefix="cay-meddler-")
            self.host = f"unix://{Path(self.dir.name, 'sock')}"
            self.listener = socket.socket(socket.AF_UNIX)
            self.listener.bind(self.host.removeprefix("unix://"))
            self.listener.listen(128)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            if self.tls:
                client = self.tls.wrap_socket(client, server_side=True)
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(self.to)
        except OSError:
            client.close()
            return
        self.open |= {client, engine}
        try:
            exchange = Exchange(self, client, engine)
            while exchange.go():
                pass
        except (OSError, Gone, ValueError):
            pass
        for one in (client, engine):
            self.open.discard(one)
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            one.close()

    def count(self, method, path):
        return sum(1 for m, p in self.seen if m == method and path in p)

    def cut_all(self):
        """Every connection there is."""
        for one in list(self.open):
            try:
                one.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.let_go.set()
        self.listener.close()
        self.cut_all()
        if hasattr(self, "dir"):
            self.dir.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Exchange:
    def __init__(self, meddler, client, engine):
        self.meddler, self.client, self.engine = meddler, client, engine
        self.asks, self.says = client.makefile("rb"), engine.makefile("rb")

    def go(self):
        """One request and its answer; False: this connection is over."""
        if self.asks.peek(1)[:1] == b"\x16":  # TLS, to somebody who does not speak it
            self.client.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            return False
        head = read_head(self.asks)
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ", 2)
        path = target.partition("?")[0].removeprefix("/v1.41")
        self.meddler.seen.append((method, path))
        what = self.meddler.rule(method, path)
        if what is HANG:
            for _ in body(self.asks, head, request=True):
                pass
            self.meddler.let_go.wait()
            return False
        if what is CUT:
            return False
        if isinstance(what, tuple):
            for _ in body(self.asks, head, request=True):
                pass
            self.client.sendall(answer(*what))
            return True
        self.engine.sendall(head)
        for piece in body(self.asks, head, request=True):
            self.engine.sendall(piece)
        return self.relay(what)

    def relay(self, what):
        head = read_head(self.says)
        if what is None:
            self.client.sendall(head)
            for piece in body(self.says, head):
                self.client.sendall(piece)
            return True
        data = plain(self.says, head)
        if what is TRICKLE:
            self.client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n")
            while not self.meddler.let_go.wait(1):
                self.client.sendall(b" ")
            return False
        if what is LOSE:
            return False
        if callable(what):
            self.client.sendall(answer(int(head.split(b" ", 2)[1]), what(json.loads(data))))
            return True
        kind = head.split(b"\r\n")[0] + b"\r\nContent-Type: application/json\r\n"
        size = {LONG: len(data) + 100, SHORT: max(0, len(data) - 10)}.get(what, len(data))
        whole = kind + b"Content-Length: %d\r\n\r\n" % size + data
        self.client.sendall({
            HALF: whole[:len(whole) - len(data) // 2 - 1],
            GARBAGE: b"\x00\xff\x16\x03 what is this\r\n\r\n",
            BAD_CHUNK: kind + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + data,
            NO_JSON: kind + b"Content-Length: 9\r\n\r\n{\"Id\": \"x"}.get(what, whole))
        return what is NO_JSON


def answer(status, thing):
    data = json.dumps(thing).encode()
    return b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(data)) + data


def read_head(file):
    lines = []
    while True:
        line = file.readline()
        if not line:
            raise Gone
        lines.append(line)
        if line == b"\r\n":
            return b"".join(lines)


def header(head, name):
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None


def body(file, head, request=False):
    """Its bytes as they are on the wire, as they come."""
    status = head.split(b" ", 2)[1][:3]
    if not request and (status in (b"204", b"304") or status.startswith(b"1")):
        return
    if header(head, b"transfer-encoding") == b"chunked":
        while True:
            line = file.readline()
            size = int(line, 16)
            yield line + file.read(size + 2)
            if size == 0:
                return
    left = int(header(head, b"content-length") or 0)
    while left:
        piece = file.read1(min(left, 65536))
        if not piece:
            raise Gone
        left -= len(piece)
        yield piece


def plain(file, head):
    if header(head, b"transfer-encoding") != b"chunked":
        return b"".join(body(file, head))
    return b"".join(piece.partition(b"\r\n")[2][:-2] for piece in body(file, head))
