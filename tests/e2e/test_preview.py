# SPDX-License-Identifier: Apache-2.0
"""What listens inside a sandbox, seen from outside: by a host of its own, by a path, by a tunnel."""
import base64
import hashlib
import http.client
import json
import os
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.server import CAY
from harness.service import RAW, SOURCE
from harness.wait import until
from harness.web import PORT, Web, serve
from harness.websocket import BINARY, Closed, Refused, WebSocket


@pytest.fixture
def web(client, box):
    assert client.post("/sandbox/box/ports", {"port": PORT}).status == 201
    serve(client, "box")
    return Web(client, box)


# ---- ports ----


def test_ports(client, box):
    first = client.post("/sandbox/box/ports", {"port": 8080, "name": "site"})
    assert first.status == 201
    want = {"sandboxId": box["id"], "port": 8080, "name": "site", "public": False, "protocol": "http",
            "url": f"http://8080-{box['id']}.localhost:{client.port}/"}
    assert {k: first.json()[k] for k in want} == want
    again = client.post("/sandbox/box/ports", {"port": 8080, "name": "site"})
    assert again.status == 200 and again.json() == first.json()
    for port in (1, 2, 3):
        assert client.post("/sandbox/box/ports", {"port": port}).status == 201
    fifth = client.post("/sandbox/box/ports", {"port": 4})
    assert fifth.status == 400 and fifth.error["details"]["field"] == "port"
    assert [p["port"] for p in client.get("/sandbox/box/ports").json()["ports"]] == [8080, 1, 2, 3]
    assert client.sandbox("box")["ports"] == client.get("/sandbox/box/ports").json()["ports"]
    assert {p["port"] for p in client.get("/sandbox/ports").json()["ports"]} == {8080, 1, 2, 3}
    assert client.delete("/sandbox/box/ports/2").status == 200
    assert client.delete("/sandbox/box/ports/2").error["code"] == "PORT_NOT_EXPOSED"
    assert client.request("PATCH", "/sandbox/box", {"ports": [90, {"port": 91, "public": True}]}).status == 200
    assert [(p["port"], p["public"]) for p in client.sandbox("box")["ports"]] == [(90, False), (91, True)]
    fork = client.post("/sandbox/box/fork", {}).json()
    assert [(p["port"], p["sandboxId"]) for p in fork["ports"]] == [(90, fork["id"]), (91, fork["id"])]
    assert client.post("/sandbox/box/fork", {"ports": []}).json()["ports"] == []


def test_expose_spelling(client, box):
    made = client.post("/sandbox/box/expose", {"port": 8000, "protocol": "HTTP"}).json()
    assert made["sandbox_id"] == box["id"] and made["name"] is None and made["tls_socket"] and made["created_at"]
    assert client.get("/sandbox/box/expose").json()["exposures"] == [made]
    assert client.get("/sandbox/expose/all").json()["exposures"] == [made]
    gone = client.delete(f"/sandbox/{box['id']}/expose/{made['exposure_id']}")
    assert gone.status == 200, gone
    assert client.get("/sandbox/box/ports").json()["ports"] == []


def test_ports_survive(fresh):
    server = fresh().start()
    box = server.client().create("box", ports=[{"port": PORT, "name": "x", "waitSeconds": 5}])
    server.kill("server")
    until(lambda: server.client().is_well(), "the next server answers")
    assert server.client().sandbox("box")["ports"] == box["ports"]


# ---- HTTP ----


def test_methods_and_bodies(web):
    assert web.get().body == b"hello\n"
    head = web.request("HEAD", "/big?size=10&length=1")
    assert head.status == 200 and head.headers["content-length"] == "10" and head.body == b""
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        told = web.request(method, "/echo?a=b%20c", b"x" * 1000).json()
        assert (told["method"], told["size"], told["url"]) == (method, 1000, "/echo?a=b%20c")
    chunked = web.request("POST", "/echo", b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: 1\r\n\r\n",
                          {"Transfer-Encoding": "chunked"}).json()
    assert chunked["size"] == 5 and chunked["sha256"] == hashlib.sha256(b"abcde").hexdigest()
    assert chunked["trailers"] == {}
    for code in (204, 304, 404, 500):
        answer = web.get(f"/status?code={code}")
        assert answer.status == code and answer.headers["x-was"] == "here"
        assert answer.body == (b"" if code in (204, 304) else b"body")
    for size in (0, 1, 65536, 3_000_000):
        assert len(web.get(f"/big?size={size}").body) == size
        assert len(web.get(f"/big?size={size}&length=1").body) == size


