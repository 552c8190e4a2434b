# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each part with sandboxes and commands running: all of it is there afterwards, and true."""
import os
import resource
import signal
import subprocess
import time
from contextlib import contextmanager

import pytest

from fault.test_store import failing, needs_strace
from harness import numbered, proc
from harness.berths import waiting
from harness.numbered import lines
from harness.wait import stretch, until

ROLES = ("server", "engine", "supervisor", "all")
COUNT = int(os.environ.get("CAY_FAULT_SANDBOXES", "50"))


def ended(client, sandbox, ident, timeout=20):
    return until(lambda: (e := client.execution(sandbox, ident))["status"] != "running" and e, "it ends", timeout, 0.05)


@pytest.mark.parametrize("role", ROLES)
def test_commands_go_on(fresh, role):
    """F-04: output complete, exit code true, uptime unbroken."""
    server = fresh().start()
    client = server.client()
    before = client.create("island", startCommand="echo up; while :; do sleep 1; done", labels=["kept"])
    began = time.monotonic()
    ident = client.detach("island", numbered.script(50, 0.1, 6))
    until(lambda: client.output("island", ident).count(b"\n") >= 6, "it has begun")
    inits = server.inits()

    server.kill(role)
    server.recover()

    client = server.client()
    elapsed_ms = (time.monotonic() - began) * 1000
    after = client.sandbox("island")
    assert (after["id"], after["status"], after["startedAt"], after["labels"]) == \
        (before["id"], "RUNNING", before["startedAt"], ["kept"])
    assert after["uptimeMs"] >= elapsed_ms - 20 and server.inits() == inits
    told = ended(client, "island", ident)
    assert (told["status"], told["exitCode"], told["reason"]) == ("exited", 6, "exited"), told
    assert client.output("island", ident) == lines(50)
    assert client.get("/sandbox/island/logs").json()["logs"] == "up\n"
    assert client.sh("island", "echo usable") == "usable\n"
    stopped = client.post("/sandbox/island/stop", {"graceMs": 500}).json()
    assert stopped["status"] == "STOPPED"
    assert client.post("/sandbox/island/start").json()["status"] == "RUNNING"
    assert client.delete("/sandbox/island").status == 200
    assert server.inits() == [] and server.traces() == {}


@pytest.mark.parametrize("role", ROLES)
def test_reader_resumes(fresh, role):
    server = fresh().start()
    client = server.client()
    client.create("island")
    ident = client.detach("island", numbered.script(30, 0.1, 6))
    path, got, last = f"/sandbox/island/exec/{ident}/output", b"", None
    stream = client.events("GET", path, query={"follow": "true"})
    for event in stream.events():
        got, last = got + event.bytes(), event.id
        if got.count(b"\n") >= 5:
            break
    server.kill(role)
    stream.close()
    server.recover()
    with server.client().events("GET", path, query={"follow": "true"}, headers={"Last-Event-ID": last}) as stream:
        for event in stream.events():
            if event.name == "stdout":
                got += event.bytes()
    assert event.name == "exit" and event.data["exitCode"] == 6 and got == lines(30)


def test_ends_while_nobody_is_there(fresh):
    """Exit, signal, timeout and OOM happen while server and engine are dead."""
    server = fresh().start()
    client = server.client()
    client.create("island", memoryGB=0.125)
    hog = "import time; time.sleep(0.8); b = bytearray(600 << 20)"
    runs = {
        "exit": client.detach("island", "sleep 0.8; echo done; exit 9"),
        "signal": client.detach("island", "sleep 0.8; kill -9 $$"),
        "timeout": client.detach("island", ["sleep", "60"], timeoutMs=1000),
    }
    server.kill("all")
    until(lambda: server.sandbox_processes() == server.inits(), "all have ended")
    server.recover()
    client = server.client()
    told = {name: ended(client, "island", ident) for name, ident in runs.items()}
    assert {name: (e["status"], e["exitCode"], e["reason"]) for name, e in told.items()} == {
        "exit": ("exited", 9, "exited"), "signal": ("exited", 137, "signal"), "timeout": ("exited", 143, "timeout")}
    assert client.output("island", runs["exit"]) == b"done\n"

    killed = client.detach("island", ["python3", "-c", hog])
    server.kill("all")
    until(lambda: server.sandbox_processes() == server.inits(), "it has ended")
    server.recover()
    told = ended(server.client(), "island", killed)
    assert told["exitCode"] == 137 and told["reason"] in ("oom", "signal"), told


