# SPDX-License-Identifier: Apache-2.0
"""Bad requests, made of the OpenAPI document: the example of an operation with a few things wrong in it. The same seed
and number give the same request."""
import json
import random
from urllib.parse import quote

TOKENS = ["NaN", "Infinity", "-Infinity", "1e400", "-1e400", "-0", "01", "1.", "+1", "0x10", "0.1e-999", "9" * 400,
          '"\\ud800"', '"\\u0000"', '"\\x"', '"\xff"', "tru", "undefined", "'a'", "[1,]", "{\"a\":1,}", "{\"a\":1,\"a\":2}",
          "[" * 200 + "]" * 200, "/*c*/1"]
WORDS = ["", " ", ".", "..", "../../etc/passwd", "/etc/shadow", "/proc/1/root", "-rf", "--help", "$(id)", "`id`", "a\nb",
         "a\rb", "a\tb", "\x01\x7f", "\u202e\ufeff", "\U0001f3dd", "e\u0301", "null", "true", "NaN", "1e400", "0x10", "%00",
         "%2e%2e%2f", "';--", "{}", "[]", "<script>", "2026-13-99T99:99:99Z", "2026-01-01T00:00:00Z", "9" * 400, "a" * 64,
         "a" * 300, "a" * 5000, "a" * 70000, "a/b/../../..", "/" * 300, "d/" * 2100, "demo", "nobody", "bulk", "exec",
         "sb-" + "a" * 20, "exec-" + "a" * 20, "snap-" + "a" * 20, "SIGKILL", "SIGFOO", "tar", "sha256", "0777", "99999",
         "YWJj", "====", "512q", "-1m", "1t", "root", "0:0", "65536", "git", "tarball", "snapshot"]
NUMBERS = [0, -1, 1, 2, 22.5, 64, 65535, 65536, 2**31, 2**32, 2**53, 2**53 + 1, 2**63, -2**63 - 1, 10**30, 1e308, 5e-324, 0.1]
OTHERS = [True, False, None, [], {}, [None], [[]], {"": ""}, {"a": {"b": {"c": []}}}, ["x"] * 2000, [""] * 3, [0],
          {f"k{i}": "v" for i in range(2000)}, {"A=B": "c"}, {"type": "snapshot"}, {"base64": "!"}, {"base64": "YWJj"}]
PIECES = ["", "%", "%z", "%zz", "%00", "%2f", "%2F..", "%c0%ae", "%ff", "%ed%a0%80", "%F0%9F%8F%9D", "%25%30%30", "+", "..",
          ".", "%2e%2e", "\x7f", "\xe9", "a" * 300, "a" * 5000, "a" * 40000, ";", "a;b", "*", "{id}", "~", "|", "\"", "<",
          "\\", "nobody", "sb-" + "a" * 20, "exec-" + "a" * 20, "0", "-1", "99999999999999999999", "1", "bulk"]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "FOO", "G\x00T", "A" * 300]
MEDIA = [None, "", "text/plain", "application/xml", "application/json; charset=utf-16", "application/problem+json",
         "application/x-www-form-urlencoded", "multipart/form-data", "multipart/form-data; boundary=", "application/json, a/b",
         "multipart/form-data; boundary=\"x", "multipart/form-data; boundary=x", "json", "a" * 1000, "application/x-tar",
         "application/gzip", "application/octet-stream"]
HEADERS = {"Accept": ["text/event-stream", "application/x-ndjson", "*/*", "", "a" * 2000, "application/gzip", ";q=,,;"],
           "Idempotency-Key": ["", "a", "k" * 255, "k" * 256, "\xff\xfe", "a\tb"],
           "Range": ["bytes=0-", "bytes=-1", "bytes=5-2", "bytes=99999999999999999999-", "bytes=a-b", "bytes=0-1,3-4", "lines=1"],
           "If-Match": ["*", "\"x\"", "", "a" * 1000, "a" * 25000], "If-None-Match": ["*", "\"x\"", "W/\"a\""], "If-Range": ["\"x\"", "x", "a" * 25000],
           "Last-Event-ID": ["0", "-1", "99999999999999999999", "4096.e282", "exec-x:1", ":", "a" * 300],
           "Content-Encoding": ["gzip", "identity", "br, gzip"], "Expect": ["100-continue", "x"],
           "Authorization": ["", "Bearer", "Bearer x", "Basic eDp5", "Bearer a b", "Bearer " + "a" * 9000, "Bearer cay_x",
                             "Bearer eyJhbGciOiJub25lIn0.e30."],
           "Host": ["evil.example", "", "localhost:99999", "a" * 500], "Origin": ["null", "http://evil.example", "x"],
           "Sec-Fetch-Site": ["cross-site", "same-origin", "x"], "Upgrade": ["websocket", "h2c"],
           "Connection": ["Upgrade", "close", "x, y"], "X-Forwarded-For": ["1.2.3.4"], "X-Http-Method-Override": ["DELETE"],
           "X-Cay-Account": ["nobody"], "Transfer-Encoding": ["gzip", "x"], "Cookie": ["a=" + "b" * 3000],
           "X-Many": ["z" * 9000]}
