# SPDX-License-Identifier: Apache-2.0
"""Forks and snapshots: a copy of one moment, the source unharmed, both sides their own afterwards."""
import threading

import pytest

from harness.wait import until

FULL = ("No space left on device", "Disk quota exceeded")
MB = 1000 * 1000


@pytest.fixture(params=["disk", pytest.param("plain", marks=pytest.mark.native("there is one kind of volume"))])
def house(request):
    """A client of a server with quotas, and of one whose trees are plain directories."""
    server = request.getfixturevalue("shared_server" if request.param == "disk" else "plain_shared")
    client = server.client()
    yield client
    client.clear()
    client.close()


def from_snapshot(client, ident, name, **spec):
    return client.create(name, source={"type": "snapshot", "id": ident}, **spec)


def method(client):
    kind = client.get("/health").json()["features"]["diskLimit"]
    return "btrfs-snapshot" if kind.endswith("btrfs") else "reflink" if kind.endswith("xfs") else "copy"


def test_both_go_their_ways(house):
    house.create("source", diskSizeGB=0.2)
    house.sh("source", "echo one > /workspace/f; echo one > /etc/f", user="root")
    made = house.fork("source", "copy")
    assert made["status"] == "RUNNING" and made["name"] == "copy"
    assert made["forkMethod"] == method(house) and made["forkMs"] >= 0
    assert house.sh("copy", "cat /workspace/f /etc/f") == "one\none\n"
    house.sh("copy", "echo two > /workspace/f; rm /etc/f; echo new > /workspace/new", user="root")
    house.sh("source", "echo three >> /workspace/f", user="root")
    assert house.sh("source", "cat /workspace/f /etc/f; ls /workspace") == "one\nthree\none\nf\n"
    assert house.sh("copy", "cat /workspace/f; ls /workspace; ls /etc/f || true") == "two\nf\nnew\n"
    assert house.sh("copy", "hostname").strip() == "copy"


def test_processes_notice_nothing(house):
    """Open files, a working directory that is gone, a lock and a writer all go on."""
    house.create("source", diskSizeGB=0.2)
    ident = house.detach("source", """
        mkdir gone; cd gone; exec 3> /workspace/open; rmdir /workspace/gone
        echo ready > /workspace/ready; i=0
        while [ ! -e /workspace/stop ]; do i=$((i+1)); echo $i >&3; echo $i; done; echo end""")
    until(lambda: house.exec("source", "cat ready")["exitCode"] == 0, "it runs")
    for i in range(3):
        house.fork("source", f"copy-{i}")
    house.sh("source", "touch stop")
    until(lambda: house.execution("source", ident)["status"] != "running", "it ends")
    assert house.execution("source", ident)["exitCode"] == 0
    lines = house.output("source", ident, stream="stdout").decode().split()
    assert lines == [str(i + 1) for i in range(len(lines) - 1)] + ["end"]
    counts = [int(house.sh(f"copy-{i}", "tail -n 1 open") or 0) for i in range(3)]
    assert counts == sorted(counts) and counts[-1] <= len(lines)
    assert house.sh("copy-0", "ps ax | grep -c '[e]xec 3>' || true").strip() == "0", "no process is copied"


def test_of_one_moment(house):
    """Root and workspace are of one moment, however many files lie between."""
    house.create("source", diskSizeGB=0.2)
    house.sh("source", "mkdir many && cd many && for i in $(seq 500); do echo > $i; done")
    house.detach("source", "i=0; while :; do i=$((i+1)); echo $i > /workspace/a.new; mv /workspace/a.new /workspace/a; "
                 "echo $i > /usr/z.new; mv /usr/z.new /usr/z; done", user="root")
    until(lambda: house.exec("source", "cat /usr/z")["exitCode"] == 0, "it runs")
    for i in range(5):
        house.fork("source", f"copy-{i}")
        a, z = house.sh(f"copy-{i}", "cat /workspace/a /usr/z").split()
        assert 0 <= int(a) - int(z) <= 1


MAKE = r"""
set -e
cd /workspace
rm /etc/debian_version; rm -rf /usr/share/doc; mkdir /usr/share/doc; echo only > /usr/share/doc/only
echo text > plain; ln plain linked; mkdir -p d/e; ln plain d/e/linked; ln -s /etc/passwd symlink; ln -s nowhere dangling
mkfifo pipe; truncate -s 100M sparse; echo end >> sparse; chmod 4751 plain; chown 12:34 d
touch -d @1000000000 plain; mkdir sticky; chmod 1777 sticky; printf x > "$(printf 'odd \n name \\ " -rf *')"
python3 -c "import os; os.setxattr('/workspace/d', 'user.note', b'kept'); os.setxattr('/workspace/plain', 'user.note', b'kept')"
python3 - <<'EOF'
import socket
socket.socket(socket.AF_UNIX).bind('/workspace/socket')
EOF
"""
SHOW = r"""
cd /workspace
ls /etc/debian_version 2>/dev/null; ls /usr/share/doc; cat plain
stat -c '%n %a %u %g %h %s %Y' plain d/e/linked; stat -c '%n %F %a %u %g' d sticky pipe symlink dangling
readlink symlink dangling; stat -c %s sparse; tail -c 4 sparse; [ $(stat -c %b sparse) -lt 1000 ] && echo sparse
[ plain -ef linked ] && [ plain -ef d/e/linked ] && echo one file; ls -b | grep odd
python3 -c "import os; print(os.getxattr('d', 'user.note'), os.getxattr('plain', 'user.note'))"
"""


