# SPDX-License-Identifier: Apache-2.0
"""F-03 for copies and volumes: the plug is pulled at every boundary, with quotas and without."""
import http.client
import os
import subprocess
import threading

import pytest

from harness import proc
from harness.berths import of_engine
from harness.engine import Engine, Refused
from harness.plain import plain_server
from harness.server import CAY
from harness.wait import stretch, until

SNAPSHOT, VOLUME = "sn-" + "s" * 20, "vo-" + "v" * 20
POINTS = subprocess.run([CAY, "serve", "--crash-points"], capture_output=True, text=True, timeout=stretch(10)).stdout.split()
COPY = [p for p in POINTS if p.startswith("copy-")]
DELETE = ["delete-intent-written", "delete-killed", "delete-reaped", "delete-cgroup-gone", "delete-files-gone"]
KEEP = [p for p in POINTS if p.startswith("keep-")]


@pytest.fixture(params=["disk", "plain"])
def house(request, fresh, tmp_path):
    """A server whose files are in a quota, and one whose are not."""
    if request.param == "disk":
        yield fresh()
    else:
        with plain_server(tmp_path) as server:
            yield server


def files(server, *path):
    return os.path.join(f"/proc/{server.pid('engine')}/root/files", *path)


def source(server):
    """One with something in it, and a command that must notice nothing."""
    client = server.client()
    ident = client.create("source", persistent=True, diskSizeGB=0.3)["id"]
    client.sh("source", "echo precious > /workspace/f; echo root > /etc/f; rm /etc/debian_version", user="root")
    client.detach("source", "i=0; while :; do i=$((i+1)); echo $i > /workspace/count; sleep 0.01; done")
    client.close()
    return ident


def unharmed(server):
    client = server.client()
    assert client.sandbox("source")["status"] == "RUNNING"
    before = int(client.sh("source", "cat /workspace/count") or 0)
    until(lambda: int(client.sh("source", "cat /workspace/count") or 0) > before, "the writer goes on")
    assert client.sh("source", "cat /workspace/f /etc/f") == "precious\nroot\n"
    client.close()


def crash(server, point, act):
    """Dies at the point, and comes back. False: that point is not on this way."""
    server.stop()
    server.start(env={"CAY_CRASH_AT": point})
    client = server.client(timeout=30)
    try:
        answer = act(client)
        if answer.status < 300 and server.process.poll() is None:
            return False
        # Who died first may have been missed, and told so, before the others died.
        assert answer.status < 300 or answer.status == 503, answer
    except (OSError, http.client.HTTPException):
        pass
    finally:
        client.close()
    server.process.wait(stretch(10))
    server.process = None
    server.recover()
    return True


def rubbish(server, name):
    """What is to be removed from a tree that stays; one that has just got another name has none."""
    try:
        return os.listdir(files(server, name, "old"))
    except (FileNotFoundError, NotADirectoryError):
        return []


def waits(server, name):
    """Empty, but for what only the engine writes, for a sandbox to come; or it has just become that one's."""
    if not name.startswith("spare-"):
        return False
    try:
        left = set(os.listdir(files(server, name)))
        return left <= {"image", "work"} and not ("work" in left and os.listdir(files(server, name, "work")))
    except FileNotFoundError:
        return True


def trashed(server):
    """What waits to be removed; a disk that does not empty trees by itself has a place of its own for that."""
    bins = [os.path.join(server.data, "engine", "trash"), files(server, "trash")]
    return [name for bin in bins if os.path.isdir(bin) for name in os.listdir(bin)]


def settled(server):
    """Nothing half-made: only whole trees that somebody knows, no rubbish in them, and empty ones for those to come."""
    client = server.client()
    rows = client.get("/sandbox", per_page=1000).json()["sandboxes"]
    known = {s["id"] for s in rows if s["status"] == "RUNNING"}
    known |= {s["id"] for s in client.get("/snapshots").json()["snapshots"]}
    known |= {v["id"] for v in client.get("/volumes").json()["volumes"] if not v["inUse"]}
    client.close()
    names = {n for n in os.listdir(files(server)) if not waits(server, n)}
    names.discard("trash")
    return names == known and len(rows) == len(server.inits()) and not any(rubbish(server, n) for n in names) and \
        not trashed(server)


def check(client, name):
    assert client.sh(name, "cat /workspace/f /etc/f; ls /etc/debian_version 2>/dev/null || true") == "precious\nroot\n"


@pytest.mark.parametrize("point", COPY)
def test_fork(house, point):
    house.start()
    source(house)
    if not crash(house, point, lambda c: c.post("/sandbox/source/fork", {"name": "copy"})):
        assert point == "copy-frozen", f"{point} was not passed"
    until(lambda: settled(house), "nothing half-made is left")
    unharmed(house)
    client = house.client()
    if "copy" not in client.names():
        assert client.post("/sandbox/source/fork", {"name": "copy"}).status == 201
    check(client, "copy")


