# SPDX-License-Identifier: Apache-2.0
"""Bad days of the Docker Engine: killed, hanging, cut off, full, and answers that are none. What can be kept is kept,
what is lost is said to be, and what is somebody else's is not touched."""
import os
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import dockerd as docker
from harness import meddler as between
from harness.meddler import Meddler
from harness.server import Server
from harness.wait import stretch, until

pytestmark = pytest.mark.skipif(not shutil.which("dockerd", path=os.environ["PATH"] + ":/usr/sbin"), reason="no dockerd")
SMALL = {"memoryGB": 0.125, "image": "busybox"}
HOUSEKEEPING = ("/_ping", "/events", "/containers/json", "/images/json", "/volumes")


@pytest.fixture
def meddler(dockerd):
    with Meddler(dockerd.host) as meddler:
        yield meddler


@pytest.fixture
def server(dockerd, meddler):
    """It speaks by way of the meddler, who is told to do nothing before it ends."""
    with serve(meddler.host) as server:
        server.client().create("warm", **SMALL)  # the image is there and fitted
        server.client().delete("/sandbox/warm")
        yield server
        meddler.rule = lambda method, path: None
        meddler.let_go.set()


def serve(host):
    return Server(env={"CAY_PROVIDER": "docker", "CAY_DOCKER_HOST": host})


def ours(dockerd, server):
    return {c["Labels"]["cay.id"] for c in docker.containers(dockerd.host, server.instance())}


def rows(server):
    return {s["id"] for s in server.client().get("/sandbox", per_page=1000).json()["sandboxes"]}


def agree(dockerd, server):
    """Record and reality are the same, and no volume is nobody's."""
    have = ours(dockerd, server)
    volumes = {v["Name"] for v in docker.call(dockerd.host, "GET", "/volumes")[1]["Volumes"] or []
               if (v["Labels"] or {}).get("cay.instance") == server.instance()}
    return have == rows(server) and volumes == {f"vo-{ident[3:]}" for ident in have}


def once(method, part, what):
    """A rule for the first such exchange."""
    done = []

    def rule(asked, path):
        if asked == method and part in path and not done:
            done.append(path)
            return what
        return None

    return rule


STEPS = [("POST", "/containers/create"), ("POST", "/start"), ("GET", "/json"), ("GET", "/images/")]
ANSWERS = [between.LOSE, between.CUT, between.HALF, between.GARBAGE, between.LONG, between.SHORT, between.BAD_CHUNK, between.NO_JSON]


@pytest.mark.parametrize("step", STEPS, ids=[path for _, path in STEPS])
def test_a_create_whose_answers_are_none(dockerd, meddler, server, step):
    """F-08, F-35: it succeeds or fails with a provider's code; nothing is left, and the next one is well."""
    for what in ANSWERS:
        meddler.rule = once(*step, what)
        answer = server.client().post("/sandbox", {"name": "cut", **SMALL})
        meddler.rule = lambda method, path: None
        assert answer.status in (201, 502, 503), (what, answer)
        if answer.status == 201:
            assert server.client().delete("/sandbox/cut").status == 200
        until(lambda: agree(dockerd, server), f"nothing is left: {what}", 30, 0.1)
    server.client().create("well", **SMALL)
    assert server.client().sh("well", "echo yes") == "yes\n"


def test_a_repeated_create_finds_the_first(dockerd, meddler, server):
    """F-08: the answer is lost, the same key comes again: one sandbox."""
    meddler.rule = once("POST", "/start", between.LOSE)


    def ask():
        return server.client().request("POST", "/sandbox", {"name": "twice", **SMALL}, headers={"Idempotency-Key": "once"})
    assert ask().status in (201, 503)
    again = until(lambda: (a := ask()).status == 201 and a, "it is made", 30, 0.2)
    assert ours(dockerd, server) == {again.json()["id"]}
    assert server.client().sh("twice", "ls /sys/class/net; cat /proc/net/dev | grep -c lo:") == "lo\n1\n"


