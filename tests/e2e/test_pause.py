# SPDX-License-Identifier: Apache-2.0
"""A paused sandbox stands still, with all that it has in memory, until it is resumed."""
import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import proc
from harness.wait import stretch, until

TALKER = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"
BUSY = ["sh", "-c", "echo up; while :; do :; done"]


def pause(client, name):
    answer = client.post(f"/sandbox/{name}/pause")
    assert answer.status == 200 and answer.json()["status"] == "PAUSED", answer
    return answer.json()


def resume(client, name):
    answer = client.post(f"/sandbox/{name}/resume")
    assert answer.status == 200 and answer.json()["status"] == "RUNNING", answer
    return answer.json()


def length(client, name, ident):
    """What it has written; the logs of a paused one can be read."""
    return len(client.output(name, ident))


def freezers(server, ident):
    """The sandbox's cgroups that can stand still."""
    dirs = [Path(d) for d in proc.cgroup_dirs(server.group(ident))]
    return [d / f for d in dirs for f in ("cgroup.freeze", "freezer.state") if (d / f).exists()]


def test_stands_still_and_goes_on(server, client, box):
    talker = client.detach("box", ["sh", "-c", TALKER])
    until(lambda: length(client, "box", talker) > 20, "it talks")
    assert pause(client, "box")["startedAt"] == box["startedAt"]
    assert any(f.read_text().strip() in ("1", "FROZEN") for f in freezers(server, box["id"]))
    before = length(client, "box", talker)
    time.sleep(0.1)  # what went on would have written
    assert length(client, "box", talker) == before
    assert client.execution("box", talker)["status"] == "running"
    resume(client, "box")
    until(lambda: length(client, "box", talker) > before + 20, "it talks on")
    lines = client.output("box", talker).decode().split("\n")[:-1]
    assert lines == [str(i + 1) for i in range(len(lines))], "from where it was"
    assert client.sh("box", "echo usable") == "usable\n"


def cpu_ms(client):
    return client.get("/sandbox/box/stats").json()["cpu"]["usageMs"]


def test_uses_no_cpu(client, box):
    busy = client.detach("box", BUSY)
    until(lambda: client.output("box", busy) == b"up\n", "it is busy")
    pause(client, "box")
    before = cpu_ms(client)
    time.sleep(0.1)
    assert cpu_ms(client) == before


def test_twice_is_once(client, box):
    for _ in range(2):
        pause(client, "box")
    assert client.sandbox("box")["status"] == "PAUSED"
    for _ in range(2):
        resume(client, "box")
    assert client.sh("box", "echo hi") == "hi\n"


def test_what_a_paused_one_refuses(client, box):
    pause(client, "box")
    answer = client.post("/sandbox/box/exec", {"command": ["true"]})
    assert answer.status == 409 and answer.json()["error"]["code"] == "SANDBOX_PAUSED", answer
    told = client.sandbox("box")
    assert told["status"] == "PAUSED" and told["uptimeMs"] >= 0
    assert "box" in client.names(status="PAUSED")


def test_only_what_runs_can_be_paused(client, box):
    client.post("/sandbox/box/stop", {"graceMs": 0})
    for verb in ("pause", "resume"):
        assert client.post(f"/sandbox/box/{verb}").status == 409
        assert client.post(f"/sandbox/nobody/{verb}").status == 404
    assert client.sandbox("box")["status"] == "STOPPED"


def test_a_stop_is_heard(server, client, box):
    """Thawed first: SIGTERM is heard, and what it does is done."""
    polite = client.detach("box", ["sh", "-c", "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"])
    until(lambda: client.output("box", polite) == b"up\n", "it is up")
    pause(client, "box")
    began = time.monotonic()
    answer = client.post("/sandbox/box/stop", {"graceMs": 5000})
    assert answer.json()["status"] == "STOPPED" and time.monotonic() - began < stretch(4), answer
    assert client.output("box", polite, stream="stdout") == b"up\nbye\n"
    assert client.execution("box", polite)["exitCode"] == 7
    assert server.inits() == []
    assert client.post("/sandbox/box/start").json()["status"] == "RUNNING"
    assert client.sh("box", "echo again") == "again\n"