UPGRADE = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13",
           "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
MESSAGES = ['{"type":"resize","cols":%s,"rows":%s}', '{"type":"signal","signal":%s}', '{"type":%s}', '{"type":"eof"}', "%s", "{"]


class Request:
    """One request before it is bytes."""

    def __init__(self, operation, values, token):
        self.operation, self.method = operation, operation.method
        self.segments = [quote(values[s[1:-1]], safe="") if s.startswith("{") else s
                         for s in operation.path.split("/")[1:]]
        self.query = [(p["name"], quote(text(v))) for p in operation.parameters if p["in"] == "query" and "example" in p
                      for v in (p["example"] if isinstance(p["example"], list) else [p["example"]])]
        self.media, self.raw = operation.body()
        self.json = json.loads(self.raw) if self.media == "application/json" else None
        self.headers = {"Authorization": f"Bearer {token}"}
        if operation.good() == "101":
            self.headers.update(UPGRADE)
        self.as_described = True  # method and path still lead to the operation
        self.suffix = ""
        self.chunked = None  # instead of the body

    def bytes(self, host):
        target = "/" + "/".join(self.segments) + self.suffix
        if self.query:
            target += "?" + "&".join(k if v is None else f"{k}={v}" for k, v in self.query)
        lines = [f"{self.method} {target} HTTP/1.1"]
        headers = {"Host": host, **self.headers}
        if self.media is not None:
            headers.setdefault("Content-Type", self.media)
        if self.raw is not None and self.chunked is None:
            headers["Content-Length"] = str(len(self.raw))
        lines += [f"{k}: {v}" for k, v in headers.items()]
        body = self.raw or b"" if self.chunked is None else self.chunked
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def text(value):
    return str(value).lower() if isinstance(value, bool) else str(value)