def test_headers_in(web, box):
    told = web.get("/echo", {"X-Forwarded-For": "6.6.6.6", "Forwarded": "for=6.6.6.6", "Cay-Token": "cay_x",
                             "Connection": "keep-alive, X-Hop", "X-Hop": "1", "TE": "trailers", "X-End": "2",
                             "Cookie": "a=1; cay-preview=secret; b=2", "Authorization": "Bearer cay_secret",
                             "Origin": f"http://{web.host}"}).json()["headers"]
    assert told["host"] == f"localhost:{PORT}" and told["x-forwarded-host"] == web.host
    assert told["x-forwarded-for"] == "127.0.0.1" and told["x-forwarded-proto"] == "http"
    assert told["cookie"] == "a=1; b=2" and told["x-end"] == "2" and told["origin"] == f"http://localhost:{PORT}"
    assert not {"forwarded", "cay-token", "x-hop", "te", "authorization"} & set(told)
    assert web.get("/echo", {"Authorization": "Basic eDp5"}).json()["headers"]["authorization"] == "Basic eDp5"


def test_headers_out(web):
    answer = web.get("/headers")
    assert answer.headers.get_all("set-cookie") == ["a=1; Path=/x; HttpOnly", "b=2"]
    assert answer.headers["x-kept"] == "yes"
    for name in ("service-worker-allowed", "clear-site-data", "strict-transport-security", "alt-svc"):
        assert name not in answer.headers
    assert web.get(f"/redirect?to=http://localhost:{PORT}/x?y").headers["location"] == "/x?y"
    assert web.get("/redirect?to=https://example.com/").headers["location"] == "https://example.com/"


def test_keep_alive_on_both_sides(web):
    conn = None
    for _ in range(20):
        told = web.get("/echo").json()
        conn = conn or web.conn.sock
        assert web.conn.sock is conn
    assert told["connections"] <= 2


def test_one_connection_to_several(client, box, web):
    """The service it asked last, another one, our own API, a body, and all over again: each is answered by whom it asked."""
    assert client.post("/sandbox/box/ports", {"port": PORT + 1}).status == 201
    serve(client, "box", SOURCE.replace("hello", "other"), port=PORT + 1)
    other = Web(client, box, PORT + 1)
    own = Web(client, box, host=f"localhost:{client.port}")
    web.get()
    other.conn = own.conn = web.conn
    sock = web.conn.sock
    for _ in range(10):
        for _ in range(3):
            assert web.get().body == b"hello\n"
        assert other.get().body == b"other\n" and other.request("POST", "/echo", b"body").json()["size"] == 4
        assert own.get("/api/v1/health").status == 200
    assert web.conn.sock is sock, "it was one connection all the time"
    assert web.get("/echo").json()["connections"] <= 3 and other.get("/echo").json()["connections"] <= 13


def test_expect_continue(web):
    with socket.create_connection(web.at, 10) as s:
        s.sendall(f"POST /echo HTTP/1.1\r\nHost: {web.host}\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n".encode())
        assert s.recv(1000).startswith(b"HTTP/1.1 100")
        s.sendall(b"abc")
        assert b'"size":3' in s.recv(10000)


def upload(web, size, chunk=1 << 20):
    block, sum_, left = os.urandom(chunk), hashlib.sha256(), size
    conn = web.connect()
    conn.putrequest("POST", "/echo", skip_host=True)
    conn.putheader("Host", web.host)
    conn.putheader("Content-Length", str(size))
    conn.endheaders()
    while left:
        piece = block[:left]
        conn.send(piece)
        sum_.update(piece)
        left -= len(piece)
    told = json.loads(conn.getresponse().read())
    conn.close()
    assert told["size"] == size and told["sha256"] == sum_.hexdigest()


def test_upload(web):
    upload(web, 32 << 20)


