# SPDX-License-Identifier: Apache-2.0
"""Document 003, endpoint by endpoint, in its own words."""
import re

import pytest

from harness.server import Server

# Its request, to the letter but for sizes that every machine has.
BODY = {
    "name": "my-sandbox", "dockerImage": "python:3.11", "startCommand": "python main.py", "cpuCores": 4, "memoryGB": 0.5, "diskSizeGB": 1,
    "gpuCount": 0, "networkAccess": True, "timeoutMinutes": 60, "environmentVars": {"API_KEY": "secret"}, "labels": ["dev"],
}
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
KINDS = {"id": str, "name": str, "dockerImage": str, "startCommand": str, "cpuCores": (int, float), "memoryGB": (int, float),
         "diskSizeGB": (int, float), "gpuCount": int, "networkAccess": bool, "status": str, "timeoutMinutes": int,
         "environmentVars": dict, "labels": list, "createdAt": str, "startedAt": str}
STATUSES = ("PENDING", "PROVISIONING", "RUNNING", "STOPPED", "ERROR", "TERMINATED")


@pytest.fixture(scope="module")
def shared_server():
    with Server("--alias", "python:3.11=node:20-bookworm", rate_limit=None) as server:
        yield server


def check(sandbox):
    for name, kind in KINDS.items():
        assert isinstance(sandbox[name], kind), (name, sandbox[name])
    assert sandbox["status"] in STATUSES and TIME.match(sandbox["createdAt"]) and TIME.match(sandbox["startedAt"])


def test_create_details_delete(client):
    answer = client.post("/sandbox", BODY)
    assert answer.status in (200, 201), answer
    made = answer.json()
    check(made)
    assert {name: made[name] for name in BODY} == BODY and made["status"] == "RUNNING"
    details = client.get(f"/sandbox/{made['id']}").json()
    check(details)
    assert {name: details[name] for name in BODY} == BODY
    token = client.post(f"/sandbox/{made['id']}/auth-token")
    assert token.status == 200 and token.json()["token"], token
    assert isinstance(client.get(f"/sandbox/{made['id']}/logs").json()["logs"], str)
    assert client.delete(f"/sandbox/{made['id']}").status == 200
    assert client.get(f"/sandbox/{made['id']}").json()["status"] == "TERMINATED"


def test_list(client):
    for i in range(3):
        client.create(f"n{i}", memoryGB=0.125, labels=["all", f"l{i}"], teamId=f"t{i % 2}")
    whole = client.get("/sandbox").json()
    assert {name: whole[name] for name in ("total", "page", "per_page", "has_next")} == {"total": 3, "page": 1, "per_page": 50, "has_next": False}
    for sandbox in whole["sandboxes"]:
        check({**sandbox, "startCommand": sandbox["startCommand"] or ""})
    client.post("/sandbox/n0/stop", {"graceMs": 0})
    gone = client.create("gone", memoryGB=0.125, labels=["all"])["id"]
    client.delete(f"/sandbox/{gone}")
    for query, names in (("status=RUNNING", "n2 n1"), ("status=STOPPED", "n0"), ("status=TERMINATED&labels=all", "gone"), ("status=ERROR", ""),
                         ("status=PENDING", ""), ("status=PROVISIONING", ""), ("is_active=true", "n2 n1 n0"),
                         ("is_active=false&labels=all", "gone n2 n1 n0"), ("labels=all", "n2 n1 n0"), ("labels=all&labels=l1", "n1"),
                         ("labels=l0&labels=l1", ""), ("team_id=t0", "n2 n0"), ("team_id=t0&status=RUNNING", "n2"), ("team_id=t9", ""),
                         ("page=2&per_page=2", "n0"), ("page=9", ""), ("per_page=1000", "n2 n1 n0")):
        found = client.request("GET", f"/sandbox?{query}").json()
        assert " ".join(s["name"] for s in found["sandboxes"]) == names, query
    page = client.get("/sandbox", per_page=2).json()
    assert (page["total"], page["has_next"], len(page["sandboxes"])) == (3, True, 2)
    for query in ("per_page=0", "per_page=1001", "page=0", "status=FOO", "is_active=maybe"):
        assert client.request("GET", f"/sandbox?{query}").status == 400, query


def test_bulk_delete(client):
    ids = [client.create(f"b{i}", memoryGB=0.125, labels=["bulk"])["id"] for i in range(3)]
    answer = client.request("DELETE", "/sandbox/bulk", {"sandbox_ids": ids[:1]})
    assert answer.status == 200 and answer.json()["succeeded"] == ids[:1], answer
    assert sorted(client.request("DELETE", "/sandbox/bulk", {"labels": ["bulk"]}).json()["succeeded"]) == sorted(ids[1:])
    assert client.names() == []


def test_ports(client):
    ident = client.create("box", memoryGB=0.125)["id"]
    assert client.post(f"/sandbox/{ident}/ports", {"port": 8080}).status in (200, 201)
    assert [p["port"] for p in client.get(f"/sandbox/{ident}/ports").json()["ports"]] == [8080]
    assert [p["sandboxId"] for p in client.get("/sandbox/ports").json()["ports"]] == [ident]
    assert client.delete(f"/sandbox/{ident}/ports/8080").status == 200
    assert client.get("/sandbox/ports").json()["ports"] == []


def test_rate(client):
    """1000 requests per 60 seconds: told by every answer; that the 1001st is refused is in tests/abuse."""
    headers = client.get("/sandbox").headers
    assert headers["RateLimit-Limit"] == "1000" and 0 <= int(headers["RateLimit-Remaining"]) < 1000
    assert 0 < int(headers["RateLimit-Reset"]) <= 60
