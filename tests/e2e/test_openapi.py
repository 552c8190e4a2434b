# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document of a real server: that it is one, that each of its examples works, and that what comes back is
what it says."""
import base64
import hashlib
import io
import json
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness import venv
from harness.openapi import Document, Operator, send
from harness.registry import small_store
from harness.server import IMAGES, Server
from harness.wait import stretch, until
from harness.websocket import WebSocket

SMALL = {"dockerImage": "busybox", "memoryGB": 0.125, "labels": ["demo"]}
STREAMS = ("text/event-stream", "application/x-ndjson")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    images = small_store(tmp_path_factory.mktemp("store") / "images", IMAGES, "spare:1")
    server = Server("--auth", "keys", "--images", images)
    server.start()
    yield server
    server.close()


class World:
    """What an example finds: a fresh one for each, so that none depends on another."""

    def __init__(self, house):
        self.operator = Operator(house)
        self.images = house.args[house.args.index("--images") + 1]
        self.made = 0
        house.cay("account", "create", "demo")
        self.client = house.client(token=house.key("--account", "demo", "--scopes", "write,account"))

    def clear(self):
        for sandbox in self.client.get("/sandbox", perPage=100).json()["sandboxes"]:
            assert self.client.delete(f"/sandbox/{sandbox['id']}", preserveVolume="false").status == 200
        for kind in ("snapshots", "volumes"):
            for one in self.client.get(f"/{kind}").json()[kind]:
                assert self.client.delete(f"/{kind}/{one['id']}").status == 200

    def sandbox(self):
        made = self.client.create("demo", startCommand="echo started; sleep 1000", track="workspace", **SMALL)
        assert self.client.request("PUT", "/sandbox/demo/files", b"hello\n", {"path": "hello.txt"}).status == 201
        return made["id"]

    def execution(self, verb):
        how = {"stdin": {"command": "cat", "openStdin": True}, "resize": {"command": "sleep 1000", "tty": True},
               "kill": {"command": "sleep 1000"}, "attach": {"command": "sleep 1000"}}
        if verb in how:
            return self.client.detach("demo", **how[verb])
        return self.client.exec("demo", "echo hello")["id"]

    def process(self):
        self.client.detach("demo", ["sleep", "1000"])
        found = self.client.get("/sandbox/demo/processes").json()["processes"]
        return str(next(p["pid"] for p in found if p["command"] == "sleep 1000"))

    def port(self, verb):
        assert self.client.post("/sandbox/demo/ports", {"port": 3000}).status == 201
        if verb == "tunnel":
            self.client.detach("demo", ["nc", "-l", "-p", "3000"])
            until(lambda: ":0BB8 " in self.client.sh("demo", "cat /proc/net/tcp /proc/net/tcp6"), "it listens")
        return "3000"

    def account(self):
        self.made += 1
        answer = send(self.operator, "POST", "/api/v1/accounts", json.dumps({"name": f"one-{self.made}"}),
                      {"Content-Type": "application/json"})
        return json.loads(answer[2])["id"]

    def of_account(self, kind):
        answer = self.client.post(kind, {"name": "some"})
        assert answer.status == 201, answer
        return answer.json()["id"]

    def image(self, operation):
        if operation.method != "DELETE":
            return "busybox"
        refs = Path(self.images, "refs")
        (refs / "old:1").write_text((refs / "busybox").read_text())
        return self.bring("old:1")

    def bring(self, image):
        """From the store to wherever the provider has its images."""
        self.client.create("brought", **{**SMALL, "dockerImage": image})
        assert self.client.delete("/sandbox/brought").status == 200
        return image

    def kept(self, kind):
        self.sandbox()
        if kind == "snapshots":
            return self.client.post("/sandbox/demo/snapshot", {}).json()["id"]
        return self.client.delete("/sandbox/demo", preserveVolume="true").json()["volumeId"]

    def furnish(self, operation):
        """Lists have something to list."""
        last = operation.path.rsplit("/", 1)[1]
        if last in ("snapshots", "volumes"):
            self.kept(last)
        elif (operation.method, last) == ("DELETE", "images"):
            self.bring("spare:1")
        elif not operation.names():
            self.sandbox()

    def value(self, operation, name, values):
        """What stands for a path parameter."""
        words = operation.path.split("/")
        before, last = words[words.index("{%s}" % name) - 1], words[-1]
        if name == "ns":
            return "local"
        if name == "id" and before in ("sandbox", "{ns}"):
            self.sandbox()
            return "demo"
        if name == "id" and before in ("snapshots", "volumes"):
            return self.kept(before)
        if name == "aid" and before == "members" and operation.method == "DELETE":
            who = self.account()
            answer = self.client.request("PUT", f"/teams/{values['tid']}/members/{who}", {"role": "viewer"})
            assert answer.status == 200, answer
            return who
        ways = {"eid": lambda: self.execution(last), "pid": self.process, "aid": self.account,
                "port": lambda: self.port(last), "xid": lambda: self.port(last),
                "tid": lambda: self.of_account("/teams"), "kid": lambda: self.of_account("/account/keys")}
        if name == "ref":
            return self.image(operation)
        if name == "jid":
            return self.client.post("/images/pull", {"image": "node:20-bookworm", "policy": "missing"}).json()["id"]
        assert name in ways, f"{operation}: say in {__file__} (World.value) how to come by a {{{name}}}"
        return ways[name]()


def archive():
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("a.txt")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"hello"))
    return out.getvalue()


def run(world, document, operation):
    """Runs its example; why it is not as the document says."""
    world.clear()
    if operation.method in ("GET", "DELETE") or operation.path == "/api/sandbox/exec":
        world.furnish(operation)
    values = {}
    for name in operation.names():
        values[name] = world.value(operation, name, values)
    target = operation.fill(values) + operation.query()
    good = operation.good()
    if good == "101":
        WebSocket(world.client, target.removeprefix("/api/v1"),
                  {"Authorization": f"Bearer {world.client.token}"}).close()
        return []
    media, body = operation.body()
    if body and b"COMMIT" in (body if isinstance(body, bytes) else body.encode()):
        body = json.dumps({"executionId": world.client.get("/sandbox/demo/history").json()["history"][0]["commitId"]})
    wanted = next(iter(operation.responses[good].get("content", {"*/*": None})))
    headers = {"Accept": wanted, **({"Content-Type": media} if media else {})}
    if media == "application/x-tar":
        body = archive()
    if media == "multipart/form-data":
        headers["Content-Type"] += "; boundary=XX"
        body = b'--XX\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nhello\r\n--XX--\r\n'
    endless = wanted == STREAMS[0]
    who = world.operator if operation.scopes == ["admin"] else world.client
    status, kind, got = send(who, operation.method, target, body, headers,
                             (lambda so_far: b"\n" in so_far) if endless else None)
    if str(status) != good:
        return [f"answered {status}, not {good}: {got[:300]!r}"]
    return document.answer_faults(operation, status, kind, got)


@pytest.mark.limit(300)
def test_every_example_works_and_answers_as_described(house):
    world = World(house)
    document = Document(world.client)
    assert len(document.operations) > 60
    found = {repr(o): faults for o in document.operations if (faults := run(world, document, o))}
    world.clear()
    assert not found, json.dumps(found, indent=1)


def test_it_is_an_openapi_document(house, tmp_path):
    place = tmp_path / "openapi.json"
    place.write_text(json.dumps(Document(house.client()).json))
    python = venv.python()
    done = subprocess.run([python, "-m", "openapi_spec_validator", "--schema", "3.1", place], capture_output=True,
                          text=True, timeout=stretch(60))
    assert done.returncode == 0, done.stdout + done.stderr


def test_errors_are_described(house):
    client = house.client()
    document = Document(client)
    one = next(o for o in document.operations if repr(o) == "GET /api/v1/sandbox/{id}")
    status, media, body = send(client, "GET", "/api/v1/sandbox/nobody")
    assert status == 401
    assert document.answer_faults(one, status, media, body) == []


def test_what_is_not_described_is_a_fault(house):
    """The judge of the tests above can say no."""
    document = Document(house.client())
    schema = {"$ref": "#/components/schemas/Window"}
    assert document.faults(schema, {"cols": 1, "rows": 2}) == []
    for wrong in ({"cols": "1", "rows": 2}, {"cols": 1, "rows": 2, "more": 3}, [], None, {"cols": None}):
        assert document.faults(schema, wrong), wrong
    assert document.faults({"$ref": "#/components/schemas/Key"}, {"id": "x"})


def test_the_page_may_run_its_own_script_and_nothing_else(house):
    conn = house.client().connect()
    conn.request("GET", "/docs")
    answer = conn.getresponse()
    page, policy = answer.read().decode(), answer.headers["Content-Security-Policy"]
    conn.close()
    assert answer.status == 200
    for tag, rule in (("script", "script-src"), ("style", "style-src")):
        [text] = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'") and "unsafe" not in policy
    assert not re.search(r"""(src|href)=["'](https?:)?//|style=|\son\w+=|javascript:""", page)
