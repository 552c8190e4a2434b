# SPDX-License-Identifier: Apache-2.0
"""What is taken and must do no harm: links that a sandbox made, archives, and a surrounding for programs."""
import tarfile

import pytest

from abuse.table import archive


@pytest.fixture
def box(client):
    return client.create("box", memoryGB=0.25)


@pytest.mark.parametrize("target", ["/etc", "/proc/1/root/etc", "/proc/self/root/etc", "../../../../etc"])
def test_links_lead_nowhere_but_inside(client, box, target):
    """A-13"""
    client.sh("box", f"ln -s {target} /workspace/out; cp /etc/passwd /workspace/own")
    answer = client.get("/sandbox/box/files?path=out/passwd")
    if answer.status == 200:
        assert answer.body == client.get("/sandbox/box/files?path=own").body, "the sandbox's own, not the host's"
    else:
        assert answer.status in (400, 403, 404), answer
    assert client.request("PUT", "/sandbox/box/files?path=out/cay-was-here", b"x").status in (400, 403)


def test_archives_that_are_made_harmless(client, box):
    """A-16: a name from the root is one below the place, a device is left out, nobody becomes root by a bit."""
    method, path, body, headers = archive(("/etc/x", tarfile.REGTYPE, b"1"), ("dev", tarfile.CHRTYPE, None), ("blk", tarfile.BLKTYPE, None))
    answer = client.request(method, path, body, headers=headers)
    assert answer.status == 200, answer
    assert client.sh("box", "cat /workspace/etc/x; ls -1 /workspace; test -e /etc/x || echo none") == "1etc\nnone\n"


def test_a_preloaded_library_is_the_commands_affair(client):
    """A-33: allowed inside, never applied to what is ours: files are read and written as before."""
    client.create("box", memoryGB=0.25, environmentVars={"LD_PRELOAD": "/no/such.so", "PATH": "/nowhere"})
    assert client.request("PUT", "/sandbox/box/files?path=a", b"text").status in (200, 201)
    assert client.get("/sandbox/box/files?path=a").body == b"text"
    answer = client.post("/sandbox/box/exec", {"command": ["/bin/cat", "/workspace/a"]}).json()
    assert answer["stdout"] == "text" and "LD_PRELOAD" in answer["stderr"], answer


def test_a_command_that_is_not_there(client, box):
    """A-35: no fault of the request."""
    answer = client.post("/sandbox/box/exec", {"command": ["no-such-program"]})
    assert answer.status == 200 and answer.json()["exitCode"] == 127, answer


def test_an_execution_of_another_sandbox(client, box):
    """A-19"""
    client.create("other", memoryGB=0.25)
    theirs = client.post("/sandbox/other/exec", {"command": "sleep 100", "detach": True}).json()["id"]
    for method, tail in (("GET", ""), ("GET", "/output"), ("POST", "/kill"), ("DELETE", "")):
        answer = client.request(method, f"/sandbox/box/exec/{theirs}{tail}", {} if method == "POST" else None)
        assert (answer.status, answer.error["code"]) == (404, "EXECUTION_NOT_FOUND"), (method, tail, answer)
    assert client.get(f"/sandbox/other/exec/{theirs}").json()["status"] == "running"
