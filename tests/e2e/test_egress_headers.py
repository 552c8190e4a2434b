# SPDX-License-Identifier: Apache-2.0
"""Secrets at the edge: headers that requests are given on their way out, and that every request is looked at."""
import os
import subprocess
from pathlib import Path

import pytest

from harness.egress import WEB, probe, refused, wish
from harness.internet import BANNER, HEADS, HTTP
from harness.server import CAY, Server
from harness.wait import stretch, until

SECRET = "Bearer s3cret-of-the-edge"


@pytest.fixture(scope="module")
def shared_server(net):
    with Server("--resolv-conf", net.resolv_conf, env={"CAY_LOG_LEVEL": "debug"}) as server:
        yield server


def policy(value=SECRET, host="web.example", allow=("web.example", "other.example")):
    return {"allow": list(allow), "headers": {host: {"Authorization": value}}}


def get(name, *lines, last=False):
    return "\r\n".join(["GET / HTTP/1.1", f"Host: {name}", *lines, *(["Connection: close"] if last else []), "", ""])


def heads(client, box, host, text, port=HEADS, **more):
    return probe(client, box, wish("lookup", host), wish("tcp", host, port, send=text, **more))[1]


def test_every_request_has_it(server, client):
    box = client.create("box", networkPolicy=policy())
    assert box["networkPolicy"]["headers"] == {"web.example": {"Authorization": None}}
    said = heads(client, box, "web.example", get("web.example") + get("web.example", "authorization: mine", "X: y") +
                 get("web.example", last=True))
    assert said["data"].count(f"Authorization: {SECRET}") == 3 and "mine" not in said["data"], said
    assert "X: y" in said["data"]
    wanted = {(w["name"], w["port"]): w for w in client.get(f"/sandbox/{box['id']}/network").json()["wanted"]}
    assert wanted[("web.example", HEADS)]["injected"] == 3
    everything = client.sh(box["id"], "env; cat /proc/1/environ /proc/self/mountinfo 2>/dev/null; cat /etc/hosts")
    assert "s3cret" not in everything
    told = [client.get(f"/sandbox/{box['id']}{path}").body.decode() for path in ("", "/network", "/egress-policy")]
    assert not any("s3cret" in text for text in told)
    for file in [Path(server.log_path), *Path(server.data).glob("cay.db*")]:
        assert b"s3cret" not in file.read_bytes(), file


def test_who_else_gets_it(client):
    """Not another host at the same address, not the same host's name at another address, not another port's rule."""
    box = client.create("box", networkPolicy=policy(allow=("web.example", "shared.example", "other.example")))
    shared = heads(client, box, "shared.example", get("shared.example", last=True))
    assert "s3cret" not in shared["data"] and "Host: shared.example" in shared["data"]
    _, elsewhere = probe(client, box, wish("lookup", "web.example"),
                         wish("tcp", "other.example", HEADS, send=get("web.example", last=True)))
    assert "Host: web.example" in elsewhere["data"] and "s3cret" not in elsewhere["data"]
    answer = client.request("PATCH", f"/sandbox/{box['id']}", {"networkPolicy": policy(host="web.example:80")})
    assert answer.status == 200, answer
    plain = heads(client, box, "web.example", get("web.example", last=True))
    assert "Host: web.example" in plain["data"] and "s3cret" not in plain["data"]


def test_every_request_is_judged(client):
    box = client.create("box", networkPolicy={"allow": ["web.example"]})
    second = heads(client, box, "web.example", get("web.example") + get("shared.example", last=True))
    assert second["error"] == "ECONNRESET" and "shared.example" not in second["data"], second
    for bad in ("\r\n" + get("shared.example", last=True), get("shared.example").replace("HTTP/1.1", "HTTP/1.1 "),
                get("web.example", "X: " + "x" * 20000, "Host: shared.example"),
                get("web.example", "Content-Length: 5", "Transfer-Encoding: chunked")):
        assert refused(heads(client, box, "web.example", bad)), bad[:80]
    later = heads(client, box, "web.example", "EHLO me\r\n", port=BANNER)
    assert later["data"] == "220 hello\r\nyou said EHLO me\r\n"


