# SPDX-License-Identifier: Apache-2.0
"""What a create says of the sandbox: secrets, the image's own command, who and where."""
import os
import shutil
import sqlite3
import stat
from pathlib import Path

import pytest

from harness.server import IMAGES

PASSWORD = "correct horse battery staple"


def patch(client, name, body):
    answer = client.request("PATCH", f"/sandbox/{name}", body)
    assert answer.status == 200, answer
    return answer.json()


def everywhere(data):
    """Every byte that the server keeps, but for the sandboxes' own disks."""
    for here, dirs, files in os.walk(data):
        dirs[:] = [d for d in dirs if d not in ("engine", "images", "trash")]
        for name in files:
            path = Path(here, name)
            if stat.S_ISREG(path.lstat().st_mode) and path.stat().st_size < 64 << 20:
                yield path, path.read_bytes()


def test_secrets_are_inside_and_nowhere_else(server, client):
    box = client.create("box", secrets={"TOKEN": PASSWORD, "LEVEL": "1"}, environmentVars={"LEVEL": "0", "SIZE": "2"},
                        startCommand="echo started ${#TOKEN}; sleep 1000")
    assert box["secrets"] == {"TOKEN": None, "LEVEL": None} and box["environmentVars"] == {"LEVEL": "0", "SIZE": "2"}
    assert client.sh("box", "echo $TOKEN $LEVEL $SIZE") == f"{PASSWORD} 1 2\n"
    answer = client.post("/sandbox/box/exec", {"command": "echo $LEVEL ${#TOKEN}", "env": {"LEVEL": "3"}})
    assert answer.json()["stdout"] == f"3 {len(PASSWORD)}\n", "the command's own is on top"
    assert f"started {len(PASSWORD)}\n" in client.get("/sandbox/box/logs").json()["logs"]
    fork = client.post("/sandbox/box/fork", {"name": "fork", "secrets": {"LEVEL": "9"}})
    assert fork.status == 201 and fork.json()["secrets"] == {"TOKEN": None, "LEVEL": None}
    assert client.sh("fork", "echo ${#TOKEN} $LEVEL") == f"{len(PASSWORD)} 9\n", "a fork has them too"

    assert patch(client, "box", {"secrets": {"LEVEL": None, "NEW": "n"}})["secrets"] == {"TOKEN": None, "NEW": None}
    assert client.sh("box", "echo $LEVEL $NEW ${#TOKEN}") == f"0 n {len(PASSWORD)}\n"
    assert patch(client, "box", {"secrets": {"TOKEN": "short"}})["secrets"] == {"TOKEN": None, "NEW": None}
    assert client.sh("box", "echo $TOKEN") == "short\n"

    keyed = client.request("POST", "/sandbox", {"name": "once", "secrets": {"TOKEN": PASSWORD}},
                           headers={"Idempotency-Key": "k1"})
    assert keyed.status == 201 and PASSWORD not in keyed.body.decode()
    for path in ("/sandbox", "/sandbox/box", "/sandbox/box/exec", "/audit"):
        assert PASSWORD not in client.get(path).body.decode(), path
    # The first command printed it, which is its own affair: its log goes.
    printed = client.get("/sandbox/box/exec").json()["executions"]
    for one in printed:
        client.delete(f"/sandbox/box/exec/{one['id']}")
    for path, data in everywhere(server.data):
        assert PASSWORD.encode() not in data, path
    assert PASSWORD not in server.log(100_000)
    key = Path(server.data, "secrets.key").stat()
    assert stat.S_IMODE(key.st_mode) == 0o600 and key.st_size == 32
    assert key.st_uid == Path(server.data, "cay.db").stat().st_uid


