# SPDX-License-Identifier: Apache-2.0
"""Code history: versions of the workspace, what differs, the way back."""
import os
import pty
import subprocess
import threading
from pathlib import Path

import pytest

from harness.server import CAY
from harness.wait import stretch, until

SMALL = {"image": "busybox", "memoryGB": 0.125}
TEXT = "Update files for sandbox execution"


@pytest.fixture
def kept(client):
    return client.create("kept", track="workspace", **SMALL)


def history(client, name="kept"):
    answer = client.get(f"/sandbox/{name}/history")
    assert answer.status == 200, answer
    return answer.json()["history"]


def diff(client, a=None, b=None, name="kept"):
    body = {k: v for k, v in (("fromExecId", a), ("toExecId", b)) if v}
    answer = client.post(f"/sandbox/{name}/diff", body)
    assert answer.status == 200, answer
    return answer.json()["diff"]


def rollback(client, ident, path=None, name="kept"):
    answer = client.post(f"/sandbox/{name}/rollback", {"executionId": ident} | ({"path": path} if path else {}))
    assert answer.status == 200, answer
    return answer.json()


def test_each_execution_makes_a_version(client, kept):
    first = client.exec("kept", "cat a.txt", files={"a.txt": "one"})
    second = client.exec("kept", "cat a.txt", files={"a.txt": "two\nthree"})
    assert client.exec("kept", "true")["exitCode"] == 0, "nothing changed: no version"
    third = client.exec("kept", "echo made > by-command; mkdir -p d/e; echo x > d/e/f; rm README.md")
    versions = history(client)
    assert [v["id"] for v in versions] == [third["id"], second["id"], first["id"], "unknown"]
    assert [v["message"] for v in versions] == [TEXT, TEXT, TEXT, "Initial commit"]
    assert [v["files"] for v in versions] == [["README.md", "by-command", "d/e/f"], ["a.txt"], ["a.txt"], ["README.md"]]
    text = diff(client, first["id"], second["id"])["a.txt"]
    head, rest = text.split("--- ")
    assert head.startswith("diff --git a/a.txt b/a.txt\nindex ") and head.endswith(" 100644\n")
    assert rest == "a/a.txt\n+++ b/a.txt\n@@ -1 +1,2 @@\n-one\n+two\n+three\n"
    assert set(diff(client, second["id"], third["id"])) == {"README.md", "by-command", "d/e/f"}
    assert set(diff(client)) == {"README.md", "a.txt", "by-command", "d/e/f"}


def test_off_and_files(client):
    client.create("off", **SMALL)
    client.exec("off", "true", files={"a": "1"})
    answer = client.get("/sandbox/off/history")
    assert (answer.status, answer.error["code"]) == (404, "NO_HISTORY")
    client.create("some", track="files", **SMALL)
    client.exec("some", "echo x > other", files={"a": "1"})
    client.exec("some", "echo y > more")
    assert [v["files"] for v in history(client, "some")] == [["a"], ["README.md"]]


def test_rollback(client, kept):
    one = client.exec("kept", "chmod 755 run; ln -s run link; echo 1 > swap; mkdir dir; echo x > dir/file",
                      files={"run": "#!/bin/sh\necho one\n"})["id"]
    client.exec("kept", "rm link swap; rm -r dir; echo now-a-file > dir; mkdir swap; echo 2 > swap/inner; chmod 644 run; "
                        "ln -s /etc link; echo new > extra", files={"run": "#!/bin/sh\necho two\n"})
    client.sh("kept", "true")
    back = rollback(client, one)
    assert back["status"] == "rolled_back" and back["executionId"] == one
    assert client.sh("kept", "./run; readlink link; cat swap dir/file; ls") == \
        "one\nrun\n1\nx\nREADME.md\ndir\nlink\nrun\nswap\n"
    versions = history(client)
    assert versions[0]["commitId"] == back["commitId"] and versions[0]["message"] == f"Rollback to {one}"
    assert len(versions) == 4, "what was is kept"
    rollback(client, versions[1]["commitId"])
    assert client.sh("kept", "cat dir swap/inner extra; readlink link") == "now-a-file\n2\nnew\n/etc\n"