def test_half_a_list_removes_nothing(dockerd, meddler, server):
    """F-11: snapshots, volumes and sandboxes outlive answers that do not tell of them."""
    client = server.client()
    box = client.create("stays", persistent=True, **SMALL)
    snapshot = client.post("/sandbox/stays/snapshot", {}).json()
    lies = [(200, {}), (200, None), (200, "no list"), (500, {"message": "no"}), between.NO_JSON, between.HALF]
    for path in ("/containers/json", "/images/json", "/volumes"):
        for lie in lies:
            told = []

            def rule(method, asked, path=path, lie=lie, told=told):
                if method == "GET" and asked == path:
                    told.append(asked)
                    return lie
                return None
            meddler.rule = rule
            meddler.cut_all()  # the stream of events as well: it is taken up again, and everything is looked at
            until(lambda: told, f"somebody asks for {path}", 30, 0.05)
            meddler.rule = lambda method, path: None
    meddler.cut_all()
    until(lambda: server.client().get("/health").status == 200, "healthy", 30)
    assert client.sandbox("stays")["status"] == "RUNNING"
    assert client.get(f"/snapshots/{snapshot['id']}").status == 200
    assert ours(dockerd, server) == {box["id"]}
    assert client.delete(f"/snapshots/{snapshot['id']}").status == 200


def test_a_destroy_that_fails(dockerd, meddler, server):
    """F-12: the row stays as it is, and the next delete works."""
    client = server.client()
    box = client.create("stuck", **SMALL)
    meddler.rule = lambda method, path: (500, {"message": "device is busy"}) if method == "DELETE" else None
    answer = client.delete("/sandbox/stuck")
    assert answer.status in (500, 502) and "busy" in str(answer.json()), answer
    assert client.sandbox("stuck")["id"] == box["id"] and ours(dockerd, server) == {box["id"]}
    meddler.rule = lambda method, path: None
    assert client.delete("/sandbox/stuck").status in (200, 404)
    until(lambda: agree(dockerd, server), "it is gone", 30, 0.1)


@pytest.mark.limit(180)
@pytest.mark.parametrize("how", [between.HANG, between.TRICKLE], ids=["silent", "slow"])
def test_an_engine_that_hangs(dockerd, meddler, server, how):
    """F-07, F-34, F-35: health tells within ten seconds, however much comes meanwhile; commands and files go on."""
    client = server.client()
    client.create("island", **SMALL)
    meddler.rule = lambda method, path: how
    began = time.monotonic()
    health = client.get("/health")
    assert time.monotonic() - began < stretch(10)
    problem = health.json()["provider"]["problems"][0]
    assert health.status == 503 and "in time" in problem["why"] and "log" in problem["fix"], problem
    assert client.sh("island", "echo well") == "well\n"
    assert client.sandbox("island")["status"] == "RUNNING"
    meddler.rule = lambda method, path: None
    meddler.let_go.set()
    until(lambda: client.get("/health").status == 200, "healthy again", 30)
    assert client.sh("island", "echo well") == "well\n"


@pytest.mark.limit(180)
def test_what_hangs_is_given_up(dockerd, meddler, server):
    """F-07: the Engine makes it, but too late: 504, and it is not left behind."""
    meddler.rule = once("POST", "/start", between.HANG)
    answer = server.client(timeout=100).post("/sandbox", {"name": "late", **SMALL})
    assert answer.status == 504, answer
    until(lambda: agree(dockerd, server), "nothing is left", 60, 0.2)


def kept(client):
    """The file of a sandbox that may be down, or not known yet to be."""
    if client.sandbox("before")["status"] != "RUNNING":
        assert client.post("/sandbox/before/start").status == 200
    answer = client.post("/sandbox/before/exec", {"command": "cat /workspace/f"})
    assert answer.status in (200, 409), answer
    return answer.status == 200 and answer.json()["stdout"]


