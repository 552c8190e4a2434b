# SPDX-License-Identifier: Apache-2.0
"""Create, list, get, start, stop, delete."""
import os
import re
import threading
import time
from datetime import datetime

import pytest

from harness.wait import stretch, until

ID = re.compile(r"^sb-[a-z0-9]{20}$")
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")

# What document 003 shows, and what a create with only a name must answer for it.
DEFAULTS = {
    "dockerImage": "node:20-bookworm", "cpuCores": 1, "memoryGB": 2, "diskSizeGB": 10, "gpuCount": 0,
    "networkAccess": True, "timeoutMinutes": 60, "environmentVars": {}, "labels": [], "status": "RUNNING",
}


def test_create_with_only_a_name(client):
    sandbox = client.create("only-a-name")
    assert ID.match(sandbox["id"])
    assert sandbox["name"] == "only-a-name"
    assert {k: sandbox[k] for k in DEFAULTS} == DEFAULTS
    assert TIME.match(sandbox["createdAt"]) and TIME.match(sandbox["startedAt"])
    assert sandbox["sandboxId"] == sandbox["id"]
    assert sandbox["networkEnforced"] is not None
    life = datetime.fromisoformat(sandbox["expiresAt"]) - datetime.fromisoformat(sandbox["createdAt"])
    assert abs(life.total_seconds() - 3600) < 5


def test_create_without_anything_makes_up_a_name(client):
    answer = client.post("/sandbox")
    assert answer.status == 201, answer
    assert re.match(r"^[a-z0-9][a-z0-9-]{0,62}$", answer.json()["name"])


def test_create_with_every_field(client):
    spec = {
        "name": "every-field", "dockerImage": "node:20-bookworm", "startCommand": "echo started; sleep 1000",
        "cpuCores": 0.5, "memoryGB": 0.25, "diskSizeGB": 1, "gpuCount": 0, "networkAccess": False,
        "timeoutMinutes": 5, "environmentVars": {"FOO": "bar", "EMPTY": ""}, "labels": ["dev", "test"],
    }
    sandbox = client.create(**spec)
    assert {k: sandbox[k] for k in spec} == spec
    assert client.sh(sandbox["id"], 'echo "$FOO|${EMPTY-unset}|"') == "bar||\n"
    until(lambda: "started" in client.get(f"/sandbox/{sandbox['id']}/logs").json()["logs"], "the start command's output")


def test_create_accepts_snake_case(client):
    sandbox = client.create("snake", docker_image="node:20-bookworm", cpu_cores=2, memory_gb=1, timeout_minutes=1,
                            environment_vars={"A": "1"}, network_access=False)
    assert (sandbox["cpuCores"], sandbox["memoryGB"], sandbox["timeoutMinutes"]) == (2, 1, 1)
    assert sandbox["environmentVars"] == {"A": "1"} and sandbox["networkAccess"] is False


def test_memory_follows_the_cores_when_absent(client):
    assert client.create("two-cores", resources={"vcpus": 2})["memoryGB"] == 4


def test_cores_whose_memory_the_host_has_not(client):
    """What stands for both is given whole or refused with the bound; cores alone are a cap."""
    answer = client.post("/sandbox", {"resources": {"vcpus": 64}})
    total_mib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    if total_mib * 85 // 100 >= 64 * 2048:
        pytest.skip("this host has memory for 64 of them")
    assert (answer.status, answer.error["code"]) == (400, "VALIDATION_ERROR"), answer
    assert answer.error["details"]["field"] == "resources.vcpus"
    most_mib, most = re.search(r"has ([0-9]+) MiB for sandboxes: at most ([0-9.]+)$", answer.error["message"]).groups()
    assert 0 <= int(most_mib) / 2048 - float(most) < 0.1
    largest = client.create("largest", resources={"vcpus": float(most)})
    assert (largest["cpuCores"], largest["memoryGB"]) == (float(most), pytest.approx(float(most) * 2))
    cap = client.create("cap", cpuCores=64)
    assert cap["cpuCores"] == 64 and cap["memoryGB"] * 1024 == pytest.approx(int(most_mib), abs=1)
    assert client.create("named", resources={"vcpus": 64}, memoryGB=0.25)["memoryGB"] == 0.25


