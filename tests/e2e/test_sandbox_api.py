# SPDX-License-Identifier: Apache-2.0
"""/api/sandbox beyond its examples: documents 000 and 004 in detail."""
import base64
from datetime import datetime

import pytest

from harness.wait import until
from harness.websocket import WebSocket

SMALL = {"image": "busybox", "memoryLimit": "128m"}


@pytest.fixture
def api(client):
    class Api:
        def __call__(self, method, path="", body=None, **query):
            return client.request(method, "/api/sandbox" + path, body, query or None)

        def make(self, **body):
            answer = self("POST", "", {**SMALL, **body})
            assert answer.status == 201, answer
            return answer.json()["containerId"]

        def run(self, ident, command, **body):
            answer = self("POST", "/exec", {"containerId": ident, "command": command, **body})
            assert answer.status == 200, answer
            return answer.json()
    return Api()


def test_create_with_only_a_name(api, client):
    made = api("POST", "", {"name": "only"}).json()
    got = client.get("/sandbox/only").json()
    assert (got["dockerImage"], got["memoryGB"], got["cpuCores"]) == ("node:20-bookworm", 2, 1)
    assert got["networkAccess"] is False and got["track"] == "workspace" and got["id"] == made["id"]
    life = datetime.fromisoformat(made["expiresAt"]) - datetime.fromisoformat(made["createdAt"])
    assert life.total_seconds() == 1800


@pytest.mark.parametrize("memory, cpu, gib, cores", [
    ("2GB", "2", 2, 2), ("2g", 2, 2, 2), ("512m", "0.5", 0.5, 0.5), (536870912, 0.25, 0.5, 0.25), ("0.5Gi", "1.5", 0.5, 1.5),
    ("524288k", "1", 0.5, 1)])
def test_sizes(api, client, memory, cpu, gib, cores):
    got = client.get("/sandbox/" + api.make(memoryLimit=None, options={"memoryLimit": memory, "cpuLimit": cpu})).json()
    assert (got["memoryGB"], got["cpuCores"]) == (gib, cores)


@pytest.mark.parametrize("body, field", [
    ({"options": {"memoryLimit": "much"}}, "memoryLimit"), ({"options": {"memoryLimit": "-1m"}}, "memoryLimit"),
    ({"options": {"memoryLimit": "1e999"}}, "memoryLimit"), ({"options": {"memoryLimit": "0x10m"}}, "memoryLimit"),
    ({"options": {"memoryLimit": True}}, "memoryLimit"), ({"options": {"memoryLimit": ""}}, "memoryLimit"),
    ({"options": {"memoryLimit": "512mm"}}, "memoryLimit"), ({"options": {"cpuLimit": "0"}}, "cpuLimit"),
    ({"options": {"cpuLimit": "1x"}}, "cpuLimit"), ({"options": {"cpuLimit": []}}, "cpuLimit"),
    ({"options": {"timeout": 0}}, "options.timeout"), ({"options": {"timeout": "30s"}}, "options.timeout"),
    ({"options": {"colour": 1}}, "options.colour"), ({"colour": 1}, "colour"), ({"name": "no spaces"}, "name"),
    ({"track": "all"}, "track")])
def test_bad_creates(api, client, body, field):
    answer = api("POST", "", {**body})
    assert answer.status == 400 and answer.error["code"] == "VALIDATION_ERROR", answer
    assert answer.error["details"]["field"] == field and "detail" not in answer.json()
    assert client.names() == []


def test_statuses_of_commands(api):
    ident = api.make(options={"timeout": 500})
    assert api.run(ident, "echo out; echo err >&2; exit 3") | {"id": 0, "duration": 0} == {
        "id": 0, "duration": 0, "status": "error", "stdout": "out\n", "stderr": "err\n", "exitCode": 3, "reason": "exited"}
    late = api.run(ident, ["sleep", "1000"])
    assert late["status"] == "timeout" and late["reason"] == "timeout"
    assert api.run(ident, "sleep 0.8; echo done", timeout=20000)["stdout"] == "done\n"
    assert api.run(ident, "cat; echo $A; pwd", stdin="in\n", env={"A": "b"}, cwd="/tmp")["stdout"] == "in\nb\n/tmp\n"
    oom = api.run(ident, "tail /dev/zero", timeout=30000)
    assert oom["status"] == "oom" and oom["reason"] == "oom", oom


def test_files(api):
    ident = api.make()
    data = base64.b64encode(bytes(range(256))).decode()
    out = api.run(ident, "cat a/b; wc -c < bin; pwd", files={"a/b": "x\n", "bin": {"base64": data}})["stdout"]
    assert out.split() == ["x", "256", "/workspace"]
    for path in ("../../etc/passwd", "../x", ""):
        answer = api("POST", "/exec", {"containerId": ident, "command": "true", "files": {path: "1"}})
        assert answer.status == 400 and answer.error["code"] == "INVALID_PATH", answer
    answer = api("POST", "/exec", {"command": "true"})
    assert answer.status == 400 and answer.error["details"]["field"] == "containerId"
    answer = api("POST", "/exec", {"containerId": ident})
    assert answer.status == 400 and answer.error["details"]["field"] == "command"


