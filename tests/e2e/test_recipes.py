# SPDX-License-Identifier: Apache-2.0
"""Images by recipe and by other names: built when a create needs them, once; and what an image says of its
processes holds."""
import array
import fcntl
import os
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest

from harness.engine import Engine, Refused
from harness.server import IMAGES, ROOT
from harness.wait import stretch, until

TOOL = str(ROOT / "tools/image-build")
TINY = """
# a busybox that says all that can be said
name       tiny:1
extract    busybox-static
busybox    /bin/busybox
env        PATH=/usr/local/bin:/usr/bin:/bin
env        GREETING=hello there
user       nobody
workdir    /var/tmp
stopsignal SIGINT
entrypoint /bin/echo
cmd        from the image
label      org.example.kind=tiny
"""
BROKEN = "name broken:1\nextract no-such-package-anywhere\n"
SLOT = "name tiny:2\nextract busybox-static\nbusybox /bin/busybox\nenv PATH=/bin\n"


@pytest.fixture(scope="module")
def places():
    """A store of our own, whose default image is busybox, and recipes of our own."""
    top = Path(tempfile.mkdtemp(prefix="cay-recipes-"))
    images, recipes = top / "images", top / "recipes"
    for part in ("refs", "layers", "tmp"):
        (images / part).mkdir(parents=True)
    images.chmod(0o711)
    recipes.mkdir()
    ref = Path(IMAGES, "refs/busybox").read_text()
    layer = ref.split("layers=")[1].split()[0]
    subprocess.run(["cp", "-a", f"{IMAGES}/layers/{layer}", images / "layers"], check=True)
    (images / "refs/node:20-bookworm").write_text(ref)
    for name, text in (("tiny", TINY), ("broken", BROKEN), ("other", SLOT)):
        (recipes / name).write_text(text)
    yield images, recipes
    shutil.rmtree(top)


@pytest.fixture(scope="module")
def options(places):
    images, recipes = places
    return ["--images", str(images), "--recipes", str(recipes), "--alias", "shorty=tiny:1"]


def layers(places):
    return len(list((places[0] / "layers").iterdir()))


@pytest.mark.limit(240)
def test_built_once_for_all_who_wait(server, client, places):
    before = layers(places)
    answers = []

    def create(name):
        answers.append(server.client(timeout=stretch(200)).post("/sandbox", {"name": name, "dockerImage": "tiny:1"}))

    threads = [threading.Thread(target=create, args=(f"box-{i}",)) for i in range(3)]
    for t in threads:
        t.start()
    pending = client.post("/sandbox", {"name": "later", "dockerImage": "shorty"}, wait="false")
    assert pending.status == 202 and pending.json()["status"] == "PENDING"
    for t in threads:
        t.join()
    assert [a.status for a in answers] == [201] * 3, answers
    assert {(a.json()["dockerImage"], a.json()["image"], a.json()["status"]) for a in answers} == {
        ("tiny:1", "tiny:1", "RUNNING")}
    later = until(lambda: (s := client.sandbox("later"))["status"] != "PENDING" and s, "made, or not", 60)
    assert (later["status"], later["dockerImage"], later["image"]) == ("RUNNING", "shorty", "tiny:1")
    assert layers(places) == before + 1
    assert not list((places[0] / "tmp").iterdir())


@pytest.fixture
def tiny(client, places, server):
    if not (places[0] / "refs/tiny:1").exists():
        subprocess.run([TOOL, places[1] / "tiny", places[0]], check=True, capture_output=True, timeout=stretch(60))
    return client.create("box", dockerImage="tiny:1")


def test_environment_user_and_directory_are_the_images(client, tiny):
    assert client.sh("box", "id -un; pwd; echo $GREETING") == "nobody\n/var/tmp\nhello there\n"
    said = client.post("/sandbox/box/exec", {"command": "id -un; pwd; echo $GREETING", "user": "user", "cwd": "/",
                                             "env": {"GREETING": "bye"}}).json()
    assert said["stdout"] == "user\n/\nbye\n", "unless somebody says otherwise"


