# SPDX-License-Identifier: Apache-2.0
"""Large answers: readers that do not read cannot run the server out of memory."""
import re
import socket

from harness import proc
from harness.wait import until

READERS = 100
BOUND_MIB = 384  # the budget of 256 MiB, what the server has anyway, and what the allocator keeps
SIZE = 15 << 20
ZEROS = f"head -c {SIZE} /dev/zero"  # each becomes six bytes of JSON: 90 MiB


def peak_mib(pid):
    return int(re.search(r"VmHWM:\s*(\d+)", proc.text(pid, "status")).group(1)) >> 10


def claimed(client):
    conn = client.connect()
    conn.request("GET", "/metrics")
    text = conn.getresponse().read().decode()
    conn.close()
    return int(re.search(r"^cay_http_large_answer_bytes (\d+)", text, re.M).group(1))


def logs(client):
    return client.get("/sandbox/big/logs").json()["logs"]


def ask(client):
    """Sends a request, and reads no more than the first line of its answer."""
    sock = client.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.sendall(f"GET /api/v1/sandbox/big/logs HTTP/1.1\r\nHost: {client.host}:{client.port}\r\n\r\n".encode())
    return sock


def status(sock):
    got = b""
    while len(got) < 12:
        got += sock.recv(12 - len(got))
    return int(got[9:12])


def test_readers_that_do_not_read(server, client):
    client.create("big", startCommand=ZEROS)
    client.create("box")
    until(lambda: len(logs(client)) == SIZE, "the whole log")
    until(lambda: claimed(client) == 0, "the budget is whole")
    pid = server.pid("server")
    readers = [ask(client) for _ in range(READERS)]
    statuses = [status(sock) for sock in readers]
    assert peak_mib(pid) < BOUND_MIB, peak_mib(pid)
    assert set(statuses) == {200, 503} and 1 <= statuses.count(200) <= 2, statuses

    refused = client.get("/sandbox/big/logs")
    assert refused.status == 503 and refused.error["code"] == "TOO_MANY_LARGE_ANSWERS"
    assert "text/event-stream" in refused.error["message"] and refused.headers["Retry-After"]
    assert client.sh("box", "echo served") == "served\n"
    with client.events("GET", "/sandbox/big/logs", query={"follow": "false"}) as stream:
        assert sum(len(e.bytes()) for e in stream.events() if e.name == "stdout") == SIZE

    lost = client.post("/sandbox/box/exec", {"command": ZEROS})
    assert lost.status == 503 and lost.error["code"] == "TOO_MANY_LARGE_ANSWERS"
    ident = re.match(r"exec_\w+", lost.error["message"]).group(0)
    assert client.execution("box", ident)["exitCode"] == 0
    assert client.post("/sandbox/box/exec", {"command": ZEROS, "outputLimit": 1000}).status == 200

    for sock in readers:
        sock.close()
    until(lambda: claimed(client) == 0, "the budget is whole")
    assert len(logs(client)) == SIZE
    whole = client.post("/sandbox/box/exec", {"command": ZEROS}).json()
    assert len(whole["stdout"]) == SIZE and not whole["truncated"]
    assert peak_mib(pid) < BOUND_MIB, peak_mib(pid)
