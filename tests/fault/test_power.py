# SPDX-License-Identifier: Apache-2.0
"""F-17: power is cut at any moment, and whatever was answered is there. `make power` makes 200 cuts; without it a few.

Sandboxes, keys and files are made and removed on a disk that remembers every write (harness/power.py). Then its power is cut
at points of that past, and a server of another boot is started on what the disk would hold."""
import os
import random
import time
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.power import Disk
from harness.server import Server
from harness.wait import until

CUTS = int(os.environ.get("CUTS", "8"))
SEED = int(os.environ.get("SEED", "17"))
ROUNDS = max(6, min(40, CUTS // 4))  # of what is done before
NEVER = 1 << 62
BOOT = "/proc/sys/kernel/random/boot_id"


@dataclass
class Box:
    id: str
    persistent: bool
    made: int  # all of these: how many events the disk had seen when the answer came
    written: int = NEVER
    ending: int = NEVER  # when its delete was asked for
    ended: int = NEVER


@dataclass
class Past:
    boxes: list = field(default_factory=list)
    keys: list = field(default_factory=list)  # token, when
    volumes: list = field(default_factory=list)  # id, what was synced in it, when
    end: int = 0


class Rebooted(Server):
    """A server on a host that was started again a second ago, as far as it can tell."""

    def command(self):
        boot = f"{self.data}/../boot"
        with open(boot, "w", encoding="ascii") as f:
            f.write(f"00000000-0000-4000-8000-{random.getrandbits(48):012x}\n")
        up = int(float(Path("/proc/uptime").read_text(encoding="ascii").split()[0]))
        return ["unshare", "--mount", "--time", "--boottime", str(1 - up), "sh", "-c", f'mount --bind "$0" {BOOT} && exec "$@"', boot, *super().command()]


def come_and_go(disk, server, token, past, rounds):
    client = server.client(token=token)
    for i in range(rounds):
        made = client.create(f"g{i}")
        box = Box(made["id"], False, disk.now())
        past.boxes.append(box)
        if i % 2:
            box.ending = disk.now()
            assert client.delete(f"/sandbox/{box.id}").status == 200
            box.ended = disk.now()
    client.close()


def stay(disk, server, token, past, rounds):
    client = server.client(token=token)
    for i in range(rounds // 3):
        made = client.create(f"p{i}", persistent=True)
        box = Box(made["id"], True, disk.now())
        past.boxes.append(box)
        client.sh(box.id, f"echo {box.id} > f && sync f")
        box.written = disk.now()
    client.close()


def hand_on(disk, server, token, past):
    """A volume outlives the host, whoever has it."""
    client = server.client(token=token)
    first = Box(client.create("v")["id"], False, disk.now())
    past.boxes.append(first)
    first.ending = disk.now()
    volume = client.delete(f"/sandbox/{first.id}", preserveVolume="true").json()["volumeId"]
    first.ended = disk.now()
    next_one = Box(client.create("w", volume=volume)["id"], False, disk.now())
    past.boxes.append(next_one)
    for i in range(3):
        client.sh(next_one.id, f"echo {i} > f{i} && sync f{i}")
        past.volumes.append((volume, i, disk.now()))
    client.close()


def grant(disk, server, past, rounds):
    for _ in range(rounds // 2):
        past.keys.append((server.key(), disk.now()))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    disk, past = Disk(tmp_path_factory.mktemp("power")), Past()
    with disk.recording():
        (disk.mount / "data").mkdir()
        with Server("--auth", "keys", data=disk.mount / "data") as server:
            token = server.key()
            past.keys.append((token, disk.now()))
            workers = [threading.Thread(target=work, args=args) for work, args in (
                (come_and_go, (disk, server, token, past, ROUNDS)), (stay, (disk, server, token, past, ROUNDS)),
                (hand_on, (disk, server, token, past)), (grant, (disk, server, past, ROUNDS)))]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            past.end = disk.now()
            told = time.time()
            until(lambda: time.time() > told + 2, "a host that starts a second ago starts later than this")
    assert len(past.boxes) == ROUNDS + ROUNDS // 3 + 2 and len(past.volumes) == 3 and past.end > ROUNDS * 4
    return disk, past


def point(past, i):
    """Where, and what stays of what was not flushed. Half of the cuts come right behind an answer, with nothing left."""
    chance = random.Random(SEED * 1000 + i)
    made = [b.made for b in past.boxes if not b.persistent]
    others = [when for _, when in past.keys] + [b.ended for b in past.boxes if b.ended != NEVER] + \
        [b.written for b in past.boxes if b.written != NEVER] + [when for *_, when in past.volumes]
    if i % 2 == 0:
        return chance.choice(others if i % 8 == 0 else made), "none"
    return chance.randrange(past.keys[0][1], past.end), chance.choice(["all", "some", "torn", "none"])


def look(client, box, cut):
    """What is wrong with one sandbox after a cut."""
    answer = client.get(f"/sandbox/{box.id}")
    if answer.status == 404:
        return None if cut < box.made else "was answered, and is lost"
    now = answer.json()
    if box.ended <= cut:
        return None if now["status"] == "TERMINATED" else f"was deleted, and is {now['status']}"
    if box.ending <= cut and now["status"] == "TERMINATED":
        return None
    if not box.persistent:
        well = now["status"] == "TERMINATED" and now["terminationReason"] == "host_restart"
    else:
        well = now["status"] == "STOPPED" or cut < box.made
    return None if well else f"is {now['status']}, {now.get('terminationReason')}"


def check(server, past, cut):
    for token, when in past.keys:
        if when <= cut:
            assert server.client(token=token).get("/sandbox").status == 200, "a key is lost"
    client = server.client(token=past.keys[0][0])
    until(lambda: all(s["status"] in ("STOPPED", "ERROR") for s in client.get("/sandbox", per_page=1000).json()["sandboxes"]),
          "reconciled", 20, 0.1)
    wrong = {box.id: said for box in past.boxes if (said := look(client, box, cut))}
    assert not wrong, wrong
    written = [box for box in past.boxes if box.written <= cut]
    for box in written[-1:]:
        assert client.post(f"/sandbox/{box.id}/start").status == 200
        assert client.sh(box.id, "cat f") == f"{box.id}\n"
    kept = [(volume, i) for volume, i, when in past.volumes if when <= cut]
    for volume, i in kept[-1:]:
        client.create("again", volume=volume)
        assert client.sh("again", f"cat f{i}") == f"{i}\n"
    client.close()


@pytest.mark.parametrize("i", range(CUTS))
def test_power_cut(world, i):
    disk, past = world
    n, keep = point(past, i)
    with disk.cut(n, keep, SEED * 1000 + i) as mount, Rebooted("--auth", "keys", data=mount / "data") as server:
        try:
            check(server, past, n)
        except AssertionError as e:
            raise AssertionError(f"cut at {n} of {past.end}, {keep}: {e}\n{server.log()[-3000:]}") from e
