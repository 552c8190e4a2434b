# SPDX-License-Identifier: Apache-2.0
"""Copies of a sandbox with many files: O(1), beside what Docker users do, commit and run."""
import statistics
import time

from bench import Failed

FORKS = 15
FILES_S = 300
# 100,000 files in 100 directories, and one of 1 GiB that does not compress.
CONTENT = ("mkdir -p {at}/full && cd {at}/full && dd if=/dev/urandom of=large bs=1M count=1024 2>/dev/null && "
           "for d in $(seq 100); do mkdir $d; for f in $(seq 1000); do echo $d/$f > $d/$f; done; done; echo made")


def fill(b):
    client = b.server.client(timeout=FILES_S)
    ident = client.create("full")["id"]
    out = client.sh(ident, CONTENT.format(at="/workspace"), timeoutMs=FILES_S * 1000)
    if not out.endswith("made\n"):
        raise Failed(f"the files were not made: {out[-80:]}")
    return client, ident


def fork_once(client, ident):
    """Milliseconds as the caller sees them, and the answer; the copy must have the files."""
    began = time.perf_counter()
    answer = client.post(f"/sandbox/{ident}/fork", {})
    took = (time.perf_counter() - began) * 1e3
    if answer.status != 201:
        raise Failed(f"POST /sandbox/{{id}}/fork: {answer.status} {answer.body[:120].decode(errors='replace')}")
    return took, answer.json()


def check_copy(client, ident):
    out = client.sh(ident, "cat /workspace/full/100/1000 && stat -c %s /workspace/full/large")
    if out != f"100/1000\n{1 << 30}\n":
        raise Failed(f"the copy lacks files: {out!r}")


def of_docker(b):
    """Milliseconds of commit and run, once."""
    if not b.docker:
        return None
    b.docker.run("full", "--", "/bin/sleep", "infinity")
    b.docker.cli("exec", "full", "/bin/sh", "-c", CONTENT.format(at="/tmp"))
    began = time.perf_counter()
    b.docker.cli("commit", "full", "cay-bench:full")
    b.docker.cli("run", "-d", "--network", "none", "--name", "copy", "cay-bench:full", "/bin/sleep", "infinity")
    took = (time.perf_counter() - began) * 1e3
    b.docker.remove_all()
    b.docker.cli("rmi", "cay-bench:full")
    return took


def fork(b):
    client, ident = fill(b)
    times, inside, methods = [], [], set()
    for i in range(FORKS):
        took, copy = fork_once(client, ident)
        times.append(took)
        inside.append(copy["forkMs"])
        methods.add(copy["forkMethod"])
        if i == 0:
            check_copy(client, copy["id"])
        client.delete(f"/sandbox/{copy['id']}")
    name = f"fork of 100,000 files and 1 GiB ({', '.join(sorted(methods))}), p50"
    b.add(name, statistics.median(times), "ms", "<= 10, 100 x docker", b.docker_peer("commit + run, once"), of_docker(b))
    b.add("the same: forkMs of the answer, p50", statistics.median(inside), "ms")


FIGURES = {"fork": fork}
