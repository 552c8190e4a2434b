# SPDX-License-Identifier: Apache-2.0
"""A-58: clients that are slow on purpose, by slowhttptest's four modes. They are cut at the limits, and nobody else
notices. The long form is `make slow`."""
import re
import subprocess
import time

import pytest

from harness.certificates import Authority
from harness.wait import fewer, stretch, until

HEAD_S, BODY_S, WRITE_S, SILENCE_S, SLOW_S = 10, 30, 30, 30, 60  # model/limits.h
SPARE_S = 8  # until a cut is seen: the tool looks once a second, and this machine has others to serve
ALONE = 4    # connections that are none of the attackers'


class Attack:
    """One slowhttptest; it ends by itself when all of its connections are closed."""

    def __init__(self, url, *mode, connections, seconds, where):
        self.began = time.monotonic()
        self.log = where / f"attack-{len(list(where.iterdir()))}"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["slowhttptest", *map(str, mode), "-c", str(connections), "-r", str(connections), "-l", str(seconds),
                 "-p", "20", "-v", "1", "-u", url], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def runs(self):
        return self.process.poll() is None

    def told(self):
        return re.sub(r"\x1b\[[0-9;]*m", "", self.log.read_text(errors="replace"))

    def ended(self):
        """How long it took, and how it ended."""
        self.process.wait()
        return time.monotonic() - self.began, re.search(r"Exit status: *(.*)", self.told())[1].strip()

    def stop(self):
        if self.runs():
            self.process.kill()
        self.process.wait()


@pytest.fixture
def attack(tmp_path):
    made = []
    where = tmp_path / "attacks"
    where.mkdir()

    def make(url, *mode, **options):
        made.append(Attack(url, *mode, where=where, **options))
        return made[-1]

    yield make
    for one in made:
        one.stop()


def open_connections(client):
    conn = client.connect()
    conn.request("GET", "/metrics")
    text = conn.getresponse().read()
    conn.close()
    return int(re.search(rb"^cay_http_connections (\d+)$", text, re.M)[1])


def bystander(client):
    """What a normal client does; how long it took."""
    began = time.monotonic()
    assert client.exec("box", ["true"])["exitCode"] == 0
    assert client.get("/sandbox").status == 200
    return time.monotonic() - began


def modes(url, n, seconds):
    """Arguments of each mode: slow heads, slow bodies, slow reading, many ranges."""
    api = url + "/api/v1"
    several = {"connections": n, "seconds": seconds}
    return {
        "heads": ((api + "/health", "-H", "-i", 2), several),
        "bodies": ((api + "/sandbox", "-B", "-i", 2, "-s", 8192, "-x", 10, "-f", "application/json"), several),
        "upload": ((api + "/sandbox/box/files?path=up", "-B", "-t", "PUT", "-i", 2, "-s", 1000000, "-x", 10), several),
        "reading": ((api + "/sandbox/box/files?path=big", "-X", "-w", 1, "-y", 1, "-n", 5, "-z", 1, "-k", 1), several),
        "ranges": ((api + "/sandbox/box/files?path=big", "-R", "-a", 5, "-b", 2000), several),
    }


def prepare(client):
    client.create("box")
    client.sh("box", "head -c 40000000 /dev/zero > big")


def test_all_at_once(fresh, attack, tmp_path):
    """Small numbers, plain and under TLS: whoever is slow with a head is cut at its limit, others are served."""
    authority = Authority(tmp_path)
    cert, key = authority.sign("server")
    plain = fresh().start()
    tls = fresh("--tls-cert", cert, "--tls-key", key, ca=authority.file).start()
    client, other = plain.client(), tls.client()
    prepare(client)
    n, seconds = fewer(30), HEAD_S + 4
    attacks = {name: attack(args[0], *args[1:], **options)
               for name, (args, options) in modes(plain.url, n, seconds).items()}
    attacks["heads under TLS"] = attack(tls.url + "/api/v1/health", "-H", "-i", 2, connections=n,
                                        seconds=stretch(4 * HEAD_S))
    until(lambda: open_connections(client) >= 3 * n, "they are there")
    until(lambda: open_connections(other) >= n, "under TLS too")
    while any(a.runs() for a in attacks.values()):
        bystander(client)
        assert other.get("/health").status == 200
    for name, one in attacks.items():
        took, how = one.ended()
        if name.startswith("heads"):
            assert how == "No open connections left" and HEAD_S - 2 <= took <= stretch(HEAD_S + SPARE_S), (name, took, how)
    until(lambda: open_connections(client) <= ALONE and open_connections(other) <= ALONE, "all are gone", 20)
    bystander(client)


@pytest.mark.slow
@pytest.mark.limit(200)
@pytest.mark.parametrize("name, limit_s", [
    ("heads", HEAD_S), ("bodies", BODY_S), ("upload", SLOW_S), ("reading", WRITE_S), ("ranges", HEAD_S)])
def test_many(fresh, attack, name, limit_s):
    """Each alone and in numbers: all are cut, at the limit and not before, and the others are as fast as ever."""
    server = fresh().start()
    client = server.client()
    prepare(client)
    calm = sorted(bystander(client) for _ in range(60))
    args, options = modes(server.url, fewer(800), 150)[name]
    one = attack(args[0], *args[1:], **options)
    busy = []
    # Of uploads into one sandbox all but a few are refused at once.
    wanted = ALONE if name == "upload" else fewer(200)
    until(lambda: open_connections(client) > wanted or not one.runs(), "they are there", 20)
    began = time.monotonic()
    while open_connections(client) > ALONE:
        assert time.monotonic() - began < stretch(limit_s + 2 * SPARE_S), open_connections(client)
        busy.append(bystander(client))
    one.stop()
    if name != "ranges":  # which are not slow, but much work at once, and answered
        assert time.monotonic() - one.began >= limit_s - 2
        late = sorted(busy)[int(len(busy) * 0.95)]
        assert late < 2 * calm[57] + stretch(0.05), (calm[57], late)
    bystander(client)


@pytest.mark.slow
def test_uploads_that_stand_still(fresh):
    """Cut at the silence that is borne, wherever in a chunked body, and nothing is left; one that goes on is whole."""
    server = fresh().start()
    client = server.client()
    client.create("box")
    halves = {"size": b"0", "data": b"5\r\nby", "end": b"5\r\nbytes\r", "last": b"5\r\nbytes\r\n0", "goes-on": b"5\r\nby"}
    head = "PUT /api/v1/sandbox/box/files?path={} HTTP/1.1\r\nHost: {}:{}\r\nTransfer-Encoding: chunked\r\n\r\n"
    socks = {name: client.socket(SILENCE_S + stretch(SPARE_S)) for name in halves}
    began = time.monotonic()
    for name, sock in socks.items():
        sock.sendall(head.format(name, client.host, client.port).encode() + halves[name])
    until(lambda: client.sh("box", "ls -A").count(".cay-") == len(socks), "all are under way")
    while time.monotonic() - began < SILENCE_S / 2:
        bystander(client)
    socks["goes-on"].sendall(b"t")
    for name in set(socks) - {"goes-on"}:
        assert socks[name].recv(100) == b"", "cut, without an answer"
        assert time.monotonic() - began >= SILENCE_S
    socks["goes-on"].sendall(b"es\r\n0\r\n\r\n")
    assert socks["goes-on"].recv(100).startswith(b"HTTP/1.1 201 ")
    until(lambda: client.sh("box", "ls -A; cat goes-on") == "goes-on\nbytes", "nothing else is left")
    for sock in socks.values():
        sock.close()
