# SPDX-License-Identifier: Apache-2.0
"""The way out: what a policy allows, and nothing else. All of it in namespaces that the test made."""
import errno
import socket
from pathlib import Path

import pytest

from harness.egress import WEB, WEB6, probe, question, refused, wish
from harness.internet import BANNER, HOLD, HOST4, HOST6, RESET, SLURP
from harness.wait import until

GUARDED = ["10.9.9.9", "172.16.9.9", "192.168.9.9", "169.254.169.254", "100.64.9.9", "fd00:9::9", "0.0.0.0",
           "224.0.0.1", "240.0.0.1", "::ffff:10.9.9.9", "64:ff9b::10.9.9.9", "2002:0a09:0909::1", "fe80::1"]


@pytest.fixture(scope="module")
def options(net):
    return ["--resolv-conf", net.resolv_conf]


def test_by_name_and_by_address(client, box):
    name, address, v6, tls = probe(
        client, box, wish("http", "web.example", path="/a"), wish("http", WEB), wish("http", WEB6),
        wish("tls", "web.example", name="web.example"))
    assert name["data"] == f"hello from ::ffff:{WEB} path /a"
    assert address["data"] == f"hello from ::ffff:{WEB} path /"
    assert v6["data"] == f"hello from {WEB6} path /"
    assert "hello" in tls["data"]
    assert client.sandbox(box["id"])["networkEnforced"] is True


def test_names_are_answered_whomever_one_asks(client, box):
    both, v4, six, other, txt, none = probe(
        client, box, wish("lookup", "web.example"), wish("ask", "web.example"),
        wish("ask", "web.example", type="AAAA"), wish("ask", "web.example", server="8.8.8.8"),
        wish("ask", "web.example", type="TXT"), wish("ask", "no.such.example"))
    assert sorted(both["all"]) == sorted([WEB, WEB6])
    assert v4["all"] == [WEB] and six["all"] == [WEB6] and other["all"] == [WEB]
    assert txt["error"] == "ENODATA"
    assert none["error"] == "ENOTFOUND"


def test_dns_by_tcp_and_from_the_address_that_was_asked(client, box):
    ask = question("web.example")
    script = f"""
import_ = require('net').connect(53, '9.9.9.9', () => {{
  const q = Buffer.from('{ask}', 'hex'), m = Buffer.concat([Buffer.from([0, q.length]), q]);
  import_.write(m.subarray(0, 5)); setTimeout(() => import_.write(Buffer.concat([m.subarray(5), m])), 20); }});
let all = ''; import_.on('data', d => {{ all += d.toString('hex');
  if (all.length >= 2 * (4 + 2 * (q_len() + 16))) {{ console.log(all); process.exit(0); }} }});
function q_len() {{ return {len(ask) // 2}; }}"""
    out = client.sh(box["id"], ["node", "-e", script])
    assert out.count(socket.inet_aton(WEB).hex()) == 2
    udp, udp6 = probe(client, box, wish("udp", "203.0.113.99", 53, hex=ask), wish("udp", "2001:db8:5::5", 53, hex=ask))
    assert udp["from"] == "203.0.113.99" and udp["port"] == 53 and udp["hex"].startswith("1234")
    assert udp6["from"] == "2001:db8:5::5" and udp6["port"] == 53


def test_other_udp_and_ping_are_refused_at_once(client, box):
    for result in probe(client, box, wish("udp", WEB, 443), wish("udp", WEB6, 443), wish("udp", WEB, 123)):
        assert result["error"] == "ECONNREFUSED" and result["ms"] < 1000, result


def test_loopback_inside_is_the_sandboxs_own(client, box):
    client.detach(box["id"], ["node", "-e", "require('net').createServer(s => s.end('mine')).listen(80, '::')"])
    until(lambda: probe(client, box, wish("tcp", "127.0.0.1", 80))[0].get("data") == "mine", "it listens")
    v4, v6, own, out = probe(client, box, wish("tcp", "127.0.0.1", 80), wish("tcp", "::1", 80),
                             wish("tcp", "192.0.0.2", 80), wish("http", WEB))
    assert [r["data"] for r in (v4, v6, own)] == ["mine"] * 3
    assert out["data"].startswith("hello from")


