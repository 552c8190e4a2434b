# SPDX-License-Identifier: Apache-2.0
"""/workspace outlives its sandbox when asked to, whatever was done to it, and has one writer."""
import pytest

from harness import proc
from harness.wait import until

MB = 1000 * 1000


@pytest.fixture(params=["disk", pytest.param("plain", marks=pytest.mark.native("there is one kind of volume"))])
def house(request):
    server = request.getfixturevalue("shared_server" if request.param == "disk" else "plain_shared")
    client = server.client()
    yield client
    client.clear()
    assert client.get("/volumes").json()["volumes"] == [] and server.traces() == {}
    client.close()


def keep(client, name):
    answer = client.delete(f"/sandbox/{name}", preserveVolume="true")
    assert answer.status == 200, answer
    return answer.json()["volumeId"]


def volumes(client):
    return [v["id"] for v in client.get("/volumes").json()["volumes"]]


def test_round_trip(house):
    house.create("a")
    house.sh("a", "echo one > f; echo root > /etc/f", user="root")
    volume = keep(house, "a")
    assert volumes(house) == [volume] and house.names() == []
    for i in range(3):
        made = house.create("b", volume=volume)
        assert made["volumeId"] == volume
        assert house.sh("b", "cat f | wc -l; ls /etc/f 2>/dev/null || true").split() == [str(1 + i)]
        house.sh("b", "echo more >> f", user="root")
        assert house.delete("/sandbox/b").status == 200
        assert volumes(house) == [volume], "given at create, it stays"
    assert house.delete(f"/volumes/{volume}").status == 200
    assert house.delete(f"/volumes/{volume}").status == 404
    answer = house.post("/sandbox", {"name": "b", "volume": volume})
    assert answer.status == 404 and answer.error["code"] == "VOLUME_NOT_FOUND", answer
    assert house.names() == []


def is_volatile(server, ident):
    """Whether what is synced inside waits for no disk."""
    root = next(line for line in proc.text(server.init(ident), "mountinfo").splitlines() if line.split()[4] == "/")
    assert " overlay " in root, root
    return {"volatile", "fsync=volatile"} & set(root.rsplit(" ", 1)[1].split(","))  # as this kernel says it


@pytest.mark.native("by its overlay")
def test_what_is_synced_in_it_outlives_the_host(shared_server, client):
    """A volume does, so what was synced must be on the disk; what ends with the host need not be."""
    client.create("a")
    assert is_volatile(shared_server, client.sandbox("a")["id"])
    volume = keep(client, "a")
    made = client.create("b", volume=volume)["id"]
    assert not is_volatile(shared_server, made)
    assert client.post("/sandbox/b/stop").status == 200 and client.post("/sandbox/b/start").status == 200
    assert not is_volatile(shared_server, made), "started again as well"
    assert client.delete("/sandbox/b", preserveVolume="false").status == 200


def test_one_writer(house):
    house.create("a")
    volume = keep(house, "a")
    house.create("b", volume=volume)
    answer = house.post("/sandbox", {"name": "c", "volume": volume})
    assert answer.status == 409 and answer.error["code"] == "VOLUME_IN_USE", answer
    answer = house.delete(f"/volumes/{volume}")
    assert answer.status == 409 and answer.error["code"] == "VOLUME_IN_USE", answer
    assert house.post("/sandbox/b/stop").status == 200
    assert house.post("/sandbox", {"name": "c", "volume": volume}).status == 409, "stopped, it still has it"
    assert house.post("/sandbox/b/start").status == 200
    house.sh("b", "echo still > f")
    assert house.delete("/sandbox/b").status == 200
    house.create("c", volume=volume)
    assert house.sh("c", "cat f") == "still\n"


def test_what_is_in_it_stays(house):
    """Owners, modes, attributes, odd names, links; nothing of the root comes along."""
    house.create("a")
    house.sh("a", r"""set -e
        cd /workspace; chown 1234:2345 .; chmod 2770 .; echo x > "$(printf 'odd \n name \\ " -rf *')"
        ln -s /etc/passwd link; ln -s ../../../../../etc up; mkdir -p d/e; echo y > d/e/y; ln d/e/y d/hard
        python3 -c "import os; os.setxattr('/workspace', 'user.note', b'kept')"
        echo secret > /root/s; ln /root/s hard || cp /root/s hard""", user="root")
    show = r"""cd /workspace; stat -c '%a %u %g' .; ls -b; readlink link up; stat -c %h d/hard; cat d/hard hard
        python3 -c "import os; print(os.getxattr('/workspace', 'user.note'))" """
    want = house.sh("a", show, user="root")
    volume = keep(house, "a")
    house.create("b", volume=volume)
    assert house.sh("b", show, user="root") == want and "b'kept'" in want and "2770 1234 2345" in want
    assert house.exec("b", "cat /root/s", user="root")["exitCode"] != 0


REPLACED = {
    "symlink": "rm -rf /workspace && ln -s /etc /workspace",
    "absolute link out": "rm -rf /workspace && ln -s /proc/1/root /workspace",
    "removed": "rm -rf /workspace",
    "file": "rm -rf /workspace && echo file > /workspace",
    "pipe": "rm -rf /workspace && mkfifo /workspace",
    "moved away": "mkdir /usr/x && mv /workspace/* /usr/x/; rmdir /workspace",
    "untouched": "true",
}


