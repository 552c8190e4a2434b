# SPDX-License-Identifier: Apache-2.0
"""Requests that are sent again: done once, answered as the first time."""
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from harness.wait import until


@pytest.fixture(autouse=True)
def keys():
    """Keys are remembered for as long as the server's records are: each test has its own."""
    global suffix
    suffix = uuid.uuid4().hex


def post(client, path, key, body, query=None):
    if key.startswith("k"):
        key += suffix
    return client.request("POST", path, body, query, {"Idempotency-Key": key})


def test_a_create_is_done_once(client):
    first = post(client, "/sandbox", "k1", {"name": "one"})
    again = post(client, "/sandbox", "k1", {"name": "one"})
    assert (first.status, again.status) == (201, 201)
    assert again.body == first.body and again.headers["Idempotent-Replayed"] == "true"
    assert "Idempotent-Replayed" not in first.headers
    assert client.get("/sandbox").json()["total"] == 1
    client.delete("/sandbox/one")
    assert post(client, "/sandbox", "k1", {"name": "one"}).body == first.body, "also when it is gone"


def test_the_key_may_stand_in_the_body(client):
    body = {"name": "one", "idempotency_key": suffix}
    first, again = client.post("/sandbox", body).json(), client.post("/sandbox", body).json()
    assert first["id"] == again["id"]


def test_what_is_written_behind_the_end_changes_no_answer(client):
    client.create("one")
    body = {"command": "(while kill -0 $$ 2>/dev/null; do :; done; echo late) & echo said"}
    first = post(client, "/sandbox/one/exec", "k1", body).json()
    until(lambda: client.output("one", first["id"]) == b"said\nlate\n", "what it left behind has spoken")
    again = post(client, "/sandbox/one/exec", "k1", body).json()
    assert [(a["stdout"], a["truncated"]) for a in (first, again)] == [("said\n", False)] * 2


def test_another_body_is_refused(client):
    post(client, "/sandbox", "k1", {"name": "one"})
    answer = post(client, "/sandbox", "k1", {"name": "two"})
    assert answer.status == 422 and answer.error["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert client.get("/sandbox").json()["total"] == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9"])
def test_bad_keys(client, key):
    answer = post(client, "/sandbox", key, {"name": "one"})
    assert answer.status == 400 and answer.error["details"]["field"] == "Idempotency-Key"
    assert client.get("/sandbox").json()["total"] == 0


def test_many_at_once_make_one(server, client):
    def ask(_):
        return post(server.client(), "/sandbox", "k1", {"name": "one"})
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(16)))
    assert {a.status for a in answers} == {201} and len({a.json()["id"] for a in answers}) == 1
    assert client.get("/sandbox").json()["total"] == 1


SLOWLY = {"name": "slow", "startCommand": "sleep 2; echo up; exec sleep 1000",
          "readyWhen": {"logLine": "up", "timeoutMs": 20_000}}


def test_one_that_is_being_made_is_waited_for(server, client):
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(post, server.client(), "/sandbox", "k1", SLOWLY)
        until(lambda: client.get("/sandbox/slow").status == 200, "it is being made")
        again = pool.submit(post, server.client(), "/sandbox", "k1", SLOWLY)
        first, again = first.result(), again.result()
    assert (first.status, again.status) == (201, 201)
    assert first.json()["id"] == again.json()["id"] and {a.json()["status"] for a in (first, again)} == {"RUNNING"}


def test_one_that_is_not_made_is_nobodys(server, client):
    never = {**SLOWLY, "name": "never", "readyWhen": {"logLine": "never", "timeoutMs": 1500}}
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(post, server.client(), "/sandbox", "k1", never)
        until(lambda: client.get("/sandbox/never").status == 200, "it is being made")
        answers = [first.result(), post(server.client(), "/sandbox", "k1", never)]
    assert all(a.status >= 400 and "1500 ms" in a.error["message"] for a in answers), answers
    assert client.get("/sandbox").json()["total"] == 0