def test_nobody(api):
    for method, path, body in (("GET", "/nobody", None), ("DELETE", "/nobody", None), ("POST", "/nobody/start", None),
                               ("POST", "/nobody/stop", {}), ("GET", "/nobody/logs", None), ("GET", "/nobody/history", None),
                               ("POST", "/exec", {"containerId": "nobody", "command": "true"})):
        answer = api(method, path, body)
        assert answer.status == 404 and answer.json()["error"]["message"] == "Sandbox not found", answer
        assert "detail" not in answer.json()


def test_start_and_stop(api):
    ident = api.make(persistent=True, startCommand="trap '' TERM; while :; do sleep 1; done")
    assert api("POST", f"/{ident}/start").json()["status"] == "running", "starting what runs is no error"
    stopped = api("POST", f"/{ident}/stop", {"timeout": 300})
    assert stopped.status == 200 and stopped.json()["status"] == "stopped", "forced after the timeout"
    assert api("GET", f"/{ident}").json()["uptime"] == 0
    assert [s["id"] for s in api("GET", status="stopped").json()] == [ident]
    assert api("POST", f"/{ident}/start").json()["status"] == "running"


def test_list(api):
    ids = [api.make(name=f"n{i}") for i in range(3)]
    got = api("GET").json()
    assert [s["id"] for s in got] == ids[::-1]
    assert {"id", "name", "status", "createdAt", "server"} <= set(got[0]) and got[0]["server"]
    assert [s["name"] for s in api("GET", status="running", limit=2, page=2).json()] == ["n0"]
    assert api("GET", status="paused").json() == []
    answer = api("GET", status="asleep")
    assert answer.status == 400 and answer.error["details"]["field"] == "status"
    api("DELETE", "/" + ids[0])
    assert api("GET", status="terminated").json()[0]["id"] == ids[0]


@pytest.mark.parametrize("keep", ["true", "false"])
def test_delete_with_and_without_its_volume(api, client, keep):
    ident = api.make()
    api.run(ident, "echo kept > file")
    gone = api("DELETE", f"/{ident}", preserveVolume=keep).json()
    assert gone["status"] == "deleted" and ("volumeId" in gone) == (keep == "true")
    volumes = client.get("/volumes").json()["volumes"]
    assert len(volumes) == (keep == "true")
    if volumes:
        again = api.make(volume=gone["volumeId"])
        assert api.run(again, "cat file")["stdout"] == "kept\n"


def test_logs_are_events(api, client):
    ident = api.make(startCommand="i=0; while [ $i -lt 150 ]; do echo line $i; i=$((i+1)); done; while test ! -e /tmp/go; "
                                  "do sleep 0.05; done; echo later; sleep 1000")
    got = api("GET", f"/{ident}").json()
    until(lambda: "line 149" in client.get(f"/sandbox/{ident}/logs").json()["logs"], "150 lines")
    with client.stream("GET", got["logs"], query={"tail": 100}) as stream:
        assert stream.status == 200 and stream.headers["Content-Type"].startswith("text/event-stream")
        text, events = b"", stream.events()
        for event in events:
            text += event.bytes() if event.name in ("stdout", "stderr") else b""
            if b"line 149" in text:
                break
        assert text.split(b"\n")[0] == b"line 50", "the last hundred"
        api.run(ident, "touch /tmp/go")
        for event in events:
            if event.name == "stdout" and b"later" in event.bytes():
                break
        else:
            pytest.fail("new lines do not come")


def test_health(client):
    health = client.get("/api/health").json()
    assert health["status"] in ("healthy", "degraded") and health["version"] and health["provider"]["version"]


def test_live(api, client):
    ident = api.make()
    body = {"containerId": ident, "command": "echo one; echo two >&2"}
    with client.stream("POST", "/api/sandbox/exec", body, headers={"Accept": "text/event-stream"}) as stream:
        names = [e.name for e in stream.events()]
    assert "stdout" in names and "stderr" in names and names[-1] == "exit"
    shell = WebSocket(client, f"/api/sandbox/{ident}/terminal")
    shell.type("echo $((6*7)); exit\n")
    shell.end()
    assert b"42" in shell.output and shell.told[-1]["type"] == "exit"
    body = {"containerId": ident, "command": "while test ! -e /tmp/seen; do sleep 0.05; done; echo seen"}
    with client.stream("POST", "/api/sandbox/exec", body, headers={"Accept": "text/event-stream"}) as stream:
        watched = WebSocket(client, f"/api/sandbox/{ident}/exec/{stream.headers['X-Execution-Id']}/attach?readOnly=true")
        api.run(ident, "touch /tmp/seen")
        watched.end()
        assert watched.output == b"seen\n" and watched.told[-1]["exitCode"] == 0


def test_track_and_forks(api, client):
    ident = api.make()
    first = api.run(ident, "true", files={"a": "1"})["id"]
    api.run(ident, "true", files={"a": "2"})
    copy = api("POST", f"/{ident}/fork", {"executionId": first})
    assert copy.status == 201 and copy.json()["status"] == "created", copy
    assert api.run(copy.json()["containerId"], "cat a")["stdout"] == "1"
    off = api.make(track="off")
    assert api("GET", f"/{off}/history").error["code"] == "NO_HISTORY"


def test_names_are_taken(api):
    api.make(name="one")
    answer = api("POST", "", {**SMALL, "name": "one"})
    assert answer.status == 409 and answer.error["code"] == "NAME_TAKEN", answer