def test_what_no_version_has_is_one_before_a_rollback(client, kept):
    one = client.exec("kept", "true", files={"a": "1"})["id"]
    assert client.request("PUT", "/sandbox/kept/files", b"uploaded", {"path": "a"}).status == 200
    rollback(client, one)
    assert client.sh("kept", "cat a") == "1"
    assert [v["message"] for v in history(client)][:2] == [f"Rollback to {one}", "Changes before a rollback"]
    rollback(client, history(client)[1]["commitId"])
    assert client.sh("kept", "cat a") == "uploaded"


def test_one_file(client, kept):
    one = client.exec("kept", "true", files={"a": "1", "b": "1"})["id"]
    client.exec("kept", "true", files={"a": "2", "b": "2"})
    assert rollback(client, one, "a")["files"] == ["a"]
    assert client.sh("kept", "cat a b") == "12"
    for path, status in (("nowhere", 404), ("../a", 400), ("*", 404)):
        answer = client.post("/sandbox/kept/rollback", {"executionId": one, "path": path})
        assert answer.status == status and answer.error["details"]["field"] == "path", answer


@pytest.mark.parametrize("ident", ["--output=/tmp/x", "-c core.pager=x", "HEAD@{1}", ":/x", "HEAD", "main", "exec_0",
                                   "unknown", "a" * 40, "../x", "*"])
def test_ids_are_ours(client, kept, ident):
    client.exec("kept", "true", files={"a": "1"})
    for path, body in (("diff", {"fromExecId": ident}), ("diff", {"toExecId": ident}), ("rollback", {"executionId": ident}),
                       ("fork", {"executionId": ident})):
        answer = client.post(f"/sandbox/kept/{path}", body)
        assert answer.status == 404 and answer.error["code"] == "EXECUTION_NOT_FOUND", (path, answer)
        assert answer.error["details"]["field"] in body
    assert client.names() == ["kept"]


def test_another_sandboxes_execution(client, kept):
    client.create("other", track="workspace", **SMALL)
    theirs = client.exec("other", "true", files={"a": "1"})["id"]
    for path, key in (("diff", "fromExecId"), ("rollback", "executionId"), ("fork", "executionId")):
        assert client.post(f"/sandbox/kept/{path}", {key: theirs}).status == 404


def test_repositories_hooks_and_filters_inside(client, kept, server):
    """A-46: nothing in a workspace is more than bytes."""
    evil = "mkdir -p .git/hooks nested.git/refs nested.git/objects sub; echo 'ref: x' > nested.git/HEAD; "
    evil += "printf '[core]\\n fsmonitor = /tmp/x\\n hooksPath = /tmp\\n' > .git/config; ln -s /etc sub/.git; "
    evil += "printf '#!/bin/sh\\ntouch /tmp/ran\\n' > .git/hooks/post-commit; chmod +x .git/hooks/post-commit; "
    evil += "printf '* filter=evil diff=evil\\n' > .gitattributes; echo plain > a"
    ident = client.exec("kept", evil)["id"]
    assert history(client)[0]["files"] == [".gitattributes", "a", "nested.git/HEAD"]
    assert "+plain" in diff(client)["a"]
    client.exec("kept", "rm -r .git sub nested.git; echo changed > a; mkdir .git; echo mine > .git/own")
    rollback(client, ident)
    assert client.sh("kept", "cat a .git/own; test -e /tmp/ran || echo well") == "plain\nmine\nwell\n"


def test_odd_names_loops_and_kinds(client, kept):
    script = "ln -s b a; ln -s a b; ln -s . self; mkfifo pipe; printf x > \"$(printf 'new\\nline')\"; "
    script += "printf y > \"$(printf 'bad\\377name')\"; printf z > '\"quoted\"'; printf w > 'sp ace'; mkdir -p empty/dir; true"
    ident = client.exec("kept", script)["id"]
    files = history(client)[0]["files"]
    assert files == ['"\\"quoted\\""', "a", "b", '"bad\\377name"', '"new\\nline"', "self", "sp ace"]
    client.exec("kept", "find . -type f -delete; find . -type l -delete")
    rollback(client, ident)
    assert client.sh("kept", "for l in a b self; do readlink $l; done; cat new*line bad*name '\"quoted\"' 'sp ace'") == "b\na\n.\nxyzw"


