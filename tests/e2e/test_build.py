# SPDX-License-Identifier: Apache-2.0
"""Images that are built when somebody asks for that: by a recipe of the server's, or by one's own; told as they go on,
given up, and refused."""
import fcntl
import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from harness import builds
from harness.registry import small_store
from harness.server import CAY, IMAGES
from harness.terminal import said_to_terminal
from harness.wait import stretch, until


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    top = tmp_path_factory.mktemp("build")
    (top / "recipes").mkdir()
    (top / "recipes/a").write_text(builds.tiny("ours:1"))
    (top / "recipes/b").write_text(builds.tiny("ours:2"))
    return Path(small_store(top / "images", IMAGES)), top / "recipes"


@pytest.fixture(scope="module")
def options(places):
    return ["--images", str(places[0]), "--recipes", str(places[1]), "--pull", "never"]


def text(places, name):
    return (places[0] / "refs" / name.replace("/", "%2F")).read_text()


def run(client, image, command):
    box = client.create(None, image=image)
    out = client.sh(box["id"], command)
    client.delete(f"/sandbox/{box['id']}")
    return out


def test_by_name(client, places):
    answer = client.post("/images/build", {"image": "ours:1"})
    assert answer.status == 202 and answer.headers["Location"] == f"/api/v1/jobs/{answer.json()['id']}", answer
    events = builds.follow(client, answer.json()["id"])
    assert [e.name for e in events[-2:]] == ["progress", "end"], events
    notes = [e.data["note"] for e in events if e.data["note"]]
    assert any("Debian packages busybox-static" in note for note in notes) and "done, layer" in notes[-1], notes
    job = events[-1].data
    assert (job["kind"], job["image"], job["status"], job["step"]) == ("build", "ours:1", "succeeded", "done")
    assert client.get("/images/ours:1").json()["source"] == "recipe"
    assert run(client, "ours:1", "echo $GREETING") == "hello\n"
    first = text(places, "ours:1")
    assert "already there" in builds.build(client, image="ours:1")["note"] and text(places, "ours:1") == first
    assert builds.build(client, image="ours:1", again=True)["status"] == "succeeded"
    assert text(places, "ours:1") != first
    assert builds.half_built(places[0]) == []


def test_by_ones_own_recipe(client, places):
    for greeting in ("one", "two"):  # the second takes the name
        job = builds.build(client, recipe=builds.tiny("my/tool:1", greeting))
        assert (job["image"], job["status"]) == ("my/tool:1", "succeeded"), job
        assert run(client, "my/tool:1", "echo $GREETING") == f"{greeting}\n"
    assert client.post("/images/build", {"image": "my/tool:1"}).error["code"] == "NO_RECIPE", "it is not kept"


@pytest.mark.parametrize("body, status, code, field", [
    ({}, 400, "VALIDATION_ERROR", "image"),
    ({"image": "a", "recipe": "name a\n"}, 400, "VALIDATION_ERROR", "image"),
    ({"recipe": "debian bookworm\n"}, 400, "VALIDATION_ERROR", "recipe"),
    ({"recipe": "name ../x y\n"}, 400, "VALIDATION_ERROR", "recipe"),
    ({"recipe": "name x\n" + "#" * 70000}, 400, "VALIDATION_ERROR", "recipe"),
    ({"image": "nobody:1"}, 404, "NO_RECIPE", None),
    ({"image": "ours:1", "dance": 1}, 400, "VALIDATION_ERROR", "dance")])
def test_refused(client, body, status, code, field):
    before = len(client.get("/jobs").json()["jobs"])
    answer = client.post("/images/build", body)
    assert (answer.status, answer.error["code"]) == (status, code), answer
    assert answer.error["details"].get("field") == field
    assert len(client.get("/jobs").json()["jobs"]) == before


@pytest.mark.parametrize("line, why", [
    ("foo 1", "recipe:2: no such directive: foo"), ("packages -oX=y", "packages needs names"),
    ("busybox /../../../../tmp/x", "busybox needs a path"), ("debian http://evil/", "debian needs a suite"),
    ("extract no-such-package-anywhere", "no-such-package")])
def test_a_recipe_that_is_none(client, places, line, why):
    """A recipe names packages: neither commands nor hosts nor places on the host."""
    job = builds.build(client, recipe=f"name bad:1\n{line}\nextract busybox-static\n")
    assert (job["status"], job["error"]["code"]) == ("failed", "BUILD_FAILED"), job
    assert why in job["error"]["details"]["cause"], job
    assert builds.half_built(places[0]) == [] and builds.processes(places[0]) == []
    assert not (places[0] / "refs/bad:1").exists()


def test_a_link_in_a_package_leads_nowhere(client, places):
    """/usr/share/doc of many packages has links; here the directory for busybox's links is one that is not there."""
    job = builds.build(client, recipe="name bad:2\nextract busybox-static\nbusybox /etc/none/busybox\n")
    assert job["status"] == "failed" and "no directory /etc/none" in job["error"]["details"]["cause"], job