@pytest.mark.parametrize("end", ["stop", "delete"])
def test_what_ignores_its_end(server, client, box, end):
    """F-28: frozen, and deaf to SIGTERM."""
    deaf = client.detach("box", ["sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done"])
    until(lambda: client.output("box", deaf) == b"up\n", "it is up")
    pause(client, "box")
    began = time.monotonic()
    if end == "stop":
        assert client.post("/sandbox/box/stop", {"graceMs": 300}).json()["status"] == "STOPPED"
    else:
        assert client.delete("/sandbox/box").status == 200
    assert time.monotonic() - began < stretch(3)
    assert server.sandbox_processes() == []


def test_dies_while_paused(server, client, box):
    if server.docker and any(f.name == "freezer.state" for f in freezers(server, box["id"])):
        pytest.skip("Docker freezes by cgroup v1 here, and what stands still by that cannot die")
    pid = server.init(box["id"])
    pause(client, "box")
    os.kill(pid, signal.SIGKILL)
    told = until(lambda: (s := client.sandbox("box"))["status"] == "ERROR" and s, "its death is told")
    assert told["terminationReason"] == "signal" and told["termination"]["signal"] == 9
    assert client.post("/sandbox/box/resume").status == 409
    assert client.post("/sandbox/box/start").json()["status"] == "RUNNING"
    assert client.sh("box", "echo again") == "again\n"


def test_time_goes_on(client, box):
    """The timeout of an execution is by the clock: it may be over at resume."""
    ident = client.detach("box", ["sleep", "1000"], timeoutMs=300)
    began = time.monotonic()
    pause(client, "box")
    until(lambda: time.monotonic() - began > 0.6, "its time is over")
    assert client.execution("box", ident)["status"] == "running"
    resume(client, "box")
    told = until(lambda: (e := client.execution("box", ident))["status"] == "exited" and e, "it ends")
    assert told["reason"] == "timeout" and told["durationMs"] >= 600


def test_a_crowd(client):
    """Many processes, some stopped, some waiting for a child in vfork."""
    client.create("crowd")
    vfork = "import ctypes\nif ctypes.CDLL(None).vfork() == 0:\n import time; time.sleep(1000)"
    client.detach("crowd", ["python3", "-c", vfork])
    crowd = client.detach("crowd", ["sh", "-c", "for i in $(seq 100); do sleep 1000 & done; kill -STOP $!; echo up; wait"])
    until(lambda: client.output("crowd", crowd) == b"up\n", "all are there")
    for _ in range(5):
        pause(client, "crowd")
        resume(client, "crowd")
    assert client.execution("crowd", crowd)["status"] == "running"


def thaw(mount):
    subprocess.run(["fsfreeze", "-u", str(mount)], capture_output=True, check=False)  # it may go on already


@pytest.fixture
def frozen(tmp_path):
    """A filesystem that is frozen: who writes to it waits in the kernel, where no signal reaches him."""
    image, mount = tmp_path / "image", tmp_path / "mount"
    mount.mkdir()
    with open(image, "wb") as f:
        f.truncate(4 << 20)
    run = lambda *words: subprocess.run(words, check=True, capture_output=True)
    run("mkfs.ext4", "-q", str(image))
    run("mount", "-o", "loop", str(image), str(mount))
    try:
        run("fsfreeze", "-f", str(mount))
        yield mount
    finally:
        thaw(mount)
        run("umount", str(mount))


