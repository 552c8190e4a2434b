# SPDX-License-Identifier: Apache-2.0
"""What listens inside a sandbox, asked from outside."""
from harness.client import Answer
from harness.service import SOURCE
from harness.wait import until
from harness.websocket import WebSocket

PORT = 3000


class Web:
    """Requests to a preview, as a program on this machine makes them."""

    def __init__(self, client, box, port=PORT, host=None):
        self.client = client
        self.at = (client.host, client.port)
        self.host = host or f"{port}-{box['id']}.localhost:{client.port}"
        self.conn = None

    def connect(self):
        return self.client.connect()

    def request(self, method, path, body=None, headers=None, fresh=False):
        conn = self.connect() if fresh or not self.conn else self.conn
        self.conn = self.conn or conn
        conn.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        headers = {"Host": self.host, **(headers or {})}
        if body is not None and "Transfer-Encoding" not in headers:
            headers.setdefault("Content-Length", str(len(body)))
        for name, value in headers.items():
            conn.putheader(name, value)
        conn.endheaders()
        if body is not None:
            conn.send(body)
        r = conn.getresponse()
        answer = Answer(r.status, r.headers, r.read())
        if fresh:
            conn.close()
        return answer

    def get(self, path="/", headers=None, **more):
        return self.request("GET", path, headers=headers, **more)

    def raw(self, data, timeout=15):
        return self.client.raw(data.replace(b"HOST", b"Host: " + self.host.encode() + b"\r\n"), timeout)

    def websocket(self, headers=None):
        class At:
            host, port = self.at
            socket = staticmethod(self.client.socket)
        return WebSocket(At, "/../../ws", headers={"Host": self.host, **(headers or {})})


def put(client, ident, path, text):
    answer = client.request("PUT", f"/sandbox/{ident}/files?path={path}", text.encode(),
                            headers={"Content-Type": "application/octet-stream"})
    assert answer.status in (200, 201), answer


def serve(client, ident, source=SOURCE, *args, port=PORT):
    """Begins it and waits until it listens; the execution's id."""
    put(client, ident, "/workspace/service.js", source)
    run = client.detach(ident, ["node", "/workspace/service.js", str(port), *args])
    until(lambda: b"ready" in client.output(ident, run), "the service listens")
    return run