@pytest.mark.limit(240)
@pytest.mark.parametrize("live_restore", [False, True])
def test_dockerd_dies_in_the_middle(live_restore):
    """F-34: over creates, commands, and deletes. What goes on goes on; the rest is told, and nothing is left."""
    with docker.Dockerd(*["--live-restore"] if live_restore else []) as dockerd, serve(dockerd.host) as server:
        client = server.client()
        client.create("before", persistent=True, **SMALL)
        client.sh("before", "echo kept > /workspace/f")
        client.create("going", **SMALL)
        command = client.detach("before", "echo begun; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo over; exit 4")
        until(lambda: client.output("before", command) == b"begun\n", "it runs")
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(server.client().post, "/sandbox", {"name": f"cut-{i}", **SMALL}) for i in range(3)]
            gone = pool.submit(server.client().delete, "/sandbox/going")
            until(lambda: len(ours(dockerd, server)) > 2, "they have begun", 20, 0.01)
            dockerd.kill()
            answers = [a.result() for a in [*asked, gone]]
        assert {a.status for a in answers} <= {200, 201, 502, 503, 504}, answers
        health = until(lambda: (h := client.get("/health")).status == 503 and h.json(), "unhealthy", 10)
        assert "systemctl start docker" in health["provider"]["problems"][0]["fix"], health
        assert client.sh("before", "touch /tmp/go; echo still here") == "still here\n", "no Engine is needed for that"
        until(lambda: client.execution("before", command)["status"] == "exited", "it ends", 20)
        dockerd.start()
        until(lambda: client.get("/health").status == 200, "healthy again", 60)
        until(lambda: ours(dockerd, server) <= rows(server), "no container without a record", 90, 0.5)
        assert client.execution("before", command)["exitCode"] == 4
        assert client.output("before", command) == b"begun\nover\n"
        if live_restore:
            until(lambda: client.sandbox("before")["status"] == "RUNNING", "it went on", 60)
        assert until(lambda: kept(client), "what died with it can be started", 60, 0.2) == "kept\n"
        after = client.create("after", persistent=True, **SMALL)
        assert client.sh("after", "echo well") == "well\n"
        assert docker.call(dockerd.host, "POST", f"/containers/cay-{after['id']}/kill")[0] == 204
        until(lambda: client.sandbox("after")["status"] != "RUNNING", "it is listened to again", 10)
        for ident in rows(server):
            answer = client.delete(f"/sandbox/{ident}", preserveVolume="false")
            assert answer.status in (200, 404), answer  # the deletion that was cut may be done by now
        until(lambda: agree(dockerd, server), "nothing is left", 60, 0.5)


def test_a_command_is_lost_with_its_container(dockerd, server):
    """Killed by a stranger: the command has no exit, and nobody makes one up."""
    client = server.client()
    box = client.create("shot", persistent=True, **SMALL)
    command = client.detach("shot", "echo begun; sleep 600")
    until(lambda: client.output("shot", command) == b"begun\n", "it runs")
    assert docker.call(dockerd.host, "POST", f"/containers/cay-{box['id']}/kill")[0] == 204
    until(lambda: client.sandbox("shot")["status"] != "RUNNING", "it is noticed", 30)
    about = client.execution("shot", command)
    assert about["status"] == "lost" and about["exitCode"] is None, about
    assert client.output("shot", command) == b"begun\n"
    assert client.post("/sandbox/shot/start").status == 200
    assert client.sh("shot", "echo back") == "back\n"


def test_it_is_removed_by_hand(dockerd, server):
    """F-13: in the middle of a command. It is noticed, the command is lost, and deleting it is no error."""
    client = server.client()
    box = client.create("gone", **SMALL)
    command = client.detach("gone", "echo begun; sleep 600")
    until(lambda: client.output("gone", command) == b"begun\n", "it runs")
    assert docker.call(dockerd.host, "DELETE", f"/containers/cay-{box['id']}?force=true")[0] == 204
    until(lambda: client.get(f"/sandbox/{box['id']}").json().get("status") in ("ERROR", "TERMINATED"), "it is noticed", 30)
    about = client.execution(box["id"], command)
    assert about["status"] == "lost" and about["exitCode"] is None, about
    assert client.delete(f"/sandbox/{box['id']}").status in (200, 404)
    until(lambda: agree(dockerd, server), "nothing is left", 10, 0.1)


def test_its_image_goes_while_it_runs(dockerd, server):
    """The name by the operator's hand, and what we made of it by force: the sandbox goes on, stops, starts and forks; the
    next one has all of it made again."""
    client = server.client()
    client.create("orphan", persistent=True, **SMALL)
    for image in docker.call(dockerd.host, "GET", "/images/json")[1]:
        for tag in image["RepoTags"] or []:
            if tag.startswith(("cay-fit:", "busybox:")):
                docker.call(dockerd.host, "DELETE", f"/images/{tag}?force=true")
    assert client.sh("orphan", "echo on") == "on\n"
    assert client.post("/sandbox/orphan/stop").status == 200
    assert client.post("/sandbox/orphan/start").status == 200
    assert client.sh("orphan", "echo on") == "on\n"
    client.create("next", **SMALL)
    assert client.sh("next", "echo on") == "on\n"


