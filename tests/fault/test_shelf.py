# SPDX-License-Identifier: Apache-2.0
"""kill -9 of whoever works on the image store, step by step: what is needed stays, and what was begun is finished or goes."""
import fcntl
import os
import signal
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from fault.test_kill import children
from fault.test_store import failing, needs_strace
from harness import proc
from harness.engine import Engine, Layer as Message, Refused
from harness.layers import Layer, entry, folder, tar
from harness.wait import until

pytestmark = needs_strace
RENAME = "?renameat,?renameat2"  # by either of the two


@pytest.fixture(scope="module")
def options(store):
    return ["--images", store.path]


@contextmanager
def held(path):
    with open(path, "a", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield lambda: fcntl.flock(file, fcntl.LOCK_UN)


def settle(server, engine):
    """Nobody works on the store any more, and whoever clears up after one that died has done so."""
    engine.has("0" * 64)  # behind what it does at a death
    pid = server.pid("engine")
    born = proc.text(pid, "comm").strip()  # a child is called like its parent at first
    until(lambda: not children(pid, "cay-image") and not children(pid, born), "all is done")


def killed(server, lock, call, nth, op, **request):
    """Whether who does it came to this system call for the nth time since it had the lock, and was killed there."""
    engine = Engine(server)
    settle(server, engine)
    try:
        with held(lock) as release:
            engine.send(op, **request)
            pid, = until(lambda: children(server.pid("engine"), "cay-image"), "a child has begun")
            with failing(pid, call, f"signal=SIGKILL:when={nth}"):
                release()
                engine.answer()
        return False
    except Refused as e:
        assert "died" in e.msg, e
        return True
    finally:
        settle(server, engine)
        engine.close()


def steps(*calls):
    """Each call at its first, second, fourth… time. Whoever walks says when there are no more of one."""
    for call in calls:
        nth, more = 1, [True]
        while more[0]:
            yield call, nth, more
            nth *= 2


def known(store):
    """Layers of which something is written down."""
    return {p.name[:64] for p in Path(store.path, "meta").iterdir() if not p.name.startswith(".")}


def put_away(server, store):
    """What is half made, once it is so old that nobody can be at it, goes with the next who clears up."""
    for here, dirs, files in os.walk(store.path):
        dirs[:] = [d for d in dirs if d not in ("layers", "tmp")]
        for name in files:
            os.utime(os.path.join(here, name), times=(time.time() - 7200,) * 2)
    engine = Engine(server)
    settle(server, engine)
    with held(Path(store.path, "lock")):
        engine.send("image_prune")
        pid, = until(lambda: children(server.pid("engine"), "cay-image"), "a child has begun")
        until(store.leftovers, "it is at it")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(Refused):
            engine.answer()
    settle(server, engine)
    engine.close()
    assert store.leftovers() == []
    names = [p.name for d in ("refs", "meta", "fits", "uses") for p in Path(store.path, d).rglob("*")]
    assert not [n for n in names if n.startswith(".")]
    assert known(store) <= set(store.layers())


def test_prune(server, store, engine, client):
    named, used = Layer(tar(entry("named", b"1"))), Layer(tar(entry("used", b"2")))
    for layer in (named, used):
        layer.send(engine)
        engine.put(f"{layer.diff_id[:8]}:1", store.text(layer.diff_id))
    box = client.create("user", image=f"{used.diff_id[:8]}:1")["id"]
    engine.ask("image_remove", image=f"{used.diff_id[:8]}:1")
    engine.prune()
    kept, deaths = store.layers(), 0
    for call, nth, more in steps(RENAME, "unlinkat"):
        paths = [f"deep/{call}{nth}-{i}" for i in range(2)]  # in a directory that no entry names
        rubbish = {Layer(tar(entry(path, b"x"))): path for path in paths}
        for layer in rubbish:
            assert layer.send(engine).found == 0
        more[0] = killed(server, Path(store.path, "lock"), call, nth, "image_prune")
        deaths += more[0]
        assert store.leftovers() == [], (call, nth)
        left = [path for layer, path in rubbish.items() if layer.diff_id in store.layers() and
                store.layer(layer.diff_id, path).read_bytes() == b"x"]
        assert engine.prune().layers == len(left) and store.layers() == kept, (call, nth)
        assert known(store) <= set(kept)
        assert client.sh(box, "cat /used") == "2"
        assert client.post(f"/sandbox/{box}/stop").status == client.post(f"/sandbox/{box}/start").status == 200
        other = client.create("other", image=f"{named.diff_id[:8]}:1")["id"]
        assert client.sh(other, "cat /named") == "1"
        client.delete(f"/sandbox/{other}")
    assert deaths > 4
    put_away(server, store)


def test_layer(server, store, engine, client):
    deaths, lower = 0, Layer(tar(folder("deep", mode=0o711)))
    lower.send(engine)
    for call, nth, more in steps(RENAME, "syncfs", "fsync", "unlinkat"):
        layer = Layer(tar(entry(f"deep/{call}{nth}", b"whole")))
        with tempfile.TemporaryFile() as file:
            file.write(layer.packed)
            file.flush()
            message = Message(layer.digest.encode(), layer.diff_id.encode(), 0, len(layer.packed))
            more[0] = killed(server, Path(store.path, "tmp", f"lock-{layer.diff_id}"), call, nth, "image_layer",
                             fds=[file.fileno()], layer=message)
        deaths += more[0]
        there = layer.diff_id in store.layers()
        assert (there or more[0]) and store.leftovers() == [], (call, nth)
        assert layer.send(engine).found == there
        engine.put("cut:1", store.text(layer.diff_id, lower.diff_id))
        box = client.create("box", image="cut:1")["id"]
        assert client.sh(box, f"stat -c %a /deep; cat '/deep/{call}{nth}'") == "711\nwhole"
        client.delete(f"/sandbox/{box}")
    assert deaths > 4
    put_away(server, store)


def test_name(server, store, engine, client):
    """It stands for what it did, or for what it shall, and can be set again."""
    deaths, now = 0, store.text()
    engine.put("name:1", now)
    for call, nth, more in steps("write", RENAME, "fsync"):
        before, now = now, store.text(user=f"u{deaths}")
        with tempfile.TemporaryFile() as file:
            file.write(now.encode())
            file.flush()
            more[0] = killed(server, Path(store.path, "lock"), call, nth, "image_put", fds=[file.fileno()], image="name:1")
        deaths += more[0]
        assert engine.images("name:1")["name:1"][2] in ((before, now) if more[0] else (now,)), (call, nth)
        engine.put("name:1", now)
    assert deaths > 3 and engine.images("name:1")["name:1"][2] == now
    put_away(server, store)
