# SPDX-License-Identifier: Apache-2.0
"""From inside, against the policy: what a server could take for a request for another host, while we take it for something
else. The policy allows one name, and who answers has others at the same address. All of it in namespaces that the test made."""
import pytest

from harness.egress import WEB, probe, question, wish
from harness.internet import BANNER, HEADS, SLURP
from harness.wait import until

EVIL = "Host: shared.example\r\n\r\n"
SMUGGLED = {
    "a blank first": " GET / HTTP/1.1\r\n" + EVIL,
    "a blank that Python knows": "GET\x1c/\x1cHTTP/1.1\r\n" + EVIL,
    "a tab": "GET\t/ HTTP/1.1\r\n" + EVIL,
    "a method of 40 letters": "A" * 40 + " / HTTP/1.1\r\n" + EVIL,
    "a method that is no word": "G@T / HTTP/1.1\r\n" + EVIL,
    "a method in small letters": "get / HTTP/1.1\r\n" + EVIL,
    "no version": "GET http://shared.example/\r\n\r\n",
    "no version, and headers": "GET /\r\n" + EVIL,
    "a version to come": "GET / HTTP/2.0\r\n" + EVIL,
    "half of HTTP/2": "PRI * HTTP/2.0\r\n" + EVIL,
    "a user in the host": "GET / HTTP/1.1\r\nHost: web.example:80@shared.example\r\n\r\n",
    "a user in the target": "GET http://web.example:x@shared.example/ HTTP/1.1\r\n\r\n",
    "a host in the body's place": "GET / HTTP/1.1\r\nContent-Length: 40\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n" + EVIL,
    "a second one behind an end of old": "GET / HTTP/1.1\r\nHost: web.example\n\nGET / HTTP/1.1\n" + EVIL,
    "a second one behind many": "GET / HTTP/1.1\r\nHost: web.example\r\n\r\n" * 100 + "GET / HTTP/1.1\r\n" + EVIL,
    "a second one behind chunks": "PUT / HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n\r\n" + "1\r\na\r\n" * 500 +
                                  "0\r\n\r\nGET / HTTP/1.1\r\n" + EVIL,
}
HALVES = {
    "a head without its end": "GET / HTTP/1.1\r\nHost: shared.example\r\n",
    "a head within its host": "GET / HTTP/1.1\r\nHost: shared.exam",
    "a target without a line's end": "GET http://shared.example/",
    "a second one": "GET / HTTP/1.1\r\nHost: web.example\r\n\r\nGET / HTTP/1.1\r\nHost: shared.example\r\n",
}


@pytest.fixture(scope="module")
def options(net):
    return ["--resolv-conf", net.resolv_conf]


@pytest.fixture(scope="module")
def held(shared_server):
    client = shared_server.client()
    yield client.create("held", labels=["module"], networkPolicy={"allow": ["web.example", "*.silent.example"]})
    client.delete("/sandbox/held")
    client.close()


def send(client, box, text, port=HEADS, **more):
    return probe(client, box, wish("lookup", "web.example"), wish("tcp", "web.example", port, send=text, **more))[1]


def cut(said):
    """Nobody heard of the other host. Behind an answer to what came before, node takes a reset for an end."""
    assert "shared" not in said["data"], said
    assert said.get("error") in ("ECONNRESET", "EPIPE") or said["data"].startswith("HTTP/1.1 200"), said


@pytest.mark.parametrize("what", SMUGGLED)
def test_another_host(client, held, what):
    cut(send(client, held, SMUGGLED[what]))


@pytest.mark.parametrize("what", HALVES)
def test_half_a_request_for_another_host(client, held, what):
    cut(send(client, held, HALVES[what], half=True))


@pytest.mark.parametrize("parts", [(b"GE", b"T / HTTP/1.1\r\n" + EVIL.encode()),
                                   (b"GET / HTTP/1.1\r\nHost: web.example\r\n\r\nG", b"ET / HTTP/1.1\r\n" + EVIL.encode()),
                                   (b"GET / HTTP/1.1\r\nHost: web.example\r\nX", b": y\r\n" + EVIL.encode())])
def test_urgent_bytes(client, held, parts):
    """Nobody sees beyond one before it was taken; without a mark of its own it is a byte like others."""
    script = (f"import socket\ns = socket.create_connection(('web.example', {HEADS}))\ntry:\n s.send({parts[0]!r}, socket.MSG_OOB)\n"
              f" s.send({parts[1]!r}); s.shutdown(socket.SHUT_WR)\n while d := s.recv(9999): print(d)\n"
              "except OSError as e: print('cut')")
    out = client.sh(held["id"], ["python3", "-c", script])
    assert out.endswith("cut\n") and "shared" not in out, out


def test_what_is_meant_well_passes(client, held):
    loose = send(client, held, "GET / HTTP/1.1\nHost: web.example\nConnection: close\n\n")
    assert "Host: web.example\r\n" in loose["data"], "with proper ends of lines"
    more = send(client, held, "GET / HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n\r\n\r\n", half=True)
    assert more["data"].startswith("HTTP/1.1 200"), more
    assert send(client, held, "no line", port=SLURP, half=True)["data"] == "7 bytes"
    assert send(client, held, "EHLO me\r\n", port=BANNER)["data"].endswith("you said EHLO me\r\n")


def test_questions_that_nobody_answers(client, net):
    """Those of an account are bounded, however many sandboxes ask: others have to be answered as well."""
    before = len(net.tell()["asked"])
    boxes = [client.create(f"asks-{i}", networkPolicy={"allow": ["*.silent.example"]}) for i in range(5)]
    for i, box in enumerate(boxes):
        names = [question(f"n{i}-{k}.silent.example") for k in range(80)]
        client.detach(box["id"], ["node", "-e", f"const s = require('dgram').createSocket('udp4');"
                                  f"{names!r}.forEach(q => s.send(Buffer.from(q, 'hex'), 53, '192.0.0.1'));"
                                  "s.on('message', m => console.log(m[3] & 15))"])

    def asked():
        return {n for n in net.tell()["asked"][before:] if n.endswith("silent.example")}
    until(lambda: len(asked()) >= 256, "as many as may be")
    assert probe(client, boxes[0], wish("http", WEB))[0].get("error"), "its way is there"
    assert len(asked()) == 256
