# SPDX-License-Identifier: Apache-2.0
"""Record and reality drift apart: an engine that hangs, answers that are lost, sandboxes that go behind our back, a
disk without room for the database, and a database of another version."""
import os
import shutil
import signal
import sqlite3
import time

import pytest

from fault.test_store import failing, needs_strace
from harness.server import NotReady
from harness.wait import until


@pytest.mark.slow
@pytest.mark.limit(200)
def test_a_create_that_hangs(fresh):
    """F-07: 504 at the deadline; what is made too late is removed."""
    server = fresh().start()
    client = server.client()
    engine = server.pid("engine")
    os.kill(engine, signal.SIGSTOP)
    try:
        began = time.monotonic()
        answer = client.post("/sandbox", {"name": "late"})
        assert answer.status in (503, 504) and time.monotonic() - began < 50, answer
        assert client.get("/sandbox").status == 200, "reads go on"
    finally:
        os.kill(engine, signal.SIGCONT)
    until(lambda: "late" not in client.names(include_terminated="true") and server.inits() == [], "nothing is left", 120, 0.5)
    assert client.create("late")["status"] == "RUNNING"


def test_an_answer_that_is_lost(fresh):
    """F-08: the same key gives the same sandbox, and there is one."""
    server = fresh().start()
    client = server.client()
    body = b'{"name":"once"}'
    with client.socket() as s:
        s.sendall(b"POST /api/v1/sandbox HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nIdempotency-Key: k\r\n"
                  b"Content-Length: %d\r\n\r\n" % (client.port, len(body)) + body)
    until(lambda: client.names() == ["once"] and client.sandbox("once")["status"] == "RUNNING", "it is made", 20, 0.05)
    again = client.request("POST", "/sandbox", body, headers={"Idempotency-Key": "k"})
    assert again.status == 201 and again.json()["id"] == client.sandbox("once")["id"], again
    server.kill("server")
    server.recover()
    client.close()
    third = client.request("POST", "/sandbox", body, headers={"Idempotency-Key": "k"})
    assert third.json()["id"] == again.json()["id"] and len(server.inits()) == 1


def test_removed_behind_our_back(fresh):
    """F-13: its row says so, nobody hangs, and it can be deleted."""
    server = fresh().start()
    client = server.client()
    client.create("other")
    (other,) = server.inits()
    client.create("victim")
    (pid,) = set(server.inits()) - {other}
    os.kill(pid, signal.SIGKILL)
    until(lambda: client.sandbox("victim")["status"] in ("ERROR", "TERMINATED"), "its row says so", 30, 0.1)
    sandbox = client.sandbox("victim")
    assert sandbox["terminationReason"] == "signal" and "outside" in sandbox["termination"]["message"], sandbox
    answer = client.post("/sandbox/victim/exec", {"command": "true"})
    assert answer.status == 409, answer
    assert client.delete("/sandbox/victim").status == 200 and client.sandbox("other")["status"] == "RUNNING"


def test_those_of_others_are_not_touched(fresh):
    """F-14: another server's, by the same names, and a group that looks like ours."""
    one, two = fresh().start(), fresh().start()
    for server in (one, two):
        server.client().create("box")
    theirs = two.inits()
    one.client().create("gone")
    for role in ("server", "engine"):
        one.kill(role)
        one.recover()
    assert one.client().delete("/sandbox/box").status == 200
    assert one.down().returncode == 0
    assert two.inits() == theirs and two.client().sh("box", "echo here") == "here\n"


@needs_strace
def test_no_room_for_the_database(fresh):
    """F-19: writes are refused with a code, reads go on, and it recovers without a restart."""
    server = fresh().start()
    client = server.client()
    client.create("before")
    with failing(server.pid("server"), "pwrite64", "error=ENOSPC"):
        answer = client.post("/sandbox", {"name": "unlucky"})
        assert answer.status == 500 and answer.error["code"] == "DATABASE_ERROR", answer
        answer = client.request("PATCH", "/sandbox/before", {"labels": ["x"]})
        assert answer.status == 500 and answer.error["code"] == "DATABASE_ERROR", answer
        assert client.sandbox("before")["labels"] == [] and client.names() == ["before"]
    assert client.request("PATCH", "/sandbox/before", {"labels": ["x"]}).json()["labels"] == ["x"]
    assert client.create("lucky")["status"] == "RUNNING"
    until(lambda: len(server.inits()) == 2, "nothing of the other is left", 65, 0.2)


def test_a_database_of_the_next_version(fresh):
    """F-42: refused, with what is there untouched; and the right program goes on with it."""
    server = fresh().start()
    client = server.client()
    client.create("box")
    pids = server.inits()
    server.stop()
    path = os.path.join(server.data, "cay.db")
    with sqlite3.connect(path) as db:
        (version,) = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + 1}")
    db.close()
    kept = shutil.copy(path, server.data + ".db")
    with pytest.raises(NotReady) as refused:
        server.start()
    assert "newer" in str(refused.value) or "version" in str(refused.value), refused.value
    assert server.inits() == pids
    with open(kept, "rb") as a, open(path, "rb") as b:
        assert a.read() == b.read()
    os.unlink(kept)
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {version}")
    db.close()
    server.start()
    assert server.client().sh("box", "echo here") == "here\n" and server.inits() == pids
