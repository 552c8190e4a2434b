# SPDX-License-Identifier: Apache-2.0
"""F-03 for copies and volumes: the plug is pulled at every boundary, with quotas and without."""
import os
import subprocess

import pytest

from harness import proc
from harness.engine import Engine, Refused
from harness.plain import plain_server
from harness.server import CAY
from harness.wait import until

FORK, SNAPSHOT, VOLUME, TAKER = (kind + letter * 20 for kind, letter in
                                 (("sb-", "f"), ("sn-", "s"), ("vo-", "v"), ("sb-", "t")))
POINTS = subprocess.run([CAY, "serve", "--crash-points"], capture_output=True, text=True, timeout=10).stdout.split()
COPY = [p for p in POINTS if p.startswith("copy-")]
KEEP = [p for p in POINTS if p.startswith("keep-")]
MB = 1000 * 1000


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
    ident = client.create("source")["id"]
    client.sh("source", "echo precious > /workspace/f; echo root > /etc/f; rm /etc/debian_version", user="root")
    client.detach("source", "i=0; while :; do i=$((i+1)); echo $i > /workspace/count; sleep 0.01; done")
    client.close()
    return ident


def unharmed(server, ident):
    client = server.client()
    assert client.sandbox("source")["status"] == "RUNNING"
    before = int(client.sh("source", "cat /workspace/count") or 0)
    until(lambda: int(client.sh("source", "cat /workspace/count") or 0) > before, "the writer goes on")
    assert client.sh("source", "cat /workspace/f /etc/f") == "precious\nroot\n"
    client.close()


def crash(server, point, act, before=lambda engine: None):
    """Dies at the point, and comes back. False: that point is not on this way."""
    server.stop()
    server.start(env={"CAY_CRASH_AT": point})
    engine = Engine(server, timeout=30)
    try:
        before(engine)
        act(engine)
        return False
    except Refused as e:
        assert "lost" in e.msg, e  # the spawner died first
    except OSError:
        pass
    finally:
        engine.close()
    server.process.wait(10)
    server.process = None
    server.recover()
    return True


def settled(server):
    """Nothing half-made: only whole trees, and no rubbish in them."""
    names = os.listdir(files(server))
    return not any(n.startswith("new-") for n in names) and \
        not any(os.path.isdir(files(server, n, "old")) and os.listdir(files(server, n, "old")) for n in names) and \
        not os.listdir(os.path.join(server.data, "engine", "trash"))


def check_copy(server, ident):
    def text(path):
        with open(files(server, ident, "upper", path)) as f:
            return f.read()

    assert text("workspace/f") == "precious\n" and text("etc/f") == "root\n"
    assert os.stat(files(server, ident, "upper/etc/debian_version"), follow_symlinks=False).st_rdev == 0
    assert not os.path.exists(files(server, ident, "volume"))


@pytest.mark.parametrize("point", COPY or ["none"])
def test_fork(house, point):
    house.start()
    ident = source(house)
    if not crash(house, point, lambda e: e.create(FORK, other=ident)):
        assert point == "copy-frozen", f"{point} was not passed"
    engine = Engine(house)
    until(lambda: settled(house), "nothing half-made is left")
    unharmed(house, ident)
    engine.create(FORK, other=ident)
    check_copy(house, FORK)
    assert os.path.exists(files(house, FORK, "init.sock"))
    engine.ask("destroy", FORK)
    assert FORK not in house.traces()


@pytest.mark.parametrize("point", COPY or ["none"])
def test_snapshot(house, point):
    house.start()
    ident = source(house)
    if not crash(house, point, lambda e: e.snapshot(ident, SNAPSHOT)):
        assert point == "copy-frozen", f"{point} was not passed"
    engine = Engine(house)
    until(lambda: settled(house), "nothing half-made is left")
    unharmed(house, ident)
    assert engine.kept() in ([], [SNAPSHOT])
    assert engine.snapshot(ident, SNAPSHOT).method
    assert engine.kept() == [SNAPSHOT]
    check_copy(house, SNAPSHOT)
    assert not os.path.exists(files(house, SNAPSHOT, "init.sock"))
    engine.ask("drop", SNAPSHOT)
    assert engine.kept() == []


