# SPDX-License-Identifier: Apache-2.0
"""Images from a registry: Debian's own on loopback, plain, under TLS, with names and with tokens, and behind a proxy
that cuts, delays, and lies."""
import json
import os
import socket
import subprocess
import threading
import time
from collections import namedtuple
from pathlib import Path

import pytest

from harness import builds, proc
from harness.certificates import Authority
from harness.dockerd import Dockerd
from harness.registry import PLATFORM, Between, Layout, Registry, Tokens, busybox_files, small_store
from harness.server import CAY, IMAGES
from harness.wait import stretch, until

Pair = namedtuple("Pair", "cert key")
SMALL = {"memoryGB": 0.125}


@pytest.fixture(scope="module")
def registry():
    registry = Registry()
    yield registry
    registry.close()


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    """busybox below, two layers of noise on top; some variables and a user."""
    layout = Layout(tmp_path_factory.mktemp("layout") / "box")
    layers = [layout.layer(busybox_files(IMAGES)), layout.layer({"noise": os.urandom(3 << 20)}),
              layout.layer({"more": os.urandom(1 << 20)}, "zstd")]
    return layout.done(layout.manifest(layers, {"Env": ["COLOUR=blue", "PATH=/bin"], "WorkingDir": "/"}))


@pytest.fixture(scope="module")
def pushed(registry, layout):
    return registry.push(layout, "team/box:1")


@pytest.fixture
def start(fresh, tmp_path):
    """A server with an image store of its own."""
    def make(*args, **options):
        return fresh("--images", small_store(tmp_path / "images", IMAGES), *args, **options).start()

    return make


def finished(client, job_id, timeout=60):
    """The job when it is over, by its stream of events."""
    with client.stream("GET", f"/jobs/{job_id}", headers={"Accept": "text/event-stream"}) as stream:
        events = list(stream.events())
    assert events[-1].name == "end" and all(e.name == "progress" for e in events[:-1]), events
    return events[-1].data


def pull(client, image, **body):
    answer = client.post("/images/pull", {"image": image, **body})
    assert answer.status == 202, answer
    assert answer.headers["Location"] == f"/api/v1/jobs/{answer.json()['id']}"
    return finished(client, answer.json()["id"])


def test_pull_and_run(start, registry, pushed):
    client = start("--registry-insecure", registry.host).client()
    job = pull(client, pushed)
    assert job["status"] == "succeeded" and job["bytes"] == job["totalBytes"] > 4 << 20, job
    assert [layer["step"] for layer in job["layers"]] == ["done"] * 3
    image = client.get("/images", ref=pushed).json()
    assert image["name"] == image["source"] == pushed and "COLOUR=blue" in image["env"] and len(image["layers"]) == 3
    assert client.get("/images/busybox").json()["name"] == "busybox"
    client.create("box", image=pushed)
    assert client.sh("box", "echo $COLOUR; wc -c < /noise") == f"blue\n{3 << 20}\n"
    again = pull(client, pushed)
    assert again["status"] == "succeeded" and again["bytes"] == 0, "nothing is fetched twice"
    assert [job["id"] for job in client.get("/jobs").json()["jobs"]][0] == again["id"]