def test_strangers_are_left_alone(dockerd, meddler, server):
    """F-14: by name, by label, by another instance; and a volume, and an image."""
    client = server.client()
    box = client.create("mine", **SMALL)
    image = docker.call(dockerd.host, "GET", f"/containers/cay-{box['id']}/json")[1]["Config"]["Image"]
    labels = [{"cay.id": "sb-11111111111111111111"},
              {"cay.id": "sb-22222222222222222222", "cay.instance": "0123456789abcdef"},
              {"cay.id": box["id"], "cay.instance": server.instance()}]  # what runs from a snapshot by hand has them
    made = [docker.call(dockerd.host, "POST", f"/containers/create?name=stranger-{i}",
                        {"Image": image, "Entrypoint": ["/.cay/cay-init"], "Labels": one})[1]["Id"]
            for i, one in enumerate(labels)]
    docker.call(dockerd.host, "POST", "/volumes/create", {"Name": "vo-33333333333333333333"})
    meddler.cut_all()
    server.restart()
    assert server.client().delete("/sandbox/mine").status == 200
    for ident in made:
        assert docker.call(dockerd.host, "GET", f"/containers/{ident}/json")[0] == 200
        assert docker.call(dockerd.host, "DELETE", f"/containers/{ident}?force=true")[0] == 204
    assert docker.call(dockerd.host, "DELETE", "/volumes/vo-33333333333333333333")[0] == 204


def test_files_with_holes(dockerd, server):
    """A copy has no holes: a terabyte that is none is not written out."""
    client = server.client()
    client.create("hollow", diskSizeGB=0.1, **SMALL)
    client.sh("hollow", "for i in 1 2 3 4; do truncate -s 50M /workspace/hole$i; done")
    answer = client.post("/sandbox/hollow/snapshot", {})
    assert answer.status == 201, answer  # holes in /workspace are copied as holes
    assert client.delete(f"/snapshots/{answer.json()['id']}").status == 200
    client.sh("hollow", "for i in 1 2 3 4; do truncate -s 50M /tmp/hole$i; done")
    answer = client.post("/sandbox/hollow/fork", {"name": "f"})
    assert answer.status == 409 and answer.error["code"] == "DISK_FULL", answer
    left = [i for i in docker.call(dockerd.host, "GET", "/images/json")[1]
            if any(t.startswith("cay-snap-") for t in i["RepoTags"] or [])]
    assert left == [], left


def test_a_disk_that_is_full(dockerd, meddler, server):
    """Told as such, whichever way Docker says it; nothing is left."""
    full = "write /var/lib/docker/x: no space left on device"
    for rule in (once("POST", "/containers/create", (500, {"message": full})), once("POST", "/start", (500, {"message": full}))):
        meddler.rule = rule
        answer = server.client().post("/sandbox", {"name": "full", **SMALL})
        assert answer.error["code"] == "DISK_FULL", answer
        until(lambda: agree(dockerd, server), "nothing is left", 30, 0.1)


@pytest.fixture
def cramped():
    """A dockerd whose directory has an end, and that directory."""
    place = Path(tempfile.mkdtemp(prefix="cay-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96m", "none", place], check=True)
    try:
        with docker.Dockerd(place=place) as dockerd:
            yield dockerd, place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        place.rmdir()


@pytest.mark.limit(240)
def test_a_disk_that_is_full_indeed(cramped):
    """Of what is begun nothing is left; what runs goes on, and is deleted; with room again all is well."""
    dockerd, place = cramped
    with serve(dockerd.host) as server:
        client = server.client()
        client.create("before", **SMALL)
        with open(place / "fill", "wb", buffering=0) as fill, pytest.raises(OSError):
            while True:
                fill.write(bytes(1 << 16))
        for _ in range(3):
            answer = client.post("/sandbox", {"name": "full", **SMALL})
            assert answer.error["code"] == "DISK_FULL", answer
        assert client.sh("before", "echo on") == "on\n" and client.names() == ["before"]
        assert client.delete("/sandbox/before").status == 200
        os.unlink(place / "fill")
        until(lambda: agree(dockerd, server), "nothing is left", 60, 0.5)
        client.create("after", **SMALL)
        assert client.sh("after", "echo well") == "well\n"


def test_calls(dockerd, meddler, server):
    """How often the Engine is asked: raw, a create with its start takes 2 calls, a stop 1, a delete 1."""
    client = server.client()
    counted = {}

    def count(what, act):
        before = len(meddler.seen)
        act()
        counted[what] = [c for c in meddler.seen[before:] if c[1] not in HOUSEKEEPING]

    count("create", lambda: client.create("counted", **SMALL))
    count("exec", lambda: client.sh("counted", "true"))
    count("stop", lambda: client.post("/sandbox/counted/stop"))
    count("start", lambda: client.post("/sandbox/counted/start"))
    count("delete", lambda: client.delete("/sandbox/counted"))
    most = {"create": 4, "exec": 0, "stop": 3, "start": 4, "delete": 3}  # one of a stop may come later
    assert all(len(calls) <= most[what] for what, calls in counted.items()), counted
