# SPDX-License-Identifier: Apache-2.0
"""The disk of a sandbox that did little is emptied and given to a next one, which cannot tell."""
import fcntl
import os
import struct
import subprocess

import pytest

from harness import proc
from harness.wait import until

pytestmark = pytest.mark.quota
MB = 1000 * 1000
INO_LOOKUP = 0xD0009412  # of btrfs
GET_VERSION = 0x80087601
TRIES = 60  # spawners keep what they removed, each for itself: now and then another one is asked
MARK = """echo secret > /workspace/mine; echo secret > /etc/mine; mkdir -p /workspace/a/b/c && ln -s /etc/mine /workspace/a/b/c/l
mkfifo /workspace/pipe; rm /etc/debian_version; chmod 700 /; chown 1000:1000 /
python3 -c 'import os; os.setxattr("/", "user.mine", b"secret")'"""
LOOK = """stat -c '%a %u %g' /; ls -A /workspace; ls /etc/mine; cat /etc/debian_version > /dev/null && echo whole
find / -xdev -newermt '1 minute ago' -type f -size +0 | grep mine
python3 -c 'import os; print(*os.listxattr("/"))'"""


def trees(server):
    return f"/proc/{server.pid('engine')}/root/files"


def kept(server):
    return [name for name in os.listdir(trees(server)) if name.startswith("spare-")]


def disk_of(server, name):
    """What no other ever has: the number of its subvolume, or that of its directory and how often this had been used."""
    args = bytearray(struct.pack("QQ4080x", 0, 256))
    fd = os.open(os.path.join(trees(server), name), os.O_RDONLY | os.O_DIRECTORY)
    try:
        if not proc.HAS_BTRFS_QUOTAS:
            return os.fstat(fd).st_ino, fcntl.ioctl(fd, GET_VERSION, bytes(8))
        fcntl.ioctl(fd, INO_LOOKUP, args)
    finally:
        os.close(fd)
    return struct.unpack_from("Q", args)[0]


def fill(client, name):
    """What it can write, in two files: one alone may not be larger than the disk in any case."""
    client.exec(name, "cd /workspace; touch one two; for f in one two; do dd if=/dev/zero of=$f bs=1M; done")
    return sum(map(int, client.sh(name, "stat -c %s /workspace/one /workspace/two").split()))


def reused(server, client, leave=lambda name: None, **spec):
    """Makes sandboxes, and deletes them after `leave`, until one has the disk of another: that one."""
    used = set()
    for i in range(TRIES):
        ident = client.create(f"box{i}", **(spec if i else {}))["id"]
        disk = disk_of(server, ident)
        if disk in used:
            return f"box{i}"
        used.add(disk)
        leave(f"box{i}")
        assert client.delete(f"/sandbox/box{i}").status == 200
    pytest.fail(f"no disk was used twice, kept: {kept(server)}")


def test_the_next_one_finds_nothing(server, client):
    box = reused(server, client, lambda name: client.sh(name, MARK, user="root"))
    shown = client.exec(box, LOOK, user="root")["stdout"].splitlines()
    assert shown == ["755 0 0", "whole", ""], shown
    client.sh(box, "echo new > /workspace/mine && test $(cat /workspace/mine) = new")


def test_what_is_kept_is_empty(server, client):
    box = reused(server, client, lambda name: client.sh(name, MARK, user="root"))
    assert client.delete(f"/sandbox/{box}").status == 200
    assert kept(server)
    for name in kept(server):
        here = os.path.join(trees(server), name)
        assert sorted(os.listdir(here)) == ["image", "work"] and os.listdir(os.path.join(here, "work")) == []
    assert server.traces() == {}


def test_its_image_is_its_own(server, client):
    """What the first was made of lies there still; whatever is started or copied later is of the second's."""
    box = reused(server, client, image="busybox")
    assert client.post(f"/sandbox/{box}/stop").status == 200 and client.post(f"/sandbox/{box}/start").status == 200
    assert client.post(f"/sandbox/{box}/fork", {"name": "copy"}).status == 201
    for name in (box, "copy"):
        assert client.sh(name, "test ! -e /etc/debian_version && readlink -f /bin/ls") == "/bin/busybox\n"


@pytest.mark.parametrize("size", [0.1, 0.3])
def test_its_limit_is_its_own(server, client, size):
    """Less than what the first had, or more."""
    box = reused(server, client, lambda name: client.sh(name, "echo x > /workspace/x"), diskSizeGB=size)
    got = fill(client, box)
    assert size * 1000 * MB * 0.94 <= got <= size * 1000 * MB, got


@pytest.mark.parametrize("placed", [False, True])
def test_what_is_deleted_and_open_is_not_the_next_ones(server, client, placed):
    """In no directory any more, and where it has a place on the disk counted until the kernel has given it back."""
    client.create("first", diskSizeGB=0.2)
    client.detach("first", "exec 3> /workspace/f; rm /workspace/f; dd if=/dev/zero bs=1M count=150 >&3; sleep 1000")
    until(lambda: client.get("/sandbox/first/stats").json()["disk"]["bytes"] > 140 * MB, "it is written")
    if placed:
        subprocess.run(["sync", "-f", trees(server)], check=True)
    assert client.delete("/sandbox/first").status == 200
    for i in range(4):
        client.create(f"next{i}", diskSizeGB=0.2)
        assert client.get(f"/sandbox/next{i}/stats").json()["disk"]["bytes"] < 1 * MB
    for i in range(4):
        assert fill(client, f"next{i}") >= 188 * MB


def test_much_is_not_kept(server, client):
    client.create("many")
    disk = disk_of(server, client.sandbox("many")["id"])
    client.sh("many", "for i in $(seq 200); do echo x > /workspace/$i; done")
    assert client.delete("/sandbox/many").status == 200
    assert disk not in {disk_of(server, name) for name in kept(server)}


def test_the_next_engine_keeps_none(server, client):
    reused(server, client)
    while not kept(server):
        client.create("more")
        assert client.delete("/sandbox/more").status == 200
    last = set(kept(server))
    server.kill("engine")
    server.recover()
    assert not last & set(kept(server)), "what it has is its own, of the sandbox that it tried"