@pytest.mark.native("Docker does not tell how much room there is")
def test_what_the_host_cannot_give(server, client):
    st = os.statvfs(server.data)
    total_gb = st.f_blocks * st.f_frsize / 1e9
    image = os.path.join(server.data, "engine", "disk.img")
    room_gb = st.f_bavail * st.f_frsize / 1e9
    if os.path.exists(image):  # it grows to four fifths of what both have
        room_gb = (room_gb + os.path.getsize(image) / 1e9) * 4 / 5
    answer = client.post("/sandbox", {"diskSizeGB": total_gb * 2})
    assert answer.status == 400 and answer.error["details"]["field"] == "diskSizeGB", answer
    bound = float(re.search(r"to the ([0-9.]+) that this host can give", answer.error["message"])[1])
    assert 0.1 <= bound <= room_gb + 0.1
    answer = client.post("/sandbox", {"resources": {"vcpus": 64}, "memoryGB": 100000})
    assert answer.status == 400 and answer.error["details"]["field"] == "memoryGB", answer
    total_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most_mib = int(re.search(r"this host's ([0-9]+) MiB for sandboxes", answer.error["message"])[1])
    assert total_bytes * 84 // 100 >> 20 <= most_mib <= total_bytes * 85 // 100 >> 20
    answer = client.post("/sandbox", {"memoryGB": (most_mib + 1) / 1024})
    assert answer.status == 400, "what all together cannot have"
    assert client.create("largest", memoryGB=most_mib / 1024)["memoryGB"] == pytest.approx(most_mib / 1024)
    client.delete("/sandbox/largest")
    for count in (1, 1025, 1 << 40):
        answer = client.post("/sandbox", {"gpuCount": count})
        assert answer.status == 400 and answer.error["code"] == "GPU_UNAVAILABLE", answer
    assert client.names() == []


def test_no_expiry(client):
    assert client.create("for-ever", timeoutMinutes=0).get("expiresAt") is None


def test_get_by_id_and_by_name(client, box):
    by_id, by_name = client.sandbox(box["id"]), client.sandbox("box")
    assert by_id["id"] == by_name["id"] == box["id"]
    assert by_id["status"] == "RUNNING"
    assert by_id["uptimeMs"] >= 0
    before = by_id["uptimeMs"]
    until(lambda: client.sandbox("box")["uptimeMs"] > before, "uptime grows")
    assert by_id["links"]["logs"].endswith(f"/sandbox/{box['id']}/logs")


def test_get_tells_use_and_limits(client, box):
    client.sh("box", "head -c 30000000 /dev/zero | tail -c 1; :")
    usage = client.sandbox("box")["usage"]
    assert usage["cpu"]["usageMs"] > 0 and usage["cpu"]["limitCores"] == 1
    assert 0 < usage["memory"]["bytes"] <= usage["memory"]["peakBytes"] < usage["memory"]["limitBytes"] == 2 << 30
    assert 1 <= usage["pids"]["now"] < usage["pids"]["limit"] == 512


def test_unknown_id_is_404(client):
    for ident in ("sb-00000000000000000000", "nobody"):
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/start"), ("POST", "/stop"), ("GET", "/logs"),
                             ("GET", "/exec"), ("POST", "/exec"), ("GET", "/exec/exec_0000000000000000"),
                             ("GET", "/exec/exec_0000000000000000/output"),
                             ("POST", "/exec/exec_0000000000000000/kill")):
            body = {"command": ["true"]} if (method, path) == ("POST", "/exec") else None
            answer = client.request(method, f"/sandbox/{ident}{path}", body)
            assert answer.status == 404, (method, path, answer)
            assert answer.error["message"] == answer.json()["detail"] == "sandbox not found", (method, path, answer)


