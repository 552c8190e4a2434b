# SPDX-License-Identifier: Apache-2.0
"""The image store: layers that are whole or not there, names, what is kept, and strangers' layers."""
import fcntl
import gzip
import os
import random
import re
import socket
import stat
import struct
import subprocess
import tarfile
import threading
from pathlib import Path

import pytest

from harness.engine import Engine, Layer as Message, Refused
from harness.layers import Layer, entry, folder, hard, link, sha256, tar
from harness.points import points
from harness.wait import stretch, until

TOP_DIRECTORY = 0x20000  # chattr +T


@pytest.fixture(scope="module")
def options(store):
    return ["--images", store.path]


def refused(engine, layer, **changes):
    with pytest.raises(Refused) as e:
        layer.send(engine, **changes)
    return e.value


def run(client, name, command, **spec):
    """Output of a command in a new sandbox of that image."""
    box = client.create(name.replace(":", "-"), image=name, **spec)
    answer = client.post(f"/sandbox/{box['id']}/exec", {"command": command}).json()
    client.delete(f"/sandbox/{box['id']}")
    return answer["stdout"] + answer["stderr"]


# ---- layers ----

def test_a_layer_is_unpacked_once_and_owned_as_it_says(engine, store, client):
    layer = Layer(tar(folder("srv", uid=7, gid=8, mode=0o2755), entry("srv/a", b"text", uid=1000, mode=0o640, mtime=1234567),
                      hard("srv/b", "srv/a"), link("srv/c", "/etc/passwd")))
    assert not engine.has(layer.diff_id)
    first = layer.send(engine)
    assert (first.found, first.bytes, first.entries) == (0, 4, 4)
    assert engine.has(layer.diff_id)
    assert layer.send(engine).found == 1
    at = store.layer(layer.diff_id, "srv")
    assert (at.stat().st_uid, at.stat().st_gid, stat.S_IMODE(at.stat().st_mode)) == (7, 8, 0o2755)
    assert (at / "a").stat().st_mtime == 1234567 and (at / "a").stat().st_uid == 1000
    assert (at / "a").stat().st_ino == (at / "b").stat().st_ino
    assert os.readlink(at / "c") == "/etc/passwd"
    engine.put("once:1", store.text(layer.diff_id))
    assert run(client, "once:1", "stat -c '%u %g %a' /srv /srv/a | tr '\\n' ' '") == "7 8 2755 1000 0 640 "
    assert store.leftovers() == []


@pytest.mark.parametrize("form", ["plain", "gzip", "zstd", "gzip in two members"])
def test_every_form_of_a_layer(engine, store, form, tmp_path):
    plain = tar(entry(f"of-{form.replace(' ', '-')}", random.Random(1).randbytes(300000)))
    if form == "plain":
        packed = plain
    elif form == "zstd":
        (tmp_path / "l").write_bytes(plain)
        packed = subprocess.run(["zstd", "-qc", tmp_path / "l"], capture_output=True, check=True).stdout
    elif form == "gzip":
        packed = None
    else:
        packed = gzip.compress(plain[:1000]) + gzip.compress(plain[1000:])
    layer = Layer(plain, packed)
    assert layer.send(engine).bytes == 300000


def test_a_layer_out_of_the_middle_of_a_file(engine, tmp_path):
    layer = Layer(tar(entry("in-the-middle", b"x")))
    (tmp_path / "f").write_bytes(b"a" * 1000 + layer.packed + b"b" * 1000)
    with open(tmp_path / "f", "rb") as file:
        assert engine.layer(file, layer.diff_id, layer.digest, 1000, len(layer.packed)).bytes == 1


@pytest.mark.parametrize("what, changes", [
    ("digest", {"digest": "0" * 64}), ("diff id", {"diff_id": "0" * 64}), ("size", {"size": 10})])
