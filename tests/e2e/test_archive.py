# SPDX-License-Identifier: Apache-2.0
"""Trees that go in and come out as tar files, and what such a file may not do; watched directories."""
import gzip
import io
import os
import socket
import tarfile
import threading

import pytest

from harness import proc
from harness.client import Stream
from harness.wait import until
from test_files import Files, code, workers

TAR = {"Content-Type": "application/x-tar"}


class Archive(Files):
    def pack(self, path=".", headers=None, **query):
        return self.client.request("GET", self.base + "/archive", None, {"path": path, **query}, headers)

    def unpack(self, data, path=".", **query):
        return self.client.request("PUT", self.base + "/archive", data, {"path": path, **query}, TAR)

    def watch(self, path=".", **query):
        return self.client.events("GET", self.base + "/watch", None, {"path": path, **query})


@pytest.fixture
def archive(client, box):
    return Archive(client)


def tar(*members, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as t:
        for name, kind, more in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            data = b""
            if kind == tarfile.REGTYPE:
                data = more
                info.size = len(data)
            elif kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                info.linkname = more
            elif kind == tarfile.CHRTYPE:
                info.devmajor, info.devminor = more
            t.addfile(info, io.BytesIO(data))
    return out.getvalue()


FILE, LINK, HARD, DIR, DEVICE = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE
MAKE = """
mkdir -p t/d/empty t/$(printf 'n%.0s' $(seq 120)); echo one > t/a; ln t/a t/same; ln -s ../a t/d/link
echo run > t/d/x.sh; chmod 750 t/d/x.sh; echo long > t/$(printf 'n%.0s' $(seq 120))/f; chmod 700 t/d/empty
truncate -s 20M t/sparse; echo end >> t/sparse; touch -d @1000000000 t/a; printf x > "t/sp ace
line"
"""
SHOW = "cd %s && find . | sort && stat -c '%%n %%a %%s %%h' a same d/x.sh d/empty sparse && stat -c %%Y a && readlink d/link && cat n*/f"


@pytest.mark.parametrize("form, kind", [("tar", "application/x-tar"), ("tar.gz", "application/gzip")])
def test_round_trip(archive, client, form, kind):
    client.sh("box", MAKE)
    packed = archive.pack("t", format=form)
    assert packed.status == 200 and packed.headers["Content-Type"] == kind, packed
    with tarfile.open(fileobj=io.BytesIO(packed.body)) as t:  # others read it
        names = {m.name: m for m in t.getmembers()}
        assert names["d/x.sh"].mode == 0o750 and names["a"].mtime == 1000000000
        assert names["d/link"].linkname == "../a" and names["sparse"].size == 20 * 1024 * 1024 + 4
        hard = [m for m in (names["a"], names["same"]) if m.islnk()]
        assert len(hard) == 1
    answer = archive.unpack(packed.body, "new/place")
    assert answer.status == 200 and answer.json()["skipped"] == 0, answer
    assert client.sh("box", SHOW % "new/place") == client.sh("box", SHOW % "t")
    assert int(client.sh("box", "du -k new/place/sparse").split()[0]) < 1024
    assert archive.unpack(packed.body, "new/place").status == 200  # over itself


def test_made_by_others(archive, client, tmp_path):
    members = [("d", DIR, None), ("d/f", FILE, b"x" * 1000), ("n" * 90 + "/" + "m" * 90, FILE, b"long"), ("schön", FILE, b"u")]
    for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=kind) as t:
            for name, what, data in members:
                info = tarfile.TarInfo(name)
                info.type, info.size = what, len(data or b"")
                info.mode = 0o755 if what == DIR else 0o640
                t.addfile(info, io.BytesIO(data or b""))
        assert archive.unpack(out.getvalue(), f"o{kind}").json()["entries"] == 4
        assert client.sh("box", f"cd o{kind}; cat d/f n*/m* sch*; stat -c %a d/f") == "x" * 1000 + "longu640\n"


def test_filters(archive, client):
    client.sh("box", "mkdir -p src/lib node_modules/x .git; touch src/a.c src/a.o src/lib/b.c node_modules/x/y .git/c top")

    def names(**query):
        with tarfile.open(fileobj=io.BytesIO(archive.pack(**query).body)) as t:
            return sorted(t.getnames())

    assert names(exclude=["*.o", "node_modules", ".git"]) == ["src", "src/a.c", "src/lib", "src/lib/b.c", "top"]
    assert names(include=["src/lib", "top"]) == ["src/lib", "src/lib/b.c", "top"]
    assert names(include="src", exclude="*.c") == ["src", "src/a.o", "src/lib"]
    assert names(path="src/a.c") == ["a.c"]
    code(archive.pack(include=["x"] * 65), 400, "VALIDATION_ERROR")


