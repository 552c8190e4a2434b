# SPDX-License-Identifier: Apache-2.0
"""readyWhen: a sandbox counts as running when a port is listened on inside, or a line was written."""
import threading
import time

import pytest

from harness.wait import until

LISTEN = "node -e \"setTimeout(() => require('net').createServer().listen(%s), 300); setInterval(() => {}, 1000)\""


def test_when_a_port_is_listened_on(client):
    for name, where in (("four", "8080, '127.0.0.1'"), ("six", "8080, '::'")):
        box = client.create(name, startCommand=LISTEN % where, readyWhen={"port": 8080, "timeoutMs": 20000})
        assert box["status"] == "RUNNING" and box["createdInMs"] >= 300, box
        assert box["readyWhen"] == {"port": 8080, "timeoutMs": 20000}
        assert client.sh(name, "node -e \"require('net').connect(8080, () => process.exit(0))\"; echo $?") == "0\n"


def test_when_a_line_is_written(client):
    box = client.create("box", startCommand="printf 'server is re'; sleep 0.3; echo ady >&1; exec sleep 1000",
                        readyWhen={"logLine": "is ready"})
    assert box["status"] == "RUNNING" and box["createdInMs"] >= 300
    assert box["readyWhen"] == {"logLine": "is ready", "timeoutMs": 30000}
    client.create("err", startCommand="echo up >&2; exec sleep 1000", readyWhen={"logLine": "up"})


@pytest.mark.parametrize("how", [{"port": 9}, {"logLine": "never"}], ids=["port", "line"])
def test_too_late_is_taken_back(server, client, how):
    name = "late-" + "-".join(how).lower()
    answer = client.post("/sandbox", {"name": name, "startCommand": "sleep 1000",
                                      "readyWhen": {**how, "timeoutMs": 700}})
    assert (answer.status, answer.error["code"]) == (504, "NOT_READY"), answer
    assert answer.error["details"]["field"] == "readyWhen" and "700 ms" in answer.error["message"]
    assert client.names(include_terminated="true").count(name) == 0
    assert server.inits() == [] and server.traces() == {}
    assert client.create(name)["status"] == "RUNNING", "the name is free"


def test_a_start_command_that_failed_is_not_waited_for(server, client):
    began = time.monotonic()
    answer = client.post("/sandbox", {"startCommand": "exit 7", "readyWhen": {"port": 80, "timeoutMs": 600000}})
    assert answer.error["code"] == "NOT_READY" and "exited with 7" in answer.error["details"]["cause"], answer
    assert time.monotonic() - began < 60 and server.inits() == []


def test_a_start_waits_too(server, client):
    client.create("box", persistent=True, startCommand="test -e /workspace/bad || echo up; exec sleep 1000",
                  readyWhen={"logLine": "up", "timeoutMs": 1500})
    client.sh("box", "touch /workspace/bad")
    assert client.post("/sandbox/box/stop", {"graceMs": 0}).status == 200
    answer = client.post("/sandbox/box/start")
    assert (answer.status, answer.error["code"]) == (504, "NOT_READY"), answer
    assert client.sandbox("box")["status"] == "STOPPED" and server.inits() == []


def test_nobody_waits_with_a_thread(server, client):
    """More that are not ready than the server has threads, and it answers others as before."""
    spec = {"memoryGB": 0.0625, "startCommand": "sleep 1000", "readyWhen": {"logLine": "go", "timeoutMs": 60000}}
    answers = []

    def ask(i):
        one = server.client()
        answers.append(one.post("/sandbox", {**spec, "name": f"w{i}"}))
        one.close()

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(40)]
    for thread in threads:
        thread.start()
    until(lambda: len(client.get("/sandbox", status="PENDING").json()["sandboxes"]) == 40, "all wait", 60, 0.2)
    assert client.create("other")["status"] == "RUNNING"
    for i in range(40):  # who deletes one gives it up
        assert client.delete(f"/sandbox/w{i}").status == 404
    for thread in threads:
        thread.join(60)
    assert {(a.status, a.error["details"]["cause"]) for a in answers} == {(504, "it was deleted meanwhile")}
    assert client.names() == ["other"]


def test_without_waiting(client):
    answer = client.request("POST", "/sandbox", {"name": "slow", "startCommand": "sleep 0.5; echo up; exec sleep 1000",
                                                 "readyWhen": {"logLine": "up"}}, query={"wait": "false"})
    assert answer.status == 202 and answer.json()["status"] == "PENDING"
    until(lambda: client.sandbox("slow")["status"] == "RUNNING", "it is ready", 20, 0.05)
    client.request("POST", "/sandbox", {"name": "never", "startCommand": "sleep 1000",
                                        "readyWhen": {"logLine": "up", "timeoutMs": 300}}, query={"wait": "false"})
    until(lambda: client.sandbox("never")["status"] == "ERROR", "its row tells", 20, 0.05)
    assert "did not write the line" in client.sandbox("never")["statusReason"]


def test_a_server_that_dies_meanwhile_leaves_nothing(fresh):
    server = fresh()
    server.start()
    client = server.client()

    def ask():
        try:
            server.client().post("/sandbox", {"name": "lost", "startCommand": "sleep 1000", "readyWhen": {"port": 9}})
        except OSError:
            pass

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: server.inits(), "it runs", 20, 0.05)
    server.kill("server")
    thread.join(30)
    server.recover()
    until(lambda: not server.inits(), "it is removed", 30, 0.1)
    assert client.names(include_terminated="true") == []


def test_what_makes_no_sense(client):
    for ready, field in (({"port": 0}, "readyWhen.port"), ({"port": 70000}, "readyWhen.port"), ({}, None),
                         ({"logLine": ""}, "readyWhen.logLine"), ({"logLine": "a\nb"}, "readyWhen.logLine"),
                         ({"port": 80, "timeoutMs": 0}, "readyWhen.timeoutMs"), ({"porty": 1}, "readyWhen.porty"),
                         ({"port": 80, "timeoutMs": 10**9}, "readyWhen.timeoutMs"), ("80", "readyWhen")):
        answer = client.post("/sandbox", {"name": "x", "startCommand": "true", "readyWhen": ready})
        if field:
            assert (answer.status, answer.error["details"]["field"]) == (400, field), (ready, answer)
        else:
            assert answer.status == 201, "it says nothing"
    answer = client.post("/sandbox/x/fork", {"readyWhen": {"port": 80}})
    assert (answer.status, answer.error["details"]["field"]) == (400, "readyWhen")