def test_what_is_not_what_it_should_be_is_not_there(engine, store, what, changes):
    layer = Layer(tar(entry(f"wrong-{what}", b"x")))
    error = refused(engine, layer, **changes)
    assert error.name in ("DIGEST_MISMATCH", "BAD_LAYER")
    assert not engine.has(layer.diff_id) and not engine.has("0" * 64)
    assert store.leftovers() == []
    assert layer.send(engine).found == 0  # and can be had afterwards


def test_a_layer_that_is_cut(engine, store):
    layer = Layer(tar(entry("cut", os.urandom(100000))))
    whole = layer.packed
    for part in (1, 500, len(whole) // 2, len(whole) - 1):
        layer.packed = whole[:part]
        assert refused(engine, layer, digest=sha256(layer.packed)).name in ("BAD_LAYER", "DIGEST_MISMATCH")
    assert not engine.has(layer.diff_id) and store.leftovers() == []


def test_whoever_asks_for_the_same_layer_waits_and_finds_it(server, store):
    layer = Layer(tar(*(entry(f"many/{i}", b"x" * 2000) for i in range(3000))))
    found = []

    def send():
        engine = Engine(server)
        found.append(layer.send(engine).found)
        engine.close()

    threads = [threading.Thread(target=send) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [0, 1, 1, 1, 1]
    assert store.leftovers() == []


def flags(path, add=0):
    """What chattr sets."""
    fd = os.open(path, os.O_RDONLY)
    try:
        now = struct.unpack("i", fcntl.ioctl(fd, 0x80086601, b"\0" * 4))[0]
        if add:
            fcntl.ioctl(fd, 0x40086602, struct.pack("i", now | add))
        return now
    finally:
        os.close(fd)


def test_layers_begin_apart_on_the_disk(server, store):
    probe = Path(store.path, "tmp/probe")
    probe.mkdir()
    try:
        flags(probe, TOP_DIRECTORY)
    except OSError:
        pytest.skip("this filesystem does not spread directories")
    finally:
        probe.rmdir()
    assert flags(Path(store.path, "tmp")) & TOP_DIRECTORY
    assert not flags(Path(store.path, "refs")) & TOP_DIRECTORY


def test_whiteouts_hide_what_is_below(engine, store, client):
    low = Layer(tar(folder("d"), entry("d/a", b"1"), entry("d/b", b"1"), folder("o"), entry("o/below", b"1"),
                    folder("again"), entry("again/below", b"1"), folder("late"), entry("late/below", b"1")))
    top = Layer(tar(folder("d"), entry("d/.wh.a"), folder("o"), entry("o/.wh..wh..opq"), entry("o/above", b"2"),
                    # Removed and made anew, told in either order.
                    entry(".wh.again"), folder("again"), entry("again/above", b"2"),
                    folder("late"), entry("late/above", b"2"), entry(".wh.late")))
    low.send(engine), top.send(engine)
    engine.put("white:1", store.text(top.diff_id, low.diff_id))
    assert run(client, "white:1", "echo $(ls /d /o /again /late)") == "/again: above /d: b /late: above /o: above\n"


IMPLIED = {"srv": "700 5:6", "opt/drop": "1777 0:0", "gone": "755 0:0", "data": "2750 0:8", "data/in": "770 9:0", "late": "711 0:0",
           "own": "710 0:0", "alone": "755 0:0", "link/to": "755 0:0", "hidden/in": "755 0:0"}


def test_a_directory_that_no_entry_names_is_what_lower_layers_say(engine, store, client):
    lower = Layer(tar(folder("srv", mode=0o700, uid=5, gid=6), folder("opt"), folder("opt/drop", mode=0o1777), folder("data", mode=0o2750, gid=8),
                      folder("data/in", mode=0o770, uid=9), folder("gone", mode=0o711), folder("late", mode=0o700), folder("link", mode=0o700),
                      folder("link/to", mode=0o700), folder("hidden"), folder("hidden/in", mode=0o700), folder("off", mode=0o700)))
    middle = Layer(tar(entry(".wh.gone"), link("link", "opt"), folder("hidden"), entry("hidden/.wh..wh..opq")))
    upper = Layer(tar(*(entry(f"{name}/f", b"x") for name in (*IMPLIED, "off")), folder("own", mode=0o710)))
    top = Layer(tar(folder("late", mode=0o711), entry(".wh.off")))
    layers = [top, upper, middle, lower]
    for layer in layers:
        layer.send(engine)
    engine.put("implied:1", store.text(*(layer.diff_id for layer in layers)))
    box = client.create("implied", image="implied:1")
    command = f"cd / && stat -c '%n %a %u:%g' {' '.join(IMPLIED)}; ls -d /off"
    answer = client.post(f"/sandbox/{box['id']}/exec", {"command": command, "user": "root"}).json()
    client.delete(f"/sandbox/{box['id']}")
    assert dict(line.split(" ", 1) for line in answer["stdout"].splitlines()) == IMPLIED, answer
    assert "/off: No such file" in answer["stderr"]
    # The layer itself belongs to no image.
    assert stat.S_IMODE(os.stat(store.layer(upper.diff_id, "srv")).st_mode) == 0o755


def test_a_layer_may_come_twice(engine, store, client):
    empty, other = Layer(bytes(1024)), Layer(tar(entry("other", b"x")))
    empty.send(engine), other.send(engine)
    engine.put("twice:1", store.text(empty.diff_id, other.diff_id, empty.diff_id))
    assert run(client, "twice:1", "cat /other") == "x"


def test_more_layers_than_a_sandbox_takes(engine, store, client):
    """64, or fewer where their names are long, as digests are: a mount takes a page of them."""
    layers = [Layer(tar(entry(f"layer-{i}", str(i).encode()))) for i in range(65)]
    for layer in layers:
        layer.send(engine)
    ids = [layer.diff_id for layer in layers]
    with pytest.raises(Refused) as told:
        engine.put("deep:1", store.text(*ids))
    assert told.value.name == "TOO_MANY_LAYERS"
    Path(store.path, "refs", "deep:1").write_text(store.text(*ids))  # as of an engine that took more
    answer = client.post("/sandbox", {"name": "deep", "image": "deep:1"})
    assert (answer.status, answer.error["code"]) == (501, "TOO_MANY_LAYERS"), answer
    most = int(re.search(r"an image may have (\d+) layers", answer.body.decode())[1])
    assert 40 < most <= 64 and client.names() == []
    engine.put("deep:2", store.text(*ids[:most - 1]))
    assert run(client, "deep:2", f"cat /layer-0 /layer-{most - 2}") == f"0{most - 2}"
    for n in ("1", "2"):
        Path(store.path, "refs", f"deep:{n}").unlink()


# ---- strangers' layers ----

REFUSED = {
    "a name that leads out": [entry("../out", b"x")],
    "one that leads out in the middle": [entry("a/../../out", b"x")],
    "a hard link that leads out": [hard("a", "../../../../etc/passwd")],
    "a hard link to the host": [hard("a", "/etc/passwd")],
    "a hard link through a symlink": [link("l", "/../../../etc"), hard("a", "l/passwd")],
    "a hard link to a device of ours": [entry(".wh.n"), hard("a", "n")],
    "a whiteout of the parent": [entry("a/.wh...", b"")],
    "a whiteout of nothing": [entry("a/.wh.", b"")],
    "an opaque directory behind a link": [folder("real"), link("l", "real"), entry("l/.wh..wh..opq")],
    "an owner of another range": [entry("a", b"x", uid=65536)],
    "a group of another range": [entry("a", b"x", gid=1 << 31)],
    "directories too deep": [entry("/".join(["d"] * 300), b"x")],
    "a file in the place of a full directory": [entry("a/b", b"x"), entry("a", b"x")],
    "a name that is too long": [entry("n" * 300, b"x")],
    "the root as a file": [entry("./", b"x", kind=tarfile.SYMTYPE, linkname="/etc")],
    "a loop of links": [link("a", "b"), link("b", "a"), entry("a/x", b"x")],
}


@pytest.mark.parametrize("what", REFUSED)
def test_hostile_layers_are_refused_with_a_reason(engine, store, what):
    layer = Layer(tar(*REFUSED[what]))
    error = refused(engine, layer)
    assert error.name == "BAD_LAYER" and error.msg
    assert not engine.has(layer.diff_id) and store.leftovers() == []


def test_links_in_a_layer_lead_nowhere_else(engine, store):
    """Written through a link to the host's root: it lands in the layer."""
    mark = f"/cay-out-{os.getpid()}"
    layer = Layer(tar(link("root", "/"), link("up", "../../../.."), entry(f"root{mark}", b"1"), entry(f"up{mark}-2", b"2")))
    layer.send(engine)
    assert not os.path.exists(mark) and not os.path.exists(mark + "-2")
    assert store.layer(layer.diff_id, mark[1:]).read_bytes() == b"1"
    assert store.layer(layer.diff_id, mark[1:] + "-2").read_bytes() == b"2"


def test_devices_and_pipes_are_left_out(engine, store):
    layer = Layer(tar(entry("sda", kind=tarfile.BLKTYPE, devmajor=8), entry("mem", kind=tarfile.CHRTYPE, devmajor=1, devminor=1),
                      entry("white", kind=tarfile.CHRTYPE), entry("pipe", kind=tarfile.FIFOTYPE), entry("file", b"x")))
    layer.send(engine)
    assert [p.name for p in store.layer(layer.diff_id).iterdir()] == ["file"]


def test_setuid_files_give_nothing_and_are_out_of_the_hosts_reach(engine, store, client):
    busybox = store.layer(store.base, "bin", "busybox").read_bytes()
    layer = Layer(tar(entry("usr/local/bin/busybox", busybox, mode=0o6755)))
    layer.send(engine)
    engine.put("suid:1", store.text(layer.diff_id))
    assert stat.S_IMODE(store.layer(layer.diff_id, "usr/local/bin/busybox").stat().st_mode) == 0o6755
    assert stat.S_IMODE(os.stat(Path(store.path, "layers")).st_mode) == 0o700
    assert run(client, "suid:1", "/usr/local/bin/busybox id -u") == "1000\n"


def test_capabilities_of_files_are_dropped_and_users_attributes_kept(engine, store):
    raw = struct.pack("<IIIII", 0x02000001, 0xFFFFFFFF, 0xFF, 0, 0)
    pax = {"SCHILY.xattr.security.capability": raw.decode("latin-1"), "SCHILY.xattr.user.note": "kept",
           "SCHILY.xattr.trusted.overlay.opaque": "y", "SCHILY.xattr.user.overlay.opaque": "y",
           "SCHILY.xattr.trusted.overlay.redirect": "/etc"}
    layer = Layer(tar(entry("tool", b"x", pax_headers=pax), folder("dir", pax_headers=pax)))
    layer.send(engine)
    for name in ("tool", "dir"):
        assert os.listxattr(store.layer(layer.diff_id, name)) == ["user.note"]


LINKED = {"/dev": "/etc", "/proc": "/tmp", "/sys": "/", "/etc/resolv.conf": "/proc/1/environ", "/tmp": "/",
          "/workspace": "/etc", "/home": "/root", "/etc/passwd": "/dev/null", "/etc/hosts": "../../../../etc/shadow"}


def test_links_in_the_places_that_are_ours(engine, store, client):
    """A whole image whose system directories are links: the sandbox has its own all the same."""
    layer = Layer(tar(*(link(name[1:], to) for name, to in LINKED.items()),
                      entry("init", b"#!/bin/sh\necho taken\n", mode=0o755), entry(".cay", b"x"), entry("cay-init", b"x", mode=0o755)))
    layer.send(engine)
    engine.put("links:1", store.text(layer.diff_id))
    out = run(client, "links:1", "test -c /dev/null && test -d /proc/self && test -d /sys/fs && cat /etc/resolv.conf && touch /tmp/x "
              "/workspace/y && grep -c user /etc/passwd && cat /proc/1/comm")
    assert "nameserver" in out and out.endswith("1\ncay-init\n"), out
    assert not os.path.exists("/x") and not os.path.exists("/etc/y")


def test_names_with_anything_in_them(engine, store):
    names = ["new\nline", "-rf", "*", "\u00fc", "tab\there", "back\\slash", "\udcff".encode("utf-8", "surrogateescape").decode("latin-1")]
    layer = Layer(tar(*(entry(f"odd/{n}", b"x") for n in names)))
    layer.send(engine)
    assert sorted(os.listdir(store.layer(layer.diff_id, "odd"))) == sorted(names)


# ---- bombs ----

def test_a_bomb_by_ratio(engine, store):
    info, _ = entry("zeros")
    info.size = 8 << 30
    head = info.tobuf(tarfile.PAX_FORMAT)
    # Packed by a pipe: neither side has the whole in memory.
    made = subprocess.run("(cat; head -c 2G /dev/zero) | zstd -qc", shell=True, input=head, capture_output=True, check=True)
    layer = Layer(b"", made.stdout)
    assert len(layer.packed) < 1 << 20
    error = refused(engine, layer)
    assert error.name == "LAYER_TOO_LARGE" and "times" in error.msg
    assert store.leftovers() == []


@pytest.mark.limit(180)
def test_a_bomb_by_count(engine, store):
    info, _ = entry("x", kind=tarfile.CHRTYPE)
    layer = Layer(info.tobuf(tarfile.USTAR_FORMAT) * 1000001)  # those that are left out count too
    error = refused(engine, layer)
    assert error.name == "LAYER_TOO_LARGE" and "entries" in error.msg
    assert store.leftovers() == []


def test_a_bomb_of_opaque_directories(engine, store):
    """What is told of them is held in memory: it ends before the rest is even looked at."""
    name = "/".join(["d" * 250] * 16)
    info, _ = entry(f"{name}/.wh..wh..opq")
    layer = Layer(info.tobuf(tarfile.PAX_FORMAT) * 17000 + b"no tar any more" * 100)
    error = refused(engine, layer)
    assert error.name == "LAYER_TOO_LARGE" and "directories to mark" in error.msg
    assert store.leftovers() == []


def test_sparse_terabytes(engine, store):
    pax = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "huge", "GNU.sparse.realsize": str(1 << 42)}
    assert refused(engine, Layer(tar(entry("huge", b"1\n0\n0\n".ljust(512, b"\0"), pax_headers=pax)))).name == "BAD_LAYER"
    info, _ = entry("old")
    info.type = b"S"
    assert refused(engine, Layer(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024))).name == "BAD_LAYER"
    info, _ = entry("says-so")
    info.size = 1 << 50
    assert refused(engine, Layer(info.tobuf(tarfile.PAX_FORMAT) + bytes(4096))).name == "BAD_LAYER"


