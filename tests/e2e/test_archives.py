# SPDX-License-Identifier: Apache-2.0
"""Archives: what we write is read by Docker, skopeo and umoci, and what they write by us."""
import io
import json
import os
import socket
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.client import Client
from harness.dockerd import Dockerd
from harness.engine import Refused
from harness.layers import Layer, entry, folder, hard, link, sha256, tar
from harness.openapi import LocalConnection
from harness.server import CAY
from harness.wait import until


@pytest.fixture(scope="module")
def options(store):
    return ["--images", store.path]


@pytest.fixture(scope="module")
def docker():
    with Dockerd() as docker:
        yield docker


def tool(*args, stdin=None):
    done = subprocess.run([str(a) for a in args], stdin=stdin, capture_output=True, text=True, timeout=120)
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
    assert "mine/image:1" in docker.run("load", "-i", path)
    assert docker.run("run", "--rm", "--network=none", "--entrypoint", "/bin/sh", mine, "-c", LOOK) == SEEN
    about = json.loads(docker.run("inspect", mine))[0]["Config"]
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
    assert docker.run("run", "--rm", "--network=none", "--entrypoint", "/bin/sh", "prepared:2", "-c",
                         f"cat /workspace/made; test -d /tmp/d && {LOOK}") == "hello\n" + SEEN
    client.delete(f"/snapshots/{snapshot}")
    with pytest.raises(Refused) as e:
        export(engine, tmp_path / "t.tar", "prepared:2", snapshot)
    assert e.value.name == "SNAPSHOT_NOT_FOUND"


def test_what_is_not_there_is_not_exported(engine, tmp_path):
    with pytest.raises(Refused) as e:
        export(engine, tmp_path / "x.tar", "nobody:1")
    assert e.value.name == "IMAGE_NOT_FOUND"


# ---- in ----

class Root(Client):
    """The operator, on the server's machine."""

    def __init__(self, server):
        super().__init__(server.url)
        self.path = f"{server.data}/run/admin.sock"

    def connect(self):
        return LocalConnection(self.path, self.timeout)

    def socket(self, timeout=None):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(self.timeout)
        sock.connect(self.path)
        return sock


@pytest.fixture
def root(server):
    root = Root(server)
    yield root
    root.close()


def finished(root, job_id):
    """The job when it is over."""
    return until(lambda: (job := root.get(f"/jobs/{job_id}").json())["endedAt"] and job, "the job ends", 60, 0.02)


def send(root, data, **query):
    return root.request("POST", "/images/load", data, query=query, headers={"Content-Type": "application/x-tar"})


def load(root, path, **query):
    answer = send(root, Path(path).read_bytes(), **query)
    assert answer.status == 202, answer
    return finished(root, answer.json()["id"])


def run(client, image, command):
    box = client.create(None, image=image)
    out = client.exec(box["id"], command)
    client.delete(f"/sandbox/{box['id']}")
    return out["stdout"] + out["stderr"]


@pytest.fixture(scope="module")
def theirs(docker, store, tmp_path_factory):
    """An image that Docker made, of two layers, with something removed and settings of its own."""
    root = tmp_path_factory.mktemp("theirs")
    base = root / "base.tar"
    tool("tar", "-C", store.layer(store.base), "-cf", base, ".")
    docker.run("import", "-c", 'ENV A="b c"', "-c", "WORKDIR /srv", "-c", 'CMD ["sh"]', base, "theirs:base")
    docker.run("run", "--name", "made", "--network=none", "theirs:base", "sh", "-c",
               "mkdir -p /srv/d && echo text > /srv/d/f && ln /srv/d/f /srv/d/g && rm /etc/group && chown 7:8 /srv/d")
    docker.run("commit", "-c", "USER 1234", "made", "theirs:1")
    docker.run("rm", "made")
    path = root / "saved.tar"
    docker.run("save", "-o", path, "theirs:1", "theirs:base")
    return path


CHECK = "pwd; id -u; echo $A; cat d/f; test d/f -ef d/g && stat -c '%u %g' d; ls /etc/group"
WANT = "/srv\n1234\nb c\ntext\n7 8\n/etc/group\n"  # the group file is the fitting layer's