def test_ignored_huge_and_binary(client, kept):
    client.exec("kept", "head -c 9000000 /dev/zero > huge; echo log > x.log; mkdir node_modules; echo m > node_modules/m; "
                        "printf 'a\\0b' > bin", files={".gitignore": "*.log\nnode_modules/\n"})
    version = history(client)[0]
    assert version["files"] == [".gitignore", "bin"]
    assert version["leftOut"] == ["huge", "node_modules/m", "x.log"]
    text = diff(client)
    assert "Binary files" in text["bin"] and set(text) == {".gitignore", "bin"}


def test_two_at_once_are_two_versions_in_order(client, kept, server):
    ids = [None] * 6

    def run(i):
        mine = server.client()
        ids[i] = mine.exec("kept", f"cat f{i}", files={f"f{i}": str(i)})["id"]
        mine.close()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    versions = history(client)
    assert sorted(v["id"] for v in versions) == sorted(ids + ["unknown"])
    for i, ident in enumerate(ids):
        assert f"f{i}" in next(v for v in versions if v["id"] == ident)["files"]
    assert set(diff(client)) == {f"f{i}" for i in range(6)}


def test_a_file_that_changes_while_it_is_read(client, kept):
    client.detach("kept", "while :; do head -c 300000 /dev/urandom > moving; date > steady; done")
    for i in range(3):
        client.exec("kept", "true", files={"a": str(i)})
    versions = history(client)
    assert sum(v["files"].count("a") for v in versions) == 3
    for v in versions[1:]:
        diff(client, v["commitId"])


def test_forks_have_the_history_and_may_begin_in_the_past(client, kept):
    one = client.exec("kept", "true", files={"a": "1"})["id"]
    client.exec("kept", "true", files={"a": "2", "b": "2"})
    assert client.post("/sandbox/kept/fork", {"name": "now"}).status == 201
    assert history(client, "now") == history(client)
    client.exec("now", "true", files={"c": "3"})
    assert len(history(client, "now")) == 4 and len(history(client)) == 3
    answer = client.post("/sandbox/kept/fork", {"name": "past", "executionId": one, "count": 2})
    assert answer.status == 201, answer
    assert client.sh("past-1", "cat a; ls") == client.sh("past-2", "cat a; ls") == "1README.md\na\n"
    assert history(client, "past-2")[0]["message"] == f"Rollback to {one}"
    assert client.sh("kept", "cat a b") == "22"


def test_of_a_stopped_one(client):
    client.create("kept", track="workspace", persistent=True, **SMALL)
    one = client.exec("kept", "true", files={"a": "1"})["id"]
    client.exec("kept", "true", files={"a": "2"})
    assert client.post("/sandbox/kept/stop", {"graceMs": 0}).status == 200
    assert len(history(client)) == 3 and set(diff(client)) == {"a"}
    answer = client.post("/sandbox/kept/rollback", {"executionId": one})
    assert answer.status == 409 and answer.error["code"] == "SANDBOX_NOT_RUNNING", answer
    assert client.post("/sandbox/kept/start").status == 200
    rollback(client, one)
    assert client.sh("kept", "cat a") == "1"


def test_a_bundle_for_git(client, kept, tmp_path):
    client.exec("kept", "chmod 755 run; ln -s run link", files={"run": "1", "ü/x": "2"})
    client.exec("kept", "true", files={"run": "3"})
    answer = client.get("/sandbox/kept/history/bundle")
    assert answer.status == 200, answer
    (tmp_path / "history.bundle").write_bytes(answer.body)
    git = ["git", "-c", "protocol.file.allow=always"]
    subprocess.run(git + ["clone", "-q", "history.bundle", "out"], cwd=tmp_path, check=True, timeout=stretch(30))
    out = tmp_path / "out"
    assert (out / "run").read_text() == "3" and os.readlink(out / "link") == "run" and (out / "ü/x").read_text() == "2"
    log = subprocess.run(git + ["log", "--format=%H"], cwd=out, check=True, capture_output=True, text=True).stdout
    assert log.split() == [v["commitId"] for v in history(client)]
    subprocess.run(git + ["fsck", "--strict"], cwd=out, check=True, timeout=stretch(30))


