# SPDX-License-Identifier: Apache-2.0
"""What ran is forgotten when its account wishes, and not before."""
from harness.wait import until


def forget(client, eid, name="box"):
    return client.delete(f"/sandbox/{name}/exec/{eid}")


def test_an_ended_execution_is_forgotten(client, box):
    eid, other = (client.exec("box", f"echo {word}")["id"] for word in ("secret", "other"))
    answer = forget(client, eid)
    assert (answer.status, answer.json()) == (200, {"id": eid, "deleted": True})
    for path in (f"/sandbox/box/exec/{eid}", f"/sandbox/box/exec/{eid}/output"):
        assert (client.get(path).status, client.get(path).error["code"]) == (404, "EXECUTION_NOT_FOUND")
    assert [e["id"] for e in client.get("/sandbox/box/exec").json()["executions"]] == [other]
    assert forget(client, eid).status == 404


def test_one_that_runs_is_not(client, box):
    eid = client.detach("box", ["sleep", "600"])
    answer = forget(client, eid)
    assert (answer.status, answer.error["code"]) == (409, "EXECUTION_RUNNING")
    client.post(f"/sandbox/box/exec/{eid}/kill", {"signal": "SIGKILL"})
    until(lambda: client.execution("box", eid)["status"] == "exited", "its end")
    assert forget(client, eid).status == 200


def test_a_start_command_stays_with_its_sandbox(client):
    client.create("box", startCommand="echo started")
    eid = until(lambda: client.get("/sandbox/box/exec").json()["executions"], "the start command")[0]["id"]
    until(lambda: client.execution("box", eid)["status"] == "exited", "its end")
    answer = forget(client, eid)
    assert (answer.status, answer.error["code"]) == (409, "START_COMMAND")
    assert client.get("/sandbox/box/logs").json()["logs"] == "started\n"
    ident = client.sandbox("box")["id"]
    assert client.delete("/sandbox/box").status == 200
    assert client.output(ident, eid) == b"started\n", "output outlives its sandbox"
    assert forget(client, eid, ident).status == 200
    assert client.get(f"/sandbox/{ident}/exec").json()["executions"] == []