@pytest.mark.parametrize("point", COPY)
def test_snapshot(house, point):
    house.start()
    source(house)
    if not crash(house, point, lambda c: c.post("/sandbox/source/snapshot", {})):
        assert point == "copy-frozen", f"{point} was not passed"
    until(lambda: settled(house), "nothing half-made is left")
    unharmed(house)
    client = house.client()
    assert client.post("/sandbox/source/snapshot", {}).status == 201
    found = [s["id"] for s in client.get("/snapshots").json()["snapshots"]]
    assert len(found) in (1, 2)
    for i, ident in enumerate(found):
        client.create(f"copy-{i}", source={"type": "snapshot", "id": ident})
        check(client, f"copy-{i}")
        assert client.delete(f"/snapshots/{ident}").status == 200
        check(client, f"copy-{i}")
    assert client.get("/snapshots").json()["snapshots"] == []


def volume_of(client):
    found = client.get("/volumes").json()["volumes"]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.quota
def test_a_snapshot_goes_at_once(fresh):
    """One with little in it is emptied for another to have: nobody finds it under its name meanwhile."""
    server = fresh().start()
    client = server.client()
    client.create("small")
    ident = client.post("/sandbox/small/snapshot", {}).json()["id"]
    client.close()
    assert crash(server, "delete-put-by", lambda c: c.delete(f"/snapshots/{ident}"))
    assert ident not in os.listdir(files(server))
    client = server.client()
    assert client.delete(f"/snapshots/{ident}").status in (200, 404)
    until(lambda: settled(server), "nothing half-made is left")


@pytest.mark.parametrize("point", DELETE + KEEP)
def test_keep(house, point):
    """Whenever it dies, the sandbox is there to be deleted again, or is the volume."""
    house.start()
    source(house)
    keep = "/sandbox/source"
    assert crash(house, point, lambda c: c.delete(keep, preserveVolume="true")), f"{point} was not passed"
    client = house.client()

    def gone():
        return "source" not in client.names() or client.delete(keep, preserveVolume="true").status == 200

    until(gone, "it can be deleted again")
    until(lambda: settled(house), "nothing half-made is left")
    volume = volume_of(client)
    assert not volume["inUse"]
    assert os.listdir(files(house, volume["id"], "upper")) == ["workspace"]
    for name in ("a", "b"):
        client.create(name, volume=volume["id"])
        assert client.sh(name, "cat /workspace/f; ls /etc/f 2>/dev/null || true") == "precious\n"
        assert client.delete(f"/sandbox/{name}").status == 200
    assert volume_of(client)["id"] == volume["id"]


@pytest.mark.parametrize("point", ["attach-named", "create-box-made", "create-cgroup-made", "create-cloned",
                                   "create-recorded", "create-started"])
def test_attach(house, point):
    """A create that dies gives its volume back, or has it."""
    house.start()
    source(house)
    client = house.client()
    ident = client.delete("/sandbox/source", preserveVolume="true").json()["volumeId"]
    client.close()
    assert crash(house, point, lambda c: c.post("/sandbox", {"name": "a", "volume": ident})), f"{point} was not passed"
    client = house.client()
    until(lambda: settled(house), "nothing half-made is left")
    assert volume_of(client)["id"] == ident
    if "a" not in client.names():
        client.create("a", volume=ident)
    assert volume_of(client)["inUse"] and client.sh("a", "cat /workspace/f") == "precious\n"
    assert client.delete("/sandbox/a").status == 200
    assert client.delete(f"/volumes/{ident}").status == 200
    assert client.get("/volumes").json()["volumes"] == []
    until(lambda: settled(house), "nothing is left")


@pytest.mark.parametrize("house", ["disk"], indirect=True)
def test_keep_killed_at_random(house):
    """Engine, server and supervisor die while volumes come and go; nothing is lost, nothing doubled."""
    house.start()
    client = house.client()
    client.create("box")
    client.sh("box", "echo 0 > /workspace/f")
    ident = client.delete("/sandbox/box", preserveVolume="true").json()["volumeId"]
    for i in range(12):
        stop = threading.Event()

        def churn():
            mine = house.client(timeout=10)
            while not stop.is_set():
                try:
                    mine.post("/sandbox", {"name": "box", "volume": ident})
                    mine.delete("/sandbox/box")
                except (OSError, http.client.HTTPException):
                    pass
            mine.close()

        worker = threading.Thread(target=churn)
        worker.start()
        until(lambda: house.inits(), "it is attached", step=0.001)
        house.kill(("engine", "all", "server")[i % 3])
        stop.set()
        house.recover()
        worker.join()
        until(lambda: settled(house), "nothing half-made is left")
        client = house.client()
        if "box" not in client.names():
            client.create("box", volume=ident)
        client.sh("box", f"[ $(cat /workspace/f) = {i} ] && echo {i + 1} > /workspace/f")
        assert client.delete("/sandbox/box").status == 200
        assert volume_of(client)["id"] == ident