def test_noise_is_no_layer(engine, store):
    rng = random.Random(7)
    whole = tar(*(entry(f"n/{i}", rng.randbytes(700)) for i in range(20)))
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 8)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        layer = Layer(bytes(data))
        try:
            layer.send(engine)
        except Refused as e:
            assert e.name == "BAD_LAYER"
    assert store.leftovers() == []


# ---- requests ----

def test_the_engine_believes_no_request_about_images(engine, server, tmp_path):
    file = open(tmp_path / "f", "wb+")
    bad = [("image_layer", {"layer": Message(b"", b"../../etc", 0, 1), "fds": [file.fileno()]}),
           ("image_layer", {"layer": Message(b"x" * 64, b"0" * 64, 0, 1), "fds": [file.fileno()]}),
           ("image_layer", {"layer": Message(b"", b"0" * 64, 0, 1)}),
           ("image_has", {"layer": Message(b"", b"")}),
           ("image_put", {"image": "a\nb", "fds": [file.fileno()]}),
           ("image_put", {"image": "", "fds": [file.fileno()]}),
           ("image_put", {"image": "x:1"}),
           ("image_remove", {"image": "../refs/busybox"}),
           ("image_export", {"image": "x y", "fds": [file.fileno()]}),
           ("image_list", {"image": "busybox", "fds": [file.fileno()]}),
           ("hello", {"fds": [file.fileno()]})]
    for op, fields in bad:
        try:
            engine.ask(op, **fields)
            assert op == "hello"  # what it brought is closed
        except Refused as e:
            assert e.code in (-1, -2), (op, e)
    before = len(os.listdir(f"/proc/{server.pid('engine')}/fd"))
    socket.send_fds(engine.sock, [b"x" * 10], [file.fileno()] * 2)
    with pytest.raises(OSError):
        engine.answer()
    until(lambda: len(os.listdir(f"/proc/{server.pid('engine')}/fd")) <= before, "the engine closes what it was sent")
    file.close()


