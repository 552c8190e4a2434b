# SPDX-License-Identifier: Apache-2.0
"""A sandbox has the disk it asked for and no more; whatever it does with it, others go on."""
import os
import re
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import leaks, proc
from harness.disk import in_memory
from harness.wait import stretch, until

pytestmark = pytest.mark.quota
ENFORCED = {"xfs": "xfs-quota", "btrfs": "btrfs-quota", "loop-btrfs": "btrfs-quota-loop", "loop-xfs": "xfs-quota-loop"}
IMAGE_KIND = "loop-btrfs" if proc.HAS_BTRFS_QUOTAS else "loop-xfs"
of_btrfs = pytest.mark.skipif(not proc.HAS_BTRFS_QUOTAS, reason="btrfs has simple quotas from Linux 6.7 on")
of_xfs = pytest.mark.skipif(not proc.HAS_XFS_QUOTAS, reason="XFS has no project quotas in this kernel")
FULL = ("No space left on device", "Disk quota exceeded")
MB = 1000 * 1000
FILL = "dd if=/dev/zero of=/workspace/fill bs=1M"


def fill(client, name):
    result = client.exec(name, FILL)
    assert result["exitCode"] != 0 and any(text in result["stderr"] for text in FULL), result
    return int(client.sh(name, "stat -c %s /workspace/fill"))


def image(server):
    return Path(server.data, "engine", "disk.img")


def trees(server):
    return f"/proc/{server.pid('engine')}/root/files"


def loops(server):
    return leaks.loop_devices(server.data)


def kill_everything(server):
    """As a loss of power does: no sandbox, no engine, no device is left."""
    inits = server.inits()
    server.kill("all")
    for pid in inits:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(proc.alive(p) for p in inits), "sandboxes die")
    until(lambda: not loops(server), "the loop device goes")


def test_told(server, client):
    health = client.get("/health").json()
    kind = health["features"]["diskLimit"]
    assert kind == IMAGE_KIND and health["status"] == "healthy", health
    assert client.create("box", diskSizeGB=0.2)["diskEnforcedBy"] == ENFORCED[kind]
    assert client.sandbox("box")["diskEnforcedBy"] == ENFORCED[kind]


def test_image_is_never_sparse(server, client, box):
    st = image(server).stat()
    assert st.st_blocks * 512 >= st.st_size >= 512 << 20
    client.sh("box", "dd if=/dev/zero of=/workspace/f bs=1M count=300 && sync /workspace/f && rm /workspace/f && sync /")
    st = image(server).stat()
    assert st.st_blocks * 512 >= st.st_size


def test_filler_harms_nobody(server, client):
    """F-20: it gets the error, in time, at its limit; neighbour and host go on."""
    host = shutil.disk_usage(server.data).free
    client.create("filler", diskSizeGB=0.2)
    client.create("neighbour", diskSizeGB=0.2)
    got = fill(client, "filler")
    assert 190 * MB <= got <= 200 * MB, got
    client.sh("neighbour", "dd if=/dev/zero of=/workspace/f bs=1M count=100 && sync /workspace/f")
    client.create("another", diskSizeGB=0.2)
    assert host - shutil.disk_usage(server.data).free < 100 * MB, "the image was reserved before"
    # Full, it still runs what it is asked to, and deleting helps at once.
    assert client.sh("filler", "echo still here") == "still here\n"
    client.sh("filler", "rm /workspace/fill && echo x > /workspace/x && sync /workspace/x")
    assert fill(client, "filler") >= 190 * MB


def test_full_as_root(client):
    """Root inside has no reserve."""
    client.create("box", diskSizeGB=0.2)
    result = client.exec("box", FILL, user="root")
    assert any(text in result["stderr"] for text in FULL), result
    assert int(client.sh("box", "stat -c %s /workspace/fill")) <= 200 * MB


def test_full_stops_starts_and_goes(server, client):
    client.create("box", diskSizeGB=0.2)
    size = fill(client, "box")
    for _ in range(5):
        client.exec("box", "i=0; while echo x > /workspace/s$i; do i=$((i+1)); done")
        assert client.post("/sandbox/box/stop", {"graceMs": 500}).json()["status"] == "STOPPED"
        assert client.post("/sandbox/box/start").json()["status"] == "RUNNING"
        assert client.sh("box", "stat -c %s /workspace/fill").strip() == str(size)
    assert client.exec("box", FILL.replace("fill", "more"))["exitCode"] != 0
    assert int(client.exec("box", "stat -c %s /workspace/more")["stdout"] or 0) < 1 * MB, "the reserve is not the tenant's"
    client.sh("box", "rm /workspace/fill && echo x > /workspace/x")
    fill(client, "box")
    begun = time.monotonic()
    assert client.delete("/sandbox/box").status == 200
    assert time.monotonic() - begun < stretch(2) and server.traces() == {}