def test_sandbox_dies_while_nobody_is_there(fresh):
    """A pid 1 that is gone is told as such, and never as running."""
    server = fresh().start()
    client = server.client()
    client.create("gone")
    client.create("stays")
    ident = client.detach("gone", "echo begun; sleep 1000")
    until(lambda: client.output("gone", ident) == b"begun\n", "it has begun")
    victim = client.sandbox("gone")["id"]
    pids = {pid for pid in server.inits() if victim in open(f"/proc/{pid}/cgroup").read()}
    assert len(pids) == 1, "the cgroup of a sandbox carries its id"
    server.kill("all")
    os.kill(pids.pop(), 9)
    server.recover()
    client = server.client()
    row = client.get(f"/sandbox/{victim}").json()
    assert row["status"] in ("STOPPED", "ERROR", "TERMINATED"), row
    told = client.execution(victim, ident)
    assert told["status"] in ("lost", "exited") and told["exitCode"] != 0, told
    assert client.sandbox("stays")["status"] == "RUNNING" and client.sh("stays", "echo hi") == "hi\n"


@pytest.mark.limit(120)
def test_many_are_adopted(fresh):
    """F-05."""
    server = fresh().start()
    client = server.client()
    runs = {}
    for i in range(COUNT):
        client.create(f"box-{i}")
        runs[f"box-{i}"] = client.detach(f"box-{i}", f"sleep 4; echo {i}; exit {i % 100}")
    before = {s["name"]: s for s in client.get("/sandbox", per_page=1000).json()["sandboxes"]}
    inits = sorted(server.inits())
    assert len(inits) == COUNT
    server.kill("all")
    began = time.monotonic()
    server.recover()
    assert time.monotonic() - began < stretch(5)
    client = server.client()
    after = {s["name"]: s for s in client.get("/sandbox", per_page=1000).json()["sandboxes"]}
    assert sorted(server.inits()) == inits
    assert {n: (s["id"], s["status"], s["startedAt"]) for n, s in after.items()} == \
        {n: (s["id"], "RUNNING", s["startedAt"]) for n, s in before.items()}
    for i, (name, ident) in enumerate(runs.items()):
        told = ended(client, name, ident, 30)
        assert told["exitCode"] == i % 100 and client.output(name, ident) == f"{i}\n".encode(), (name, told)


def test_again_and_again(fresh):
    server = fresh().start()
    server.client().create("island")
    ident = server.client().detach("island", numbered.script(60, 0.1, 6))
    for i, role in enumerate(("server", "engine", "server", "all", "engine", "supervisor")):
        until(lambda: server.client().output("island", ident).count(b"\n") > 3 * i, "it has gone on")
        server.kill(role)
        server.recover()
    client = server.client()
    assert ended(client, "island", ident)["exitCode"] == 6
    assert client.output("island", ident) == lines(60)
    assert len(server.inits()) == 1


def test_requests_during_a_kill_are_errors_not_lies(fresh):
    """The engine dies while it is asked: an error or a sandbox, and nothing left of the failed."""
    server = fresh().start()
    client = server.client()
    outcome = {}
    for i in range(12):
        if i % 4 == 1:
            server.kill("engine")
        answer = client.post("/sandbox", {"name": f"try-{i}"})
        outcome[f"try-{i}"] = answer.status
        assert answer.status in (201, 500, 502, 503, 504), answer
    server.recover()
    made = sorted(name for name, status in outcome.items() if status == 201)
    assert made, outcome
    until(lambda: sorted(client.names(status="RUNNING")) == made, "rows are what was answered", 10)
    until(lambda: len(server.inits()) == len(made), "no more sandboxes than rows", 70)
    for name in made:
        assert client.sh(name, "echo hi") == "hi\n"


