# SPDX-License-Identifier: Apache-2.0
"""F-01, F-02, F-03: the plug is pulled at every boundary between two steps of create, delete, stop and start."""
import http.client
import subprocess

import pytest

from harness.points import points
from harness.wait import stretch, until

CREATE, DELETE, VERSION = points("create"), points("delete"), points("version")
STOP = points("stop")
# A start takes the engine's steps of a create; these have none.
OF_CREATE = {"create-row-written", "create-provider-done", "create-start-command", "create-row-running"}
START = points("start") + [p for p in CREATE if p.values[0] not in OF_CREATE]
MEND_S = 5  # how long after the restart all must be mended

needs_points = pytest.mark.skipif(not CREATE, reason="this build has no crash points")


def crash(server, request):
    """Sends a request that the server must die of."""
    client = server.client(timeout=15)
    with pytest.raises((OSError, http.client.HTTPException)):
        answer = request(client)
        # Some points lie behind the answer; the death must still come.
        server.process.wait(stretch(5))
        raise ConnectionError(f"died after {answer}")
    try:
        server.process.wait(stretch(0.2))
        server.process = None
    except subprocess.TimeoutExpired:
        server.kill("all")  # a point in the server: it may not kill root's processes itself
    server.recover()
    return server.client()


def consistent(server, client):
    """Rows and reality agree: what runs has a row, and nothing else is on the host."""
    rows = {s["id"]: s["status"] for s in client.get("/sandbox", per_page=1000).json()["sandboxes"]}
    running = {i for i, status in rows.items() if status == "RUNNING"}
    return set(rows.values()) <= {"RUNNING"} and len(server.inits()) == len(running) and \
        set(server.traces()) == running


@needs_points
@pytest.mark.parametrize("point", CREATE or ["none"])
def test_create(fresh, point):
    server = fresh()
    server.start(env={"CAY_CRASH_AT": point})
    spec = {"name": "island", "startCommand": "echo up; sleep 1000"}
    client = crash(server, lambda c: c.post("/sandbox", spec))
    until(lambda: consistent(server, client), f"rows and reality agree\n{server.traces()}", MEND_S)
    if client.names():
        assert client.sh("island", "echo hi") == "hi\n"
        assert client.delete("/sandbox/island").status == 200
    assert client.create(**spec)["status"] == "RUNNING", "the name is free again"
    client.delete("/sandbox/island")
    assert server.traces() == {} and server.inits() == []


@needs_points
@pytest.mark.parametrize("point", DELETE or ["none"])
def test_delete(fresh, point):
    server = fresh().start()
    server.client().create("island", startCommand="sleep 1000")
    server.client().create("bystander")
    server.stop()
    server.start(env={"CAY_CRASH_AT": point})
    client = crash(server, lambda c: c.delete("/sandbox/island"))

    def settled():
        names = client.names()
        return "island" in names or (names == ["bystander"] and consistent(server, client))

    until(settled, f"gone, or there to be deleted again\n{server.traces()}", MEND_S)
    if "island" in client.names():
        assert client.delete("/sandbox/island").status == 200
    until(lambda: consistent(server, client), f"nothing is left\n{server.traces()}", MEND_S)
    assert client.sandbox("bystander")["status"] == "RUNNING" and client.sh("bystander", "echo hi") == "hi\n"


def agreed(server, client):
    """What the row of the island says, once it says what there is; and of nobody else is anything there."""
    boxes = {s["name"]: s for s in client.get("/sandbox").json()["sandboxes"]}
    status = boxes["island"]["status"]
    up = {"RUNNING": 2, "STOPPED": 1}.get(status)
    return status if len(server.inits()) == up and set(server.traces()) == {s["id"] for s in boxes.values()} else None


def make_island(server):
    client = server.client()
    client.create("island", persistent=True, startCommand="echo $$ >> /workspace/starts; sleep 1000")
    client.create("bystander")
    client.sh("island", "echo precious > /workspace/file; sync")
    return client


