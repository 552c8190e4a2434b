# SPDX-License-Identifier: Apache-2.0
"""Bad input and the answer it gets: one row each, its status and code to the letter.

A row is (number of the kind, what it is, request, status, code, field). A new kind, or a new neighbour of one, is a new
row; nothing else need be touched. `box` is a sandbox that runs. What is no request has tables of its own, below."""
import io
import json
import struct
import tarfile

from harness.websocket import CLOSE, PING, TEXT, WebSocket

INVALID = "VALIDATION_ERROR"
DEEP = 100_000


def create(**spec):
    return "POST", "/sandbox", spec, {}


def update(**change):
    return "PATCH", "/sandbox/box", change, {}


def execute(**spec):
    return "POST", "/sandbox/box/exec", {"command": "true", **spec}, {}


def raw(body, path="/sandbox", **headers):
    return "POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()}


def get(path, **headers):
    return "GET", path, None, {name.replace("_", "-"): value for name, value in headers.items()}


def upgrade(path="/sandbox/box/terminal", **headers):
    """A WebSocket's handshake; None leaves a header out."""
    usual = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    usual.update({name.replace("_", "-"): value for name, value in headers.items()})
    return "GET", path, None, {name: value for name, value in usual.items() if value is not None}


def archive(*members, path="/workspace"):
    """A tar of (name, type, what it links to or holds)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, kind, more in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = more
            data = more if kind == tarfile.REGTYPE else b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return "PUT", f"/sandbox/box/files/archive?path={path}", out.getvalue(), {"Content-Type": "application/x-tar"}


def spread(number, what, make, field, values, status=400, code=INVALID):
    """One row for each value of a field."""
    return [(number, f"{what} {show(value)}", make(value), status, code, field) for value in values]


def show(value):
    text = repr(value)[1:] if isinstance(value, bytes) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:24]}... ({len(text)})"


NAMES = ["", "a" * 300, "a" * 64, "../x", "a/b", "a b", " a", "🏝", "é", "-rf", "$(id)", "a\nb", "a\tb", "A", "a.b", "a_b", "%2e",
         "sb-00000000000000000000", "bulk", "ports", "expose", "exec", "status"]
PATHS = ["../../etc/passwd", "..", "a/../../x", "./../x", "", "a" * 256, "x/" * 2500]

ROWS = [
    # ---- JSON itself ----
    *[("A-01", f"body {show(body)}", raw(body), 400, "INVALID_JSON", None)
      for body in (b"{", b"}", b"[", b'{"name":', b'{"name":"x"} x', b"{'name':'x'}", b'{"name":"x",}', b'{"name":"x"/**/}', b"name=x",
                   b'{"name" "x"}', b'\xef\xbb\xbf{"name":"x"}', b'{"name":"\xff\xfe"}', b'{"name":"\xc0\xaf"}', b'{"name":"\\ud800"}',
                   b'{"name":"\\x41"}', b'{"name":"a\nb"}', b'{"name":tru}', b'{"name":"a","name":"b"}', b"\0{}")],
    *[("A-01", f"body {body.decode()}", raw(body), 400, INVALID, None) for body in (b"[]", b'"x"', b"5", b"true")],
    ("A-01", "nothing where a field is required", ("POST", "/sandbox/box/exec", None, {}), 400, INVALID, "command"),
    ("A-01", "an empty object where a field is required", raw(b"{}", "/sandbox/box/exec"), 400, INVALID, "command"),
    ("A-02", "objects in objects", raw(b'{"a":' * DEEP), 400, "INVALID_JSON", None),
    ("A-02", "arrays in arrays", raw(b"[" * DEEP + b"]" * DEEP), 400, "INVALID_JSON", None),
    ("A-02", "65 deep", raw(b'{"tags":' + b"[" * 64 + b"]" * 64 + b"}"), 400, "INVALID_JSON", None),
    *[("A-05", f"cpuCores {text}", raw(b'{"cpuCores":' + text.encode() + b"}"), 400, code, field)
      for text, code, field in (("1e400", INVALID, "cpuCores"), ("-0", INVALID, "cpuCores"), ("0.1e-999", INVALID, "cpuCores"),
                                ("9223372036854775808", INVALID, "cpuCores"), ("-1e400", INVALID, "cpuCores"),
                                ("NaN", INVALID, "cpuCores"), ("Infinity", INVALID, "cpuCores"), ("0x10", "INVALID_JSON", None),
                                ("+1", "INVALID_JSON", None), ("01", "INVALID_JSON", None), (".5", "INVALID_JSON", None),
                                ("1.", "INVALID_JSON", None), ("1e", "INVALID_JSON", None))],
    *[("A-05", f"timeoutMs {text}", raw(b'{"timeoutMs":' + text.encode() + b"}"), 400, INVALID, "timeoutMs")
      for text in ("1e400", "9223372036854775808", "0.5", "1e-3", "-1", "18446744073709551616")],
    # ---- how it is sent ----
    *[("A-07", f"coding {coding}", raw(b"\x1f\x8b", Content_Encoding=coding), 415, "UNSUPPORTED_MEDIA_TYPE", None)
      for coding in ("gzip", "br", "deflate", "zstd", "gzip, gzip")],
    *[("A-08", f"type {kind}", raw(b'{"name":"x"}', Content_Type=kind), 415, "UNSUPPORTED_MEDIA_TYPE", None)
      for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "application/jsonx")],
    # ---- types ----
    *[("A-09", f"{field} {show(value)}", create(**{field: value}), 400, INVALID, field)
      for field, values in {
          "name": [5, True, [], {}], "cpuCores": ["4", True, [], {}], "ports": ["80", 80, {"80": 1}], "labels": [{}, "x", [1]],
          "tags": [[], "x", {"a": 1}, {"a": None}], "environmentVars": [[], "A=b", {"A": 1}, {"A": ["x"]}], "secrets": [[], "x", {"A": 1}],
          "networkAccess": ["yes", 1, "true"], "persistent": ["no", 0], "startCommand": [5, True, {}, [1], [["a"]], ""],
          "dockerImage": [5, ""], "gpuCount": ["1", 1.5, -1], "user": [0, "", "-x", "a b", "a/b", "x" * 100],
          "workdir": [5, "relative", "x" * 5000], "track": ["all", 1, ""], "resources": [5, "x", []], "readyWhen": [5, "x", []],
          "timeoutMinutes": ["5", True, [], 0.5], "idleWhen": ["cpu", ["moon"], []], "memoryLimit": [512], "teamId": [5],
          "stopWhenStartEnds": ["yes"], "runtime": [5, "cobol"], "isolation": [5], "source": [5, "x"], "volume": [5]}.items()
      for value in values],
    *[("A-09", f"two names: {first} and {second}", create(**{first: value, second: other}), 400, INVALID, second)
      for first, second, value, other in (("dockerImage", "image", "a", "b"), ("docker_image", "image", "a", "a"), ("env", "environmentVars", {}, {"A": "b"}),
                                          ("memoryGB", "memory_gb", 1, 2))],
    ("A-47", "two names: per_page and limit", get("/sandbox?per_page=1&limit=2"), 400, INVALID, "limit"),
    # ---- files ----
    *spread("A-10", "download", lambda p: get(f"/sandbox/box/files?path={p}"), "path", PATHS, code="INVALID_PATH"),
    *spread("A-10", "stat", lambda p: get(f"/sandbox/box/files/stat?path={p}"), "path", PATHS, code="INVALID_PATH"),
    *spread("A-10", "list", lambda p: get(f"/sandbox/box/files/list?path={p}"), "path", [p for p in PATHS if p], code="INVALID_PATH"),
    *spread("A-10", "upload", lambda p: ("PUT", f"/sandbox/box/files?path={p}", b"x", {}), "path", PATHS, code="INVALID_PATH"),
    *spread("A-10", "delete", lambda p: ("DELETE", f"/sandbox/box/files?path={p}", None, {}), "path", PATHS, code="INVALID_PATH"),
    *[("A-10", f"a command's file {show(p)}", execute(files={p: "x"}), 400, "INVALID_PATH", "files.") for p in PATHS],
    *spread("A-10", "move to", lambda p: ("POST", "/sandbox/box/files/move", {"path": "a", "to": p}, {}), "to", PATHS, code="INVALID_PATH"),
    ("A-10", "mkdir", ("POST", "/sandbox/box/files/mkdir", {"path": "../x"}, {}), 400, "INVALID_PATH", "path"),
    ("A-10", "a NUL", get("/sandbox/box/files?path=a%00b"), 400, None, None),
    ("A-15", "10,000 files", execute(files={f"f{i}": "x" for i in range(10_000)}), 400, INVALID, "files"),
    ("A-15", "a name of 5,000", execute(files={"n" * 5000: "x"}), 400, "INVALID_PATH", "files."),
    ("A-15", "a file that is a number", execute(files={"a": 1}), 400, INVALID, "files"),
    ("A-15", "a file that is no base64", execute(files={"a": {"base64": "*"}}), 400, INVALID, "files"),
    *[("A-16", what, archive(*members), 400, "BAD_ARCHIVE", None) for what, members in {
        "../x": [("../x", tarfile.REGTYPE, b"x")], "a/../../x": [("a/../../x", tarfile.REGTYPE, b"x")],
        "a file below a link out": [("out", tarfile.SYMTYPE, "/etc"), ("out/x", tarfile.REGTYPE, b"x")],
        "a hard link out": [("l", tarfile.LNKTYPE, "/etc/hostname")], "a hard link up": [("l", tarfile.LNKTYPE, "../etc/hostname")],
    }.items()],
    ("A-16", "no archive", ("PUT", "/sandbox/box/files/archive?path=/workspace", b"<html>" * 1000, {"Content-Type": "application/x-tar"}),
     400, "BAD_ARCHIVE", None),
    # ---- whose ----
    *[("A-19", f"{method} {eid}{tail}", (method, f"/sandbox/box/exec/{eid}{tail}", body, {}), status, code, None)
      for eid, status, code in (("exec_0000000000000000", 404, "EXECUTION_NOT_FOUND"), ("x", 404, "EXECUTION_NOT_FOUND"),
                                ("%2e%2e", 404, "EXECUTION_NOT_FOUND"), ("..%2f..%2fcay.db", 400, "INVALID_PATH"))
      for method, tail, body in (("GET", "", None), ("GET", "/output", None), ("POST", "/kill", {}), ("DELETE", "", None))],
    *[("A-18", f"{way} {field} {show(ident)}", ("POST", f"/sandbox/box/{way}", {field: ident}, {}), 404, "EXECUTION_NOT_FOUND", field)
      for way, field in (("rollback", "executionId"), ("diff", "fromExecId"), ("diff", "toExecId"))
      for ident in ("--output=/x", "-c core.pager=id", "HEAD@{1}", ":/x", "HEAD", "HEAD~1", "refs/heads/main", "main", "../x", "0" * 40,
                    "exec_0000000000000000", "exec_", "*", "a\nb")],
    *[("A-18", f"rollback of {show(path)}", ("POST", "/sandbox/box/rollback", {"executionId": "HEAD", "path": path}, {}), status, code, field)
      for path, status, code, field in (("--output=/x", 404, "EXECUTION_NOT_FOUND", None), (5, 400, INVALID, "path"), ("x" * 5000, 400, INVALID, "path"))],
    ("A-18", "a rollback to nothing", ("POST", "/sandbox/box/rollback", {}, {}), 400, INVALID, "executionId"),
    ("A-18", "a fork of no version", ("POST", "/sandbox/box/fork", {"executionId": "HEAD"}, {}), 404, "EXECUTION_NOT_FOUND", "executionId"),
    # ---- names and numbers ----
    *spread("A-26", "name", lambda n: create(name=n), "name", NAMES),
    *spread("A-26", "rename to", lambda n: update(name=n), "name", NAMES),
    ("A-27", "a name twice", create(name="box"), 409, "NAME_TAKEN", None),
    *spread("A-29", "cpuCores", lambda n: create(cpuCores=n), "cpuCores", [0, -1, 1e9, 0.0001, 64.01, "0.5x"]),
    *spread("A-29", "vcpus", lambda n: create(resources={"vcpus": n}), "resources.vcpus", [0, -1, 1e9, "1"]),
    *spread("A-29", "memoryLimit", lambda n: create(memoryLimit=n), "memoryLimit", ["512", "512q", "-1m", "", "m", "1.5g", "512M", " 1g", "9" * 30 + "g"]),
    *spread("A-29", "memoryGB", lambda n: create(memoryGB=n), "memoryGB", [0, -1, 1e-9, 1e18, 1e6]),
    *spread("A-29", "diskSizeGB", lambda n: create(diskSizeGB=n), "diskSizeGB", [0, -1, 0.01, 1e18]),
    *spread("A-29", "an update of cpuCores", lambda n: update(cpuCores=n), "cpuCores", [0, -1, 1e9, "1"]),
    ("A-29", "a GPU", create(gpuCount=1), 400, "GPU_UNAVAILABLE", "gpuCount"),
    *spread("A-30", "timeoutMinutes", lambda n: create(timeoutMinutes=n), "timeoutMinutes", [-1, 2**63, 1e308, "5", 1441, 0.1]),
    *spread("A-30", "timeoutMs", lambda n: create(timeoutMs=n), "timeout", [-1, 2**63, 1e308, "5", 86_400_001]),
    *spread("A-30", "idleTimeoutMs", lambda n: create(idleTimeoutMs=n), "idleTimeoutMs", [-1, 999, 86_400_001, "5"]),
    *spread("A-30", "leaseSeconds", lambda n: create(leaseSeconds=n), "leaseSeconds", [-1, 86_401, 0.5, "5"]),
    *spread("A-30", "a command's timeoutMs", lambda n: execute(timeoutMs=n), "timeoutMs", [-1, 2**63, 1e308, "5"]),
    *spread("A-30", "graceMs", lambda n: ("POST", "/sandbox/box/stop", {"graceMs": n}, {}), "graceMs", [-1, 600_001, "1", 0.5]),
    *spread("A-31", "ports", lambda p: create(ports=p), "ports",
            [[0], [65536], [-1], [22.5], [1, 2, 3, 4, 5], [80, 80], ["80"], [None], [True], [[80]]]),
    *spread("A-31", "an update of ports", lambda p: update(ports=p), "ports", [[0], [65536], [1, 2, 3, 4, 5], [80, 80], "80"]),
    ("A-32", "6 tags", create(tags={str(i): "x" for i in range(6)}), 400, INVALID, "tags"),
    ("A-32", "a tag of 1 MB", create(tags={"a": "x" * 1_000_000}), 400, INVALID, "tags"),
    ("A-32", "a tag without a name", create(tags={"": "x"}), 400, INVALID, "tags"),
    ("A-32", "10,000 labels", create(labels=["x"] * 10_000), 400, INVALID, "labels"),
    ("A-32", "65 labels", create(labels=["x"] * 65), 400, INVALID, "labels"),
    ("A-32", "an empty label", create(labels=[""]), 400, INVALID, "labels"),
    ("A-32", "an update to 6 tags", update(tags={str(i): "x" for i in range(6)}), 400, INVALID, "tags"),
    *[("A-33", f"{field} {what}", make(**{field: value}), 400, INVALID, field)
      for make, field in ((create, "environmentVars"), (create, "secrets"), (execute, "env"))
      for what, value in {"10,000": {f"k{i}": "v" for i in range(10_000)}, "2 MB": {"A": "x" * 2_000_000}, "key with =": {"A=B": "c"},
                          "key empty": {"": "c"}, "key with a newline": {"A\nB": "c"}, "a number": {"A": 1}}.items()],
    *[("A-33", f"{field} with NUL", make(**{field: {"A": "\0"}}), 400, "INVALID_JSON", None)
      for make, field in ((create, "environmentVars"), (create, "secrets"), (execute, "env"))],
    *[("A-33", f"an update of secrets {what}", update(secrets=value), 400, INVALID, "secrets")
      for what, value in {"number": {"A": 1}, "list": ["A"], "65": {f"s{i}": "x" for i in range(65)}, "key with =": {"A=B": "c"}}.items()],
    *[("A-35", f"command {show(command)}", execute(command=command), 400, INVALID, "command")
      for command in ([], "", [""], 5, True, {}, [1], ["a", None], ["x" * 200_000], ["x" * 1000] * 3000, ["x"] * 5000)],
    ("A-35", "command with NUL", execute(command=["a\0b"]), 400, "INVALID_JSON", None),
    *[("A-35", f"{field} {show(value)}", execute(**{field: value}), 400, INVALID, field)
      for field, values in {"cwd": ["relative", "/no/such", "/etc/passwd", 5], "user": ["nobody-here", "-x", 5, "65535"],
                            "tty": [5], "stdin": [5], "detach": ["yes"]}.items()
      for value in values],
    *[("A-35", f"tty {show(tty)}", execute(tty=tty), 400, INVALID, field)
      for tty, field in (({"cols": 0, "rows": 1}, "cols"), ({"cols": 5000, "rows": 1}, "cols"), ({"cols": 1, "rows": 0}, "rows"))],
    *[("A-36", f"{path} with an unknown field", (method, path, {"nmae": 1, **more}, {}), 400, INVALID, "nmae")
      for method, path, more in (("POST", "/sandbox", {}), ("PATCH", "/sandbox/box", {}), ("POST", "/sandbox/box/exec", {"command": "true"}),
                                 ("POST", "/sandbox/box/stop", {}), ("POST", "/sandbox/box/fork", {}), ("POST", "/sandbox/box/snapshot", {}),
                                 ("POST", "/sandbox/box/extend", {"timeoutMs": 1}), ("POST", "/batch", {}), ("DELETE", "/sandbox/bulk", {}),
                                 ("POST", "/sandbox/box/files/mkdir", {"path": "x"}))],
    ("A-36", "an unknown field within", create(resources={"vcpu": 1}), 400, INVALID, "resources.vcpu"),
    # ---- the network, and sources ----
    *[("A-37", f"networkPolicy {show(policy)}", create(networkPolicy=policy), 400, INVALID, field)
      for policy, field in (
          ("open", "networkPolicy"), (5, "networkPolicy"), ([], "networkPolicy"), ({"allow": "x"}, "networkPolicy.allow"),
          ({"allow": [5]}, "networkPolicy.allow"), ({"alow": []}, "networkPolicy"), ({"subnets": {"allow": ["10.0.0.0/33"]}}, "networkPolicy.subnets.allow[0]"),
          ({"subnets": {"allow": ["10.0.0.1/8"]}}, "networkPolicy.subnets.allow[0]"), ({"subnets": {"deny": ["x"]}}, "networkPolicy.subnets.deny[0]"),
          ({"subnets": {"allow": ["0.0.0.0/0"], "deny": ["0.0.0.0/0"]}}, "networkPolicy.subnets.deny[0]"),
          ({"allow": [f"h{i}.example" for i in range(100_000)]}, "networkPolicy"), ({"allow": ["a*.example"]}, "networkPolicy.allow[0]"),
          ({"allow": ["*.*.example"]}, "networkPolicy.allow[0]"), ({"allow": ["*."]}, "networkPolicy.allow[0]"),
          ({"allow": ["m\u00fcnchen.example"]}, "networkPolicy.allow[0]"), ({"allow": ["https://a.example"]}, "networkPolicy.allow[0]"),
          ({"allow": ["a.example:0"]}, "networkPolicy.allow[0]"), ({"allow": ["a.example:65536"]}, "networkPolicy.allow[0]"),
          ({"allow": ["2130706433"]}, "networkPolicy.allow[0]"), ({"allow": ["0x7f.1"]}, "networkPolicy.allow[0]"),
          ({"allow": [""]}, "networkPolicy.allow[0]"), ({"allow": ["x" * 400]}, "networkPolicy.allow[0]"))],
    ("A-37", "an update to a bad policy", update(networkPolicy={"allow": ["a b"]}), 400, INVALID, "networkPolicy.allow[0]"),
    *[("A-38", f"{kind} {show(url)}", create(source={"type": kind, "url": url}), 400, "INVALID_SOURCE", "source.url")
      for kind in ("git", "tarball")
      for url in ("file:///etc", "/etc", "ext::sh -c id", "--upload-pack=id", "-oProxyCommand=id", "ssh://-oX/a", "git@host:a", "host:a",
                  "git://a.example/a", "ftp://a.example/a", "http://169.254.169.254/", "http://[fd00:ec2::254]/", "https://", "https:///a", "",
                  "https://-oX/a", "https://a.example/a b", "https://a.example\\@b.example/", "https://2130706433/", "https://0x7f.1/",
                  "https://a.example:0/", "https://a.example:99999/", "https://*.example/", "https://a.example/\n--upload-pack=id")],
    *spread("A-38", "revision", lambda r: create(source={"type": "git", "url": "https://a.example/a", "revision": r}), "source.revision",
            ["--upload-pack=id", "-x", "a..b", "a b", "$(id)", "", "a" * 300, "refs/heads/a:refs/heads/b"], code="INVALID_SOURCE"),
    *spread("A-38", "depth", lambda d: create(source={"type": "git", "url": "https://a.example/a", "depth": d}), "source.depth",
            [0, -1, 1e9, "1", 0.5]),
    ("A-38", "credentials for a tarball", create(source={"type": "tarball", "url": "https://a.example/a", "password": "x"}), 400, "INVALID_SOURCE", "source"),
    ("A-38", "a header in a password", create(source={"type": "git", "url": "https://a.example/a", "password": "x\r\nHost: b"}), 400,
     "INVALID_SOURCE", "source.password"),
    ("A-38", "a URL of 100 KB", create(source={"type": "git", "url": "https://a.example/" + "a" * 60_000}), 400, INVALID, "source.url"),
    ("A-43", "credentials in the URL", create(source={"type": "git", "url": "https://user:hunter2x@a.example/"}), 400, "INVALID_SOURCE", "source.url"),
    ("A-43", "a user in the URL", create(source={"type": "tarball", "url": "https://hunter2x@a.example/"}), 400, "INVALID_SOURCE", "source.url"),
    # ---- queries ----
    *[("A-47", query, get(f"/sandbox?{query}"), 400, INVALID, query.split("=")[0])
      for query in ("page=0", "page=-1", "page=1000000000000000000", "page=x", "page=1.5", "per_page=0", "per_page=1001", "perPage=0",
                    "limit=0", "limit=1001", "status=FOO", "status=';--", "status=running", "is_active=perhaps", "include_terminated=2")],
    ("A-47", "labels 1,000 times", get("/sandbox?" + "&".join(["labels=x"] * 1000)), 400, INVALID, "labels"),
    *[("A-47", f"{path} {query}", get(f"{path}?{query}"), 400, INVALID, query.split("=")[0])
      for path in ("/snapshots", "/volumes", "/sandbox/box/exec") for query in ("page=0", "per_page=1001", "page=x")],
    # ---- who asks, and how ----
    *[("A-50", f"Host {host}", get("/sandbox", Host=host), 421, "MISDIRECTED_REQUEST", None)
      for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "evil.example:80", "169.254.169.254", "[::2]")],
    *[("A-51", f"{name} {value}", raw(b"{}", **{name: value}), 403, "FORBIDDEN", None)
      for name, value in (("Origin", "https://evil.example"), ("Origin", "null"), ("Origin", "http://127.0.0.1.evil.example"),
                          ("Origin", "file://"), ("Sec_Fetch_Site", "cross-site"))],
    ("A-51", "a foreign Origin with a cookie", raw(b"{}", Origin="https://evil.example", Cookie="a=b"), 403, "FORBIDDEN", None),
    *[("A-52", f"a WebSocket: {what}", upgrade(**headers), status, code, None) for what, headers, status, code in (
        ("foreign Origin", {"Origin": "http://evil.example"}, 403, "FORBIDDEN"), ("Origin null", {"Origin": "null"}, 403, "FORBIDDEN"),
        ("Origin like ours", {"Origin": "http://127.0.0.1.evil.example"}, 403, "FORBIDDEN"),
        ("a page of another site", {"Sec_Fetch_Site": "cross-site"}, 403, "FORBIDDEN"),
        ("another Host", {"Host": "evil.example"}, 421, "MISDIRECTED_REQUEST"),
        ("no Upgrade", {"Upgrade": None, "Connection": None}, 426, "UPGRADE_REQUIRED"), ("another Upgrade", {"Upgrade": "h2c"}, 426, "UPGRADE_REQUIRED"),
        ("another version", {"Sec_WebSocket_Version": "8"}, 426, "UPGRADE_REQUIRED"), ("no key", {"Sec_WebSocket_Key": None}, 400, "BAD_HANDSHAKE"),
        ("half a key", {"Sec_WebSocket_Key": "eA=="}, 400, "BAD_HANDSHAKE"))],
    *[("A-52", f"a WebSocket at {path}", upgrade(f"/sandbox/box/{path}"), status, code, field) for path, status, code, field in (
        ("terminal?cols=0", 400, INVALID, "cols"), ("terminal?rows=5000", 400, INVALID, "rows"), ("terminal?user=nobody-here", 400, INVALID, "user"),
        ("terminal?cwd=/nowhere", 400, INVALID, "cwd"), ("exec/exec_0000000000000000/attach", 404, "EXECUTION_NOT_FOUND", None),
        ("exec/x/attach", 404, "EXECUTION_NOT_FOUND", None))],
    # ---- what is not there ----
    ("A-59", "PATCH on the list", ("PATCH", "/sandbox", {}, {}), 405, "METHOD_NOT_ALLOWED", None),
    ("A-59", "PUT on commands", ("PUT", "/sandbox/box/exec", {}, {}), 405, "METHOD_NOT_ALLOWED", None),
    ("A-59", "TRACE", ("TRACE", "/sandbox", None, {}), 405, "METHOD_NOT_ALLOWED", None),
    ("A-59", "DELETE health", ("DELETE", "/health", None, {}), 405, "METHOD_NOT_ALLOWED", None),
    ("A-59", "another method by header", ("POST", "/health", {}, {"X-HTTP-Method-Override": "GET"}), 405, "METHOD_NOT_ALLOWED", None),
    *[("A-59", f"GET {path}", get(path), 404, "ROUTE_NOT_FOUND", None) for path in ("/nowhere", "/sandbox/box/nowhere")],
    *[("A-59", f"GET {show(path)}", get(path), 404, "NOT_FOUND", None)
      for path in ("/sandbox/nobody", "/sandbox/" + "a" * 3000, "/sandbox/sb-00000000000000000000")],
    *[("A-59", f"GET {path}", get(path), 400, None, None) for path in ("/sandbox/%zz", "/sandbox/%", "/sandbox/a%00b")],
]

# What is sent over a WebSocket that is open, and the code that it is closed with.
FRAMES = [
    ("A-52", "unmasked", WebSocket.frame(TEXT, b"hi", mask=b""), 1002),
    ("A-52", "a gigabyte", b"\x82\xff" + struct.pack(">Q", 1 << 30) + b"mask", 1009),
    ("A-52", "2^63 bytes", b"\x82\xff" + struct.pack(">Q", 1 << 63) + b"mask", (1002, 1009)),
    ("A-52", "a long text", b"\x81\xff" + struct.pack(">Q", 1 << 20) + b"mask", 1009),
    ("A-52", "reserved bits", b"\xf1\x80mask", 1002),
    ("A-52", "a reserved kind", b"\x83\x80mask", 1002),
    ("A-52", "a control frame in fragments", WebSocket.frame(PING, b"", fin=False), 1002),
    ("A-52", "a long ping", WebSocket.frame(PING, b"x" * 126), 1002),
    ("A-52", "a fragment of nothing", WebSocket.frame(0, b"x"), 1002),
    ("A-52", "a message within a message", WebSocket.frame(TEXT, b"{", fin=False) + WebSocket.frame(TEXT, b"}"), 1002),
    ("A-52", "a million fragments", WebSocket.frame(TEXT, b"", fin=False) + WebSocket.frame(0, b"", fin=False) * 100_000, 1009),
    ("A-52", "no text", WebSocket.frame(TEXT, b"\xff\xfe"), 1007),
    ("A-52", "a close of one byte", WebSocket.frame(CLOSE, b"\x03"), 1002),
]

# What a service inside answers with, and what of it comes out of a preview.
HEADERS = [
    ("A-54", "a cookie of the parent", ("Set-Cookie", "a=1; Domain=localhost; Path=/x; HttpOnly"), "a=1; Path=/x; HttpOnly"),
    ("A-54", "in capitals", ("Set-Cookie", "a=1;DOMAIN=localhost;Secure"), "a=1;Secure"),
    ("A-54", "with blanks", ("Set-Cookie", "a=1;  domain = .localhost ; Secure"), "a=1; Secure"),
    ("A-54", "behind a tab", ("Set-Cookie", "a=1;\tDomain=localhost"), "a=1"),
    ("A-54", "before a tab", ("Set-Cookie", "a=1; Domain\t=localhost"), "a=1"),
    ("A-54", "Domain twice", ("Set-Cookie", "a=1; Domain=x; Domain=localhost"), "a=1"),
    ("A-54", "Domain alone", ("Set-Cookie", "a=1; Domain"), "a=1"),
    ("A-54", "a value like it", ("Set-Cookie", "a=Domain=x; Path=/"), "a=Domain=x; Path=/"),
    ("A-54", "our own cookie", ("Set-Cookie", "cay-preview=evil"), None),
    ("A-54", "our own cookie, spaced", ("Set-Cookie", "cay-preview =evil"), None),
    ("A-54", "our own cookie, without a name", ("Set-Cookie", "=cay-preview=evil"), None),
    ("A-54", "a worker for all", ("Service-Worker-Allowed", "/"), None),
    ("A-54", "HSTS", ("Strict-Transport-Security", "max-age=1; includeSubDomains"), None),
    ("A-54", "Clear-Site-Data", ("Clear-Site-Data", '"*"'), None),
    ("A-54", "another place", ("Alt-Svc", 'h3=":443"'), None),
    ("A-54", "what is its own", ("X-Kept", "yes"), "yes"),
]

# A signed link's time and sum, and what is made of them; all are 403, and no cookie.
LINKS = [
    ("A-56", "later", lambda at, sum_: f"{int(at) + 1}.{sum_}"),
    ("A-56", "sooner", lambda at, sum_: f"{int(at) - 1}.{sum_}"),
    ("A-56", "another sum", lambda at, sum_: f"{at}.{'0' * 64}"),
    ("A-56", "a sum that is short by one", lambda at, sum_: f"{at}.{sum_[:-1]}"),
    ("A-56", "one digit more", lambda at, sum_: f"{at}.{sum_}0"),
    ("A-56", "in capitals", lambda at, sum_: f"{at}.{sum_.upper()}"),
    ("A-56", "no sum", lambda at, sum_: f"{at}."),
    ("A-56", "no time", lambda at, sum_: sum_),
    ("A-56", "an empty time", lambda at, sum_: f".{sum_}"),
    ("A-56", "no end", lambda at, sum_: f"0.{sum_}"),
    ("A-56", "2^64", lambda at, sum_: f"18446744073709551616.{sum_}"),
    ("A-56", "with a sign", lambda at, sum_: f"%2B{at}.{sum_}"),
    ("A-56", "with a nought", lambda at, sum_: f"0{at}.{sum_}"),
    ("A-56", "nothing", lambda at, sum_: ""),
    ("A-56", "twice", lambda at, sum_: f"{at}.{sum_}.{sum_}"),
    ("A-56", "with a NUL", lambda at, sum_: f"{at}.{sum_}%00"),
]