def test_spawner_dies_in_a_copy(house):
    """Whoever copies is killed: an error, nothing left, the source goes on."""
    house.start()
    ident = source(house)
    client = house.client()
    client.sh("source", "head -c 200000000 /dev/zero > /workspace/large")
    client.sh("source", "cd /workspace && mkdir many && cd many && for i in $(seq 3000); do echo $i > $i; done")
    spawners = of_engine(house, "cay-spawn")
    engine = Engine(house)
    engine.send("snapshot", ident, other=SNAPSHOT)
    until(lambda: any(n.startswith("new-") for n in os.listdir(files(house))) or engine.has_answer(),
          "it is being copied", step=0.0005)
    for pid in spawners:
        os.kill(pid, 9)
    try:
        engine.answer()
    except Refused as e:
        assert "lost" in e.msg
    engine.close()
    engine = Engine(house)
    until(lambda: not any(n.startswith("new-") for n in os.listdir(files(house))), "nothing half-made is left")
    unharmed(house)
    until(lambda: not trashed(house), "there is room for another", 30)
    assert engine.snapshot(ident, SNAPSHOT).method
    assert engine.kept() == [SNAPSHOT]


def test_copies_leave_room(tmp_path):
    """Where every file is copied, half of the spawners go on with the rest."""
    with plain_server(tmp_path) as server:
        server.start()
        client = server.client()
        spawners = of_engine(server, "cay-spawn")
        names = [chr(ord("a") + i) for i in range(len(spawners))]
        sources = [client.create(name)["id"] for name in names]
        for name in names:
            client.sh(name, "mkdir many && cd many && seq 8000 | xargs touch")
        engines = [Engine(server) for _ in names]
        for engine, ident, name in zip(engines, sources, names):
            engine.send("snapshot", ident, other="sn-" + name * 20)
        most = 0
        while not all(engine.has_answer() for engine in engines):
            most = max(most, sum(n.startswith("new-") for n in os.listdir(files(server))))
        assert 0 < most <= len(spawners) // 2
        for engine, name in zip(engines, names):
            engine.answer()
            assert len(os.listdir(files(server, "sn-" + name * 20, "upper/workspace/many"))) == 8000
            engine.ask("drop", "sn-" + name * 20)


def test_ends_leave_room(fresh):
    """However many go at once, and however slowly, one that is to come up does not wait for them."""
    server = fresh().start()
    spawners = of_engine(server, "cay-spawn")
    idents = [f"sb-{i:020d}" for i in range(2 * len(spawners))]
    engines = [Engine(server) for _ in idents]
    for engine, ident in zip(engines, idents):
        engine.create(ident)
    inner = [os.path.join(top, ident, "inner") for top in proc.cgroup_dirs(f"cay-{server.instance()}")[:1] for ident in idents]
    for path in inner:
        os.mkdir(path)  # so that what it is in cannot be removed
    try:
        for engine, ident in zip(engines, idents):
            engine.send("destroy", ident)
        until(lambda: not server.inits(), "their processes are gone", 10, 0)
        late = Engine(server)
        late.create("sb-" + "9" * 20)
        assert not any(engine.has_answer() for engine in engines)
    finally:
        for path in inner:
            os.rmdir(path)
    for engine in engines:
        engine.answer()
    late.ask("destroy", "sb-" + "9" * 20)


HOSTILE = [
    ("create", "sb-" + "x" * 20, {"other": "../../../etc"}),
    ("create", "sb-" + "x" * 20, {"other": "new-sn-" + "s" * 16}),
    ("create", "sb-" + "x" * 20, {"other": "vo-" + "v" * 20}),
    ("create", "sb-" + "x" * 20, {"other": "sb-" + "x" * 20}),
    ("create", "sb-" + "x" * 20, {"other": "sb-00000000000000trial0"}),
    ("create", "sb-" + "x" * 20, {"volume": "sb-" + "v" * 20}),
    ("create", "sb-" + "x" * 20, {"volume": "vo-../../../../etc/pass"}),
    ("create", "sb-" + "x" * 20, {"volume": VOLUME, "other": SNAPSHOT}),
    ("destroy", "sb-" + "x" * 20, {"volume": "disk.img"}),
    ("destroy", "sb-" + "x" * 20, {"volume": VOLUME, "drop_volume": 1}),
    ("snapshot", "sb-" + "x" * 20, {"other": "sb-" + "s" * 20}),
    ("snapshot", "sb-" + "x" * 20, {"other": ""}),
    ("snapshot", SNAPSHOT, {"other": SNAPSHOT}),
    ("drop", "sb-" + "x" * 20, {}),
    ("drop", "", {}),
    ("drop", "../files", {}),
    ("drop", "new-sn-" + "s" * 16, {}),
]


def test_hostile_requests(fresh):
    """Every id is checked for its form before anything is opened by it."""
    server = fresh().start()
    engine = Engine(server)
    for op, ident, fields in HOSTILE:
        with pytest.raises(Refused) as e:
            getattr(engine, op)(ident, **fields) if op == "create" else engine.ask(op, ident, **fields)
        assert e.value.code == -1, (op, ident, fields, str(e.value))
    assert engine.kept() == [] and server.traces() == {}
