# SPDX-License-Identifier: Apache-2.0
"""A small HTTP client: kept-alive requests, server-sent events, NDJSON, and raw bytes."""
import base64
import http.client
import json
import socket
import ssl
from urllib.parse import urlencode, urlsplit

from harness.wait import stretch

API = "/api/v1"
TIMEOUT_S = 60


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json()["error"]

    def __repr__(self):
        return f"<{self.status} {self.body[:400]!r}>"


class Event:
    """One server-sent event; `data` is parsed JSON."""

    def __init__(self, name, ident, data):
        self.name = name
        self.id = ident
        self.data = data

    def bytes(self):
        return payload(self.data)

    def __repr__(self):
        return f"<event {self.name} id={self.id} {str(self.data)[:200]}>"


def payload(data):
    """The bytes that a stdout or stderr event carries."""
    if "base64" in data:
        return base64.b64decode(data["base64"])
    return data["data"].encode()


class Stream:
    """An answer that is read while it comes."""

    def __init__(self, conn, response):
        self.conn = conn
        self.response = response
        self.status = response.status
        self.headers = response.headers

    def lines(self):
        while line := self.response.readline():
            yield line

    def events(self):
        name, ident, data = "message", None, []
        for raw in self.lines():
            line = raw.decode().rstrip("\r\n")
            if not line:
                if data:
                    yield Event(name, ident, json.loads("\n".join(data)))
                name, ident, data = "message", None, []
                continue
            key, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if key == "event":
                name = value
            elif key == "id":
                ident = value
            elif key == "data":
                data.append(value)
            else:
                assert key in ("", "retry"), f"not a line of an event stream: {line!r}"

    def records(self):
        for raw in self.lines():
            if raw.strip():
                yield json.loads(raw)

    def read(self):
        return self.response.read()

    def close(self):
        self.response.close()
        self.conn.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Client:
    def __init__(self, url, timeout=TIMEOUT_S, token=None, ca=None):
        self.token = token
        self.tls = ssl.create_default_context(cafile=ca) if url.startswith("https:") else None
        parts = urlsplit(url)
        self.host, self.port = parts.hostname, parts.port
        self.timeout = stretch(timeout)
        self.conn = None

    def connect(self):
        if self.tls:
            return http.client.HTTPSConnection(self.host, self.port, timeout=self.timeout, context=self.tls)
        return http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)

    def close(self):
        if self.conn:
            self.conn.close()
            self.conn = None

    def encode(self, path, query, body, headers):
        target = path if path.startswith("/api") else API + path
        if query:
            target += "?" + urlencode(query, doseq=True)
        headers = dict(headers or {})
        if self.token:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        if body is not None:
            headers.setdefault("Content-Type", "application/json")
        return target, body, headers

    def request(self, method, path, body=None, query=None, headers=None):
        """On the kept-alive connection; once again on a new one when the server had closed it."""
        target, body, headers = self.encode(path, query, body, headers)
        fresh = self.conn is None
        if fresh:
            self.conn = self.connect()
        try:
            try:
                self.conn.request(method, target, body, headers)
            except BrokenPipeError:
                pass  # it has refused before all was sent, and its answer may be there
            response = self.conn.getresponse()
            return Answer(response.status, response.headers, response.read())
        except (http.client.RemoteDisconnected, ConnectionError, http.client.CannotSendRequest):
            self.close()
            # Only what cannot act twice is asked twice.
            if fresh or method not in ("GET", "HEAD"):
                raise
            return self.request(method, target, body, None, headers)
        except BaseException:
            self.close()
            raise

    def get(self, path, **query):
        return self.request("GET", path, query=query)

    def post(self, path, body=None, **query):
        return self.request("POST", path, body, query)

    def delete(self, path, **query):
        return self.request("DELETE", path, query=query)

    def stream(self, method, path, body=None, query=None, headers=None, accept=None, timeout=None):
        """On a connection of its own."""
        headers = dict(headers or {})
        if accept:
            headers["Accept"] = accept
        target, body, headers = self.encode(path, query, body, headers)
        conn = self.connect()
        if timeout:
            conn.timeout = stretch(timeout)
        conn.request(method, target, body, headers)
        return Stream(conn, conn.getresponse())

    def events(self, method, path, body=None, query=None, headers=None, timeout=None):
        return self.stream(method, path, body, query, headers, "text/event-stream", timeout)

    def ndjson(self, method, path, body=None, query=None, headers=None, timeout=None):
        return self.stream(method, path, body, query, headers, "application/x-ndjson", timeout)

    def socket(self, timeout=None):
        plain = socket.create_connection((self.host, self.port), stretch(timeout) if timeout else self.timeout)
        return self.tls.wrap_socket(plain, server_hostname=self.host) if self.tls else plain

    def raw(self, data, timeout=15):
        """Sends bytes and returns all that comes until the server closes. HOST stands for our own."""
        data = data.replace(b"HOST", f"Host: {self.host}:{self.port}\r\n".encode())
        with self.socket(timeout) as s:
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has answered and gone before all was sent
            out = b""
            try:
                while chunk := s.recv(65536):
                    out += chunk
            except (ConnectionResetError, TimeoutError):
                pass
            return out

    # ---- what most tests do ----

    def is_well(self):
        try:
            return self.get("/health").status == 200
        except OSError:
            return False

    def create(self, name=None, **spec):
        body = dict(spec)
        if name is not None:
            body["name"] = name
        return self.made("/sandbox", body)

    def fork(self, source, name=None, **spec):
        return self.made(f"/sandbox/{source}/fork", {**({"name": name} if name else {}), **spec})

    def snapshot(self, source, **spec):
        return self.made(f"/sandbox/{source}/snapshot", spec)

    def made(self, path, body):
        answer = self.post(path, body)
        assert answer.status == 201, answer
        return answer.json()

    def clear(self):
        """Only sandboxes with the label `module` are left, and nothing that was kept; how many."""
        left = 0
        for kind, path in (("sandboxes", "/sandbox"), ("snapshots", "/snapshots"), ("volumes", "/volumes")):
            for one in self.get(path, per_page=1000).json()[kind]:
                if "module" in one.get("labels", ()):
                    left += 1
                    continue
                answer = self.delete(f"{path}/{one['id']}")
                assert answer.status == 200, answer
        return left

    def sandbox(self, ident):
        answer = self.get(f"/sandbox/{ident}")
        assert answer.status == 200, answer
        return answer.json()

    def exec(self, ident, command, **spec):
        """Runs to the end; returns the result."""
        answer = self.post(f"/sandbox/{ident}/exec", {"command": command, **spec})
        assert answer.status == 200, answer
        return answer.json()

    def sh(self, ident, script, **spec):
        """Standard output of a shell line that must succeed."""
        result = self.exec(ident, script, **spec)
        assert result["exitCode"] == 0, result
        return result["stdout"]

    def detach(self, ident, command, **spec):
        answer = self.post(f"/sandbox/{ident}/exec", {"command": command, "detach": True, **spec})
        assert answer.status == 202, answer
        return answer.json()["id"]

    def execution(self, ident, exec_id):
        answer = self.get(f"/sandbox/{ident}/exec/{exec_id}")
        assert answer.status == 200, answer
        return answer.json()

    def output(self, ident, exec_id, **query):
        """The text as it came."""
        answer = self.get(f"/sandbox/{ident}/exec/{exec_id}/output", **query)
        assert answer.status == 200, answer
        return answer.body

    def names(self, **query):
        answer = self.get("/sandbox", per_page=1000, **query)
        assert answer.status == 200, answer
        return [s["name"] for s in answer.json()["sandboxes"]]
