# SPDX-License-Identifier: Apache-2.0
"""The way in: requests to a service in a sandbox by its preview, beside the same service reached without us."""
import statistics
import subprocess

import peers
from bench import ROUNDS, Failed
from harness.service import SOURCE
from harness.wait import until

CLIENTS, SECONDS, PORT = 32, 3, 3000


def rate(command):
    out = subprocess.run(command, capture_output=True, text=True).stdout
    if "Non-2xx" in out or "Socket errors" in out or "Requests/sec:" not in out:
        raise Failed(f"wrk: {out.strip()}")
    return float(out.split("Requests/sec:")[1].split()[0])


def preview(b):
    wrk = [peers.need("wrk"), f"-c{CLIENTS}", "-t1", f"-d{SECONDS}s"]
    client = b.server.client()
    box = client.create("preview", ports=[PORT])
    answer = client.request("PUT", "/sandbox/preview/files?path=/workspace/service.js", SOURCE.encode(),
                            headers={"Content-Type": "application/octet-stream"})
    if answer.status != 201:
        raise Failed(f"the service: {answer}")
    run = client.detach("preview", ["node", "/workspace/service.js", str(PORT)])
    until(lambda: b"ready" in client.output("preview", run), "the service listens")
    [pid] = b.server.inits()
    inside = [peers.need("nsenter"), f"--net=/proc/{pid}/ns/net"]
    host = f"{PORT}-{box['id']}.localhost"
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(rate([*wrk, "-H", f"Host: {host}", f"{b.server.url}/"]))
        theirs.append(rate([*inside, *wrk, f"http://127.0.0.1:{PORT}/"]))
    b.add(f"preview of a node service, {CLIENTS} connections", statistics.median(ours), "req/s", "ratio >= 0.5",
          "the service itself, in its network namespace", statistics.median(theirs), more_is_better=True)
    client.close()


FIGURES = {"preview": preview}
