# SPDX-License-Identifier: Apache-2.0
"""Forks, snapshots and volumes as the API promises them."""
import http.client
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import pytest

from harness.wait import until


def keep(client, name, script):
    """A volume with what the script leaves in /workspace; its id."""
    client.create(name)
    client.sh(name, script)
    answer = client.delete(f"/sandbox/{name}", preserveVolume="true")
    assert answer.status == 200, answer
    return answer.json()["volumeId"]


def ids(client, kind, **query):
    answer = client.get(f"/{kind}", **query)
    assert answer.status == 200, answer
    return [v["id"] for v in answer.json()[kind]]


def after(seconds):
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


# ---- forks ----

def test_fork_has_what_its_source_has(client):
    source = client.create("source", cpuCores=0.5, memoryGB=0.25, diskSizeGB=1, labels=["a"], tags={"k": "v"},
                           environmentVars={"A": "1"}, timeoutMinutes=7, persistent=True, networkAccess=False)
    made = client.fork("source")
    same = ("dockerImage", "cpuCores", "memoryGB", "diskSizeGB", "labels", "tags", "environmentVars", "timeoutMinutes",
            "persistent", "networkAccess", "user", "workdir")
    assert {k: made[k] for k in same} == {k: source[k] for k in same}
    assert made["id"] != source["id"] and made["name"] != "source" and made["volumeId"] != source["volumeId"]
    assert made["forkedFrom"] == source["id"] and made["forkMethod"] and made["forkMs"] >= 0
    assert made["status"] == client.sandbox(made["id"])["status"] == "RUNNING"
    assert client.sandbox(made["id"])["forkedFrom"] == source["id"], "on the row, not only in the answer"
    assert source["forkedFrom"] is source["forkMethod"] is source["forkMs"] is None
    client.delete("/sandbox/source")
    assert client.sandbox(made["id"])["forkedFrom"] == source["id"], "it stays as text"


def test_fork_takes_other_settings(client, box):
    made = client.fork("box", name="other", cpuCores=2, env={"B": "2"}, labels=["x"], timeoutMs=60000)
    assert (made["name"], made["cpuCores"], made["labels"], made["timeoutMs"]) == ("other", 2, ["x"], 60000)
    assert client.sh("other", "echo $B") == "2\n"


def test_fork_runs_the_start_command_again(client):
    client.create("source", startCommand="echo $CAY_SANDBOX_ID >> /workspace/starts; sleep 1000")
    until(lambda: client.sh("source", "cat /workspace/starts 2>/dev/null || :"), "the first start")
    made = client.fork("source")
    until(lambda: len(client.sh(made["id"], "cat /workspace/starts").split()) == 2, "the second start")
    assert client.sh(made["id"], "tail -n 1 /workspace/starts").strip() == made["id"]
    assert len(client.sh("source", "cat /workspace/starts").split()) == 1


def test_many_forks(server, client, box):
    client.sh("box", "echo here > /workspace/f")
    answer = client.post("/sandbox/box/fork", {"count": 12, "name": "twin"})
    assert answer.status == 201, answer
    made = answer.json()["sandboxes"]
    assert sorted(s["name"] for s in made) == sorted(f"twin-{i}" for i in range(1, 13))
    assert all(s["forkedFrom"] == box["id"] and s["status"] == "RUNNING" for s in made)
    assert len(server.inits()) == 13
    assert {client.sh(s["id"], "cat /workspace/f") for s in made} == {"here\n"}


def test_many_forks_are_all_or_none(server, client, box):
    client.create("each-7")
    answer = client.post("/sandbox/box/fork", {"count": 10, "name": "each"})
    assert (answer.status, answer.error["code"]) == (409, "NAME_TAKEN"), answer
    assert sorted(client.names()) == ["box", "each-7"]
    assert [n for n in client.names(include_terminated="true") if n.startswith("each")] == ["each-7"], "never were"
    assert len(server.inits()) == 2 and set(server.traces()) == {client.sandbox(n)["id"] for n in ("box", "each-7")}
    assert client.sh("box", "echo unharmed") == "unharmed\n"


