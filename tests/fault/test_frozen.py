# SPDX-License-Identifier: Apache-2.0
"""A paused sandbox stays paused whoever dies, and a pause that was cut short is no half pause."""
import http.client
import os
import signal
import threading
from pathlib import Path

import pytest

from harness import proc
from harness.wait import stretch, until

ROLES = ("server", "engine", "supervisor", "all")
TALKER = ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"]


def begin(server):
    client = server.client()
    box = client.create("island")
    talker = client.detach("island", TALKER)
    until(lambda: len(client.output("island", talker)) > 20, "it talks")
    return client, box, talker


def goes_on(client, talker):
    """From where it was, without a line lost."""
    before = len(client.output("island", talker))
    until(lambda: len(client.output("island", talker)) > before + 20, "it talks on")
    lines = client.output("island", talker).decode().split("\n")[:-1]
    assert lines == [str(i + 1) for i in range(len(lines))]
    assert client.sh("island", "echo usable") == "usable\n"


def frozen(ident):
    files = [Path(d, f) for d in proc.cgroup_dirs(ident) for f in ("cgroup.freeze", "freezer.state")]
    return [f.read_text().strip() in ("1", "FROZEN") for f in files if f.exists()]


@pytest.mark.parametrize("role", ROLES)
def test_stays_paused(fresh, role):
    server = fresh().start()
    client, box, talker = begin(server)
    assert client.post("/sandbox/island/pause").json()["status"] == "PAUSED"
    said, inits = client.output("island", talker), server.inits()
    server.kill(role)
    server.recover()
    client = server.client()
    after = client.sandbox("island")
    assert (after["id"], after["status"], after["startedAt"]) == (box["id"], "PAUSED", box["startedAt"])
    assert server.inits() == inits and all(frozen(box["id"]))
    assert client.output("island", talker) == said
    assert client.post("/sandbox/island/exec", {"command": ["true"]}).status == 409
    resumed = client.post("/sandbox/island/resume").json()
    assert (resumed["status"], resumed["startedAt"]) == ("RUNNING", box["startedAt"])
    goes_on(client, talker)
    assert client.delete("/sandbox/island").status == 200
    assert server.inits() == [] and server.traces() == {}


@pytest.mark.parametrize("end", ["stop", "delete", "expiry", "down"])
def test_ends_after_a_crash(fresh, end):
    """The engine that finds it paused can end it."""
    server = fresh().start()
    client, _, talker = begin(server)
    if end == "expiry":
        client.create("short", timeoutMs=1500)
        client.post("/sandbox/short/pause")
    client.post("/sandbox/island/pause")
    server.kill("all")
    server.recover()
    client = server.client()
    if end == "stop":
        assert client.post("/sandbox/island/stop", {"graceMs": 3000}).json()["status"] == "STOPPED"
        assert client.execution("island", talker)["status"] == "exited"
        assert client.post("/sandbox/island/start").json()["status"] == "RUNNING"
    elif end == "delete":
        assert client.delete("/sandbox/island").status == 200
    elif end == "expiry":
        until(lambda: client.get("/sandbox/short").status == 404, "its time is over")
        assert client.sandbox("island")["status"] == "PAUSED"
    if end == "down":
        server.stop()
        assert server.down().returncode == 0
        assert server.inits() == []


def crash(server, verb):
    """A request that supervisor, engine and server die of."""
    with pytest.raises((OSError, http.client.HTTPException)):
        server.client(timeout=15).post(f"/sandbox/island/{verb}")
    server.process.wait(stretch(10))
    server.process = None
    server.recover()
    return server.client()


@pytest.mark.parametrize("point, verb", [("pause-frozen", "pause"), ("resume-thawed", "resume")])
def test_cut_short(fresh, point, verb):
    """Either end state, and row and reality agree."""
    server = fresh().start()
    client, box, talker = begin(server)
    if verb == "resume":
        client.post("/sandbox/island/pause")
    server.stop()
    server.start(env={"CAY_CRASH_AT": point})
    client = crash(server, verb)
    until(lambda: client.sandbox("island")["status"] == "RUNNING" and not any(frozen(box["id"])), "it runs", 5)
    goes_on(client, talker)
    assert client.post("/sandbox/island/pause").json()["status"] == "PAUSED" and all(frozen(box["id"]))
    assert client.post("/sandbox/island/resume").json()["status"] == "RUNNING"
    goes_on(client, talker)


def test_resumed_behind_our_back(fresh):
    """What the cgroup says counts when an engine comes up."""
    server = fresh().start()
    client, box, talker = begin(server)
    client.post("/sandbox/island/pause")
    server.kill("engine")
    for d in proc.cgroup_dirs(box["id"]):
        for name, text in (("cgroup.freeze", "0"), ("freezer.state", "THAWED")):
            if os.path.exists(f"{d}/{name}"):
                Path(d, name).write_text(text)
    server.recover()
    client = server.client()
    until(lambda: client.sandbox("island")["status"] == "RUNNING", "the row follows", 40, 0.2)
    goes_on(client, talker)


