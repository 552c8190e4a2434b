# SPDX-License-Identifier: Apache-2.0
"""The way out of a sandbox, beside a veth pair and a NAT as Docker would make them. Everything is in namespaces that the
figure makes: the server's host, everybody else, and the peer's."""
import json
import statistics
import subprocess
import time
from pathlib import Path

import peers
from bench import Failed, Watched
from harness.internet import Internet, run
from harness.server import Server
from harness.wait import until

TARGET = "198.51.100.10"
BYTES, TRIPS, CONNECTS = 1 << 30, 3000, 800  # fewer than a sandbox may open in a burst
BOXES, EACH, CREATES = 100, 10, 40


class Nat:
    """A namespace whose only way to the others is the host's, masqueraded."""

    def __init__(self, net):
        self.net, self.name = net, net.host + "n"

    def __enter__(self):
        run("ip", "netns", "add", self.name)
        run("ip", "-n", self.net.host, "link", "add", "n0", "type", "veth", "peer", "name", "n1", "netns", self.name)
        run("ip", "-n", self.net.host, "address", "add", "10.77.0.1/24", "dev", "n0")
        run("ip", "-n", self.name, "address", "add", "10.77.0.2/24", "dev", "n1")
        run("ip", "-n", self.net.host, "link", "set", "n0", "up")
        run("ip", "-n", self.name, "link", "set", "n1", "up")
        run("ip", "-n", self.name, "route", "add", "default", "via", "10.77.0.1")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")  # of the namespace that this thread is in
        run(peers.need("iptables"), "-t", "nat", "-A", "POSTROUTING", "-s", "10.77.0.0/24", "-o", "v0", "-j", "MASQUERADE")
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True)

    def tool(self, b, *args):
        return lambda: b.tool("out", *args, prefix=["ip", "netns", "exec", self.name])


class Served:
    """`out serve` among the others, until the end."""

    def __init__(self, b, net):
        self.command = ["ip", "netns", "exec", net.others, f"{b.work}/out", "serve"]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.process.stdout.readline() != "ready\n":
            raise Failed("the server for it does not listen")

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(10)
        self.process.stdout.close()


def make(b, client, name):
    client.create(name)
    with open(f"{b.work}/out", "rb") as f:
        answer = client.request("PUT", f"/sandbox/{name}/files?path=/workspace/out", f.read(),
                                headers={"Content-Type": "application/octet-stream"})
    if answer.status != 201:
        raise Failed(f"the program: {answer}")
    client.sh(name, "chmod 755 /workspace/out")


def inside(b, client, *args):
    """A round in a sandbox of its own: how many connections one may open is counted."""
    def once():
        make(b, client, "out")
        try:
            text = client.sh("out", " ".join(map(str, ("/workspace/out", *args))))
        finally:
            client.delete("/sandbox/out")
        return json.loads(text)
    return once


def lines(b, client, nat):
    peer = "veth and NAT"
    args = ("stream", TARGET, BYTES)
    ours, theirs = b.side_by_side(inside(b, client, *args), nat.tool(b, *args), "mib_s")
    b.add("egress: one stream of 1 GiB", ours, "MiB/s", "ratio >= 0.5", peer, theirs, more_is_better=True)
    args = ("trips", TARGET, TRIPS)
    ours, theirs = b.side_by_side(inside(b, client, *args), nat.tool(b, *args))
    b.add("egress: a byte there and back, p50", ours, "us", f"<= {theirs + 20:.0f} (+20)", peer, theirs)
    args = ("connects", TARGET, CONNECTS)
    ours, theirs = b.side_by_side(inside(b, client, *args), nat.tool(b, *args), "rate")
    b.add("egress: new connections, one after the other", ours, "/s", "ratio >= 0.4", peer, theirs, more_is_better=True)


def crowd(b, server, client):
    names = [f"crowd{i}" for i in range(BOXES)]
    for name in names:
        make(b, client, name)
    with Watched(server.pid("server")) as rss:
        runs = [(name, client.detach(name, ["/workspace/out", "hold", TARGET, str(EACH)])) for name in names]
        for name, run_id in runs:
            until(lambda: b"held" in client.output(name, run_id), f"{name} has its connections")
    b.add(f"egress: {BOXES * EACH} connections of {BOXES} sandboxes: RSS grows by", rss.growth_mib(), "MiB", "< 38.1 (40 MB)")
    for name in names:
        client.delete(f"/sandbox/{name}")


def creates(b, client):
    """Alternating, so that both meet the same machine; by twos, as each follows upon the removal of the one before."""
    took = {True: [], False: []}
    for i in range(2 * CREATES):
        leads_out = i % 4 < 2
        began = time.perf_counter()
        client.create("made", networkAccess=leads_out)
        took[leads_out].append(time.perf_counter() - began)
        client.delete("/sandbox/made")
    on, off = (statistics.median(took[k]) * 1e3 for k in (True, False))
    b.add("egress: create with a way out, p50", on, "ms", f"<= {off + 0.5:.2f} (+0.5)", "without", off)


def egress(b):
    with Internet() as net, Nat(net) as nat, Served(b, net), Server("--resolv-conf", net.resolv_conf) as server:
        client = server.client()
        lines(b, client, nat)
        crowd(b, server, client)
        creates(b, client)
        client.close()


FIGURES = {"egress": egress}
