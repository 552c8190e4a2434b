# SPDX-License-Identifier: Apache-2.0
"""Batches: many commands over many sandboxes, told as they end; nothing of one item stops another."""
import json
import os
import subprocess

import pytest

from harness.server import CAY
from harness.wait import until

SMALL = {"memoryGB": 0.125}


def batch(client, headers=None, **body):
    """All lines of a batch, and its answer's headers."""
    with client.stream("POST", "/batch", body, headers=headers) as stream:
        assert stream.status == 200, stream.read()
        assert stream.headers["Content-Type"] == "application/x-ndjson"
        lines = list(stream.records())
    assert lines[0]["type"] == "start" and lines[0]["id"] == stream.headers["X-Batch-Id"]
    assert lines[-1]["type"] == "end" and [e["type"] for e in lines].count("end") == 1
    return lines


def of(lines, kind):
    return [line for line in lines if line["type"] == kind]


@pytest.fixture
def pair(client):
    return [client.create(name, **SMALL)["id"] for name in ("one", "two")]


def test_every_command_in_every_sandbox(client, pair):
    commands = [{"command": "hostname"}, {"command": ["sh", "-c", "cat; exit 3"], "stdin": "in"},
                {"command": "cat f; pwd >&2", "cwd": "/tmp", "files": {"f": "text"}}]
    lines = batch(client, sandboxes=["one", pair[1]], commands=commands)
    assert {k: lines[0][k] for k in ("items", "commands", "sandboxes", "mode", "concurrency")} == {
        "items": 6, "commands": 3, "sandboxes": 2, "mode": "each", "concurrency": 8}
    results = {(r["command"], r["sandbox"]): r for r in of(lines, "result")}
    assert len(results) == 6 and sorted(r["index"] for r in results.values()) == list(range(6))
    for place, ident in enumerate(pair):
        first, second, third = (results[c, place] for c in range(3))
        assert (first["stdout"], first["sandboxId"], first["exitCode"]) == (("one\n", "two\n")[place], ident, 0)
        assert (second["stdout"], second["exitCode"], second["reason"]) == ("in", 3, "exited")
        assert (third["stdout"], third["stderr"]) == ("text", "/tmp\n")
        assert client.execution(ident, first["id"])["status"] == "exited"
    assert (lines[-1]["succeeded"], lines[-1]["failed"]) == (4, 2)


def test_told_in_order_of_completion_as_it_comes(client, pair):
    fifo = [{"command": "until [ -e /workspace/go ]; do sleep 0.02; done; echo last"}, {"command": "echo first"}]
    with client.stream("POST", "/batch", {"sandboxes": ["one"], "commands": fifo}) as stream:
        records = stream.records()
        assert [next(records)["type"], next(records)["stdout"]] == ["start", "first\n"]
        client.sh("one", "touch /workspace/go")
        assert [next(records)["stdout"], next(records)["type"]] == ["last\n", "end"]


def test_one_that_fails_stops_nobody(client, pair):
    commands = [{"command": "exit 1"}, {"command": "true", "cwd": "/none"}, {"command": "kill -9 $$"},
                {"command": "sleep 60", "timeoutMs": 100}, {"command": "echo fine"},
                {"command": "echo fine", "files": {"/proc/x": ""}}]
    lines = batch(client, sandboxes=["nobody", "two"], commands=commands)
    failed = {(e["command"], e["sandbox"]): e for e in of(lines, "error")}
    assert {failed[c, 0]["error"]["code"] for c in range(6)} == {"NOT_FOUND"} and failed[0, 0]["sandboxId"] == "nobody"
    assert failed[1, 1]["error"]["details"]["field"] == "cwd"
    assert failed[5, 1]["error"]["details"]["field"] == "files./proc/x"
    ran = {r["command"]: (r["exitCode"], r["reason"]) for r in of(lines, "result")}
    assert ran == {0: (1, "exited"), 2: (137, "signal"), 3: (143, "timeout"), 4: (0, "exited")}
    assert (lines[-1]["succeeded"], lines[-1]["failed"]) == (1, 11)


