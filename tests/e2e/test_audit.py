# SPDX-License-Identifier: Apache-2.0
"""GET /api/v1/audit and its files: who did what, on which, with which result."""
import json
import threading
from pathlib import Path

from harness.wait import until
from harness.websocket import WebSocket


def entries(client, **query):
    answer = client.get("/audit", **query)
    assert answer.status == 200, answer
    return answer.json()["entries"]


def wait_for(client, count, **query):
    """A line is written once the answer is out."""
    until(lambda: len(entries(client, **query)) >= count, f"{count} lines for {query}")
    found = entries(client, **query)
    assert len(found) == count, found
    return found[::-1]


def test_a_life(client):
    answer = client.post("/sandbox", {"name": "box", "env": {"PASSWORD": "open-sesame"}})
    box = answer.json()["id"]
    client.request("PUT", "/sandbox/box/files", b"hello", {"path": "/workspace/a"},
                   {"Content-Type": "application/octet-stream"})
    client.request("GET", "/sandbox/box/files", query={"path": "/workspace/a"})
    run = client.exec("box", "echo open-sesame")
    client.get("/sandbox/box")
    client.get("/sandbox/box/logs")
    client.post("/sandbox/box/stop", {"graceMs": 0})
    client.post(f"/sandbox/{box}/exec", {"command": "true"})
    client.delete("/sandbox/box")
    got = wait_for(client, 7, sandbox=box)
    assert [(e["action"], e["status"], e["result"]) for e in got] == [
        ("sandbox.create", 201, "ok"), ("sandbox.files.write", 201, "ok"), ("sandbox.files.read", 200, "ok"),
        ("sandbox.exec", 200, "ok"), ("sandbox.stop", 200, "ok"), ("sandbox.exec", 409, "refused"),
        ("sandbox.delete", 200, "ok")]
    assert all(e["account"] == "local" and e["peer"] == "127.0.0.1" and e["sandbox"] == box for e in got)
    assert got[0]["request"] == answer.headers["X-Request-Id"]
    assert [e.get("object") for e in got[1:4]] == ["/workspace/a", "/workspace/a", run["id"]]
    assert "open-sesame" not in json.dumps(got)


def test_filters_and_pages(client):
    one, two = client.create("one")["id"], client.create("two")["id"]
    client.request("PUT", "/sandbox/one/files", b"x", {"path": "x"}, {"Content-Type": "application/octet-stream"})
    for _ in range(5):
        client.exec("two", "true")
    wait_for(client, 6, sandbox=two)
    assert [e["action"] for e in entries(client, sandbox="one", action="sandbox.files")] == ["sandbox.files.write"]
    assert {e["action"] for e in entries(client, sandbox=one)} == {"sandbox.create", "sandbox.files.write"}
    assert len(entries(client, sandbox=two, action="sandbox.exec")) == 5
    times = [e["time"] for e in entries(client, sandbox=two)]
    assert times == sorted(times, reverse=True)
    assert len(entries(client, sandbox=two, **{"from": times[2]})) >= 3
    assert len(entries(client, sandbox=two, to=times[2])) <= 3
    assert entries(client, sandbox=two, to="2020-01-01") == [] == entries(client, **{"from": "2999-01-01T00:00:00Z"})
    seen, cursor = [], {}
    for _ in range(4):
        page = client.get("/audit", sandbox=two, limit=2, **cursor).json()
        seen += page["entries"]
        cursor = {"cursor": page["nextCursor"]}
        if not page["hasNext"]:
            break
    assert seen == entries(client, sandbox=two)
    for field, value in (("from", "yesterday"), ("to", "2026-13-99"), ("limit", "0"), ("limit", "1001"),
                         ("cursor", "x"), ("cursor", "../../etc/passwd.1")):
        answer = client.get("/audit", **{field: value})
        assert answer.status == 400 and answer.error["details"]["field"] == field, (field, value, answer)


def test_what_was_refused(client):
    client.delete("/sandbox/nobody")
    client.post("/sandbox", {"name": "BAD NAME"})
    [gone] = wait_for(client, 1, sandbox="nobody")
    assert gone["status"] == 404 and gone["result"] == "refused"
    assert gone in entries(client, result="refused", peer="127.0.0.1") and gone not in entries(client, result="ok")
    assert client.get("/audit", result="bad").error["details"]["field"] == "result"
    assert entries(client, action="sandbox.create")[0]["status"] == 400


def test_terminals(client, box):
    with WebSocket(client, "/sandbox/box/terminal"):
        [entry] = wait_for(client, 1, sandbox=box["id"], action="sandbox.terminal")
    assert entry["status"] == 101 and entry["object"].startswith("exec_")


def test_what_the_server_does_itself(fresh):
    server = fresh().start()
    client = server.client()
    box = client.create("brief", timeoutMs=1000)
    entry = wait_for(client, 2, sandbox=box["id"])[1]
    assert entry["action"] == "sandbox.delete" and entry["peer"] == "server" and entry["object"] == "timeout"
    client.close()


def test_the_server_is_killed(fresh):
    """What was added stays, though no disk was waited for; the file is what the API tells."""
    server = fresh().start()
    client = server.client()
    ids = [client.create(f"box-{i}")["id"] for i in range(3)]
    wait_for(client, 3, action="sandbox.create")
    server.kill("server")
    server.recover()
    client.close()
    assert [e["sandbox"] for e in wait_for(client, 3, action="sandbox.create")] == ids
    [file] = Path(server.data, "audit").glob("*.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines[::-1] == entries(client, limit=1000)
    assert file.stat().st_mode & 0o777 == 0o600
    client.close()


def test_many_at_once(server, client):
    box = client.create("box")["id"]

    def work():
        own = server.client()
        for _ in range(20):
            own.request("GET", "/sandbox/box/files/stat", query={"path": "/"})
        own.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    got = []
    until(lambda: got.clear() or got.extend(entries(client, sandbox=box, action="sandbox.files", limit=1000))
          or len(got) == 80, "a line for each")
    assert len({e["request"] for e in got}) == 80
