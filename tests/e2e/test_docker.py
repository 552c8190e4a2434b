# SPDX-License-Identifier: Apache-2.0
"""The Docker provider, on a dockerd of our own: what is particular to it. That it does all the rest like any
other is told by the contract suite here, and by the other files run with CAY_PROVIDER=docker."""
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import dockerd as docker
from harness.server import BUILD, NotReady, Server
from harness.wait import stretch, until

PATH = os.environ["PATH"] + ":/usr/sbin:/sbin"
pytestmark = pytest.mark.skipif(not shutil.which("dockerd", path=PATH), reason="no dockerd")
FIT = "cay-fit"


@pytest.fixture(scope="module")
def dockerd():
    with docker.Dockerd("--add-runtime", f"other={shutil.which('runc', path=PATH)}") as dockerd:
        yield dockerd


def serve(dockerd, env=None, **options):
    return Server(env={"CAY_PROVIDER": "docker", "CAY_DOCKER_HOST": dockerd.host, **(env or {})}, **options)


@pytest.fixture(scope="module")
def shared_server(dockerd):
    with serve(dockerd) as server:
        yield server


def ours(dockerd, server):
    return {c["Labels"]["cay.id"] for c in docker.containers(dockerd.host, server.instance())}


def volumes(dockerd):
    return {v["Name"] for v in docker.call(dockerd.host, "GET", "/volumes")[1]["Volumes"] or []}


@pytest.mark.limit(300)
def test_contract(dockerd):
    """The suite that defines a provider. The server stands still meanwhile: these sandboxes are not its own."""
    with serve(dockerd) as server:
        server.kill("server", signal.SIGSTOP)
        done = subprocess.run([BUILD / "unit", "provider_contract"], capture_output=True, text=True, timeout=stretch(250),
                              env={**os.environ, "CAY_TEST_PROVIDER": "docker", "CAY_TEST_DATA": server.data})
        server.kill("server", signal.SIGCONT)
        assert done.returncode == 0 and "7 passed, 0 failed" in done.stdout, done.stdout + done.stderr
        assert ours(dockerd, server) == set()
    assert volumes(dockerd) == set()


def test_it_is_held_tighter_than_docker_does(dockerd, client):
    box = client.create("tight", memoryGB=0.25, cpuCores=1)
    host = docker.inspect(dockerd.host, box["id"])["HostConfig"]
    assert host["CapDrop"] == ["ALL"] and host["NetworkMode"] == "none" and not host["Privileged"]
    assert host["SecurityOpt"] == ["no-new-privileges"] and host["PidsLimit"] > 0
    assert host["Memory"] == host["MemorySwap"] == 256 << 20 and host["LogConfig"]["Type"] == "none"
    status = client.sh("tight", "cat /proc/self/status")
    for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in status, status
    assert client.sh("tight", "id -u; hostname; pwd") == "1000\ntight\n/workspace\n"
    assert client.sh("tight", "ls /sys/class/net") == "lo\n"
    assert (box["isolation"], box["diskEnforcedBy"]) == ("docker", "none")


def test_another_runtime(dockerd):
    with serve(dockerd, {"CAY_DOCKER_RUNTIME": "other"}) as server:
        client = server.client()
        box = client.create("box", isolation="docker/other")
        assert box["isolation"] == "docker/other" and docker.inspect(dockerd.host, box["id"])["HostConfig"]["Runtime"] == "other"
        assert client.sh("box", "echo well; cat /proc/1/comm") == "well\ncay-init\n"
        assert client.get("/sandbox/box/stats").json()["memory"]["bytes"] > 0
        for wanted in ("docker", "docker/runsc", "native"):
            answer = client.post("/sandbox", {"isolation": wanted})
            assert (answer.status, answer.error["code"]) == (422, "ISOLATION_UNAVAILABLE"), answer


