# SPDX-License-Identifier: Apache-2.0
"""A host that has nothing but cgroup v1: the freezer is a controller there, and what is frozen cannot be killed."""
import os
from pathlib import Path

import pytest

from harness import proc
from harness.engine import Engine
from harness.server import Server
from harness.wait import until

MOUNTS = [line.split()[1:4] for line in Path("/proc/mounts").read_text().splitlines()]
V2 = [where for where, kind, _ in MOUNTS if kind == "cgroup2"]
FREEZER = [where for where, kind, options in MOUNTS if kind == "cgroup" and "freezer" in options.split(",")]
pytestmark = [pytest.mark.skipif(not FREEZER, reason="this host has no freezer of v1"),
              pytest.mark.native("the Engine makes the cgroups")]
HIDE = "for m in $HIDE; do umount $m || exit 1; done; exec \"$@\""
TALKER = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"]


class Old(Server):
    """In a mount namespace where no v2 tree is to be seen."""

    def __init__(self, **options):
        super().__init__(env={"HIDE": " ".join(V2)}, **options)

    def command(self):
        return ["unshare", "-m", "sh", "-c", HIDE, "sh", *super().command()]


@pytest.fixture(scope="module")
def shared_server():
    with Old() as server:
        yield server


@pytest.fixture
def talker(client, box):
    ident = client.detach("box", TALKER)
    until(lambda: len(client.output("box", ident)) > 20, "it talks")
    return ident


def state(box):
    files = [Path(where, d, "freezer.state") for where in FREEZER for d in os.listdir(where) if d.startswith("cay-")]
    found = [f.parent / box["id"] / "freezer.state" for f in files if (f.parent / box["id"]).exists()]
    return [f.read_text().strip() for f in found]


def test_pause_and_resume(client, box, talker):
    assert state(box) == ["THAWED"]
    assert not [d for d in proc.cgroup_dirs(box["id"]) if any(d.startswith(where) for where in V2)]
    assert client.post("/sandbox/box/pause").json()["status"] == "PAUSED"
    assert state(box) == ["FROZEN"]
    before = client.output("box", talker)
    assert client.post("/sandbox/box/resume").json()["status"] == "RUNNING"
    assert state(box) == ["THAWED"]
    until(lambda: len(client.output("box", talker)) > len(before) + 20, "it talks on")


@pytest.mark.parametrize("end", ["stop", "delete"])
def test_ends_while_paused(server, client, box, talker, end):
    client.post("/sandbox/box/pause")
    if end == "stop":
        assert client.post("/sandbox/box/stop", {"graceMs": 500}).json()["status"] == "STOPPED"
        assert client.execution("box", talker)["status"] == "exited"
    else:
        assert client.delete("/sandbox/box").status == 200
    assert server.sandbox_processes() == []


@pytest.mark.parametrize("end", ["resume", "stop", "delete"])
def test_another_engine_finds_it(server, client, box, talker, end):
    client.post("/sandbox/box/pause")
    server.kill("engine")
    server.recover()
    assert client.sandbox("box")["status"] == "PAUSED" and state(box) == ["FROZEN"]
    if end == "delete":
        assert client.delete("/sandbox/box").status == 200
    else:
        assert client.post(f"/sandbox/box/{end}").status == 200
        assert client.sandbox("box")["status"] == {"resume": "RUNNING", "stop": "STOPPED"}[end]
    if end != "resume":
        assert server.sandbox_processes() == []


def test_usage_and_cause(server, client, box):
    engine = Engine(server)
    client.create("small", memoryGB=0.125)
    result = client.exec("small", ["python3", "-c", "bytearray(1 << 30)"])
    assert (result["reason"], result["process"]) == ("oom", "python3")
    usage = engine.usage(client.sandbox("small")["id"])
    assert usage.cpu_us > 0 and usage.memory_peak_bytes > 100 << 20 and usage.oom_kills == 1 and usage.pids == 1
    engine.close()