@contextmanager
def writer(mount, *inside):
    """One who is stuck, or a child of a program that goes inside of something; at the end he is not, and has gone."""
    process = subprocess.Popen([*inside, "touch", str(mount / "x")])
    pids = lambda: proc.children(process.pid) if inside else [process.pid]
    try:
        yield until(lambda: next((p for p in pids() if proc.state(p) == "D"), None), "it is stuck")
    finally:
        thaw(mount)
        process.wait(stretch(10))


@pytest.fixture
def stuck(frozen):
    with writer(frozen) as pid:
        yield pid


@pytest.mark.native("who is in a container's cgroup, but not in its namespaces, is not its own")
def test_what_cannot_stand_still(server, client, box, stuck):
    """The pause fails in its time, and all go on."""
    groups = freezers(server, box["id"])
    talker = client.detach("box", ["sh", "-c", TALKER])
    until(lambda: length(client, "box", talker) > 20, "it talks")
    homes = [Path(f.parent.parent.parent, "cgroup.procs") for f in groups]
    for f in groups:
        (f.parent / "cgroup.procs").write_text(str(stuck))
    try:
        answer = client.post("/sandbox/box/pause")
        assert answer.status == 504, answer
        assert client.sandbox("box")["status"] == "RUNNING"
        before = length(client, "box", talker)
        until(lambda: length(client, "box", talker) > before + 20, "it talks on")
    finally:
        for home in homes:
            home.write_text(str(stuck))
    pause(client, "box")
    resume(client, "box")
    assert client.sh("box", "echo fine") == "fine\n"


ENDS = {"delete": lambda client: client.delete("/sandbox/box"),
        "stop": lambda client: client.post("/sandbox/box/stop", {"graceMs": 0})}


@pytest.mark.native("who is in a container's cgroup, but not in its namespaces, is not its own")
@pytest.mark.parametrize("end", ENDS)
def test_what_cannot_die(server, client, box, stuck, end):
    """F-28: SIGKILL does not reach who waits in the kernel. The end says so, and comes when it is asked for again."""
    name = server.group(box["id"])
    groups = [Path(d, "cgroup.procs") for d in proc.cgroup_dirs(name)]
    for group in groups:
        group.write_text(str(stuck))
    began = time.monotonic()
    answer = ENDS[end](client)
    assert answer.status == 504 and time.monotonic() - began < stretch(15), answer
    assert client.create("other")["status"] == "RUNNING", "nobody else waits for it"
    assert ENDS[end](client).status == 504, "asked for again, it is not done either"
    for group in groups:
        Path(group.parent.parent.parent, "cgroup.procs").write_text(str(stuck))
    assert ENDS[end](client).status == 200
    assert proc.in_cgroup(name) == proc.cgroup_dirs(name) == []
    if end == "delete":
        assert box["id"] not in server.traces()
    else:
        assert client.sandbox("box")["status"] == "STOPPED"
        assert client.post("/sandbox/box/start").json()["status"] == "RUNNING"
        assert client.sh("box", "echo again") == "again\n"


@pytest.mark.native("who enters a container by himself is not its own")
def test_who_is_waited_for(server, client, box, frozen):
    """F-28: pid 1 is there for as long as one of its own, who is stuck. The stop says so; and when they can die, the
    sandbox is stopped, although nobody asks again."""
    init = server.init(box["id"])
    with writer(frozen, "nsenter", f"--target={init}", "--pid"):
        began = time.monotonic()
        answer = client.post("/sandbox/box/stop", {"graceMs": 0})
        assert answer.status == 504 and time.monotonic() - began < stretch(20), answer
        assert "does not die" in str(answer.error) and client.sandbox("box")["status"] == "RUNNING"
        assert client.create("other")["status"] == "RUNNING", "nobody else waits for it"
    until(lambda: client.sandbox("box")["status"] == "STOPPED", "the row says so", 45)
    assert not proc.alive(init) and client.sandbox("box")["terminationReason"] == "stopped"
    assert client.post("/sandbox/box/start").json()["status"] == "RUNNING"
    assert client.sh("box", "echo again") == "again\n"