def test_list_filters_and_pages(client):
    made = [client.create(f"page-{i}", labels=["even" if i % 2 == 0 else "odd", "all"])["name"] for i in range(5)]
    newest_first = made[::-1]
    whole = client.get("/sandbox").json()
    assert [s["name"] for s in whole["sandboxes"]] == newest_first
    assert (whole["total"], whole["page"], whole["per_page"], whole["has_next"]) == (5, 1, 50, False)

    seen = []
    for page in (1, 2, 3):
        answer = client.get("/sandbox", page=page, per_page=2).json()
        assert (answer["total"], answer["page"], answer["per_page"]) == (5, page, 2)
        assert answer["has_next"] == (page < 3)
        seen += [s["name"] for s in answer["sandboxes"]]
    assert seen == newest_first
    assert client.get("/sandbox", page=4, per_page=2).json()["sandboxes"] == []

    client.post("/sandbox/page-1/stop", {"graceMs": 0})
    assert client.names(status="STOPPED") == ["page-1"]
    assert sorted(client.names(status="RUNNING")) == ["page-0", "page-2", "page-3", "page-4"]
    assert sorted(client.names(labels=["even", "all"])) == ["page-0", "page-2", "page-4"]
    assert client.names(labels=["even", "odd"]) == []

    client.delete("/sandbox/page-2")
    assert "page-2" not in client.names()
    assert "page-2" not in client.names(is_active="true")
    assert "page-2" in client.names(include_terminated="true")


def test_name_is_taken_until_deleted(client):
    first = client.create("taken")
    answer = client.post("/sandbox", {"name": "taken"})
    assert (answer.status, answer.error["code"]) == (409, "NAME_TAKEN"), answer
    assert client.sandbox("taken")["id"] == first["id"]
    client.delete("/sandbox/taken")
    assert client.create("taken")["id"] != first["id"]


