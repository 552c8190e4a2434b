# SPDX-License-Identifier: Apache-2.0
"""F-20: the disk that all sandboxes share is full, or the host's. Creates are refused, and all else goes on."""
import os
import subprocess

import pytest

from harness.server import Server
from harness.wait import until

pytestmark = [pytest.mark.quota, pytest.mark.native("of the engine's own disk")]
HOST_MB = 2300  # an image of a quarter of it can be made, and never grown
FULL = ("No space left on device", "Disk quota exceeded")


@pytest.fixture
def server(tmp_path):
    """Its data directory is a small filesystem that nobody else fills, and nothing of it is kept for root."""
    disk, where = tmp_path / "disk", tmp_path / "host"
    with open(disk, "wb") as f:
        f.truncate(HOST_MB << 20)
    where.mkdir()
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", disk], check=True)
    subprocess.run(["mount", "-o", "loop", disk, where], check=True)
    (where / "data").mkdir()
    server = Server(data=where / "data")
    try:
        yield server.start()
        server.close()
    finally:
        (where / "fill").unlink(missing_ok=True)
        server.stop()
        server.down()
        subprocess.run(["umount", "-l", where], check=True)


def fill_host(server):
    """To the last block."""
    path = os.path.join(os.path.dirname(server.data), "fill")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for size in (1 << 26, 1 << 20, 1 << 12):
        try:
            while True:
                os.posix_fallocate(fd, os.fstat(fd).st_size, size)
        except OSError:
            pass
    os.close(fd)
    assert os.statvfs(server.data).f_bavail == 0
    return path


def fill_image(client):
    result = client.exec("filler", "dd if=/dev/zero of=/workspace/fill bs=1M; sync", timeoutMs=80_000)
    assert any(text in result["stderr"] for text in FULL), result


def refused(server, client):
    answer = client.post("/sandbox", {"name": "refused", "image": "busybox", "memoryGB": 0.125})
    assert (answer.status, answer.error["code"]) == (507, "HOST_DISK_FULL"), answer
    assert "refused" not in client.names(include_terminated="true")
    ids = {s["id"] for s in client.get("/sandbox").json()["sandboxes"]}
    assert set(server.traces()) == ids, server.traces()


def lives(server, client):
    """All but creates, as often as somebody might."""
    health = client.get("/health").json()
    assert health["status"] == "degraded" and [p["what"] for p in health["provider"]["problems"]] == ["room"], health
    for i in range(50):
        assert client.exec("box", f"echo {i}; seq 200")["stdout"].startswith(f"{i}\n")
    assert client.post("/sandbox/stopped/stop").json()["status"] == "STOPPED"
    assert client.delete("/sandbox/gone").status == 200
    assert sorted(client.names()) == ["box", "filler", "stopped"]
    server.kill("all")
    server.recover()
    assert sorted(client.names()) == ["box", "filler", "stopped"], "what was answered is on the disk"
    assert client.sandbox("stopped")["status"] == "STOPPED" and client.sh("box", "echo fine") == "fine\n"


@pytest.mark.parametrize("which", ["image", "host"])
def test_full(server, which):
    client = server.client()
    small = {"image": "busybox", "memoryGB": 0.125}
    for name in ("box", "gone", "stopped"):
        client.create(name, **small, diskSizeGB=0.1)
    client.create("filler", **small)  # all that there is
    path = None
    if which == "image":
        fill_image(client)
    else:
        path = fill_host(server)
    refused(server, client)
    lives(server, client)
    refused(server, client)
    if which == "image":
        client.sh("filler", "rm /workspace/fill; sync")
    else:
        os.unlink(path)
    made = until(lambda: client.post("/sandbox", {"name": "after", **small}).status == 201, "creates work again", 20, 0.2)
    assert made and client.sh("after", "echo fine") == "fine\n"
    assert client.get("/health").json()["status"] == "healthy"
    if which == "host":
        until(lambda: os.path.exists(os.path.join(server.data, "logs", "reserve")), "the reserve is taken again", 40)
