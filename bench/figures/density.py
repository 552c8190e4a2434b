# SPDX-License-Identifier: Apache-2.0
"""Thousands of sandboxes that live and do nothing. COUNT= says how many; pids bound it."""
import os
import re
import resource
import subprocess
import time
from pathlib import Path

from bench import Failed
from figures.create import BURST, burst_ms
from harness import proc
from harness.wait import until

FEW, CLIENTS = 100, 16
DOCKERS = 20  # as many as a small machine makes in bearable time; its figures are scaled up


def mem_free_kib():
    """MemFree, and the free pages that it leaves out because a processor keeps them at hand. Those are hundreds of MiB
    after many deletes and few later: without them the figure would tell what ran before."""
    at_hand = sum(map(int, re.findall(r"^ +count: +(\d+)", Path("/proc/zoneinfo").read_text(), re.M)))
    free = re.search(r"^MemFree: +(\d+)", Path("/proc/meminfo").read_text(), re.M)
    if not free:
        raise Failed("no MemFree in /proc/meminfo")
    return int(free[1]) + at_hand * resource.getpagesize() // 1024


def drop_caches():
    """What is only remembered and could be forgotten is nobody's cost."""
    subprocess.run(["sync"], check=True)
    Path("/proc/sys/vm/drop_caches").write_text("3\n")


def make(b, peer, count):
    names = f"{b.work}/many-{peer}-{count}"
    return b.many(peer, "create", CLIENTS, count, names)["wall_ms"] / 1e3, names


def create_p50_ms(b):
    return b.cay("create", 1, 100)()["p50"] / 1e3


def of_docker(b):
    """Seconds to make, KiB, and seconds to delete, all for one container."""
    if not b.docker:
        return None, None, None
    b.tool("cycle", "docker", "create", b.docker.socket, 1, 2)
    drop_caches()
    before = mem_free_kib()
    made_s, names = make(b, "docker", DOCKERS)
    drop_caches()
    kib = before - mem_free_kib()
    gone_s = b.many("docker", "delete", CLIENTS, DOCKERS, names)["wall_ms"] / 1e3
    # Below nothing: others took or gave more meanwhile, and it tells nothing.
    return made_s / DOCKERS, kib / DOCKERS if kib > 0 else None, gone_s / DOCKERS


def leftovers(b):
    """Processes, cgroups and files of sandboxes, and mounts where the engine makes them."""
    ids = b.server.traces()
    mounts = [m for m in proc.text(b.server.pid("engine"), "mountinfo").splitlines() if "overlay" in m]
    return [*b.server.sandbox_processes(), *ids, *mounts]


def density(b):
    count = int(os.environ.get("COUNT") or 2000)
    room = int(Path("/proc/sys/kernel/pid_max").read_text()) // 10 * 8 - 1000
    if not 2 * FEW <= count <= room:
        raise Failed(f"COUNT={count} is not within {2 * FEW} and {room} (8/10 of pid_max, and some spare)")
    docker_s, docker_kib, docker_gone_s = of_docker(b)
    scaled = b.docker_peer(f"per container, from {DOCKERS}")
    create_p50_ms(b)  # warm
    quiet_ms = burst_ms(b, "cay")
    drop_caches()
    before = mem_free_kib()
    few_s, few = make(b, "cay", FEW)
    at_few = create_p50_ms(b)
    rest_s, rest = make(b, "cay", count - FEW)
    raw_kib = before - mem_free_kib()
    at_count = create_p50_ms(b)
    rss_mib, own_mib = b.rss_mib(), b.own_mib()
    drop_caches()
    kib = before - mem_free_kib()
    alive = len(b.server.inits())
    began = time.monotonic()
    b.many("cay", "delete", CLIENTS, count - FEW, rest)
    b.many("cay", "delete", CLIENTS, FEW, few)
    gone_s = time.monotonic() - began
    after_ms = burst_ms(b, "cay")  # while the kernel still takes apart what they had
    report = [
        (f"{count} idle sandboxes: alive", alive, "", f"= {count}", None, None),
        (f"{count} idle sandboxes: made in", few_s + rest_s, "s", "< 15", scaled, docker_s and docker_s * count),
        (f"{count} idle sandboxes: memory each, by free memory", raw_kib / count, "KiB", "<= 700", None, None),
        (f"{count} idle sandboxes: the same, caches dropped", kib / count, "KiB", "", scaled, docker_kib),
        (f"create through HTTP, p50, {count} alive", at_count, "ms", "<= 2 x, ratio >= 0.5", f"cay with {FEW} alive", at_few),
        (f"{count} idle sandboxes: server + engine RSS", rss_mib, "MiB", "< 57 (60 MB)", None, None),
        (f"{count} idle sandboxes: all of cay's own processes, PSS", own_mib, "MiB", "< 57 (60 MB)", None, None),
        (f"{count} idle sandboxes: all deleted in", gone_s, "s", "< 10", scaled, docker_gone_s and docker_gone_s * count),
        (f"{BURST} creates at once, just after that", after_ms, "ms", "<= 2 x, ratio >= 0.5", "cay before the crowd", quiet_ms),
    ]
    for name, value, unit, goal, peer, theirs in report:
        b.add(name, value, unit, goal, peer, theirs)
    left_over(b, count)


def left_over(b, count):
    try:
        until(lambda: not leftovers(b), "nothing left", 10, 0.2)
    except AssertionError:
        pass  # the row tells
    b.add(f"{count} idle sandboxes: left behind when deleted", len(leftovers(b)), "", "= 0")


FIGURES = {"density": density}
