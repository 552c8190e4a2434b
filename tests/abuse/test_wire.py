# SPDX-License-Identifier: Apache-2.0
"""What is bad below the level of requests: bytes, connections, time, and too many of them (A-03, A-49, A-50, A-58, A-59)."""
import re
import socket
import time

import pytest

from harness.server import Server


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_own_hosts_are_served(client, host):
    answer = client.request("GET", "/health", headers={"Host": f"{host}:{client.port}"})
    assert answer.status == 200
    answer = client.request("GET", "/health", headers={"Origin": f"http://{host}:{client.port}",
                                                       "Host": f"{host}:{client.port}"})
    assert answer.status == 200


def status_of(raw):
    match = re.match(rb"HTTP/1\.1 (\d{3}) ", raw)
    return int(match[1]) if match else None


HOST = b"HOST"  # the client puts the line in
# name, bytes on the wire, statuses; the connection is closed after each
WIRE = [
    ("no Host", b"GET /api/v1/health HTTP/1.1\r\n\r\n", {400}),
    ("two Hosts", b"GET /api/v1/health HTTP/1.1\r\n" + HOST + HOST + b"\r\n", {400}),
    ("two lengths", b"POST /api/v1/sandbox HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", {400}),
    ("length and chunked", b"POST /api/v1/sandbox HTTP/1.1\r\n" + HOST
     + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", {400}),
    ("length with a sign", b"POST /api/v1/sandbox HTTP/1.1\r\n" + HOST + b"Content-Length: +2\r\n\r\n{}", {400}),
    ("length too long", b"POST /api/v1/sandbox HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999\r\n\r\n", {400, 413}),
    ("length of 10 GB", b"POST /api/v1/sandbox HTTP/1.1\r\n" + HOST
     + b"Content-Type: application/json\r\nContent-Length: 10000000000\r\n\r\n", {413}),
    ("space before the colon", b"GET /api/v1/health HTTP/1.1\r\nHost : 127.0.0.1\r\n\r\n", {400}),
    ("folded header", b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", {400}),
    ("NUL in a header", b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n", {400}),
    ("bare CR", b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"X: a\rb\r\n\r\n", {400}),
    ("head of 40 KiB", b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 40_000 + b"\r\n\r\n", {400, 414, 431}),
    ("200 headers", b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"".join(b"X%d: y\r\n" % i for i in range(200)) + b"\r\n", {400, 431}),
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    ("HTTP/0.9", b"GET /\r\n\r\n", {400, 505}),
    ("not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", {400}),
    ("bad chunk size", b"POST /api/v1/sandbox HTTP/1.1\r\n" + HOST
     + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", {400}),
    ("huge chunk size", b"POST /api/v1/sandbox HTTP/1.1\r\n" + HOST
     + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", {400, 413}),
    ("unknown coding", b"POST /api/v1/sandbox HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n", {400, 501}),
    ("CONNECT", b"CONNECT 127.0.0.1:22 HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n", {400, 404, 405}),
]


@pytest.mark.parametrize("data, statuses", [c[1:] for c in WIRE], ids=[c[0] for c in WIRE])
def test_wire(client, data, statuses):
    raw = client.raw(data, timeout=5)
    assert status_of(raw) in statuses, raw[:300]
    assert len(re.findall(rb"HTTP/1\.1 \d{3} ", raw)) == 1, "the connection was used again"
    assert client.get("/health").status == 200


def test_chunked_without_end_is_cut_at_the_cap(client):
    head = (b"POST /api/v1/sandbox HTTP/1.1\r\n" + HOST
            + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    raw = client.raw(head + chunk * 200, timeout=10)
    assert status_of(raw) in (400, 413), raw[:300]


def test_pipelined_requests_come_back_in_order(client, box):
    n = 500
    raw = client.raw(b"".join(b"GET /api/v1/nowhere-%d HTTP/1.1\r\n" % i + HOST + b"\r\n" for i in range(n - 1))
                     + b"GET /api/v1/health HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n")
    assert raw.count(b"HTTP/1.1 404") == n - 1
    assert raw.rindex(b"HTTP/1.1 200") > raw.rindex(b"HTTP/1.1 404")


def test_head_and_options(client):
    answer = client.request("HEAD", "/health")
    assert answer.status in (200, 405) and answer.body == b""
    assert client.request("OPTIONS", "/sandbox").status in (200, 204, 405)


def test_slow_head_is_cut(client):
    """Others are served meanwhile."""
    began = time.monotonic()
    with client.socket(timeout=20) as s:
        s.sendall(b"GET /api/v1/health HTTP/1.1\r\n")
        cut = False
        for _ in range(15):
            time.sleep(1)
            assert client.get("/health").status == 200
            try:
                s.sendall(b"X: y\r\n")
                s.setblocking(False)
                try:
                    cut = s.recv(1000) == b"" or True
                except BlockingIOError:
                    cut = False
                s.setblocking(True)
            except OSError:
                cut = True
            if cut:
                break
    assert cut and time.monotonic() - began < 14


def test_reading_half_a_request_and_leaving(client):
    for cut in (b"G", b"GET /api", b"POST /api/v1/sandbox HTTP/1.1\r\n" + HOST + b"Content-Length: 100\r\n\r\n{"):
        with client.socket() as s:
            s.sendall(cut)
            s.shutdown(socket.SHUT_WR)
    assert client.get("/health").status == 200
    assert client.names() == []


def test_rate_limit(fresh):
    server = fresh(rate_limit="20/60").start()
    client = server.client()
    answers = [client.get("/sandbox") for _ in range(25)]
    assert [a.status for a in answers].count(200) == 20
    refused = answers[-1]
    assert refused.status == 429 and 0 < int(refused.headers["Retry-After"]) <= 60, refused
    assert refused.error["code"] == "RATE_LIMITED", refused
    assert any(k.lower().startswith("ratelimit-") for k in answers[0].headers)
    spoofed = client.request("GET", "/sandbox", headers={"X-Forwarded-For": "203.0.113.9"})
    assert spoofed.status == 429


def test_rate_limit_is_told_by_answers_that_waited(fresh):
    client = fresh(rate_limit="20/60").start().client()
    client.create("box")
    answer = client.post("/sandbox/box/exec", {"command": "sleep 0.1"})
    assert answer.status == 200 and answer.headers["RateLimit-Remaining"] == "18", answer.headers


def test_default_rate_limit_is_the_documented_one(fresh):
    server: Server = fresh(rate_limit=None).start()
    client = server.client()
    statuses = [client.get("/sandbox").status for _ in range(1001)]
    assert statuses.count(200) == 1000 and statuses[-1] == 429