def check_volume(server):
    assert os.listdir(files(server, VOLUME, "upper")) == ["workspace"]
    with open(files(server, VOLUME, "upper/workspace/f")) as f:
        assert f.read() == "precious\n"
    assert sorted(os.listdir(files(server, VOLUME))) == ["inherited", "old", "upper", "volume"]


DELETE = ["delete-intent-written", "delete-killed", "delete-reaped", "delete-cgroup-gone", "delete-files-gone"]


@pytest.mark.parametrize("point", DELETE + KEEP)
def test_keep(house, point):
    """Whenever it dies, the sandbox is there to be deleted again, or is the volume."""
    house.start()
    ident = source(house)
    # Made after the start: what has no row is removed then.
    assert crash(house, point, lambda e: e.ask("destroy", FORK, volume=VOLUME),
                 lambda e: e.create(FORK, other=ident)), f"{point} was not passed"
    engine = Engine(house)
    until(lambda: engine.kept() == [VOLUME] and FORK not in house.traces(), "it is finished by the next engine")
    until(lambda: settled(house), "nothing half-made is left")
    check_volume(house)
    engine.create(TAKER, volume=VOLUME)
    assert engine.kept() == []
    with open(files(house, TAKER, "upper/workspace/f")) as f:
        assert f.read() == "precious\n"
    engine.ask("destroy", TAKER)
    assert engine.kept() == [VOLUME], "what was given at create is kept"
    check_volume(house)
    engine.create(TAKER, volume=VOLUME)
    engine.ask("destroy", TAKER, drop_volume=1)
    assert engine.kept() == [] and TAKER not in house.traces()


@pytest.mark.parametrize("point", ["attach-named", "create-box-made", "create-cgroup-made", "create-cloned"])
def test_attach(house, point):
    """A create that dies gives its volume back."""
    house.start()
    ident = source(house)
    engine = Engine(house)
    engine.create(FORK, other=ident)
    engine.ask("destroy", FORK, volume=VOLUME)
    engine.close()
    assert crash(house, point, lambda e: e.create(TAKER, volume=VOLUME)), f"{point} was not passed"
    engine = Engine(house)
    until(lambda: engine.kept() == [VOLUME] and TAKER not in house.traces(), "it is a volume again")
    until(lambda: settled(house), "nothing half-made is left")
    check_volume(house)
    engine.ask("drop", VOLUME)
    assert engine.kept() == []


def test_failed_create_gives_it_back(fresh):
    """No crash, only an error behind the attach."""
    server = fresh().start()
    ident = source(server)
    engine = Engine(server)
    engine.create(FORK, other=ident)
    engine.ask("destroy", FORK, volume=VOLUME)
    with pytest.raises(Refused, match="IMAGE_NOT_FOUND"):
        engine.create(TAKER, volume=VOLUME, image="no:such")
    assert engine.kept() == [VOLUME]
    check_volume(server)
    assert TAKER not in server.traces()


def test_spawner_dies_in_a_copy(house):
    """Whoever copies is killed: an error, nothing left, the source goes on."""
    house.start()
    ident = source(house)
    client = house.client()
    client.sh("source", "head -c 200000000 /dev/zero > /workspace/large")
    client.sh("source", "cd /workspace && mkdir many && cd many && for i in $(seq 3000); do echo $i > $i; done")
    spawners = [p for p in proc.children(house.pid("engine")) if proc.text(p, "comm").strip() == "cay-spawn"]
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
    until(lambda: settled(house), "nothing half-made is left")
    unharmed(house, ident)
    assert engine.snapshot(ident, SNAPSHOT).method
    assert engine.kept() == [SNAPSHOT]


def test_copies_leave_room(tmp_path):
    """Where every file is copied, half of the spawners go on with the rest."""
    with plain_server(tmp_path) as server:
        server.start()
        client = server.client()
        spawners = [p for p in proc.children(server.pid("engine")) if proc.text(p, "comm").strip() == "cay-spawn"]
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
