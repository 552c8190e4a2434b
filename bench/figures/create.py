# SPDX-License-Identifier: Apache-2.0
"""Making sandboxes: the engine alone, through HTTP, whole cycles, many at once."""
import os
import statistics
import tempfile
import time

import peers
from bench import DEFAULT_IMAGE, IMAGES, remove_cgroups

COUNT = 100
BURST, BURSTS = 100, 5


def engine(b):
    """Until pid 1 runs, as seen by who asks the engine; beside the least it can cost and the nearest programs."""
    name = "create, engine call alone, p50"

    def ours(what):
        return lambda: b.tool("engine", f"{b.server.data}/run/engine.sock", DEFAULT_IMAGE, COUNT)[what]

    def least(what):
        return lambda: floor(b)[what]

    b.against(name, ours("create"), least("create"), goal="<= 1.3 x, ratio >= 0.77", peer="the least: bench/floor.c")
    b.against("delete, engine call alone, p50", ours("delete"), least("delete"), peer="the least: bench/floor.c")
    b.against(name, ours("create"), crun_up(b), goal="ratio > 1", peer="crun run -d, until it runs")
    b.against(name, ours("create"), bwrap_up(b), goal="ratio > 1", peer="bwrap, until it runs")


def floor(b):
    try:
        return b.tool("floor", COUNT, b.fresh_dir("floor"), b.cgroup, f"{b.work}/pid1", IMAGES, *b.lower_dirs())
    finally:
        remove_cgroups(b.cgroup)


def crun_up(b):
    def run():
        crun = peers.Crun(b.work, b.root, "/pid1")
        return b.tool("spawn", "-u", COUNT, *crun.run("-d"), "--", *crun.delete(), prefix=peers.without_unified())
    return run


def bwrap_up(b):
    return lambda: b.tool("spawn", "-u", COUNT, *peers.bwrap_command(b.root, "/pid1"))


def create(b):
    warm(b)
    b.against("create until RUNNING through HTTP, p50", b.cay("create", 1, 200), b.dock("create", 1, 8),
              goal="<= 3, 80 x docker", peer="docker create + start")


def warm(b):
    b.tool("cycle", "cay", "cycle", b.address, 1, 20)
    if b.docker:
        b.tool("cycle", "docker", "cycle", b.docker.socket, 1, 2)


def cycles(b):
    name = "create + exec true + delete, one client, p50"
    warm(b)
    b.against(name, b.cay("cycle", 1, 200), b.dock("cycle", 1, 8), goal="<= 6, 40 x docker", peer="docker engine API, network none")
    b.against(name, b.cay("cycle", 1, 200), lambda: b.tool("spawn", COUNT, *peers.bwrap_command(b.root, "/bin/true")),
              peer="bwrap run true, no server")
    b.against(name, b.cay("cycle", 1, 200), crun_cycle(b), peer="crun run true, no server")
    rate, theirs = b.side_by_side(b.cay("cycle", 4, 150), b.dock("cycle", 4, 4), "rate")
    b.add("create + exec true + delete, 4 clients", rate, "/s", ">= 250", b.docker_peer("engine API"), theirs, more_is_better=True)
    b.add("fdatasync of 4 KiB in the data directory, p50", fdatasync_ms(b.server.data), "ms")


def crun_cycle(b):
    return lambda: b.tool("spawn", COUNT, *peers.Crun(b.work, b.root, "/bin/true").run(), prefix=peers.without_unified())


def fdatasync_ms(directory):
    took = []
    with tempfile.NamedTemporaryFile(dir=directory) as f:
        for _ in range(100):
            os.write(f.fileno(), b"x" * 4096)
            began = time.perf_counter()
            os.fdatasync(f.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e3


def burst_ms(b, peer):
    """As many connections as sandboxes, all asking at the same moment, until the last one runs."""
    names = f"{b.work}/burst-{peer}"
    made = b.many(peer, "create", BURST, BURST, names)["wall_ms"]
    b.many(peer, "delete", 16, BURST, names)
    return made


def burst(b):
    """Docker once: it takes long."""
    warm(b)
    ours = statistics.median(burst_ms(b, "cay") for _ in range(BURSTS))
    theirs = burst_ms(b, "docker") if b.docker else None
    b.add(f"{BURST} creates at once, until the last one runs", ours, "ms", "<= 400", b.docker_peer("the same, once"), theirs)


FIGURES = {"engine": engine, "create": create, "cycles": cycles, "burst": burst}
