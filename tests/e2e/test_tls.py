# SPDX-License-Identifier: Apache-2.0
"""The server under TLS, and the command line as its client."""
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness import proc
from harness.certificates import Authority
from harness.numbered import lines, script
from harness.server import CAY, NotReady, Server
from harness.wait import stretch, until
from harness.web import PORT, Web, serve
from harness.websocket import BINARY, WebSocket
from test_preview import upload
from test_shell import Term

FIFTY_MB = 50 * 1000 * 1000


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def pair(authority):
    return authority.sign("server")


@pytest.fixture(scope="module")
def shared_server(authority, pair):
    with Server("--tls-cert", pair[0], "--tls-key", pair[1], ca=authority.file) as server:
        yield server


@pytest.fixture
def cay(server, authority):
    def run(*args, stdin=None, env=None, status=0):
        done = subprocess.run([CAY, *args], capture_output=True, timeout=stretch(60), input=stdin,
                              env={**os.environ, "CAY_URL": server.url, "CAY_CA": authority.file, **(env or {})})
        assert done.returncode == status, done
        return done

    return run


def curl(url, *args):
    return subprocess.run(["curl", "-sS", "-m", "20", *args, url], capture_output=True, text=True)


def connect(server, authority, **options):
    context = ssl.create_default_context(cafile=authority.file)
    for name, value in options.items():
        setattr(context, name, value)
    plain = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 20)
    return context.wrap_socket(plain, server_hostname="localhost")


def shown(server, authority):
    """The name in the certificate that whoever comes now is shown."""
    with connect(server, authority) as s:
        return dict(part[0] for part in s.getpeercert()["subject"])["commonName"]


def test_curl(server, authority):
    assert server.url.startswith("https://127.0.0.1:")
    done = curl(server.url + "/api/v1/health", "--cacert", authority.file, "-v", "-w", "\n%{http_version}")
    assert done.returncode == 0, done
    assert json.loads(done.stdout.splitlines()[0])["status"] == "healthy" and done.stdout.endswith("1.1")
    assert "ALPN: server accepted http/1.1" in done.stderr or "ALPN, server accepted to use http/1.1" in done.stderr


def failed_handshakes(client):
    conn = client.connect()
    conn.request("GET", "/metrics")
    text = conn.getresponse().read().decode()
    conn.close()
    return int(re.search(r"^cay_tls_handshakes_failed_total (\d+)$", text, re.M)[1])


def test_who_does_not_know_the_authority_refuses(server, client):
    before = failed_handshakes(client)
    done = curl(server.url + "/api/v1/health")
    assert done.returncode == 60 and done.stdout == "", done
    until(lambda: failed_handshakes(client) > before, "the operator can see that")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1:DeprecationWarning")
@pytest.mark.parametrize("version, works", [
    (ssl.TLSVersion.TLSv1_3, True), (ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_1, False)])
def test_versions(server, authority, version, works):
    context = ssl.create_default_context(cafile=authority.file)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 20) as plain:
        if not works:
            with pytest.raises(OSError):
                context.wrap_socket(plain, server_hostname="localhost")
            return
        with context.wrap_socket(plain, server_hostname="localhost") as s:
            name, _, bits = s.cipher()
            assert bits >= 128 and ("GCM" in name or "CHACHA20" in name)