@pytest.mark.parametrize("spec, status, code, field", [
    ({"count": 0}, 400, "VALIDATION_ERROR", "count"),
    ({"count": 101}, 400, "VALIDATION_ERROR", "count"),
    ({"count": "2"}, 400, "VALIDATION_ERROR", "count"),
    ({"dockerImage": "debian:bookworm"}, 400, "VALIDATION_ERROR", "dockerImage"),
    ({"source": {"type": "snapshot", "id": "x"}}, 400, "VALIDATION_ERROR", "source"),
    ({"nonsense": 1}, 400, "VALIDATION_ERROR", "nonsense"),
    ({"volume": "vo-" + "0" * 20}, 400, "VALIDATION_ERROR", "volume"),
    ({"volume": "vo-" + "0" * 20, "count": 2}, 400, "VALIDATION_ERROR", "volume"),
    ({"name": "Not A Name"}, 400, "VALIDATION_ERROR", "name"),
])
def test_fork_refuses_by_name(client, box, spec, status, code, field):
    answer = client.post("/sandbox/box/fork", spec)
    assert (answer.status, answer.error["code"], answer.error["details"]["field"]) == (status, code, field), answer
    assert client.names() == ["box"]


def test_no_fork_or_snapshot_of_what_is_gone(client, box):
    client.delete("/sandbox/box")
    for verb in ("fork", "snapshot"):
        for ident, status in ((box["id"], 409), ("box", 404), ("sb-" + "0" * 20, 404)):
            answer = client.post(f"/sandbox/{ident}/{verb}")
            assert answer.status == status, answer


# ---- snapshots ----

def test_snapshot_tells_about_itself(client, box):
    made = client.snapshot("box", name="before it \u00e9")
    assert re.match(r"^sn-[a-z0-9]{20}$", made["id"])
    assert (made["sandboxId"], made["name"], made["dockerImage"]) == (box["id"], "before it \u00e9", box["dockerImage"])
    assert made["method"] and made["snapshotMs"] >= 0 and made["expiresAt"] is None
    assert made["sizeBytes"] is None or made["sizeBytes"] >= 0
    assert client.get(f"/snapshots/{made['id']}").json() == made


def test_snapshots_are_listed_and_removed(client, box):
    made = [client.snapshot("box")["id"] for _ in range(3)]
    other = client.create("other")
    strange = client.snapshot("other")["id"]
    assert ids(client, "snapshots") == [strange, *made[::-1]]
    assert ids(client, "snapshots", sandbox_id=box["id"]) == made[::-1]
    assert ids(client, "snapshots", sandboxId=other["id"]) == [strange]
    page = client.get("/snapshots", page=2, per_page=3).json()
    assert ([s["id"] for s in page["snapshots"]], page["total"], page["page"], page["per_page"], page["has_next"]) == \
        ([made[0]], 4, 2, 3, False)
    answer = client.delete(f"/snapshots/{made[0]}")
    assert answer.status == 200 and answer.json()["id"] == made[0], answer
    for method in ("GET", "DELETE"):
        answer = client.request(method, f"/snapshots/{made[0]}")
        assert (answer.status, answer.error["code"]) == (404, "SNAPSHOT_NOT_FOUND"), answer
    answer = client.post("/sandbox", {"source": {"type": "snapshot", "id": made[0]}})
    assert (answer.status, answer.error["code"], answer.error["details"]["field"]) == \
        (404, "SNAPSHOT_NOT_FOUND", "source"), answer
    assert made[0] not in ids(client, "snapshots")


@pytest.mark.parametrize("key", ["id", "snapshotId", "snapshot_id"])
def test_create_from_a_snapshot(client, box, key):
    client.sh("box", "echo then > /workspace/f; echo then > ~/f")
    made = client.snapshot("box")
    client.sh("box", "echo now > /workspace/f; echo now > ~/f")
    client.delete("/sandbox/box")
    sandbox = client.create("later", source={"type": "snapshot", key: made["id"]})
    assert sandbox["source"] == {"type": "snapshot", "id": made["id"]}
    assert (sandbox["dockerImage"], sandbox["forkedFrom"]) == (box["dockerImage"], None)
    assert sandbox["forkMethod"] and sandbox["forkMs"] >= 0
    assert client.sh("later", "cat /workspace/f ~/f") == "then\nthen\n"
    assert client.delete(f"/snapshots/{made['id']}").status == 200
    assert client.sh("later", "cat /workspace/f ~/f") == "then\nthen\n", "what was made of it stays"


def test_snapshot_goes_in_its_time(client, box):
    stays = client.snapshot("box", expiresAt=after(3600))
    made = client.snapshot("box", expiresAt=after(2))
    assert made["expiresAt"] is not None and ids(client, "snapshots") == [made["id"], stays["id"]]
    until(lambda: ids(client, "snapshots") == [stays["id"]], "its time is over", 15, 0.1)
    for wrong in ("2001-01-01T00:00:00Z", "tomorrow", "", 17):
        answer = client.post("/sandbox/box/snapshot", {"expiresAt": wrong})
        assert (answer.status, answer.error["details"]["field"]) == (400, "expiresAt"), answer
    assert ids(client, "snapshots") == [stays["id"]]


