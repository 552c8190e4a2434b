# SPDX-License-Identifier: Apache-2.0
"""Policies hold: what is said is what can be reached. All of it in namespaces that the test made."""
import pytest

from harness.egress import command, probe, refused, wish
from harness.internet import HOLD
from harness.wait import until

WEB, OTHER, PRIVATE = "198.51.100.10", "198.51.100.11", "10.9.9.9"
UNKNOWN = ("ENOTFOUND", "EAI_AGAIN", "EREFUSED")


@pytest.fixture(scope="module")
def options(net):
    return ["--resolv-conf", net.resolv_conf]


def told(result):
    """yes: an answer came; no: it was cut; unknown: the name is not answered."""
    if "hello from" in (result.get("data") or ""):
        return "yes"
    if result.get("error") in UNKNOWN:
        return "unknown"
    closed = not result.get("error") and not result.get("data")  # as TLS in node may tell a reset
    return "no" if closed or refused(result) else str(result)


def became(client, box, *wishes):
    return [told(result) for result in probe(client, box, *wishes)]


def patch(client, box, policy):
    answer = client.request("PATCH", f"/sandbox/{box['id']}", {"networkPolicy": policy})
    assert answer.status == 200, answer


HTTP, API = wish("http", "web.example"), wish("http", "api.web.example")
OTHER_NAME, BY_ADDRESS, OTHER_ADDRESS = wish("http", "other.example"), wish("http", WEB), wish("http", OTHER)