def test_its_own_command(client, tiny):
    client.create("own", dockerImage="tiny:1", startCommand="image")
    until(lambda: client.get("/sandbox/own/logs").json()["logs"] == "from the image\n", "its own words")


def test_stopped_by_its_own_signal(client, tiny):
    for name, image, word in (("int", "tiny:1", "INT"), ("term", "node:20-bookworm", "TERM")):
        client.create(name, dockerImage=image, persistent=True, user="user", workdir="/workspace", startCommand=(
            "trap 'echo INT > said; exit' INT; trap 'echo TERM > said; exit' TERM; echo up; "
            "while :; do sleep 0.05; done"))
        until(lambda: client.get(f"/sandbox/{name}/logs").json()["logs"] == "up\n", "up")
        assert client.post(f"/sandbox/{name}/stop", {"graceMs": 10000}).status == 200
        assert client.post(f"/sandbox/{name}/start").status == 200
        assert client.sh(name, "cat said") == f"{word}\n"


def test_nobody_has_it(server, client):
    before = server.traces()
    refused = client.post("/sandbox", {"dockerImage": "python:3.11-slim"})
    assert refused.status == 404 and refused.error["code"] == "IMAGE_NOT_FOUND"
    assert refused.error["details"]["tried"][-1]["what"] == "registry: python:3.11-slim"
    assert refused.error["details"]["tried"][:-1] == [
        {"what": "local store: python:3.11-slim", "why": "not there"},
        {"what": "recipe: python:3.11-slim", "why": "no recipe makes it"},
        {"what": "local store: python:3.11", "why": "not there"},
        {"what": "recipe: python:3.11", "why": "no recipe makes it"}]
    assert server.traces() == before and client.names() == []


def test_recipe_that_fails(server, client, places):
    before = server.traces()
    refused = client.post("/sandbox", {"name": "box", "dockerImage": "broken:1"})
    assert refused.status == 502 and refused.error["code"] == "BUILD_FAILED", refused
    assert "no-such-package" in refused.error["details"]["cause"]
    assert server.traces() == before and client.names() == []
    assert not list((places[0] / "tmp").iterdir())