def test_docker_save(client, root, theirs):
    job = load(root, theirs)
    assert job["status"] == "succeeded" and "theirs:1" in job["note"] and "theirs:base" in job["note"], job
    assert run(client, "theirs:1", CHECK) == WANT
    again = load(root, theirs)  # nothing is unpacked twice
    assert again["status"] == "succeeded"


def test_skopeo_and_umoci_layouts(client, root, theirs, tmp_path):
    tool("skopeo", "copy", f"docker-archive:{theirs}:theirs:1", f"oci-archive:{tmp_path / 'oci.tar'}:by/skopeo:2")
    assert load(root, tmp_path / "oci.tar")["status"] == "succeeded"
    assert run(client, "by/skopeo:2", CHECK) == WANT
    tool("skopeo", "copy", "--dest-compress-format", "zstd", f"docker-archive:{theirs}:theirs:1", f"oci-archive:{tmp_path / 'zstd.tar'}:z:1")
    assert load(root, tmp_path / "zstd.tar")["status"] == "succeeded"
    assert run(client, "z:1", CHECK) == WANT
    tool("skopeo", "copy", f"docker-archive:{theirs}:theirs:1", f"oci:{tmp_path / 'layout'}:x")
    tool("umoci", "unpack", "--image", f"{tmp_path / 'layout'}:x", tmp_path / "bundle")
    (tmp_path / "bundle" / "rootfs" / "srv" / "umoci").write_text("was here")
    tool("umoci", "repack", "--image", f"{tmp_path / 'layout'}:y", tmp_path / "bundle")
    tool("tar", "-C", tmp_path / "layout", "-cf", tmp_path / "both.tar", ".")
    both = load(root, tmp_path / "both.tar")
    assert both["status"] == "failed" and both["error"]["details"]["field"] == "name", both
    tool("skopeo", "copy", f"oci:{tmp_path / 'layout'}:y", f"oci-archive:{tmp_path / 'y.tar'}")
    assert load(root, tmp_path / "y.tar", name="by/umoci:3")["status"] == "succeeded"
    assert run(client, "by/umoci:3", "cat /srv/umoci; " + CHECK) == "was here" + WANT


@pytest.mark.parametrize("packer", ["gzip", "zstd"])
def test_an_archive_that_is_packed_as_a_whole(client, root, theirs, tmp_path, packer):
    packed = tmp_path / f"saved.{packer}"
    with open(theirs, "rb") as plain, open(packed, "wb") as to:
        subprocess.run([packer, "-qc"], stdin=plain, stdout=to, check=True)
    job = load(root, packed)
    assert job["status"] == "succeeded" and "theirs:1" in job["note"], job
    assert run(client, "theirs:1", CHECK) == WANT
    data = packed.read_bytes()
    for what, bad in (("cut", data[:-1000]), ("changed", data[:3000] + b"XXXX" + data[3004:]), ("the head alone", data[:2])):
        (tmp_path / "bad").write_bytes(bad)
        job = load(root, tmp_path / "bad")
        assert (job["status"], job["error"]["code"]) == ("failed", "BAD_ARCHIVE"), (what, job)


def test_an_archive_that_is_a_bomb(root, tmp_path):
    made = subprocess.run("head -c 3G /dev/zero | zstd -qc", shell=True, capture_output=True, check=True).stdout
    assert len(made) < 1 << 20
    (tmp_path / "bomb").write_bytes(made)
    job = load(root, tmp_path / "bomb")
    assert job["status"] == "failed" and "times its size" in job["error"]["message"], job


def test_buildah(client, root, docker, theirs, tmp_path):
    """Built by buildah from what Docker saved, and pushed as an OCI archive.

    Saved alone: of two images saved together one has a link in the place of the layer they share (which of them
    is chance), and buildah takes the link's size for the layer's.
    """
    docker.run("save", "-o", tmp_path / "alone.tar", "theirs:1")
    where = ["--root", tmp_path / "root", "--runroot", tmp_path / "run", "--storage-driver", "vfs"]
    made = tool("buildah", *where, "from", f"docker-archive:{tmp_path / 'alone.tar'}:theirs:1").strip()
    (tmp_path / "file").write_text("by buildah\n")
    tool("buildah", *where, "copy", made, tmp_path / "file", "/srv/by")
    tool("buildah", *where, "config", "--env", "B=c d", made)
    tool("buildah", *where, "commit", made, "it:1")
    tool("buildah", *where, "push", "it:1", f"oci-archive:{tmp_path / 'b.tar'}:by/buildah:4")
    tool("buildah", *where, "rm", "--all")
    assert load(root, tmp_path / "b.tar")["status"] == "succeeded"
    assert run(client, "by/buildah:4", "cat /srv/by; echo $B; " + CHECK) == "by buildah\nc d\n" + WANT


