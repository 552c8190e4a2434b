# SPDX-License-Identifier: Apache-2.0
"""That a policy holds: by name, wildcard, net and port, live, and across the death of the server."""

import pytest

from harness.egress import OTHER, WEB, WEB6, probe, question, refused, wish
from harness.internet import BANNER, HOLD, HTTP, PROXY, SLURP, TLS
from harness.wait import until


@pytest.fixture(scope="module")
def options(net):
    return ["--resolv-conf", net.resolv_conf]


def with_policy(client, policy, name="box"):
    return client.create(name, networkPolicy=policy)


def says_hello(result):
    return result.get("data", "").find("hello") >= 0 and not result.get("error")


def test_deny_all(client):
    box = with_policy(client, "deny-all")
    for result in probe(client, box, wish("http", WEB), wish("http", WEB6)):
        assert refused(result), result
    assert "error" in probe(client, box, wish("lookup", "web.example"))[0]


def test_names(client, net):
    box = with_policy(client, {"allow": ["web.example"]})
    early, named, address, other, below, six = probe(
        client, box, wish("http", WEB), wish("http", "web.example"), wish("http", WEB, name="web.example"),
        wish("ask", "other.example"), wish("ask", "api.web.example"), wish("http", WEB6, name="web.example"))
    assert refused(early)  # nobody gave it that address
    assert says_hello(named) and says_hello(address) and says_hello(six)
    assert other["error"] == "EREFUSED" and below["error"] == "EREFUSED"
    assert refused(probe(client, box, wish("http", OTHER, name="web.example"))[0])
    asked = net.tell()["asked"]
    assert "other.example" not in asked and "api.web.example" not in asked  # a question is a message too


def test_a_wildcard_and_ports(client):
    box = with_policy(client, {"allow": ["*.web.example:80"]})
    below, itself, tls, port = probe(
        client, box, wish("http", "api.web.example"), wish("ask", "web.example"),
        wish("tls", WEB, TLS, name="api.web.example"), wish("http", "api.web.example", 8080))
    assert says_hello(below)
    assert itself["error"] == "EREFUSED"
    assert refused(tls) and refused(port)


def test_who_says_another_name_is_cut(client):
    box = with_policy(client, {"allow": ["web.example"]})
    good, sni, host, banner = probe(
        client, box, wish("tls", "web.example", name="web.example"), wish("tls", WEB, name="shared.example"),
        wish("http", WEB, name="shared.example"), wish("tcp", WEB, BANNER, send="EHLO me\r\n"))
    assert says_hello(good)
    assert refused(sni) and refused(host)
    assert banner["data"] == "220 hello\r\nyou said EHLO me\r\n"  # who speaks first is heard


def test_nets_and_what_is_denied(client):
    box = with_policy(client, {"subnets": {"allow": ["198.51.100.0/24", "2001:db8:1::/64"], "deny": [OTHER]}})
    web, six, other, unlisted = probe(client, box, wish("http", WEB), wish("http", WEB6), wish("http", OTHER),
                                      wish("http", "203.0.113.20"))
    assert says_hello(web) and says_hello(six)
    assert refused(other) and refused(unlisted)


def test_a_policy_does_not_open_what_is_guarded(client):
    box = with_policy(client, {"allow": ["private.example"], "subnets": {"allow": ["10.0.0.0/8", "0.0.0.0/0"]}})
    private, named = probe(client, box, wish("http", "10.9.9.9"), wish("ask", "private.example"))
    assert refused(private)
    assert named["error"] in ("ENODATA", "EREFUSED")


def test_the_operator_opens_what_is_guarded(fresh, net):
    server = fresh("--resolv-conf", net.resolv_conf, "--egress-allow", "10.9.9.9:80")
    client = server.start().client()
    box = client.create("box")
    named, port, other = probe(client, box, wish("http", "private.example"), wish("http", "10.9.9.9", 8080),
                               wish("http", "192.168.9.9"))
    assert says_hello(named) and refused(port) and refused(other)
    closed = with_policy(client, {"allow": ["web.example"]}, "closed")
    assert refused(probe(client, closed, wish("http", "10.9.9.9"))[0])


def test_a_live_change_cuts_and_opens(client, net):
    box = with_policy(client, {"allow": ["web.example", "other.example"]})
    script = f"""
for (const h of ['web.example', 'other.example']) {{
  const s = require('net').connect({HOLD}, h);
  s.on('data', d => console.log(h, String(d).trim())); s.on('error', e => console.log(h, e.code));
  setInterval(() => s.write('still\\n'), 50); }}"""
    run = client.detach(box["id"], ["node", "-e", script])

    def said():
        return client.output(box["id"], run).decode()

    until(lambda: "web.example still" in said() and "other.example still" in said(), "both are open")
    answer = client.request("PATCH", f"/sandbox/{box['id']}", {"networkPolicy": {"allow": ["other.example"]}})
    assert answer.status == 200, answer
    until(lambda: "web.example ECONNRESET" in said(), "one is cut")
    count = said().count("other.example still")
    until(lambda: said().count("other.example still") > count + 2, "the other goes on")
    assert probe(client, box, wish("ask", "web.example"))[0]["error"] == "EREFUSED"
    answer = client.request("PATCH", f"/sandbox/{box['id']}", {"networkPolicy": "allow-all"})
    assert says_hello(probe(client, box, wish("http", WEB))[0])


