# SPDX-License-Identifier: Apache-2.0
"""The server as a program: health, several beside each other, draining, signals."""
import contextlib
import fcntl
import http.client
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from harness import proc
from harness.server import CAY, IMAGES, NotReady
from harness.wait import fewer, stretch, until


def test_health(server, client):
    answer = client.get("/health")
    health = answer.json()
    assert answer.status == 200 and health["status"] in ("healthy", "degraded")
    assert health["version"] and health["provider"]["version"]
    assert health["provider"]["name"] == ("docker" if server.docker else "native")
    assert health["store"]
    if health["status"] == "degraded":
        assert all(p["what"] and p["why"] and p["fix"] for p in health["provider"]["problems"])


def test_health_while_the_engine_is_away(fresh):
    server = fresh().start()
    client = server.client()
    server.kill("engine", signal.SIGSTOP)
    try:
        def unhealthy():
            answer = server.client(timeout=30).get("/health")
            return answer if answer.status == 503 else None

        answer = until(unhealthy, "health says so", 40, 0.2)
        health = answer.json()
        assert health["status"] == "unhealthy"
        problem = health["provider"]["problems"][0]
        assert problem["what"] and problem["why"] and problem["fix"]
        other = server.client(timeout=30).get("/api/health")
        assert (other.status, other.json()["status"]) == (503, "unhealthy") and other.json()["provider"]["problems"][0]["fix"]
    finally:
        server.kill("engine", signal.SIGCONT)
    until(lambda: client.get("/health").status == 200, "healthy again")


def test_roles_and_rights(server, client):
    pids = server.pids()
    assert all(pids.values()), pids
    uid = {role: proc.text(pid, "status").split("Uid:")[1].split()[0] for role, pid in pids.items()}
    assert uid["supervisor"] == uid["engine"] == "0" and uid["server"] != "0"
    status = proc.text(pids["server"], "status")
    for line in status.splitlines():
        if line.startswith(("CapPrm", "CapEff", "CapInh", "CapAmb")):
            assert int(line.split()[1], 16) == 0, line
    assert "NoNewPrivs:\t1" in status


def test_store_is_readable_by_others(server, client, box):
    import json
    import sqlite3

    db = sqlite3.connect(f"file:{server.data}/cay.db?mode=ro", uri=True)
    row = db.execute("select account_id, name, status, meta_data, deleted_at from sandboxes where id = ?",
                     (box["id"],)).fetchone()
    assert row[:3] == ("local", "box", "RUNNING") and row[4] is None
    meta = json.loads(row[3])
    assert (meta["sandbox_id"], meta["status"]) == (box["id"], "RUNNING") and meta["created_at"] and meta["config"]
    client.delete("/sandbox/box")
    status, meta, deleted = db.execute("select status, meta_data, deleted_at from sandboxes where id = ?",
                                       (box["id"],)).fetchone()
    assert status == json.loads(meta)["status"] == "TERMINATED" and deleted
    db.close()


def test_data_directory_is_closed(server, box):
    top = Path(server.data).stat()
    assert top.st_mode & 0o7777 == 0o1771 and top.st_uid == 0
    for path in Path(server.data).rglob("*"):
        if path.is_file() and not path.is_symlink() and "images" not in path.parts and "boxes" not in path.parts:
            if path.name.startswith("cay.db"):
                continue
            mode = path.stat().st_mode
            assert not mode & 0o002, f"{path} is writable by all"


def test_side_by_side(fresh):
    one, two = fresh().start(), fresh().start()
    a, b = one.client(), two.client()
    assert one.url != two.url
    first, second = a.create("same-name"), b.create("same-name")
    assert first["id"] != second["id"] and a.names() == b.names() == ["same-name"]
    assert b.get(f"/sandbox/{first['id']}").status == 404
    a.sh("same-name", "echo one > /workspace/x")
    assert b.exec("same-name", ["cat", "/workspace/x"])["exitCode"] != 0
    assert one.instance() != two.instance()
    one.stop()
    assert one.down().returncode == 0
    assert b.sandbox("same-name")["status"] == "RUNNING" and b.sh("same-name", "echo hi") == "hi\n"
    assert len(two.inits()) == 1 and one.inits() == []


def test_second_server_on_the_same_data_is_refused(server, client, box):
    done = subprocess.run([CAY, "serve", "--data", server.data, "--listen", "127.0.0.1:0", "--images", IMAGES],
                          capture_output=True, text=True, timeout=stretch(20))
    assert done.returncode != 0 and "ready" not in done.stdout
    assert server.data in done.stderr and len(done.stderr.strip().splitlines()) <= 3, done.stderr
    assert client.sandbox("box")["status"] == "RUNNING"