def test_sandboxes_are_made_and_removed(client):
    lines = batch(client, create={"spec": {"name": "many", "env": {"A": "b"}, **SMALL}, "count": 3},
                  commands=[{"command": "echo $A; hostname"}])
    assert sorted(r["stdout"] for r in of(lines, "result")) == [f"b\nmany-{i}\n" for i in (1, 2, 3)]
    assert sorted(s["sandbox"] for s in of(lines, "sandbox")) == [0, 1, 2]
    assert client.names() == []
    made = of(lines, "result")[0]
    assert client.output(made["sandboxId"], made["id"]) == made["stdout"].encode(), "its output stays for a time"


def test_sandboxes_are_made_and_kept(client):
    batch(client, create={"spec": {"name": "kept", **SMALL}, "count": 2}, keep=True, commands=[{"command": "echo x > y"}])
    assert sorted(client.names()) == ["kept-1", "kept-2"]
    assert client.sh("kept-2", "cat y") == "x\n"


def test_a_sandbox_that_cannot_be_made_fails_its_items_alone(client):
    client.create("twin-2", **SMALL)
    lines = batch(client, create={"spec": {"name": "twin", **SMALL}, "count": 2},
                  commands=[{"command": "echo 1"}, {"command": "echo 2"}])
    assert sorted(r["stdout"] for r in of(lines, "result")) == ["1\n", "2\n"]
    assert [(e["sandbox"], e["sandboxId"], e["error"]["code"]) for e in of(lines, "error")] == [(1, None, "NAME_TAKEN")] * 2
    assert client.names() == ["twin-2"], "somebody else's stays"


@pytest.mark.parametrize("mode,count,places", [("zip", 2, [0, 1]), ("spread", 5, [0, 1, 0, 1, 0])])
def test_modes(client, pair, mode, count, places):
    lines = batch(client, sandboxes=pair, mode=mode, commands=[{"command": f"echo {i}"} for i in range(count)])
    results = sorted(of(lines, "result"), key=lambda r: r["index"])
    assert [r["stdout"] for r in results] == [f"{i}\n" for i in range(count)]
    assert [r["sandboxId"] for r in results] == [pair[p] for p in places]


def test_no_more_at_once_than_asked_for(client, pair):
    script = "mkdir -p /tmp/now; touch /tmp/now/$$; ls /tmp/now | wc -l; sleep 0.1; rm /tmp/now/$$"
    for most in (1, 3):
        lines = batch(client, sandboxes=["one"], concurrency=most, commands=[{"command": script}] * 12)
        assert max(int(r["stdout"]) for r in of(lines, "result")) == most


