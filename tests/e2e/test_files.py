# SPDX-License-Identifier: Apache-2.0
"""Files in a sandbox: read and written whole or not at all, listed, moved, removed."""
import base64
import hashlib
import json
import os

import pytest

from harness import proc
from harness.wait import until

OCTETS = {"Content-Type": "application/octet-stream"}


class Files:
    """What the routes are called."""

    def __init__(self, client, ident="box"):
        self.client = client
        self.base = f"/sandbox/{ident}/files"

    def put(self, path, data=b"", headers=None, **query):
        return self.client.request("PUT", self.base, data, {"path": path, **query}, {**OCTETS, **(headers or {})})

    def get(self, path, headers=None, **query):
        return self.client.request("GET", self.base, None, {"path": path, **query}, headers)

    def ask(self, method, what, **query):
        return self.client.request(method, self.base + what, None, query)

    def begin(self, path, sent, length=None):
        """An upload that goes no further than this."""
        target = self.client.encode(self.base, {"path": path}, None, None)[0]
        framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
        sock = self.client.socket(20)
        sock.sendall(f"PUT {target} HTTP/1.1\r\nHost: {self.client.host}:{self.client.port}\r\n{framing}\r\n\r\n".encode()
                     + sent)
        return sock

    def stat(self, path, **query):
        return self.ask("GET", "/stat", path=path, **query)

    def list(self, path=".", **query):
        return self.ask("GET", "/list", path=path, **query)

    def remove(self, path, **query):
        return self.ask("DELETE", "", path=path, **query)

    def post(self, verb, **body):
        return self.client.post(f"{self.base}/{verb}", body)


@pytest.fixture
def files(client, box):
    return Files(client)


def code(answer, status, name):
    assert answer.status == status, answer
    assert answer.error["code"] == name, answer
    return answer.error["details"]


# ---- one file ----

def test_write_and_read(files, client):
    answer = files.put("a/b/c.txt", b"hello", hash="sha256")
    assert answer.status == 201, answer
    told = answer.json()
    assert told["path"] == "a/b/c.txt" and told["size"] == 5 and told["created"] is True
    assert told["sha256"] == hashlib.sha256(b"hello").hexdigest()
    assert (told["mode"], told["uid"], told["type"]) == ("0644", 1000, "file")
    got = files.get("/workspace/a/b/c.txt", hash="sha256")
    assert got.status == 200 and got.body == b"hello"
    assert got.headers["ETag"] == told["etag"] and got.headers["Content-Length"] == "5"
    assert got.headers["X-Content-SHA256"] == told["sha256"]
    assert got.headers["Content-Type"] == "application/octet-stream"
    assert client.sh("box", "stat -c '%U %a' a/b a/b/c.txt") == "user 755\nuser 644\n"
    again = files.put("a/b/c.txt", b"more than before")
    assert again.status == 200 and again.json()["created"] is False
    assert again.json()["etag"] != told["etag"]
    assert client.sh("box", "cat a/b/c.txt; ls -A a/b") == "more than beforec.txt\n"


def test_empty_and_binary(files, client):
    every = bytes(range(256)) * 5000
    assert files.put("empty").json()["size"] == 0
    assert files.get("empty").body == b""
    assert files.put("bin", every).json()["size"] == len(every)
    assert files.get("bin").body == every
    assert client.sh("box", "sha256sum bin").split()[0] == hashlib.sha256(every).hexdigest()


