# SPDX-License-Identifier: Apache-2.0
"""The everyday: an idle server, commands, look-ups, readers of output."""
import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor

import peers
from bench import ROUNDS, Failed, Watched
from harness import proc

READERS, LINES = 1000, 100
CLIENTS = 16


def idle(b):
    dockers = sum(map(proc.rss_kib, b.docker.pids())) / 1024 if b.docker else None
    b.add("idle, no sandbox: server + engine RSS", b.rss_mib(), "MiB", "< 20", b.docker_peer("dockerd + containerd"), dockers)
    everything = below(b.server.pid("supervisor"))
    b.add(f"idle, no sandbox: all {len(everything)} processes, PSS", sum(map(proc.pss_kib, everything)) / 1024, "MiB")


def below(pid):
    """A process and all that it started."""
    found, todo = [], [pid]
    while todo:
        found.append(todo.pop())
        todo += proc.children(found[-1])
    return found


def execs(b):
    name = "exec true in a running sandbox, p50"
    b.against(name, b.cay("exec", 1, 500), lambda: b.tool("spawn", 500, "/bin/true"), goal="<= 3 x, ratio >= 0.33",
              peer="posix_spawn of true")
    command = b.docker and b.docker.exec_command()
    b.against(name, b.cay("exec", 1, 300), command and (lambda: b.tool("spawn", 20, *command)), goal="40 x docker",
              peer="docker exec")
    b.against(name, b.cay("exec", 1, 300), b.dock("exec", 1, 20), peer="docker exec, by three API calls")
    at_once(b)


def at_once(b):
    """Each client has a sandbox of its own; of programs without one there are as many at a time."""
    def spawned():
        with ThreadPoolExecutor(CLIENTS) as pool:
            return {"rate": sum(pool.map(lambda _: b.tool("spawn", 300, "/bin/true")["rate"], range(CLIENTS)))}

    name = f"exec true, {CLIENTS} clients"
    rate, theirs = b.side_by_side(b.cay("exec", CLIENTS, 500), spawned, "rate")
    b.add(name, rate, "/s", ">= 1500", f"posix_spawn of true, {CLIENTS} at a time", theirs, more_is_better=True)
    rate, theirs = b.side_by_side(b.cay("exec", CLIENTS, 300), b.dock("exec", CLIENTS, 4), "rate")
    b.add(name, rate, "/s", "", b.docker_peer("exec, by three API calls"), theirs, more_is_better=True)


def gets(b):
    name = "GET of one sandbox, 64 connections"
    try:
        wrk = peers.need("wrk")
    except peers.Unavailable as e:
        b.add(name, None, "/s", ">= 20000", f"wrk: {e}")
        return
    ident = b.server.client().create("got")["id"]
    rates = []
    for _ in range(ROUNDS):
        out = subprocess.run([wrk, "-c64", "-t2", "-d3s", f"{b.server.url}/api/v1/sandbox/{ident}"], capture_output=True,
                             text=True).stdout
        if "Non-2xx" in out or "Socket errors" in out or "Requests/sec:" not in out:
            raise Failed(f"wrk: {out.strip()}")
        rates.append(float(out.split("Requests/sec:")[1].split()[0]))
    b.add(name, statistics.median(rates), "/s", ">= 20000")


def readers(b):
    client = b.server.client()
    ident = client.create("watched")["id"]
    script = "sleep 2; i=0; while [ $i -lt %d ]; do printf '#%%06d;\\n' $i; i=$((i+1)); sleep 0.1; done" % LINES
    execution = client.detach(ident, script)
    with Watched(b.server.pid("server")) as rss:
        result = b.tool("readers", b.address, f"/api/v1/sandbox/{ident}/exec/{execution}/output?follow=true", READERS, LINES)
    b.add(f"{READERS} SSE readers of one execution, 10 lines/s: got all", result["good"], "readers", f"= {READERS}")
    b.add(f"{READERS} SSE readers: server RSS at most", rss.most_kib / 1024, "MiB", "< 40")


FIGURES = {"idle": idle, "execs": execs, "gets": gets, "readers": readers}