def test_a_runtime_that_is_not_there_is_told(dockerd):
    with serve(dockerd, {"CAY_DOCKER_RUNTIME": "runsc"}) as server:
        health = server.client().get("/health").json()["provider"]
        assert health["status"] == "unhealthy"
        assert any("runsc" in p["why"] and "--docker-runtime" in p["fix"] for p in health["problems"]), health
        answer = server.client().post("/sandbox", {"name": "box"})
        assert answer.status == 502 and "runsc" in answer.error["details"]["cause"] + answer.error["message"], answer


def test_roots_that_nobody_writes_to(dockerd):
    with serve(dockerd, {"CAY_DOCKER_READ_ONLY": "true"}) as server:
        client = server.client()
        box = client.create("box")
        for user in ("user", "root"):
            for path in ("/x", "/etc/x", "/usr/bin/x"):
                assert client.exec("box", ["touch", path], user=user)["exitCode"] != 0
        client.sh("box", "echo a > /workspace/f && echo a > /tmp/f && echo a > ~/f && cat /workspace/f /tmp/f ~/f")
        answer = client.request("PUT", "/sandbox/box/files", b"x", query={"path": "/etc/x", "user": "root"})
        assert (answer.status, answer.error["code"]) == (403, "READ_ONLY"), answer
        assert client.post("/sandbox/box/fork", {"name": "copy"}).status == 201
        assert client.sh("copy", "cat /workspace/f") == "a\n" and box["status"] == "RUNNING"


@pytest.fixture
def with_quotas(tmp_path):
    """A dockerd on a filesystem that can limit directories."""
    image, mount = tmp_path / "image", tmp_path / "mount"
    mount.mkdir()
    with open(image, "wb") as f:
        f.truncate(3 << 30)
    subprocess.run(["mkfs.xfs", "-q", image], check=True)
    if subprocess.run(["mount", "-o", "loop,pquota", image, mount]).returncode:
        pytest.skip("this kernel's XFS has no quotas")
    try:
        with docker.Dockerd(place=mount) as dockerd:
            yield dockerd
    finally:
        subprocess.run(["umount", "-l", mount], check=True)


@pytest.mark.skipif(not shutil.which("mkfs.xfs", path=PATH), reason="no mkfs.xfs")
@pytest.mark.limit(180)
def test_disks_are_limited_where_docker_can(with_quotas):
    with serve(with_quotas) as server:
        client = server.client()
        box = client.create("box", dockerImage="busybox", diskSizeGB=0.1)
        assert box["diskEnforcedBy"] == "xfs-quota"
        assert client.get("/health").json()["features"]["diskLimit"] == "xfs"
        client.sh("box", "echo kept > /workspace/kept")
        assert client.post("/sandbox/box/fork", {"name": "copy"}).status == 201
        for name in ("box", "copy"):
            for path in ("/workspace/fill", "/var/fill"):
                full = client.exec(name, f"dd if=/dev/zero of={path} bs=1M count=150", user="root")
                assert full["exitCode"] != 0, (name, path, full)
            assert client.sh(name, "cat /workspace/kept") == "kept\n"
        answer = client.request("PATCH", "/sandbox/box", {"diskSizeGB": 0.5})
        assert (answer.status, answer.error["code"]) == (501, "UNSUPPORTED"), answer


def test_nobody_inside_may_ask_pid_1(client, box):
    """It listens in the sandbox's own network: whoever is inside connects, and is let go without a word."""
    script = ("import socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
              "s.connect('\\0cay-init'); s.settimeout(10); s.send(b'\\1' * 200); print(len(s.recv(10)))\n")
    for user in ("user", "root"):
        result = client.exec("box", ["python3", "-c", script], user=user)
        assert result["exitCode"] != 0 or result["stdout"] == "0\n", result
        assert "timed out" not in result["stderr"], result