@pytest.mark.slow
@pytest.mark.limit(600)
def test_upload_of_a_gigabyte(web):
    upload(web, 1 << 30)


def test_early_answer(web):
    """It is given although the body was not read; what comes then is not taken for a request."""
    out = web.raw(b"POST /early HTTP/1.1\r\nHOSTContent-Length: 50000000\r\n\r\n" + b"x" * 100000)
    assert out.startswith(b"HTTP/1.1 413") and out.endswith(b"no\n") and out.count(b"HTTP/1.1") == 1


def test_events_are_not_held_back(web):
    with socket.create_connection(web.at, 20) as s:
        s.sendall(f"GET /sse?n=100000 HTTP/1.1\r\nHost: {web.host}\r\n\r\n".encode())
        buf = b""
        while b"data: 3\n\n" not in buf:
            buf += s.recv(4096)
        assert b"data: 100\n" not in buf


def test_http_1_0(web):
    out = web.raw(b"GET /big?size=5 HTTP/1.0\r\nHOST\r\n")
    head, _, body = out.partition(b"\r\n\r\n")
    assert body == b"xxxxx" and b"chunked" not in head.lower()


def test_many_at_once(web):
    def one(i):
        answer = web.get(f"/big?size={1000 + i}", fresh=True)
        return answer.status, len(answer.body)

    with ThreadPoolExecutor(50) as pool:
        assert list(pool.map(one, range(200))) == [(200, 1000 + i) for i in range(200)]


def test_without_network(client):
    box = client.create("dark", networkAccess=False, ports=[PORT])
    serve(client, "dark")
    assert Web(client, box).get().body == b"hello\n"


def test_ipv6_only(client):
    box = client.create("six", ports=[PORT])
    if client.exec("six", ["sh", "-c", "grep -q . /proc/net/if_inet6"])["exitCode"]:
        pytest.skip("this host has no IPv6")
    serve(client, "six", SOURCE, "::1")
    assert Web(client, box).get().body == b"hello\n"


# ---- when there is nothing, or nothing good ----


def test_nothing_there(client, box):
    web = Web(client, box)
    answer = web.get()
    assert answer.status == 404 and answer.error["code"] == "PORT_NOT_EXPOSED"
    client.post("/sandbox/box/ports", {"port": PORT})
    assert web.get().status == 502 and web.get().error["code"] == "NOTHING_LISTENS"
    page = web.get("/", {"Accept": "text/html"})
    assert page.status == 502 and page.headers["content-type"].startswith("text/html") and b"Nothing listens" in page.body
    client.post("/sandbox/box/pause")
    assert web.get().status == 409
    client.post("/sandbox/box/resume")
    client.post("/sandbox/box/stop")
    assert web.get().error["code"] == "SANDBOX_NOT_RUNNING"
    client.delete("/sandbox/box")
    assert web.get().status == 404
    assert Web(client, box, host=f"3000-sb-00000000000000000000.localhost:{client.port}").get().status == 404
    for host in ("x.localhost", "03000-%s.localhost", "0-%s.localhost", "65536-%s.localhost", "a.3000-%s.localhost"):
        host = host.replace("%s", box["id"]) + f":{client.port}"
        answer = Web(client, box, host=host).get("/api/v1/sandbox")
        assert answer.status == 404 and answer.error["code"] == "NO_PREVIEW", host


def test_service_dies_and_comes_back(client, web):
    assert web.get().status == 200
    died = web.request("POST", "/die", b"")
    assert died.status == 502 and died.error["code"] == "NO_ANSWER"
    web.conn = None
    until(lambda: web.get().error["code"] == "NOTHING_LISTENS", "it is gone")
    serve(client, "box")
    assert web.get().body == b"hello\n"


def test_stale_connection_is_replaced(client, web):
    """A service that restarts has closed what the server keeps: the next request does not notice."""
    assert web.get().status == 200
    client.exec("box", ["pkill", "-9", "node"])
    serve(client, "box")  # it could not listen if the other still did
    assert web.get().status == 200