def test_a_closed_one_is_closed(client):
    box = client.create("closed", networkAccess=False)
    began = probe(client, box, wish("http", WEB), wish("http", WEB6), wish("udp", "8.8.8.8", 53, hex=question("web.example")),
                  wish("lookup", "web.example"))
    assert [r["error"] for r in began[:3]] == ["ECONNREFUSED"] * 3
    assert began[3]["error"] in ("EAI_AGAIN", "ENOTFOUND", "ECONNREFUSED")


@pytest.mark.parametrize("address", [*GUARDED, HOST4, HOST6, "192.0.0.2"])
def test_guarded_addresses(client, box, address):
    for result in probe(client, box, wish("http", address, ms=3000), wish("tcp", address, 22, ms=3000)):
        assert result.get("error") not in (None, "TIMEOUT") and not result.get("data"), result


def test_metadata_is_a_closed_door(client, box):
    """Refused before anything is accepted: a probe that only connects must not take it for open."""
    script = "import socket; print(socket.socket().connect_ex(('169.254.169.254', 80)))"
    assert client.sh(box["id"], ["python3", "-c", script]).strip() == str(errno.ECONNREFUSED)


@pytest.mark.parametrize("spelling", ["2130706433", "0x7f.1", "017700000001", "0xa090909", "0251.0376.0251.0376"])
def test_guarded_addresses_as_numbers(client, box, spelling):
    for result in probe(client, box, wish("http", spelling, 22, ms=3000)):
        assert "data" not in result or not result["data"]


def test_rebinding(client, box, net):
    private, mixed, local, host, mapped, meta = probe(
        client, box, *(wish("ask", f"{n}.example") for n in ("private", "mixed", "local", "host", "mapped", "meta")))
    assert mixed["all"] == [WEB]
    for result in (private, local, host, mapped, meta):
        assert result["error"] in ("ENODATA", "EREFUSED"), result
    assert refused(probe(client, box, wish("http", "10.9.9.9", name="private.example"))[0])


def test_other_sandboxes_and_this_server(server, client, box):
    other = client.create("other")
    client.detach(other["id"], ["node", "-e", "require('net').createServer(s => s.end('theirs')).listen(7100, '::')"])
    until(lambda: probe(client, other, wish("tcp", "127.0.0.1", 7100))[0].get("data") == "theirs", "it listens")
    port = int(server.url.rpartition(":")[2])
    for result in probe(client, box, wish("tcp", "192.0.0.2", 7100), wish("tcp", "127.0.0.1", 7100),
                        wish("http", "127.0.0.1", port), wish("http", HOST4, port), wish("http", HOST6, port)):
        assert result.get("error") in ("ECONNREFUSED", "ECONNRESET"), result


def test_half_a_close_and_resets(client, box):
    slurp, reset, banner, nobody = probe(
        client, box, wish("tcp", WEB, SLURP, half=True, bytes=3_000_000), wish("tcp", WEB, RESET, send="x"),
        wish("tcp", WEB, BANNER, send="hi"), wish("tcp", WEB, 9))
    assert slurp["data"] == "3000000 bytes"
    assert reset["error"] == "ECONNRESET"
    assert banner["data"] == "220 hello\r\nyou said hi"
    assert nobody["error"] == "ECONNRESET"


def test_bytes_are_counted(client, box):
    before = client.get(f"/sandbox/{box['id']}/stats").json()["network"]
    assert before == {"rxBytes": 0, "txBytes": 0}
    big, slurp = probe(client, box, wish("http", WEB, path="/big/2000000"), wish("tcp", WEB, SLURP, half=True, bytes=500_000))
    assert big["length"] == 2_000_000
    def told():  # a reading may be a moment old
        moved = client.get(f"/sandbox/{box['id']}/stats").json()["network"]
        return moved if moved["rxBytes"] and moved["txBytes"] else None
    after = until(told, "a new reading")
    assert 2_000_000 < after["rxBytes"] < 2_010_000 and 500_000 < after["txBytes"] < 510_000
    assert client.post(f"/sandbox/{box['id']}/stop").status == 200
    death = client.sandbox(box["id"])["termination"]
    assert death["rxBytes"] == after["rxBytes"] and death["txBytes"] == after["txBytes"]


