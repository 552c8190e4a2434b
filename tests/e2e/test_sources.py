# SPDX-License-Identifier: Apache-2.0
"""Sources: what a sandbox begins with, fetched by itself. All of it in namespaces that the test made."""
import json
import subprocess
import threading
from pathlib import Path

import pytest

from harness.egress import probe, wish
from harness.server import CAY
from harness.sources import URL
from harness.wait import until

REPO = f"{URL}/repo/plain.git"


@pytest.fixture(scope="module")
def options(sources):
    return sources.options()


@pytest.fixture(scope="module")
def commits(sources):
    return sources.repository("plain", {"a": "one\n"}, {"a": "two\n", "run.sh": "echo ran >> log\n"})


def ask(client, source, wait=True, **spec):
    return client.request("POST", "/sandbox" + ("" if wait else "?wait=false"), {"name": "src", "source": source, **spec})


def made(client, source, **spec):
    answer = ask(client, source, **spec)
    assert answer.status == 201, answer
    return answer.json()


def refused(client, source, status, code, field="source.url", **spec):
    """A failure leaves no row, no sandbox and no log."""
    answer = ask(client, source, **spec)
    assert (answer.status, answer.error["code"]) == (status, code), answer
    assert answer.error["details"]["field"] == field
    assert client.names() == []
    return answer.error["message"] + " " + answer.error["details"].get("cause", "")


def test_clone(client, commits):
    box = made(client, {"type": "git", "url": REPO}, networkAccess=False, startCommand="sh run.sh; sleep 1000")
    assert box["status"] == "RUNNING" and box["source"] == {"type": "git", "url": REPO}
    assert client.sh(box["id"], "cat a; git rev-parse HEAD; git status --short | grep -v log; git branch --show-current; ls .git/hooks 2>&1 | wc -l"
                     ).split() == ["two", commits[1], "main", "1"]
    until(lambda: client.exec(box["id"], "cat log")["stdout"] == "ran\n", "the start command came after the source")
    assert client.sh(box["id"], "git remote get-url origin").strip() == REPO
    runs = client.get(f"/sandbox/{box['id']}/exec").json()
    assert "git clone" not in json.dumps(runs), "the fetch is none of the caller's commands"


@pytest.mark.parametrize("revision, depth, want, count", [
    ("v1", None, 0, 1), ("side", None, 0, 1), ("main", 1, 1, 1), ("COMMIT0", None, 0, 1), ("COMMIT1", 1, 1, 1), ("COMMIT1", None, 1, 2),
    (None, 1, 1, 1), (None, None, 1, 2)])
def test_revisions(client, commits, revision, depth, want, count):
    named = commits[int(revision[-1])] if (revision or "").startswith("COMMIT") else revision
    source = {"type": "git", "url": REPO, **({"revision": named} if named else {}), **({"depth": depth} if depth else {})}
    box = made(client, source)
    assert box["source"] == source
    assert client.sh(box["id"], "git rev-parse HEAD; git rev-list HEAD | wc -l").split() == [commits[want], str(count)]


def test_unknown_revision(client, commits):
    assert "nowhere" in refused(client, {"type": "git", "url": REPO, "revision": "nowhere"}, 422, "SOURCE_FAILED")
    refused(client, {"type": "git", "url": REPO, "revision": "0" * 40}, 422, "SOURCE_FAILED")
    refused(client, {"type": "git", "url": f"{URL}/repo/none.git"}, 422, "SOURCE_FAILED")


def test_credentials(client, server, sources):
    sources.repository("private", {"a": "mine\n"})
    url = f"{URL}/repo/private.git"
    assert "hunter2x" not in refused(client, {"type": "git", "url": url}, 422, "SOURCE_FAILED")
    assert "wrong" not in refused(client, {"type": "git", "url": url, "username": "me", "password": "wrong"}, 422, "SOURCE_FAILED")
    answer = ask(client, {"type": "git", "url": url, "username": "me", "password": "hunter2x"})
    assert answer.status == 201 and "hunter2x" not in answer.body.decode() and '"me"' not in answer.body.decode()
    box = answer.json()
    assert client.sh(box["id"], "cat a") == "mine\n"
    both = "bWU6aHVudGVyMng="  # me:hunter2x
    shown = "".join(client.get(path).body.decode() for path in
                    (f"/sandbox/{box['id']}", "/sandbox", f"/sandbox/{box['id']}/exec", "/audit"))
    assert "hunter2x" not in shown and both not in shown
    kept = b"".join(p.read_bytes() for p in Path(server.data).rglob("*") if p.is_file() and p.stat().st_size < 1 << 24
                    and not {"trees", "run", "engine"} & set(p.parts))
    assert b"private.git" in kept and both.encode() not in kept and b"hunter2x" not in kept
    assert "hunter2x" not in server.log() and both not in server.log()
    assert client.sh(box["id"], f"grep -rlE 'hunter2x|{both}' . /tmp $HOME 2> /dev/null; env | grep -c {both}; true").split() == ["0"]


@pytest.mark.parametrize("tool", ["curl", "node", "python3", "nothing curl"])
@pytest.mark.parametrize("name", ["good.tar", "good.tgz"])
def test_tarball(client, tool, name):
    source = {"type": "tarball", "url": f"{URL}/tar/{name}"}
    box = made(client, source, networkAccess=False, env={"CAY_FETCH_WITH": tool})
    assert box["source"] == source
    assert client.sh(box["id"], "cat a d/b; echo; ls -A; ls /tmp").split() == ["hellothere", "a", "d"]