def test_by_command_line(client, kept, server, tmp_path):
    def cay(*args):
        done = subprocess.run([CAY, *args], capture_output=True, text=True, timeout=stretch(30), cwd=tmp_path,
                              env={"PATH": os.environ["PATH"], "CAY_URL": server.url, "HOME": str(tmp_path)})
        assert done.returncode == 0, done
        return done.stdout

    one = client.exec("kept", "true", files={"a": "1\n"})["id"]
    two = client.exec("kept", "true", files={"a": "2\n"})["id"]
    rows = [line.split("\t") for line in cay("history", "kept").splitlines()]
    assert [r[0] for r in rows] == [two, one, "unknown"] and rows[0][3:] == [TEXT, "a"]
    assert cay("diff", "kept", one, two).endswith("@@ -1 +1 @@\n-1\n+2\n") and "\033" not in cay("diff", "kept")
    ours, theirs = pty.openpty()
    done = subprocess.run([CAY, "diff", "kept", one, two], stdout=theirs, timeout=stretch(30),
                          env={"PATH": os.environ["PATH"], "CAY_URL": server.url, "HOME": str(tmp_path)})
    os.close(theirs)
    assert done.returncode == 0
    with os.fdopen(ours, "rb", 0) as terminal:
        assert b"\033[31m-1\033[0m\r\n\033[32m+2\033[0m\r\n" in terminal.read(4096), "in colours"
    assert cay("rollback", "kept", one, "a").strip() == history(client)[0]["commitId"]
    assert client.sh("kept", "cat a") == "1\n"
    cay("history", "kept", "--bundle", "h.bundle")
    subprocess.run(["git", "clone", "-q", "h.bundle", "out"], cwd=tmp_path, check=True, timeout=stretch(30))
    assert (tmp_path / "out" / "a").read_text() == "1\n" and not (tmp_path / "h.bundle.part").exists()
    past = cay("fork", "kept", "--at", two).strip()
    assert client.sh(past, "cat a") == "2\n"
    made = cay("create", "--image", "busybox", "--memory", "128m", "--track", "workspace").split()[-1]
    assert len(history(client, made)) == 1


def test_it_goes_with_its_sandbox(client, kept, server):
    client.exec("kept", "true", files={"a": "1"})
    path = f"{server.data}/history/{kept['id']}"
    assert os.stat(path).st_mode & 0o777 == 0o700
    assert client.delete("/sandbox/kept").status == 200
    assert not os.path.exists(path)


def test_it_goes_with_a_sandbox_that_runs(client, server):
    """The version that such an execution is due is not begun anew behind the delete."""
    top = Path(server.data, "history")
    for i in range(10):
        client.create("kept", track="workspace", **SMALL)
        for _ in range(5):
            client.detach("kept", "echo 1 > a; while :; do sleep 1; done")
        assert client.delete("/sandbox/kept").status == 200
    until(lambda: (top / "due").read_text() == "", "no version is due")
    assert list(top.glob("sb-*")) == []


def test_a_volume_and_a_snapshot_begin_with_what_they_have(client, kept):
    client.exec("kept", "true", files={"a": "1"})
    snapshot = client.post("/sandbox/kept/snapshot", {"name": "s"}).json()["id"]
    client.create("again", track="workspace", source={"type": "snapshot", "id": snapshot}, memoryGB=0.125)
    assert [(v["message"], v["files"]) for v in history(client, "again")] == [("Initial commit", ["README.md", "a"])]


