# SPDX-License-Identifier: Apache-2.0
"""Sandboxes and clients that take all they can get."""
import os
import statistics
import threading
import time
from pathlib import Path

import pytest

from harness import proc
from harness.disk import taken
from harness.wait import stretch, until

PIDS_LIMIT = 512
BOMBS = 9


def exec_times(client, name, n):
    took = []
    for _ in range(n):
        began = time.monotonic()
        client.exec(name, ["true"])
        took.append(time.monotonic() - began)
    return sorted(took)


def p95(sorted_values):
    return sorted_values[int(len(sorted_values) * 0.95)]


def is_quiet():
    """Nobody else uses this machine: of a fifth of a second its processors were idle most of the time."""
    def times():
        return [int(n) for n in Path("/proc/stat").read_text().split("\n")[0].split()[1:]]

    before = times()
    time.sleep(0.2)
    spent = [b - a for a, b in zip(before, times())]
    return spent[3] > 0.8 * sum(spent)


def bomb_round(client):
    """One bomb: by how much it slows others' commands down, against just before it; and how long it takes to be gone."""
    client.create("bomb")
    # Of so few commands one in twenty meets a stretch of the processor that was dealt to the bomb, and several where others
    # use it as well. What many say, `make bench ROWS=neighbours` tells.
    dealt = stretch(0.005 if is_quiet() else 0.025)
    calm = exec_times(client, "neighbour", 40)
    bomb = "import os\nwhile True:\n try: os.fork()\n except OSError: pass"
    client.detach("bomb", ["python3", "-c", bomb])
    ident = client.sandbox("bomb")["id"]
    until(lambda: len(proc.in_cgroup(ident)) > PIDS_LIMIT // 2, "it grows", 20)
    held = max(len(proc.in_cgroup(ident)) for _ in range(5))
    assert held <= PIDS_LIMIT + 1
    busy = exec_times(client, "neighbour", 40)
    refused = client.post("/sandbox/bomb/exec", {"command": ["true"]})
    assert refused.status in (200, 409, 429, 500, 502, 503, 504), refused
    began = time.monotonic()
    assert client.delete("/sandbox/bomb").status == 200
    took = time.monotonic() - began
    assert proc.in_cgroup(ident) == []
    return (p95(busy) - dealt) / p95(calm), took


def test_fork_bomb(server, client):
    """F-25: others' p95 is less than twice what it was and what is dealt, and it is gone within 2 s. Each round is held against its own quiet
    time; of so many as a busy machine may need the median counts."""
    client.create("neighbour")
    rounds = []
    while len(rounds) < BOMBS:
        rounds.append(bomb_round(client))
        slower, took = (statistics.median(figures) for figures in zip(*rounds))
        if len(rounds) >= 3 and slower < 2 and took <= 2:
            break
    assert slower < 2 and took <= 2, rounds


HOGS = {
    "heap": ["python3", "-c", "b = []\nwhile True: b.append(bytearray(8 << 20))"],
    "shm": "head -c 2G /dev/zero > /dev/shm/fill; stat -c %s /dev/shm/fill; exec python3 -c 'bytearray(100 << 20)'",
    "memfd": ["python3", "-c", "import os\nf = os.memfd_create('x')\nwhile True: os.write(f, bytes(8 << 20))"],
    "page cache": "head -c 300M /dev/zero > /workspace/f; cat /workspace/f > /dev/null",
}


@pytest.mark.parametrize("hog", HOGS)
def test_memory_hog(server, client, hog):
    """F-26: that sandbox alone."""
    client.create("hog", memoryGB=0.125)
    client.create("neighbour", memoryGB=0.125)
    server_rss = proc.rss_kib(server.pid("server"))
    result = client.exec("hog", HOGS[hog], timeoutMs=30_000)
    if hog in ("heap", "shm", "memfd"):
        assert (result["reason"], result["exitCode"]) == ("oom", 137), result
    if hog == "shm":  # refused at its size, which counts as memory: there was enough for the rest without it
        assert "No space left on device" in result["stderr"] and int(result["stdout"]) <= 64 << 20, result
    if hog == "page cache":
        assert result["exitCode"] == 0, result
    assert client.sandbox("hog")["status"] == "RUNNING", "pid 1 outlives what it started"
    assert client.sh("neighbour", "echo fine") == "fine\n"
    assert proc.rss_kib(server.pid("server")) - server_rss < 8192
    assert client.delete("/sandbox/hog").status == 200


PTRACE_STOPPED = """
import ctypes, os, signal, time
libc = ctypes.CDLL(None)
if os.fork() == 0:
    libc.ptrace(0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(1000)
print('up', flush=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(1000)
"""
UNDYING = {
    "ignores SIGTERM": ["sh", "-c", "trap '' TERM HUP INT; echo up; while :; do sleep 0.1; done"],
    "double fork": ["python3", "-c", "import os, signal, time\nsignal.signal(15, signal.SIG_IGN)\n"
                    "if os.fork() == 0:\n os.setsid()\n if os.fork(): os._exit(0)\n time.sleep(1000)\nprint('up')"],
    "setsid": ["sh", "-c", "trap '' TERM; setsid sleep 1000 & setsid -f sleep 1000; echo up"],
    "stopped": ["sh", "-c", "echo up; kill -STOP $$"],
    "all stopped": ["sh", "-c", "trap '' TERM; sleep 1000 & echo up; kill -STOP -1; kill -STOP $$"],
    "ptrace": ["python3", "-c", PTRACE_STOPPED],
    "forks on SIGTERM": ["python3", "-c", "import os, signal, time\n"
                         "signal.signal(15, lambda *_: [os.fork() for _ in range(3)])\nprint('up', flush=True)\n"
                         "while True: time.sleep(0.05)"],
    "blocked in vfork": ["python3", "-c", "import ctypes, time\nprint('up', flush=True)\n"
                         "if ctypes.CDLL(None).vfork() == 0: time.sleep(1000)"],
}


@pytest.mark.parametrize("kind", UNDYING)
@pytest.mark.parametrize("end", ["stop", "delete"])
def test_what_will_not_end(server, client, kind, end):
    """F-28: SIGKILL after the grace, and none is left."""
    client.create("stubborn")
    ident = client.detach("stubborn", UNDYING[kind])
    until(lambda: client.output("stubborn", ident) == b"up\n", "it is up")
    began = time.monotonic()
    if end == "stop":
        answer = client.post("/sandbox/stubborn/stop", {"graceMs": 300})
        assert answer.json()["status"] == "STOPPED", answer
    else:
        assert client.delete("/sandbox/stubborn").status == 200
    assert time.monotonic() - began < stretch(3)
    assert server.sandbox_processes() == []


def test_pid_1_cannot_be_starved_or_stopped(client):
    """A tenant that stops and kills everything it can reach, as user and as root inside."""
    client.create("attacked")
    storm = "import os, signal, time\ne = time.time() + 1.5\nwhile time.time() < e:\n" \
            " for p in [1]:\n  for s in (19, 9, 15, 2, 17, 10):\n   try: os.kill(p, s)\n   except OSError: pass\n"
    runs = [client.detach("attacked", ["python3", "-c", storm], user=user) for user in ("user", "root")]
    for _ in range(10):
        assert client.exec("attacked", ["true"])["exitCode"] == 0
    for ident in runs:
        until(lambda: client.execution("attacked", ident)["status"] == "exited", "the storm is over")
    stop_all = client.detach("attacked", "while :; do kill -STOP -1; done 2>/dev/null", user="root")
    time.sleep(0.3)
    client.post(f"/sandbox/attacked/exec/{stop_all}/kill", {"signal": "SIGKILL"})
    until(lambda: client.execution("attacked", stop_all)["status"] == "exited", "even that is killed")
    assert client.sandbox("attacked")["status"] == "RUNNING"
    assert client.exec("attacked", ["echo", "still"], timeoutMs=5000)["stdout"] == "still\n"


FLOODS = {
    "lines": ["yes"],
    "no newline": "yes | tr -d '\\n'",
    "zeros": ["cat", "/dev/zero"],
    "random": ["cat", "/dev/urandom"],
    "colours": ["python3", "-c", "import sys\nwhile True: sys.stdout.write('\\x1b[31mred\\x1b[0m\\r' * 1000)"],
    "broken UTF-8": ["python3", "-c", "import sys\nwhile True: sys.stdout.buffer.write(b'\\xe6\\x97\\xff\\xc0' * 1000)"],
    "both streams": "yes & yes >&2",
}


@pytest.mark.parametrize("flood", FLOODS)
def test_output_flood(server, client, flood):
    """F-30: bounded on disk and in memory, and every frame of the stream is valid."""
    client.create("flood")
    client.exec("flood", ["true"])
    pid = server.pid("server")
    rss, disk = proc.rss_kib(pid), taken(os.path.join(server.data, "logs"))
    ident = client.detach("flood", FLOODS[flood], timeoutMs=int(stretch(2500)))
    most, frames = 0, []

    def read():
        with server.client().events("GET", f"/sandbox/flood/exec/{ident}/output", query={"follow": "true"}) as stream:
            for event in stream.events():
                frames.append(event.name)
                if event.name in ("stdout", "stderr"):
                    event.bytes()

    reader = threading.Thread(target=read)
    reader.start()
    while client.execution("flood", ident)["status"] == "running":
        most = max(most, proc.rss_kib(pid))
        assert taken(os.path.join(server.data, "logs")) - disk < 40 << 20
        time.sleep(0.1)
    reader.join(stretch(30))
    assert not reader.is_alive() and frames[-1] == "exit"
    assert most - rss < 8192, f"the server grew by {most - rss} KiB"
    assert taken(os.path.join(server.data, "logs")) - disk < 20 << 20
    told = client.execution("flood", ident)
    assert told["reason"] == "timeout" and told["truncated"] is True
    assert client.sh("flood", "echo fine") == "fine\n"
    client.post("/sandbox/flood/stop", {"graceMs": 0})


@pytest.mark.limit(120)
def test_readers_that_never_read(server, client):
    """F-31: 500 of them cost little, and nobody else notices."""
    client.create("source")
    ident = client.detach("source", ["sh", "-c", "yes | head -c 20M; touch /tmp/written; sleep 1000"])
    until(lambda: client.exec("source", ["test", "-e", "/tmp/written"])["exitCode"] == 0, "all is written", 20)
    pid = server.pid("server")
    rss = proc.rss_kib(pid)
    calm = exec_times(client, "source", 30)
    request = (f"GET /api/v1/sandbox/source/exec/{ident}/output?follow=true HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\n"
               "Accept: text/event-stream\r\n\r\n").encode()
    sockets = []
    try:
        for _ in range(500):
            s = client.socket()
            s.sendall(request)
            sockets.append(s)
        most = 0
        for _ in range(20):
            time.sleep(0.1)
            most = max(most, proc.rss_kib(pid))
        busy = exec_times(client, "source", 30)
        # A record has up to 64 KiB, which escapes make longer; more than one of them never waits for a reader.
        assert most - rss < 500 * 128, f"the server grew by {most - rss} KiB"
        assert statistics.median(busy) < 2 * statistics.median(calm) + 0.01
        # Who takes no byte for 30 s is cut: the server closes, and this side sees the end.
        time.sleep(31)
        until(lambda: len(os.listdir(f"/proc/{pid}/fd")) < 200, "they are cut", 20, 0.5)
    finally:
        for s in sockets:
            s.close()
    client.close()  # ours was idle for as long
    assert client.sh("source", "echo fine") == "fine\n"


def test_idle_connections_are_cheap(server, client):
    client.create("box")
    pid, rss = server.pid("server"), proc.rss_kib(server.pid("server"))
    sockets = [client.socket() for _ in range(2000)]
    try:
        assert client.exec("box", ["echo", "x"])["stdout"] == "x\n"
        assert proc.rss_kib(pid) - rss < 2000 * 16
    finally:
        for s in sockets:
            s.close()
    until(lambda: len(os.listdir(f"/proc/{pid}/fd")) < 200, "descriptors come back")
