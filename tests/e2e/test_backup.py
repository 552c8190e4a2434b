# SPDX-License-Identifier: Apache-2.0
"""`cay backup` and `cay restore`: all of one moment, or nothing."""
import hashlib
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from harness.engine import Engine, Refused
from harness.plain import plain_server
from harness.server import CAY, Server
from harness.wait import stretch, until

pytestmark = pytest.mark.native("files that Docker has are not in a backup of ours")
TREE = r"""
set -e
cd /workspace
echo hello > plain
ln plain linked
ln -s plain soft
mkfifo pipe
mkdir -p deep/er; printf x > "deep/er/a b
c"
truncate -s 256M sparse; printf tail | dd of=sparse bs=1 seek=200000000 conv=notrunc status=none
chmod 4711 deep/er
rm -rf /etc/issue /usr/share/doc
mkdir /usr/share/doc; echo mine > /usr/share/doc/only
chown 1234:2345 soft -h
touch -d @1000000000 plain
"""
LOOK = r"""
set -e
cd /workspace
find . /usr/share/doc | sort | while read -r f; do stat -c '%n %F %a %u:%g %h %.9Y' "$f" 2>/dev/null || true; done
cat plain linked deep/er/*; readlink soft; head -c 200000004 sparse | tail -c 4
[ $(stat -c %b sparse) -lt 1000 ] && echo is sparse
[ ! -e /etc/issue ] && ls /usr/share/doc
"""


def cay(*args, **options):
    return subprocess.run([CAY, *map(str, args)], capture_output=True, text=True, timeout=stretch(120), **options)


def backup(server, file):
    done = cay("backup", file, "--data", server.data)
    assert done.returncode == 0, done.stderr + server.log()
    return done.stderr


def restore(file, data):
    return cay("restore", file, "--data", data)


def leftovers(server):
    """What a backup may not leave behind."""
    stage = Path(server.data) / "engine" / "backup"
    pid = int((Path(server.data) / "run" / "engine.pid").read_text())
    trees = []
    for place in ("disk", "files"):
        try:
            trees += os.listdir(f"/proc/{pid}/root{server.data}/engine/{place}")
        except FileNotFoundError:
            pass
    return [t for t in trees if t.startswith("new-")] + ([str(stage)] if stage.exists() else [])


@pytest.fixture(params=["disk", "plain"])
def pair(request, tmp_path):
    """A server, and a place where its copy may be."""
    if request.param == "disk":
        with Server() as server:
            yield server, Path(server.data + "-copy")
    else:
        with plain_server(tmp_path, size="3g") as server:
            yield server.start(), Path(server.data).parent / "copy"


def second(data):
    return Server(data=data)


def fill(client):
    client.create("keep", persistent=True)
    client.sh("keep", TREE, user="root")
    client.create("down", persistent=True)
    client.sh("down", "echo down > f")
    assert client.post("/sandbox/down/stop").status == 200
    client.create("rests")
    client.sh("rests", "echo rests > f")
    assert client.post("/sandbox/rests/stop").status == 200
    client.create("goes")
    client.create("source")
    client.sh("source", "echo snap > f; echo root > /etc/snap", user="root")
    snapshot = client.post("/sandbox/source/snapshot", {"name": "one"}).json()["id"]
    client.create("old")
    client.sh("old", "echo volume > f")
    volume = client.delete("/sandbox/old", preserveVolume="true").json()["volumeId"]
    client.create("other")
    client.sh("other", "echo in use > f")
    attached = client.delete("/sandbox/other", preserveVolume="true").json()["volumeId"]
    client.create("has", volume=attached)
    return snapshot, volume, attached


def test_round_trip(pair, tmp_path):
    server, copy = pair
    client = server.client()
    snapshot, volume, attached = fill(client)
    looks = client.sh("keep", LOOK, user="root")
    assert "is sparse" in looks and "tail" in looks and "only" in looks
    told = backup(server, tmp_path / "file")
    assert told == "saved: files of 4 sandboxes, 1 snapshots, 1 volumes\n"
    until(lambda: not leftovers(server), "nothing left of the backup", 10, 0.1)
    client.sh("keep", "echo later > /workspace/plain", user="root")
    done = restore(tmp_path / "file", copy)
    assert done.returncode == 0, done.stderr
    with second(copy) as again:
        other = again.client()
        assert sorted(other.names()) == ["down", "keep", "rests"]
        assert {n: other.get(f"/sandbox/{n}").json()["status"] for n in other.names()} == \
            {"down": "STOPPED", "keep": "STOPPED", "rests": "STOPPED"}
        gone = {s["name"]: s for s in other.get("/sandbox", includeTerminated="true").json()["sandboxes"]}
        assert gone["goes"]["status"] == "TERMINATED" and gone["goes"]["terminationReason"] == "host_restart"
        for name in other.names():
            assert other.post(f"/sandbox/{name}/start").status == 200
        assert other.sh("keep", LOOK, user="root") == looks
        assert other.sh("down", "cat f") == "down\n" and other.sh("rests", "cat f") == "rests\n"
        assert [s["id"] for s in other.get("/snapshots").json()["snapshots"]] == [snapshot]
        other.create("fork", source={"type": "snapshot", "id": snapshot})
        assert other.sh("fork", "cat f /etc/snap") == "snap\nroot\n"
        assert {v["id"] for v in other.get("/volumes").json()["volumes"]} == {volume, attached}
        other.create("v1", volume=volume)
        other.create("v2", volume=attached)
        assert other.sh("v1", "cat f") == "volume\n" and other.sh("v2", "cat f") == "in use\n"
        assert "removed s" not in again.log() and "are gone" not in again.log()
        for name in other.names():
            assert other.delete(f"/sandbox/{name}").status == 200
        other.close()
    shutil.rmtree(copy)
    client.close()


