# SPDX-License-Identifier: Apache-2.0
"""Input while a command runs: streamed, in order, held up by who does not read, never half for whole."""
import hashlib
import os
import signal
import threading

import pytest

from harness.proc import rss_kib
from harness.wait import until


def begin(client, command, name="box", **spec):
    return client.detach(name, command, openStdin=True, **spec)


def write(client, eid, data, name="box", **query):
    return client.request("POST", f"/sandbox/{name}/exec/{eid}/stdin", data, query)


def ended(client, eid, name="box"):
    return until(lambda: (e := client.execution(name, eid))["status"] == "exited" and e, f"the end of {eid}")


def says(client, eid, want, name="box"):
    return until(lambda: want in (out := client.output(name, eid)) and out, f"{want!r} from {eid}")


def chunks(client, eid, pieces, **query):
    """A chunked body, piece by piece; returns the answer."""
    conn = client.connect()
    target, _, headers = client.encode(f"/sandbox/box/exec/{eid}/stdin", query, None, {"Transfer-Encoding": "chunked"})
    conn.request("POST", target, iter(pieces), headers, encode_chunked=True)
    response = conn.getresponse()
    return response.status, response.read()


def test_written_in_order_and_closed(client, box):
    eid = begin(client, "cat; echo end")
    for word in (b"one ", b"two ", b"three "):
        answer = write(client, eid, word)
        assert (answer.status, answer.json()) == (200, {"bytes": len(word), "closed": False})
    says(client, eid, b"one two three ")
    assert client.execution("box", eid)["status"] == "running"
    assert write(client, eid, b"four\n", close="true").json() == {"bytes": 5, "closed": True}
    assert ended(client, eid)["exitCode"] == 0
    assert client.output("box", eid) == b"one two three four\nend\n"


def test_bytes_of_any_value_and_a_chunked_body(client, box):
    every = bytes(range(256)) * 64
    eid = begin(client, "sha256sum")
    assert chunks(client, eid, [every, b"\0", every], close="true")[0] == 200
    ended(client, eid)
    assert client.output("box", eid).split()[0].decode() == hashlib.sha256(every + b"\0" + every).hexdigest()


def test_closed_by_an_empty_body(client, box):
    eid = begin(client, "cat; echo end")
    assert write(client, eid, None, close="true").status == 200
    assert ended(client, eid)["exitCode"] == 0


REFUSED = [
    ("never open", "sleep 60", {}, "STDIN_CLOSED"),
    ("closed by the process", "exec <&-; echo shut; sleep 60", {"openStdin": True}, "STDIN_CLOSED"),
]


