# SPDX-License-Identifier: Apache-2.0
"""F-22: the kernel refuses a process, memory, a descriptor. That request is told so and leaves nothing; the next one works."""
import http.client
import os
import signal

import pytest

from fault.test_store import failing, needs_strace
from harness import proc
from harness.berths import HULLS_WAIT, of_engine, waiting
from harness.wait import until

pytestmark = [needs_strace, pytest.mark.native("of the engine's processes")]
needs_hulls = pytest.mark.skipif(not HULLS_WAIT, reason="no first process is made ahead here")
MORE_THAN_READY = 40  # sandboxes: what is made ahead is enough for fewer


def settle(server, client, names, ended=()):
    """Rows and reality know these sandboxes, the rows those that were deleted as well, and nobody knows another."""
    def settled():
        rows = client.get("/sandbox", per_page=1000, include_terminated="true").json()["sandboxes"]
        ids = {s["id"] for s in rows if s["status"] == "RUNNING"}
        return {s["name"] for s in rows} == {*names, *ended} and len(ids) == len(names) == len(server.inits()) and \
            set(server.traces()) == ids

    until(settled, f"nothing is left of others than {names}\n{server.traces()}")


def refused(answer, status=503, code="HOST_BUSY"):
    assert (answer.status, answer.error["code"]) == (status, code) and "Retry-After" in answer.headers, answer
    return True


def small(name):
    return {"name": name, "image": "busybox", "memoryGB": 0.125}


# Who, what it asks for, and how the kernel refuses it; with "no hulls" a create has to make its first process itself.
# Where none is made ahead, what is aimed at hulls goes to the spawners, and meets the one that they make.
CREATES = {
    "a process, in a spawner": (["cay-spawn"], "clone,clone3,fork,vfork", "EAGAIN", True),
    "memory for a process": (["cay-spawn"], "clone,clone3,fork,vfork", "ENOMEM", True),
    "a namespace of a count": (["cay-spawn"], "clone3", "ENOSPC", True),
    "a socket": (["cay-spawn"], "socket", "EMFILE", False),
    "a file": (["cay-spawn"], "openat", "ENFILE", False),
    "a cgroup": (["cay-spawn"], "mkdirat", "ENOMEM", False),
    "a mount": (["cay-hull"], "mount", "ENOMEM", False),
    "a mount's copy": (["cay-hull"], "open_tree", "ENOSPC", False),
    "a cgroup namespace": (["cay-hull"], "unshare", "ENOSPC", False),
}


@pytest.mark.parametrize("want", CREATES)
def test_create(fresh, want):
    who, calls, error, no_hulls = CREATES[want]
    server = fresh().start()
    client = server.client()
    client.create(**small("before"))
    hulls = waiting(server)
    if no_hulls:
        for pid in hulls:
            os.kill(pid, signal.SIGKILL)
    with failing(of_engine(server, *who) or of_engine(server, "cay-spawn"), calls, f"error={error}"):
        refused(client.post("/sandbox", small("unlucky")))
        assert client.sh("before", "echo fine") == "fine\n"
    settle(server, client, ["before"])
    client.create(**small("unlucky"))
    assert client.sh("unlucky", "echo fine") == "fine\n"


def use_up(client):
    """What is made ahead, until one is refused; the names of those that were made."""
    made = []
    for i in range(MORE_THAN_READY):
        answer = client.post("/sandbox", small(f"b{i}"))
        if answer.status != 201:
            break
        made.append(f"b{i}")
    refused(answer)
    return made


@pytest.mark.parametrize("calls,error", [("clone", "EAGAIN"), ("clone", "ENOSPC"), ("unshare", "ENOMEM"), ("unshare", "ENOSPC"),
                                         pytest.param("clone3", "EAGAIN", marks=needs_hulls), ("openat", "EMFILE")])
def test_no_more_berths(fresh, calls, error):
    """What is made ahead is used up, and no more can be made."""
    server = fresh().start()
    client = server.client()
    waiting(server)
    with failing(of_engine(server, "cay-berths"), calls, f"error={error}"):
        made = use_up(client)
        refused(client.post("/sandbox", small("another")))
    settle(server, client, made)
    client.create(**small("lucky"))
    assert client.sh("lucky", "echo fine") == "fine\n"