@pytest.mark.native("/workspace is a mount, which root inside cannot replace")
@pytest.mark.parametrize("how", list(REPLACED))
def test_replaced_by_root_inside(house, how):
    """What is not a directory is not kept; the volume is empty, and the user's."""
    house.create("a", workdir="/")
    house.sh("a", "cd /; echo f > /workspace/f; rm -f /workspace/f; " + REPLACED[how], user="root", cwd="/")
    volume = keep(house, "a")
    house.create("b", volume=volume)
    assert house.sh("b", "ls -A /workspace; stat -c '%F %a %u %g' /workspace") == "directory 755 1000 1000\n"
    house.sh("b", "echo mine > /workspace/f && [ -s /etc/passwd ]")


@pytest.mark.native("/workspace is a mount, which root inside cannot replace")
def test_made_anew_by_root_inside(house):
    house.create("a", workdir="/")
    house.sh("a", "cd /; rm -rf /workspace; mkdir /workspace; echo new > /workspace/new", user="root", cwd="/")
    volume = keep(house, "a")
    house.create("b", volume=volume)
    assert house.sh("b", "cat /workspace/new; stat -c %u /workspace", user="root") == "new\n0\n"


def test_another_image(house):
    house.create("a")
    house.sh("a", "echo one > f; mkdir d; mv d e; cp -r /etc/apt apt")
    volume = keep(house, "a")
    house.create("b", volume=volume, dockerImage="busybox")
    assert house.sh("b", "cat f; ls -d e apt") == "one\napt\ne\n"


def test_of_a_fork(house):
    """The copy's is its own, also of a sandbox that has a volume."""
    house.create("a")
    house.sh("a", "echo one > f")
    volume = keep(house, "a")
    house.create("b", volume=volume)
    assert house.post("/sandbox/b/fork", {"name": "c"}).status == 201
    house.sh("c", "echo two > f")
    assert house.delete("/sandbox/c").status == 200
    assert house.delete("/sandbox/b").status == 200
    assert volumes(house) == [volume], "the fork's goes, the volume stays"
    house.create("d", volume=volume)
    assert house.sh("d", "cat f") == "one\n"


def test_not_beside_a_copy(house):
    house.create("a")
    snapshot = house.post("/sandbox/a/snapshot", {}).json()["id"]
    volume = keep(house, "a")
    house.create("b")
    for path, body in (("/sandbox", {"source": {"type": "snapshot", "id": snapshot}}), ("/sandbox/b/fork", {})):
        answer = house.post(path, {"name": "c", "volume": volume, **body})
        assert answer.status == 400 and answer.error["details"]["field"] == "volume", answer
    assert house.names() == ["b"] and not house.get(f"/volumes/{volume}").json()["inUse"]
    assert house.delete(f"/snapshots/{snapshot}").status == 200


def test_stop_and_start(house):
    house.create("a")
    house.sh("a", "echo one > f")
    volume = keep(house, "a")
    house.create("b", volume=volume, persistent=True)
    assert house.post("/sandbox/b/stop").status == 200
    assert house.delete("/sandbox/b").status == 200
    house.create("c", volume=volume)
    assert house.sh("c", "cat f") == "one\n"


def test_create_that_fails(house):
    house.create("a")
    house.sh("a", "echo one > f")
    volume = keep(house, "a")
    answer = house.post("/sandbox", {"name": "b", "volume": volume, "dockerImage": "no:such"})
    assert answer.status == 404, answer
    assert volumes(house) == [volume]
    house.create("c", volume=volume)
    assert house.sh("c", "cat f") == "one\n"


# ---- quota ----

@pytest.mark.quota
def test_full(server, client):
    """A full sandbox's workspace can be kept, and what is thrown away gives its room back."""
    client.create("a", diskSizeGB=0.2)
    client.sh("a", "head -c 20000000 /dev/urandom > f; sha1sum f > sum")
    client.exec("a", "dd if=/dev/zero of=/var/fill bs=1M", user="root")
    client.exec("a", "i=0; while echo x > /var/s$i; do i=$((i+1)); done", user="root")
    volume = keep(client, "a")
    client.create("b", volume=volume, diskSizeGB=0.2)
    client.sh("b", "sha1sum -c sum")

    def room():
        client.exec("b", "dd if=/dev/zero of=fill bs=1M")
        return int(client.exec("b", "stat -c %s fill && rm fill")["stdout"] or 0)

    until(lambda: room() > 150 * MB, "its old root gives its room back, in the background", 30)
    assert room() < 185 * MB
    assert client.delete("/sandbox/b").status == 200
    assert client.delete(f"/volumes/{volume}").status == 200


@pytest.mark.quota
def test_larger_than_the_disk(server, client):
    client.create("a", diskSizeGB=0.4)
    client.sh("a", "head -c 300000000 /dev/zero > f && sync f")
    volume = keep(client, "a")
    answer = client.post("/sandbox", {"name": "b", "volume": volume, "diskSizeGB": 0.2})
    assert answer.status == 409 and answer.error["code"] == "DISK_FULL", answer
    client.create("b", volume=volume, diskSizeGB=0.5)
    assert client.delete("/sandbox/b").status == 200
    assert client.delete(f"/volumes/{volume}").status == 200