def test_keys_and_offline(tmp_path):
    """Without a server as well; keys, teams and tokens work in the copy."""
    copy = Path(tmp_path / "copy")
    with Server("--auth", "keys") as server:
        def admin(*args):
            done = cay(*args, "--data", server.data)
            assert done.returncode == 0, done.stderr
            return done.stdout
        admin("account", "create", "anna")
        key = admin("key", "create", "--account", "anna").strip()
        client = server.client(token=key)
        made = client.create("a", persistent=True)
        token = client.post("/sandbox/a/auth-token").json()["token"]
        server.stop()
        backup(server, tmp_path / "file")
        backup(server, tmp_path / "file")  # it replaces its file
        server.start()
        client.close()
    assert restore(tmp_path / "file", copy).returncode == 0
    with Server("--auth", "keys", data=copy) as again:
        assert again.client().get("/sandbox").status == 401
        client = again.client(token=key)
        assert client.names() == ["a"]
        assert client.post("/sandbox/a/start").status == 200
        assert again.client(token=token).get(f"/sandbox/{made['id']}").status == 200
        assert client.delete("/sandbox/a").status == 200
    shutil.rmtree(copy)


def test_names_are_no_options(tmp_path):
    """The server's user may make files in the data directory; root's tar does nothing that their names say."""
    with Server() as server:
        (Path(server.data) / "once.key\n-C..\n-C..\n-Croot\n--exclude=cay.db\ntoken.key").write_text("x")
        (Path(server.data) / "-C.key").write_text("x")
        done = cay("backup", tmp_path / "file", "--data", server.data, cwd=tmp_path)
        assert os.listdir(tmp_path) == ["file"] and done.returncode == 0, done.stderr
    members = subprocess.run(["tar", "-tf", tmp_path / "file"], capture_output=True, text=True).stdout.splitlines()
    keys = [m for m in members if m.endswith(".key")]
    assert members[:3] == ["manifest.json", "cay.db", "engine/records/"] and "token.key" in keys
    assert all(re.fullmatch("[a-z]+.key", k) for k in keys), keys