def test_no_one_to_make_berths(fresh):
    """The program that makes them cannot be started for a while."""
    server = fresh().start()
    client = server.client()
    waiting(server)
    with failing(of_engine(server, "engine"), "execveat", "error=ENOMEM"):
        for pid in of_engine(server, "cay-berths"):
            os.kill(pid, signal.SIGKILL)
        made = use_up(client)
    settle(server, client, made)
    until(lambda: client.post("/sandbox", small("lucky")).status == 201, "they are made again", 10)
    assert client.sh("lucky", "echo fine") == "fine\n"


def test_no_one_to_do_it(fresh):
    """The engine's own fork: without a spawner a create is refused and not left waiting."""
    server = fresh().start()
    client = server.client()
    client.create(**small("before"))
    with failing(of_engine(server, "engine"), "clone,clone3,fork,vfork", "error=EAGAIN"):
        for pid in of_engine(server, "cay-spawn"):
            os.kill(pid, signal.SIGKILL)
        until(lambda: not of_engine(server, "cay-spawn"), "no spawner is left")
        refused(client.post("/sandbox", small("unlucky")))
        assert client.sh("before", "echo fine") == "fine\n"
    settle(server, client, ["before"])
    client.create(**small("unlucky"))
    for name in ("before", "unlucky"):
        assert client.delete(f"/sandbox/{name}").status == 200
    settle(server, client, [], ended=["before", "unlucky"])


def test_trash_is_emptied_later(plain_shared):
    """A fork that was refused is made again."""
    client = plain_shared.client()
    trash = os.path.join(plain_shared.data, "engine", "trash")
    client.create(**small("goes"))
    with failing(of_engine(plain_shared, "engine"), "clone,clone3,fork,vfork", "error=EAGAIN"):
        assert client.delete("/sandbox/goes").status == 200
        until(lambda: "cannot fork to empty the trash" in plain_shared.log(), "it was tried")
        assert os.listdir(trash)
    until(lambda: not os.listdir(trash), "the trash is emptied")


def batch(client):
    return client.post("/batch", {"sandboxes": ["box"], "commands": [{"command": "echo hi"}]})


def test_no_thread_for_a_batch(fresh):
    """Threads that are started when they are needed."""
    server = fresh().start()
    client = server.client()
    client.create(**small("box"))
    with failing(server.pid("server"), "clone,clone3", "error=EAGAIN"):
        refused(batch(client))
        assert client.sh("box", "echo fine") == "fine\n"
    assert batch(client).status == 200


def write(client):
    return client.request("PUT", "/sandbox/box/files", b"x", {"path": "f"}, {"Content-Type": "application/octet-stream"})


def test_no_descriptor_for_a_request(server, client):
    client.create(**small("box"))
    with failing(server.pid("server"), "pipe2", "error=EMFILE"):
        refused(write(client))
    assert write(client).status == 201
    assert client.sh("box", "cat f") == "x"


def test_no_memory_for_the_server(fresh):
    """It may end for want of memory: it is started again, and no sandbox notices."""
    server = fresh().start()
    client = server.client(timeout=20)
    client.create(**small("box"))
    ident = client.detach("box", "while :; do date +%s%N > /tmp/beat; usleep 50000; done")
    before = server.pid("server")
    with failing(before, "brk,mmap,mremap,mprotect", "error=ENOMEM"):
        with pytest.raises((OSError, http.client.HTTPException)):
            client.post("/sandbox", {"name": "unlucky", "labels": ["x" * 60] * 15_000})
        until(lambda: not proc.alive(before), "it ends")
    server.recover()
    client = server.client()
    assert server.pid("server") != before, "small things are not had without memory"
    assert client.execution("box", ident)["status"] == "running" and client.names() == ["box"]
    first = client.sh("box", "cat /tmp/beat")
    until(lambda: client.sh("box", "cat /tmp/beat") not in ("", first), "it goes on")
    client.create(**small("unlucky"))
    settle(server, client, ["box", "unlucky"])