@pytest.fixture
def damaged(fresh):
    """A server whose engine cannot read what it wrote of a sandbox: the server, its id, the record, what was in it."""
    server = fresh().start()
    ident = server.client().create("island")["id"]
    record = os.path.join(server.data, "engine", "records", ident)
    with open(record, "rb") as f:
        whole = f.read()
    with open(record, "ab") as f:
        f.write(b"\n")
    server.kill("all")
    server.recover()
    return server, ident, record, whole


def test_a_damaged_record_is_no_missing_one(damaged):
    """What cannot be read is left alone: its sandbox lives on, and its row does."""
    server, ident, record, whole = damaged
    client, inits = server.client(), server.inits()
    assert len(inits) == 1
    assert client.get("/sandbox/island").json()["status"] == "RUNNING"
    answer = client.post("/sandbox/island/exec", {"command": ["true"]})
    assert answer.status in (500, 502) and "cannot look at this sandbox" in answer.json()["error"]["message"], answer
    with open(record, "wb") as f:
        f.write(whole)
    server.kill("engine")
    server.recover()
    assert server.inits() == inits
    assert server.client().sh("island", "echo hi") == "hi\n"


def test_what_cannot_be_looked_at_can_be_deleted(damaged):
    """And the file of its record, which another gets, is as good as new."""
    server, ident, _, _ = damaged
    client = server.client()
    assert client.delete("/sandbox/island").status in (200, 204)
    assert server.inits() == [] and ident not in server.traces()
    names = [client.create(f"next-{i}")["name"] for i in range(3)]
    server.kill("engine")
    server.recover()
    assert [server.client().sh(name, "echo hi") for name in names] == ["hi\n"] * 3


def children(pid, name):
    out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [p for p in map(int, out.split()) if proc.text(p, "comm").strip() == name]


def test_spawners_and_berths_die(fresh):
    """Each is replaced, whatever the engine was doing, and creates go on."""
    server = fresh().start()
    client = server.client()
    client.create("island")
    engine = server.pid("engine")
    for name in ("cay-spawn", "cay-berths", "cay-spawn"):
        before = children(engine, name)
        assert before
        os.kill(engine, signal.SIGSTOP)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        os.kill(engine, signal.SIGCONT)
        until(lambda: len(now := children(engine, name)) == len(before) and not set(now) & set(before), "new ones")
        made = until(lambda: (a := client.post("/sandbox", {})).status == 201 and a.json(), "a create succeeds", 10)
        assert client.sh(made["id"], "echo hi") == "hi\n"
    assert server.pid("engine") == engine


def test_a_filler_that_dies_after_others(fresh):
    """Then deaths are heard before the end of what the dead one spoke through; and where it was hardly there, no other has
    taken its place by then."""
    server = fresh().start()
    engine = server.pid("engine")
    for _ in range(3):  # the second one at the latest is young
        filler, = until(lambda: children(engine, "cay-berths"), "a filler")
        spawner = until(lambda: children(engine, "cay-spawn"), "spawners")[0]
        os.kill(engine, signal.SIGSTOP)
        until(lambda: proc.state(engine) == "T", "it stands still")
        for pid in (spawner, filler):
            os.kill(pid, signal.SIGKILL)
            until(lambda: proc.state(pid) == "Z", "it is dead")
        os.kill(engine, signal.SIGCONT)
        until(lambda: filler not in children(engine, "cay-berths"), "that is noticed")
    made = until(lambda: (a := server.client().post("/sandbox", {})).status == 201 and a.json(), "a create succeeds", 10)
    assert server.client().sh(made["id"], "echo hi") == "hi\n"
    assert server.pid("engine") == engine


def limit_files(pid, *to):
    """What it was. One who makes user namespaces is somebody else at moments, whom not every root may limit."""
    def tried():
        try:
            return resource.prlimit(pid, resource.RLIMIT_NOFILE, *to)
        except PermissionError:
            return None
    return until(tried, "it is itself again", 10, 0.001)


