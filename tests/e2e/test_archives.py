# SPDX-License-Identifier: Apache-2.0
"""Archives: what we write is read by Docker, skopeo and umoci, and what they write by us."""
import json
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.docker import Docker
from harness.engine import Engine, Refused
from harness.layers import Layer, entry, folder, hard, link, sha256, tar
from harness.store import ImageStore


@pytest.fixture(scope="module")
def store():
    store = ImageStore()
    yield store
    store.close()


@pytest.fixture(scope="module")
def shared_server(store):
    server = store.server()
    server.start()
    yield server
    server.close()


@pytest.fixture(scope="module")
def docker():
    docker = Docker()
    yield docker
    docker.close()


@pytest.fixture
def engine(server):
    engine = Engine(server)
    yield engine
    engine.close()


def tool(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"{args[0]}: {done.stderr}"
    return done.stdout


def export(engine, path, name, snapshot=""):
    with open(path, "wb+") as file:
        engine.ask("image_export", snapshot, fds=[file.fileno()], image=name)
    return path


@pytest.fixture
def mine(engine, store):
    """An image of three layers, with what is special about layers in it."""
    low = Layer(tar(folder("data"), entry("data/gone", b"1"), entry("data/stays", b"1", uid=1000, mode=0o4755, mtime=99999),
                    folder("full"), entry("full/below", b"1")))
    top = Layer(tar(folder("data"), entry("data/.wh.gone"), entry("data/new", b"2"),
                    hard("data/twin", "data/new"), link("data/link", "../etc/passwd"), folder("full"), entry("full/.wh..wh..opq"),
                    entry("full/above", b"2"), entry("data/" + "n" * 150, b"3")))
    low.send(engine), top.send(engine)
    engine.put("mine/image:1", store.text(top.diff_id, low.diff_id, env="PATH=/bin:/usr/bin", cmd="true", user="1000", workdir="/data",
                                          stopsignal="SIGQUIT", entrypoint="/bin/busybox", created="2024-05-06T07:08:09.000Z"))
    return "mine/image:1"


LOOK = "cd /data && echo $(ls) && stat -c '%u %a %Y' stays && ls /full && test new -ef twin && readlink link"
SEEN = f"link new {'n' * 150} stays twin\n1000 4755 99999\nabove\n../etc/passwd\n"


def test_skopeo_reads_both_forms(engine, mine, tmp_path):
    path = export(engine, tmp_path / "a.tar", mine)
    for form in ("oci-archive", "docker-archive"):
        config = json.loads(tool("skopeo", "inspect", "--config", f"{form}:{path}"))
        assert config["config"] == {"User": "1000", "WorkingDir": "/data", "StopSignal": "SIGQUIT", "Env": ["PATH=/bin:/usr/bin"],
                                    "Entrypoint": ["/bin/busybox"], "Cmd": ["true"]}
        assert config["created"].startswith("2024-05-06T07:08:09") and len(config["rootfs"]["diff_ids"]) == 3
    tool("skopeo", "copy", f"oci-archive:{path}", f"dir:{tmp_path / 'dir'}")  # every digest is verified


def test_umoci_unpacks_it(engine, mine, tmp_path):
    path = export(engine, tmp_path / "a.tar", mine)
    tool("skopeo", "copy", f"oci-archive:{path}", f"oci:{tmp_path / 'layout'}:x")
    tool("umoci", "unpack", "--image", f"{tmp_path / 'layout'}:x", tmp_path / "bundle")
    root = tmp_path / "bundle" / "rootfs"
    assert sorted(os.listdir(root / "full")) == ["above"]
    assert sorted(os.listdir(root / "data")) == ["link", "new", "n" * 150, "stays", "twin"]
    assert (root / "data" / "stays").stat().st_mode & 0o7777 == 0o4755


def test_docker_loads_and_runs_it(engine, mine, docker, tmp_path):
    path = export(engine, tmp_path / "a.tar", mine)
    assert "mine/image:1" in docker.output("load", "-i", path)
    assert docker.output("run", "--rm", "--network=none", "--entrypoint", "/bin/sh", mine, "-c", LOOK) == SEEN
    about = json.loads(docker.output("inspect", mine))[0]["Config"]
    assert (about["User"], about["WorkingDir"], about["StopSignal"]) == ("1000", "/data", "SIGQUIT")


def test_an_export_is_always_the_same(engine, mine, tmp_path):
    first = export(engine, tmp_path / "a.tar", mine).read_bytes()
    assert export(engine, tmp_path / "b.tar", mine).read_bytes() == first
    with tarfile.open(tmp_path / "a.tar") as archive:
        for member in archive:
            if member.name.startswith("blobs/sha256/") and member.isfile():
                assert sha256(archive.extractfile(member).read()) == member.name.rpartition("/")[2]


def test_an_export_by_a_pipe_and_to_who_is_gone(engine, mine, tmp_path):
    whole = export(engine, tmp_path / "a.tar", mine).read_bytes()
    out, into = os.pipe()
    engine.send("image_export", fds=[into], image=mine)
    os.close(into)
    with os.fdopen(out, "rb") as pipe:
        assert pipe.read() == whole
    engine.answer()
    out, into = os.pipe()
    engine.send("image_export", fds=[into], image=mine)
    os.close(into)
    os.close(out)
    with pytest.raises(Refused):
        engine.answer()


def test_a_snapshot_becomes_an_image(engine, mine, docker, client, tmp_path):
    box = client.create("maker", image=mine)
    made = client.post(f"/sandbox/{box['id']}/exec", {"command": "id -u; echo hello > /workspace/made; rm -f /etc/group; mkdir /tmp/d; "
                                                      "rm -rf /workspace/none; ls /workspace"}).json()
    assert "made" in made["stdout"], made
    snapshot = client.post(f"/sandbox/{box['id']}/snapshot", {}).json()["id"]
    path = export(engine, tmp_path / "s.tar", "prepared:2", snapshot)
    docker.run("load", "-i", path)
    assert docker.output("run", "--rm", "--network=none", "--entrypoint", "/bin/sh", "prepared:2", "-c",
                         f"cat /workspace/made; test -d /tmp/d && {LOOK}") == "hello\n" + SEEN
    client.delete(f"/snapshots/{snapshot}")
    with pytest.raises(Refused) as e:
        export(engine, tmp_path / "t.tar", "prepared:2", snapshot)
    assert e.value.name == "SNAPSHOT_NOT_FOUND"


def test_what_is_not_there_is_not_exported(engine, tmp_path):
    with pytest.raises(Refused) as e:
        export(engine, tmp_path / "x.tar", "nobody:1")
    assert e.value.name == "IMAGE_NOT_FOUND"