def test_what_is_not_ours_is_not_touched(dockerd):
    with serve(dockerd) as server:
        client = server.client()
        box = client.create("mine")
        image = docker.inspect(dockerd.host, box["id"])["Config"]["Image"]
        status, foreign = docker.call(dockerd.host, "POST", "/containers/create?name=cay-sb-00000000000000000000", {
            "Image": image, "Entrypoint": ["/.cay/cay-init"], "Labels": {"cay.id": "sb-00000000000000000000"}})
        assert status == 201
        server.restart()
        assert server.client().get("/sandbox/sb-00000000000000000000").status == 404
        assert ours(dockerd, server) == {box["id"]}
    assert docker.call(dockerd.host, "DELETE", f"/containers/{foreign['Id']}")[0] == 204


def test_removed_by_hand(dockerd, client):
    box = client.create("gone")
    assert docker.call(dockerd.host, "DELETE", f"/containers/cay-{box['id']}?force=true")[0] == 204
    until(lambda: client.get(f"/sandbox/{box['id']}").json().get("status") in ("ERROR", "TERMINATED"), "it is noticed", 60)
    assert client.post(f"/sandbox/{box['id']}/exec", {"command": "true"}).status in (404, 409)


def test_killed_by_hand(dockerd, client):
    box = client.create("shot", persistent=True)
    assert docker.call(dockerd.host, "POST", f"/containers/cay-{box['id']}/kill")[0] == 204
    until(lambda: client.sandbox("shot")["status"] != "RUNNING", "it is noticed", 10)


def test_many_at_once(dockerd, server, client):
    count = int(os.environ.get("CAY_DOCKER_CREATES", "16"))
    with ThreadPoolExecutor(count) as pool:
        answers = list(pool.map(lambda i: server.client().post("/sandbox", {"name": f"many-{i}"}), range(count)))
        assert [a.status for a in answers] == [201] * count, [a for a in answers if a.status != 201]
        assert len(server.inits()) == count
        gone = list(pool.map(lambda a: server.client().delete(f"/sandbox/{a.json()['id']}").status, answers))
    assert gone == [200] * count and ours(dockerd, server) == set()
    left = {f"vo-{a.json()['id'][3:]}" for a in answers} & volumes(dockerd)
    assert left == set()


def test_a_server_that_is_killed_loses_nothing(dockerd):
    with serve(dockerd) as server:
        client = server.client()
        # The layer is made anew, by this very server: what it is made with must not be taken for left behind.
        for image in docker.call(dockerd.host, "GET", "/images/json")[1]:
            for tag in image["RepoTags"] or []:
                if tag.startswith(FIT):
                    assert docker.call(dockerd.host, "DELETE", f"/images/{tag}?force=true")[0] == 200
        client.create("island")
        ident = client.detach("island", "for i in $(seq 20); do echo $i; sleep 0.1; done; exit 6")
        server.kill("all")
        server.recover()
        client = server.client()
        until(lambda: client.execution("island", ident)["status"] == "exited", "it ends", 20)
        assert client.execution("island", ident)["exitCode"] == 6
        assert client.output("island", ident) == b"".join(b"%d\n" % i for i in range(1, 21))


def test_guidance_without_an_engine(fresh):
    server = fresh(env={"CAY_PROVIDER": "docker", "CAY_DOCKER_HOST": "unix:///nowhere/docker.sock"}).start()
    health = server.client().get("/health").json()["provider"]
    assert health["status"] == "unhealthy"
    assert any("/nowhere/docker.sock" in p["why"] and "--docker-host" in p["fix"] for p in health["problems"]), health
    assert server.client().post("/sandbox", {"name": "x"}).status == 503
    server.docker = None  # nobody to ask what is left
    server.stop()
    shutil.rmtree(server.data)
    os.makedirs(server.data)


def test_a_directory_has_one_provider(dockerd):
    with serve(dockerd) as server:
        server.stop()
        other = Server(data=server.data, env={"CAY_PROVIDER": "native"})
        with pytest.raises(NotReady, match="docker provider's"):
            other.start()
        os.remove(other.log_path)  # the directory is the first one's
