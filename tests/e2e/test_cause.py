# SPDX-License-Identifier: Apache-2.0
"""Why a command failed and who ended a sandbox: observed, said in words, and kept."""
import os
import re
import signal
from datetime import datetime, timezone

import pytest

from harness import proc
from harness.wait import until

HOG = "bytearray(1 << 30)"
FORKS = """
import os, signal
pids = []
try:
    while True:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        pids.append(pid)
finally:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
"""

CAUSES = {
    "success": ("true", 0, "exited", None, None),
    "failure": ("exit 3", 3, "exited", None, None),
    "signal": (["sh", "-c", "kill -SEGV $$"], 139, "signal", "sh", "sh was ended by signal 11"),
    "own kill": (["sh", "-c", "kill -KILL $$"], 137, "signal", "sh", "sh was ended by signal 9"),
    "memory": (["python3", "-c", HOG], 137, "oom", "python3", "python3 was killed for want of memory"),
    "memory of a child": (f"python3 -c '{HOG}'; exit 5", 5, "oom", "python3", "python3 was killed for want of memory"),
    "memory, and no matter": (f"python3 -c '{HOG}'; true", 0, "exited", None, None),
    "processes": (["python3", "-c", FORKS], 1, "pids", None, "the sandbox had as many processes as it may have"),
    "disk": ("head -c 200M /dev/zero > /workspace/f", 1, "disk", None, "the sandbox's disk is full"),
}


KERNEL_TELLS = os.access("/dev/kmsg", os.R_OK) and os.stat("/dev/kmsg").st_rdev == os.makedev(1, 11)
UNNAMED = (None, "a process was killed for want of memory")


def told(result):
    return tuple(result.get(key) for key in ("exitCode", "reason", "process", "message"))


def cause_of(server, name):
    """The kernel names whom it killed, to those who may read its log, by an id that only the native engine's sandboxes
    have for themselves."""
    command, code, reason, process, message = CAUSES[name]
    if (server.docker or not KERNEL_TELLS) and name == "memory of a child":
        process, message = UNNAMED
    return command, code, reason, process, message


@pytest.mark.parametrize("cause", [pytest.param(c, marks=[pytest.mark.quota] if c == "disk" else []) for c in CAUSES])
def test_cause(server, client, cause):
    """The same in the answer, in a stream and later, from another server, and when the sandbox is gone."""
    command, *want = cause_of(server, cause)
    client.create("box", memoryGB=0.25, diskSizeGB=0.1)
    answer = client.exec("box", command)
    assert told(answer) == tuple(want), answer
    assert told(client.execution("box", answer["id"])) == tuple(want)
    client.exec("box", "rm -f /workspace/f; sync -f /workspace")
    with client.events("POST", "/sandbox/box/exec", {"command": command}) as stream:
        last = list(stream.events())[-1]
    assert last.name == "exit" and told(last.data) == tuple(want), last.data
    ident = client.sandbox("box")["id"]
    client.delete("/sandbox/box")
    assert told(client.execution(ident, answer["id"])) == tuple(want)
    with client.events("GET", f"/sandbox/{ident}/exec/{answer['id']}/output") as stream:
        assert told(list(stream.events())[-1].data) == tuple(want)


def test_what_came_before_is_no_cause(client):
    """A failure is not blamed on what happened to an earlier command that nobody asked about."""
    client.create("box", memoryGB=0.25)
    client.exec("box", f"python3 -c '{HOG}'; true")
    client.exec("box", ["python3", "-c", FORKS + "\n"], timeoutMs=30_000, detach=False)
    assert told(client.exec("box", "exit 1")) == (1, "exited", None, None)
    assert told(client.exec("box", ["sh", "-c", "kill -KILL $$"]))[1] == "signal"


def test_cause_is_known_without_us(fresh):
    """pid 1 counts by itself: what ended while nobody was there has its cause."""
    server = fresh().start()
    client = server.client()
    wait = "import os, time\nwhile not os.path.exists('/tmp/go'): time.sleep(0.01)\n"
    runs = {}
    for name, what in (("oom", HOG), ("pids", FORKS)):
        client.create(name, memoryGB=0.25)
        runs[name] = client.detach(name, ["python3", "-c", wait + what])
        client.detach(name, "sleep 0.5; touch /tmp/go")
    server.kill("all")
    until(lambda: set(server.sandbox_processes()) == set(server.inits()), "all have ended", 30)
    server.recover()
    client = server.client()
    assert {name: client.execution(name, ident)["reason"] for name, ident in runs.items()} == \
        {"oom": "oom", "pids": "pids"}


def hog_as(name):
    """Somebody below a shell, by a name of his own, is killed for want of memory."""
    script = f"import ctypes\nctypes.CDLL(None).prctl(15, {name.encode()!r})\n{HOG}"
    return ["sh", "-c", 'python3 -c "$1"; exit 5', "sh", script]


@pytest.mark.skipif(not KERNEL_TELLS, reason="the host does not let us read the kernel's log")
@pytest.mark.native("the kernel names whom it killed by an id; a container's are everybody's")
def test_each_has_its_own_victim(server, client):
    """Many at once, in many sandboxes, and one after the other in one of them; also after an engine that was killed, as long
    as there is one when it happens. A name is shown as text, whatever it holds."""
    boxes = [client.create(f"box{i}", memoryGB=0.125)["id"] for i in range(4)]
    runs = [(box, f"hog{i}", client.detach(box, hog_as(f"hog{i}"))) for i, box in enumerate(boxes)]
    for box, name, run in runs:
        until(lambda: client.execution(box, run)["status"] == "exited", "it is killed", 30)
        assert client.execution(box, run)["process"] == name
    server.kill("engine")
    server.recover()
    client = server.client()
    names, shown = ["first", ") total-vm:1", "grö \n"], ["first", ") total-vm:1", "gr?? ?"]
    runs = [client.exec("box1", hog_as(name)) for name in names]
    assert [run["process"] for run in runs] == shown
    assert [client.execution("box1", run["id"])["process"] for run in runs] == shown
    server.kill("all")
    server.recover()
    client = server.client()
    assert [client.execution("box1", run["id"])["process"] for run in runs] == shown, "it is on the disk"