CASES = {
    "a name": ({"networkPolicy": {"allow": ["Web.Example."]}}, {
        "yes": [HTTP], "unknown": [API, OTHER_NAME], "no": [OTHER_ADDRESS]}),
    "a name on a port": ({"networkPolicy": {"allow": ["web.example:80"]}}, {
        "yes": [HTTP], "no": [wish("tls", "web.example"), wish("http", "web.example", 8080)]}),
    "names below": ({"networkPolicy": {"allow": ["*.web.example"]}}, {"yes": [API], "unknown": [HTTP, OTHER_NAME]}),
    "another name's address": ({"networkPolicy": {"allow": ["web.example"]}}, {
        "yes": [HTTP], "no": [wish("http", "web.example", name="other.example"), wish("http", WEB, name="api.web.example")]}),
    "an address nobody gave": ({"networkPolicy": {"allow": ["web.example"]}}, {"no": [BY_ADDRESS, OTHER_ADDRESS]}),
    "nets": ({"networkPolicy": {"subnets": {"allow": ["198.51.100.0/24:80"], "deny": [OTHER]}}}, {
        "yes": [BY_ADDRESS], "unknown": [HTTP], "no": [OTHER_ADDRESS, wish("http", WEB, 8080)]}),
    "a name into a denied net": ({"networkPolicy": {"allow": ["*"], "subnets": {"deny": ["198.51.100.11/32"]}}}, {
        "yes": [HTTP], "no": [OTHER_ADDRESS, wish("http", "64:ff9b::198.51.100.11")]}),
    "a denylist": ({"networkDenylist": ["other.example", "*.web.example"]}, {
        "yes": [HTTP, OTHER_ADDRESS], "unknown": [OTHER_NAME, API], "no": [wish("http", WEB, name="api.web.example")]}),
    "an allowlist": ({"networkAllowlist": ["web.example", OTHER]}, {
        "yes": [HTTP, OTHER_ADDRESS], "unknown": [OTHER_NAME]}),
    "what is not the caller's to open": ({"networkPolicy": {"subnets": {"allow": ["10.0.0.0/8", "0.0.0.0/0"]}}}, {
        "yes": [BY_ADDRESS], "no": [wish("http", PRIVATE), wish("http", "169.254.169.254")]}),
    "nothing": ({"networkAllowlist": []}, {"no": [BY_ADDRESS], "unknown": [HTTP]}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_said_holds(client, case):
    spec, wanted = CASES[case]
    box = client.create("box", **spec)
    for verdict, wishes in wanted.items():
        assert became(client, box, *wishes) == [verdict] * len(wishes), (verdict, wishes)
    answer = client.get("/sandbox/box/egress-policy").json()
    assert answer["applied"] is True and answer["applied_generation"] == 1


def test_a_change_holds_at_once(client, net):
    box = client.create("box", networkPolicy={"allow": ["web.example"]})
    held = net.tell()["held"]
    holder = client.detach("box", command(wish("tcp", "web.example", HOLD, ms=100_000)))
    until(lambda: net.tell()["held"] == held + 1, "a connection stands")
    patch(client, box, {"allow": ["web.example", "other.example"]})
    assert became(client, box, HTTP, OTHER_NAME) == ["yes", "yes"]
    assert client.execution("box", holder)["status"] == "running", "what is still allowed goes on"
    patch(client, box, {"allow": ["other.example"]})
    until(lambda: client.execution("box", holder)["status"] == "exited", "what is not is cut")
    assert b"ECONNRESET" in client.output("box", holder)
    assert became(client, box, OTHER_NAME, HTTP, BY_ADDRESS) == ["yes", "unknown", "no"]
    patch(client, box, "deny-all")
    assert became(client, box, OTHER_NAME, OTHER_ADDRESS)[1] == "no"
    patch(client, box, "allow-all")
    assert became(client, box, HTTP, OTHER_ADDRESS) == ["yes", "yes"]


def test_one_that_began_closed_is_opened(client):
    box = client.create("box", networkAccess=False)
    assert became(client, box, BY_ADDRESS) == ["no"]
    patch(client, box, {"allow": ["web.example"]})
    assert became(client, box, HTTP, OTHER_ADDRESS) == ["yes", "no"]


def test_it_holds_after_the_server_died(server, client):
    box = client.create("box", networkPolicy={"allow": ["web.example"]})
    assert became(client, box, HTTP, OTHER_NAME) == ["yes", "unknown"]
    server.kill("server")
    server.recover()
    client = server.client()
    until(lambda: client.get("/sandbox/box/egress-policy").json()["applied"], "it has its way out again")
    assert became(client, box, HTTP, OTHER_NAME, OTHER_ADDRESS) == ["yes", "unknown", "no"]


def test_a_fork_is_held_to_it(client):
    client.create("box", networkPolicy={"allow": ["web.example"]})
    fork = client.post("/sandbox/box/fork", {"name": "fork"}).json()
    assert became(client, fork, HTTP, OTHER_NAME) == ["yes", "unknown"]


def test_observed_and_proposed(client):
    box = client.create("box", networkPolicy={"mode": "observe"})
    work = [HTTP, HTTP, wish("tls", "web.example", name="web.example"), OTHER_ADDRESS]
    assert became(client, box, *work, wish("http", PRIVATE)) == ["yes"] * 4 + ["no"]
    seen = client.get("/sandbox/box/network").json()["wanted"]
    by = {(w["name"], w["port"]): w for w in seen if w["port"]}
    web = by["web.example", 80]
    assert (web["count"], web["verdict"], web["failed"]) == (2, "allowed", False) and web["receivedBytes"] > 0, seen
    assert by[None, 80]["address"] in (OTHER, PRIVATE)
    assert [w["verdict"] for w in seen if w["address"] == PRIVATE] == ["guarded"]
    assert [w["lastAt"] for w in seen] == sorted((w["lastAt"] for w in seen), reverse=True), "newest first"
    proposal = client.post("/sandbox/box/network/propose").json()
    assert proposal["networkPolicy"] == {"mode": "custom", "allow": ["web.example:80", "web.example:443", f"{OTHER}:80"]}
    assert [(w["address"], w["verdict"]) for w in proposal["leftOut"]] == [(PRIVATE, "guarded")]
    patch(client, box, proposal["networkPolicy"])
    assert became(client, box, *work) == ["yes"] * 4
    assert became(client, box, OTHER_NAME, wish("http", "web.example", 8080)) == ["unknown", "no"]


def test_what_was_refused_is_proposed_too(client):
    box = client.create("box", networkPolicy={"allow": ["web.example:443"]})
    assert became(client, box, OTHER_NAME, HTTP) == ["unknown", "no"]
    verdicts = {(w["name"], w["port"]): w["verdict"] for w in client.get("/sandbox/box/network").json()["wanted"]}
    assert verdicts["other.example", None] == "unlisted" and verdicts["web.example", 80] == "unlisted", verdicts
    proposal = client.post("/sandbox/box/network/propose").json()["networkPolicy"]
    assert proposal["allow"] == ["other.example", "web.example:80"]
    patch(client, box, proposal)
    assert became(client, box, OTHER_NAME, HTTP) == ["yes", "yes"]
