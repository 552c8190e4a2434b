# SPDX-License-Identifier: Apache-2.0
"""cay on a Docker Engine beside that Engine's own API: the same container, made by hand on a connection that is kept."""
import json
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor

import peers
from bench import ROUNDS
from harness.dockerd import Connection, call
from harness.meddler import Meddler
from harness.server import Server

STEPS = ("create", "exec", "delete")
COUNT = 8 * ROUNDS
SPEC = {"image": "busybox", "memoryGB": 0.125}
CROWD = 100


class Raw:
    """What a client of the Engine would do for the same."""

    def __init__(self, socket, like):
        self.conn = Connection(socket)
        config = like["Config"]
        self.body = {"Image": config["Image"], "Entrypoint": config["Entrypoint"], "User": config["User"],
                     "HostConfig": like["HostConfig"]}
        self.mount = like["HostConfig"]["Mounts"][0]

    def call(self, method, path, body=None, wanted=(200, 201, 204)):
        self.conn.request(method, "/v1.41" + path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = self.conn.getresponse()
        data = answer.read()
        assert answer.status in wanted, (path, answer.status, data)
        return json.loads(data) if data and answer.headers.get("Content-Type") == "application/json" else None

    def create(self):
        self.mount["Source"] = self.volume = f"bench-{os.urandom(8).hex()}"
        self.id = self.call("POST", "/containers/create", self.body)["Id"]
        self.call("POST", f"/containers/{self.id}/start")

    def exec(self):
        ident = self.call("POST", f"/containers/{self.id}/exec", {"Cmd": ["/bin/true"], "AttachStdout": True})["Id"]
        self.call("POST", f"/exec/{ident}/start", {"Detach": False})
        assert self.call("GET", f"/exec/{ident}/json")["ExitCode"] == 0

    def delete(self):
        self.call("DELETE", f"/containers/{self.id}?force=true")
        self.call("DELETE", f"/volumes/{self.volume}")


class Cay:
    def __init__(self, client):
        self.client = client

    def create(self):
        self.id = self.client.create(**SPEC)["id"]

    def exec(self):
        assert self.client.exec(self.id, ["true"])["exitCode"] == 0

    def delete(self):
        assert self.client.delete(f"/sandbox/{self.id}").status == 200


def timed(one, took):
    for step in STEPS:
        began = time.monotonic()
        getattr(one, step)()
        took[step].append((time.monotonic() - began) * 1e3)


def docker(b):
    if not b.docker:
        raise peers.Unavailable(b.docker_missing)
    with Meddler(b.docker.socket) as meddler:
        calls = counted(b, meddler)
    with Server(env={"CAY_PROVIDER": "docker", "CAY_DOCKER_HOST": f"unix://{b.docker.socket}"}) as server:
        ours, theirs = {s: [] for s in STEPS}, {s: [] for s in STEPS}
        client = server.client()
        like = client.create(**SPEC)
        raw = Raw(b.docker.socket, json.loads(b.docker.curl(f"http://d/containers/cay-{like['id']}/json")))
        cay = Cay(client)
        for i in range(COUNT):  # whoever is first meets another machine than whoever is second
            for one, took in ((cay, ours), (raw, theirs))[::1 if i % 2 else -1]:
                timed(one, took)
        for step in STEPS:
            b.add(f"on Docker: {step}, p50", statistics.median(ours[step]), "ms", "<= 1.15 x, ratio >= 0.87",
                  "the Engine's own API, the same container", statistics.median(theirs[step]))
    for step, (count, least) in calls.items():
        b.add(f"on Docker: calls of the Engine for {step}", count, "calls", "", "by hand", least)


def counted(b, meddler):
    least = {"create": 2, "exec": 3, "delete": 2}
    with Server(env={"CAY_PROVIDER": "docker", "CAY_DOCKER_HOST": meddler.host}) as server:
        server.docker = f"unix://{b.docker.socket}"
        cay = Cay(server.client())
        for step in STEPS:
            getattr(cay, step)()  # the image is there and fitted from now on
        found = {}
        for step in STEPS:
            before = len(meddler.seen)
            getattr(cay, step)()
            asked = [c for c in meddler.seen[before:] if c[1] not in ("/_ping", "/events")]
            found[step] = len(asked), least[step]
        return found


def crowd(b):
    """Creates at once, then deletes at once."""
    if not b.docker:
        raise peers.Unavailable(b.docker_missing)
    host = f"unix://{b.docker.socket}"
    with Server(env={"CAY_PROVIDER": "docker", "CAY_DOCKER_HOST": host}) as server, ThreadPoolExecutor(CROWD) as pool:
        server.client().delete(f"/sandbox/{server.client().create(**SPEC)['id']}")  # the image is there and fitted from now on
        began = time.monotonic()
        made = list(pool.map(lambda _: server.client(timeout=300).post("/sandbox", SPEC), range(CROWD)))
        took = time.monotonic() - began
        gone = list(pool.map(lambda a: server.client(timeout=300).delete(f"/sandbox/{a.json().get('id', '-')}"), made))
        failed = [a for a in made if a.status != 201] + [a for a in gone if a.status != 200]
        left = [*call(host, "GET", "/containers/json?all=true")[1], *(call(host, "GET", "/volumes")[1]["Volumes"] or [])]
    for answer in failed[:3]:
        print(answer)
    b.add(f"on Docker: {CROWD} creates at once", took, "s")
    b.add(f"on Docker: {CROWD} creates at once, errors of them and of their deletes", len(failed), "", "= 0")
    b.add(f"on Docker: {CROWD} creates at once, containers and volumes left", len(left), "", "= 0")


FIGURES = {"docker": docker, "docker-crowd": crowd}
