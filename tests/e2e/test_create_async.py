# SPDX-License-Identifier: Apache-2.0
"""Creating without waiting: the row at once, the sandbox or the reason later."""
import http.client
import subprocess

import pytest

from harness.points import points
from harness.wait import stretch, until

def begin(client, **spec):
    answer = client.post("/sandbox", spec, wait="false")
    assert answer.status == 202, answer
    row = answer.json()
    assert row["status"] == "PENDING" and answer.headers["Location"] == f"/api/v1/sandbox/{row['id']}"
    return row


def made(client, ident):
    return until(lambda: (s := client.sandbox(ident))["status"] != "PENDING" and s, "made, or not", 60)  # its image may have to be brought first


def test_becomes_running(client):
    row = begin(client, name="box", startCommand="echo up; sleep 1000")
    sandbox = made(client, row["id"])
    assert sandbox["status"] == "RUNNING" and sandbox["startedAt"] and sandbox["createdInMs"] >= 0
    assert client.sh("box", "echo hi") == "hi\n"
    until(lambda: client.get("/sandbox/box/logs").json()["logs"] == "up\n", "the start command's output")


def test_failure_is_on_the_row(server, client):
    before = server.traces()
    row = begin(client, name="box", dockerImage="nobody/has:this")
    sandbox = made(client, row["id"])
    assert sandbox["status"] == "ERROR" and "nobody/has:this" in sandbox["statusReason"], sandbox
    assert server.traces() == before
    assert client.post("/sandbox/box/start").status == 409
    assert client.post("/sandbox/box/exec", {"command": "true"}).status == 409
    assert client.delete("/sandbox/box").status == 200
    assert client.create("box")["status"] == "RUNNING", "its name is free again"


def test_start_command_that_cannot_run(client):
    begin(client, name="box", startCommand="true", user="no-such-user")
    sandbox = made(client, "box")
    assert sandbox["status"] == "ERROR" and "start command" in sandbox["statusReason"], sandbox


def test_what_is_wrong_in_itself_is_told_at_once(client, box):
    assert client.post("/sandbox", {"name": "box"}, wait="false").status == 409
    assert client.post("/sandbox", {"memoryGB": -1}, wait="false").status == 400
    assert client.names() == ["box"]


def test_delete_at_once(server, client):
    for i in range(10):
        row = begin(client, name=f"box-{i}")
        answer = client.delete(f"/sandbox/{row['id']}")
        assert answer.status == 200 and answer.json()["status"] == "TERMINATED", answer
    assert server.inits() == [] and client.names() == []


def test_many_at_once(server, client):
    rows = [begin(client, memoryGB=0.0625) for _ in range(50)]
    assert {made(client, r["id"])["status"] for r in rows} == {"RUNNING"}
    assert len(server.inits()) == 50


@pytest.mark.parametrize("point", points("create"))
def test_crash(fresh, point):
    """Who was answered finds the row again, with the sandbox or with the reason, and nothing beside it."""
    server = fresh()
    server.start(env={"CAY_CRASH_AT": point})
    client = server.client(timeout=15)
    try:
        client.post("/sandbox", {"name": "island", "startCommand": "sleep 1000"}, wait="false")
    except (OSError, http.client.HTTPException):
        pass  # it died before the answer went out
    until(lambda: not (server.pid("server") and server.pid("supervisor")) or server.process.poll() is not None,
          "it dies")
    try:
        server.process.wait(stretch(1))
        server.process = None
    except subprocess.TimeoutExpired:
        server.kill("all")
    server.recover()
    client = server.client()
    sandbox = made(client, "island")
    if point == "create-row-running":
        assert sandbox["status"] == "RUNNING" and client.sh("island", "echo hi") == "hi\n"
    else:
        # A server that outlives the engine for a moment may have heard why.
        assert sandbox["status"] == "ERROR" and sandbox["statusReason"], sandbox
        until(lambda: server.traces() == {} and server.inits() == [], f"nothing is left: {server.traces()}")
    assert client.delete("/sandbox/island").status == 200
    client.close()


def test_failed_rows_outlive_a_restart(fresh):
    server = fresh().start()
    client = server.client()
    row = begin(client, name="box", dockerImage="nobody/has:this")
    reason = made(client, row["id"])["statusReason"]
    server.restart()
    client = server.client()
    again = client.sandbox(row["id"])
    assert (again["status"], again["statusReason"]) == ("ERROR", reason)
    client.close()
