# SPDX-License-Identifier: Apache-2.0
"""How the Docker Engine is reached, what health says when it is not, and its images by the API."""
import io
import json
import os
import shutil
import socket
import ssl
import subprocess
import tarfile

import pytest

from harness import dockerd as docker
from harness.certificates import Authority
from harness.meddler import Meddler
from harness.registry import Layout, Registry, busybox_files, small_store
from harness.server import CAY, IMAGES, NotReady, Server
from harness.wait import until

pytestmark = pytest.mark.skipif(not shutil.which("dockerd", path=os.environ["PATH"] + ":/usr/sbin"), reason="no dockerd")
SMALL = {"memoryGB": 0.125, "image": "busybox"}
NOWHERE = "tcp://127.0.0.1:9"


@pytest.fixture
def between(dockerd):
    with Meddler(dockerd.host) as meddler:
        yield meddler


@pytest.fixture
def by_port(dockerd):
    with Meddler(dockerd.host, tcp=True) as meddler:
        yield meddler


@pytest.fixture
def serve(dockerd, between, by_port, guarded):
    """A server by these options and variables, and no others of Docker's; looked after for leaks. `alone`: there is no
    Engine that it could reach, so that it has nothing to leave behind."""
    made = []

    def make(*args, alone=False, **env):
        server = Server(*map(str, args), env={"CAY_PROVIDER": "docker", **env})
        server.env = {k: v for k, v in server.env.items() if k in env or not k.startswith(("DOCKER_", "CAY_DOCKER_"))}
        server.docker = dockerd.host  # past everything that is between
        made.append((server, alone))
        return server.start()

    yield make
    for server, alone in made:
        if alone:
            server.stop()
            shutil.rmtree(server.data)
            os.unlink(server.log_path)
        else:
            server.close()


def works(server):
    client = server.client()
    client.create("box", **SMALL)
    assert client.sh("box", "echo well") == "well\n"
    health = client.get("/health").json()["provider"]
    assert health["status"] == "healthy" and health["version"][0].isdigit(), health


def problem(server):
    answer = server.client().get("/health")
    assert answer.status == 503, answer
    return next(p for p in answer.json()["provider"]["problems"] if p["what"] == "docker")


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def certs(authority, tmp_path_factory):
    """What a client has: ca.pem, cert.pem, key.pem."""
    where = tmp_path_factory.mktemp("certs")
    cert, key = authority.sign("client")
    for source, name in ((authority.file, "ca.pem"), (cert, "cert.pem"), (key, "key.pem")):
        shutil.copy(source, where / name)
    os.chmod(where, 0o700)
    os.chmod(where / "key.pem", 0o600)  # root's alone: the server could not read it
    return where


