# SPDX-License-Identifier: Apache-2.0
"""GET /api/v1/events: what happens to sandboxes, as it happens and afterwards."""
import os
import signal
import subprocess
from pathlib import Path

from harness.wait import until


def follow(client, last=None, **query):
    headers = {"Last-Event-ID": last} if last is not None else None
    stream = client.events("GET", "/events", query=query, headers=headers, timeout=20)
    assert stream.status == 200 and stream.headers["Content-Type"] == "text/event-stream"
    return stream


def take(stream, count):
    events = stream.events()
    return [next(events) for _ in range(count)]


def names(events):
    return [e.name for e in events]


def test_a_life(client):
    with follow(client) as stream:
        box = client.create("box")
        client.post("/sandbox/box/pause")
        client.post("/sandbox/box/resume")
        client.post("/sandbox/box/stop", {"graceMs": 0})
        client.post("/sandbox/box/start")
        snapshot = client.post("/sandbox/box/snapshot", {"name": "kept"}).json()
        fork = client.post("/sandbox/box/fork", {"name": "twin"}).json()
        client.delete("/sandbox/box")
        events = take(stream, 8)
    assert names(events) == ["created", "paused", "running", "stopped", "running", "snapshot", "forked", "terminated"]
    data = [e.data for e in events]
    assert [d["status"] for d in data] == ["RUNNING", "PAUSED", "RUNNING", "STOPPED", "RUNNING", "RUNNING", "RUNNING",
                                           "TERMINATED"]
    assert all(d["type"] == e.name and d["time"].endswith("Z") for d, e in zip(data, events))
    assert all(d["sandboxId"] == box["id"] for i, d in enumerate(data) if i != 6)
    assert data[3]["reason"] == "stopped" and data[7]["reason"] == "deleted"
    assert data[5]["snapshotId"] == snapshot["id"]
    assert data[6]["sandboxId"] == fork["id"] and data[6]["from"] == box["id"]
    ids = [int(e.id) for e in events]
    assert ids == sorted(set(ids))


def test_from_the_beginning_and_one_sandbox(client):
    client.create("one")
    two = client.create("two")
    client.delete("/sandbox/one")
    client.delete("/sandbox/two")
    with follow(client, offset=0, sandbox=two["id"]) as stream:
        events = take(stream, 2)
    assert names(events) == ["created", "terminated"]
    assert {e.data["name"] for e in events} == {"two"}
    assert client.get("/events", sandbox="nobody").status == 404


def test_a_failed_create_is_no_event(client):
    with follow(client) as stream:
        assert client.post("/sandbox", {"image": "no-such-image"}).status == 404
        client.create("good")
        [event] = take(stream, 1)
    assert event.data["name"] == "good"


def test_without_waiting(client):
    with follow(client) as stream:
        answer = client.request("POST", "/sandbox", {"name": "later"}, {"wait": "false"})
        assert answer.status == 202
        events = take(stream, 2)
    assert names(events) == ["created", "running"]
    assert events[0].data["status"] == "PENDING"


def test_a_death(server, client, box):
    with follow(client) as stream:
        [init] = server.inits()
        os.kill(init, signal.SIGKILL)
        [event] = take(stream, 1)
    assert event.name == "error" and event.data["reason"] == "signal" and event.data["message"]


def test_goes_on_after_a_restart(fresh):
    server = fresh().start()
    client = server.client()
    with follow(client) as stream:
        client.create("one")
        [first] = take(stream, 1)
    client.create("two")
    server.restart()
    client.close()
    client.create("three")
    with follow(client, last=first.id) as stream:
        assert [e.data["name"] for e in take(stream, 2)] == ["two", "three"]
    server.kill("server")
    server.recover()
    client.close()
    client.create("four")
    with follow(client, last=first.id) as stream:
        assert [e.data["name"] for e in take(stream, 3)] == ["two", "three", "four"]
    client.close()


def test_the_first_line_names_the_place(client):
    """Who is cut before the first event misses none: the stream begins with an id."""
    with follow(client) as stream:
        line = next(stream.lines()).decode()
    assert line.startswith("id: ")
    client.create("missed")
    with follow(client, last=line.removeprefix("id: ").strip()) as stream:
        assert take(stream, 1)[0].data["name"] == "missed"


def test_wrong_places(client):
    client.create("box")
    for last in ("x", "-1", "3", "99999999999999", "99999999999999999999999"):
        answer = client.request("GET", "/events", headers={"Last-Event-ID": last})
        assert answer.status == 400 and answer.error["details"]["field"] == "Last-Event-ID", last
    answer = client.get("/events", offset="2")
    assert answer.status == 400 and answer.error["details"]["field"] == "offset"


def test_what_is_gone_is_told(fresh):
    server = fresh().start()
    client = server.client()
    path = Path(server.data, "events", "local.jsonl")
    client.create("box")
    with follow(client, offset=0) as stream:
        [first] = take(stream, 1)
    while path.stat().st_size < 4096:
        client.post("/sandbox/box/pause")
        client.post("/sandbox/box/resume")
    subprocess.run(["fallocate", "-p", "-o", "0", "-l", "4096", str(path)], check=True)
    client.post("/sandbox/box/pause")
    with follow(client, last=first.id) as stream:
        gap, *_ = events = take(stream, 2)
    assert gap.name == "gap" and gap.data == {"from": int(first.id), "to": int(gap.id)}
    assert int(gap.id) > 4000
    assert events[1].name in ("paused", "running")
    client.close()


def test_a_time_that_is_over(fresh):
    server = fresh().start()
    client = server.client()
    with follow(client) as stream:
        client.create("brief", timeoutMs=1000)
        events = take(stream, 2)
    assert names(events) == ["created", "terminated"] and events[1].data["reason"] == "timeout"
    until(lambda: not server.inits(), "it is gone")
    client.close()