BAD = {
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "length and chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc",
    "another coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx",
    "a folded line": b"HTTP/1.1 200 OK\r\nX-A: 1\r\n b\r\nContent-Length: 0\r\n\r\n",
    "a blank in a name": b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
    "a lone CR": b"HTTP/1.1 200 OK\r\nX-A: a\rSet-Cookie: b=1\r\nContent-Length: 0\r\n\r\n",
    "an upgrade nobody asked for": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"X-A: " + b"a" * 40000 + b"\r\n\r\n",
    "nothing at all": b"",
}


@pytest.mark.parametrize("case", BAD)
def test_bad_answers(client, box, case):
    client.post("/sandbox/box/ports", {"port": PORT})
    serve(client, "box", RAW, base64.b64encode(BAD[case]).decode())
    answer = Web(client, box).get()
    assert answer.status == 502 and answer.error["code"] in ("BAD_ANSWER", "NO_ANSWER"), answer


def test_half_an_answer_is_not_a_whole_one(client, box):
    client.post("/sandbox/box/ports", {"port": PORT})
    serve(client, "box", RAW, base64.b64encode(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc").decode())
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        Web(client, box).get()


def test_answer_to_the_end(client, box):
    client.post("/sandbox/box/ports", {"port": PORT})
    serve(client, "box", RAW, base64.b64encode(b"HTTP/1.0 200 OK\r\n\r\nall of it").decode())
    assert Web(client, box).get().body == b"all of it"


def test_wait(client, box):
    client.post("/sandbox/box/ports", {"port": PORT})
    web = Web(client, box)
    assert web.get("/", {"Cay-Wait": "121"}).error["details"]["field"] == "Cay-Wait"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(web.request, "POST", "/echo", b"held", {"Cay-Wait": "60"})
        serve(client, "box")
        assert waiting.result(60).json()["size"] == 4
    client.exec("box", ["pkill", "-9", "node"])
    until(lambda: b"NOTHING_LISTENS" in web.get("/", fresh=True).body, "it is gone")
    client.post("/sandbox/box/ports", {"port": PORT, "waitSeconds": 60})
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(web.get, "/", fresh=True)
        serve(client, "box")
        assert waiting.result(60).body == b"hello\n"


def test_wait_has_an_end(client, box):
    client.post("/sandbox/box/ports", {"port": PORT})
    assert Web(client, box).get("/", {"Cay-Wait": "1"}).error["code"] == "NOTHING_LISTENS"


# ---- WebSocket ----


def test_websocket(web):
    with web.websocket({"Origin": f"http://{web.host}"}) as ws:
        for data in (b"one", b"x" * 50000):
            ws.type(data)
            assert ws.next() == (BINARY, data)
        ws.raw(ws.frame(8, b"\x03\xe8"))
        with pytest.raises(Closed):
            ws.next()


def test_foreign_pages(web):
    """A-50 to A-52: a page of another origin may neither act nor open a WebSocket."""
    for origin in ("http://evil.example", "null", f"http://4000-{web.host.partition('-')[2]}", f"http://localhost:{web.at[1]}"):
        with pytest.raises(Refused) as refused:
            web.websocket({"Origin": origin})
        assert refused.value.status == 403
        assert web.request("POST", "/echo", b"x", {"Origin": origin}).status == 403
        web.conn.close()
    assert web.request("POST", "/echo", b"x", {"Sec-Fetch-Site": "same-site"}).status == 403
    assert web.request("POST", "/echo", b"x", {"Origin": f"http://{web.host}", "Sec-Fetch-Site": "same-origin"}).status == 200


def test_preview_host_never_reaches_the_api(client, web):
    told = web.get("/api/v1/sandbox")
    assert told.body == b"hello\n"
    for host in (web.host.upper(), web.host.replace(".localhost", ".localhost.")):
        assert Web(client, None, host=host).get("/api/v1/health").body == b"hello\n"
    foreign = client.request("GET", "/sandbox", headers={"Origin": f"http://{web.host}"})
    assert foreign.status == 403
    assert client.request("POST", "/sandbox", {}, headers={"Origin": "null"}).status == 403
    assert client.request("GET", "/sandbox", headers={"Host": "evil.example"}).status == 421


# ---- by path ----


def test_path_form(client, box, web):
    base = f"/p/{box['id']}/{PORT}"
    web.host = f"{client.host}:{client.port}"
    told = web.get(base + "/echo?x=1")
    assert told.json()["url"] == "/echo?x=1" and told.json()["headers"]["x-forwarded-prefix"] == base
    assert told.headers["content-security-policy"] == "sandbox"
    assert web.get(base).body == b"hello\n"
    assert web.get(base + "/redirect?to=/x").headers["location"] == base + "/x"
    assert web.get(base + "/headers").headers.get_all("set-cookie")[0] == f"a=1; HttpOnly; Path={base}/"
    goes = web.get(base + "/a/b?c=d", {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Site": "cross-site"})
    assert goes.status == 307 and goes.headers["location"] == f"http://{PORT}-{box['id']}.localhost:{client.port}/a/b?c=d"
    assert web.get(base + "/echo", {"Origin": "null"}).status == 403
    assert web.get("/p/nothing/80/").error["code"] == "NO_PREVIEW"
    assert Web(client, box, host="evil.example").get(base + "/").status == 421


# ---- tunnels ----


ECHO = r"""
const net = require('net')
net.createServer({allowHalfOpen: true}, s => { let n = 0; s.on('error', () => {})
  s.on('data', d => { n += d.length; s.write(d) }); s.on('end', () => s.end(`|${n}`)) })
  .listen(+process.argv[2], '127.0.0.1', () => console.log('ready'))
"""


def test_tunnel(client, box):
    with pytest.raises(Refused) as refused:
        WebSocket(client, "/sandbox/box/ports/5432/tunnel")
    assert refused.value.status == 502 and refused.value.code == "NOTHING_LISTENS"
    serve(client, "box", ECHO, port=5432)
    with WebSocket(client, "/sandbox/box/ports/5432/tunnel") as ws:
        ws.type(b"abc")
        ws.sees(b"abc")
        ws.say(type="eof")
        assert ws.sees(b"|3")
        assert ws.hears("eof") and ws.end() == 1000
    with WebSocket(client, "/sandbox/box/ports/5432/tunnel") as ws:
        big = os.urandom(1 << 20)
        sender = threading.Thread(target=lambda: [ws.type(big[i:i + 50000]) for i in range(0, len(big), 50000)])
        sender.start()
        while len(ws.output) < len(big):
            ws.next()
        sender.join()
        assert ws.output == big
        client.exec("box", ["pkill", "-9", "node"])
        ws.hears("eof")


# ---- the command line ----


def run(client, *args):
    env = {**os.environ, "CAY_URL": f"http://{client.host}:{client.port}"}
    return subprocess.run([CAY, *args], capture_output=True, text=True, timeout=60, env=env)


def test_cli(client, box):
    url = f"http://{PORT}-{box['id']}.localhost:{client.port}/"
    assert run(client, "expose", "box", str(PORT), "--name", "site").stdout == url + "\n"
    assert run(client, "ports", "box").stdout == f"{PORT}\tsite\tprivate\t{url}\n"
    assert run(client, "expose", "box", str(PORT), "--link").stdout.startswith(url + "?cay_link=")
    assert run(client, "unexpose", "box", str(PORT)).returncode == 0
    assert "PORT_NOT_EXPOSED" in run(client, "unexpose", "box", str(PORT)).stderr
    assert run(client, "expose", "box", "x").returncode != 0


def test_forward(client, box):
    serve(client, "box", ECHO, port=5432)
    env = {**os.environ, "CAY_URL": f"http://{client.host}:{client.port}"}
    cay_forward = subprocess.Popen([CAY, "forward", "box", "0:5432", "0:5433"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True, env=env)
    try:
        first, second = (int(cay_forward.stdout.readline().split()[0].split(":")[1]) for _ in range(2))

        def one(i):
            data = os.urandom(200_000 + i)
            with socket.create_connection(("127.0.0.1", first), 30) as s:
                sender = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
                sender.start()
                got = b""
                while piece := s.recv(65536):
                    got += piece
                sender.join()
            return got == data + f"|{len(data)}".encode()

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(one, range(16)))
        with socket.create_connection(("127.0.0.1", second), 30) as s:
            assert s.recv(1) == b""
    finally:
        cay_forward.terminate()
        out = cay_forward.communicate(timeout=20)
    assert cay_forward.returncode == 0 and "NOTHING_LISTENS" in out[1]
