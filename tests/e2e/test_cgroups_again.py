# SPDX-License-Identifier: Apache-2.0
"""The cgroups of a sandbox that met no limit are given to a next one, which cannot tell."""
import os
import re
import signal
import threading
from pathlib import Path

import pytest

from harness import proc
from harness.berths import of_engine, waiting
from harness.wait import until

pytestmark = [pytest.mark.native("a container's cgroups are the Engine's"),
              pytest.mark.skipif(not Path("/sys/fs/cgroup/memory").is_dir(), reason="those of v2 cannot be named anew")]
MIB = 1 << 20
PIDS = 512  # of a sandbox, unless said
TRIES = 60  # spawners keep what they removed, each for itself: now and then another one is asked
EAT = ["python3", "-c", "bytearray(100 << 20)"]


def kept(server):
    parents = proc.cgroup_dirs(f"cay-{server.instance()}")
    return {name for d in parents for name in os.listdir(d) if name.startswith("spare-")}


def memory(ident):
    [found] = [d for d in proc.cgroup_dirs(ident) if os.path.exists(f"{d}/memory.limit_in_bytes")]
    return Path(found)


def held(ident, name):
    """One that the kernel has for the sandbox, in whichever of its cgroups."""
    [found] = [path for d in proc.cgroup_dirs(ident) if (path := Path(d, name)).exists()]
    return int(found.read_text())


def again(client, leave, **spec):
    """Makes sandboxes, and deletes them after `leave`, until one has the memory cgroup of another: that one."""
    used = set()
    for i in range(TRIES):
        box = client.create(f"box{i}", **(spec if i else {"memoryGB": 0.25}))
        number = memory(box["id"]).stat().st_ino
        if number in used:
            return box
        used.add(number)
        leave(box["id"])
        assert client.delete(f"/sandbox/{box['id']}").status == 200
    raise AssertionError("none was used again")


@pytest.mark.parametrize("size", [0.125, 1])
def test_its_limits_are_its_own(server, client, size):
    """Less than what the first had, or more; and the most that it had is not the first one's."""
    box = again(client, lambda ident: client.exec(ident, EAT), memoryGB=size, cpuCores=0.5)
    limits = [int((memory(box["id"]) / name).read_text()) for name in ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
              if (memory(box["id"]) / name).exists()]
    assert set(limits) == {int(size * 1024) * MIB}
    used = client.get(f"/sandbox/{box['id']}/stats").json()
    assert used["memory"]["peakBytes"] < 20 * MIB and used["memory"]["limitBytes"] == limits[0]
    assert client.sh(box["id"], "cat /sys/fs/cgroup/cpu.max") == "50000 100000\n"
    assert held(box["id"], "cpu.cfs_quota_us") == 50000 and held(box["id"], "pids.max") == PIDS
    assert client.exec(box["id"], ["python3", "-c", "bytearray(200 << 20)"])["reason"] == ("oom" if size < 0.2 else "exited")


LIMITS = {"oom": ["python3", "-c", "bytearray(1 << 30)"],
          "pids": ["sh", "-c", f"for i in $(seq {PIDS}); do sleep 60 & done"]}


@pytest.mark.parametrize("limit", LIMITS)
def test_what_was_met_is_not_the_next_ones(server, client, limit):
    """Kills and refusals are counted for as long as there is a cgroup: whoever met a limit leaves its cgroups to nobody."""
    box = client.create("first", memoryGB=0.125)
    inode = memory(box["id"]).stat().st_ino
    assert client.exec("first", LIMITS[limit])["reason"] == limit
    assert client.delete("/sandbox/first").status == 200
    for i in range(TRIES // 4):
        other = client.create(f"other{i}")
        assert memory(other["id"]).stat().st_ino != inode
        assert client.delete(f"/sandbox/other{i}").status == 200


def test_an_engine_that_was_killed_leaves_none(server, client):
    box = again(client, lambda ident: None)
    assert client.delete(f"/sandbox/{box['id']}").status == 200
    before = kept(server)
    assert before
    server.kill("engine")
    server.recover()
    assert not before & kept(server), "what it has is its own, of the sandbox that it tried"


def put_by(server):
    """By spawners: cgroups, disks and records."""
    return {name for d in (server.data + "/engine/records", f"/proc/{server.pid('engine')}/root/files")
            for name in os.listdir(d) if name.startswith("spare-")} | kept(server)


def test_a_spawner_that_was_killed_leaves_none(server, client):
    box = again(client, lambda ident: None)
    assert client.delete(f"/sandbox/{box['id']}").status == 200
    before = put_by(server)
    assert before
    spawners = of_engine(server, "cay-spawn")
    for pid in spawners:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not before & put_by(server), "nothing is left of them")
    until(lambda: len(now := of_engine(server, "cay-spawn")) == len(spawners) and not set(now) & set(spawners), "others came")
    again(client, lambda ident: None)


def test_who_comes_late_stays_out(server, client):
    """A first process that was let go by a spawner that died then: what it was to enter is gone, or another's."""
    hulls = waiting(server)
    for pid in hulls:
        os.kill(pid, signal.SIGSTOP)
    answers = []
    asked = threading.Thread(target=lambda: answers.append(server.client().post("/sandbox", {"name": "late"})))
    asked.start()
    # On record: from now on it is told to go, and waited for.
    records = Path(server.data, "engine", "records")
    until(lambda: [p for p in records.glob("sb-*") if p.stat().st_size], "it is on record")
    for pid in of_engine(server, "cay-spawn"):
        os.kill(pid, signal.SIGKILL)
    asked.join()
    assert answers[0].status >= 500, answers
    for pid in hulls:
        os.kill(pid, signal.SIGCONT)
    until(lambda: server.inits() == [] and server.traces() == {}, "nothing is left")
    for name in kept(server):
        assert proc.in_cgroup(name) == [], "nobody is in what waits for the next one"
    client.create("next")
    assert client.sh("next", "echo fine") == "fine\n"


def test_who_comes_late_is_not_beside_the_next(server, client):
    """Nor is he in the cgroups of the same sandbox when that was started again, and they are there again."""
    box = client.create("box", persistent=True)
    assert client.post("/sandbox/box/stop").status == 200
    hulls, record = waiting(server), Path(server.data, "engine", "records", box["id"])
    for pid in hulls:
        os.kill(pid, signal.SIGSTOP)
    answers = []
    asked = threading.Thread(target=lambda: answers.append(server.client().post("/sandbox/box/start")))
    asked.start()
    late = int(until(lambda: re.search(r"^running=1$.*^pid=(\d+)$", record.read_text(), re.M | re.S), "it is on record")[1])
    assert late in hulls
    for pid in of_engine(server, "cay-spawn") + [pid for pid in hulls if pid != late]:
        os.kill(pid, signal.SIGKILL)
    asked.join()
    assert answers[0].status >= 500, answers
    until(lambda: client.post("/sandbox/box/start").status == 200, "it is started again")
    os.kill(late, signal.SIGCONT)
    until(lambda: not proc.alive(late), "who was late is gone")
    assert len(server.inits()) == 1 and client.sh("box", "echo fine") == "fine\n"