def test_df_inside(client):
    """The limit, where the quota can tell it; else what is told is bounded by the disk all share, not by the host's."""
    client.create("box", diskSizeGB=0.2)
    total = int(client.sh("box", "df --output=size -B1 / | tail -1"))
    if IMAGE_KIND == "loop-xfs":
        assert 199 * MB <= total <= 200 * MB
    assert total <= 20 << 30


MANY = """
import os
for i in range(100000):
    if i % 1000 == 0:
        os.mkdir(f"/workspace/{i}")
        at = f"/workspace/{i}/"
    with open(at + str(i), "w") as f:
        f.write("small")
"""


def timed_delete(client, name):
    begun = time.monotonic()
    assert client.delete(f"/sandbox/{name}").status == 200
    return time.monotonic() - begun


def test_many_small_files(server, client):
    client.create("box", diskSizeGB=1)
    client.create("neighbour")
    client.create("small")
    client.sh("box", ["python3", "-c", MANY])
    assert client.sh("box", "find /workspace -type f | wc -l").strip() == "100000"
    small, large = timed_delete(client, "small"), timed_delete(client, "box")
    assert large < stretch(3) + 10 * small, "a delete does not wait for files to be removed"
    assert client.sh("neighbour", "echo x > /workspace/f && cat /workspace/f") == "x\n"


def test_inodes_are_bounded_by_bytes(client):
    client.create("box", diskSizeGB=0.1)
    result = client.exec("box", ["python3", "-c", MANY.replace("100000", "1000000").replace('"small"', '"small" * 400')])
    assert result["exitCode"] != 0 and any(text in result["stderr"] for text in FULL), result["stderr"][-300:]
    assert client.sh("box", "echo still here") == "still here\n"


@of_btrfs
def test_what_is_read_once_takes_no_memory(server, client):
    """Of each sandbox: a page of it is much when there are thousands, and its tree would be written once more for it."""
    settings = Path(trees(server), client.create("box")["id"], "image")
    until(lambda: not in_memory(settings), "no page of it is kept")
    assert settings.read_text().startswith("layers=") and in_memory(settings)


def test_space_comes_back(server, client):
    """Deleted sandboxes' quota groups and bytes do not pile up."""
    def used():
        fs = os.statvfs(trees(server))
        return (fs.f_blocks - fs.f_bfree) * fs.f_frsize

    before = used()
    for i in range(5):
        client.create("box", diskSizeGB=0.3)
        client.sh("box", "dd if=/dev/zero of=/workspace/f bs=1M count=200 && sync /workspace/f")
        assert client.delete("/sandbox/box").status == 200
    until(lambda: used() < before + 100 * MB, "what was deleted is free again", 60, 0.5)


@pytest.mark.parametrize("role", ["engine", "all"])
def test_killed_in_the_middle(fresh, role):
    server = fresh().start()
    client = server.client()
    client.create("box", diskSizeGB=0.3, persistent=True)
    client.create("other", diskSizeGB=0.2)
    client.sh("box", "dd if=/dev/urandom of=/workspace/f bs=1M count=50 2>/dev/null; sha1sum /workspace/f > /workspace/sum")
    ident = client.detach("box", "while :; do dd if=/dev/zero of=/workspace/loop bs=1M count=20 2>&1 || exit 1; done")
    device = loops(server)
    assert len(device) == 1
    server.kill(role)
    assert loops(server) == device, "sandboxes hold it"
    server.recover()
    client = server.client()
    assert loops(server) == device, "found again, and no second one"
    assert client.execution("box", ident)["status"] == "running"
    assert client.post(f"/sandbox/box/exec/{ident}/kill").status == 200
    client.sh("box", "sha1sum -c /workspace/sum && rm -f /workspace/loop")
    client.create("new", diskSizeGB=0.2)
    assert fill(client, "new") <= 200 * MB
    client.post("/sandbox/box/stop", {"graceMs": 500})
    client.post("/sandbox/box/start")
    client.sh("box", "sha1sum -c /workspace/sum")
    assert fill(client, "box") <= 300 * MB