@pytest.mark.parametrize("command,spec,code", [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_refused_where_nobody_takes_it(client, box, command, spec, code):
    eid = client.detach("box", command, **spec)
    if spec:
        says(client, eid, b"shut")
    answer = until(lambda: (a := write(client, eid, b"x")).status != 200 and a, "a refusal")
    assert (answer.status, answer.error["code"]) == (409, code)
    client.post(f"/sandbox/box/exec/{eid}/kill", {"signal": "SIGKILL"})
    ended(client, eid)
    answer = write(client, eid, b"x")
    assert (answer.status, answer.error["code"]) == (409, "EXECUTION_NOT_RUNNING")


def test_bad_requests_change_nothing(client, box):
    answer = client.post("/sandbox/box/exec", {"command": "cat", "stdin": "x", "openStdin": True})
    assert (answer.status, answer.error["details"]["field"]) == (400, "stdin")
    eid = begin(client, "cat")
    answer = write(client, eid, b"x", close="perhaps")
    assert (answer.status, answer.error["details"]["field"]) == (400, "close")
    assert write(client, "exec_0000000000000000", b"x").status == 404
    assert write(client, eid, b"fine\n", close="true").status == 200
    ended(client, eid)
    assert client.output("box", eid) == b"fine\n"


def test_half_a_body_closes_nothing(client, box):
    eid = begin(client, "cat; echo end")
    host = f"Host: {client.host}:{client.port}"
    for framing in ("Content-Length: 1000\r\n\r\nhalf ", "Transfer-Encoding: chunked\r\n\r\n5\r\nhalf \r\n"):
        with client.socket() as s:
            s.sendall(f"POST /api/v1/sandbox/box/exec/{eid}/stdin?close=true HTTP/1.1\r\n{host}\r\n{framing}".encode())
            says(client, eid, b"half ")
    until(lambda: client.output("box", eid) == b"half half ", "both halves")
    assert client.execution("box", eid)["status"] == "running"
    assert write(client, eid, b"whole\n", close="true").status == 200
    ended(client, eid)
    assert client.output("box", eid) == b"half half whole\nend\n"


def test_who_does_not_read_holds_up_only_its_writer(client, server, box):
    deaf = begin(client, "echo up; exec sleep 1000")
    before = rss_kib(server.pid("server"))
    stuck = []
    for _ in range(8):  # each sends until nobody takes any more
        s = client.socket()
        s.sendall(f"POST /api/v1/sandbox/box/exec/{deaf}/stdin HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n"
                  f"Content-Length: {1 << 30}\r\n\r\n".encode())
        s.settimeout(0.3)
        with pytest.raises(TimeoutError):
            while True:
                s.sendall(bytes(1 << 20))
        stuck.append(s)
    eid = begin(client, "wc -c")
    assert write(client, eid, bytes(8 << 20), close="true").status == 200
    assert ended(client, eid)["exitCode"] == 0
    assert client.output("box", eid) == b"%d\n" % (8 << 20)
    assert rss_kib(server.pid("server")) - before < 8 << 10
    client.post(f"/sandbox/box/exec/{deaf}/kill", {"signal": "SIGKILL"})
    for s in stuck:  # told that it ended
        s.settimeout(10)
        assert s.recv(64).startswith(b"HTTP/1.1 409 ")
        s.close()


def test_a_late_writer_holds_no_thread(client, box):
    """More half-sent bodies than there are workers; everybody else is served."""
    eids = [begin(client, "cat") for _ in range(3)]
    slow = []
    for i in range(45):
        s = client.socket()
        s.sendall(f"POST /api/v1/sandbox/box/exec/{eids[i % 3]}/stdin HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n"
                  "Content-Length: 100\r\n\r\nx".encode())
        slow.append(s)
    assert client.sh("box", "echo served") == "served\n"
    for s in slow:
        s.close()


def test_more_inputs_than_may_be(client, box):
    eid = begin(client, "exec sleep 1000")
    open_ones = []
    for _ in range(16):
        s = client.socket()
        s.sendall(f"POST /api/v1/sandbox/box/exec/{eid}/stdin HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n"
                  "Expect: 100-continue\r\nContent-Length: 100\r\n\r\n".encode())
        assert s.recv(64).startswith(b"HTTP/1.1 100 ")
        open_ones.append(s)
    answer = write(client, eid, b"x")
    assert (answer.status, answer.error["code"]) == (429, "TOO_MANY_INPUTS")
    for s in open_ones:
        s.close()
    until(lambda: write(client, eid, b"x").status == 200, "a place")


def test_stays_open_over_a_kill_of_the_server(fresh):
    server = fresh()
    server.start()
    client = server.client()
    client.create("box")
    eid = begin(client, "cat; echo end")
    s = client.socket()
    s.sendall(f"POST /api/v1/sandbox/box/exec/{eid}/stdin?close=true HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n"
              "Content-Length: 100\r\n\r\nbefore ".encode())
    says(client, eid, b"before ")
    server.kill("server", signal.SIGKILL)
    server.recover()
    s.close()
    client = server.client()
    assert client.execution("box", eid)["status"] == "running"
    assert write(client, eid, b"after\n", close="true").status == 200
    assert ended(client, eid)["exitCode"] == 0
    assert client.output("box", eid) == b"before after\nend\n"


def test_much_in_little_memory(client, server, box):
    eid = begin(client, "wc -c")
    before, size = rss_kib(server.pid("server")), 256 << 20
    block, conn = os.urandom(1 << 20), client.connect()
    threads = [threading.Thread(target=lambda: conn.request(
        "POST", f"/api/v1/sandbox/box/exec/{eid}/stdin?close=true", (block for _ in range(size >> 20)),
        {"Content-Length": str(size)}))]
    threads[0].start()
    peak = before
    while threads[0].is_alive():
        peak = max(peak, rss_kib(server.pid("server")))
        threads[0].join(0.05)
    assert conn.getresponse().status == 200
    ended(client, eid)
    assert client.output("box", eid) == b"%d\n" % size
    assert peak - before < 8 << 10