def test_the_server_has_no_copy_of_the_lock(server):
    """Whoever has one could open the data directory to a second supervisor."""
    def holds(role):
        found = set()
        for fd in Path(f"/proc/{server.pid(role)}/fd").iterdir():
            try:
                found.add(str(fd.readlink()))
            except FileNotFoundError:
                pass  # closed meanwhile
        return found

    lock = f"{server.data}/lock"
    assert lock in holds("supervisor") and lock in holds("engine")
    assert lock not in holds("server") and f"{lock}.server" in holds("server")
    # One that stays behind keeps the next supervisor out all the same.
    with open(f"{lock}.server") as f, pytest.raises(BlockingIOError):
        fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_taken_port_is_told(server, fresh):
    second = fresh()
    second.listen = server.listen
    try:
        second.start()
    except NotReady as e:
        assert e.code not in (0, None) and server.listen.split(":")[1] in str(e) and "use" in str(e)
    else:
        raise AssertionError("two servers on one port")


def test_other_addresses_need_authentication(fresh):
    server = fresh()
    server.listen = "0.0.0.0:0"
    try:
        server.start()
    except NotReady as e:
        assert e.code not in (0, None) and "auth" in str(e)
    else:
        raise AssertionError("it listens on every address without authentication")


def test_bad_options_are_told(tmp_path):
    usual = ["--data", str(tmp_path / "data"), "--images", IMAGES, "--listen", "127.0.0.1:0"]
    for args in (["--nonsense"], ["--listen", "nowhere"], ["--provider", "magic"], ["--store", "magic"],
                 ["--rate-limit", "nonsense"], ["--auth", "magic"], ["--data"]):
        done = subprocess.run([CAY, "serve", *usual, *args], capture_output=True, text=True, timeout=stretch(20))
        assert done.returncode not in (0, -11, -6) and "ready" not in done.stdout, (args, done)
        assert args[-1].lstrip("-") in done.stderr, (args, done)


def test_drain_leaves_sandboxes(fresh):
    """F-41: a hundred requests wait for their commands, then SIGTERM."""
    many = fewer(100)
    server = fresh().start()
    client = server.client()
    client.create("kept")
    before = client.sandbox("kept")
    statuses, ids = [], []

    def wait_for_command():
        mine = server.client()
        try:
            answer = mine.post("/sandbox/kept/exec", {"command": "sleep 12; echo late"})
            statuses.append(answer.status)
            ids.append(answer.json()["id"])
        except OSError as e:
            statuses.append(repr(e))

    threads = [threading.Thread(target=wait_for_command) for _ in range(many)]
    for t in threads:
        t.start()
    until(lambda: client.sh("kept", "pgrep -c sleep || :") == f"{many}\n", "all of them run", 20)
    began = time.monotonic()
    assert server.stop(timeout=15) == 0
    assert time.monotonic() - began <= stretch(11)
    for t in threads:
        t.join()
    assert statuses == [202] * many, "on drain a deferred execution is answered with its id"
    assert len(server.inits()) == 1

    server.start()
    client = server.client()
    after = client.sandbox("kept")
    assert (after["status"], after["startedAt"]) == ("RUNNING", before["startedAt"])
    assert after["uptimeMs"] > before["uptimeMs"]
    for ident in ids[:5]:
        ended = until(lambda: (e := client.execution("kept", ident))["status"] != "running" and e, "it ends", 20, 0.1)
        assert (ended["status"], ended["exitCode"]) == ("exited", 0)
        assert client.output("kept", ident) == b"late\n"


def test_second_sigterm_ends_at_once(fresh):
    server = fresh().start()
    client = server.client()
    client.create("kept")
    stream = client.events("POST", "/sandbox/kept/exec", {"command": "echo x; sleep 1000"})
    next(stream.events())
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    if server.process.poll() is None:
        server.process.send_signal(signal.SIGTERM)
    server.process.wait(stretch(3))
    assert time.monotonic() - began < stretch(3)
    stream.close()
    server.process = None
    assert len(server.inits()) == 1


def test_down_with_the_server_running(fresh):
    server = fresh().start()
    client = server.client()
    for i in range(3):
        client.create(f"b{i}", startCommand="sleep 1000")
    done = server.down()
    assert done.returncode == 0, done
    assert server.inits() == [] and server.sandbox_processes() == []


def test_down_without_a_server(fresh):
    server = fresh().start()
    server.client().create("left")
    server.stop()
    assert len(server.inits()) == 1
    assert server.down().returncode == 0 and server.inits() == []
    assert server.down().returncode == 0, "again is no error"
    client = server.start().client()
    assert all(s["status"] != "RUNNING" for s in client.get("/sandbox").json()["sandboxes"])