def test_one_that_does_not_answer_holds_up_nobody(fresh):
    """Callers of a sandbox whose pid 1 is kept from answering leave the server's threads to others."""
    server = fresh().start()
    client = server.client()
    box = client.create("island")
    client.create("other")
    client.sh("other", "true")
    knobs = [Path(d, f) for d in proc.cgroup_dirs(box["id"]) for f in ("cgroup.freeze", "freezer.state")]
    for knob in filter(Path.exists, knobs):
        knob.write_text("1" if knob.name == "cgroup.freeze" else "FROZEN")
    told = []

    def ask():
        told.append(server.client().post("/sandbox/island/exec", {"command": ["true"]}))

    askers = [threading.Thread(target=ask) for _ in range(80)]
    for asker in askers:
        asker.start()
    until(lambda: len(told) >= 40, "most are refused, and soon", 4)
    assert client.sh("other", "echo quick") == "quick\n"
    assert len(told) < 80, "some still wait"
    for asker in askers:
        asker.join()
    assert {a.status for a in told} == {503, 504}
    assert "SANDBOX_BUSY" in {a.error["code"] for a in told}
    for knob in filter(Path.exists, knobs):
        knob.write_text("0" if knob.name == "cgroup.freeze" else "THAWED")
    assert client.sh("island", "echo again") == "again\n"


def test_what_has_begun_is_waited_for(fresh):
    """pid 1 stands still between the beginning of a short command and its end: nobody is told that it failed."""
    server = fresh().start()
    client = server.client()
    ident = client.create("island")["id"]
    init, logs = server.init(ident), Path(server.data, "logs", ident[-1], ident)
    told = []
    for i in range(20):
        ask = {"command": f"echo {i}; exec sleep 0.015"}
        asker = threading.Thread(target=lambda ask=ask: told.append(server.client().post("/sandbox/island/exec", ask)))
        asker.start()
        until(lambda: any(f"\0{i}\n".encode() in f.read_bytes() for f in logs.glob("*.log")), "it runs", 10, 0)
        os.kill(init, signal.SIGSTOP)
        asker.join(1)
        if asker.is_alive():  # else it was quicker than we
            break
    asker.join(6)
    waits = asker.is_alive()
    os.kill(init, signal.SIGCONT)
    asker.join()
    assert waits and told[-1].status == 200 and told[-1].json()["stdout"] == f"{i}\n", told


def test_what_was_given_up_on_never_begins(fresh):
    """504 is as much as: it did not run, and will not. So it may be asked for again, with the same key."""
    server = fresh().start()
    client = server.client()
    ident = client.create("island")["id"]
    init, before = server.init(ident), client.exec("island", ["true"])["id"]
    asks = {how: {"command": f"echo {how} >> ran; exec sleep 1000", **more} for how, more in
            {"awaited": {}, "detached": {"detach": True}, "open": {"openStdin": True}}.items()}
    told = {}

    def ask(how):
        told[how] = server.client().request("POST", "/sandbox/island/exec", asks[how], None, {"Idempotency-Key": how})

    def put():
        told["put"] = server.client().request("PUT", "/sandbox/island/files", b"x", {"path": "put"},
                                              {"Content-Type": "application/octet-stream"})

    os.kill(init, signal.SIGSTOP)
    askers = [threading.Thread(target=ask, args=(how,)) for how in asks] + [threading.Thread(target=put)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    os.kill(init, signal.SIGCONT)
    assert {how: (a.status, a.error["code"]) for how, a in told.items()} == dict.fromkeys(told, (504, "TIMEOUT"))
    for _ in range(3):  # what stood in line comes first
        assert client.sh("island", "ls -A; ps -eo args= | grep '^sleep' || :") == ""
    assert len(client.get("/sandbox/island/exec").json()["executions"]) == 4
    assert client.execution("island", before)["status"] == "exited"
    again = client.request("POST", "/sandbox/island/exec", asks["detached"], None, {"Idempotency-Key": "detached"})
    assert again.status == 202 and "Idempotent-Replayed" not in again.headers, again
    until(lambda: client.sh("island", "cat ran || :") == "detached\n", "it runs, once")


def test_dies_while_paused_and_nobody_is_there(fresh):
    server = fresh().start()
    client, box, _ = begin(server)
    client.post("/sandbox/island/pause")
    pids = server.inits()
    server.kill("all")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(proc.alive(p) for p in pids), "it is dead")
    server.recover()
    told = server.client().sandbox("island")
    assert told["id"] == box["id"] and told["status"] == "ERROR", told