def test_it_holds_after_the_server_was_killed(fresh, net):
    server = fresh("--resolv-conf", net.resolv_conf)
    client = server.start().client()
    box = with_policy(client, {"allow": ["web.example:80"]})
    assert says_hello(probe(client, box, wish("http", "web.example"))[0])
    loop = (f"setInterval(() => {{ const s = require('net').connect({HTTP}, '{OTHER}'); s.on('error', () => {{}});"
            "s.on('connect', () => s.write('GET / HTTP/1.0\\r\\n\\r\\n')); s.on('data', () => console.log('OUT')); }, 5);")
    run = client.detach(box["id"], ["node", "-e", loop])
    server.kill("server")
    server.recover()
    client = server.client()
    until(lambda: says_hello(probe(client, box, wish("http", "web.example"))[0]), "it has its way again")
    assert refused(probe(client, box, wish("http", OTHER))[0])
    assert b"OUT" not in client.output(box["id"], run)


def test_through_a_proxy(fresh, net):
    server = fresh("--resolv-conf", net.resolv_conf, "--egress-proxy", f"http://u:p@203.0.113.20:{PROXY}",
                   "--egress-no-proxy", "198.51.100.11/32,.nowhere.example")
    client = server.start().client()
    box = client.create("box")
    named, address, six, past, slurp = probe(
        client, box, wish("http", "web.example", name="web.example"), wish("http", "203.0.113.20"), wish("http", WEB6),
        wish("http", OTHER), wish("tcp", WEB, SLURP, half=True, bytes=500_000))
    assert all(map(says_hello, (named, address, six, past)))
    assert slurp["data"] == "500000 bytes"
    asked = [tuple(p) for p in net.tell()["proxied"]]
    assert asked[0] in [("web.example:80", True)] and ("203.0.113.20:80", True) in asked
    assert (f"[{WEB6}]:80", True) in asked or ("web.example:80", True) in asked[1:]
    assert not any("198.51.100.11" in target for target, _ in asked)
    assert refused(probe(client, box, wish("http", "10.9.9.9"))[0])


def test_a_tighter_policy_cuts_what_nobody_looked_at(client):
    """Under allow-all nobody reads what a connection says: once names are listed, it may be for another."""
    box = with_policy(client, "allow-all")
    script = f"""
for (const h of ['web.example', '{OTHER}']) {{
  const s = require('net').connect({HOLD}, h);
  s.on('data', d => console.log(h, String(d).trim())); s.on('error', e => console.log(h, e.code));
  setInterval(() => s.write('still\\n'), 50); }}"""
    run = client.detach(box["id"], ["node", "-e", script])

    def said():
        return client.output(box["id"], run).decode()

    until(lambda: "web.example still" in said() and f"{OTHER} still" in said(), "both are open")
    tighter = {"allow": ["web.example"], "subnets": {"allow": [OTHER]}}
    assert client.request("PATCH", f"/sandbox/{box['id']}", {"networkPolicy": tighter}).status == 200
    until(lambda: "web.example ECONNRESET" in said(), "one is cut")
    count = said().count(f"{OTHER} still")
    until(lambda: said().count(f"{OTHER} still") > count + 2, "that which a net allows goes on")


def test_quotas_of_an_account(fresh, net):
    server = fresh("--resolv-conf", net.resolv_conf)
    client = server.start().client()
    box, beside = client.create("box"), client.create("beside")

    def quota(name):
        return client.get("/quota").json()["quotas"][name]

    def verdicts(one):
        return {w["verdict"] for w in client.get(f"/sandbox/{one['id']}/network").json()["wanted"]}

    server.cay("quota", "set", "--account", "local", "connections=3")
    held = client.detach(box["id"], ["node", "-e", f"for (let i = 0; i < 3; i++) require('net').connect({HOLD}, '{WEB}')"])
    until(lambda: quota("connections") == {"limit": 3, "used": 3}, "three are open")
    assert refused(probe(client, beside, wish("http", WEB))[0])
    assert "quota" in verdicts(beside)
    client.post(f"/sandbox/{box['id']}/exec/{held}/kill", {"signal": "SIGKILL"})
    until(lambda: quota("connections")["used"] == 0, "they are closed")
    assert says_hello(probe(client, beside, wish("http", WEB))[0])
    held = client.detach(box["id"], ["node", "-e", f"require('net').connect(53, '{WEB}')"])
    until(lambda: quota("connections")["used"] == 1, "who asks for names is one, too")
    client.post(f"/sandbox/{box['id']}/exec/{held}/kill", {"signal": "SIGKILL"})
    until(lambda: quota("connections")["used"] == 0, "and gone")

    used = quota("egressBytes")["used"]
    assert quota("egressBytes")["limit"] is None and used > 0
    server.cay("quota", "set", "--account", "local", f"egressBytes={used + 1_000_000}")
    endless = probe(client, box, wish("tcp", WEB, SLURP, bytes=300_000_000, ms=30000))[0]
    assert endless["error"] in ("ECONNRESET", "EPIPE"), endless
    assert quota("egressBytes")["used"] >= used + 1_000_000
    assert "quota" in verdicts(box)
    assert refused(probe(client, beside, wish("http", WEB))[0])
    server.stop()
    server.start()
    client = server.client()
    assert quota("egressBytes")["used"] >= used + 1_000_000
    until(lambda: refused(probe(client, beside, wish("http", WEB))[0]) and "quota" in verdicts(beside), "still over")
    server.cay("quota", "set", "--account", "local", "egressBytes=none")
    assert says_hello(probe(client, beside, wish("http", WEB))[0])


def test_what_it_wanted(client):
    box = with_policy(client, {"allow": ["web.example"]})
    probe(client, box, wish("http", "web.example"), wish("ask", "other.example"), wish("http", "10.9.9.9"),
          wish("udp", "192.0.0.1", 53, hex=question("third.example")))
    wanted = {(w.get("name"), w.get("port")): w for w in client.get(f"/sandbox/{box['id']}/network").json()["wanted"]}
    assert wanted[("web.example", 80)]["verdict"] == "allowed", wanted
    assert wanted[("web.example", 80)]["receivedBytes"] > 50