def start_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_down_ends_no_stranger(fresh):
    """A number of old may be anybody's now, also while a command that is no server has the lock."""
    server = fresh().start()
    data = Path(server.data)
    assert (data / "lock").read_text().split() == [str(server.pid("supervisor")), str(start_of(server.pid("supervisor")))]
    server.stop()
    stranger = subprocess.Popen(["sleep", "100"])
    for text in ("", f"{stranger.pid} {start_of(stranger.pid) + 1}\n", f"{stranger.pid}\n", f"-1 {start_of(1)}\n"):
        (data / "run/supervisor.pid").write_text(f"{stranger.pid}\n")
        (data / "lock").write_text(text)
        with open(data / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            down = subprocess.Popen([CAY, "down", "--data", server.data])
            with pytest.raises(subprocess.TimeoutExpired):
                down.wait(0.5)  # for whoever has it
        assert down.wait(stretch(20)) == 0 and stranger.poll() is None, text
        assert (data / "lock").read_text().strip() == ""
    stranger.kill()
    stranger.wait()


@pytest.mark.native("there is no backup of what Docker has")
def test_commands_change_no_owner(fresh, tmp_path):
    """Those that are told of no user, beside the server of one and without it."""
    def owners():
        return {p.name: (p.stat().st_uid, p.stat().st_gid, p.stat().st_mode) for p in [data, *data.iterdir()] if p.is_dir()}

    server = fresh("--user", "54321").start()
    data = Path(server.data)
    before = owners()
    assert before[data.name][:2] == (0, 54321) and before["logs"][:2] == (54321, 54321)
    backup = [CAY, "backup", tmp_path / "file", "--data", server.data]
    subprocess.run(backup, check=True, timeout=stretch(60))
    assert before.items() <= owners().items()
    assert server.client().create("here")["status"] == "RUNNING"
    server.stop()
    subprocess.run(backup, check=True, timeout=stretch(60))
    assert before.items() <= owners().items()
    assert server.down().returncode == 0 and before.items() <= owners().items()


def test_logs_hold_no_secret(server, client):
    client.create("secretive", environmentVars={"API_KEY": "hunter2-in-env"})
    client.exec("secretive", "echo hunter2-in-exec", env={"X": "hunter2-in-exec-env"}, stdin="hunter2-in-stdin")
    assert "hunter2" not in Path(server.log_path).read_text()


def test_a_directory_of_others_is_not_taken_over(tmp_path):
    (tmp_path / "theirs").mkdir()
    tmp_path.chmod(0o755)
    for verb in (["serve", "--listen", "127.0.0.1:0", "--images", IMAGES], ["down"]):
        done = subprocess.run([CAY, verb[0], "--data", tmp_path, *verb[1:]], capture_output=True, text=True, timeout=stretch(20))
        assert done.returncode == 1 and str(tmp_path) in done.stderr
        assert [p.name for p in tmp_path.iterdir()] == ["theirs"] and tmp_path.stat().st_mode & 0o7777 == 0o755


def test_delete_does_not_wait_for_a_stop(fresh):
    """What is to be destroyed needs no grace."""
    server = fresh().start()
    client = server.client()
    client.create("deaf")
    client.detach("deaf", "trap '' TERM; echo deaf > /tmp/deaf; while :; do sleep 1; done")
    until(lambda: client.exec("deaf", ["test", "-s", "/tmp/deaf"])["exitCode"] == 0, "it is deaf")

    def stop():
        with contextlib.suppress(OSError, http.client.HTTPException):  # it may be cut off
            server.client().post("/sandbox/deaf/stop", {"graceMs": 600_000})

    stopper = threading.Thread(target=stop)
    stopper.start()
    began = time.monotonic()
    assert server.down().returncode == 0
    assert time.monotonic() - began < stretch(60) and server.inits() == []
    stopper.join(20)


def fds_of(pid):
    """What a process holds, and where."""
    found = {}
    for fd in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            found[re.sub(r"\d+", "N", os.readlink(fd))] = fd
    return found


def test_helpers_hold_nothing_of_others(server, client, box):
    """A child of the engine that only clears away would keep alive what it was born beside."""
    engine = server.pid("engine")
    theirs = {"anon_inode:[eventpoll]", "user:[N]", "/run/cay/ids/N"}
    assert fds_of(engine).keys() >= theirs
    trash, = (fd for name, fd in fds_of(engine).items() if name.endswith("/trash"))
    os.mkdir(f"{trash}/../much")
    for i in range(20_000):
        os.mknod(f"{trash}/../much/{i}")
    os.rename(f"{trash}/../much", f"{trash}/much")
    client.create("short")
    client.delete("/sandbox/short")

    def seen():
        for pid in Path(f"/proc/{engine}/task/{engine}/children").read_text().split():
            with contextlib.suppress(OSError):  # who has its name has let go of the others'
                if proc.text(pid, "comm") == "cay-trash\n":
                    return fds_of(pid)
    held = until(seen, "it is at work")
    assert not held.keys() & theirs
    until(lambda: not os.path.exists(f"{trash}/much"), "it has ended")


def test_keeps_nothing_open_for_whoever_started_it(fresh, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    server = fresh()
    command = server.command()
    server.command = lambda: ["sh", "-c", 'exec "$@" 9> "$0"', str(fifo), *command]
    server.start()
    server.client().create("box")
    assert os.read(reader, 1) == b"", "nobody has the other end"
    os.close(reader)