def test_chunked(files, client):
    """Without a length, too, half a body is never a file."""
    target = client.encode(files.base, {"path": "chunked"}, None, None)[0]
    body = b"PUT %s HTTP/1.1\r\nHOSTTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n" % target.encode()
    assert b" 201 " in client.raw(body + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert files.get("chunked").body == b"abcde"
    sock = files.begin("half", b"3\r\nabc\r\n")
    until(lambda: ".cay-" in client.sh("box", "ls -A"), "the upload has begun")
    sock.close()
    until(lambda: client.sh("box", "ls -A") == "chunked\n", "nothing is left of it")


@pytest.mark.parametrize("asked, want, said", [
    ("bytes=0-0", b"0", "bytes 0-0/10"),
    ("bytes=2-4", b"234", "bytes 2-4/10"),
    ("bytes=8-", b"89", "bytes 8-9/10"),
    ("bytes=8-99", b"89", "bytes 8-9/10"),
    ("bytes=-3", b"789", "bytes 7-9/10"),
    ("bytes=-99", b"0123456789", "bytes 0-9/10"),
])
def test_ranges(files, asked, want, said):
    files.put("f", b"0123456789")
    answer = files.get("f", {"Range": asked})
    assert (answer.status, answer.body, answer.headers["Content-Range"]) == (206, want, said)


def test_ranges_that_are_none(files):
    etag = files.put("f", b"0123456789").json()["etag"]
    for bad in ("bytes=10-", "bytes=-0", "bytes=99-100"):
        answer = files.get("f", {"Range": bad})
        code(answer, 416, "RANGE_NOT_SATISFIABLE")
        assert answer.headers["Content-Range"] == "bytes */10"
    for ignored in ("bytes=4-2", "bytes=a-b", "bytes=0-1,3-4", "lines=1-2", "bytes=", "bytes=-", "bytes=00-1"):
        answer = files.get("f", {"Range": ignored})
        assert (answer.status, answer.body) == (200, b"0123456789"), ignored
    assert files.get("f", {"Range": "bytes=1-2", "If-Range": etag}).status == 206
    assert files.get("f", {"Range": "bytes=1-2", "If-Range": '"other"'}).status == 200
    assert files.get("f", {"If-None-Match": etag}).status == 304
    assert files.get("f", {"If-None-Match": '"other"'}).status == 200


def test_head(files, client):
    files.put("f", b"0123456789")
    answer = client.request("HEAD", files.base, None, {"path": "f"})
    assert (answer.status, answer.body, answer.headers["Content-Length"]) == (200, b"", "10")
    assert client.request("HEAD", files.base, None, {"path": "no"}).status == 404
    assert files.get("f").status == 200  # the connection is as it was


def test_preconditions(files, client):
    etag = files.put("f", b"one").json()["etag"]
    code(files.put("f", b"two", {"If-Match": '"other"'}), 412, "CHANGED")
    code(files.put("no", b"two", {"If-Match": "*"}), 412, "CHANGED")
    code(files.put("f", b"two", {"If-None-Match": "*"}), 409, "EXISTS")
    assert client.sh("box", "cat f; ls -A") == "onef\n"
    assert files.put("f", b"two", {"If-Match": etag}).status == 200
    code(files.put("f", b"three", {"If-Match": etag}), 412, "CHANGED")
    assert files.get("f").body == b"two"


def test_append(files, client):
    assert files.put("log", b"one\n", append="true").status == 201
    assert files.put("log", b"two\n", append="true").json()["size"] == 8
    assert client.sh("box", "cat log") == "one\ntwo\n"


def test_modes_and_owners(files, client):
    assert files.put("x.sh", b"#!/bin/sh\necho ran\n", mode="0755").json()["mode"] == "0755"
    assert client.sh("box", "./x.sh") == "ran\n"
    files.put("x.sh", b"#!/bin/sh\necho again\n")
    assert client.sh("box", "./x.sh") == "again\n"  # the mode is kept
    assert files.put("/etc/made-by-root", b"x", user="root", mode="600").json()["uid"] == 0
    code(files.put("/etc/mine", b"x"), 403, "PERMISSION_DENIED")
    code(files.get("/etc/made-by-root"), 403, "PERMISSION_DENIED")
    assert files.get("/etc/made-by-root", user="root").body == b"x"
    # root gives a file back to whose it was
    files.put("f", b"user's")
    assert files.put("f", b"root's", user="root").json()["uid"] == 1000
    # what the user may not overwrite is not replaced either, though the directory is his
    client.sh("box", "echo kept > /workspace/r; chmod 644 /workspace/r", user="root")
    code(files.put("r", b"x"), 403, "PERMISSION_DENIED")
    assert client.sh("box", "cat r") == "kept\n"
    for bad in ("abc", "99", "10000", "-1", ""):
        assert code(files.put("m", b"", mode=bad), 400, "VALIDATION_ERROR")["field"] == "mode"
    assert code(files.put("m", b"", user="no-such-user"), 400, "VALIDATION_ERROR")["field"] == "user"
    assert code(files.put("m", b"", user="65535"), 400, "VALIDATION_ERROR")["field"] == "user"


def test_links(files, client):
    client.sh("box", "mkdir d; echo old > d/target; ln -s d/target link; ln -s /etc/passwd abs; "
                     "ln -s nowhere dangling; ln -s loop loop")
    assert files.put("link", b"new").status == 200
    assert client.sh("box", "cat d/target; readlink link") == "newd/target\n"
    assert files.put("dangling", b"made").status == 201
    assert client.sh("box", "cat nowhere; readlink dangling") == "madenowhere\n"
    code(files.put("abs", b"x"), 403, "PERMISSION_DENIED")
    code(files.put("loop", b"x"), 400, "LOOP")
    told = files.stat("link").json()
    assert (told["type"], told["linkTarget"], told["target"]["size"]) == ("symlink", "d/target", 3)
    assert "target" not in files.stat("loop").json()
    assert files.remove("link").status == 200
    assert client.sh("box", "cat d/target") == "new"


@pytest.mark.parametrize("path", ["/proc/1/root/etc/hostname", "/proc/1/root", "/proc/1/environ", "/proc/1/mem",
                                  "/proc/self/root/../../../../etc/shadow", "/sys/firmware", "/dev/null", "/dev/zero"])
def test_special_paths(files, path):
    """Nothing of the host, nothing of pid 1, and nothing that never ends."""
    for user in ("user", "root"):
        answer = files.get(path, user=user)
        assert answer.status in (200, 400, 403, 404), answer
        if answer.status == 200:
            assert b"root:" in answer.body or len(answer.body) < 65536  # the sandbox's own


def test_proc_files_have_content(files):
    answer = files.get("/proc/meminfo")
    assert answer.status == 200 and b"MemTotal" in answer.body
    assert int(answer.headers["Content-Length"]) == len(answer.body)


# ---- what is refused ----

@pytest.mark.parametrize("path, name", [
    ("", "INVALID_PATH"), ("../x", "INVALID_PATH"), ("a/../../x", "INVALID_PATH"), ("../../etc/passwd", "INVALID_PATH"),
    ("x" * 256, "INVALID_PATH"), ("a/" * 2100, "INVALID_PATH"), ("/" + "n" * 5000, "INVALID_PATH"),
])
def test_bad_paths(files, client, path, name):
    answers = [files.get(path), files.put(path, b"x"), files.stat(path), files.list(path), files.remove(path),
               files.post("mkdir", path=path), files.post("move", path=path, to="y")]
    for answer in answers:
        assert code(answer, 400, name)["field"] == "path"
    assert code(files.post("move", path="y", to=path), 400, name)["field"] == "to"
    assert client.sh("box", "ls -A") == ""


def test_missing_and_wrong(files, client):
    client.sh("box", "mkdir d; echo x > f; mkfifo p")
    for answer in (files.get("no"), files.stat("no"), files.list("no"), files.remove("no"),
                   files.post("move", path="no", to="deep/x")):
        assert code(answer, 404, "NOT_FOUND")["field"] == "path"
    code(files.get("d"), 400, "IS_A_DIRECTORY")
    code(files.put("d", b"x"), 400, "IS_A_DIRECTORY")
    code(files.put("new/", b"x"), 400, "IS_A_DIRECTORY")
    code(files.get("p"), 400, "NOT_A_FILE")
    code(files.put("p", b"x"), 400, "NOT_A_FILE")
    code(files.get("f/x"), 400, "NOT_A_DIRECTORY")
    code(files.list("f"), 400, "NOT_A_DIRECTORY")
    code(files.put("f/x", b"x"), 400, "NOT_A_DIRECTORY")
    code(files.get("f", hash="md5"), 400, "VALIDATION_ERROR")
    code(client.request("GET", files.base), 400, "VALIDATION_ERROR")
    raw = client.raw(b"GET /api/v1%s?path=a%%00b HTTP/1.1\r\nHOSTConnection: close\r\n\r\n" % files.base.encode())
    assert b" 400 " in raw.splitlines()[0]
    code(files.put("e", b"x", {"Content-Encoding": "gzip"}), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert client.sh("box", "ls -A") == "d\nf\np\n"


def test_no_sandbox(client, box):
    code(Files(client, "nobody").get("f"), 404, "NOT_FOUND")
    client.post("/sandbox/box/pause")
    code(Files(client).get("f"), 409, "SANDBOX_PAUSED")
    code(Files(client).put("f", b"x"), 409, "SANDBOX_PAUSED")
    client.post("/sandbox/box/resume")
    client.post("/sandbox/box/stop", {"graceMs": 0})
    code(Files(client).get("f"), 409, "SANDBOX_NOT_RUNNING")
    client.post("/sandbox/box/start")
    assert Files(client).list().status == 200


# ---- directories ----

def test_mkdir(files, client):
    assert files.post("mkdir", path="a/b", mode="0700").status == 201
    assert client.sh("box", "stat -c %a a a/b") == "755\n700\n"
    again = files.post("mkdir", path="a/b")
    assert again.status == 200 and again.json()["created"] is False
    code(files.post("mkdir", path="a/b", parents=False), 409, "EXISTS")
    code(files.post("mkdir", path="x/y", parents=False), 404, "NOT_FOUND")
    files.put("f", b"x")
    code(files.post("mkdir", path="f"), 409, "EXISTS")
    code(files.post("mkdir", path="f/x"), 400, "NOT_A_DIRECTORY")
    assert code(files.post("mkdir"), 400, "VALIDATION_ERROR")["field"] == "path"


def test_move(files, client):
    files.put("a", b"one")
    files.put("b", b"two")
    assert files.post("move", path="a", to="new/place").json()["to"] == "new/place"
    assert code(files.post("move", path="new/place", to="b", overwrite=False), 409, "EXISTS")["field"] == "to"
    assert files.post("move", path="new/place", to="b").status == 200
    assert client.sh("box", "cat b; ls -A . new") == "one.:\nb\nnew\n\nnew:\n"
    client.sh("box", "mkdir d; echo x > d/x")
    assert files.post("move", path="d", to="e").status == 200
    code(files.post("move", path="e", to="e/inside"), 400, "INVALID_PATH")
    # /dev/shm is another file system, wherever /workspace is
    assert files.post("move", path="b", to="/dev/shm/b").status == 200
    assert client.sh("box", "cat /dev/shm/b; ls") == "onee\nnew\n"
    client.sh("box", "ln -s e link")
    assert files.post("move", path="link", to="/dev/shm/link").status == 200
    assert client.sh("box", "readlink /dev/shm/link; ls") == "e\ne\nnew\n"
    code(files.post("move", path="e", to="/dev/shm/e"), 409, "CROSS_DEVICE")
    assert client.sh("box", "ls /dev/shm; cat e/x") == "b\nlink\nx\n"


def test_remove(files, client):
    client.sh("box", "mkdir -p d/e; echo x > d/e/f; echo keep > keep; ln -s ../keep d/link; ln -s /workspace/keep d/abs")
    code(files.remove("d"), 409, "NOT_EMPTY")
    assert files.remove("d", recursive="true").json() == {"path": "d", "removed": True}
    code(files.remove("d", recursive="true"), 404, "NOT_FOUND")
    assert client.sh("box", "ls -A; cat keep") == "keep\nkeep\n"
    for path in ("/", ".", "/proc"):
        assert files.remove(path, recursive="true", user="root").status in (400, 403, 409), path
    assert client.sh("box", "echo alive") == "alive\n"


def test_remove_what_is_deep(files, client):
    client.sh("box", "mkdir t; chain=$(printf 'd/%.0s' $(seq 100)); "
                     "for i in $(seq 15); do mkdir -p n/$chain; mv t n/$chain; mv n t; done")
    code(files.remove("t"), 409, "NOT_EMPTY")
    assert files.remove("t", recursive="true").status == 200
    assert client.sh("box", "ls -A") == ""


def test_list(files, client):
    client.sh("box", "mkdir -p b/c; echo x > b/c/f; touch a.txt B; ln -s a.txt link")
    entries = files.list().json()["entries"]
    assert [e["name"] for e in entries] == ["B", "a.txt", "b", "link"]  # by bytes
    assert [e["type"] for e in entries] == ["file", "file", "directory", "symlink"]
    assert entries[3]["linkTarget"] == "a.txt"
    deep = files.list("/workspace", recursive="true").json()
    assert [e["path"] for e in deep["entries"]] == [f"/workspace/{p}" for p in ("B", "a.txt", "b", "b/c", "b/c/f", "link")]
    assert deep["hasNext"] is False and deep["nextCursor"] is None
    assert len(files.list(depth=2).json()["entries"]) == 5
    for bad in ({"depth": 0}, {"depth": 65}, {"limit": 0}, {"limit": 1001}, {"cursor": "zz"}, {"cursor": "00"}):
        code(files.list(**bad), 400, "VALIDATION_ERROR")


def test_list_of_many(files, client):
    client.sh("box", "mkdir many; cd many; seq -f 'file-%.0f' 1 10000 | xargs touch")
    names, cursor, pages = [], None, 0
    while True:
        page = files.list("many", **({"cursor": cursor} if cursor else {})).json()
        names += [e["name"] for e in page["entries"]]
        pages += 1
        cursor = page["nextCursor"]
        if not page["hasNext"]:
            break
    assert pages == 10 and names == sorted(f"file-{i}" for i in range(1, 10001))


def test_any_name(files, client):
    """Bytes that are no text go in and come back in base64."""
    for name in (b"new\nline", b"tab\t \"quote' $(id)", "schön-日本".encode(), b"bad\xff\xfe\x80", b"-rf", b"a;b&c=d+e%f"):
        path = {"pathBase64": base64.b64encode(name).decode()}
        assert client.request("PUT", files.base, name, path, OCTETS).status == 201, name
        assert client.sh("box", "cat -- *").encode() == name.decode(errors="replace").encode()
        assert client.request("GET", files.base, None, path).body == name
        entry = files.list().json()["entries"][0]
        exact = base64.b64decode(entry["nameBase64"]) if "nameBase64" in entry else entry["name"].encode()
        assert exact == name
        to = {"toBase64": base64.b64encode(name + b"2").decode()}
        assert files.post("move", **path, **to).status == 200
        assert files.post("move", pathBase64=to["toBase64"], to="plain").status == 200
        assert files.remove("plain").status == 200
    code(files.ask("GET", "", pathBase64="?"), 400, "VALIDATION_ERROR")


# ---- forms ----

def form(*parts, boundary="XyZ"):
    body = b""
    for name, filename, data in parts:
        extra = f'; filename="{filename}"' if filename else ""
        body += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"{extra}\r\n\r\n'.encode() + data + b"\r\n"
    return body + f"--{boundary}--\r\n".encode(), {"Content-Type": f"multipart/form-data; boundary={boundary}"}


def test_forms(files, client):
    body, headers = form(("path", None, b"d/one.txt"), ("file", "x", b"1\r\n--Xy"))
    answer = client.request("PUT", files.base, body, None, headers)
    assert answer.status == 201 and answer.json()["path"] == "d/one.txt" and answer.json()["size"] == 7, answer
    body, headers = form(("path", None, b"up/"), ("file", "a.txt", b"a" * 100000), ("mode", None, b"700"), ("file", "b.sh", b"b"))
    answer = client.request("POST", files.base, body, None, headers)
    assert [f["path"] for f in answer.json()["files"]] == ["up/a.txt", "up/b.sh"]
    body, headers = form(("file", "a", b"by query"))
    assert client.request("PUT", files.base, body, {"path": "q"}, headers).status == 201
    assert client.sh("box", "cat d/one.txt; cat q; stat -c '%a %s' up/*") == "1\r\n--Xyby query644 100000\n700 1\n"
    code(client.request("PUT", files.base, body, None, headers), 400, "BAD_FORM")
    code(client.request("PUT", files.base, body[:-9], {"path": "half"}, headers), 400, "INCOMPLETE")
    assert client.request("PUT", files.base, body, {"path": "x"}, {"Content-Type": "multipart/form-data"}).status == 400
    code(files.get("half"), 404, "NOT_FOUND")


# ---- large ones, and those that are cut ----

class Zeros:
    """A body that is never in memory."""

    def __init__(self, size):
        self.left = size
        self.piece = b"\0" * (1 << 20)

    def read(self, size=-1):
        piece = self.piece[:min(self.left, len(self.piece))]
        self.left -= len(piece)
        return piece


@pytest.mark.limit(240)
def test_large(server, client, box):
    size = 1 << 30
    before = proc.rss_kib(server.pid("server"))
    peak = []
    conn = client.connect()
    target = client.encode("/sandbox/box/files", {"path": "big"}, None, None)[0]
    conn.request("PUT", target, Zeros(size), {"Content-Length": str(size), **OCTETS})
    answer = conn.getresponse()
    assert answer.status == 201 and json.loads(answer.read())["size"] == size
    peak.append(proc.rss_kib(server.pid("server")))
    assert client.sh("box", "stat -c %s big") == f"{size}\n"
    conn.request("GET", target)
    answer = conn.getresponse()
    assert answer.status == 200 and answer.headers["Content-Length"] == str(size)
    got = 0
    while piece := answer.read(1 << 20):
        got += len(piece)
        if got % (256 << 20) == 0:
            peak.append(proc.rss_kib(server.pid("server")))
    conn.close()
    assert got == size
    assert max(peak) - before < 8 * 1024, (before, peak)


def test_client_vanishes(files, client):
    """Whoever goes away in the middle leaves the old content, or nothing; no file of ours stays."""
    files.put("old", b"old")
    for path in ("old", "new/deep/file"):
        sock = files.begin(path, b"x" * 70000, 1000000)
        until(lambda: ".cay-" in client.sh("box", "find . -name '.cay-*'"), "the upload has begun")
        sock.close()
        until(lambda: client.sh("box", "find . -type f; find . -type d") == "./old\n.\n", "nothing is left of it")
    assert files.get("old").body == b"old"


def test_reader_vanishes(files, client, server):
    client.sh("box", "dd if=/dev/zero of=big bs=1M count=64 2>&1")
    sock = client.socket()
    target = client.encode(files.base, {"path": "big"}, None, None)[0]
    sock.sendall(f"GET {target} HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n\r\n".encode())
    assert sock.recv(100).startswith(b"HTTP/1.1 200")
    until(lambda: workers(server), "cay-file sends")
    sock.close()
    until(lambda: not workers(server), "cay-file has ended")


def workers(server):
    return [p for p in server.sandbox_processes() if proc.text(p, "comm").strip() == "cay-file"]


def test_killed_in_the_middle(files, client, server):
    """Whoever dies, cay-file or the server: the old content stays."""
    files.put("f", b"old")
    until(lambda: not workers(server), "that one has ended")
    sock = files.begin("f", b"x" * 1000, 100000)
    until(lambda: len(workers(server)) == 1, "the upload has begun")
    os.kill(workers(server)[0], 9)
    answer = b""
    while piece := sock.recv(4096):
        answer += piece
    assert b" 502 " in answer.splitlines()[0] and b"FILE_OPERATION_LOST" in answer
    sock.close()
    client.sh("box", "rm .cay-*")
    sock = files.begin("f", b"x" * 1000, 100000)
    until(lambda: len(workers(server)) == 1, "the upload has begun")
    server.kill("server")
    server.recover()
    client.close()
    until(lambda: not workers(server), "cay-file has ended")
    sock.close()
    assert client.sh("box", "cat f; ls -A") == "oldf\n"


def test_stop_in_the_middle(files, client, server):
    client.create("slow", persistent=True)
    sock = Files(client, "slow").begin("f", b"x" * 1000, 100000)
    until(lambda: len(workers(server)) == 1, "the upload has begun")
    assert client.post("/sandbox/slow/stop", {"graceMs": 5000}).status == 200
    assert b" 502 " in sock.recv(4096).splitlines()[0]
    sock.close()
    client.post("/sandbox/slow/start")
    assert client.sh("slow", "ls -A") == ""


def push(files, path, data):
    """An upload whose answer may come before its end."""
    sock = files.begin(path, b"", len(data))
    try:
        sock.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        pass
    answer = sock.recv(4096)
    sock.close()
    return answer


@pytest.mark.quota
def test_disk_full(client):
    client.create("small", diskSizeGB=0.1)
    files = Files(client, "small")
    files.put("f", b"old")
    sock = files.begin("f", b"", 200 * 1000 * 1000)
    assert b" 413 " in sock.recv(4096).splitlines()[0]
    sock.close()
    client.sh("small", "head -c 70000000 /dev/urandom > fill; sync fill")
    answer = push(files, "f", os.urandom(60 * 1000 * 1000))
    assert b" 507 " in answer.splitlines()[0] and b"NO_SPACE" in answer
    assert client.sh("small", "rm fill; cat f; ls -A") == "oldf\n"
    assert files.put("f", b"new").status == 200


def test_many_at_once(files, client, server):
    """So many in one sandbox, and one more is told to come later."""
    socks = []
    for i in range(32):
        socks.append(files.begin(f"f{i}", b"x", 2))
    until(lambda: len(workers(server)) == 32, "all have begun")
    code(files.get("f"), 429, "TOO_MANY_FILE_OPERATIONS")
    for sock in socks:
        sock.sendall(b"y")
        assert sock.recv(4096).startswith(b"HTTP/1.1 201")
        sock.close()
    assert client.sh("box", "cat f*") == "xy" * 32


# ---- hostile sandboxes ----

SWAP = """
mkdir -p real/d; echo inside > real/d/f
while :; do rm -rf t; ln -s /etc t; rm -f t; ln -s ../../../../../../etc t; rm -f t; mkdir -p t; mv -T t u 2>/dev/null
ln -s /workspace/real/d t; rm -f t; mv -T u t 2>/dev/null; done
"""


@pytest.mark.limit(180)
def test_swapped_links(files, client, server, tmp_path):
    """A process exchanges directories and links under every operation: all stays inside."""
    marker = os.urandom(8).hex()
    outside = sorted(os.listdir("/etc"))
    client.detach("box", SWAP)
    rounds = int(os.environ.get("CAY_SWAPS", "400"))
    for i in range(rounds):
        answer = files.put(f"t/{marker}", f"{marker} {i}".encode(), user="root" if i % 2 else "user")
        assert answer.status in (200, 201, 400, 403, 404, 409), answer
        answer = files.get("t/hostname" if i % 3 else "t/passwd", user="root")
        assert answer.status in (200, 400, 404), answer
        host = open("/etc/hostname" if i % 3 else "/etc/passwd", "rb").read()
        assert answer.body != host
        if i % 10 == 0:
            assert files.remove("t", recursive="true").status in (200, 400, 403, 404, 409)
    assert sorted(os.listdir("/etc")) == outside
    assert not os.path.exists(f"/etc/{marker}")


def test_killed_by_the_tenant(files, client):
    """Who stops or kills cay-file, harms nobody but himself."""
    client.sh("box", "head -c 50000000 /dev/zero > big")
    client.detach("box", "while :; do pkill -KILL cay-file; done")
    for _ in range(20):
        answer = files.get("big", hash="sha256")
        assert answer.status in (200, 502), answer.status
        if answer.status == 502:
            code(answer, 502, "FILE_OPERATION_LOST")
            break