def test_rights(archive, client):
    """What cannot be read is an error at once, not a hole in the archive."""
    client.sh("box", "mkdir -p d/e; echo x > d/e/f; chmod 600 d/e/f; chown root d/e/f", user="root")
    details = code(archive.pack("d"), 403, "PERMISSION_DENIED")
    assert details["cause"] == "e/f"
    assert archive.pack("d", user="root").status == 200
    assert archive.pack("d", exclude="e").status == 200
    code(archive.pack("no"), 404, "NOT_FOUND")
    packed = tar(("f", FILE, b"x"))
    code(archive.unpack(packed, "/etc"), 403, "PERMISSION_DENIED")
    assert archive.unpack(packed, "/etc/made", user="root").status == 200
    assert client.sh("box", "stat -c %u /etc/made/f") == "0\n"


@pytest.mark.parametrize("members, name", [
    ([("../out", FILE, b"x")], "BAD_ARCHIVE"),
    ([("a/../../out", FILE, b"x")], "BAD_ARCHIVE"),
    ([("/../out", FILE, b"x")], "BAD_ARCHIVE"),
    ([("l", LINK, ".."), ("l/out", FILE, b"x")], "BAD_ARCHIVE"),
    ([("l", LINK, "/workspace"), ("l/out", FILE, b"x")], "BAD_ARCHIVE"),
    ([("l", LINK, ".."), ("l/out", DIR, None)], "BAD_ARCHIVE"),
    ([("h", HARD, "../victim")], "BAD_ARCHIVE"),
    ([("h", HARD, "/workspace/victim")], "BAD_ARCHIVE"),
    ([("l", LINK, ".."), ("h", HARD, "l/victim"), ("h", FILE, b"x")], "BAD_ARCHIVE"),
    ([("l", LINK, "../victim"), ("l", FILE, b"x")], None),
    ([("l", LINK, "../victim"), ("h", HARD, "l"), ("h", FILE, b"x")], None),
    ([("/abs", FILE, b"x")], None),
    ([("dev", DEVICE, (1, 3)), ("fifo", tarfile.FIFOTYPE, None)], None),
])
def test_hostile(archive, client, members, name):
    client.sh("box", "echo safe > victim")
    for user in ("user", "root"):
        answer = archive.unpack(tar(*members), f"into-{user}", user=user)
        if name:
            code(answer, 400, name)
        else:
            assert answer.status == 200, answer
        assert client.sh("box", "cat victim; ls -d out /out 2>/dev/null; find . -type b -o -type c -o -type p") == "safe\n"


def test_no_archive(archive, client):
    good = tar(("f", FILE, b"x" * 5000))
    for bad in (b"", b"hello", b"\x1f\x8b" + b"x" * 50, os.urandom(2000), good[:1000], good[:3000],
                gzip.compress(good)[:-20], b"\0" * 100):
        code(archive.unpack(bad, "o"), 400, "BAD_ARCHIVE")
    assert archive.unpack(b"\0" * 1024, "o").json()["entries"] == 0
    assert "o/f" not in client.sh("box", "find o -size +0")


def test_bombs(archive, client):
    """Neither a small file that says it is large nor one that is can fill more than the disk."""
    client.create("small", diskSizeGB=0.1)
    small = Archive(client, "small")
    head = tarfile.TarInfo("huge")
    head.size = 1 << 40
    code(small.unpack(head.tobuf(), "o"), 413, "TOO_LARGE")
    bomb = gzip.compress(tar(*((f"z{i}", FILE, b"\0" * 30_000_000) for i in range(5))))
    assert len(bomb) < 300_000
    code(small.unpack(bomb, "o"), 413, "TOO_LARGE")
    many = gzip.compress(tar(*((f"r{i}", FILE, os.urandom(1 << 16) * 300) for i in range(6))))
    assert small.unpack(many, "o").status in (413, 507)
    assert client.sh("small", "rm -r o; echo alive") == "alive\n"


def test_packing_is_cut_when_it_cannot_be_finished(archive, client, server):
    client.sh("box", "mkdir t; head -c 60000000 /dev/urandom > t/a")
    with client.stream("GET", archive.base + "/archive", None, {"path": "t"}, None, "application/x-tar") as s:
        assert s.status == 200
        s.response.read(1000)
        client.sh("box", ": > t/a")
        with pytest.raises(Exception):
            while s.response.read(1 << 20):
                pass
    until(lambda: not workers(server), "cay-file has ended")