def test_berths_that_cannot_be_made_are_asked_for_again(fresh):
    """A host that has no descriptors for a while."""
    server = fresh().start()
    client = server.client()
    engine = server.pid("engine")
    until(lambda: client.post("/sandbox", {}).status == 201, "berths are ready")
    filler, = children(engine, "cay-berths")
    soft, hard = limit_files(filler)
    limit_files(filler, (3, hard))
    until(lambda: client.post("/sandbox", {}).status != 201, "none is left", 60)
    limit_files(filler, (soft, hard))
    for _ in range(30):  # more than are kept
        until(lambda: client.post("/sandbox", {}).status == 201, "they are made again", 10)
    assert server.pid("engine") == engine and children(engine, "cay-berths") == [filler]


def test_hulls_die(fresh):
    """First processes that wait for their sandbox may be killed, by the host that runs out of memory for one."""
    server = fresh().start()
    client = server.client()
    engine, hulls = server.pid("engine"), waiting(server)
    for pid in hulls:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not set(hulls) & set(children(engine, "cay-hull")), "they are gone")
    for i in range(len(hulls) + 2):
        assert client.sh(client.create(f"b{i}")["id"], "echo hi") == "hi\n"
    assert server.pid("engine") == engine


@contextmanager
def no_more_hulls(server):
    """Those that wait, and nobody makes another ahead."""
    filler, = children(server.pid("engine"), "cay-berths")
    hulls = waiting(server)
    os.kill(filler, signal.SIGSTOP)
    try:
        yield children(server.pid("engine"), "cay-hull") if hulls else []
    finally:
        os.kill(filler, signal.SIGCONT)


def killed(log):
    """How many strace saw killed."""
    with open(log, encoding="ascii", errors="replace") as f:
        return f.read().count("+++ killed by SIGKILL")


# Its order is in its hands; it is in its cgroups and on record; it is about to become cay-init.
MOMENTS = ("sethostname", "unshare", "execveat")


@needs_strace
@pytest.mark.parametrize("moment", MOMENTS)
def test_another_comes_up_for_one_that_was_killed(fresh, tmp_path, moment):
    """With its order in hand as well: whoever asked for a sandbox, or to start one, does not hear of it."""
    server = fresh().start()
    client = server.client()
    log = tmp_path / "killed"
    if not waiting(server):
        pytest.skip("none is made ahead here")
    for name in ("source", "stopped", "volume"):
        client.create(name)
        client.sh(name, f"echo {name} > f")
    volume = client.delete("/sandbox/volume", preserveVolume="true").json()["volumeId"]
    assert client.post("/sandbox/stopped/stop").status == 200
    asks = {
        "": lambda: client.create("made"),
        "source\n": lambda: client.fork("source", "forked"),
        "volume\n": lambda: client.create("housed", volume=volume),
        "stopped\n": lambda: client.post("/sandbox/stopped/start").json(),
    }
    for files, ask in asks.items():
        with no_more_hulls(server) as hulls, failing(hulls, moment, "signal=SIGKILL", log):
            made = ask()
        assert killed(log) == 1, files
        assert client.sh(made["id"], "cat f || :") == files
    assert len(server.inits()) == len(client.names(status="RUNNING")) == 1 + len(asks)


@needs_strace
def test_another_comes_up_once(fresh, tmp_path):
    """When that is killed too, whoever asked is told, and nothing is left."""
    server = fresh().start()
    client = server.client()
    engine, log = server.pid("engine"), tmp_path / "killed"
    with no_more_hulls(server) as hulls, \
            failing(hulls + children(engine, "cay-spawn"), "execveat", "signal=SIGKILL", log):
        answer = client.post("/sandbox", {"name": "unlucky"})
    assert answer.status == 502 and "died in its set-up" in str(answer.error), answer
    assert killed(log) == 2
    until(lambda: server.traces() == {} and server.inits() == [], "nothing is left")
    assert client.names(include_terminated="true") == []
    assert client.sh(client.create("unlucky")["id"], "echo hi") == "hi\n"
    assert server.pid("engine") == engine