def test_a_name_needs_its_layers(engine, store):
    with pytest.raises(Refused) as e:
        engine.put("none:1", store.text("1" * 64))
    assert e.value.name == "LAYER_MISSING"
    with pytest.raises(Refused):
        engine.put("none:1", "layers=../../etc\n")
    with pytest.raises(Refused):
        engine.put("none:1", "x" * 70000)
    assert "none:1" not in engine.images()


# ---- what is kept ----

def test_layers_are_kept_while_somebody_needs_them(engine, store, client, fresh):
    layer = Layer(tar(entry("kept", b"12345")))
    layer.send(engine)
    assert engine.prune().bytes >= 0  # whatever other tests left, this too
    assert not engine.has(layer.diff_id)

    layer.send(engine)
    engine.put("kept:1", store.text(layer.diff_id))
    engine.put("kept/again:2", store.text(layer.diff_id))
    assert engine.prune().layers == 0 and engine.has(layer.diff_id)
    box = client.create("user-of-it", image="kept:1")
    size, uses, _ = engine.images("kept:1")["kept:1"]
    assert uses == 1 and size > 5
    snapshot = client.post(f"/sandbox/{box['id']}/snapshot", {}).json()
    engine.ask("image_remove", image="kept:1")
    engine.ask("image_remove", image="kept/again:2")
    assert engine.prune().layers == 0 and engine.has(layer.diff_id), "a sandbox was made from it"
    assert client.post(f"/sandbox/{box['id']}/exec", {"command": "cat /kept"}).json()["stdout"] == "12345"
    client.delete(f"/sandbox/{box['id']}")
    assert engine.prune().layers == 0 and engine.has(layer.diff_id), "a snapshot was made from it"
    client.delete(f"/snapshots/{snapshot['id']}")
    pruned = engine.prune()
    assert (pruned.layers, pruned.bytes) == (1, 5)
    assert not engine.has(layer.diff_id) and store.leftovers() == []
    with pytest.raises(Refused) as e:
        engine.images("kept:1")
    assert e.value.name == "IMAGE_NOT_FOUND"


