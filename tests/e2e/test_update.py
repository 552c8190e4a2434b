# SPDX-License-Identifier: Apache-2.0
"""PATCH and extend, and what ends a sandbox nobody wants: leases and idle times."""
import threading
from datetime import datetime, timedelta

from harness.client import Client
from harness.wait import until
from test_limits import knob

MIB = 1 << 20
HOG = "import time; x = bytearray(150 << 20); print('has it', flush=True); time.sleep(600)"


def patch(client, ident, **fields):
    return client.request("PATCH", f"/sandbox/{ident}", fields)


def moment(text):
    return datetime.fromisoformat(text)


def gone(client, ident):
    """Its end, found without naming it: that would be a call."""
    rows = client.get("/sandbox?include_terminated=true&per_page=1000").json()["sandboxes"]
    row = next(r for r in rows if r["id"] == ident)
    return row if row["status"] in ("TERMINATED", "STOPPED") else None


def test_limits_of_a_running_one(server, client):
    box = client.create("box", memoryGB=0.25)
    group = server.group(box["id"])
    first = client.exec("box", ["python3", "-c", "bytearray(400 << 20)"])
    assert first["reason"] == "oom"
    answer = patch(client, "box", memoryGB=0.5, cpuCores=0.5, diskSizeGB=1.5)
    assert answer.status == 200, answer
    assert (answer.json()["memoryGB"], answer.json()["cpuCores"]) == (0.5, 0.5)
    assert knob(group, "memory.limit_in_bytes", "memory.max") == str(512 * MIB)
    assert knob(group, "cpu.cfs_quota_us", "cpu.max").split()[0] == "50000"
    assert client.exec("box", ["python3", "-c", "bytearray(400 << 20)"])["exitCode"] == 0
    stats = client.get("/sandbox/box/stats").json()
    assert stats["memory"]["limitBytes"] == 512 * MIB
    if stats["disk"]["enforcedBy"] != "none":
        assert 1_500_000_000 - 4096 < stats["disk"]["limitBytes"] <= 1_500_000_000, "in whole blocks"
    back = patch(client, "box", memory_gb=0.25)
    assert back.status == 200 and knob(group, "memory.limit_in_bytes", "memory.max") == str(256 * MIB)
    swap = knob(group, "memory.memsw.limit_in_bytes", "memory.swap.max")
    assert swap in ("0", str(256 * MIB))


def test_cores_stand_for_their_memory(server, client):
    group = server.group(client.create("box", memoryGB=0.25)["id"])
    answer = patch(client, "box", resources={"vcpus": 0.5})
    assert answer.status == 200, answer
    assert (answer.json()["cpuCores"], answer.json()["memoryGB"]) == (0.5, 1)
    assert knob(group, "memory.limit_in_bytes", "memory.max") == str(1024 * MIB)
    assert knob(group, "cpu.cfs_quota_us", "cpu.max").split()[0] == "50000"
    answer = patch(client, "box", resources={"vcpus": 1}, memoryGB=0.5)
    assert (answer.json()["cpuCores"], answer.json()["memoryGB"]) == (1, 0.5), answer
    answer = patch(client, "box", cpuCores=2)
    assert (answer.json()["cpuCores"], answer.json()["memoryGB"]) == (2, 0.5), answer


def test_less_than_it_uses_is_refused(server, client):
    box = client.create("box", memoryGB=0.5)
    run = client.post("/sandbox/box/exec", {"command": ["python3", "-c", HOG], "detach": True}).json()
    until(lambda: "has it" in client.get(f"/sandbox/box/exec/{run['id']}/output").body.decode(), "its memory")
    refused = patch(client, "box", memoryGB=0.125, name="other")
    assert (refused.status, refused.error["code"]) == (409, "MEMORY_IN_USE"), refused
    assert any(int(word) > 150 * MIB for word in refused.error["message"].split() if word.isdigit()), refused
    assert client.sandbox("box")["memoryGB"] == 0.5
    assert knob(server.group(box["id"]), "memory.limit_in_bytes", "memory.max") == str(512 * MIB)
    if client.get("/sandbox/box/stats").json()["disk"]["enforcedBy"] != "none":
        client.sh("box", "head -c 200M /dev/zero > big; sync")
        refused = patch(client, "box", diskSizeGB=0.1)
        assert (refused.status, refused.error["code"]) == (409, "DISK_IN_USE"), refused


def test_the_cache_of_files_is_given_back(client):
    client.create("box", memoryGB=0.5)
    client.sh("box", "head -c 200M /dev/zero > /workspace/f; sync; cat /workspace/f > /dev/null")
    assert patch(client, "box", memoryGB=0.125).status == 200
    assert client.sh("box", "echo lives") == "lives\n"