def test_old_ciphers_are_refused(server, authority):
    context = ssl.create_default_context(cafile=authority.file)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("AES128-SHA:AES256-SHA256:ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 20) as plain:
        with pytest.raises(OSError):
            context.wrap_socket(plain, server_hostname="localhost")


def test_streams(client, box):
    with client.events("POST", "/sandbox/box/exec", {"command": script(2000)}) as stream:
        out = b"".join(e.bytes() for e in stream.events() if e.name == "stdout")
    assert out == lines(2000)
    assert client.exec("box", "echo waited for; exit 3")["exitCode"] == 3


def test_files_of_fifty_megabytes(client, box):
    data = os.urandom(FIFTY_MB)
    want = hashlib.sha256(data).hexdigest()
    answer = client.request("PUT", "/sandbox/box/files", data, {"path": "big", "hash": "sha256"},
                            {"Content-Type": "application/octet-stream"})
    assert answer.status in (200, 201) and answer.json()["sha256"] == want, answer
    assert client.sh("box", "sha256sum big").split()[0] == want
    with client.stream("GET", "/sandbox/box/files", query={"path": "big"}) as got:
        assert got.status == 200
        digest, size = hashlib.sha256(), 0
        while piece := got.response.read(1 << 16):
            digest.update(piece)
            size += len(piece)
    assert (size, digest.hexdigest()) == (FIFTY_MB, want)


def test_a_reader_that_rests_gets_all(client, box):
    """The server's own queue holds what the socket does not take, and says it once."""
    client.sh("box", "seq 1 1000000 > n")
    with client.stream("GET", "/sandbox/box/files", query={"path": "n"}) as got:
        first = got.response.read(1000)
        for _ in range(300):  # others go on meanwhile
            assert client.get("/health").status == 200
        rest = got.response.read()
    assert first + rest == "".join(f"{i}\n" for i in range(1, 1000001)).encode()


def test_a_terminal(client, box):
    with WebSocket(client, "/sandbox/box/terminal?cols=80&rows=24&command=sh") as t:
        t.hears("start")
        t.type("echo $((6*7))\n")
        t.sees("42\r\n")
        t.type("seq 1 20000; exit 5\n")
        t.sees("20000\r\n")
        assert t.hears("exit")["exitCode"] == 5
        assert t.end() == 1000


def test_previews(client, box):
    url = client.post("/sandbox/box/ports", {"port": PORT}).json()["url"]
    assert url == f"https://{PORT}-{box['id']}.localhost:{client.port}/"
    serve(client, "box")
    web = Web(client, box)
    assert web.get().body == b"hello\n"
    told = web.get("/echo", {"Origin": f"https://{web.host}"}).json()["headers"]
    assert told["x-forwarded-proto"] == "https" and told["origin"] == f"http://localhost:{PORT}"
    assert web.request("POST", "/echo", b"x", {"Origin": f"https://{web.host}"}).json()["size"] == 1
    assert web.request("POST", "/echo", b"x", {"Origin": "http://evil.example"}).status == 403
    upload(web, 20 << 20)
    assert len(web.get("/big?size=20000000", fresh=True).body) == 20_000_000
    with web.websocket({"Origin": f"https://{web.host}"}) as ws:
        ws.type(b"x" * 50000)
        assert ws.next() == (BINARY, b"x" * 50000)
    link = client.post(f"/sandbox/box/ports/{PORT}/link", {}).json()["url"]
    opened = web.get("/?" + link.partition("?")[2], fresh=True)
    cookie = opened.headers["set-cookie"]
    assert opened.status == 302 and cookie.startswith("__Host-cay-preview=") and "; Secure" in cookie
    with WebSocket(client, f"/sandbox/box/ports/{PORT}/tunnel") as ws:
        ws.type(b"GET / HTTP/1.0\r\n\r\n")
        ws.sees(b"hello")


def test_two_hundred_at_once(server, authority):
    """All are greeted and kept; then each asks twice on its own connection."""
    port = int(server.url.rpartition(":")[2])
    context = ssl.create_default_context(cafile=authority.file)
    conns = [http.client.HTTPSConnection("127.0.0.1", port, timeout=stretch(30), context=context) for _ in range(200)]
    threads = [threading.Thread(target=c.connect) for c in conns]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    socks = [c.sock for c in conns]
    assert all(socks)
    for _ in range(2):
        for c in conns:
            c.request("GET", "/api/v1/health")
        for c in conns:
            answer = c.getresponse()
            assert answer.status == 200 and answer.read()
    assert [c.sock for c in conns] == socks, "the connections were kept"
    for c in conns:
        c.close()


def test_pipelined(server, authority):
    ask = f"GET /api/v1/health HTTP/1.1\r\nHost: {server.url[8:]}\r\n\r\n".encode()
    with connect(server, authority) as s:
        s.sendall(ask * 50)
        got = b""
        while got.count(b"HTTP/1.1 200") < 50:
            got += s.recv(65536)


def test_plain_http_is_told(server):
    done = curl(server.url.replace("https:", "http:") + "/api/v1/health", "-i")
    assert done.returncode == 0 and done.stdout.startswith("HTTP/1.1 400"), done
    error = json.loads(done.stdout.partition("\n\n")[2])["error"]
    assert error["code"] == "TLS_REQUIRED" and "https://" in error["message"]


def test_noise_gets_nothing_of_ours(server):
    """A record that is none, after a beginning that was: an alert at most, and no word of OpenSSL's."""
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), 20) as s:
        s.sendall(b"\x16\x03\x01\x00\x05" + b"\xff" * 5)
        s.shutdown(socket.SHUT_WR)
        got = b""
        try:
            while piece := s.recv(4096):
                got += piece
        except ConnectionResetError:
            pass
    assert len(got) <= 7 and (not got or got[0] == 0x15), got


@pytest.mark.limit(60)
def test_half_a_handshake_is_cut(server, client):
    """Silence, and a record that never ends: both at the head's ten seconds, while others are served."""
    port = int(server.url.rpartition(":")[2])
    began = time.monotonic()
    silent = socket.create_connection(("127.0.0.1", port), stretch(30))
    slow = socket.create_connection(("127.0.0.1", port), stretch(30))
    slow.sendall(b"\x16\x03\x01\x02\x00\x01")
    slow.settimeout(1)
    cut = None
    while cut is None:
        assert time.monotonic() - began < stretch(25)
        assert client.get("/health").status == 200
        try:
            slow.sendall(b"\x00")
            if slow.recv(1) == b"":
                cut = time.monotonic() - began
        except TimeoutError:
            pass
        except ConnectionError:
            cut = time.monotonic() - began
    assert cut >= 8
    assert silent.recv(1) == b""
    silent.close()
    slow.close()