def test_everything_killed_as_by_a_reboot(fresh):
    server = fresh().start()
    client = server.client()
    client.create("box", diskSizeGB=0.2, persistent=True)
    client.create("other", persistent=True)
    for name in ("box", "other"):
        client.sh(name, "for f in /workspace/f /etc/made /home/user/.made; do echo $f > $f && sync $f || exit; done", user="root")
        client.sh(name, "chmod 640 /etc/made && rm /etc/debian_version && sync /etc /etc/made", user="root")
    kill_everything(server)
    server.recover()
    client = server.client()
    for name in ("box", "other"):
        until(lambda: client.sandbox(name)["status"] == "STOPPED", "it is down")
    assert client.post("/sandbox/box/start").json()["status"] == "RUNNING"
    assert client.get("/sandbox/other").json()["status"] == "STOPPED", "to be asked for is not enough"
    assert client.get("/sandbox/other", resume="true").json()["status"] == "RUNNING"
    for name in ("box", "other"):
        assert client.sh(name, "cat /workspace/f /etc/made /home/user/.made", user="root") == "/workspace/f\n/etc/made\n/home/user/.made\n"
        assert client.sh(name, "stat -c %a /etc/made; test -e /etc/debian_version || echo gone") == "640\ngone\n"
    assert fill(client, "box") <= 200 * MB


def test_nothing_left_of_the_device(fresh):
    server = fresh().start()
    assert len(loops(server)) == 1
    assert server.stop() == 0
    until(lambda: not loops(server), "the loop device goes with the engine")
    server.start()
    server.client().create("box")
    kill_everything(server)
    assert server.down().returncode == 0
    until(lambda: not loops(server) and not leaks.mounts(server.data), "nothing is left after `cay down`")


def test_half_made_image_is_made_anew(fresh):
    server = fresh()
    engine = Path(server.data, "engine")
    engine.mkdir(mode=0o700)
    Path(server.data, "lock").touch()  # the mark of a data directory
    (engine / "disk.img.new").write_bytes(b"half" * 1000)
    server.start()
    assert server.client().get("/health").json()["features"]["diskLimit"] == IMAGE_KIND
    assert not (engine / "disk.img.new").exists()


def test_damaged_image_is_not_replaced(fresh):
    """What is in it must not be taken for lost."""
    server = fresh()
    engine = Path(server.data, "engine")
    engine.mkdir(mode=0o700)
    Path(server.data, "lock").touch()  # the mark of a data directory
    (engine / "disk.img").write_bytes(b"no filesystem" * 100000)
    server.start()
    answer = server.client().get("/health")
    assert answer.status == 503 and "disk image" in answer.body.decode(), answer
    assert image(server).read_bytes().startswith(b"no filesystem")
    image(server).unlink()


def test_two_servers(fresh):
    one, two = fresh().start(), fresh().start()
    a, b = one.client(), two.client()
    a.create("box", diskSizeGB=0.2)
    b.create("box", diskSizeGB=0.2)
    assert len(set(loops(one)) | set(loops(two))) == 2
    assert fill(a, "box") <= 200 * MB
    b.sh("box", "dd if=/dev/zero of=/workspace/f bs=1M count=100")


@pytest.mark.skipif(proc.KERNEL < (6, 3), reason="before Linux 6.3 the ids of a filesystem in memory cannot be mapped")
def test_without_a_disk_it_goes_on_and_says_so(fresh, tmp_path):
    """A data directory in memory has no disk to limit."""
    data = tmp_path / "mnt" / "data"
    data.parent.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,mode=755", "none", data.parent], check=True)
    data.mkdir()
    server = fresh(data=data)
    try:
        server.start()
        client = server.client()
        health = client.get("/health").json()
        assert health["status"] == "degraded" and health["features"]["diskLimit"] == "none", health
        problem, = health["provider"]["problems"]
        assert problem["what"] == "disk limit" and "in memory" in problem["why"] and problem["fix"], problem
        assert client.create("box")["diskEnforcedBy"] == "none"
        assert client.sh("box", "echo hi") == "hi\n"
        assert client.delete("/sandbox/box").status == 200
    finally:
        server.stop()
        server.down()
        subprocess.run(["umount", "-l", data.parent], check=True)


# ---- on the data directory's own filesystem ----

AS_IT_IS = {"btrfs": (["mkfs.btrfs", "-q"], "loop"), "xfs": (["mkfs.xfs", "-q"], "loop,prjquota")}