def test_hostile_cay_file(client, kept):
    """Whoever stops or kills what looks at the workspace has no version, and no harm is done."""
    client.detach("kept", "while :; do for p in /proc/[0-9]*; do case $(cat $p/comm) in cay-file*) kill -9 ${p#/proc/};; "
                          "esac; done; done 2>/dev/null")
    for i in range(5):
        assert client.exec("kept", "echo $RANDOM >> a")["exitCode"] == 0
    client.create("well", track="workspace", **SMALL)
    client.exec("well", "true", files={"a": "1"})
    assert len(history(client, "well")) == 2


@pytest.mark.parametrize("accept", ["text/event-stream", "application/x-ndjson"])
def test_who_hears_of_the_end_finds_the_version(client, kept, accept):
    for i in range(5):
        body = {"command": "cat a", "files": {"a": str(i)}}
        with client.stream("POST", "/sandbox/kept/exec", body, headers={"Accept": accept}) as stream:
            assert stream.status == 200
            last = [e.data for e in stream.events()][-1] if "event" in accept else list(stream.records())[-1]
        versions = history(client)
        assert versions[0]["id"] == last["id"] and len(versions) == i + 2


def test_who_asks_after_the_end_finds_the_version(client, kept):
    for i in range(10):
        ident = client.detach("kept", f"echo {i} > a")
        until(lambda: client.execution("kept", ident)["status"] == "exited", "its end", step=0)
        assert history(client)[0]["id"] == ident


def test_rollback_of_files_alone(client):
    client.create("kept", track="files", **SMALL)
    one = client.exec("kept", "true", files={"a": "1", "b": "1"})["id"]
    client.exec("kept", "true", files={"a": "2", "c": "2"})
    assert rollback(client, one)["files"] == ["a", "c"]
    assert client.sh("kept", "cat a b; ls") == "11README.md\na\nb\n"
    versions = history(client)
    assert diff(client, one, versions[0]["commitId"]) == {}, "it is as it was"
    assert set(diff(client, versions[1]["commitId"], versions[0]["commitId"])) == {"a", "c"}
    client.exec("kept", "true", files={"b": "3"})
    assert set(diff(client, one)) == {"b"}


def runs(ident):
    """Is somebody there who was begun by this execution?"""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if ident.encode() in path.read_bytes():
                return True
        except OSError:
            pass  # it went
    return False


def test_the_next_server_makes_versions_of_what_ends_meanwhile(fresh):
    server = fresh()
    server.start()
    client = server.client()
    client.create("kept", track="workspace", **SMALL)
    client.create("files", track="files", **SMALL)
    wait = "while test ! -e /tmp/go; do sleep 0.05; done; "
    first = client.detach("kept", wait + "echo 1 > by-first", files={"a": "1"})
    second = client.detach("kept", wait + "echo 2 > b", files={"c": "1"})
    alone = client.detach("files", wait, files={"d": "1"})
    lasts = client.detach("kept", "while test ! -e /tmp/last; do sleep 0.05; done; echo 3 > e")
    nothing = client.detach("kept", wait)
    ended, due = (first, second, alone, nothing), Path(server.data, "history/due")
    assert due.read_text().count('"due"') == 5
    for name in ("kept", "files"):
        client.detach(name, "sleep 1; touch /tmp/go")
    server.kill("all")
    client.close()
    until(lambda: not any(map(runs, ended)), "their ends")
    server.recover()
    client = server.client()
    assert [v["id"] for v in history(client)] == [second, first, "unknown"], "in the order they began"
    named = {v["id"]: v["files"] for v in history(client)}
    assert "a" in named[first] and "c" in named[second]
    assert set(diff(client)) == {"a", "b", "by-first", "c"}
    assert [v["id"] for v in history(client, "files")] == [alone, "unknown"]
    client.exec("kept", "touch /tmp/last")
    until(lambda: client.execution("kept", lasts)["status"] == "exited", "the one that lasted")
    assert history(client)[0]["id"] == lasts
    assert due.read_text() == ""