def test_refusals(tmp_path):
    copy = tmp_path / "copy"
    with Server() as server:
        client = server.client()
        client.create("a", persistent=True)
        file = tmp_path / "file"
        backup(server, file)
        whole = file.read_bytes()
        assert whole[257:262] == b"ustar" and file.stat().st_mode & 0o777 == 0o600

        def refused(data, words, target=copy):
            (tmp_path / "bad").write_bytes(data)
            done = restore(tmp_path / "bad", target)
            assert done.returncode == 1 and words in done.stderr, done
            assert not copy.exists() and not Path(f"{copy}.restoring").exists()
        middle = len(whole) // 2
        refused(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1:], "damaged")
        refused(whole[:-512], "damaged")
        refused(whole[:-1], "damaged")
        refused(whole[:middle // 512 * 512], "damaged")
        refused(b"", "damaged")
        refused(reseal(whole.replace(b'"version":1', b'"version":2', 1)), "newer cay")
        refused(whole, "not empty", target=server.data)
        (tmp_path / "full").mkdir()
        (tmp_path / "full" / "x").write_text("mine")
        refused(whole, "not empty", target=tmp_path / "full")
        Path(f"{copy}.restoring").mkdir()
        (Path(f"{copy}.restoring") / "mine").write_text("")
        done = restore(file, copy)
        assert done.returncode == 1 and "in the way" in done.stderr and not copy.exists()
        assert (Path(f"{copy}.restoring") / "mine").exists()
        done = cay("backup", tmp_path / "x", "--data", tmp_path)
        assert done.returncode == 1 and "no data directory" in done.stderr
        done = cay("backup", "/proc/nothing", "--data", server.data)
        assert done.returncode == 1
        until(lambda: not leftovers(server), "nothing left of the backup", 10, 0.1)
        client.delete("/sandbox/a")


def reseal(archive):
    body = archive[:-512]
    return body + (b"cay-backup sha256 " + hashlib.sha256(body).hexdigest().encode() + b"\n").ljust(512, b"\0")


def test_killed(tmp_path):
    """kill -9 in the middle of either: nothing is held, nothing stays, nothing is half."""
    copy = tmp_path / "copy"
    with Server() as server:
        client = server.client()
        client.create("a", persistent=True)
        client.sh("a", "head -c 60000000 /dev/urandom > big")
        stuck = subprocess.Popen([CAY, "backup", "-", "--data", server.data], stdout=subprocess.PIPE)
        stuck.stdout.read(1)  # it is at its trees, and goes no further: nobody reads
        assert leftovers(server)
        assert "another backup" in cay("backup", tmp_path / "no", "--data", server.data).stderr
        client.create("b")  # nobody waits for it
        assert client.post("/sandbox/a/stop").status == 200 and client.post("/sandbox/a/start").status == 200
        stuck.send_signal(signal.SIGKILL)
        stuck.wait()
        stuck.stdout.close()
        until(lambda: not [t for t in leftovers(server) if "new-" in t], "copies go", 10, 0.1)
        backup(server, tmp_path / "file")
        until(lambda: not leftovers(server), "nothing left of the backup", 10, 0.1)
        for name in ("a", "b"):
            assert client.delete(f"/sandbox/{name}").status == 200
    cut = subprocess.Popen([CAY, "restore", str(tmp_path / "file"), "--data", str(copy)])
    until(lambda: Path(f"{copy}.restoring/engine").exists(), "it has begun", 30, 0.002)
    cut.send_signal(signal.SIGKILL)
    cut.wait()
    assert not copy.exists()
    done = restore(tmp_path / "file", copy)
    assert done.returncode == 0, done.stderr
    with second(copy) as again:
        client = again.client()
        assert client.post("/sandbox/a/start").status == 200
        assert client.sh("a", "stat -c %s big") == "60000000\n"
        assert client.delete("/sandbox/a").status == 200
    shutil.rmtree(copy)


def test_who_may_ask(tmp_path):
    """Of the engine, past the command: in order, by one; whoever goes away holds nothing any more."""
    with Server() as server:
        client = server.client()
        ident = client.create("a", persistent=True)["id"]
        stranger, root = Engine(server), Engine(server)
        for op in ("backup_hold", "backup_take", "backup_free"):
            with pytest.raises(Refused, match="no backup was begun"):
                stranger.ask(op, ident)
        root.ask("backup")
        with pytest.raises(Refused, match="another backup"):
            stranger.ask("backup")
        with pytest.raises(Refused, match="no backup was begun"):
            stranger.ask("backup_go")
        for bad in ("", "../x", "sb-00000000000000trial0"):
            with pytest.raises(Refused, match="not the id of a tree"):
                root.ask("backup_hold", bad)
        with pytest.raises(Refused, match="is not held"):
            root.ask("backup_take", ident)
        root.ask("backup_hold", ident)
        stranger.send("stop", ident)
        assert not stranger.has_answer()
        root.close()  # neither standstill nor hold outlives it
        stranger.answer()
        stranger.close()
        until(lambda: client.delete("/sandbox/a").status == 200, "it can be deleted", 10, 0.1)


def test_while_things_move(tmp_path):
    """Volumes wander between sandboxes all the time: in the copy each is there once, with its files."""
    copy = tmp_path / "copy"
    stop = threading.Event()
    with Server() as server:
        client = server.client()
        volumes = []
        for i in range(4):
            client.create(f"s{i}")
            client.sh(f"s{i}", f"echo {i} > f")
            volumes.append(client.delete(f"/sandbox/s{i}", preserveVolume="true").json()["volumeId"])

        def wander(i):
            own = server.client()
            for n in range(1000):
                if stop.is_set():
                    break
                own.create(f"w{i}-{n}", volume=volumes[i])
                assert own.delete(f"/sandbox/w{i}-{n}").status == 200
            own.close()
        movers = [threading.Thread(target=wander, args=(i,)) for i in range(4)]
        for mover in movers:
            mover.start()
        for n in range(3):
            backup(server, tmp_path / f"file{n}")
        stop.set()
        for mover in movers:
            mover.join()
        client.close()
    for n in range(3):
        assert restore(tmp_path / f"file{n}", copy).returncode == 0
        with second(copy) as again:
            client = again.client()
            until(lambda: not client.names(), "all sandboxes are gone", 20, 0.1)
            assert {v["id"] for v in client.get("/volumes").json()["volumes"]} == set(volumes), again.log()
            for i, volume in enumerate(volumes):
                client.create("r", volume=volume)
                assert client.sh("r", "cat f") == f"{i}\n"
                assert client.delete("/sandbox/r").status == 200
            client.close()
        shutil.rmtree(copy)