def test_create_pulls(start, registry, pushed):
    """Two at once want the same image: it is fetched once, and both get it."""
    between = Between(registry.port)
    server = start("--registry-insecure", between.host)
    image = pushed.replace(registry.host, between.host)
    answers = []

    def create(name):
        answers.append(server.client().post("/sandbox", {"name": name, "image": image, **SMALL}))

    threads = [threading.Thread(target=create, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(stretch(60))
    assert [a.status for a in answers] == [201, 201], answers
    assert len(between.blobs()) == 4, "three layers and a config, once each"
    client = server.client()
    before = len(between.seen)
    client.create("three", image=image)
    assert len(between.seen) == before, "the next one asks nobody"
    answer = client.post("/sandbox?wait=false", {"name": "four", "image": f"{between.host}/team/box:none", **SMALL})
    assert answer.status == 202
    until(lambda: client.sandbox("four")["status"] == "ERROR", "it cannot be had")
    between.close()


def test_create_without_waiting_pulls(start, registry, pushed, layout):
    client = start("--registry-insecure", registry.host).client()
    registry.push(layout, "team/box:latest")
    client.create("untagged", image=f"{registry.host}/team/box")
    assert client.post("/sandbox?wait=false", {"name": "later", "image": pushed, **SMALL}).status == 202
    until(lambda: client.sandbox("later")["status"] == "RUNNING", "it runs", 60)


def test_unknown_says_what_was_tried(start, registry):
    client = start("--registry-insecure", registry.host).client()
    answer = client.post("/sandbox", {"image": f"{registry.host}/no/such:1", **SMALL})
    assert answer.status == 404 and answer.error["code"] == "IMAGE_NOT_FOUND", answer
    tried = {one["what"]: one["why"] for one in answer.error["details"]["tried"]}
    assert "has no no/such" in tried[f"registry: {registry.host}/no/such:1"], tried
    assert client.get("/sandbox").json()["total"] == 0
    assert client.get("/images", ref="no/such").error["code"] == "IMAGE_NOT_FOUND"
    assert client.post("/images/pull", {"image": "UPPER"}).status == 400


def test_never(fresh, registry, pushed, tmp_path):
    between = Between(registry.port)
    server = fresh("--images", small_store(tmp_path / "images", IMAGES), "--registry-insecure", between.host,
                   "--pull", "never").start()
    answer = server.client().post("/sandbox", {"image": pushed.replace(registry.host, between.host), **SMALL})
    assert answer.error["code"] == "IMAGE_NOT_FOUND" and not between.seen
    between.close()


def marked(layout_dir, word):
    """An image that says a word."""
    layout = Layout(layout_dir)
    return layout.done(layout.manifest([layout.layer({**busybox_files(IMAGES), "word": word.encode()})], {"Env": ["PATH=/bin"]}))


def word(client, **spec):
    box = client.create(None, **spec)
    said = client.sh(box["id"], "cat /word")
    client.delete(f"/sandbox/{box['id']}")
    return said


@pytest.mark.parametrize("by", ["the request", "the configuration"])
def test_a_name_that_moves_on(start, registry, tmp_path, by):
    """`latest` is looked up again by policy: always, missing, never."""
    between = Between(registry.port)
    name = f"{between.host}/moves/{by.split()[1]}"
    always = {"pullPolicy": "always"} if by == "the request" else {}
    client = start("--registry-insecure", between.host, *([] if always else ["--pull", "always"])).client()

    def push(text):
        registry.push(marked(tmp_path / text, text), f"moves/{by.split()[1]}:latest")

    push("first")
    assert word(client, image=name, **always) == "first"
    push("second")
    for policy in ("missing", "never"):
        before = len(between.seen)
        assert word(client, image=name, pullPolicy=policy) == "first" and len(between.seen) == before, policy
    assert word(client, image=name, **always) == "second"
    blobs = len(between.blobs())
    assert word(client, image=name, **always) == "second" and len(between.blobs()) == blobs, "only asked"
    assert client.post("/sandbox", {"image": name, **SMALL, **always}, wait="false").status == 202
    until(lambda: client.get("/sandbox").json()["sandboxes"][0]["status"] == "RUNNING", "it runs")
    assert client.create("local", image="busybox", **always)["status"] == "RUNNING", "what no registry gave is good"
    between.close()
    answer = client.post("/sandbox", {"image": name, **SMALL, **always})
    assert (answer.status, answer.error["code"]) == (503, "REGISTRY_UNREACHABLE"), answer
    assert word(client, image=name, pullPolicy="missing") == "second"
    assert client.post("/sandbox", {"image": name, "pullPolicy": "sometimes"}).error["details"]["field"] == "pullPolicy"


def test_a_registry_that_is_away_is_not_waited_for(start, tmp_path):
    """Where a recipe makes the image one try is enough; who pulls wants more of them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, tries = f"localhost:{listener.getsockname()[1]}", []

        def hang_up():
            while True:
                try:
                    tries.append(listener.accept()[0].close())
                except OSError:
                    return

        threading.Thread(target=hang_up, daemon=True).start()
        (tmp_path / "recipes").mkdir()
        (tmp_path / "recipes/r").write_text(builds.tiny(f"{host}/tiny:1"))
        client = start("--registry-insecure", host, "--recipes", str(tmp_path / "recipes")).client()
        client.create("box", image=f"{host}/tiny:1")
        assert len(tries) == 1 and client.sh("box", "echo $GREETING") == "hello\n"
        assert pull(client, f"{host}/other:1")["error"]["code"] == "REGISTRY_UNREACHABLE"
        assert len(tries) > 2
        listener.shutdown(socket.SHUT_RDWR)


def test_docker_push(start, registry, tmp_path):
    with Dockerd() as docker:
        name = f"{registry.host}/by/docker:1"
        tree = tmp_path / "tree.tar"
        subprocess.run(["tar", "-C", layer_of("busybox"), "-cf", tree, "."], check=True)
        docker.run("import", "-c", "ENV COLOUR=red", tree, name)
        docker.run("run", "--name", "made", "--network=none", name, "/bin/sh", "-c", "echo text > /srv-file; rm /etc/group")
        docker.run("commit", "made", name)
        docker.run("push", name)
    client = start("--registry-insecure", registry.host).client()
    assert pull(client, name)["status"] == "succeeded"
    client.create("box", image=name)
    assert client.sh("box", "cat /srv-file; echo $COLOUR") == "text\nred\n"


def layer_of(name):
    text = Path(IMAGES, "refs", name).read_text()
    return str(Path(IMAGES, "layers", text.partition("layers=")[2].split()[0]))


def test_settings_with_line_breaks(start, registry, tmp_path):
    layout = Layout(tmp_path / "lines")
    layers = [layout.layer(busybox_files(IMAGES))]
    text = "one\ntwo % three\nlayers=0"
    name = registry.push(layout.done(layout.manifest(layers, {"Env": ["PATH=/bin", f"TEXT={text}"], "Cmd": [
        "/bin/sh", "-c", "echo a;\necho b"]})), "lines/box:1")
    client = start("--registry-insecure", registry.host).client()
    assert pull(client, name)["status"] == "succeeded"
    assert f"TEXT={text}" in client.get("/images", ref=name).json()["env"]
    client.create("box", image=name, startCommand="image")
    assert client.sh("box", 'echo "$TEXT"') == text + "\n"
    until(lambda: client.get("/sandbox/box/logs").json()["logs"] == "a\nb\n", "its own command")


def test_platforms(start, registry, tmp_path):
    """The entry of an index that fits this machine; none is told with what there is."""
    layout = Layout(tmp_path / "many")
    other = "arm64" if PLATFORM == "amd64" else "amd64"
    entries = {}
    for platform in (other, PLATFORM):
        manifest = layout.manifest([layout.layer({**busybox_files(IMAGES), "which": platform.encode()})], None, platform)
        entries[platform] = {**manifest, "platform": {"os": "linux", "architecture": platform}}
    name = registry.push(layout.done(layout.index([entries[other], entries[PLATFORM]])), "many/box:1")
    client = start("--registry-insecure", registry.host).client()
    assert pull(client, name)["status"] == "succeeded"
    client.create("box", image=name)
    assert client.sh("box", "cat /which") == PLATFORM
    alone = registry.push(layout.done(layout.index([entries[other]])), "many/box:2")
    job = pull(client, alone)
    assert job["status"] == "failed" and other in json.dumps(job["error"]), job


def test_by_digest(start, registry, pushed, layout):
    digest = json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
    client = start("--registry-insecure", registry.host).client()
    assert pull(client, f"{registry.host}/team/box@{digest}")["status"] == "succeeded"
    job = pull(client, f"{registry.host}/team/box@sha256:{'0' * 64}")
    assert job["status"] == "failed" and job["error"]["code"] == "IMAGE_NOT_FOUND"


# ---- who we are, and whom we trust ----


def test_tls_and_basic(start, layout, tmp_path):
    authority = Authority(tmp_path)
    secret = subprocess.run(["htpasswd", "-Bbn", "robot", "pass:word"], capture_output=True, check=True).stdout
    (tmp_path / "htpasswd").write_bytes(secret)
    registry = Registry(f"auth: {{htpasswd: {{realm: test, path: {tmp_path}/htpasswd}}}}",
                        Pair(*authority.sign("registry")))
    name = registry.push(layout, "secret/box:1", "--dest-creds", "robot:pass:word")
    config = tmp_path / "cay.conf"
    config.write_text(f"registry.{registry.host}.private = true\n")
    server = start("--config", str(config))
    assert pull(server.client(), name)["error"]["code"] == "NOT_TRUSTED"

    def again(*lines):
        server.stop()
        config.write_text("\n".join([f"registry.{registry.host}.ca = {authority.file}", *lines]) + "\n")
        return server.start().client()

    assert pull(again(), name)["error"]["code"] == "REGISTRY_DENIED"
    wrong = again(f"registry.{registry.host}.username = robot", f"registry.{registry.host}.password = wrong")
    assert pull(wrong, name)["error"]["code"] == "REGISTRY_DENIED"
    docker = tmp_path / "config.json"
    docker.write_text(json.dumps({"auths": {registry.host: {"auth": "cm9ib3Q6cGFzczp3b3Jk"}}, "credsStore": "nobody"}))
    assert pull(again(f"registry-auth = {docker}"), name)["status"] == "succeeded"
    assert "pass:word" not in server.log(1000) and "cm9ib3Q6cGFzczp3b3Jk" not in server.log(1000)
    registry.close()


def test_token(start, registry, pushed):
    tokens, between = Tokens("robot", "pw"), Between(registry.port)
    between.rule = tokens.guard
    name = pushed.replace(registry.host, between.host)
    env = {"CAY_REGISTRY": f"{between.host}.username=robot"}
    server = start("--registry-insecure", f"{between.host},{tokens.host}", env=env)
    assert pull(server.client(), name)["error"]["code"] == "REGISTRY_DENIED"
    server.stop()
    auth = os.path.join(server.data, "auth.json")
    with open(auth, "w") as file:
        json.dump({"auths": {f"http://{between.host}": {"username": "robot", "password": "pw"}}}, file)
    server.env.pop("CAY_REGISTRY")
    server.args += ["--registry-auth", auth]
    assert pull(server.start().client(), name)["status"] == "succeeded"
    assert tokens.asked[-1] == ("/token?scope=repository%3Ateam%2Fbox%3Apull&service=test", tokens.basic)
    assert len([a for a in tokens.asked if a[1]]) == 1, "one token for all of it"
    assert not any("Basic" in str(headers) for _, _, headers in between.seen), "the password goes to the token server only"
    tokens.close()
    between.close()


def test_private_addresses_are_refused(start, registry, pushed):
    """Whoever names a registry does not get to knock on the operator's doors."""
    between = Between(registry.port)
    server = start("--registry-insecure", between.host)
    client = server.client()
    for host in (registry.host, f"127.0.0.1:{registry.port}", "169.254.169.254", "10.0.0.1"):
        job = pull(client, f"{host}/team/box:1")
        assert job["error"]["code"] in ("ADDRESS_REFUSED", "INSECURE_REGISTRY"), job
    # Nor by a redirect of one that is open to us.
    between.rule = lambda path, handler: "/blobs/" in path and not handler.answer(
        307, b"", {"Location": f"http://127.0.0.1:{registry.port}{path}"})
    job = pull(client, pushed.replace(registry.host, between.host))
    assert job["error"]["code"] == "INSECURE_REGISTRY", job
    between.rule = lambda path, handler: "/blobs/" in path and not handler.answer(
        307, b"", {"Location": f"https://127.0.0.1:{registry.port}{path}"})
    job = pull(client, pushed.replace(registry.host, between.host))
    assert job["error"]["code"] == "ADDRESS_REFUSED", job
    between.close()


def test_redirects(start, registry, pushed):
    """Blobs may lie elsewhere; a secret does not go there; a loop ends."""
    tokens, thief = Tokens("robot", "pw"), Tokens("robot", "pw")
    between, elsewhere = Between(registry.port), Between(registry.port)
    name = pushed.replace(registry.host, between.host)

    def rule(path, handler):
        if tokens.guard(path, handler):
            return True
        if "/blobs/" in path:
            handler.answer(307, b"", {"Location": f"http://{elsewhere.host}{path}"})
        return "/blobs/" in path

    between.rule = rule
    auth = os.path.join(os.path.dirname(str(registry.dir)), f"auth-{os.getpid()}.json")
    with open(auth, "w") as file:
        json.dump({"auths": {between.host: {"username": "robot", "password": "pw"}}}, file)
    server = start("--registry-insecure", f"{between.host},{elsewhere.host},{tokens.host},{thief.host}", "--registry-auth", auth)
    os.unlink(auth)
    client = server.client()
    elsewhere.rule = thief.guard  # where blobs lie one cannot say who gets the registry's password
    assert pull(client, name)["error"]["code"] == "REGISTRY_DENIED"
    assert elsewhere.blobs() and thief.asked == []
    elsewhere.rule = None
    assert pull(client, name)["status"] == "succeeded"
    assert elsewhere.blobs() and not any("Authorization" in headers for _, _, headers in elsewhere.seen)
    between.rule = lambda path, handler: not handler.answer(302, b"", {"Location": path + "x"})
    job = pull(client, name.replace(":1", ":2"))
    assert job["error"]["code"] == "TOO_MANY_REDIRECTS", job
    for one in (tokens, thief, between, elsewhere):
        one.close()


def test_mirrors(start, registry, pushed, tmp_path):
    """Asked first, in their order; the registry itself last."""
    mirror, dead = Between(registry.port), Between(registry.port)
    dead.rule = lambda path, handler: not handler.answer(404)
    config = tmp_path / "cay.conf"
    config.write_text(f"registry.images.invalid.mirror = http://{dead.host},http://{mirror.host}\n")
    client = start("--config", str(config)).client()
    assert pull(client, "images.invalid/team/box:1")["status"] == "succeeded"
    assert len(dead.seen) == 1, "who did not have it is not asked again"
    job = pull(client, "images.invalid/team/none:1")
    assert job["error"]["code"] == "REGISTRY_NOT_FOUND", job
    assert dead.host in job["error"]["details"]["cause"] and "images.invalid" in job["error"]["details"]["cause"]
    mirror.close()
    dead.close()


# ---- when things go wrong ----


@pytest.fixture
def broken(start, registry, pushed):
    between = Between(registry.port)
    client = start("--registry-insecure", between.host).client()
    yield between, client, pushed.replace(registry.host, between.host)
    between.close()


def test_goes_on_where_it_was_cut(broken):
    between, client, name = broken
    cuts = {}

    def rule(path, handler):
        if "/blobs/" not in path or cuts.setdefault(path, 0) >= 2:
            return False
        cuts[path] += 1
        handler.cut_after(100000)
        return True

    between.rule = rule
    job = pull(client, name)
    assert job["status"] == "succeeded" and job["bytes"] == job["totalBytes"], job
    ranges = sorted(headers["Range"] for _, _, headers in between.blobs() if "Range" in headers)
    assert ranges and set(ranges) == {"bytes=100000-", "bytes=200000-"}
    client.create("box", image=name)


def test_a_server_that_does_not_do_parts(broken):
    between, client, name = broken
    cut = set()

    def rule(path, handler):
        if "/blobs/" not in path:
            return False
        del handler.headers["Range"]
        if path in cut:
            return False
        cut.add(path)
        handler.cut_after(70000)
        return True

    between.rule = rule
    job = pull(client, name)
    assert job["status"] == "succeeded" and job["bytes"] == job["totalBytes"], job


def test_wrong_bytes(broken):
    between, client, name = broken
    between.mangle = lambda body: body[:-1] + bytes([body[-1] ^ 1])
    job = pull(client, name)
    assert job["status"] == "failed" and job["error"]["code"] == "DIGEST_MISMATCH", job
    assert client.get("/images", ref=name).status == 404
    between.mangle = None
    assert pull(client, name)["status"] == "succeeded", "nothing of it stayed"


def test_wrong_manifest(broken, layout):
    between, client, name = broken
    digest = json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
    between.rule = lambda path, handler: "/manifests/" in path and not handler.answer(
        200, b'{"schemaVersion": 2}', {"Content-Type": "application/vnd.oci.image.manifest.v1+json"})
    assert pull(client, f"{name.rsplit(':', 1)[0]}@{digest}")["error"]["code"] == "DIGEST_MISMATCH"
    assert pull(client, name)["error"]["code"] == "BAD_IMAGE"
    between.rule = lambda path, handler: "/manifests/" in path and not handler.answer(200, b" " * (5 << 20))
    assert pull(client, name)["error"]["code"] == "BAD_REGISTRY", "a manifest without an end"


def test_too_many_bytes(broken):
    between, client, name = broken
    between.mangle = lambda body: body + b"more"
    assert pull(client, name)["error"]["code"] == "BAD_REGISTRY"


def test_busy_and_failing(broken):
    between, client, name = broken
    answers = [429, 500, 503]

    def rule(path, handler):
        if not answers:
            return False
        handler.answer(answers.pop(0), b"later", {"Retry-After": "1"})
        return True

    between.rule = rule
    assert pull(client, name)["status"] == "succeeded" and not answers
    between.rule = lambda path, handler: not handler.answer(500, b"broken\nfor good")
    job = pull(client, name.replace(":1", ":2"))
    assert job["error"]["code"] == "REGISTRY_UNREACHABLE" and "broken for good" in job["error"]["details"]["cause"]


def test_cancel(broken):
    between, client, name = broken
    waiting, go = threading.Event(), threading.Event()

    def rule(path, handler):
        if "/blobs/" in path:
            waiting.set()
            go.wait(stretch(30))
        return False

    between.rule = rule
    job = client.post("/images/pull", {"image": name}).json()
    assert waiting.wait(stretch(20))
    answer = client.delete(f"/jobs/{job['id']}")
    assert answer.status == 200, answer
    assert finished(client, job["id"])["status"] == "cancelled"
    go.set()
    assert client.get("/images", ref=name).status == 404
    assert client.delete("/jobs/job_0000000000000000").error["code"] == "JOB_NOT_FOUND"


def test_a_restart_loses_jobs(fresh, registry, tmp_path, pushed):
    between = Between(registry.port)
    waiting, go = threading.Event(), threading.Event()

    def rule(path, handler):
        waiting.set()
        go.wait(stretch(30))
        return False

    between.rule = rule
    server = fresh("--images", small_store(tmp_path / "images", IMAGES), "--registry-insecure", between.host).start()
    job = server.client().post("/images/pull", {"image": pushed.replace(registry.host, between.host)}).json()
    assert waiting.wait(stretch(20))
    server.kill("server")
    go.set()
    server.recover()
    told = server.client().get(f"/jobs/{job['id']}").json()
    assert told["status"] == "lost" and told["error"]["code"] == "JOB_LOST"
    assert os.listdir(os.path.join(server.data, "pulls")) == []
    between.close()


def test_memory(start, registry, tmp_path):
    """However large an image is, the server that fetches it stays small."""
    layout = Layout(tmp_path / "large")
    layers = [layout.layer({f"noise{i}": os.urandom(40 << 20)}, "") for i in range(3)]
    name = registry.push(layout.done(layout.manifest(layers)), "large/box:1")
    server = start("--registry-insecure", registry.host)
    client = server.client()
    before = 1024 * proc.rss_kib(server.pid("server"))
    job = client.post("/images/pull", {"image": name}).json()["id"]
    grown = 0
    while client.get(f"/jobs/{job}").json()["status"] in ("waiting", "running"):
        grown = max(grown, 1024 * proc.rss_kib(server.pid("server")) - before)
        time.sleep(0.02)
    assert client.get(f"/jobs/{job}").json()["status"] == "succeeded"
    assert grown < 32 << 20, f"{grown >> 20} MiB"


def test_command_line(start, registry, pushed):
    """Plain lines where there is no terminal; a bar where there is one is the same code as of `cay cp`."""
    server = start("--registry-insecure", registry.host)

    def cay(*args):
        return subprocess.run([CAY, "image", *args], capture_output=True, text=True, timeout=stretch(60),
                              env={**os.environ, "CAY_URL": server.url})

    done = cay("pull", pushed)
    assert (done.returncode, done.stdout) == (0, pushed + "\n") and f"{pushed.split('/')[-1]}: done" in done.stderr, done
    listed = {line.split("\t")[0]: line.split("\t") for line in cay("ls").stdout.splitlines()}
    assert listed[pushed][1].startswith("sha256:") and "busybox" in listed
    assert json.loads(cay("inspect", pushed).stdout)["name"] == pushed
    archive = os.path.join(server.data, "box.tar")
    assert cay("export", pushed, archive).returncode == 0
    told = subprocess.run(["skopeo", "inspect", f"docker-archive:{archive}"], capture_output=True, text=True)
    assert told.returncode == 0 and len(json.loads(told.stdout)["Layers"]) == 3, told
    os.unlink(archive)
    gone = cay("rm", pushed)
    assert gone.stdout == pushed + "\n", gone
    assert cay("inspect", pushed).returncode == 1
    assert "3 layers" in cay("prune").stdout
    failed = cay("pull", f"{registry.host}/none:1")
    assert failed.returncode == 1 and "IMAGE_NOT_FOUND" in failed.stderr
    assert cay("pull").returncode == cay("dance").returncode == 2
