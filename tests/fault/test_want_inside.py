# SPDX-License-Identifier: Apache-2.0
"""F-22, F-25: a sandbox's pid 1 is refused a process. Whoever asked is told whose want it is; the next one is served."""
import pytest

from fault.test_store import failing, needs_strace
from harness.wait import until

pytestmark = pytest.mark.native("of processes that are ours to trace")
FORKS = "clone,clone3,fork,vfork"
WANTS = {  # what the kernel refuses, how, and what that is
    "a process": (FORKS, "EAGAIN", 429, "PROCESS_LIMIT"),
    "memory for a process": (FORKS, "ENOMEM", 503, "HOST_BUSY"),
    "a pipe": ("pipe,pipe2", "ENFILE", 503, "HOST_BUSY"),
}
FILL = """import os, signal
while True:
    try:
        if os.fork() == 0:
            signal.pause()
    except BlockingIOError:
        print("full", flush=True)
        signal.pause()"""


@needs_strace
@pytest.mark.parametrize("want", WANTS)
def test_exec(server, client, want):
    calls, error, status, code = WANTS[want]
    pid = server.init(client.create("box")["id"])
    with failing(pid, calls, f"error={error}"):
        answer = client.post("/sandbox/box/exec", {"command": "true"})
        assert (answer.status, answer.error["code"]) == (status, code), answer
    assert client.sh("box", "echo fine") == "fine\n"


@needs_strace
def test_files(server, client):
    pid = server.init(client.create("box")["id"])
    with failing(pid, FORKS, "error=ENOMEM"):
        answer = client.request("GET", "/sandbox/box/files/stat", query={"path": "/etc/passwd"})
        assert (answer.status, answer.error["code"]) == (503, "HOST_BUSY"), answer
    assert client.request("GET", "/sandbox/box/files/stat", query={"path": "/etc/passwd"}).status == 200


def test_full_of_processes(client):
    """As many as it may have: a command more is refused for that, and a delete is not."""
    client.create("box")
    begun = client.detach("box", ["python3", "-c", FILL])
    until(lambda: b"full" in client.output("box", begun), "there is no room for another")
    answer = client.post("/sandbox/box/exec", {"command": "true"})
    assert (answer.status, answer.error["code"]) == (429, "PROCESS_LIMIT"), answer
    assert client.delete("/sandbox/box").status == 200