def test_a_server_that_is_killed_loses_no_truth(fresh):
    server = fresh()
    server.start()
    client = server.client()
    client.create("kept", track="workspace", **SMALL)
    client.exec("kept", "true", files={"a": "1"})
    client.detach("kept", "echo 2 > b; while test ! -e /tmp/go; do :; done; echo 3 > c")
    until(lambda: client.sh("kept", "cat b || true") == "2\n", "b")
    server.kill("server")
    client.close()
    server.recover()
    client = server.client()
    client.exec("kept", "touch /tmp/go; while test ! -e c; do :; done")
    versions = history(client)
    assert set(diff(client)) == {"a", "b", "c"}
    assert versions[-1]["message"] == "Initial commit"


@pytest.mark.native("files that Docker has are not in a backup of ours")
def test_in_a_backup(fresh, tmp_path):
    server = fresh()
    server.start()
    client = server.client()
    client.create("kept", track="workspace", persistent=True, **SMALL)
    client.exec("kept", "true", files={"a": "1"})
    told = history(client)
    client.close()
    for verb, data in (("backup", server.data), ("restore", tmp_path / "data")):
        done = subprocess.run([CAY, verb, tmp_path / "file", "--data", data], capture_output=True, text=True,
                              timeout=stretch(120))
        assert done.returncode == 0, done
    other = fresh(data=str(tmp_path / "data"))
    other.start()
    client = other.client()
    assert history(client) == told
    assert client.post("/sandbox/kept/start").status == 200
    client.exec("kept", "true", files={"a": "2"})
    assert len(history(client)) == 3 and set(diff(client)) == {"a"}


def test_large_versions_come_in_pieces(client):
    """More than waits in memory at a time, there and back."""
    client.create("kept", track="workspace", image="busybox", memoryGB=0.5, diskSizeGB=2)
    one = client.exec("kept", "i=0; while [ $i -lt 70 ]; do head -c 600000 /dev/urandom > f$i; i=$((i+1)); done; cat f* | sha256sum")
    assert len(history(client)[0]["files"]) == 70
    client.exec("kept", "rm f*")
    rollback(client, one["id"])
    assert client.sh("kept", "cat f* | sha256sum") == one["stdout"]


def test_flat_and_deep(client):
    """Several look at one directory, and at many: each file is seen once."""
    client.create("kept", track="workspace", image="busybox", memoryGB=0.25)
    client.sh("kept", "mkdir flat; i=0; while [ $i -lt 3000 ]; do echo $i > flat/$i; i=$((i+1)); done; "
                      "mkdir wide; i=0; while [ $i -lt 300 ]; do mkdir wide/$i; i=$((i+1)); done; "
                      "d=deep; i=0; while [ $i -lt 150 ]; do mkdir $d; echo $i > $d/f; d=$d/x; i=$((i+1)); done")
    assert history(client)[0]["fileCount"] == 3150
    client.sh("kept", "echo 1 > flat/2999; echo 2 > wide/299/new; rm -r deep/x/x")
    files = history(client)[0]["files"]
    assert len(files) == 150 and files[-2:] == ["flat/2999", "wide/299/new"]


@pytest.mark.limit(240)
def test_many_files(server):
    client = server.client(timeout=240)
    kept = client.create("kept", track="workspace", memoryGB=0.5, diskSizeGB=2)
    made = client.exec("kept", "for d in $(seq 100); do mkdir d$d; (cd d$d; seq $((d * 1000 + 1)) $((d * 1000 + 1000)) | split -l 1 -a 3 - f); done", timeoutMs=200000)
    assert made["exitCode"] == 0, made
    one = client.exec("kept", "echo changed > d7/faab")["id"]
    versions = history(client)
    assert versions[0]["id"] == one and versions[0]["files"] == ["d7/faab"]
    where = Path(server.data, "history", kept["id"])
    subprocess.run(["git", "-c", "safe.directory=*", "--git-dir", where, "fsck", "--strict"], check=True, timeout=stretch(240))
    assert len(list((where / "objects/pack").glob("*.pack"))) in (1, 2), "few packs, not an object each"
    assert versions[1]["fileCount"] == 100000 and len(versions[1]["files"]) == 1000
    rollback(client, versions[1]["commitId"])
    assert client.sh("kept", "cat d7/faab") == "7002\n"
    client.close()
