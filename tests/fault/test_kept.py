# SPDX-License-Identifier: Apache-2.0
"""F-03 above the engine: the plug is pulled between the rows and the files of forks, snapshots and volumes."""
import pytest

from harness.points import points
from harness.wait import until
from test_sweep import consistent, crash, needs_points

MEND_S = 5
SERVER = ("-row-written", "-provider-done", "-row-running", "-row-ready", "-row-marked", "-row-gone", "-start-command")


def of_server(verb):
    return [p for p in points(verb) if p.values[0].endswith(SERVER)] or ["none"]


def prepare(server):
    """A source, and a volume that nobody has; the volume's id."""
    client = server.start().client()
    client.create("origin")
    client.sh("origin", "echo mine > /workspace/f")
    volume = client.delete("/sandbox/origin", preserveVolume="true").json()["volumeId"]
    client.create("source", startCommand="sleep 1000")
    client.sh("source", "echo precious > /workspace/f; sync /workspace/f")
    client.close()
    server.stop()
    return volume


def unharmed(client):
    assert client.sandbox("source")["status"] == "RUNNING"
    assert client.sh("source", "cat /workspace/f") == "precious\n"


@needs_points
@pytest.mark.parametrize("point", of_server("create"))
def test_fork_of_many(fresh, point):
    server = fresh()
    prepare(server)
    server.start(env={"CAY_CRASH_AT": point})
    client = crash(server, lambda c: c.post("/sandbox/source/fork", {"count": 4, "name": "twin"}))
    until(lambda: consistent(server, client), f"rows and reality agree\n{server.traces()}", MEND_S)
    unharmed(client)
    left = [n for n in client.names() if n != "source"]
    assert point == "create-row-running" or not left, "none before all of them run"
    for name in left:
        assert client.sh(name, "cat /workspace/f") == "precious\n"
        assert client.delete(f"/sandbox/{name}").status == 200
    assert len(client.post("/sandbox/source/fork", {"count": 4, "name": "twin"}).json()["sandboxes"]) == 4


@needs_points
@pytest.mark.parametrize("point", of_server("snapshot"))
def test_snapshot(fresh, point):
    server = fresh()
    prepare(server)
    server.start(env={"CAY_CRASH_AT": point})
    client = crash(server, lambda c: c.post("/sandbox/source/snapshot", {"name": "s"}))
    until(lambda: consistent(server, client), "rows and reality agree", MEND_S)
    unharmed(client)
    found = client.get("/snapshots").json()["snapshots"]
    assert len(found) == (0 if point == "snapshot-row-written" else 1), found
    for s in found:
        client.create("made", source={"type": "snapshot", "id": s["id"]})
        assert client.sh("made", "cat /workspace/f") == "precious\n"
        assert client.delete(f"/snapshots/{s['id']}").status == 200
    assert client.post("/sandbox/source/snapshot").status == 201


@needs_points
@pytest.mark.parametrize("point", of_server("delete"))
def test_delete_that_keeps(fresh, point):
    server = fresh()
    prepare(server)
    server.start(env={"CAY_CRASH_AT": point})
    client = crash(server, lambda c: c.delete("/sandbox/source", preserveVolume="true"))
    until(lambda: client.names() == [] and consistent(server, client), "it is gone", MEND_S)
    volume = client.get("/volumes").json()["volumes"][0]
    assert (volume["name"], volume["inUse"]) == ("source", False)
    client.create("user", volume=volume["id"])
    assert client.sh("user", "cat /workspace/f") == "precious\n"


@needs_points
@pytest.mark.parametrize("end", ["", "?preserveVolume=false"])
@pytest.mark.parametrize("point", of_server("delete"))
def test_delete_of_one_with_a_volume(fresh, point, end):
    server = fresh()
    volume = prepare(server)
    server.start().client().create("user", volume=volume)
    server.stop()
    server.start(env={"CAY_CRASH_AT": point})
    client = crash(server, lambda c: c.request("DELETE", f"/sandbox/user{end}"))
    until(lambda: client.names() == ["source"] and consistent(server, client), "it is gone", MEND_S)
    answer = client.get(f"/volumes/{volume}")
    if end:
        assert answer.status == 404, answer
    else:
        assert not answer.json()["inUse"]
        client.create("user", volume=volume)
        assert client.sh("user", "cat /workspace/f") == "mine\n"


@needs_points
@pytest.mark.parametrize("point", of_server("create"))
def test_create_with_a_volume(fresh, point):
    server = fresh()
    volume = prepare(server)
    server.start(env={"CAY_CRASH_AT": point})
    client = crash(server, lambda c: c.post("/sandbox", {"name": "user", "volume": volume, "startCommand": "sleep 1000"}))
    until(lambda: consistent(server, client), "rows and reality agree", MEND_S)
    if "user" not in client.names():
        until(lambda: not client.get(f"/volumes/{volume}").json()["inUse"], "given back", MEND_S)
        client.create("user", volume=volume)
    assert client.sh("user", "cat /workspace/f") == "mine\n"
    assert client.post("/sandbox", {"volume": volume}).status == 409