@pytest.fixture
def guarded(dockerd, authority):
    """The Engine behind TLS that wants to know who comes."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.sign("engine"))
    context.load_verify_locations(authority.file)
    context.verify_mode = ssl.CERT_REQUIRED
    with Meddler(dockerd.host, tcp=True, tls=context) as meddler:
        yield meddler


# ---- where it is ----

def test_by_tcp(serve, by_port):
    works(serve("--docker-host", by_port.host))
    assert by_port.count("POST", "/start") == 1


def test_an_option_stands_over_a_variable(dockerd, serve):
    works(serve("--docker-host", dockerd.host, CAY_DOCKER_HOST=NOWHERE, DOCKER_HOST=NOWHERE))


def test_our_variable_stands_over_everybodys(dockerd, serve):
    works(serve(CAY_DOCKER_HOST=dockerd.host, DOCKER_HOST=NOWHERE))


def test_everybodys_variable(dockerd, serve):
    works(serve(DOCKER_HOST=dockerd.host))


def test_tls(serve, guarded, certs):
    works(serve("--docker-host", guarded.host, "--docker-cert-path", certs))


def test_tls_by_everybodys_variables(serve, guarded, certs):
    server = serve(DOCKER_HOST=guarded.host, DOCKER_TLS_VERIFY="1", DOCKER_CERT_PATH=str(certs))
    works(server)
    server.stop()
    assert server.down().returncode == 0, "`cay down` finds the certificates again"
    assert docker.containers(server.docker, server.instance()) == []


def test_tls_that_is_not_trusted(serve, guarded, certs, tmp_path):
    """Nothing is said to an Engine that cannot prove who it is."""
    (tmp_path / "other").mkdir()
    shutil.copytree(certs, tmp_path / "certs")
    shutil.copy(Authority(tmp_path / "other").file, tmp_path / "certs/ca.pem")
    server = serve("--docker-host", guarded.host, "--docker-cert-path", tmp_path / "certs", alone=True)
    one = problem(server)
    assert "not trusted" in one["why"] and "ca.pem" in one["fix"], one
    assert guarded.seen == [] and server.client().post("/sandbox", SMALL).status in (502, 503)


def test_tls_without_our_certificate(serve, guarded, certs, tmp_path):
    shutil.copy(certs / "ca.pem", tmp_path)
    one = problem(serve("--docker-host", guarded.host, "--docker-cert-path", tmp_path, alone=True))
    assert "--docker-cert-path" in one["fix"] and guarded.seen == [], one


def test_tls_that_is_none(serve, by_port, certs):
    one = problem(serve("--docker-host", by_port.host, "--docker-cert-path", certs, alone=True))
    assert "TLS" in one["why"] + one["fix"], one


@pytest.mark.parametrize("args", [("--docker-host", "ssh://somewhere"), ("--docker-host", "/var/run/docker.sock"),
                                  ("--docker-host", NOWHERE, "--docker-cert-path", "/nowhere")])
def test_what_cannot_be(args, tmp_path):
    server = Server(*args, data=tmp_path, env={"CAY_PROVIDER": "docker"})
    with pytest.raises(NotReady, match="docker|Docker"):
        server.start()
    os.unlink(server.log_path)


# ---- what health says ----

def test_nobody_listens(serve, tmp_path):
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    one = problem(serve("--docker-host", f"unix://{path}", alone=True))
    assert "refused" in one["why"].lower() and "systemctl start docker" in one["fix"], one
    one = problem(serve("--docker-host", f"unix://{tmp_path}/missing.sock", alone=True))
    assert "No such file" in one["why"] and "--docker-host" in one["fix"], one


def test_an_engine_that_is_too_old(serve, between):
    server = serve("--docker-host", between.host)
    too_new = "client version 1.41 is too new. Maximum supported API version is 1.39"
    for lie in ((400, {"message": too_new}), (200, {"Version": "19.03.1", "ApiVersion": "1.40"}), (200, "what is this")):
        between.rule = lambda method, path, lie=lie: lie if path == "/version" else None
        one = problem(server)
        assert "1.41" in one["fix"] and "20.10" in one["fix"], one
    between.rule = lambda method, path: None


def test_an_engine_on_another_machine(dockerd, serve, between):
    """Its pids are nobody's here, or somebody else's: neither is reached, and the answer says why."""
    def elsewhere(answer):
        if answer.get("State", {}).get("Pid"):
            answer["State"]["Pid"] = pid
        return answer

    server = serve("--docker-host", between.host)
    client = server.client()
    client.create("here", **SMALL)
    [other] = server.inits()
    for pid in (os.getpid(), other, 4_000_000):
        between.rule = lambda method, path: elsewhere if method == "GET" and path.startswith("/containers/cay-") else None
        answer = client.post("/sandbox", {"name": "there", **SMALL})
        assert answer.status == 501 and answer.error["code"] == "ENGINE_ELSEWHERE", answer
        one = problem(server)
        assert "another machine" in one["why"] and "on the machine that the Engine is on" in one["fix"], one
        between.rule = lambda method, path: None
        until(lambda: len(docker.containers(dockerd.host, server.instance())) == 1, "nothing is left", 20)
    client.create("again", **SMALL)
    assert client.get("/health").status == 200


def test_an_image_that_nobody_has(serve, dockerd):
    client = serve("--docker-host", dockerd.host, "--registry-insecure", "127.0.0.1:9").client()
    answer = client.post("/sandbox", {"image": "127.0.0.1:9/no/such:1", "memoryGB": 0.125})
    assert answer.status == 404 and answer.error["code"] == "IMAGE_NOT_FOUND", answer
    tried = {one["what"]: one["why"] for one in answer.error["details"]["tried"]}
    assert "registry: 127.0.0.1:9/no/such:1" in tried, tried


# ---- images ----

@pytest.fixture(scope="module")
def registry():
    registry = Registry()
    yield registry
    registry.close()


def layout_of(where, **files):
    """busybox below, noise on top, one layer packed by zstd; some settings that are easily broken."""
    layout = Layout(where)
    layers = [layout.layer(busybox_files(IMAGES)), layout.layer({"noise": os.urandom(2 << 20)}),
              layout.layer({"more": b"x" * 100, **{k: v.encode() for k, v in files.items()}}, "zstd")]
    return layout.done(layout.manifest(layers, {"Env": ["PRICE=$5 \\ \"a\"", "PATH=/bin"], "WorkingDir": "/",
                                                "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo hello"]}))


def finished(client, answer):
    assert answer.status == 202, answer
    with client.stream("GET", f"/jobs/{answer.json()['id']}", headers={"Accept": "text/event-stream"}) as stream:
        events = list(stream.events())
    assert events[-1].name == "end", events
    return events[-1].data


def tags(dockerd):
    return {t for i in docker.call(dockerd.host, "GET", "/images/json")[1] for t in i["RepoTags"] or []}


def test_images(dockerd, serve, registry, tmp_path):
    """Pulled with progress, listed, looked at, run, renamed at the registry, carried away and back, removed, pruned."""
    name = registry.push(layout_of(tmp_path / "one"), "team/box:1")
    server = serve("--docker-host", dockerd.host, "--registry-insecure", registry.host)
    client = server.client()
    job = finished(client, client.post("/images/pull", {"image": name}))
    assert job["status"] == "succeeded" and job["bytes"] == job["totalBytes"] > 2 << 20, job
    assert [layer["step"] for layer in job["layers"]] == ["done"] * 3 and name in tags(dockerd)
    image = client.get("/images", ref=name).json()
    assert image["name"] == image["source"] == name and image["uses"] == 0 and len(image["layers"]) == 3, image
    assert image["entrypoint"] == ["/bin/sh", "-c"] and image["cmd"] == ["echo hello"] and image["digest"], image
    client.create("box", image=name, memoryGB=0.125)
    assert client.sh("box", "echo $PRICE; wc -c < /noise") == f'$5 \\ "a"\n{2 << 20}\n'
    listed = {i["name"]: i for i in client.get("/images").json()["images"]}
    assert listed[name]["uses"] == 1 and not any(n.startswith("cay-") for n in listed), listed
    assert finished(client, client.post("/images/pull", {"image": name}))["bytes"] == 0, "nothing is fetched twice"
    # Another one by that name.
    registry.push(layout_of(tmp_path / "two", new="yes"), "team/box:1")
    again = finished(client, client.post("/images/pull", {"image": name, "policy": "always"}))
    assert again["status"] == "succeeded" and client.get("/images", ref=name).json()["digest"] != image["digest"]
    client.create("newer", image=name, memoryGB=0.125)
    assert client.sh("newer", "cat /new") == "yes" and client.sh("box", "ls / | grep -c '^new$' || true") == "0\n"
    by_digest = f"{name.rpartition(':')[0]}@{client.get('/images', ref=name).json()['digest']}"
    client.create("exact", image=by_digest, memoryGB=0.125)
    assert client.sh("exact", "cat /new") == "yes"
    # Away and back.
    out = subprocess.run([CAY, "image", "export", "--url", server.url, name, tmp_path / "box.tar"],
                         capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    back = subprocess.run([CAY, "image", "load", "--url", server.url, "--tag", "team/back:2", tmp_path / "box.tar"],
                          capture_output=True, text=True)
    assert back.returncode == 0, back.stderr
    client.create("back", image="team/back:2", memoryGB=0.125)
    assert client.sh("back", "cat /new; echo $PRICE") == 'yes$5 \\ "a"\n'
    # What sandboxes are made from stays for them.
    for one in (name, "team/back:2"):
        assert client.request("DELETE", "/images", query={"ref": one}).status == 200
        assert client.get("/images", ref=one).status == 404
    assert client.request("DELETE", "/images", query={"ref": name}).status == 404
    before = {t for t in tags(dockerd) if t.startswith("cay-fit:")}
    client.post("/images/prune")
    used = {c["Image"] for c in docker.call(dockerd.host, "GET", "/containers/json")[1]}
    assert {t for t in tags(dockerd) if t.startswith("cay-fit:")} == used & before
    assert client.sh("box", "echo on") == "on\n"
    for box in ("box", "newer", "exact", "back"):
        assert client.delete(f"/sandbox/{box}").status == 200
    pruned = client.post("/images/prune").json()
    assert pruned["layers"] >= 1 and pruned["bytes"] > 0, pruned
    assert not any(t.startswith("cay-fit:") for t in tags(dockerd)), (tags(dockerd), docker.call(dockerd.host, "GET", "/containers/json?all=true")[1])
    assert os.listdir(f"{server.data}/staged") == []


def test_an_id_is_no_name(dockerd, serve):
    """The Engine takes the beginning of an id for a name, and snapshots are images with ids too."""
    server = serve("--docker-host", dockerd.host, "--pull", "never")
    client = server.client()
    client.create("box", **SMALL)
    snapshot = client.snapshot("box")["id"]
    there = docker.call(dockerd.host, "GET", "/images/json")[1]
    tag = next(t for i in there for t in i["RepoTags"] or [] if t.endswith(f":{snapshot}"))
    fit = next(t for i in there for t in i["RepoTags"] or [] if t.startswith("cay-fit:"))
    ids = [docker.call(dockerd.host, "GET", f"/images/{name}/json")[1]["Id"] for name in (tag, "busybox:latest")]
    before = tags(dockerd)
    for name in [tag, f"library/{tag}", f"docker.io/library/{tag}", fit, f"index.docker.io/library/{fit}"] + \
            [form for i in ids for form in (i, i[7:], i[7:19], i[7:11], i[:11])]:
        for answer in (client.post("/sandbox", {**SMALL, "image": name}), client.get("/images", ref=name),
                       client.get("/images/export", ref=name), client.request("DELETE", "/images", query={"ref": name})):
            assert answer.status == 404 and answer.error["code"] == "IMAGE_NOT_FOUND", (name, answer)
        assert tags(dockerd) == before
    # Nor does anybody get a snapshot's name for an image of theirs.
    archive = client.get("/images/export", ref="busybox").body
    stolen = finished(client, client.request("POST", "/images/load", archive, query={"name": tag},
                                                       headers={"Content-Type": "application/x-tar"}))
    assert stolen["status"] == "failed" and stolen["error"]["code"] == "INVALID_IMAGE_NAME", stolen
    assert docker.call(dockerd.host, "GET", f"/images/{tag}/json")[1]["Id"] == ids[0]


def names_in(archive):
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert "repositories" not in tar.getnames()
        return [image["RepoTags"] for image in json.load(tar.extractfile("manifest.json"))]


def test_what_an_archive_is_called_the_engine_never_hears(dockerd, serve, between):
    """There a name means one image to everybody. So it can be a new name, that of another image, and the image's own."""
    server = serve("--docker-host", between.host)
    client = server.client()
    client.create("box", **SMALL)
    docker.call(dockerd.host, "POST", "/images/busybox:latest/tag?repo=somebody/else&tag=1")
    before, between.seen = tags(dockerd), []
    for tag, name in ((None, "busybox:latest"), ("mine/exported:3", "mine/exported:3"), ("node:20-bookworm", "node:20-bookworm"),
                      ("somebody/else:1", "somebody/else:1"), ("cay-fit", "cay-fit:latest")):
        answer = client.get("/images/export", ref="busybox", **({"tag": tag} if tag else {}))
        assert answer.status == 200 and names_in(answer.body) == [[name]], (tag, answer)
        assert tags(dockerd) == before
    assert {method for method, _ in between.seen} == {"GET"}, between.seen
    archive = client.get("/images/export", ref="busybox", tag="mine/exported:3").body
    assert finished(client, client.request("POST", "/images/load", archive,
                                           headers={"Content-Type": "application/x-tar"}))["status"] == "succeeded"
    assert tags(dockerd) == before | {"mine/exported:3"}
    client.create("back", image="mine/exported:3", memoryGB=0.125)
    for name in ("mine/exported:3", "somebody/else:1"):
        assert client.request("DELETE", "/images", query={"ref": name}).status == 200
    assert tags(dockerd) - before <= {t for t in tags(dockerd) if t.startswith("cay-fit:")}