class Mutator:
    def __init__(self, document, seed):
        self.document, self.seed = document, seed
        self.kinds = [self.field] * 6 + [self.parameter] * 4 + [self.bytes_of_body] * 2 + [self.segment] * 2 + \
            [self.header] * 2 + [self.media, self.verb, self.path, self.shape]

    def request(self, number, operations, values, token):
        self.random = random.Random(f"{self.seed}:{number}")
        operation = self.random.choice(operations)
        request = Request(operation, values(operation), token)
        for _ in range(self.random.choice((1, 1, 1, 2, 3))):
            self.random.choice(self.kinds)(request)
        return request

    # ---- values ----

    def near(self, schema):
        """At a bound that the document tells, or just behind it."""
        schema = self.document.resolve(schema)
        pick = []
        for key, step in (("minimum", -1), ("maximum", 1)):
            if key in schema:
                pick += [schema[key], schema[key] + step, schema[key] + step * 0.001]
        if "maxLength" in schema:
            pick += ["a" * schema["maxLength"], "a" * (schema["maxLength"] + 1), "\u20ac" * (schema["maxLength"] // 3 + 1)]
        if "maxItems" in schema:
            pick += [["a"] * (schema["maxItems"] + 1), ["a"] * min(schema["maxItems"], 64)]
        if "maxProperties" in schema:
            pick.append({f"k{i}": "v" for i in range(schema["maxProperties"] + 1)})
        if "anyOf" in schema:
            pick += [self.near(self.random.choice(schema["anyOf"]))]
        if schema.get("type") == "object" and schema.get("properties"):
            name = self.random.choice(list(schema["properties"]))
            pick += [{name: self.value(schema["properties"][name])}] * 3
        if schema.get("type") == "array":
            pick += [[self.near(schema["items"])] * self.random.choice((1, 2, 5))]
        pick += schema.get("enum", []) + {"boolean": [True, False], "string": ["a", "demo"], "integer": [1, 5],
                                          "number": [1, 0.5]}.get(schema.get("type"), [])
        return self.random.choice(pick) if pick else self.anything()

    def anything(self):
        return self.random.choice(self.random.choice((WORDS, NUMBERS, OTHERS)))

    def value(self, schema):
        return self.near(schema) if self.random.random() < 0.5 else self.anything()

    def frames(self):
        """What a WebSocket might be told."""
        out = b""
        for _ in range(self.random.randrange(4)):
            message = self.random.choice(MESSAGES)
            data = (message % ((json.dumps(self.anything()),) * message.count("%s"))).encode("utf-8", "surrogatepass")[:60000]
            head = bytes([self.random.choice((0x81, 0x82, 0x01, 0x80, 0x88, 0x89, 0xf1, 0x83)), 0x80 | 126])
            out += self.random.choice([head + len(data).to_bytes(2, "big") + bytes(4) + data, self.random.randbytes(40),
                                       head[:1] + b"\xff" + b"\xff" * 8, b"\x81\x03abc"])
        return out

    # ---- what goes wrong ----

    def field(self, request):
        """One more, one less, one of another type, one out of bounds."""
        if not isinstance(request.json, dict):
            schema = request.operation.content.get("application/json", {}).get("schema")
            if not schema or request.json is not None:
                return self.parameter(request)
            request.json, request.media = {}, "application/json"
        schema = request.operation.content["application/json"]["schema"]
        known, body = schema["properties"], dict(request.json)
        name = self.random.choice(list(known))
        how = self.random.random()
        token = None
        if how < 0.1 and body:
            body.pop(self.random.choice(list(body)))
        elif how < 0.2:
            body[self.random.choice(["nmae", "", "__proto__", "a" * 200, "\u0001", "constructor", name.upper()])] = 1
        elif how < 0.25:
            body[snake(name)] = body[name] = self.value(known[name])
        elif how < 0.4:
            body[name], token = "@@", self.random.choice(TOKENS)
        else:
            body[name if self.random.random() < 0.8 else snake(name)] = self.value(known[name])
        request.json = body
        request.raw = json.dumps(body).encode("utf-8", "surrogatepass")
        if token:
            request.raw = request.raw.replace(b'"@@"', token.encode("latin-1"))

    def parameter(self, request):
        known = [p for p in request.operation.parameters if p["in"] == "query"]
        name = self.random.choice(known)["name"] if known and self.random.random() < 0.9 else "nmae"
        schema = next((p["schema"] for p in known if p["name"] == name), {"type": "string"})
        how = self.random.random()
        if how < 0.3:
            value = self.random.choice(PIECES)
        elif how < 0.4:
            value = None
        else:
            value = quote(text(self.value(schema)).encode("utf-8", "surrogatepass")[:20000], safe="")
        if self.random.random() < 0.7:
            request.query = [q for q in request.query if q[0] != name]
        request.query += [(name if self.random.random() < 0.8 else snake(name), value)] * self.random.choice((1, 1, 1, 2, 70, 5000)
                                                                         if value is None or len(value) < 4 else (1, 1, 2))

    def bytes_of_body(self, request):
        raw = request.raw or b"{}"
        at = self.random.randrange(len(raw) + 1)
        request.raw = self.random.choice([
            lambda: raw[:at], lambda: raw[:at] + bytes([self.random.randrange(256)]) + raw[at + 1:], lambda: b"",
            lambda: raw[:at] + self.random.choice([b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\0", b"\xf4\x90\x80\x80"]) + raw[at:],
            lambda: b"\xef\xbb\xbf" + raw, lambda: b"[" + raw + b"]", lambda: raw + raw, lambda: b" " * 100000 + raw,
            lambda: b'{"a":' * 100000, lambda: b"null", lambda: self.random.randbytes(300), lambda: b"--x\r\n" + raw + b"\r\n--x--",
            lambda: b'--x\r\nContent-Disposition: form-data; name="f"; filename="../a"\r\n\r\n' + raw + b"\r\n--x--\r\n",
            lambda: raw.decode("latin-1").encode("utf-16"), lambda: self.random.choice(TOKENS).encode("latin-1")])()
        request.json = None
        if request.media is None:
            request.media = "application/json"

    def segment(self, request):
        at = [i for i, s in enumerate(request.operation.path.split("/")[1:]) if s.startswith("{")]
        if not at:
            return self.parameter(request)
        request.segments[self.random.choice(at)] = self.random.choice(PIECES)
        request.as_described = False

    def header(self, request):
        name = self.random.choice(list(HEADERS))
        request.headers[name] = self.random.choice(HEADERS[name])
        if name in ("Connection", "Upgrade"):
            request.headers |= {"Sec-WebSocket-Version": self.random.choice(["13", "8", ""]),
                                "Sec-WebSocket-Key": self.random.choice([UPGRADE["Sec-WebSocket-Key"], "x", ""])}

    def media(self, request):
        request.media = self.random.choice(MEDIA)

    def verb(self, request):
        request.method = self.random.choice(METHODS)
        request.as_described = False

    def path(self, request):
        request.suffix = self.random.choice(["/", "//", "/x", "/.", "/..", "/" + "a" * 5000, "/x" * 30, "%2f", "%00", "#a", "?", "%"])
        request.as_described = False

    def shape(self, request):
        """Other endings of the same body."""
        if request.raw is None:
            request.raw = b""
        size = len(request.raw)
        request.headers["Transfer-Encoding"] = "chunked"
        request.chunked = self.random.choice([b"%x\r\n" % size + request.raw + b"\r\n0\r\n\r\n", b"zz\r\n", b"-1\r\n\r\n", b"fffffffffffffffff\r\n",
                                     b"1\r\nab\r\n0\r\n\r\n", b"0\r\nA: b\r\n\r\n"])


def snake(name):
    out = ""
    for i, c in enumerate(name):
        out += ("_" if i and c.isupper() and not name[i - 1].isupper() else "") + c.lower()
    return out