def repeats(server, client):
    """It can be stopped, started and deleted as ever, and has its files."""
    for verb, status in (("stop", "STOPPED"), ("start", "RUNNING"), ("stop", "STOPPED"), ("start", "RUNNING")):
        assert client.post(f"/sandbox/island/{verb}").json()["status"] == status
    assert client.sh("island", "cat /workspace/file") == "precious\n"
    assert client.sh("bystander", "echo hi") == "hi\n"
    assert client.delete("/sandbox/island").status == 200
    until(lambda: consistent(server, client), f"nothing is left\n{server.traces()}", MEND_S)


@needs_points
@pytest.mark.parametrize("point", STOP or ["none"])
def test_stop(fresh, point):
    """The row said who wants it before anything was done: so it is finished, and told so."""
    server = fresh().start()
    make_island(server)
    server.stop()
    server.start(env={"CAY_CRASH_AT": point})
    client = crash(server, lambda c: c.post("/sandbox/island/stop"))
    until(lambda: agreed(server, client) == "STOPPED", f"it is down\n{server.traces()}", MEND_S)
    told = client.sandbox("island")
    assert told["terminationReason"] == "stopped", told
    assert told["termination"]["message"] == "stopped by account local", told
    repeats(server, client)


@needs_points
@pytest.mark.parametrize("point", START or ["none"])
def test_start(fresh, point):
    """It runs, with its start command, once; or it is down as it was."""
    server = fresh().start()
    client = make_island(server)
    until(lambda: client.sh("island", "cat /workspace/starts"), "its start command ran")
    client.post("/sandbox/island/stop")
    server.stop()
    server.start(env={"CAY_CRASH_AT": point})
    client = crash(server, lambda c: c.post("/sandbox/island/start"))
    until(lambda: agreed(server, client), f"rows and reality agree\n{server.traces()}", MEND_S)
    assert client.post("/sandbox/island/start").json()["status"] == "RUNNING"
    until(lambda: client.sh("island", "wc -l < /workspace/starts") == "2\n", "its start command runs once in each run")
    repeats(server, client)


@needs_points
@pytest.mark.parametrize("files", [3, 200])
@pytest.mark.parametrize("point", VERSION or ["none"])
def test_version(fresh, point, files):
    """The plug is pulled while a version is made: it is there once or not at all, and the next tells the truth."""
    server = fresh().start()
    kept = server.client().create("kept", image="busybox", memoryGB=0.125, track="workspace")["id"]
    first = server.client().exec("kept", "true", files={"f0": "old"})["id"]
    server.stop()
    server.start(env={"CAY_CRASH_AT": point})
    names = [f"f{i}" for i in range(files)]
    body = {"command": "echo by-command > out; echo over", "files": {n: "new" for n in names}}
    client = crash(server, lambda c: c.post("/sandbox/kept/exec", body))
    ran = client.sh("kept", "cat out || true")

    def history():
        return client.get("/sandbox/kept/history").json()["history"]

    assert client.exec("kept", "true", files={"last": "1"})["exitCode"] == 0
    versions = history()
    ids = [v["id"] for v in versions]
    assert len(set(ids)) == len(ids) and ids[-2:] == [first, "unknown"], ids
    told = client.post("/sandbox/kept/diff", {"fromExecId": first}).json()["diff"]
    assert set(told) == {*names, "last"} | ({"out"} if ran else set())
    git = ["git", "-c", "safe.directory=*", "--git-dir", f"{server.data}/history/{kept}"]
    subprocess.run([*git, "fsck", "--strict"], check=True, timeout=stretch(30))
    assert client.post("/sandbox/kept/rollback", {"executionId": first}).status == 200
    assert client.sh("kept", "cat f0; ls") == "oldREADME.md\nf0\n"
    assert client.post("/sandbox/kept/rollback", {"executionId": versions[0]["commitId"]}).status == 200
    assert client.sh("kept", "cat f0 last") == "new1"
