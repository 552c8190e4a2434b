# SPDX-License-Identifier: Apache-2.0
"""What a sandbox uses: once, as a stream, and on the command line."""
import json
import os
import pty
import subprocess
import threading

import pytest

from harness.server import CAY
from harness.wait import stretch, until

SHAPE = {
    "cpu": {"usageMs", "percent", "limitCores"}, "memory": {"bytes", "peakBytes", "limitBytes"}, "pids": {"now", "limit"},
    "disk": {"bytes", "limitBytes", "enforcedBy"}, "io": {"readBytes", "writeBytes"}, "network": {"rxBytes", "txBytes"},
}
BUSY = "while :; do :; done"


def stats(client, ident, **query):
    answer = client.get(f"/sandbox/{ident}/stats", **query)
    assert answer.status == 200, answer
    return answer.json()


def test_shape_and_limits(client):
    client.create("box", cpuCores=0.5, memoryGB=0.25, diskSizeGB=1)
    got = stats(client, "box")
    assert {k: set(v) for k, v in got.items() if isinstance(v, dict)} == SHAPE
    assert got["cpu"]["limitCores"] == 0.5 and got["memory"]["limitBytes"] == 256 << 20
    assert got["pids"]["now"] >= 1 and got["pids"]["limit"] == 512
    assert 0 < got["memory"]["bytes"] <= got["memory"]["peakBytes"] <= 256 << 20
    assert got["disk"]["enforcedBy"] == client.sandbox("box")["diskEnforcedBy"]


def test_io(client, box):
    """Bytes that went to the disk and came from it, of commands that ended and of those that run."""
    mib = 1 << 20
    direct = 6 * mib  # of 8: what dd reads first btrfs may take from its cache

    def reaches(read, written, what):
        def told():
            io = stats(client, "box")["io"]
            return io if io["readBytes"] >= read and io["writeBytes"] >= written else None
        return until(told, what)

    client.sh("box", "dd if=/dev/zero of=past bs=1M count=8 oflag=direct; dd if=/dev/zero of=through bs=1M count=8 conv=fsync")
    client.sh("box", "dd if=past of=/dev/null bs=1M iflag=direct; cp past /dev/shm; cat through > /dev/null")
    ended = reaches(direct, 16 * mib, "what ended commands did is told")
    assert ended["writeBytes"] < 18 * mib, "once"
    client.detach("box", "dd if=/dev/zero of=more bs=1M count=8 oflag=direct; dd if=past of=/dev/null bs=1M iflag=direct; sleep 600")
    reaches(ended["readBytes"] + direct, ended["writeBytes"] + 8 * mib, "what a command's children did is told while it runs")
    client.post("/sandbox/box/stop", {"graceMs": 0})
    client.post("/sandbox/box/start")
    assert stats(client, "box")["io"]["writeBytes"] < mib, "another run begins anew"


def test_percent_is_between_two_readings(client, box):
    assert stats(client, "box")["cpu"]["percent"] is None, "one reading tells no speed"
    client.detach("box", BUSY)
    before = stats(client, "box")["cpu"]["usageMs"]
    until(lambda: stats(client, "box")["cpu"]["usageMs"] > before + 200, "it uses CPU")
    busy = stats(client, "box")["cpu"]["percent"]
    assert 0 < busy <= 130, busy  # of the one core it may have
    client.post("/sandbox/box/pause")
    until(lambda: stats(client, "box")["cpu"]["percent"] == 0, "a paused one uses none")
    client.post("/sandbox/box/stop", {"graceMs": 0})
    assert client.get("/sandbox/box/stats").error["code"] == "SANDBOX_NOT_RUNNING"
    client.post("/sandbox/box/start")
    assert stats(client, "box")["cpu"]["percent"] is None, "another run begins anew"


def test_stream(client, box):
    with client.events("GET", "/sandbox/box/stats", query={"intervalMs": 100}) as stream:
        events = stream.events()
        assert next(events).data["cpu"]["percent"] is None
        client.detach("box", BUSY)
        seen = [next(events) for _ in range(10)]
        assert {e.name for e in seen} == {"stats"} and any(e.data["cpu"]["percent"] > 0 for e in seen)
        use = [e.data["cpu"]["usageMs"] for e in seen]
        assert use == sorted(use) and use[-1] > use[0]
        client.delete("/sandbox/box")
        *_, last = events
        assert (last.name, last.data) == ("end", {"status": "TERMINATED"})


def test_stream_has_the_limits_of_now(client, box):
    with client.events("GET", "/sandbox/box/stats", query={"intervalMs": 100}) as stream:
        events = stream.events()
        assert next(events).data["memory"]["limitBytes"] == 2 << 30
        answer = client.request("PATCH", "/sandbox/box", {"memoryGB": 0.5, "cpuCores": 0.5})
        assert answer.status == 200, answer
        told = [next(events).data for _ in range(3)][-1]
        assert told["memory"]["limitBytes"] == 512 << 20 and told["cpu"]["limitCores"] == 0.5


@pytest.mark.parametrize("interval", [99, 60001, "x", -1])
def test_bad_intervals(client, box, interval):
    answer = client.get("/sandbox/box/stats", intervalMs=interval)
    assert answer.status == 400 and answer.error["details"]["field"] == "intervalMs", answer


def test_many_streams_hold_no_thread(server, client, box):
    def threads():
        return len(os.listdir(f"/proc/{server.pid('server')}/task"))

    before, streams = threads(), []
    try:
        for _ in range(100):
            streams.append(client.events("GET", "/sandbox/box/stats", query={"intervalMs": 200}))
        for stream in streams:
            events = stream.events()
            next(events), next(events)
        assert threads() == before
        assert client.sh("box", "echo works") == "works\n"
    finally:
        for stream in streams:
            stream.close()


def test_stream_goes_on_over_a_restart_of_the_engine(fresh):
    server = fresh().start()
    client = server.client()
    client.create("box")
    with client.events("GET", "/sandbox/box/stats", query={"intervalMs": 100}) as stream:
        events = stream.events()
        next(events)
        server.kill("engine")
        for _ in range(3):
            assert next(events).name == "stats"
    client.close()


def test_command_line(server, client, box):
    def cay(*args):
        return subprocess.run([CAY, "stats", *args], capture_output=True, text=True, timeout=stretch(30),
                              env={**os.environ, "CAY_URL": server.url})

    done = cay("box")
    cells = done.stdout.rstrip("\n").split("\t")
    assert done.returncode == 0 and len(cells) == 9 and cells[2] == str(2 << 30), done
    assert float(cells[0]) >= 0
    assert set(json.loads(cay("--json", "box").stdout)) >= set(SHAPE)
    assert cay("nobody").returncode == 1
    assert cay("--interval", "10ms", "-f", "box").returncode == 2


def test_command_line_follows_in_place(server, client, box):
    leader, follower = pty.openpty()
    process = subprocess.Popen([CAY, "stats", "-f", "--interval", "100ms", "box"], stdout=follower,
                               env={**os.environ, "CAY_URL": server.url, "TERM": "xterm"})
    os.close(follower)
    out = b""
    while out.count(b"CPU ") < 3:
        out += os.read(leader, 65536)
    assert b"\033[2A\033[J" in out and b"2 GiB" in out
    drain = threading.Thread(target=lambda: [None for _ in iter(lambda: read(leader), b"")])
    drain.start()
    client.delete("/sandbox/box")
    assert process.wait(stretch(10)) == 0
    drain.join(stretch(10))
    os.close(leader)


def read(fd):
    try:
        return os.read(fd, 65536)
    except OSError:
        return b""  # how a terminal tells that its other side is closed