REFUSED = [
    ("nothing", {}, "commands"),
    ("no sandboxes", {"commands": [{"command": "x"}]}, "sandboxes"),
    ("both", {"commands": [{"command": "x"}], "sandboxes": ["a"], "create": {}}, "sandboxes"),
    ("no commands", {"commands": [], "sandboxes": ["a"]}, "commands"),
    ("no command in it", {"commands": [{"command": "x"}, {}], "sandboxes": ["a"]}, "commands[1].command"),
    ("a bare string", {"commands": ["x"], "sandboxes": ["a"]}, "commands[0]"),
    ("a wrong field in one", {"commands": [{"command": "x", "cwd": "y"}], "sandboxes": ["a"]}, "commands[0].cwd"),
    ("a wrong path in one", {"commands": [{"command": "x", "files": {"../y": ""}}], "sandboxes": ["a"]}, "commands[0].files.../y"),
    ("detached", {"commands": [{"command": "x", "detach": True}], "sandboxes": ["a"]}, "commands[0].detach"),
    ("open stdin", {"commands": [{"command": "x", "openStdin": True}], "sandboxes": ["a"]}, "commands[0].openStdin"),
    ("too many at once", {"commands": [{"command": "x"}], "sandboxes": ["a"], "concurrency": 65}, "concurrency"),
    ("none at once", {"commands": [{"command": "x"}], "sandboxes": ["a"], "concurrency": 0}, "concurrency"),
    ("another mode", {"commands": [{"command": "x"}], "sandboxes": ["a"], "mode": "all"}, "mode"),
    ("zip of unequals", {"commands": [{"command": "x"}] * 2, "sandboxes": ["a"], "mode": "zip"}, "mode"),
    ("too many items", {"commands": [{"command": "x"}] * 101, "sandboxes": ["a"] * 100}, "commands"),
    ("too many sandboxes", {"commands": [{"command": "x"}], "create": {"count": 1001}}, "create.count"),
    ("a wrong spec", {"commands": [{"command": "x"}], "create": {"spec": {"memoryGB": 1e9}}}, "create.spec.memoryGB"),
    ("an unknown field of it", {"commands": [{"command": "x"}], "create": {"spec": {"memory": 1}}}, "create.spec.memory"),
]