def test_it_changes_on_an_open_connection(client):
    box = client.create("box", networkPolicy=policy("first"))
    script = f"""
const s = require('net').connect({HEADS}, 'web.example');
s.on('data', d => console.log(/Authorization: (.*)/.exec(String(d))?.[1] ?? 'none')); s.on('error', e => console.log(e.code));
setInterval(() => s.write('GET / HTTP/1.1\\r\\nHost: web.example\\r\\n\\r\\n'), 50);"""
    run = client.detach(box["id"], ["node", "-e", script])

    def says(word):
        return client.output(box["id"], run).decode().split()[-1:] == [word]

    until(lambda: says("first"), "the first one")
    for value, word in (("second", "second"), (None, "second")):
        answer = client.request("PATCH", f"/sandbox/{box['id']}", {"networkPolicy": policy(value)})
        assert answer.status == 200, answer
        until(lambda: says(word), "the next one")
    answer = client.request("PATCH", f"/sandbox/{box['id']}", {"networkPolicy": {"allow": ["web.example"]}})
    assert answer.status == 200, answer
    until(lambda: says("none"), "none")
    fork = client.post(f"/sandbox/{box['id']}/fork", {"name": "fork", "networkPolicy": policy()}).json()
    again = client.post(f"/sandbox/{fork['id']}/fork", {"name": "again"}).json()
    for one in (fork, again):
        assert SECRET in heads(client, one, "web.example", get("web.example", last=True))["data"]


def test_cli(server, client, tmp_path):
    """The value is named by a variable or a file, and so not on the command line."""
    (tmp_path / "key").write_text("k3y\n")

    def cay(*args):
        return subprocess.run([CAY, *args], capture_output=True, text=True, timeout=stretch(30),
                              env={**os.environ, "CAY_URL": server.url, "EDGE": SECRET})

    done = cay("create", "--name", "box", "--network", "web.example,other.example", "--edge-header", "web.example/Authorization=EDGE",
               "--edge-header-file", f"web.example/X-Key={tmp_path}/key", "--edge-header", "other.example:80/X=EDGE")
    assert done.returncode == 0, done
    box = client.sandbox("box")
    assert box["networkPolicy"] == {"mode": "custom", "allow": ["web.example", "other.example"], "headers": {
        "web.example": {"Authorization": None, "X-Key": None}, "other.example:80": {"X": None}}}
    said = heads(client, box, "web.example", get("web.example", last=True))["data"]
    assert f"Authorization: {SECRET}\r\nX-Key: k3y\n" in said, said
    assert cay("network", "--open", "--edge-header-file", f"web.example/X-Key={tmp_path}/key", "box").returncode == 0
    assert client.sandbox("box")["networkPolicy"] == {"mode": "allow-all", "headers": {"web.example": {"X-Key": None}}}
    run = cay("run", "--edge-header", "web.example/Authorization=EDGE", "--", "env")
    assert run.returncode == 0 and "s3cret" not in run.stdout, run
    for bad, why in ((["web.example/X=NOBODY_HAS_THIS"], "NOBODY_HAS_THIS has no value"), (["web.example=EDGE"], "HOST/NAME"),
                     (["web.example/X"], "NAME=VARIABLE"), (["web.example/Host=EDGE"], "no header that can be set"),
                     (["web.example/X=EDGE", "--network", "other.example"], "not allowed"), (["web.example/X=EDGE", "--no-network"], "say nothing")):
        done = cay("create", "--edge-header", *bad)
        assert done.returncode == 1 and why in done.stderr, (bad, done)
    assert cay("network", "--edge-header", "web.example/X=EDGE", "box").returncode == 1, "and what may it reach?"


def test_it_is_there_after_a_crash(fresh, net):
    server = fresh("--resolv-conf", net.resolv_conf)
    client = server.start().client()
    box = client.create("box", networkPolicy={"mode": "allow-all", "headers": {"*.example": {"Authorization": SECRET}}})
    server.kill("server")
    server.recover()
    client = server.client()
    until(lambda: SECRET in heads(client, box, "web.example", get("web.example", last=True)).get("data", ""),
          "it has its way, and the header")
    assert "s3cret" not in heads(client, box, "web.example", f"GET / HTTP/1.1\r\nHost: {WEB}\r\nConnection: close\r\n\r\n",
                                 port=HTTP).get("data", "")