@contextmanager
def mounted(tmp_path, kind, size="1G"):
    """A filesystem of that kind, which can limit trees by itself."""
    mkfs, options = AS_IT_IS[kind]
    host, where = tmp_path / "host.img", tmp_path / "mnt"
    where.mkdir()
    subprocess.run(["fallocate", "-l", size, host], check=True)
    subprocess.run([*mkfs, host], check=True, capture_output=True)
    subprocess.run(["mount", "-o", options, host, where], check=True)
    try:
        yield where
    finally:
        subprocess.run(["umount", "-l", where], check=True)


@contextmanager
def serving(fresh, where):
    where.mkdir(exist_ok=True)
    server = fresh(data=where)
    try:
        yield server.start()
    finally:
        server.stop()
        server.down()


@pytest.mark.parametrize("kind", [pytest.param("btrfs", marks=of_btrfs), pytest.param("xfs", marks=of_xfs)])
def test_used_as_it_is(fresh, tmp_path, kind):
    """A data directory on such a filesystem needs no image."""
    with mounted(tmp_path, kind) as where, serving(fresh, where / "data") as server:
        client = server.client()
        assert client.get("/health").json()["features"]["diskLimit"] == kind
        assert client.create("box", diskSizeGB=0.2)["diskEnforcedBy"] == ENFORCED[kind]
        assert 190 * MB <= fill(client, "box") <= 200 * MB and not image(server).exists()
        client.post("/sandbox/box/stop", {"graceMs": 500})
        assert client.post("/sandbox/box/start").json()["status"] == "RUNNING"
        assert client.delete("/sandbox/box").status == 200 and server.traces() == {}


@pytest.mark.skipif(IMAGE_KIND != "loop-xfs", reason="btrfs has simple quotas here")
def test_btrfs_without_such_quotas(fresh, tmp_path):
    """An image, which btrfs is told not to write elsewhere than where it has reserved."""
    with mounted(tmp_path, "btrfs", "4G") as where, serving(fresh, where / "data") as server:
        client = server.client()
        assert client.create("box", diskSizeGB=0.2)["diskEnforcedBy"] == ENFORCED["loop-xfs"]
        assert 190 * MB <= fill(client, "box") <= 200 * MB
        assert "C" in subprocess.run(["lsattr", image(server)], check=True, capture_output=True, text=True).stdout.split()[0]


