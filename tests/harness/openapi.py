# SPDX-License-Identifier: Apache-2.0
"""The server's OpenAPI document: its operations, and whether an answer is what it says."""
import http.client
import json
import re
import socket
from urllib.parse import urlencode

from harness.wait import stretch

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
KINDS = {"string": str, "boolean": bool, "array": list, "object": dict, "null": type(None)}


class Operation:
    def __init__(self, method, path, spec):
        self.method, self.path, self.spec = method.upper(), path, spec
        self.parameters = spec["parameters"]
        self.responses = spec["responses"]
        self.content = spec.get("requestBody", {}).get("content", {})
        self.scopes = spec["security"][0]["token"] if spec["security"] else []

    def names(self):
        return [p["name"] for p in self.parameters if p["in"] == "path"]

    def fill(self, values):
        path = self.path
        for name in self.names():
            path = path.replace("{%s}" % name, values[name])
        return path

    def query(self):
        """That of its example."""
        given = {p["name"]: p["example"] for p in self.parameters if p["in"] == "query" and "example" in p}
        text = {k: str(v).lower() if isinstance(v, bool) else v for k, v in given.items()}
        return "?" + urlencode(text, doseq=True) if text else ""

    def body(self):
        """Media type and bytes of its example; None and None when it takes none."""
        for media, what in self.content.items():
            example = what.get("example")
            if media == "application/json":
                return (media, json.dumps(example).encode()) if example is not None else (None, None)
            return media, (example or "").encode()
        return None, None

    def good(self):
        """The status of its example."""
        return next(iter(self.responses))

    def __repr__(self):
        return f"{self.method} {self.path}"


class Document:
    def __init__(self, client):
        answer = send(client, "GET", "/openapi.json")
        assert answer[0] == 200, answer
        self.json = json.loads(answer[2])
        self.operations = [Operation(method, path, spec) for path, verbs in self.json["paths"].items()
                           for method, spec in verbs.items()]

    def resolve(self, schema):
        return self.json["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else schema

    def faults(self, schema, value, where="answer"):
        """Why the value is not what the schema says. A member that the schema does not name is one."""
        schema = self.resolve(schema)
        if "anyOf" in schema:
            tries = [self.faults(one, value, where) for one in schema["anyOf"]]
            return [] if any(not t for t in tries) else min(tries, key=len) or [f"{where} is none of those"]
        if "const" in schema:
            return [] if value == schema["const"] else [f"{where} is {value!r}, not {schema['const']!r}"]
        if "enum" in schema and value not in schema["enum"]:
            return [f"{where} is {value!r}, not one of {schema['enum']}"]
        kind = schema.get("type")
        if kind in ("integer", "number"):
            whole = isinstance(value, int) and not isinstance(value, bool)
            return [] if whole or (kind == "number" and isinstance(value, float)) else [f"{where} is {value!r}, no {kind}"]
        if kind and not isinstance(value, KINDS[kind]):
            return [f"{where} is {value!r}, not of type {kind}"]
        if schema.get("format") == "date-time" and not TIME.fullmatch(value):
            return [f"{where} is {value!r}, no time"]
        if kind == "array":
            return [f for i, one in enumerate(value) for f in self.faults(schema["items"], one, f"{where}[{i}]")]
        return self.members(schema, value, where) if kind == "object" else []

    def members(self, schema, value, where):
        known, other = schema.get("properties", {}), schema.get("additionalProperties", False)
        found = [f"{where} lacks {name}" for name in schema.get("required", []) if name not in value]
        for name, one in value.items():
            if name in known:
                found += self.faults(known[name], one, f"{where}.{name}")
            elif other is False:
                found.append(f"{where}.{name} is not in the document")
            else:
                found += self.faults(other, one, f"{where}.{name}")
        return found

    def answer_faults(self, operation, status, media, body):
        """Is the answer one that the operation may give?"""
        said = operation.responses.get(str(status)) or operation.responses["default"]
        if str(status) not in operation.responses and not 400 <= status < 500:
            return [f"the status {status} is not in the document"]
        content = said.get("content", {})
        if not body and status in (101, 304):
            return []
        if media not in content:
            return [f"{status} is {media}, not one of {list(content)}"]
        return self.faults(content[media]["schema"], json.loads(body)) if media == "application/json" else []


def send(client, method, target, body=None, headers=None, until=None):
    """Status, media type and body, on a connection of its own. `until` ends the reading of what never ends."""
    headers = dict(headers or {})
    if client.token:
        headers.setdefault("Authorization", f"Bearer {client.token}")
    conn = client.connect()
    try:
        conn.request(method, target, body, headers)
        response = conn.getresponse()
        got = b""
        while not (until and until(got)) and (chunk := response.read1(65536)):
            got += chunk
        return response.status, (response.headers.get("Content-Type") or "").split(";")[0], got
    finally:
        conn.close()


class LocalConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Operator:
    """Who is on the server's machine; a client that `send` takes."""
    token = None

    def __init__(self, server):
        self.path = f"{server.data}/run/admin.sock"

    def connect(self):
        return LocalConnection(self.path, stretch(30))
