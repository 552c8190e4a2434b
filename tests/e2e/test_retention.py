# SPDX-License-Identifier: Apache-2.0
"""What logs may take on the disk, of one sandbox and of one account. One sandbox has as much as 32 full logs."""
import os
import subprocess
from pathlib import Path

import pytest

from harness import disk
from harness.wait import until

MIB = 1 << 20
SMALL = ("--log-head", "64k", "--log-tail", "64k")
SHARE = 32 * (128 << 10)


def log(server, run):
    found = list(Path(server.data, "logs").rglob(f"{run}.log"))
    assert len(found) == 1, found
    return found[0]


def taken(server):
    return disk.taken(Path(server.data, "logs"), ".log")


def is_gone(client, name, run):
    return client.get(f"/sandbox/{name}/exec/{run}").status == 404


def test_the_oldest_of_a_sandbox_go(fresh):
    server = fresh(*SMALL)
    server.start()
    client = server.client()
    client.create("box", startCommand="echo started; sleep 1000")
    client.create("other")
    theirs = client.exec("other", "head -c 500000 /dev/zero")["id"]
    runs = client.detach("box", "head -c 500000 /dev/zero; sleep 1000")
    until(lambda: log(server, runs).stat().st_blocks * 512 >= 128 << 10, "its output")
    ended = [client.exec("box", "head -c 500000 /dev/zero")["id"] for _ in range(48)]
    subprocess.run(["fallocate", "-l", str(4 * SHARE), Path(server.data, "filler")], check=True)  # they are looked at
    until(lambda: is_gone(client, "box", ended[0]), "the oldest goes", timeout=45)
    until(lambda: taken(server) - log(server, theirs).stat().st_blocks * 512 <= SHARE, "so many that the rest fits", timeout=45)
    assert not is_gone(client, "box", ended[-1]) and not is_gone(client, "other", theirs)
    assert client.execution("box", runs)["status"] == "running"
    assert client.get("/sandbox/box/logs").json()["logs"] == "started\n"
    assert client.sandbox("box")["status"] == "RUNNING"


@pytest.mark.native("who writes the log is the server")
def test_a_log_that_does_not_end_ends_its_sandbox(fresh):
    """As pid 1 could write it, whose memory is the sandbox's: any bytes, and any number of them."""
    server = fresh(*SMALL)
    server.start()
    client = server.client()
    client.create("box", persistent=True)
    client.create("other")
    runs = client.detach("box", "sleep 1000")
    path = log(server, runs)
    ended = client.exec("box", "head -c 500000 /dev/zero")["id"]
    with path.open("ab") as f:
        f.write(os.urandom(SHARE + SHARE // 2))
    until(lambda: is_gone(client, "box", ended), "the other one goes", timeout=45)
    assert client.sandbox("box")["status"] == "RUNNING", "less than twice its share"
    with path.open("ab") as f:
        f.write(os.urandom(2 * SHARE))
    box = until(lambda: (b := client.sandbox("box"))["status"] == "STOPPED" and b, "it is stopped", timeout=45)
    assert box["terminationReason"] == "disk" and "logs" in box["termination"]["message"], box
    until(lambda: taken(server) <= SHARE, "then the log may go", timeout=45)
    assert client.sandbox("other")["status"] == "RUNNING"
    assert client.post("/sandbox/box/start").status == 200 and client.sh("box", "echo back") == "back\n"


def test_the_oldest_of_an_account_go(fresh):
    """Logs that take much beside what they say, so that the test need not write it."""
    server = fresh()
    server.start()
    client = server.client()
    st = os.statvfs(server.data)
    if st.f_bavail * st.f_frsize < 6 << 30:
        pytest.skip("less than 6 GiB free")
    ended = []
    for i in range(5):
        client.create(f"box-{i}")
        ended.append(client.exec(f"box-{i}", "echo said")["id"])
    for i, run in enumerate(ended):
        subprocess.run(["fallocate", "-n", "-l", str(450 * MIB), log(server, run)], check=True)
        os.utime(log(server, run), (i, i))  # no two within one tick of the kernel's clock
    until(lambda: is_gone(client, "box-0", ended[0]), "the oldest goes", timeout=45)  # it is looked at every 30 seconds
    for i in range(1, 5):
        assert client.output(f"box-{i}", ended[i]) == b"said\n", i