def test_a_create_pulls(dockerd, serve, registry, tmp_path):
    name = registry.push(layout_of(tmp_path / "one"), "team/pulled:1")
    client = serve("--docker-host", dockerd.host, "--registry-insecure", registry.host).client()
    client.create("box", image=name, memoryGB=0.125)
    assert client.sh("box", "wc -c < /more") == "100\n"


def test_a_layer_that_lies(dockerd, serve, registry, tmp_path):
    """Its diff id is not what its config says: nothing comes in, under no name, and the others do not wait on."""
    layout = Layout(tmp_path / "lie")
    descriptor, _ = layout.layer(busybox_files(IMAGES))
    layers = [layout.layer({"true": b"yes"}), (descriptor, "sha256:" + "0" * 64)]
    name = registry.push(layout.done(layout.manifest(layers, {})), "team/lie:1")
    server = serve("--docker-host", dockerd.host, "--registry-insecure", registry.host)
    job = finished(server.client(), server.client().post("/images/pull", {"image": name}))
    assert job["status"] == "failed" and job["error"]["code"] == "DIGEST_MISMATCH", job
    assert name not in tags(dockerd)
    assert os.listdir(f"{server.data}/staged") == []


def test_layers_wait_no_longer_than_their_load(dockerd, serve):
    """Of images that have layers in common, and of some that are there already."""
    server = serve("--docker-host", dockerd.host)
    client = server.client()
    client.create("box", **SMALL)
    fit = next(t for t in tags(dockerd) if t.startswith("cay-fit:"))
    docker.call(dockerd.host, "POST", f"/images/{fit}/tag?repo=team/above&tag=1")
    archive = docker.call(dockerd.host, "GET", "/images/get?names=busybox:latest&names=team/above:1")[1]
    for _ in range(2):
        job = finished(client, client.request("POST", "/images/load", archive, headers={"Content-Type": "application/x-tar"}))
        assert job["status"] == "succeeded", job
        assert os.listdir(f"{server.data}/staged") == []
    assert client.request("DELETE", "/images", query={"ref": "team/above:1"}).status == 200