def test_a_flood_of_questions_is_limited(client, box, net):
    before = len(net.tell()["asked"])
    codes = probe(client, box, wish("flood", "192.0.0.1", hex=question("web.example"), count=3000))[0]["codes"]
    # While a nameserver is asked no more than 64 wait for its answer: how many came meanwhile is chance.
    assert set(codes) <= {"0", "2"} and 400 <= codes["0"] and sum(codes.values()) < 1500, codes
    assert len(net.tell()["asked"]) - before < 10
    other = client.create("beside")
    assert probe(client, other, wish("ask", "web.example"))[0]["all"] == [WEB]


def test_stop_start_and_fork_have_their_way_again(client, box):
    assert client.post(f"/sandbox/{box['id']}/stop").status == 200
    assert client.post(f"/sandbox/{box['id']}/start").status == 200
    assert probe(client, box, wish("http", WEB))[0]["data"].startswith("hello")
    fork = client.post(f"/sandbox/{box['id']}/fork", {"name": "a-fork"})
    assert fork.status == 201, fork
    assert probe(client, fork.json(), wish("http", WEB))[0]["data"].startswith("hello")


def test_nothing_inside_changes_the_network(client, box):
    tries = ["require('fs').writeFileSync('/proc/sys/net/ipv4/ip_forward', '1')",
             "require('child_process').execSync('ip link add x type dummy || nft list ruleset || exit 3')"]
    for user in ("user", "root"):
        for script in tries:
            assert client.exec(box["id"], ["node", "-e", script], user=user)["exitCode"] != 0


@pytest.mark.limit(400)  # a hundred creates, whoever does them
def test_a_thousand_connections_of_a_hundred(server, client, net):
    boxes = [client.create(f"many-{i}", dockerImage="busybox", memoryGB=0.25) for i in range(100)]

    def rss():
        text = Path(f"/proc/{server.pid('server')}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])

    before = rss()
    script = f"for i in 0 1 2 3 4 5 6 7 8 9; do (sleep 600 | nc {WEB} {HOLD}) & done; wait"
    for b in boxes:
        client.detach(b["id"], script)
    until(lambda: net.tell()["held"] >= 1000, "all are open", 60)
    grown = rss() - before
    assert grown < 40 * 1024, f"{grown} KiB"
    for b in boxes:
        assert client.delete(f"/sandbox/{b['id']}").status == 200
    until(lambda: net.tell()["held"] == 0, "all are closed", 30)


def test_without_a_server_there_is_no_way_out(fresh, net):
    server = fresh("--resolv-conf", net.resolv_conf)
    client = server.start().client()
    box = client.create("box")
    loop = (f"const net = require('net'); const again = () => {{ const s = net.connect({HOLD}, '{WEB}');"
            "s.on('data', () => console.log('way out')); s.on('error', e => console.log(e.code));"
            "s.on('close', () => setTimeout(again, 20)); }; again();")
    run = client.detach(box["id"], ["node", "-e", loop])

    def says():
        return client.output(box["id"], run).decode().split("\n")[:-1]

    until(lambda: "way out" in says(), "it has a way out")
    server.kill("supervisor")  # the server goes with it
    until(lambda: not any(server.pids().values()), "all are gone")
    until(lambda: net.tell()["held"] == 0, "its connection is cut")
    server.recover()
    client = server.client()
    lines = says()
    assert "ECONNREFUSED" in lines, lines[-5:]
    until(lambda: says()[-1] == "way out", "it has its way again")
    assert probe(client, box, wish("http", WEB))[0]["data"].startswith("hello")
    server.kill("engine")
    assert probe(client, box, wish("http", WEB))[0]["data"].startswith("hello")