def test_our_own_export_comes_back(client, root, engine, mine, tmp_path):
    path = export(engine, tmp_path / "a.tar", mine)
    assert load(root, path, name="back:1")["status"] == "succeeded"
    assert run(client, "back:1", LOOK) == SEEN
    assert export(engine, tmp_path / "b.tar", "back:1").read_bytes() != b""


def test_by_the_command_line(server, client, engine, mine, tmp_path):
    path = export(engine, tmp_path / "a.tar", mine)
    with open(path, "rb") as archive:
        for number, source in enumerate((str(path), "-")):
            name = f"typed:{number}"
            tool(CAY, "image", "load", "--url", server.url, "--tag", name, source, stdin=archive)
            assert run(client, name, LOOK) == SEEN


def broken(path, to, change):
    """A copy of an archive with its members changed."""
    with tarfile.open(path) as old, tarfile.open(to, "w") as new:
        for member in old:
            data = old.extractfile(member).read() if member.isfile() else b""
            data = change(member, data)
            if data is not None:
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
    return to


def test_a_name_stands_for_a_whole_image_or_for_what_it_was(root, engine, store, tmp_path):
    layer = Layer(tar(folder("new"), entry("new/to-us", b"x" * 9000)))
    layer.send(engine)
    engine.put("whole:1", store.text(layer.diff_id))
    path = export(engine, tmp_path / "a.tar", "whole:1")
    before = engine.images()
    with tarfile.open(path) as archive:
        layers = [m.name for m in archive if m.isfile() and 9000 < m.size < 20000]
        index = json.load(archive.extractfile("index.json"))
        manifest = archive.extractfile("blobs/" + index["manifests"][0]["digest"].replace(":", "/")).read()
    cases = {
        "a layer is missing": lambda m, d: None if m.name == layers[-1] else d,
        "a layer is changed": lambda m, d: d[:600] + b"X" + d[601:] if m.name == layers[-1] else d,
        "no manifest.json and no index": lambda m, d: None if m.name.endswith(".json") else d,
        "a manifest of numbers": lambda m, d: b"[1]" if m.name == "manifest.json" else d,
        "a manifest in the index's place": lambda m, d: None if m.name == "manifest.json" else manifest if m.name == "index.json" else d,
    }
    for what, change in cases.items():
        job = load(root, broken(path, tmp_path / "broken.tar", change), name="half:1")
        assert job["status"] == "failed" and job["error"]["code"] in ("BAD_ARCHIVE", "BAD_IMAGE", "DIGEST_MISMATCH", "BAD_LAYER"), (what, job)
    (tmp_path / "cut.tar").write_bytes(path.read_bytes()[:-100000])
    assert load(root, tmp_path / "cut.tar", name="half:1")["status"] == "failed"
    assert engine.images() == before


def test_an_upload_that_is_cut_loads_nothing(root, server, engine, mine, tmp_path):
    data = export(engine, tmp_path / "a.tar", mine).read_bytes()
    before = {job["id"] for job in root.get("/jobs").json()["jobs"]}
    with root.socket() as sock:
        sock.sendall(f"POST /api/v1/images/load?name=cut:1 HTTP/1.1\r\nHost: {server.listen}\r\n"
                     f"Content-Length: {len(data)}\r\n\r\n".encode() + data[:200000])
        job = until(lambda: [j["id"] for j in root.get("/jobs").json()["jobs"] if j["id"] not in before], "the job is there")[0]
    assert finished(root, job)["status"] == "failed"
    assert "cut:1" not in engine.images()


def test_only_good_names(root):
    for name in ("../x", "UPPER", "a b", "x" * 300):
        answer = send(root, b"x", name=name)
        assert answer.status == 400 and answer.error["details"]["field"] == "name", answer