@pytest.mark.parametrize("body,field", [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_refused_as_a_whole(client, body, field):
    answer = client.post("/batch", body)
    assert (answer.status, answer.error["details"].get("field")) == (400, field), answer


def test_goes_on_when_its_client_is_gone(client):
    stream = client.stream("POST", "/batch", {"create": {"spec": {"name": "left", **SMALL}},
                                              "commands": [{"command": "sleep 0.5; echo done"}]})
    records = stream.records()
    ident = [next(records), next(records)][1]["sandboxId"]
    stream.close()
    until(lambda: client.names() == [], "the end of what was made")
    assert [client.output(ident, e["id"]) for e in client.get(f"/sandbox/{ident}/exec").json()["executions"]] == [b"done\n"]


def test_a_client_that_does_not_read_holds_up_nobody(client, pair):
    body = {"sandboxes": ["one"], "commands": [{"command": "head -c 300000 /dev/zero | tr '\\0' x; touch /workspace/$N",
                                                "env": {"N": str(i)}} for i in range(60)]}
    with client.stream("POST", "/batch", body) as stream:
        until(lambda: client.sh("one", "ls /workspace | wc -l").strip() == "60", "the end of all")
        lines = list(stream.records())
    assert [len(r["stdout"]) for r in of(lines, "result")] == [300000] * 60 and lines[-1]["succeeded"] == 60


def test_output_is_bounded_and_the_rest_can_be_read(client, pair):
    lines = batch(client, sandboxes=["one"], commands=[{"command": "head -c 3000000 /dev/zero | tr '\\0' x"},
                                                       {"command": "echo 12345", "outputLimit": 3}])
    large, small = sorted(of(lines, "result"), key=lambda r: r["index"])
    assert (len(large["stdout"]), large["truncated"], len(client.output("one", large["id"]))) == (1 << 20, True, 3000000)
    assert (small["truncated"], len(small["stdout"])) == (True, 3)


def test_a_sandbox_deleted_meanwhile_loses_its_items_alone(client, pair):
    body = {"sandboxes": pair, "commands": [{"command": "touch /workspace/up; sleep 1; echo on"}]}
    with client.stream("POST", "/batch", body) as stream:
        until(lambda: client.exec("one", "test -e /workspace/up")["exitCode"] == 0, "the first to run")
        assert client.delete("/sandbox/one").status == 200
        lines = list(stream.records())
    assert [(e["sandboxId"], e["error"]["code"]) for e in of(lines, "error")] == [(pair[0], "EXEC_LOST")]
    assert [(r["sandboxId"], r["stdout"]) for r in of(lines, "result")] == [(pair[1], "on\n")]


def test_a_repeated_key_is_the_same_batch(client, pair):
    body = {"sandboxes": ["one"], "commands": [{"command": "echo x >> /workspace/runs; sleep 0.3"}] * 2}
    key = {"Idempotency-Key": "batch-1"}
    with client.stream("POST", "/batch", body, headers=key) as first:
        with client.stream("POST", "/batch", body, headers=key) as second:
            assert second.headers["Idempotent-Replayed"] == "true"
            lines = list(first.records())
            assert list(second.records()) == lines
    assert batch(client, headers=key, **body) == lines, "also when it is over"
    assert client.sh("one", "wc -l < /workspace/runs").strip() == "2"
    answer = client.request("POST", "/batch", {**body, "concurrency": 1}, headers=key)
    assert (answer.status, answer.error["code"]) == (422, "IDEMPOTENCY_KEY_REUSED")


def test_a_thousand_items(client, pair):
    lines = batch(client, sandboxes=pair, concurrency=16, commands=[{"command": ["echo", str(i)]} for i in range(500)])
    assert sorted(int(r["stdout"]) for r in of(lines, "result")) == sorted(list(range(500)) * 2)


def test_a_server_killed_on_the_way(fresh):
    server = fresh()
    server.start()
    client = server.client()
    client.create("stays", **SMALL)
    body = {"create": {"spec": {"name": "made", **SMALL}, "count": 2}, "commands": [{"command": "sleep 600"}]}
    stream = client.stream("POST", "/batch", body)
    assert [next(stream.records())["type"] for _ in range(3)] == ["start", "sandbox", "sandbox"]
    repeated = {"sandboxes": ["stays"], "commands": [{"command": "echo x >> /workspace/runs"}, {"command": "sleep 600"}]}
    other = client.stream("POST", "/batch", repeated, headers={"Idempotency-Key": "again"})
    assert [next(other.records())["type"] for _ in range(2)] == ["start", "result"]
    server.kill("server")
    for one in (stream, other):
        one.close()
    until(lambda: names(server) == ["stays"], "what was made is removed")
    client = server.client()
    with client.stream("POST", "/batch", repeated, headers={"Idempotency-Key": "again"}) as third:
        records = third.records()
        assert [next(records)["type"] for _ in range(2)] == ["start", "result"]
        for one in client.get("/sandbox/stays/exec").json()["executions"]:
            if one["status"] == "running":
                client.post(f"/sandbox/stays/exec/{one['id']}/kill")
        assert [r["type"] for r in records] == ["result", "end"]
    assert client.sh("stays", "cat /workspace/runs") == "x\n", "what ran is not run again"
    assert client.delete("/sandbox/stays").status == 200


def names(server):
    try:
        return server.client().names()
    except (OSError, AssertionError):
        return None  # it is just coming back


def test_by_command_line(server, client, pair, tmp_path):
    path = tmp_path / "batch.json"
    path.write_text(json.dumps({"sandboxes": pair, "commands": [{"command": "echo hi"}]}))
    env = {**os.environ, "CAY_URL": server.url}
    done = subprocess.run([CAY, "batch", path], capture_output=True, text=True, timeout=30, env=env)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, [e["type"] for e in lines]) == (0, ["start", "result", "result", "end"])
    path.write_text(json.dumps({"sandboxes": pair, "commands": [{"command": "exit 3"}]}))
    done = subprocess.run([CAY, "batch", "-"], capture_output=True, text=True, timeout=30, env=env, input=path.read_text())
    assert (done.returncode, json.loads(done.stdout.splitlines()[-1])["failed"]) == (1, 2)
    path.write_text(json.dumps({"sandboxes": pair, "commands": [{"command": "printf 'a\\0b'"}]}))
    done = subprocess.run([CAY, "batch", path], capture_output=True, text=True, timeout=30, env=env)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.returncode, [e.get("stdout") for e in lines], done.stderr) == (0, [None, "a\0b", "a\0b", None], "")