@pytest.mark.parametrize("state", ["stop", "pause"])
def test_not_running(house, state):
    """Forked and kept as it stands, file for file."""
    house.create("source", diskSizeGB=0.2)
    house.sh("source", MAKE, user="root")
    want = house.sh("source", SHOW, user="root")
    assert house.post(f"/sandbox/source/{state}").status == 200
    before = house.sandbox("source")["status"]
    assert house.fork("source", "copy")["status"] == "RUNNING"
    kept = house.snapshot("source")
    assert kept["method"] == method(house) and house.sandbox("source")["status"] == before
    assert from_snapshot(house, kept["id"], "again")["status"] == "RUNNING"
    assert house.post(f"/sandbox/source/{'start' if state == 'stop' else 'resume'}").json()["status"] == "RUNNING"
    assert {name: house.sh(name, SHOW, user="root") for name in ("source", "copy", "again")} == \
        dict.fromkeys(("source", "copy", "again"), want)


def test_everything_comes_along(house):
    """What was deleted of the image stays deleted; links, holes, owners, times and attributes stay."""
    house.create("source", diskSizeGB=0.2)
    house.sh("source", MAKE, user="root")
    want = house.sh("source", SHOW, user="root")
    assert "only\ntext\n" in want and "one file" in want and "sparse\n" in want and "b'kept' b'kept'" in want
    house.fork("source", "copy")
    assert house.sh("copy", SHOW, user="root") == want
    house.fork("copy", "again")
    assert house.sh("again", SHOW, user="root") == want


def test_file_capabilities(house):
    house.create("source", diskSizeGB=0.2)
    value = "0x0100000200040000000000000000000000000000"  # CAP_NET_BIND_SERVICE
    script = f"cp /bin/true /workspace/t && python3 -c \"import os; os.setxattr('/workspace/t', 'security.capability', bytes.fromhex('{value[2:]}'))\""
    house.sh("source", script, user="root")
    show = "python3 -c \"import os; print(os.getxattr('/workspace/t', 'security.capability').hex())\""
    house.fork("source", "copy")
    assert house.sh("copy", show) == house.sh("source", show)


def test_deep(house):
    """A tree deeper than any path, with names as long as may be."""
    house.create("source", diskSizeGB=0.2)
    house.sh("source", ["python3", "-c", """
import os
os.chdir('/workspace')
for i in range(1200):
    os.mkdir('d' * 255); os.chdir('d' * 255)
open('bottom', 'w').write('deep')
"""])
    house.fork("source", "copy")
    assert house.sh("copy", ["python3", "-c", """
import os
os.chdir('/workspace')
for i in range(1200):
    os.chdir('d' * 255)
print(open('bottom').read())
"""]) == "deep\n"


def test_source_deleted(house):
    house.create("source", diskSizeGB=0.2)
    house.sh("source", "head -c 20000000 /dev/urandom > f; sha1sum f > sum")
    house.fork("source", "copy")
    assert house.delete("/sandbox/source").status == 200
    house.sh("copy", "sha1sum -c sum && rm f && head -c 20000000 /dev/urandom > g && sync g")
    assert house.post("/sandbox/copy/stop").status == 200 and house.post("/sandbox/copy/start").status == 200
    house.sh("copy", "ls g sum")


def test_snapshot(house):
    house.create("source", diskSizeGB=0.2)
    house.sh("source", "echo one > f")
    made = house.snapshot("source", name="first")
    assert made["method"] == method(house) and made["id"].startswith("sn-")
    house.sh("source", "echo two > f")
    assert house.delete("/sandbox/source").status == 200
    assert [s["id"] for s in house.get("/snapshots").json()["snapshots"]] == [made["id"]]
    for name in ("a", "b"):
        assert from_snapshot(house, made["id"], name)["status"] == "RUNNING"
        assert house.sh(name, "cat f; echo mine > f") == "one\n"
    assert house.delete(f"/snapshots/{made['id']}").status == 200
    assert house.get("/snapshots").json()["snapshots"] == []
    assert house.sh("a", "cat f") == "mine\n" and house.sh("b", "cat f") == "mine\n"
    answer = house.post("/sandbox", {"name": "c", "source": {"type": "snapshot", "id": made["id"]}})
    assert answer.status == 404 and answer.error["code"] == "SNAPSHOT_NOT_FOUND", answer
    assert house.names() in (["a", "b"], ["b", "a"])


