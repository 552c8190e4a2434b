# SPDX-License-Identifier: Apache-2.0
"""What a sandbox may reach: said, kept, changed and proposed. Whether it holds is tested elsewhere."""
import json
import os
import subprocess

import pytest

from harness.server import CAY
from harness.wait import stretch

LISTS = {"allow": ["Registry.npmjs.org:443", "*.debian.org:80"],
         "subnets": {"allow": ["192.0.2.0/24"], "deny": ["192.0.2.7"]}}


@pytest.fixture
def cay(server):
    def run(*args):
        return subprocess.run([CAY, *args], capture_output=True, text=True, timeout=stretch(30),
                              env={**os.environ, "CAY_URL": server.url})

    return run


def policy(client, ident="box"):
    return client.get(f"/sandbox/{ident}/egress-policy").json()


def test_it_survives_a_restart(fresh):
    server = fresh()
    server.start()
    client = server.client()
    client.create("box", networkPolicy=LISTS)
    client.create("lists", network_denylist=["evil.example"])
    server.restart()
    client = server.client()
    assert client.sandbox("box")["networkPolicy"] == {"mode": "custom", **LISTS}
    assert client.sandbox("lists")["networkDenylist"] == ["evil.example"]
    assert policy(client)["generation"] == 1


def test_changed_in_every_state(client):
    client.create("box", persistent=True)
    for step, verb in enumerate(("pause", "resume", "stop", "start")):
        answer = client.request("PATCH", "/sandbox/box", {"networkPolicy": {"allow": [f"{verb}.example"]}})
        assert answer.status == 200, answer
        answer = client.post(f"/sandbox/box/{verb}", {"graceMs": 0} if verb == "stop" else None)
        assert answer.json()["networkPolicy"]["allow"] == [f"{verb}.example"], answer
        assert policy(client)["generation"] == step + 2


def test_copies_have_it(client):
    client.create("box", networkPolicy=LISTS)
    fork = client.post("/sandbox/box/fork", {"name": "fork"}).json()
    assert fork["networkPolicy"] == {"mode": "custom", **LISTS} and policy(client, "fork")["generation"] == 1
    other = client.post("/sandbox/box/fork", {"name": "other", "networkPolicy": "deny-all"}).json()
    assert other["networkPolicy"] == "deny-all"


def test_two_who_replace_it(client):
    client.create("box")
    first = client.request("PUT", "/sandbox/box/egress-policy", {"allowlist": ["a.example"], "generation": 1})
    second = client.request("PUT", "/sandbox/box/egress-policy", {"allowlist": ["b.example"], "generation": 1})
    assert (first.status, second.status, second.error["code"]) == (200, 409, "GENERATION_PASSED")
    assert policy(client)["policy"]["allowlist"] == ["a.example"]


def test_cli(cay, client):
    made = cay("create", "--name", "box", "--network", "a.example,*.b.example:443")
    assert made.returncode == 0, made
    assert client.sandbox("box")["networkPolicy"]["allow"] == ["a.example", "*.b.example:443"]
    for options, told in ((["--off"], "deny-all"), (["--open"], "allow-all"), (["--observe"], {"mode": "observe"}),
                          (["--allow", "a.example,b.example", "--allow", "192.0.2.1"],
                           {"mode": "custom", "allow": ["a.example", "b.example", "192.0.2.1"]}),
                          (["--deny", "a.example"], {"mode": "allow-all", "deny": ["a.example"]})):
        done = cay("network", *options, "box")
        assert done.returncode == 0, done
        assert client.sandbox("box")["networkPolicy"] == told
    for bad in (["--allow", "*."], ["--off", "--open"], ["--apply"]):
        done = cay("network", *bad, "box")
        assert done.returncode != 0 and done.stderr, bad
    assert cay("network", "box").returncode == 0
    proposed = cay("network", "propose", "--json", "box")
    assert json.loads(proposed.stdout)["networkPolicy"] == {"mode": "custom", "allow": []}, proposed
    assert client.sandbox("box")["networkPolicy"]["mode"] == "allow-all", "proposed is not applied"
    assert cay("network", "propose", "--apply", "box").returncode == 0
    assert client.sandbox("box")["networkPolicy"] == {"mode": "custom", "allow": []}