# ---- the sandbox ----

def ending(client, ident):
    told = client.sandbox(ident)
    return told["status"], told["terminationReason"], told["termination"]


def test_stopped_by_account(client, box):
    client.sh("box", ["python3", "-c", "sum(range(3000000))"])
    client.post("/sandbox/box/stop", {"graceMs": 500})
    status, reason, termination = ending(client, "box")
    assert (status, reason, termination["message"]) == ("STOPPED", "stopped", "stopped by account local")
    assert termination["peakBytes"] > 1 << 20 and termination["cpuMs"] > 10
    client.delete("/sandbox/box")
    status, reason, after = ending(client, box["id"])
    assert (status, reason) == ("TERMINATED", "deleted") and after["peakBytes"] == termination["peakBytes"]
    assert after["message"] == "deleted by account local; it had ended before: stopped by account local"


def test_deleted_by_account(client, box):
    client.sh("box", ["python3", "-c", "sum(range(3000000))"])
    client.delete("/sandbox/box")
    status, reason, termination = ending(client, box["id"])
    assert (status, reason, termination["message"]) == ("TERMINATED", "deleted", "deleted by account local")
    assert termination["peakBytes"] > 1 << 20 and termination["cpuMs"] > 10


def test_by_expiry(client):
    ident = client.create("short", timeoutMs=200)["id"]
    until(lambda: client.sandbox(ident)["status"] == "TERMINATED", "its time is over")
    assert ending(client, ident)[1] == "timeout" and ending(client, ident)[2]["message"] == "deleted by expiry"
    ident = client.create("kept", timeoutMs=200, persistent=True)["id"]
    until(lambda: client.sandbox(ident)["status"] == "STOPPED", "its time is over")
    assert ending(client, ident)[2]["message"] == "stopped by expiry"


@pytest.mark.parametrize("cause", [pytest.param(c, marks=[pytest.mark.quota] if c == "disk" else []) for c in CAUSES])
def test_by_its_start_commands_end(server, client, cause):
    """The row says what the execution says."""
    command, code, reason, _, message = cause_of(server, cause)
    ident = client.create("job", startCommand=command, stopWhenStartEnds=True, memoryGB=0.25, diskSizeGB=0.1)["id"]
    until(lambda: client.sandbox(ident)["status"] == "STOPPED", "it ends with its start command", 30)
    _, told, termination = ending(client, ident)
    assert (told, termination["exitCode"], termination.get("signal")) == (reason, code, code - 128 if code > 128 else None)
    assert termination["message"] == "stopped by its start command's end" + (f": {message}" if message else "")
    assert termination["peakBytes"] > 0 and termination["cpuMs"] > 0


def test_an_end_keeps_its_cause(client):
    """What takes it away later is told beside it."""
    ident = client.create("job", startCommand=["python3", "-c", HOG], stopWhenStartEnds=True, memoryGB=0.125)["id"]
    row = until(lambda: (row := client.sandbox(ident))["status"] == "STOPPED" and row, "it ends with its start command")
    before = row["termination"]
    assert before["kind"] == "oom" and before["removedBy"] is None
    ran_ms = (datetime.now(timezone.utc) - datetime.fromisoformat(row["startedAt"])).total_seconds() * 1000
    assert client.request("PATCH", f"/sandbox/{ident}", {"timeoutMs": int(ran_ms) + 1000}).status == 200
    until(lambda: client.sandbox(ident)["status"] == "TERMINATED", "its time is over")
    _, reason, after = ending(client, ident)
    assert reason == "oom" and after == before | {
        "removedBy": "timeout", "message": f"deleted by expiry; it had ended before: {before['message']}"}
    assert "python3" in after["message"]


def crash(pid):
    """Puts an illegal instruction where the process goes on; it meets it at its next event."""
    at = int(until(lambda: re.search(r"0x\w+$", proc.text(pid, "syscall").strip()), "it waits")[0], 16)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(at)
        memory.write(b"\x0f\x0b")


@pytest.mark.parametrize("how, reason, sig, words", [
    ("killed", "signal", signal.SIGKILL, "killed from outside"),
    ("crashed", "error", signal.SIGILL, "engine fault")])
def test_first_process_dies(server, client, box, how, reason, sig, words):
    pid = server.init(box["id"])
    if how == "killed":
        os.kill(pid, sig)
    else:
        if os.uname().machine != "x86_64":
            pytest.skip("the instruction is another one here")
        crash(pid)
        client.post("/sandbox/box/exec", {"command": ["true"]})
    until(lambda: client.sandbox("box")["status"] == "ERROR", "its death is told")
    told = client.sandbox("box")
    assert told["terminationReason"] == reason and told["termination"]["signal"] == sig
    assert words in told["termination"]["message"] and words in told["statusReason"]
    assert told["termination"]["peakBytes"] > 0 or server.docker, "a runtime takes a dead container's counts away"
    client.delete("/sandbox/box")
    after = client.sandbox(box["id"])["termination"]
    assert words in after["message"] and after["message"].startswith("deleted by account local")