def projects(where):
    """Of an XFS, as its own tool tells them: number to bytes used and bytes at most."""
    report = subprocess.run(["xfs_quota", "-x", "-c", "report -pnN", where], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^#(\d+)\s+(\d+)\s+\d+\s+(\d+)", report, re.M)
    return {int(n): (int(used) << 10, int(most) << 10) for n, used, most in found if int(n)}


@of_xfs
def test_projects_are_nobody_elses(fresh, tmp_path):
    """Two servers on one filesystem, somebody else's project, and what is left of a tree that is gone."""
    with mounted(tmp_path, "xfs") as where:
        theirs = where / "theirs"
        theirs.mkdir()
        subprocess.run(["xfs_quota", "-x", "-c", f"project -s -p {theirs} 7", "-c", "limit -p bhard=150m 7", where],
                       check=True, capture_output=True)
        # All that is made in there is of that project, but for the trees.
        with serving(fresh, where / "one") as one, serving(fresh, theirs / "two") as two:
            a, b = one.client(), two.client()
            a.create("box", diskSizeGB=0.2)
            b.create("box", diskSizeGB=0.1)
            assert fill(a, "box") <= 200 * MB and 90 * MB <= fill(b, "box") <= 100 * MB
            found = projects(where)
            assert found.pop(7)[1] == 150 << 20
            assert sorted(most // MB for _, most in found.values()) == [99, 199] and all(n >= 1 << 30 for n in found)
            a.fork("box", "copy", diskSizeGB=0.3)
            used = a.get("/sandbox/copy/stats").json()["disk"]["bytes"]
            assert 190 * MB <= used <= 210 * MB and len(projects(where)) == 4
            for client, name in ((a, "copy"), (a, "box"), (b, "box")):
                assert client.delete(f"/sandbox/{name}").status == 200
            until(lambda: not [n for n, (used, most) in projects(where).items() if n != 7 and (used or most)],
                  "neither bytes nor limits are left", 30)


@of_xfs
def test_quotas_that_are_gone(fresh, tmp_path):
    """Trees that had limits are not left out of sight, nor used without."""
    with mounted(tmp_path, "xfs") as where:
        with serving(fresh, where / "data") as server:
            server.client().create("box", persistent=True, diskSizeGB=0.2)
            server.client().sh("box", "echo precious > f && sync f")
            kill_everything(server)
            server.process = None
            subprocess.run(["umount", where], check=True)
            subprocess.run(["mount", "-o", "loop", tmp_path / "host.img", where], check=True)
            server.start()
            answer = server.client().get("/health")
            assert answer.status == 503 and "prjquota" in answer.body.decode(), answer
            assert not image(server).exists()
            server.stop()
            subprocess.run(["umount", where], check=True)
            subprocess.run(["mount", "-o", "loop,prjquota", tmp_path / "host.img", where], check=True)
            client = server.start().client()
            until(lambda: client.sandbox("box")["status"] == "STOPPED", "it is down")
            client.post("/sandbox/box/start")
            assert client.sh("box", "cat f") == "precious\n" and fill(client, "box") <= 200 * MB


LEAVE = """
import fcntl, os, struct
GET, SET, SET_FLAGS = 0x801c581f, 0x401c5820, 0x40086602
INHERIT = 0x200


def attributes(fd):
    return struct.unpack("5I8x", fcntl.ioctl(fd, GET, bytes(28)))


def attempt(fd, call, data):
    try:
        fcntl.ioctl(fd, call, data)
    except OSError:
        pass


for path in ("/workspace", "/workspace/f", "/etc", "/"):
    fd = os.open(path, os.O_RDONLY)
    flags, size, extents, project, cow = attributes(fd)
    for flags_, project_ in ((flags, 0), (flags, 7), (flags, project ^ 1), (flags & ~INHERIT, project)):
        attempt(fd, SET, struct.pack("5I8x", flags_, size, extents, project_, cow))
    attempt(fd, SET_FLAGS, struct.pack("L", 0))
    now = attributes(fd)
    assert (now[0] & INHERIT, now[3]) == (flags & INHERIT, project), (path, now)
    print(project)
"""


@pytest.mark.skipif(IMAGE_KIND != "loop-xfs", reason="trees are no projects here")
@pytest.mark.parametrize("user", ["root", "user"])
def test_a_tenant_stays_in_its_project(client, user):
    client.create("box", diskSizeGB=0.2)
    client.create("other", diskSizeGB=0.2)
    seen = []
    for name in ("box", "other"):
        client.sh(name, "touch /workspace/f && touch /etc/f", user="root")
        tried = client.exec(name, ["python3", "-c", LEAVE], user=user)
        assert tried["exitCode"] == 0, tried["stderr"]
        seen.append(set(map(int, tried["stdout"].split())))
        # Whatever is moved about inside, and whatever it comes from, is the sandbox's.
        client.sh(name, "mv /etc/f /workspace/g && ln /workspace/g /etc/h && cp -a /etc /workspace/etc"
                  " && mv /workspace/etc /opt/ && rm -r /opt/etc", user="root")
        assert 185 * MB <= fill(client, name) <= 200 * MB
    assert all(len(s) == 1 and min(s) >= 1 << 30 for s in seen) and seen[0] != seen[1], seen


@pytest.mark.skipif(IMAGE_KIND != "loop-xfs", reason="inodes are counted as bytes here")
def test_empty_files_are_bounded(client):
    client.create("box", diskSizeGB=0.1)
    client.exec("box", ["python3", "-c", "for i in range(40000): open(f'/workspace/{i}', 'w')"])
    assert 24000 <= int(client.sh("box", "ls /workspace | wc -l")) <= 100 * MB // 4096
    client.sh("box", "rm -r /workspace/1* && touch /workspace/x")


@pytest.mark.limit(180)
def test_grows(fresh):
    """More is written than the image had at first."""
    server = fresh().start()
    first = image(server).stat().st_size
    if shutil.disk_usage(server.data).free < 40 << 30:
        pytest.skip("not enough disk here")
    client = server.client()
    client.create("box", diskSizeGB=20)
    client.sh("box", f"fallocate -l {first - (1 << 30)} /workspace/a")
    until(lambda: image(server).stat().st_size > first, "the image grows", 10)
    until(lambda: os.statvfs(trees(server)).f_blocks * 4096 > first, "and what is in it", 10)
    client.sh("box", f"fallocate -l {2 << 30} /workspace/b")
    st = image(server).stat()
    assert st.st_blocks * 512 >= st.st_size