@pytest.mark.limit(400)  # a commit each where Docker does it
def test_chain(house):
    """A fork of a fork of a fork: no layers pile up."""
    house.create("link-0", diskSizeGB=0.2)
    for i in range(100):
        house.sh(f"link-{i}", f"echo {i} >> chain; [ $(wc -l < chain) = {i + 1} ]")
        house.fork(f"link-{i}", f"link-{i + 1}")
        assert house.delete(f"/sandbox/link-{i}").status == 200
    assert house.sh("link-100", "cat chain").split() == [str(i) for i in range(100)]


def test_many_at_once(house):
    house.create("source", diskSizeGB=0.2)
    house.sh("source", "echo one > f")
    answer = house.post("/sandbox/source/fork", {"name": "copy", "count": 8})
    assert answer.status == 201, answer
    made = answer.json()["sandboxes"]
    assert len(made) == 8
    for sandbox in made:
        assert house.sh(sandbox["id"], "cat f; echo $CAY_SANDBOX_ID > f; cat f") == f"one\n{sandbox['id']}\n"


def test_deleted_under_a_fork(house):
    """Each fork is whole or refused, and the source goes."""
    house.create("source", diskSizeGB=0.2)
    house.sh("source", "mkdir many && cd many && for i in $(seq 2000); do echo $i > $i; done")
    results = []

    def ask(i):
        client = type(house)(f"http://{house.host}:{house.port}")
        results.append((i, client.post("/sandbox/source/fork", {"name": f"copy-{i}"})))
        client.close()

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    deleted = house.delete("/sandbox/source")
    for thread in threads:
        thread.join()
    if deleted.status != 200:  # somebody was at it
        assert deleted.status == 409 and house.delete("/sandbox/source").status == 200
    for i, answer in results:
        assert answer.status in (201, 404, 409), answer
        if answer.status == 201:
            assert house.sh(f"copy-{i}", "ls many | wc -l").strip() == "2000"


# ---- quota ----

def fill(client, name, path="/workspace/fill"):
    result = client.exec(name, f"dd if=/dev/zero of={path} bs=1M")
    assert result["exitCode"] != 0 and any(text in result["stderr"] for text in FULL), result
    return int(client.sh(name, f"stat -c %s {path}"))


@pytest.mark.quota
def test_quota_counts_what_it_began_with(server, client):
    client.create("source", diskSizeGB=0.2)
    client.sh("source", "head -c 120000000 /dev/zero > f && sync f")
    client.fork("source", "copy")
    used = client.get("/sandbox/copy/stats").json()["disk"]["bytes"]
    assert 120 * MB <= used <= 130 * MB
    assert 65 * MB <= fill(client, "copy") <= 80 * MB
    assert client.post("/sandbox/copy/stop").status == 200 and client.post("/sandbox/copy/start").status == 200
    client.sh("copy", "rm fill")
    assert 60 * MB <= fill(client, "copy") <= 80 * MB
    assert 65 * MB <= fill(client, "source") <= 80 * MB, "the source has its own limit"


@pytest.mark.quota
def test_no_way_round_the_quota(server, client):
    """A fork of a fork of a fork has no more than the first."""
    client.create("a", diskSizeGB=0.2)
    for name, following in (("a", "b"), ("b", "c"), ("c", "d")):
        client.sh(name, f"head -c 50000000 /dev/zero > {name} && sync {name}")
        client.fork(name, following)
    assert fill(client, "d") <= 50 * MB


@pytest.mark.quota
def test_too_small_for_the_source(server, client):
    client.create("source", diskSizeGB=0.4)
    client.sh("source", "head -c 250000000 /dev/zero > f && sync f")
    answer = client.post("/sandbox/source/fork", {"name": "copy", "diskSizeGB": 0.2})
    assert answer.status == 409 and answer.error["code"] == "DISK_FULL", answer
    assert client.names() == ["source"]
    assert len(server.traces()) == 1
    client.fork("source", "copy", diskSizeGB=0.8)
    assert fill(client, "copy") >= 500 * MB


def test_nearly_full(server, client):
    """One with hardly anything left still comes up, writable."""
    client.create("source", diskSizeGB=0.2)
    client.sh("source", "dd if=/dev/zero of=fill bs=1M count=188 && sync fill")
    client.fork("source", "copy")
    client.sh("copy", "echo x > x && sync x")


def test_sweep_leaves_what_a_copy_holds(fresh):
    """The source's quota group stays as long as somebody has its bytes; a restart looks for such."""
    server = fresh().start()
    client = server.client()
    client.create("source", diskSizeGB=0.2)
    client.sh("source", "head -c 50000000 /dev/urandom > f; sha1sum f > sum; sync f")
    client.fork("source", "copy")
    assert client.delete("/sandbox/source").status == 200
    for _ in range(2):
        server.kill("engine")
        server.recover()
    client.sh("copy", "sha1sum -c sum && rm f && sync -f . && head -c 50000000 /dev/zero > g && sync g")
    client.create("other", diskSizeGB=0.2)
    client.sh("other", "head -c 50000000 /dev/zero > g && sync g")
