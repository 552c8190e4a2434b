# SPDX-License-Identifier: Apache-2.0
"""A WebSocket client that can also break every rule."""
import base64
import json
import os
import socket
import struct

from .client import API

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class Refused(Exception):
    def __init__(self, status, head, body):
        super().__init__(f"{status}: {body[:300]!r}")
        self.status, self.head, self.body = status, head, body

    @property
    def code(self):
        return json.loads(self.body)["error"]["code"]


class Closed(Exception):
    def __init__(self, code):
        super().__init__(f"closed with {code}")
        self.code = code


class WebSocket:
    """`output` gathers bytes, `told` the messages of text, as they are received."""

    def __init__(self, client, path, headers=None, timeout=20):
        self.sock = client.socket(timeout)
        self.buf, self.output, self.told, self.stderr = b"", b"", [], b""
        self.stream, self.closed = "stdout", None
        lines = {"Host": f"{client.host}:{client.port}", "Upgrade": "websocket", "Connection": "Upgrade",
                 "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode()}
        lines.update(headers or {})
        target = path if path.startswith("/api") else API + path
        request = f"GET {target} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items() if v is not None)
        self.sock.sendall((request + "\r\n").encode())
        while b"\r\n\r\n" not in self.buf:
            self._more()
        head, _, self.buf = self.buf.partition(b"\r\n\r\n")
        self.head, self.status = head.decode(), int(head.split()[1])
        if self.status != 101:
            size = next((int(l.split(b":")[1]) for l in head.split(b"\r\n") if l.lower().startswith(b"content-length:")), 0)
            while len(self.buf) < size:
                self._more()
            self.sock.close()
            raise Refused(self.status, self.head, self.buf)

    def _more(self):
        chunk = self.sock.recv(65536)
        if not chunk:
            raise ConnectionError("the server closed the connection")
        self.buf += chunk

    def _take(self, n):
        while len(self.buf) < n:
            self._more()
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    # ---- out ----

    @staticmethod
    def frame(op, data=b"", fin=True, mask=b"\x5a\xc3\x11\x7f"):
        size = len(data)
        head = bytes([(0x80 if fin else 0) | op])
        bit = 0x80 if mask else 0
        if size < 126:
            head += bytes([bit | size])
        elif size < 65536:
            head += bytes([bit | 126]) + struct.pack(">H", size)
        else:
            head += bytes([bit | 127]) + struct.pack(">Q", size)
        if not mask:
            return head + data
        key = (mask * (size // 4 + 1))[:size]
        return head + mask + (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(size, "big")

    def raw(self, data):
        self.sock.sendall(data)

    def type(self, data):
        self.raw(self.frame(BINARY, data if isinstance(data, bytes) else data.encode()))

    def say(self, **message):
        self.raw(self.frame(TEXT, json.dumps(message).encode()))

    # ---- in ----

    def next(self):
        """The next frame: (op, bytes). Pings are answered, a close ends it."""
        first, second = self._take(2)
        size = second & 127
        assert not second & 128, "a server's frames are not masked"
        if size >= 126:
            size = int.from_bytes(self._take(2 if size == 126 else 8), "big")
        op, data = first & 15, self._take(size)
        assert first & 0x80 and not first & 0x70
        if op == PING:
            self.raw(self.frame(PONG, data))
        elif op == CLOSE:
            self.closed = struct.unpack(">H", data[:2])[0] if data else 1005
            raise Closed(self.closed)
        elif op == BINARY and self.stream == "stderr":
            self.stderr += data
        elif op == BINARY:
            self.output += data
        elif op == TEXT:
            message = json.loads(data)
            self.told.append(message)
            if message["type"] == "output":
                self.stream = message["stream"]
        return op, data

    def sees(self, want):
        """Reads until this was put out, and forgets all before and with it."""
        want = want if isinstance(want, bytes) else want.encode()
        while want not in self.output:
            self.next()
        before, _, self.output = self.output.partition(want)
        return before + want

    def hears(self, kind):
        """Reads until a message of this type came; returns it."""
        while True:
            for i, message in enumerate(self.told):
                if message["type"] == kind:
                    del self.told[i]
                    return message
            self.next()

    def end(self):
        """Reads to the close; its code."""
        try:
            while True:
                self.next()
        except Closed as closed:
            return closed.code

    def cut(self):
        """As when the network goes."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
