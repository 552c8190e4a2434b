# SPDX-License-Identifier: Apache-2.0
"""The disk under the database fails, and the database itself is damaged."""
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.server import NotReady
from harness.wait import stretch, until

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")


@contextmanager
def failing(pids, calls, fault, log="/dev/null"):
    """Each of these system calls of the process, or of several and all that they make, fails, while inside."""
    pids = pids if isinstance(pids, list) else [pids]
    tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", log, *(f"--attach={pid}" for pid in pids),
                               "-e", f"trace={calls}", "-e", f"inject={calls}:{fault}"], stderr=subprocess.PIPE)
    try:
        for pid in pids:
            until(lambda: "TracerPid:\t0" not in Path(f"/proc/{pid}/status").read_text(), "strace is attached")
        yield
    finally:
        tracer.send_signal(signal.SIGTERM)
        try:
            tracer.wait(stretch(10))
        except subprocess.TimeoutExpired:
            tracer.kill()  # whom it holds died meanwhile, and it waits to let go of them
            tracer.wait()
        tracer.stderr.close()


@needs_strace
@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_sync_fails_during_create(fresh, error):
    """F-09: 500, the sandbox is destroyed, and others are as they were."""
    server = fresh().start()
    client = server.client()
    client.create("before")
    with failing(server.pid("server"), "fsync,fdatasync", f"error={error}"):
        answer = client.post("/sandbox", {"name": "unlucky"})
        assert answer.status in (500, 503) and answer.error["code"], answer
        assert "sandbox" not in answer.error["message"] or "unlucky" not in client.names(status="RUNNING")
        assert client.get("/sandbox").status == 200, "reads go on"
    assert client.sandbox("before")["status"] == "RUNNING"
    until(lambda: len(server.inits()) == 1, "the sandbox without a record is destroyed", 65, 0.2)
    until(lambda: client.post("/sandbox", {"name": "lucky"}).status == 201, "it recovers without a restart", 10, 0.2)
    until(lambda: "unlucky" not in client.names(include_terminated="true"), "nothing of it is left", 15, 0.2)
    server.restart()
    client = server.client()
    assert sorted(client.names()) == ["before", "lucky"] and len(server.inits()) == 2


@pytest.mark.slow
@needs_strace
@pytest.mark.limit(150)
def test_reads_fail_during_reconcile(fresh):
    """F-10: nothing is deleted because nothing could be read."""
    server = fresh().start()
    client = server.client()
    for i in range(5):
        client.create(f"b{i}")
    with failing(server.pid("server"), "pread64,read", "error=EIO"):
        time.sleep(40)
        assert len(server.inits()) == 5
    server.kill("all")
    server.recover()
    assert len(server.client().names(status="RUNNING")) == 5


def truncate(db):
    os.truncate(db, db.stat().st_size // 2)


def empty(db):
    os.truncate(db, 0)


def flip_header(db):
    with open(db, "r+b") as f:
        f.write(b"\xff" * 64)


def flip_pages(db):
    size = db.stat().st_size
    with open(db, "r+b") as f:
        for at in range(4096, size, 4096):
            f.seek(at)
            byte = f.read(16)
            f.seek(at)
            f.write(bytes(b ^ 0x55 for b in byte))


def remove_db(db):
    for name in ("cay.db", "cay.db-wal", "cay.db-shm"):
        db.with_name(name).unlink(missing_ok=True)


def remove_wal(db):
    db.with_name("cay.db-wal").unlink(missing_ok=True)


def garble_wal(db):
    wal = db.with_name("cay.db-wal")
    if wal.exists():
        wal.write_bytes(os.urandom(wal.stat().st_size))


def garble_wal_end(db):
    wal = db.with_name("cay.db-wal")
    if wal.exists():
        with open(wal, "r+b") as f:
            f.seek(-1000, os.SEEK_END)
            f.write(os.urandom(1000))


def remove_wal_and_index(db):
    for name in ("cay.db-wal", "cay.db-shm"):
        db.with_name(name).unlink(missing_ok=True)


def contents(db):
    """All but the log's index, which is made anew from the log."""
    return {p.name: p.read_bytes() for p in db.parent.glob("cay.db*") if p.suffix != ".db-shm"}


# A clean stop leaves no log that could be harmed; after a kill it holds rows that are nowhere else.
OF_THE_LOG = [remove_wal, remove_wal_and_index, garble_wal, garble_wal_end]
OF_THE_FILE = [truncate, empty, flip_header, flip_pages, remove_db]


@pytest.mark.parametrize("clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("damage", OF_THE_FILE + OF_THE_LOG)
def test_damaged_database(fresh, damage, clean):
    """F-18: a clear refusal that keeps the files, every time it is tried; no sandbox is touched."""
    server = fresh().start()
    client = server.client()
    made = {name: client.create(name, labels=["x" * 100] * 20)["id"] for name in ("one", "two", "three")}
    inits = sorted(server.inits())
    client.close()
    if clean:
        server.stop()
    else:
        server.kill("all")
        until(lambda: not any(server.pids().values()), "all are dead")
    db = Path(server.data, "cay.db")
    saved = {p.name: (p.read_bytes(), p.stat()) for p in db.parent.glob("cay.db*")}
    damage(db)
    damaged = contents(db)

    if clean and damage in OF_THE_LOG:
        server.start()
        assert {s["name"]: s["id"] for s in server.client().get("/sandbox").json()["sandboxes"]} == made
        server.stop()
    else:
        for _ in range(2):  # whoever restarts it blindly is refused again
            with pytest.raises(NotReady) as refusal:
                server.start(timeout=20)
            server.process = None
            assert refusal.value.code not in (0, None) and refusal.value.code > 0, refusal.value
            assert "cay.db" in str(refusal.value), "the message names the file"
            assert contents(db) == damaged, "all is left as it is for the one who mends it"
            until(lambda: not any(server.pids().values()), "engine and server are gone")
    assert sorted(server.inits()) == inits, "every sandbox lives"

    for path in db.parent.glob("cay.db*"):
        path.unlink()
    for name, (content, stat) in saved.items():
        path = db.with_name(name)
        path.write_bytes(content)
        os.chown(path, stat.st_uid, stat.st_gid)
        os.chmod(path, stat.st_mode & 0o7777)
    server.start()
    client = server.client()
    rows = client.get("/sandbox").json()["sandboxes"]
    assert {s["name"]: (s["id"], s["status"]) for s in rows} == {n: (i, "RUNNING") for n, i in made.items()}
    assert sorted(server.inits()) == inits


def test_rows_survive_a_kill_right_after_the_answer(fresh):
    """What was answered is on disk."""
    server = fresh().start()
    for i in range(5):
        client = server.client()
        client.create(f"kept-{i}")
        server.kill("all")
        server.recover()
        names = server.client().names(status="RUNNING")
        assert sorted(names) == [f"kept-{k}" for k in range(i + 1)]
    for i in range(5):
        assert server.client().delete(f"/sandbox/kept-{i}").status == 200
        server.kill("all")
        server.recover()
        assert len(server.client().names()) == 4 - i
    assert server.inits() == [] and server.traces() == {}
