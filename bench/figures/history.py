# SPDX-License-Identifier: Apache-2.0
"""Code history: what a version costs on top of its command, and reading a long history."""
import statistics
import subprocess
import time
from pathlib import Path

FILES, VERSIONS, EACH = 10000, 1000, 10
SMALL = {"image": "busybox", "memoryGB": 0.5, "cpuCores": 2}  # processors as git has them, or a row of versions meets its limit
INIT = "git init -q . && git config user.name x && git config user.email x@x && git config gc.auto 0"
COMMIT = "git add -A && git commit -q -m x"
FILL = ("i=0; while [ $i -lt 100 ]; do mkdir d$i; (cd d$i; j=0; while [ $j -lt %d ]; do echo $i $j > f$j; j=$((j+1)); done); "
        "i=$((i+1)); done" % (FILES // 100))


def median_us(call):
    took = []
    for _ in range(EACH):
        began = time.perf_counter()
        call()
        took.append((time.perf_counter() - began) * 1e6)
    return statistics.median(took)


def made(client, name, track):
    client.create(name, track=track, **SMALL)
    client.exec(name, FILL, timeoutMs=120000)
    return lambda: client.exec(name, "date +%N > d7/f7")


def git_inside(client):
    """The git program where the tree is."""
    client.create("git", memoryGB=1, cpuCores=2)
    client.exec("git", f"{INIT} && {{ {FILL}; }} && {COMMIT}", timeoutMs=120000)
    return lambda: client.exec("git", f"date +%N > d7/f7; {COMMIT}")


def git_outside(b):
    """The same files on the host's own disk, for the git program."""
    top = Path(b.fresh_dir("tree"))
    for i in range(100):
        (top / f"d{i}").mkdir()
        for j in range(FILES // 100):
            (top / f"d{i}" / f"f{j}").write_text(f"{i} {j}\n")

    def shell(line):
        subprocess.run(["sh", "-c", line], cwd=top, check=True, stdout=subprocess.DEVNULL)

    def commit():
        (top / "d7" / "f7").write_text(str(time.time()))
        shell(COMMIT)

    shell(INIT)
    commit()
    return commit


def history(b):
    client = b.server.client()
    calls = (made(client, "kept", "workspace"), made(client, "plain", "off"), git_inside(client), git_outside(b))
    rounds = [[median_us(call) for call in calls] for _ in range(3)]
    kept, plain, inside, outside = (statistics.median(r[i] for r in rounds) / 1e3 for i in range(4))
    name = f"a version after an exec, 1 of {FILES} files changed"
    b.add(name, kept - plain, "ms", "<= 40, 3 x git", "git add -A && git commit, in a sandbox", inside - plain)
    b.add(name, kept - plain, "ms", "3 x git", "git add -A && git commit, on the host", outside)
    client.create("long", track="workspace", **SMALL)
    for i in range(VERSIONS):
        client.exec("long", "true", files={"a": str(i)})
    b.add(f"history of {VERSIONS} executions", median_us(lambda: client.get("/sandbox/long/history").json()) / 1e3, "ms", "<= 20")
    client.close()


FIGURES = {"history": history}