# ---- volumes ----

def test_volume_is_told_before_and_kept_after(client):
    box = client.create("box")
    assert box["volumeId"] == box["id"].replace("sb-", "vo-") and ids(client, "volumes") == []
    client.sh("box", "echo precious > /workspace/f; echo root > ~/f")
    answer = client.delete("/sandbox/box", preserveVolume="true")
    assert answer.json() == {"id": box["id"], "status": "TERMINATED", "volumeId": box["volumeId"]}
    volume = client.get(f"/volumes/{box['volumeId']}").json()
    assert (volume["id"], volume["name"], volume["sandboxId"], volume["inUse"]) == (box["volumeId"], "box", None, False)
    assert client.get("/volumes").json()["volumes"] == [volume]

    user = client.create("user", volume=volume["id"])
    assert user["volumeId"] == volume["id"]
    assert client.sh("user", "cat /workspace/f; cat ~/f 2>/dev/null || echo new") == "precious\nnew\n"
    taken = client.get(f"/volumes/{volume['id']}").json()
    assert (taken["sandboxId"], taken["inUse"]) == (user["id"], True)


def test_volume_has_one_writer(client):
    volume = keep(client, "origin", "echo x > /workspace/x")
    first = client.create("first", volume=volume)
    for path in ("/sandbox", "/sandbox?wait=false"):
        answer = client.post(path, {"name": "second", "volume": volume})
        assert (answer.status, answer.error["code"]) == (409, "VOLUME_IN_USE"), answer
        assert first["id"] in answer.error["message"] and "one writer at a time" in answer.error["message"]
        assert answer.error["details"]["field"] == "volume"
    answer = client.delete(f"/volumes/{volume}")
    assert (answer.status, answer.error["code"]) == (409, "VOLUME_IN_USE"), answer
    assert client.names() == ["first"]
    client.post("/sandbox/first/stop", {"graceMs": 0})
    assert client.post("/sandbox", {"volume": volume}).status == 409, "a stopped one has it still"
    assert client.delete("/sandbox/first").json()["volumeId"] == volume
    assert client.create("second", volume=volume)["volumeId"] == volume


def test_volume_is_given_back(client):
    """At delete, at expiry and by a create that fails; only preserveVolume=false ends it."""
    volume = keep(client, "origin", "echo 0 > /workspace/n")
    client.create("one", volume=volume)
    client.sh("one", "echo 1 >> /workspace/n")
    client.delete("/sandbox/one")
    client.create("two", volume=volume, timeoutMs=1500)
    client.sh("two", "echo 2 >> /workspace/n")
    until(lambda: not client.get(f"/volumes/{volume}").json()["inUse"], "its time is over", 15, 0.1)
    answer = client.post("/sandbox", {"volume": volume, "dockerImage": "no/such:image"})
    assert answer.status == 404 and answer.error["code"] == "IMAGE_NOT_FOUND", answer
    answer = client.post("/sandbox", {"volume": volume, "startCommand": "true", "user": "nobody-here"})
    assert answer.status == 400 and answer.error["details"]["field"] == "user", answer
    assert not client.get(f"/volumes/{volume}").json()["inUse"]
    last = client.create("last", volume=volume)
    assert client.sh("last", "cat /workspace/n") == "0\n1\n2\n"
    assert "volumeId" not in client.delete(f"/sandbox/{last['id']}", preserveVolume="false").json()
    assert ids(client, "volumes") == []
    answer = client.post("/sandbox", {"volume": volume})
    assert (answer.status, answer.error["code"]) == (404, "VOLUME_NOT_FOUND"), answer


def test_bulk_delete_gives_volumes_back(client):
    volume = keep(client, "origin", "echo x > /workspace/x")
    client.create("one", volume=volume, labels=["x"])
    answer = client.request("DELETE", "/sandbox/bulk", {"labels": ["x"]})
    assert len(answer.json()["succeeded"]) == 1, answer
    assert not client.get(f"/volumes/{volume}").json()["inUse"]


def test_workspace_goes_when_nobody_says_otherwise(client):
    for query in ({}, {"preserveVolume": "false"}):
        client.create("box")
        assert "volumeId" not in client.delete("/sandbox/box", **query).json()
    assert ids(client, "volumes") == []