def test_without_waiting(client):
    first = post(client, "/sandbox", "k1", {"name": "one"}, {"wait": "false"})
    again = post(client, "/sandbox", "k1", {"name": "one"}, {"wait": "false"})
    assert (first.status, again.status) == (202, 202) and first.body == again.body


@pytest.mark.parametrize("body", [{"name": "fork"}, {"name": "fork", "count": 3}, {"count": 1}], ids=["one", "three", "a list"])
def test_a_fork_is_made_once(client, box, body):
    count = body.get("count", 1)
    first, again = post(client, "/sandbox/box/fork", "k1", body), post(client, "/sandbox/box/fork", "k1", body)
    assert (first.status, again.status) == (201, 201) and again.body == first.body
    assert again.headers["Idempotent-Replayed"] == "true" and "Idempotent-Replayed" not in first.headers
    assert client.get("/sandbox").json()["total"] == 1 + count
    assert post(client, "/sandbox/box/fork", "k1", {**body, "count": 2}).error["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert post(client, "/sandbox", "k1", {}).status == 201, "a create with that key is something else"
    client.request("DELETE", "/sandbox", {"sandbox_ids": [s["id"] for s in first.json().get("sandboxes", [first.json()])]})
    assert post(client, "/sandbox/box/fork", "k1", body).body == first.body, "also when it is gone"
    assert client.get("/sandbox").json()["total"] == 2


def test_many_forks_at_once_are_made_once(server, client, box):
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: post(server.client(), "/sandbox/box/fork", "k1", {"count": 2}), range(8)))
    assert {a.status for a in answers} == {201} and len({tuple(s["id"] for s in a.json()["sandboxes"]) for a in answers}) == 1
    assert client.get("/sandbox").json()["total"] == 3


def test_a_snapshot_is_made_once(server, client, box):
    path, body = "/sandbox/box/snapshot", {"name": "before"}
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: post(server.client(), path, "k1", body), range(4)))
    assert {a.status for a in answers} == {201} and len({a.body for a in answers}) == 1
    assert sum("Idempotent-Replayed" not in a.headers for a in answers) == 1
    assert client.get("/snapshots").json()["total"] == 1
    assert post(client, path, "k1", {"name": "after"}).error["code"] == "IDEMPOTENCY_KEY_REUSED"
    assert post(client, path, "k2", body).json()["id"] != answers[0].json()["id"]


def test_a_command_runs_once(client, box):
    body = {"command": "echo ran >> /tmp/runs; cat /tmp/runs"}
    path = "/sandbox/box/exec"
    first, again = post(client, path, "k1", body), post(client, path, "k1", body)
    assert (first.status, again.status) == (200, 200) and first.body == again.body
    assert first.json()["stdout"] == "ran\n"
    assert post(client, path, "k2", body).json()["stdout"] == "ran\nran\n"
    answer = post(client, path, "k1", {"command": "true"})
    assert answer.status == 422 and answer.error["code"] == "IDEMPOTENCY_KEY_REUSED"


def test_a_command_that_still_runs_is_joined(server, client, box):
    path = "/sandbox/box/exec"
    body = {"command": "echo once >> /tmp/runs; until [ -e /tmp/go ]; do sleep 0.05; done; cat /tmp/runs"}
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(lambda: post(server.client(), path, "k1", body)) for _ in range(4)]
        until(lambda: client.get(path).json()["executions"], "the first one has begun")
        detached = post(client, path, "k1", dict(body, detach=True))
        assert detached.status == 422, "what is asked differs"
        client.exec("box", "touch /tmp/go")
        answers = [w.result() for w in waiting]
    assert len({a.json()["id"] for a in answers}) == 1
    assert {a.json()["stdout"] for a in answers} == {"once\n"}


def test_keys_outlive_the_server(fresh):
    server = fresh()
    server.start()
    client = server.client()
    first = post(client, "/sandbox", "k1", {"name": "one"})
    ran = post(client, "/sandbox/one/exec", "k2", {"command": "date +%N"})
    server.restart()
    client = server.client()
    assert post(client, "/sandbox", "k1", {"name": "one"}).body == first.body
    assert post(client, "/sandbox/one/exec", "k2", {"command": "date +%N"}).body == ran.body