def test_name_race_has_one_winner(server, client):
    results = []

    def create():
        mine = server.client()
        results.append(mine.post("/sandbox", {"name": "race"}).status)
        mine.close()

    threads = [threading.Thread(target=create) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [201] + [409] * 7
    assert client.names() == ["race"]
    assert len(server.inits()) == 1


def test_stop_and_start_keep_files(client, box):
    client.sh("box", "echo one > /workspace/a && echo two > ~/b && mkdir -p /workspace/d && ln -s ../a /workspace/d/l")
    stopped = client.post("/sandbox/box/stop")
    assert (stopped.status, stopped.json()["status"]) == (200, "STOPPED"), stopped
    assert client.sandbox("box")["terminationReason"] == "stopped"
    refused = client.post("/sandbox/box/exec", {"command": ["true"]})
    assert refused.status == 409 and refused.error["code"] == "SANDBOX_NOT_RUNNING", refused

    started = client.post("/sandbox/box/start")
    assert (started.status, started.json()["status"], started.json()["id"]) == (200, "RUNNING", box["id"]), started
    assert client.sh("box", "cat /workspace/a ~/b /workspace/d/l") == "one\ntwo\none\n"


def test_start_and_stop_of_what_is_so_already(client, box):
    uptime = client.sandbox("box")["uptimeMs"]
    answer = client.post("/sandbox/box/start")
    assert (answer.status, answer.json()["status"]) == (200, "RUNNING")
    assert client.sandbox("box")["uptimeMs"] >= uptime
    for _ in range(2):
        answer = client.post("/sandbox/box/stop", {"graceMs": 1000})
        assert (answer.status, answer.json()["status"]) == (200, "STOPPED")


def test_stop_sends_sigterm_and_waits(client):
    client.create("polite", startCommand=["sh", "-c", "trap 'sleep 0.3; echo bye > /workspace/bye; exit 0' TERM; "
                                          "echo set; while :; do sleep 0.05; done"])
    until(lambda: client.get("/sandbox/polite/logs").json()["logs"] == "set\n", "the trap is set")
    began = time.monotonic()
    client.post("/sandbox/polite/stop")
    assert time.monotonic() - began < stretch(5)
    client.post("/sandbox/polite/start")
    assert client.sh("polite", "cat /workspace/bye") == "bye\n"


@pytest.mark.parametrize("grace_ms, least, most", [(0, 0, 1), (700, 0.6, 3)])
def test_stop_kills_after_the_grace(client, grace_ms, least, most):
    client.create("stubborn", startCommand=["sh", "-c", "trap '' TERM; echo set; while :; do sleep 0.05; done"])
    until(lambda: "set" in client.get("/sandbox/stubborn/logs").json()["logs"], "the trap is set")
    began = time.monotonic()
    answer = client.post("/sandbox/stubborn/stop", {"graceMs": grace_ms})
    took = time.monotonic() - began
    assert (answer.status, answer.json()["status"]) == (200, "STOPPED")
    assert least <= took <= stretch(most), took


def test_delete(server, client, box):
    client.exec("box", "sleep 1000 & setsid sleep 1000 &")
    answer = client.delete("/sandbox/box")
    assert (answer.status, answer.json()["id"], answer.json()["status"]) == (200, box["id"], "TERMINATED"), answer
    assert server.sandbox_processes() == []
    assert client.names() == []
    assert client.get("/sandbox/box").status == 404
    again = client.delete(f"/sandbox/{box['id']}")
    assert again.status in (200, 404), again
    gone = client.get(f"/sandbox/{box['id']}")
    assert gone.status == 404 or gone.json()["status"] == "TERMINATED", gone


def test_delete_of_a_stopped_one(server, client, box):
    client.post("/sandbox/box/stop", {"graceMs": 0})
    assert client.delete("/sandbox/box").status == 200
    assert server.sandbox_processes() == []


def test_start_command_end_is_told_and_the_sandbox_runs_on(client):
    client.create("short", startCommand="echo out; echo err >&2; exit 3")
    until(lambda: client.sandbox("short").get("startCommandExit") is not None, "the start command's end")
    sandbox = client.sandbox("short")
    assert sandbox["status"] == "RUNNING"
    assert sandbox["startCommandExit"]["exitCode"] == 3
    assert client.sh("short", "echo alive") == "alive\n"


def test_it_stops_with_its_start_command_where_asked_for(client):
    client.create("short", startCommand="echo x > /workspace/x; exit 3", stopWhenStartEnds=True)
    client.create("long", startCommand="sleep 1000", stopWhenStartEnds=True)
    until(lambda: client.sandbox("short")["status"] == "STOPPED", "it stops")
    sandbox = client.sandbox("short")
    assert sandbox["terminationReason"] == "exited" and sandbox["termination"]["exitCode"] == 3, sandbox
    assert client.sandbox("long")["status"] == "RUNNING"
    answer = client.post("/sandbox", {"stopWhenStartEnds": True})
    assert answer.status == 400 and answer.error["details"]["field"] == "stopWhenStartEnds", answer


def test_expiry(client):
    client.create("brief", timeoutMs=1500)
    until(lambda: client.names() == [], "its time is over", 15, 0.1)
    row = [s for s in client.get("/sandbox", include_terminated="true").json()["sandboxes"] if s["name"] == "brief"][0]
    assert (row["status"], row["terminationReason"]) == ("TERMINATED", "timeout")


def test_unknown_image(server, client):
    answer = client.post("/sandbox", {"name": "no-image", "dockerImage": "no/such:image"})
    assert answer.status in (400, 404) and answer.error["code"] == "IMAGE_NOT_FOUND", answer
    assert client.names(include_terminated="true").count("no-image") == 0
    assert server.inits() == []
    assert client.create("no-image")["status"] == "RUNNING"