@pytest.mark.limit(200)
def test_large_archive(server, client, box):
    """Half a GiB in and out, and the server stays as it was."""
    client.sh("box", "mkdir big; head -c 536870912 /dev/zero > big/f")
    before, peak, got = proc.rss_kib(server.pid("server")), [], 0
    with client.stream("GET", "/sandbox/box/files/archive", None, {"path": "big"}, None, "application/x-tar") as s:
        while piece := s.response.read(1 << 20):
            got += len(piece)
            if got % (64 << 20) < (1 << 20):
                peak.append(proc.rss_kib(server.pid("server")))
    assert got > 512 << 20
    assert max(peak) - before < 8 * 1024, (before, peak)


# ---- watching ----

def watched(archive, script, last, **query):
    """The events of a script, from the moment the watch is there."""
    seen = []
    with archive.watch(**query) as stream:
        events = stream.events()
        assert stream.status == 200 and next(events).name == "ready"
        archive.client.sh("box", script)
        for event in events:
            seen.append((event.name, event.data.get("path"), event.data.get("to")))
            if seen[-1][1] == last or event.name == "gone":
                return seen


def test_watch(archive, client):
    client.sh("box", "mkdir -p d/e; echo x > d/e/f")
    seen = watched(archive, "echo 1 > new; echo 2 >> d/e/f; mv new d/moved; rm d/e/f; chmod 600 d/moved; touch last", "last")
    kinds = [(n, p) for n, p, _ in seen]
    for want in (("created", "new"), ("modified", "d/e/f"), ("deleted", "d/e/f"), ("attributes", "d/moved")):
        assert want in kinds, seen
    assert ("moved", "new", "d/moved") in seen


def test_watch_follows_new_directories(archive, client):
    seen = watched(archive, "mkdir -p a/b/c; echo x > a/b/c/f; mv a z; sync; echo y > z/b/c/g; mkdir q; touch last", "last")
    names = [(n, p) for n, p, _ in seen]
    assert ("created", "a/b/c") in names and ("moved", "a", "z") in seen and ("created", "z/b/c/g") in names, seen
    seen = watched(archive, "mkdir flat; touch flat/inside; touch last2", "last2", recursive="false")
    assert ("created", "flat") in [(n, p) for n, p, _ in seen] and "flat/inside" not in [p for _, p, _ in seen]


def test_watch_ends(archive, client, server):
    client.sh("box", "mkdir d")
    assert watched(archive, "rm -r d", None, path="d")[-1][0] == "gone"
    code(client.request("GET", archive.base + "/watch", None, {"path": "no"}), 404, "NOT_FOUND")
    code(client.request("GET", archive.base + "/watch", None, {"path": "/etc/passwd"}), 400, "NOT_A_DIRECTORY")
    stream = archive.watch()
    until(lambda: workers(server), "it watches")
    stream.close()
    until(lambda: not workers(server), "nobody watches any more")


def test_watch_overflows(archive, client, server):
    """A reader that does not read is told what it missed; nobody's memory grows."""
    before = proc.rss_kib(server.pid("server"))
    conn = client.connect()
    conn.connect()
    conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # or it would hold all of them
    conn.request("GET", client.encode(archive.base + "/watch", {"path": "."}, None, None)[0])
    with Stream(conn, conn.getresponse()) as stream:
        events = stream.events()
        assert next(events).name == "ready"
        client.sh("box", "for r in $(seq 60); do seq -f 'a-rather-long-name-so-that-pipes-fill-%.0f' 400 > /tmp/names; "
                         "xargs touch < /tmp/names; xargs rm < /tmp/names; done")
        found = False
        for event in events:
            found |= event.name == "overflow"
            if found:
                break
    assert found
    assert proc.rss_kib(server.pid("server")) - before < 8 * 1024


def test_watchers_do_not_hold_up_the_end(fresh):
    server = fresh().start()
    client = server.client()
    client.create("box")
    stream = Archive(client).watch()
    got = []
    reader = threading.Thread(target=lambda: got.extend(drain(stream)))
    reader.start()
    until(lambda: workers(server), "it watches")
    server.stop(5)
    reader.join(5)
    assert not reader.is_alive()


def drain(stream):
    try:
        return list(stream.events())
    except Exception as e:  # cut: it must not look finished
        return [e]
