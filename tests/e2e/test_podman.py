# SPDX-License-Identifier: Apache-2.0
"""The Docker provider on Podman's socket: the suite that defines a provider, and what Podman does in its own way."""
import os
import shutil
import signal
import subprocess

import pytest

from harness import dockerd as docker
from harness.podman import Podman
from harness.server import BUILD, Server
from harness.wait import stretch, until

pytestmark = pytest.mark.skipif(not shutil.which("podman") or not shutil.which("runc", path=os.environ["PATH"] + ":/usr/sbin"),
                                reason="no podman, or no runc")
SMALL = {"memoryGB": 0.125, "image": "busybox"}


@pytest.fixture(scope="module")
def podman():
    with Podman() as podman:
        yield podman


@pytest.fixture
def server(podman):
    with Server(env={"CAY_PROVIDER": "docker", "CAY_DOCKER_HOST": podman.host}) as server:
        yield server


@pytest.mark.limit(300)
def test_contract(podman, server):
    server.kill("server", signal.SIGSTOP)
    done = subprocess.run([BUILD / "unit", "provider_contract"], capture_output=True, text=True, timeout=stretch(250),
                          env={**os.environ, "CAY_TEST_PROVIDER": "docker", "CAY_TEST_DATA": server.data})
    server.kill("server", signal.SIGCONT)
    assert done.returncode == 0 and ", 0 failed" in done.stdout, done.stdout + done.stderr


def test_life(podman, server):
    client = server.client()
    box = client.create("box", persistent=True, **SMALL)
    assert client.sh("box", "id -u; hostname; pwd; ls /sys/class/net; cat /etc/resolv.conf") == \
        "1000\nbox\n/workspace\nlo\nnameserver 192.0.0.1\n"
    client.sh("box", "echo kept > /workspace/file; echo too > /tmp/file")
    command = client.detach("box", "sleep 1; exit 6")
    server.restart()
    client = server.client()
    until(lambda: client.execution("box", command)["status"] == "exited", "it ends", 20)
    assert client.execution("box", command)["exitCode"] == 6
    for verb in ("pause", "resume", "stop", "start"):
        assert client.post(f"/sandbox/box/{verb}").status == 200, verb
    assert client.sh("box", "cat /workspace/file /tmp/file") == "kept\ntoo\n"
    assert client.get("/sandbox/box/stats").json()["memory"]["limitBytes"] == 128 << 20
    images = [i["name"] for i in client.get("/images").json()["images"]]
    assert "busybox:latest" in images and not any("cay-" in name for name in images), images
    assert docker.call(podman.host, "POST", f"/containers/cay-{box['id']}/kill")[0] in (200, 204)
    until(lambda: client.sandbox("box")["status"] != "RUNNING", "it is noticed", 60)


def test_what_was_made_from_it_outlives_an_image(podman, server):
    """Podman's force takes containers along: a fork's and a snapshot's image go without it."""
    client = server.client()
    client.create("box", **SMALL)
    client.sh("box", "echo one > /workspace/file; echo two > /tmp/file")
    assert client.post("/sandbox/box/fork", {"name": "fork"}).status == 201
    snapshot = client.post("/sandbox/box/snapshot", {}).json()["id"]
    client.create("copy", source={"type": "snapshot", "snapshotId": snapshot})
    assert client.delete(f"/snapshots/{snapshot}").status == 200
    assert client.delete("/sandbox/box").status == 200
    client.post("/images/prune")
    for name in ("fork", "copy"):
        assert client.sh(name, "cat /workspace/file /tmp/file") == "one\ntwo\n"
        assert client.delete(f"/sandbox/{name}").status == 200
    left = [t for i in docker.call(podman.host, "GET", "/images/json")[1] for t in i["RepoTags"] or [] if "cay-snap-" in t]
    assert left == [] and not docker.call(podman.host, "GET", "/volumes")[1]["Volumes"]
