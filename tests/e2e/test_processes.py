# SPDX-License-Identifier: Apache-2.0
"""Who runs in a sandbox: listed with the execution that began them, signalled, never out of reach of the rest."""
import os
import signal
import subprocess

import pytest

from harness.server import CAY
from harness.wait import until


def processes(client, name="box"):
    answer = client.get(f"/sandbox/{name}/processes")
    assert answer.status == 200, answer
    return answer.json()["processes"]


def find(client, command, name="box", **having):
    """The process with that command line, once it is there and so."""
    wanted = {"command": command, **having}
    return until(lambda: next((p for p in processes(client, name) if wanted.items() <= p.items()), None), f"{wanted}")


def kill(client, pid, name="box", **body):
    return client.post(f"/sandbox/{name}/processes/{pid}/kill", body)


def test_listed_with_the_execution_that_began_them(client, box):
    eid = client.detach("box", "sleep 601 & sleep 602")
    child, shell = find(client, "sleep 601", state="S"), find(client, "/bin/sh -c sleep 601 & sleep 602")
    assert child["parent"] == shell["pid"]
    assert child["executionId"] == shell["executionId"] == eid
    assert (child["user"], child["uid"], child["threads"]) == ("user", 1000, 1)
    assert child["memoryBytes"] > 0 and child["cpuMs"] >= 0 and child["startedAt"].endswith("Z")
    first = processes(client)[0]
    assert (first["pid"], first["parent"], first["executionId"]) == (1, 0, None)
    assert not [p for p in processes(client) if p["command"].startswith("cay-file")]


def test_children_outlive_their_execution_and_are_told_apart(client, box):
    ended = client.exec("box", "setsid sleep 603 >/dev/null 2>&1 & echo done")
    assert find(client, "sleep 603")["executionId"] == ended["id"]
    second = client.exec("box", "setsid sleep 604 >/dev/null 2>&1 & echo done", env={"CAY_EXECUTION_ID": "exec_0"})
    assert find(client, "sleep 604")["executionId"] == second["id"] != ended["id"]


def test_of_other_users(client, box):
    eid = client.detach("box", ["sleep", "605"], user="root")
    odd = client.detach("box", ["sleep", "606"], user="4321")
    root, nobody = find(client, "sleep 605"), find(client, "sleep 606")
    assert (root["user"], root["executionId"]) == ("root", eid)
    assert (nobody["user"], nobody["uid"], nobody["executionId"]) == ("4321", 4321, odd)
    for process in (root, nobody):
        assert kill(client, process["pid"]).status == 200
    until(lambda: client.execution("box", eid)["status"] == "exited", "the end of root's")


def test_nothing_is_told_where_nothing_can_be(client, box):
    client.detach("box", ["env", "-i", "/bin/sleep", "607"])
    assert find(client, "/bin/sleep 607")["executionId"] is None


def test_cpu_is_counted(client, box):
    client.detach("box", ["sh", "-c", "while :; do :; done"])
    busy = until(lambda: [p for p in processes(client) if p["cpuMs"] >= 200], "time on the processor")
    assert busy[0]["command"] == "sh -c while :; do :; done" and busy[0]["cpuPercent"] > 0
    assert kill(client, busy[0]["pid"], signal="SIGKILL").status == 200


def test_signals(client, box):
    eid = client.detach("box", "trap 'echo caught' USR1; echo ready; while :; do sleep 0.1; done")
    until(lambda: b"ready" in client.output("box", eid), "a shell that listens")
    pid = next(p["pid"] for p in processes(client) if p["executionId"] == eid and p["command"].startswith("/bin/sh"))
    answer = kill(client, pid, signal="USR1")
    assert (answer.status, answer.json()) == (200, {"pid": pid, "signal": int(signal.SIGUSR1)})
    until(lambda: b"caught" in client.output("box", eid), "the trap")
    assert kill(client, pid).json()["signal"] == int(signal.SIGTERM)
    gone = until(lambda: (e := client.execution("box", eid))["status"] == "exited" and e, "its end")
    assert (gone["exitCode"], gone["reason"]) == (143, "signal")
    answer = kill(client, pid)
    assert (answer.status, answer.error["code"]) == (404, "PROCESS_NOT_FOUND")


REFUSED = [
    ("pid 1", 1, {}, 400, "VALIDATION_ERROR", "pid"),
    ("everybody", 0, {}, 400, "VALIDATION_ERROR", "pid"),
    ("a group", "-5", {}, 400, "VALIDATION_ERROR", "pid"),
    ("a word", "self", {}, 400, "VALIDATION_ERROR", "pid"),
    ("no such signal", 2, {"signal": "SIGNOT"}, 400, "VALIDATION_ERROR", "signal"),
    ("signal 0", 2, {"signal": 0}, 400, "VALIDATION_ERROR", "signal"),
    ("nobody", 4000000, {}, 404, "PROCESS_NOT_FOUND", None),
]


@pytest.mark.parametrize("pid,body,status,code,field", [c[1:] for c in REFUSED], ids=[c[0] for c in REFUSED])
def test_refused(client, box, pid, body, status, code, field):
    answer = kill(client, pid, **body)
    assert (answer.status, answer.error["code"]) == (status, code)
    assert answer.error["details"].get("field") == field
    assert client.exec("box", "echo alive")["stdout"] == "alive\n"


def test_nobody_outside_is_seen_or_reached(client, box):
    client.create("other")
    client.detach("other", ["sleep", "608"])
    find(client, "sleep 608", "other")
    assert not [p for p in processes(client) if "608" in p["command"]]
    answer = kill(client, os.getpid())  # a number of the host's
    assert (answer.status, answer.error["code"]) == (404, "PROCESS_NOT_FOUND")


def test_of_a_sandbox_that_does_not_run(client, box):
    assert client.get("/sandbox/none/processes").status == 404
    client.post("/sandbox/box/stop", {"graceMs": 0})
    answer = client.get("/sandbox/box/processes")
    assert (answer.status, answer.error["code"]) == (409, "SANDBOX_NOT_RUNNING")


def test_a_passwd_that_is_a_pipe_holds_up_nobody(client, box):
    client.exec("box", "rm /etc/passwd && mkfifo /etc/passwd", user="root")
    client.detach("box", ["sleep", "609"], user="1000")
    assert find(client, "sleep 609")["user"] == "1000"


def test_top(server, client, box):
    eid = client.detach("box", ["sleep", "610"])
    process = find(client, "sleep 610")
    done = subprocess.run([CAY, "top", "box"], capture_output=True, text=True, timeout=30,
                          env={**os.environ, "CAY_URL": server.url})
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [line for line in lines if line[0] == str(process["pid"])][0][-2:] == [eid, "sleep 610"]
