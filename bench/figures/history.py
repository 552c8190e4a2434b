# SPDX-License-Identifier: Apache-2.0
"""Code history: what a version costs on top of its command, and reading a long history."""
import statistics
import subprocess
import time
from pathlib import Path

FILES, VERSIONS, EACH = 10000, 1000, 10
SMALL = {"image": "busybox", "memoryGB": 0.5}
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


def git_tree(b):
    """The same tree, for the git program."""
    top = Path(b.fresh_dir("tree"))
    for i in range(100):
        (top / f"d{i}").mkdir()
        for j in range(FILES // 100):
            (top / f"d{i}" / f"f{j}").write_text(f"{i} {j}\n")

    def git(*args):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "gc.auto=0", *args], cwd=top, check=True,
                       stdout=subprocess.DEVNULL)

    def commit():
        (top / "d7" / "f7").write_text(str(time.time()))
        git("add", "-A")
        git("commit", "-q", "-m", "x")

    git("init", "-q", ".")
    commit()
    return commit


def history(b):
    client = b.server.client()
    kept, plain, git = made(client, "kept", "workspace"), made(client, "plain", "off"), git_tree(b)
    ours = theirs = None
    rounds = [(median_us(kept) - median_us(plain), median_us(git)) for _ in range(3)]
    ours, theirs = (statistics.median(r[i] for r in rounds) for i in (0, 1))
    b.add(f"a version after an exec, 1 of {FILES} files changed", ours / 1e3, "ms", "<= 40, 3 x git", "git add -A && git commit",
          theirs / 1e3)
    client.create("long", track="workspace", **SMALL)
    for i in range(VERSIONS):
        client.exec("long", "true", files={"a": str(i)})
    b.add(f"history of {VERSIONS} executions", median_us(lambda: client.get("/sandbox/long/history").json()) / 1e3, "ms", "<= 20")
    client.close()


FIGURES = {"history": history}