def test_a_way_out_for_that_step_only(client, net, commits):
    box = made(client, {"type": "git", "url": REPO}, networkAccess=False)
    there, name = probe(client, box, wish("tcp", "203.0.113.20", 8443), wish("lookup", "git.example"))
    assert there["error"] == "ECONNREFUSED" and name["error"]
    used = client.get(f"/sandbox/{box['id']}/stats").json()["network"]
    assert used["rxBytes"] > 1000
    client.delete(f"/sandbox/{box['id']}")
    box = made(client, {"type": "git", "url": REPO}, networkPolicy={"allow": ["web.example"]})
    web, there = probe(client, box, wish("http", "web.example"), wish("tcp", "203.0.113.20", 8443))
    assert web["data"].startswith("hello") and there.get("error"), (web, there)
    client.delete(f"/sandbox/{box['id']}")
    refused(client, {"type": "git", "url": REPO}, 422, "SOURCE_FAILED", networkPolicy={"deny": ["git.example"]})


def test_ready_follows_the_source(client, commits):
    box = made(client, {"type": "git", "url": REPO}, startCommand="sh run.sh && cat log && sleep 1000", readyWhen={"logLine": "ran"})
    assert box["status"] == "RUNNING" and box["readyWhen"]["logLine"] == "ran"
    client.delete(f"/sandbox/{box['id']}")
    answer = ask(client, {"type": "git", "url": REPO}, startCommand="sleep 1000", readyWhen={"logLine": "never", "timeoutMs": 300})
    assert answer.error["code"] == "NOT_READY" and client.names() == []
    refused(client, {"type": "git", "url": REPO}, 400, "VALIDATION_ERROR", field="workdir", workdir="/no/such")


def test_without_waiting(client, commits):
    box = ask(client, {"type": "git", "url": REPO}, wait=False)
    assert box.status == 202 and box.json()["status"] == "PENDING"
    until(lambda: client.sandbox(box.json()["id"])["status"] == "RUNNING", "it runs")
    assert client.sh(box.json()["id"], "cat a") == "two\n"
    client.delete(f"/sandbox/{box.json()['id']}")
    box = ask(client, {"type": "tarball", "url": f"{URL}/tar/page.html"}, wait=False).json()
    until(lambda: client.sandbox(box["id"])["status"] == "ERROR", "it failed")
    assert "tar" in client.sandbox(box["id"])["statusReason"]


def test_a_slow_source_holds_nobody_up(client, server):
    slow = {"type": "tarball", "url": f"{URL}/bad/slow", "timeoutMs": 60000}
    asked = [threading.Thread(target=lambda: server.client().request("POST", "/sandbox", {"source": slow})) for _ in range(40)]
    for thread in asked:
        thread.start()
    until(lambda: len(client.names()) == 40, "all are being made", 60)
    box = client.create("beside", memoryGB=0.25)
    assert client.sh(box["id"], "echo hi") == "hi\n"
    for one in client.get("/sandbox", per_page=100).json()["sandboxes"]:
        assert client.delete(f"/sandbox/{one['id']}").status in (200, 404)
    for thread in asked:
        thread.join(30)
        assert not thread.is_alive(), "who waited has heard of it"
    assert client.names() == []


def test_a_fork_does_not_fetch(client, sources, commits):
    box = made(client, {"type": "git", "url": REPO})
    before = len(sources.requests())
    fork = client.post(f"/sandbox/{box['id']}/fork", {"name": "a-fork"}).json()
    assert fork["source"] is None and client.sh(fork["id"], "cat a") == "two\n"
    assert client.post(f"/sandbox/{box['id']}/stop").status == 200
    assert client.post(f"/sandbox/{box['id']}/start").status == 200
    assert client.sh(box["id"], "cat a") == "two\n" and len(sources.requests()) == before


def test_an_image_without_tools(client):
    assert "no git" in refused(client, {"type": "git", "url": REPO}, 422, "SOURCE_FAILED", dockerImage="busybox")
    assert "no curl, node or python3" in refused(client, {"type": "tarball", "url": f"{URL}/tar/good.tar"}, 422, "SOURCE_FAILED",
                                                 dockerImage="busybox")


def test_server_ends_meanwhile(fresh, options, sources):
    server = fresh(*options).start()
    before = sources.requests().count("GET /bad/slow None")
    assert ask(server.client(), {"type": "tarball", "url": f"{URL}/bad/slow"}, wait=False).status == 202
    until(lambda: sources.requests().count("GET /bad/slow None") > before, "it is being fetched")
    server.kill("server")
    server.recover()
    client = server.client()
    until(lambda: client.sandbox("src")["status"] == "ERROR", "it failed")
    until(lambda: server.inits() == [], "nothing of it runs")


def test_cli(client, server, commits):
    def cay(*args):
        return subprocess.run([CAY, *args], capture_output=True, text=True, env={**server.env, "CAY_URL": server.url}, timeout=60)

    box = cay("create", "--source", f"{REPO}@v1")
    assert box.returncode == 0, box.stderr
    assert client.sh(box.stdout.strip(), "cat a") == "one\n"
    assert client.sandbox(box.stdout.strip())["source"] == {"type": "git", "url": REPO, "revision": "v1"}
    box = cay("create", "--source", f"{URL}/tar/good.tgz")
    assert client.sh(box.stdout.strip(), "cat a") == "hello", box.stderr
