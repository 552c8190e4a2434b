# SPDX-License-Identifier: Apache-2.0
"""Many followers of one execution: some thousand that wait, and some hundred that never read."""
import json
import re
import subprocess
from contextlib import contextmanager

from bench import Failed, Watched
from harness import proc

IDLERS, READERS, STUCK = 5000, 500, 500
LINES, WIDTH = 500, 4000  # of each reader: more than sockets hold of one that does not read
BOUND = f"< {(READERS + STUCK) // 16 + 10} (64 KiB each)"
CROWD_S = 180


@contextmanager
def asked(b, address, path, *args):
    """The program `readers` once all of its readers follow."""
    process = subprocess.Popen([f"{b.work}/readers", address, path, *map(str, args)], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    try:
        if (said := process.stderr.readline()) != "connected\n":
            raise Failed(f"readers: {said.strip()}")
        yield process
    finally:
        process.kill()
        process.communicate()


def crowd(b, ident, script, count, lines, stuck=0, meanwhile=None):
    """Followers of a command that begins when all of them are there; what `readers` says of them."""
    eid = b.server.client().detach(ident, f"read go; {script}", openStdin=True)
    path = f"/api/v1/sandbox/{ident}/exec/{eid}"
    with asked(b, b.address, f"{path}/output?follow=true", count, lines, stuck) as process:
        if meanwhile:
            meanwhile()
        b.server.client().request("POST", f"{path}/stdin", b"go\n", {"close": "true"})
        out, _ = process.communicate(timeout=CROWD_S)
        return json.loads(out)


def threads(pid):
    return int(re.search(r"^Threads:\s*(\d+)$", proc.text(pid, "status"), re.M)[1])


def idlers(b):
    pid = b.server.pid("server")
    ident = b.server.client().create("quiet")["id"]
    before, seen = threads(pid), {}

    def look():
        seen.update(rss=proc.rss_kib(pid) / 1024, threads=threads(pid) - before)

    result = crowd(b, ident, "true", IDLERS, 0, meanwhile=look)
    b.add(f"{IDLERS} idle SSE followers: server RSS", seen["rss"], "MiB", "< 38 (40 MB)")
    b.add(f"{IDLERS} idle SSE followers: threads more than without", seen["threads"], "", "= 0 (the loop's alone)")
    b.add(f"{IDLERS} idle SSE followers: heard the end", result["good"], "readers", f"= {IDLERS}")


def stuck(b):
    """Rounds with and without those that never read. The output is less than a log keeps by default."""
    ident = b.server.client().create("told")["id"]
    script = (f"pad=$(head -c {WIDTH} /dev/zero | tr '\\0' .); i=0; "
              f"while [ $i -lt {LINES} ]; do printf '#%06d;%s\\n' $i $pad; i=$((i+1)); done")
    good = []

    def round_with(others):
        def run():
            result = crowd(b, ident, script, READERS, LINES, others)
            good.append(result["good"])
            return result
        return run

    round_with(0)()
    with Watched(b.server.pid("server")) as rss:
        beside, alone = b.side_by_side(round_with(STUCK), round_with(0), "wall_ms")
    size = f"{LINES * WIDTH / 1e6:.0f} MB"
    b.add(f"{READERS} readers of {size} beside {STUCK} that never read: got all", min(good), "readers", f"= {READERS}")
    b.add(f"{READERS} readers of {size}: the last has all after", beside, "ms", "ratio >= 0.8", f"without the {STUCK}", alone)
    b.add(f"{READERS} readers beside {STUCK} that never read: server RSS", rss.most_kib / 1024, "MiB", BOUND)


FIGURES = {"idlers": idlers, "stuck": stuck}