def test_servers_that_share_a_store_keep_each_others_layers(engine, store, client):
    layer = Layer(tar(entry("shared", b"x")))
    layer.send(engine)
    engine.put("shared:1", store.text(layer.diff_id))
    with store.server() as other:
        theirs = other.client()
        box = theirs.create("other", image="shared:1")
        engine.ask("image_remove", image="shared:1")
        assert engine.prune().layers == 0 and engine.has(layer.diff_id)
        theirs.delete(f"/sandbox/{box['id']}")
        second = Engine(other)
        assert second.prune().layers == 1
        second.close()
        theirs.close()
    assert not engine.has(layer.diff_id)


# ---- crashes ----

def big(mark):
    return Layer(tar(entry(mark, b"x"), *(entry(f"big/{i}", random.Random(i).randbytes(20000)) for i in range(3000))))


@pytest.mark.parametrize("who", ["engine", "all"])
def test_a_kill_in_the_middle_leaves_no_half_layer(store, who):
    layer = big(who)
    server = store.server()
    server.start()
    try:
        engine = Engine(server)
        thread = threading.Thread(target=lambda: pytest.raises(Exception, layer.send, engine))
        thread.start()
        until(lambda: any(Path(store.path, "tmp").glob("layer-*/tree/big/10")), "it is being unpacked", 20, 0.001)
        server.kill(who)
        thread.join()
        engine.close()
        server.recover()
        assert layer.diff_id not in store.layers()
        until(lambda: store.leftovers() == [], "what was begun is removed")
        engine = Engine(server)
        assert layer.send(engine).found == 0
        engine.close()
    finally:
        server.close()