def test_layers_leave_room_on_the_disk(dockerd, registry, tmp_path):
    """A small one that becomes large: it ends while there is room for records, and leaves nothing."""
    layout = Layout(tmp_path / "large")
    layers = [layout.layer({"small": b"x"}), layout.layer({"zeros": bytes(256 << 20)})]
    name = registry.push(layout.done(layout.manifest(layers, {})), "team/large:1")
    (data := tmp_path / "disk" / "data").parent.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700m,mode=755", "none", data.parent], check=True)
    try:
        with Server("--docker-host", dockerd.host, "--registry-insecure", registry.host, data=data,
                    env={"CAY_PROVIDER": "docker", "CAY_DOCKER_HOST": dockerd.host}) as server:
            job = finished(server.client(), server.client().post("/images/pull", {"image": name}))
            assert job["status"] == "failed" and job["error"]["code"] == "IMAGE_STORE_FULL", job
            assert os.listdir(data / "staged") == [] and name not in tags(dockerd)
    finally:
        subprocess.run(["umount", "-l", data.parent], check=True)


def test_a_full_disk_is_not_a_missing_image(serve, between, tmp_path):
    """What Docker says of a load it says with 200, and among its progress."""
    server = serve("--docker-host", between.host, "--images", small_store(tmp_path / "images", IMAGES, "rare:1"))
    between.rule = lambda method, path: (200, {"error": "write x: no space left on device"}) \
        if (method, path) == ("POST", "/images/create") else None
    answer = server.client().post("/sandbox", {"image": "rare:1", "memoryGB": 0.125})
    assert answer.error["code"] == "DISK_FULL", answer
    between.rule = lambda method, path: None
    server.client().create("box", image="rare:1", memoryGB=0.125)