def test_a_secret_that_was_changed_is_told(fresh):
    server = fresh()
    server.start()
    client = server.client()
    client.create("box", secrets={"TOKEN": PASSWORD})
    assert client.sh("box", "echo ${#TOKEN}") == f"{len(PASSWORD)}\n"
    server.stop()
    Path(server.data, "secrets.key").write_bytes(os.urandom(32))
    server.start()
    client = server.client()
    answer = client.post("/sandbox/box/exec", {"command": "true"})
    assert answer.status == 500 and answer.error["code"] == "SECRET_UNREADABLE" and "TOKEN" in answer.error["message"]
    assert PASSWORD not in answer.body.decode()
    patch(client, "box", {"secrets": {"TOKEN": "again"}})
    assert client.sh("box", "echo $TOKEN") == "again\n", "set again, it is well"
    with sqlite3.connect(os.path.join(server.data, "cay.db")) as db:
        (meta,) = db.execute("SELECT meta_data FROM sandboxes WHERE name = 'box'").fetchone()
        at = meta.index('"TOKEN":"') + 20
        db.execute("UPDATE sandboxes SET meta_data = ? WHERE name = 'box'",
                   (meta[:at] + ("A" if meta[at] != "A" else "B") + meta[at + 1:],))
    db.close()
    assert client.post("/sandbox/box/exec", {"command": "true"}).error["code"] == "SECRET_UNREADABLE"
    assert client.delete("/sandbox/box").status == 200, "it can be removed all the same"


@pytest.fixture
def images(fresh, tmp_path):
    """Makes a server with an image store of its own: busybox, with settings."""
    base = [line for line in Path(IMAGES, "refs", "busybox").read_text().splitlines() if not line.startswith("cmd=")]
    refs, layers = tmp_path / "refs", tmp_path / "layers"
    refs.mkdir()
    layers.mkdir()
    for line in base:
        if line.startswith("layers="):
            shutil.copytree(os.path.join(IMAGES, "layers", line.removeprefix("layers=")),
                            layers / line.removeprefix("layers="), symlinks=True)

    def add(name, *lines):
        (refs / name).write_text("\n".join([*base, *lines]) + "\n")

    add("node:20-bookworm")  # or the server would build it
    return add, lambda: fresh("--images", str(tmp_path))


def test_the_images_own_command(images):
    add, make = images
    add("both", "entrypoint=/bin/echo", "entrypoint=from the image:", "cmd=a b", "cmd=c")
    add("entry", "entrypoint=/bin/echo", "entrypoint=only")
    add("cmd", "cmd=echo", "cmd=old")
    add("none")
    server = make()
    server.start()
    client = server.client()
    for image, said in (("both", "from the image: a b c\n"), ("entry", "only\n"), ("cmd", "old\n")):
        box = client.create(image, dockerImage=image, startCommand="image", persistent=True)
        assert box["startCommand"] == "image"
        output = f"/sandbox/{image}/exec/%s/output"
        assert client.get(output % box["startExecutionId"] if "startExecutionId" in box else
                          output % client.sandbox(image)["startExecutionId"], follow="true").body.decode() == said
    assert client.post("/sandbox/both/stop", {"graceMs": 0}).status == 200
    assert client.post("/sandbox/both/start").status == 200
    again = client.sandbox("both")["startExecutionId"]
    assert client.get(f"/sandbox/both/exec/{again}/output", follow="true").body == b"from the image: a b c\n"
    answer = client.post("/sandbox", {"name": "none", "dockerImage": "none", "startCommand": "image"})
    assert (answer.status, answer.error["details"]["field"]) == (400, "startCommand"), answer
    assert "none" not in client.names(include_terminated="true") and len(server.inits()) == 3
    client.close()


@pytest.mark.parametrize("extra", [{}, {"startCommand": "sleep 1000"}], ids=["alone", "start command"])
@pytest.mark.parametrize("field, value", [("user", "nobody-here"), ("user", "70000"), ("workdir", "/no/such"),
                                          ("workdir", "/etc/passwd"), ("workdir", "/root")])
def test_who_and_where_are_looked_at(server, client, field, value, extra):
    answer = client.post("/sandbox", {"name": "nowhere", field: value, **extra})
    assert (answer.status, answer.error["code"], answer.error["details"]["field"]) == \
        (400, "VALIDATION_ERROR", field), answer
    assert client.names(include_terminated="true").count("nowhere") == 0 and server.inits() == []
    assert "nowhere" not in str(server.traces())


def test_who_and_where_that_are_there(client):
    client.create("a", user="root", workdir="/root")
    assert client.sh("a", "id -un; pwd") == "root\n/root\n"
    client.create("b", user="www-data", workdir="/tmp/")
    assert client.sh("b", "id -un; pwd") == "www-data\n/tmp\n"
    client.create("c", user="1234")
    assert client.sh("c", "id -u") == "1234\n"


def test_track_is_kept(client):
    assert client.create("box", track="files")["track"] == "files"
    assert patch(client, "box", {"track": "off"})["track"] == "off"
    assert client.create("plain")["track"] == "off"