@pytest.mark.parametrize("point", points("layer") or ["none"])
def test_a_crash_before_or_behind_the_name(store, point):
    """A layer has its name when it is whole, and not before."""
    layer = Layer(tar(entry(point, b"x")))
    server = store.server()
    server.start(env={"CAY_CRASH_AT": point})
    try:
        engine = Engine(server)
        with pytest.raises(Exception):
            layer.send(engine)
        engine.close()
        server.process.wait(stretch(5))
        server.process = None
        server.recover()
        assert (layer.diff_id in store.layers()) == (point == "layer-named")
        until(lambda: store.leftovers() == [], "what was begun is removed")
        engine = Engine(server)
        assert layer.send(engine).found == (point == "layer-named")
        engine.close()
    finally:
        server.close()


def test_a_client_that_goes_ends_the_work(server, store):
    layer = big("gone")
    open_files = f"/proc/{server.pid('engine')}/fd"
    before = len(os.listdir(open_files))
    engine = Engine(server)
    file = open(os.path.join(store.path, "blob"), "wb+")
    file.write(layer.packed)
    file.flush()
    engine.send("image_layer", fds=[file.fileno()], layer=Message(layer.digest.encode(), layer.diff_id.encode(), 0, len(layer.packed)))
    until(lambda: any(Path(store.path, "tmp").glob("layer-*/tree/big/10")), "it is being unpacked", 20, 0.001)
    engine.close()
    file.close()
    os.unlink(file.name)
    until(lambda: store.leftovers() == [], "the work is given up")
    other = Engine(server)
    assert not other.has(layer.diff_id)
    other.close()
    until(lambda: len(os.listdir(open_files)) <= before, "the engine has closed all that it had of it")


def test_readers_that_do_not_read_hold_up_nobody(server, store, tmp_path):
    """Of exports only a few run at once, and what moves no data does not wait for them."""
    layer = Layer(tar(entry("noise", os.urandom(1 << 20))))
    first = Engine(server)
    layer.send(first)
    first.put("slow:1", store.text(layer.diff_id))
    readers, pipes = [], [os.pipe() for _ in range(6)]
    for _, to in pipes:
        reader = Engine(server)
        reader.send("image_export", fds=[to], image="slow:1")
        readers.append(reader)
    assert "slow:1" in first.images("slow:1")
    other = Layer(tar(entry("beside", b"x")))
    assert other.send(first).found == 0, "and there is room for a layer"
    assert not any(reader.has_answer() for reader in readers)
    for reader, (out, to) in zip(readers, pipes):
        reader.close()
        os.close(out)
        os.close(to)
    first.ask("image_remove", image="slow:1")
    first.close()
