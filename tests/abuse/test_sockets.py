# SPDX-License-Identifier: Apache-2.0
"""WebSockets that break the rules: closed with the code of the table, and nobody else notices (A-52)."""
import pytest

from abuse.table import FRAMES
from harness.proc import rss_kib
from harness.websocket import PING, WebSocket


@pytest.fixture(scope="module")
def house(shared_server):
    client = shared_server.client()
    client.create("box", labels=["module"], memoryGB=0.25)
    yield client
    assert client.delete("/sandbox/box").status == 200
    client.close()


def open_terminal(client):
    return WebSocket(client, "/sandbox/box/terminal?command=sh")


def open_attach(client):
    return WebSocket(client, f"/sandbox/box/exec/{client.detach('box', 'sleep 1000', openStdin=True)}/attach")


@pytest.mark.parametrize("way", [open_terminal, open_attach], ids=["terminal", "attach"])
@pytest.mark.parametrize("data, code", [row[2:] for row in FRAMES], ids=[f"{row[0]} {row[1]}" for row in FRAMES])
def test_frame(house, way, data, code):
    with way(house) as socket:
        try:
            socket.raw(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert socket.end() in (code if isinstance(code, tuple) else (code,))
    assert house.sh("box", "echo fine") == "fine\n"


def test_a_flood_of_pings_is_answered_or_cut_and_bounded(shared_server, house):
    before = rss_kib(shared_server.pid("server"))
    with open_terminal(house) as socket:
        socket.sock.settimeout(1)
        flood = WebSocket.frame(PING, b"x" * 125) * 1000
        try:
            for _ in range(200):
                socket.raw(flood)
        except (TimeoutError, BrokenPipeError, ConnectionResetError):
            pass  # not listened to any more
        assert house.sh("box", "echo served") == "served\n"
        assert rss_kib(shared_server.pid("server")) - before < 8 << 10