def test_volume_is_removed(client):
    volume = keep(client, "origin", "echo x > /workspace/x")
    assert client.delete(f"/volumes/{volume}").status == 200
    answer = client.get(f"/volumes/{volume}")
    assert (answer.status, answer.error["code"]) == (404, "VOLUME_NOT_FOUND"), answer
    assert ids(client, "volumes") == []


# ---- what stays ----

def test_rows_and_files_outlive_the_server(fresh):
    server = fresh().start()
    client = server.client()
    client.create("box")
    client.sh("box", "echo precious > /workspace/f")
    made = client.snapshot("box", name="kept")
    volume = keep(client, "origin", "echo mine > /workspace/f")
    user = client.create("user", volume=volume)
    client.close()
    server.kill("all")
    client = server.recover().client()
    assert ids(client, "snapshots") == [made["id"]]
    assert client.get(f"/volumes/{volume}").json()["sandboxId"] == user["id"]
    assert client.sh("user", "cat /workspace/f") == "mine\n"
    client.create("later", source={"type": "snapshot", "id": made["id"]})
    assert client.sh("later", "cat /workspace/f") == "precious\n"
    client.delete("/sandbox/user")
    server.stop()
    server.start()
    assert client.get(f"/volumes/{volume}").json()["sandboxId"] is None
    client.create("user", volume=volume)
    assert client.sh("user", "cat /workspace/f") == "mine\n"


def test_get_wakes_a_persistent_one(client):
    client.create("rests", persistent=True, timeoutMs=1500)
    client.sh("rests", "echo one > /workspace/f; echo two > ~/f")
    until(lambda: client.sandbox("rests")["status"] == "STOPPED", "its time is over", 15, 0.1)
    assert client.sandbox("rests")["terminationReason"] == "timeout"
    awake = client.get("/sandbox/rests", resume="true")
    assert (awake.status, awake.json()["status"]) == (200, "RUNNING"), awake
    assert awake.json()["expiresAt"] is not None, "a new span of time"
    assert client.sh("rests", "cat /workspace/f ~/f") == "one\ntwo\n"
    assert client.get("/sandbox/rests", resume="true").json()["status"] == "RUNNING"


def test_get_wakes_nobody_else(client):
    client.create("plain")
    client.post("/sandbox/plain/stop", {"graceMs": 0})
    assert client.get("/sandbox/plain", resume="true").json()["status"] == "STOPPED"
    client.create("still", persistent=True)
    client.post("/sandbox/still/pause")
    assert client.get("/sandbox/still", resume="true").json()["status"] == "PAUSED"
    client.post("/sandbox/still/stop", {"graceMs": 0})
    assert client.get("/sandbox/still", resume="false").json()["status"] == "STOPPED"


def exported(client, ident):
    try:
        return client.get(f"/images/export?ref={ident}").status
    except (http.client.HTTPException, ConnectionError):
        return "cut"


@pytest.mark.native("Docker makes no archives of snapshots")
def test_one_that_somebody_reads_stays(client, box):
    client.sh("box", "head -c 64M /dev/urandom > /workspace/large")
    ident = client.post("/sandbox/box/snapshot", {}).json()["id"]
    with client.stream("GET", "/images/export", query={"ref": ident}) as export:
        assert export.response.read(1)
        refused = client.delete(f"/snapshots/{ident}")
        assert refused.status == 409 and refused.error["code"] == "SNAPSHOT_IN_USE", refused
        assert ident in ids(client, "snapshots")
        client.create("another", source={"type": "snapshot", "id": ident})
    until(lambda: client.delete(f"/snapshots/{ident}").status == 200, "it goes when the reader has gone")
    assert ident not in ids(client, "snapshots")


@pytest.mark.native("Docker makes no archives of snapshots")
def test_one_that_goes_while_it_is_exported(server, client):
    """Either is first, and the engine lives on."""
    engine = server.pid("engine")
    client.create("box", image="busybox")
    client.sh("box", "head -c 30000000 /dev/urandom > f")  # enough to be in the midst of it
    with ThreadPoolExecutor(4) as pool:
        for _ in range(12):
            client = server.client()  # exports outlast an idle connection
            ident = client.post("/sandbox/box/snapshot", {}).json()["id"]
            asked = [pool.submit(exported, server.client(), ident) for _ in range(3)]
            gone = client.delete(f"/snapshots/{ident}")
            assert gone.status in (200, 409), gone
            assert {a.result() for a in asked} <= {200, 404, "cut"}
            if gone.status == 409:
                until(lambda: server.client().delete(f"/snapshots/{ident}").status == 200, "it goes")
    assert server.pid("engine") == engine