def test_names_environment_and_times(client):
    box = client.create("box", env={"A": "1"}, labels=["old"], tags={"k": "v"})
    client.create("taken")
    assert patch(client, "box", name="taken").error["code"] == "NAME_TAKEN"
    answer = patch(client, "box", name="new-name", environmentVars={"B": "2"}, labels=[], tags={"t": "u"}, timeoutMinutes=90)
    assert answer.status == 200, answer
    told = client.sandbox("new-name")
    assert (told["labels"], told["tags"], told["id"]) == ([], {"t": "u"}, box["id"])
    assert moment(told["expiresAt"]) - moment(told["startedAt"]) == timedelta(minutes=90)
    assert client.sh("new-name", "echo ${A:-none} $B") == "none 2\n"
    assert client.get("/sandbox/box").status == 404
    for body, field in (({"nam": "x"}, "nam"), ({"tags": {str(i): "x" for i in range(6)}}, "tags"),
                        ({"memoryGB": 1e6}, "memoryGB"), ({"idleWhen": ["moon"]}, "idleWhen")):
        answer = client.request("PATCH", "/sandbox/new-name", body)
        assert (answer.status, answer.error["details"]["field"]) == (400, field), answer
    client.delete("/sandbox/new-name")
    assert patch(client, box["id"], name="x").status == 409


def test_a_stopped_one_has_it_at_its_next_start(server, client):
    box = client.create("box", persistent=True, memoryGB=0.25)
    client.post("/sandbox/box/stop", {"graceMs": 0})
    assert patch(client, "box", memoryGB=0.5, cpuCores=2).status == 200
    client.post("/sandbox/box/start")
    assert knob(server.group(box["id"]), "memory.limit_in_bytes", "memory.max") == str(512 * MIB)
    assert client.sh("box", "cd /sys/fs/cgroup; cat memory.max 2>/dev/null || cat memory/memory.limit_in_bytes").strip() == str(512 * MIB)


def test_runtime_chooses_the_image(server, client):
    box = client.create("box", runtime="node20", isolation="default")
    isolation = "docker" if server.docker else "native"
    assert (box["runtime"], box["dockerImage"], box["isolation"]) == ("node20", "node:20-bookworm", isolation)
    assert client.create("same", isolation=isolation)["isolation"] == isolation
    other = client.post("/sandbox", {"isolation": "vm"})
    assert (other.status, other.error["code"], other.error["details"]["field"]) == (422, "ISOLATION_UNAVAILABLE", "isolation")
    assert client.sandbox("box")["runtime"] == "node20"
    missing = client.post("/sandbox", {"runtime": "python3.12"})
    assert (missing.status, missing.error["code"]) == (404, "IMAGE_NOT_FOUND") and "python:3.12" in missing.error["message"]
    named = client.create("named", runtime="python3.13", image="busybox")
    assert named["dockerImage"] == "busybox"


def test_extend(client):
    box = client.create("box", timeoutMs=20000)
    answer = client.post("/sandbox/box/extend", {"timeoutMs": 600000})
    assert answer.status == 200, answer
    later = moment(answer.json()["expiresAt"])
    assert later - moment(box["expiresAt"]) > timedelta(minutes=9)
    assert moment(client.post("/sandbox/box/extend", {"timeout_ms": 1000}).json()["expiresAt"]) == later
    assert client.post("/sandbox/box/extend", {}).status == 400
    assert client.post("/sandbox/box/extend", {"timeoutMs": 86400001}).status == 400
    assert client.post("/sandbox/box/extend", {"leaseSeconds": 60}).json()["leaseSeconds"] == 60


def test_a_lease_lapses(client):
    once = client.create("once", leaseSeconds=1)
    kept = client.create("kept", leaseSeconds=1, persistent=True)
    end = until(lambda: gone(client, once["id"]), "the end", 30)
    assert (end["status"], end["terminationReason"]) == ("TERMINATED", "lease")
    end = until(lambda: gone(client, kept["id"]), "the end", 30)
    assert (end["status"], end["terminationReason"]) == ("STOPPED", "lease")


def test_an_open_call_holds_the_lease(client):
    client.create("box", leaseSeconds=1)
    assert client.sh("box", "sleep 4; echo still here") == "still here\n"
    with client.events("GET", "/sandbox/box/stats", query={"intervalMs": 1000}) as stream:
        names = [event.name for _, event in zip(range(4), stream.events())]
    assert names == ["stats"] * 4


def test_idle(client, server):
    """What does nothing ends; what computes, and what a client waits for, does not."""
    quiet = client.create("quiet", idleTimeoutMs=2000, startCommand="sleep 600")
    busy = client.create("busy", idleTimeoutMs=2000, idleWhen=["cpu"], startCommand="while :; do :; done")
    waited = client.create("waited", idleTimeoutMs=2000, idleWhen=["requests"])
    call = threading.Thread(target=lambda: Client(server.url).sh("waited", "sleep 8; echo done"))
    call.start()
    end = until(lambda: gone(client, quiet["id"]), "the end", 30)
    assert (end["status"], end["terminationReason"]) == ("TERMINATED", "idle")
    assert gone(client, busy["id"]) is None
    assert gone(client, waited["id"]) is None
    call.join()
    end = until(lambda: gone(client, waited["id"]), "the end", 30)
    assert end["terminationReason"] == "idle"