def test_deleted_while_it_is_built(server, client, places):
    """Another build of that name holds its lock, so that this one waits."""
    with open(places[0] / "lock.tiny:2", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        row = client.post("/sandbox", {"name": "box", "dockerImage": "tiny:2"}, wait="false").json()
        until(lambda: "another build of it is under way" in server.log(), "it waits", 30)
        assert client.sandbox("box")["status"] == "PENDING"
        client.delete("/sandbox/box")
        until(lambda: client.get(f"/sandbox/{row['id']}").status == 404
              or client.sandbox(row["id"])["status"] in ("ERROR", "TERMINATED"), "gone")
        client.delete("/sandbox/box")
    until(lambda: (places[0] / "refs/tiny:2").exists(), "built all the same", 60)


def test_engine_builds_recipes_alone(server, places):
    engine = Engine(server)
    assert sorted(engine.ask("build")[1].split()) == [b"=done", b"broken:1", b"tiny:1", b"tiny:2"]
    for name in ("../recipes/tiny", str(places[1] / "tiny"), "tiny", "-x", "tiny:1 x", "a" * 255):
        assert until(lambda: asked(engine, name), "room", 10) == b"=none\n", name
    engine.close()


def test_engine_bounds_builds(server, places):
    """Two wait for the lock of their image; there is no third, until they are gone."""
    with open(places[0] / "lock.tiny:3", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (places[1] / "third").write_text(SLOT.replace("tiny:2", "tiny:3"))
        engines = [Engine(server) for _ in range(3)]
        pipes = []
        for engine in engines[:2]:
            engine.send("build", image="tiny:3")
            pipes.append(socket_fd(engine))
        with pytest.raises(Refused) as refused:
            engines[2].ask("build", image="tiny:3")
        assert refused.value.name == "TOO_MANY_BUILDS"
        for fd in pipes:
            os.close(fd)
    until(lambda: b"=done" in asked(engines[2], "tiny:3"), "room again", 30)
    for engine in engines:
        engine.close()
    (places[1] / "third").unlink()


def socket_fd(engine):
    _, extra, _, _ = engine.sock.recvmsg(65536, socket.CMSG_SPACE(4))
    return array.array("i", extra[0][2][:4])[0]


def asked(engine, image):
    try:
        return engine.ask("build", image=image)[1]
    except Refused:
        return b""


BAD = [
    ("name x\nfoo 1\n", ":2: no such directive: foo"),
    ("name x\n\n# c\nname y\n", ":4: name is there twice"),
    ("name x y\n", ":1: name needs letters"),
    ("name x\ndebian ../etc\n", ":2: debian needs a suite"),
    ("name x\npackages -oX\n", ":2: packages needs names of Debian packages, not '-oX'"),
    ("name x\nenv A B\n", ":2: env needs NAME=value"),
    ("name x\nstopsignal HUP!\n", ":2: stopsignal needs a signal"),
    ("name x\nworkdir tmp\n", ":2: workdir needs a path"),
    ("name x\nnode latest\n", ":2: node needs a major version"),
    ("name x\ncmd\n", ":2: cmd needs one argument"),
    ("debian bookworm\n", ": it has no name"),
    ("name x\n", ": neither debian nor extract"),
    ("name x\nextract a\npackages bb\n", "extract needs names"),
]


@pytest.mark.parametrize("text,want", BAD, ids=[want for _, want in BAD])
def test_faults_are_told_with_their_line(tmp_path, text, want):
    recipe = tmp_path / "recipe"
    recipe.write_text(text)
    done = subprocess.run([TOOL, "--check", recipe], capture_output=True, text=True, timeout=stretch(10))
    assert done.returncode == 1 and want in done.stderr and str(recipe) in done.stderr, done.stderr


def test_ours_are_sound():
    files = sorted((ROOT / "recipes").iterdir())
    done = subprocess.run([TOOL, "--check", *files], capture_output=True, text=True, timeout=stretch(30), check=True)
    assert {"base", "busybox", "debian:bookworm", "node:18-bookworm", "node:20-bookworm", "node:22-bookworm",
            "python:3.11", "python:3.13"} <= set(done.stdout.split())


FAKES = {
    "uname": "echo $MACHINE",
    "dpkg": "echo $DEBIAN_NAME",
    "apt-get": ":",
    "apt-config": ":",
    "mmdebstrap": 'for a; do case $a in */root) mkdir -p "$a/etc/apt/apt.conf.d" ;; esac; done',
    "npm": """
for a; do last=$a; [ "$was" != --pack-destination ] || to=$a; was=$a; done
echo "$last" >>"$ASKED"
mkdir -p "$to/made/package/bin" "$to"/made/package/include/node/openssl/archs/linux-{x86_64,aarch64}
echo '{ "version": "20.1.0" }' >"$to/made/package/package.json"
echo >"$to/made/package/bin/node"
tar -czf "$to/it.tgz" -C "$to/made" package""",
}


@pytest.mark.parametrize("machine, debian, node", [("x86_64", "amd64", "x64"), ("aarch64", "arm64", "arm64")])
def test_a_recipe_follows_the_machine(tmp_path, machine, debian, node):
    """Without a network: what is asked of npm, and what the image says it is for."""
    (tmp_path / "bin").mkdir()
    for name, body in FAKES.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / "recipe").write_text("name any:1\ndebian bookworm\nnode 20\n")
    done = subprocess.run([TOOL, tmp_path / "recipe", tmp_path / "images"], capture_output=True, text=True, timeout=stretch(60),
                          env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "MACHINE": machine,
                               "DEBIAN_NAME": debian, "ASKED": f"{tmp_path}/asked"})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "asked").read_text() == f"node-linux-{node}@20\n"
    assert f"arch={debian}\n" in (tmp_path / "images/refs/any:1").read_text()
    assert [p.name for p in tmp_path.glob("images/layers/*/usr/local/include/node/openssl/archs/*")] == [f"linux-{machine}"]
