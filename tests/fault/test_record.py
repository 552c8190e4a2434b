# SPDX-License-Identifier: Apache-2.0
"""Record and reality drift apart: an engine that hangs, answers that are lost, sandboxes that go behind our back, a
disk without room for the database, and a database of another version."""
import ctypes
import os
import shutil
import signal
import sqlite3
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from fault.test_store import failing, needs_strace
from harness import proc
from harness.berths import of_engine
from harness.engine import Engine, Refused
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


def row(server, ident):
    """As it is on the disk, which tells what a server means to do that does not answer yet."""
    db = sqlite3.connect(f"file:{server.data}/cay.db?mode=ro", uri=True)
    try:
        return db.execute("SELECT meta_data FROM sandboxes WHERE id = ?", (ident,)).fetchone()[0]
    finally:
        db.close()


def test_a_deletion_that_the_engine_goes_on_with(fresh):
    """The row says that it runs: who asked was told that nobody answers. It is no sandbox in error, but deleted."""
    server = fresh().start()
    ident = server.client().create("box", persistent=True)["id"]
    engine, spawners = Engine(server), of_engine(server, "cay-spawn")
    for pid in spawners:
        os.kill(pid, signal.SIGSTOP)
    engine.send("destroy", ident)
    until(lambda: not server.inits(), "it is killed")
    server.kill("server")
    until(lambda: '"removal":"deleted"' in row(server, ident), "the next server has seen it")
    for pid in spawners:
        os.kill(pid, signal.SIGCONT)
    server.recover()
    client = server.client()
    engine.answer()
    until(lambda: client.sandbox(ident)["status"] == "TERMINATED", "its row says so")
    assert client.sandbox(ident)["terminationReason"] == "deleted" and server.traces() == {}


def change(server, ident, **fields):
    """Other words in what the engine wrote of a sandbox, which is as long as before."""
    record = Path(server.data, "engine", "records", ident)
    lines = dict(line.split("=", 1) for line in record.read_text(encoding="ascii").splitlines() if line)
    size, lines = record.stat().st_size, lines | {key: str(value) for key, value in fields.items()}
    record.write_text("".join(f"{key}={value}\n" for key, value in lines.items()).ljust(size, "\n"), encoding="ascii")
    assert record.stat().st_size == size


def test_a_number_that_is_anothers_now(fresh):
    """Who has the pid of one that died was started at another time or boot: it is not adopted, and nobody kills it."""
    server = fresh().start()
    client = server.client()
    with subprocess.Popen(["sleep", "infinity"]) as other, subprocess.Popen(["true"]) as nobody:
        try:
            nobody.wait()
            ticks = int(proc.text(other.pid, "stat").rpartition(")")[2].split()[19])
            boot = str(uuid.uuid4())
            earlier = {"pid": other.pid, "start_ticks": ticks - 1}  # its own may be the same: a tick is 10 ms
            cases = {
                "started-later": earlier,
                "another-boot": {"pid": other.pid, "start_ticks": ticks, "boot_id": boot},
                "no-start": {"pid": other.pid, "start_ticks": 0},
                "no-start-nobody": {"pid": nobody.pid, "start_ticks": 0},
                "was-paused": {**earlier, "paused": 1},
                "was-stopping": {**earlier, "intent": 1},
                "was-going": {**earlier, "intent": 2},
            }
            idents = {name: client.create(name, persistent=True)["id"] for name in cases}
            stays = client.create("stays")["id"]
            inits = {name: server.init(ident) for name, ident in idents.items()}
            server.kill("all")
            for name, fields in cases.items():
                os.kill(inits[name], signal.SIGKILL)
                until(lambda: not os.path.exists(f"/proc/{inits[name]}"), "it is gone")
                change(server, idents[name], **fields)
            server.recover()
            client = server.client()
            until(lambda: set(client.names(status="RUNNING")) <= {"stays", "was-going"}, "the dead are known as such", 65, 0.1)
            assert server.inits() == [server.init(stays)] and client.sh("stays", "echo hi") == "hi\n"
            started = [name for name in cases if client.post(f"/sandbox/{name}/start").status == 200]
            assert "started-later" in started and len(server.inits()) == 1 + len(started)
            for name in (*cases, "stays"):
                assert client.delete(f"/sandbox/{name}").status in (200, 404), name
            assert server.inits() == [] and server.traces() == {}
            assert other.poll() is None, "nobody has killed it"
        finally:
            other.kill()


class CloneArgs(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in (
        "flags", "pidfd", "child_tid", "parent_tid", "exit_signal", "stack", "stack_size", "tls", "set_tid", "set_tid_size", "cgroup")]


def sleeper(pid):
    """A process of ours that has this number, or None while another has it."""
    number = ctypes.c_int(pid)
    args = CloneArgs(exit_signal=signal.SIGCHLD, set_tid=ctypes.addressof(number), set_tid_size=1)
    got = ctypes.CDLL(None, use_errno=True).syscall(435, ctypes.byref(args), ctypes.sizeof(args))  # clone3
    if got == 0:
        os.execv("/bin/sleep", ["sleep", "infinity"])
    return got if got > 0 else None


def test_nobody_enters_the_network_of_another(fresh):
    """An adopted one dies, and its number is given away, before the engine has heard of it: what was asked is refused."""
    server = fresh().start()
    ident = server.client().create("box")["id"]
    server.kill("engine")
    server.recover()
    pid, asked, stopped = server.init(ident), Engine(server), server.pid("engine")
    tcp4 = 1
    assert asked.ask("socket", ident, socket=tcp4) == (b"", b"")
    os.kill(stopped, signal.SIGSTOP)
    try:
        asked.send("socket", ident, socket=tcp4)
        os.kill(pid, signal.SIGKILL)
        other = until(lambda: sleeper(pid), "its number is free")
    finally:
        os.kill(stopped, signal.SIGCONT)
    try:
        with pytest.raises(Refused) as refusal:
            asked.answer()
        assert refusal.value.name == "SANDBOX_NOT_RUNNING", refusal.value
        assert other == pid and proc.alive(other)
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
        asked.close()


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