# ---- the command line ----


def test_cli(cay, client, tmp_path, box):
    assert b"box" in cay("ls").stdout
    assert cay("exec", "box", "--", "sh", "-c", "echo out; exit 4", status=4).stdout == b"out\n"
    assert cay("exec", "-i", "box", "--", "wc", "-c", stdin=b"x" * 3_000_000).stdout.strip() == b"3000000"
    data = os.urandom(5_000_000)
    (tmp_path / "f").write_bytes(data)
    cay("cp", str(tmp_path / "f"), "box:g")
    cay("cp", "box:g", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data
    cay("ls", "--ca", "/nowhere", status=1)
    assert cay("run", "--", "sh", "-c", script(50_000)).stdout == lines(50_000)


def test_cli_on_a_terminal(server, authority, box, monkeypatch):
    monkeypatch.setenv("CAY_CA", authority.file)
    term = Term(server.url, "exec", "-it", "box", "--", "env", "PS1=$ ", "sh")
    term.sees("$ ")
    term.type("seq 1 30000; echo do''ne\r")
    assert term.sees("done\r\n").endswith(b"29999\r\n30000\r\n")
    term.type("exit 6\r")
    assert term.end() == 6


def test_cli_trusts_no_stranger(cay, server, authority, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    told = cay("ls", env={"CAY_CA": Authority(other).file}, status=1).stderr.decode()
    assert "is not trusted" in told and "CAY_CA" in told
    told = cay("ls", env={"CAY_CA": ""}, status=1).stderr.decode()  # the system's
    assert "is not trusted" in told
    told = cay("ls", env={"CAY_URL": server.url.replace("https", "http")}, status=1).stderr.decode()
    assert "TLS_REQUIRED" in told and "https://" in told


# ---- certificates come and go ----


def test_a_new_certificate(fresh, authority):
    pair = authority.sign("first")
    server = fresh("--tls-cert", pair[0], "--tls-key", pair[1], ca=authority.file).start()
    client = server.client()
    client.create("box")
    assert shown(server, authority) == "first"
    with client.events("POST", "/sandbox/box/exec", {"command": script(400, 0.01)}) as stream:
        events = stream.events()
        out = b""
        while not out:
            event = next(events)
            out += event.bytes() if event.name == "stdout" else b""
        authority.sign("second", rsa=True, to=pair)
        server.kill("supervisor", signal.SIGHUP)
        until(lambda: shown(server, authority) == "second", "the new one is shown")
        assert client.get("/health").status == 200, "a kept connection goes on"
        out += b"".join(e.bytes() for e in events if e.name == "stdout")
    assert out == lines(400), "the stream has lost nothing"

    Path(pair[1]).write_text("no key at all\n")
    server.kill("supervisor", signal.SIGHUP)
    until(lambda: "the old one stays" in server.log(), "it is refused")
    assert "no key at all" not in server.log()
    assert shown(server, authority) == "second"

    # Whoever starts the server again has the last good one, though its file is broken.
    server.kill("server")
    server.recover()
    assert shown(server, authority) == "second"
    assert server.client().sh("box", "echo still here") == "still here\n"

    authority.sign("third", to=pair)
    server.kill("supervisor", signal.SIGHUP)
    until(lambda: shown(server, authority) == "third", "also of a server that was started again")


def test_the_key_is_roots_alone(server, pair):
    """The server got it from its supervisor, and could not read the file."""
    assert os.stat(pair[1]).st_mode & 0o077 == 0
    status = proc.text(server.pid("server"), "status")
    uid = [line for line in status.splitlines() if line.startswith("Uid:")][0].split()[1]
    assert uid != "0"
    for pid in [server.pid("engine"), *server.sandbox_processes()]:
        links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        assert not any("certificate" in link for link in links), pid


@pytest.mark.parametrize("change, said", [
    (lambda cert, key: ("--tls-cert", cert), "need each other"),
    (lambda cert, key: ("--tls-cert", cert, "--tls-key", "/nowhere"), "cannot read /nowhere"),
    (lambda cert, key: ("--tls-cert", key, "--tls-key", key), "there is no certificate"),
    (lambda cert, key: ("--tls-cert", cert, "--tls-key", cert), "there is no private key"),
], ids=["alone", "missing", "no-certificate", "no-key"])
def test_what_cannot_be_used_does_not_start(fresh, pair, change, said):
    with pytest.raises(NotReady) as failed:
        fresh(*change(*pair)).start()
    assert said in str(failed.value)


def test_by_variable_file_and_links(fresh, authority, tmp_path):
    pair = authority.sign("linked")
    links = [tmp_path / "cert", tmp_path / "key"]
    for link, file in zip(links, pair):
        link.symlink_to(file)
    config = tmp_path / "config"
    config.write_text(f"tls-key = {links[1]}\n")
    server = fresh("--config", str(config), env={"CAY_TLS_CERT": str(links[0])}, ca=authority.file).start()
    assert server.url.startswith("https://") and shown(server, authority) == "linked"