@pytest.fixture
def held(places):
    """Another build of it holds its lock, so that ours waits."""
    with open(places[0] / "lock.ours:2", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def waits(client, job_id):
    until(lambda: "another build of it is under way" in (client.get(f"/jobs/{job_id}").json()["note"] or ""), "it waits", 30)


def test_given_up(client, places, held):
    job = client.post("/images/build", {"image": "ours:2"}).json()["id"]
    waits(client, job)
    assert client.post("/images/build", {"image": "ours:2"}).json()["id"] == job, "the same build"
    assert client.delete(f"/jobs/{job}").status == 200
    assert builds.follow(client, job)[-1].data["status"] == "cancelled"
    until(lambda: not builds.processes(places[0]), "its processes end", 15)
    assert builds.half_built(places[0]) == [] and not (places[0] / "refs/ours:2").exists()


def test_a_create_joins_a_build_and_keeps_it(client, places):
    """Who cancels the job does not take the image from a create that waits for it."""
    with open(places[0] / "lock.ours:2", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert client.post("/sandbox", {"name": "box", "image": "ours:2", "memoryGB": 0.125}, wait="false").status == 202
        job = until(lambda: [j for j in client.get("/jobs").json()["jobs"] if j["status"] == "running"], "a job")[0]["id"]
        waits(client, job)
        assert client.post("/images/build", {"image": "ours:2"}).json()["id"] == job
        client.delete(f"/jobs/{job}")
    until(lambda: client.sandbox("box")["status"] == "RUNNING", "it runs", 60)


def test_the_other_dialect_waits_as_well(client, places):
    (places[1] / "d").write_text(builds.tiny("ours:4"))
    (places[1] / "e").write_text("name broken:1\nextract no-such-package-anywhere\n")
    made = client.request("POST", "/api/sandbox", {"image": "ours:4", "options": {"memoryLimit": "128m"}})
    assert made.status == 201 and made.json()["status"] == "created", made
    assert made.headers["Location"] == f"/api/sandbox/{made.json()['containerId']}"
    failed = client.request("POST", "/api/sandbox", {"image": "broken:1", "options": {"memoryLimit": "128m"}})
    assert (failed.status, failed.error["code"]) == (502, "CONTAINER_CREATION_FAILED"), failed
    assert "no-such-package" in failed.error["details"]["cause"], failed
    assert len(client.names()) == 1


def test_batch_of_what_must_be_built(client, places):
    (places[1] / "c").write_text(builds.tiny("ours:3"))
    with client.stream("POST", "/batch", {"create": {"count": 3, "spec": {"image": "ours:3", "memoryGB": 0.125}},
                                          "commands": [{"command": "echo $GREETING"}]}) as stream:
        lines = list(stream.records())
    assert [line["stdout"] for line in lines if line["type"] == "result"] == ["hello\n"] * 3, lines


def test_who_may(places, fresh):
    server = fresh("--images", str(places[0]), "--recipes", str(places[1]), "--auth", "keys").start()
    server.cay("account", "create", "ann")
    client = server.client(token=server.key("--account", "ann", "--scopes", "write"))
    assert builds.build(client, image="ours:1")["status"] == "succeeded"
    for body in ({"recipe": builds.tiny("mine:1")}, {"image": "ours:1", "again": True}):
        assert client.post("/images/build", body).status == 403, body
    reader = server.client(token=server.key("--account", "ann", "--scopes", "read"))
    assert reader.post("/images/build", {"image": "ours:1"}).status == 403


# ---- by the command line ----

def cay(server, *args, **options):
    return subprocess.run([CAY, "image", "build", *args], capture_output=True, text=True, timeout=stretch(60),
                          env={**os.environ, "CAY_URL": server.url}, **options)


def test_plain_lines_in_a_pipe(server, places, tmp_path):
    done = cay(server, "--again", "ours:1")
    assert (done.returncode, done.stdout) == (0, "ours:1\n"), done
    lines = done.stderr.splitlines()
    assert lines[-1] == "ours:1: done" and any("done, layer" in line for line in lines) and "\r" not in done.stderr, lines
    recipe = tmp_path / "recipe"
    recipe.write_text(builds.tiny("typed:1"))
    assert cay(server, "--file", str(recipe)).stdout == "typed:1\n"
    assert cay(server, "--file", "-", input=builds.tiny("typed:2")).stdout == "typed:2\n"
    failed = cay(server, "nobody:1")
    assert failed.returncode == 1 and "NO_RECIPE" in failed.stderr
    assert cay(server).returncode != 0 and cay(server, "ours:1", "--file", str(recipe)).returncode != 0
    bad = cay(server, "--file", "-", input="name x\nfoo\n")
    assert bad.returncode == 1 and "no such directive: foo" in bad.stderr, bad


def test_one_line_on_a_terminal(server):
    with tempfile.TemporaryFile() as out:
        seen = said_to_terminal(server, "image", "build", "--again", "ours:1", stream="stderr", stdout=out)
        out.seek(0)
        assert out.read() == b"ours:1\n"
    assert b"\r\x1b[Kours:1  image ours:1: " in seen and seen.count(b"\n") == 1, seen


def test_interrupted(server, client, places, held):
    child = subprocess.Popen([CAY, "image", "build", "ours:2", "--again"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                             env={**os.environ, "CAY_URL": server.url})
    for line in child.stderr:
        if "another build" in line:
            break
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=stretch(20))
    assert child.returncode == 130
    newest = client.get("/jobs").json()["jobs"][0]["id"]
    assert builds.follow(client, newest)[-1].data["status"] == "cancelled"
    until(lambda: not builds.processes(places[0]), "its processes end", 15)
