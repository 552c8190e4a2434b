# SPDX-License-Identifier: Apache-2.0
"""Probes of the walls from inside, by every way in, beside Docker hardened by flags."""
import re
from collections import Counter

import peers
from bench import Failed
from harness import probes

# What its documentation and common advice recommend, and a sandbox's limits.
HARDENED = ("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "1000",
            "--read-only", "--tmpfs", "/tmp", "--pids-limit", "512", "--memory", "2g", "--memory-swap", "2g", "--cpus", "1",
            "--ulimit", "core=0", "--ulimit", "nofile=1024:4096")
PROGRAM = "/workspace/program"
PROBES_S = 60
OF_PID_1 = re.compile(r"_1$|^as_init_|/proc/1/")
SEVERITIES = (("H", "high", "= 0"), ("M", "medium", "<= 1"), ("L", "low", "<= 4"))


def changed(client, verb, name, body=None):
    answer = client.post(f"/sandbox/{name}/{verb}", body)
    if answer.status not in (200, 201):
        raise Failed(f"POST …/{verb}: {answer.status}")
    return answer.json()["id"]


def by_exec(client, content, user="user"):
    client.create("told")
    probes.put(client, "told", PROGRAM, content)
    return client.exec("told", [PROGRAM], user=user, timeoutMs=60_000)["stdout"]


def by_start(client, content):
    return probes.run_started(client, "started", content, PROGRAM)


def after_fork(client, content):
    client.create("source")
    probes.put(client, "source", PROGRAM, content)
    copy = changed(client, "fork", "source", {})
    return client.exec(copy, [PROGRAM], timeoutMs=60_000)["stdout"]


def after_resume(client, content):
    client.create("paused")
    probes.put(client, "paused", PROGRAM, content)
    changed(client, "pause", "paused")
    ident = changed(client, "resume", "paused")
    return client.exec(ident, [PROGRAM], timeoutMs=60_000)["stdout"]


WAYS = {
    "exec": by_exec,
    "exec as root": lambda client, content: by_exec(client, content, "root"),
    "start command": by_start,
    "after fork": after_fork,
    "after resume": after_resume,
}


def of_docker(b, program):
    """Open doors, or None where there is no docker. Its pid 1 is no guard but the tenant's own: not counted."""
    if not b.docker:
        return None
    b.docker.run("hardened", *HARDENED, "-v", f"{program}:/program:ro", "--", "/bin/sleep", "infinity")
    doors = probes.judge(b.docker.cli("exec", "hardened", "/program", timeout=PROBES_S))[2]
    return {name: door for name, door in doors.items() if not OF_PID_1.search(name)}


def count(doors, severity):
    return Counter(s for s, _ in doors.values())[severity]


def escape(b):
    program = f"{b.work}/attempts"
    content = probes.build(program)
    try:
        theirs, peer = of_docker(b, program), b.docker_peer("hardened by flags")
    except peers.Unavailable as e:
        theirs, peer = None, f"docker: {e}"
    client = b.server.client()
    for way, run in WAYS.items():
        try:
            total, broken, ours = probes.judge(run(client, content))
        except (Failed, AssertionError) as e:
            b.add(f"open to probes, {way}", None, "", "", str(e).splitlines()[0][:120])
            continue
        finally:
            b.tidy()
        if broken or total == 0:
            raise Failed(f"{way}: {total} probes ran, these must work and do not: {broken}")
        for severity, word, goal in SEVERITIES:
            b.add(f"open to {total} probes, {way}: {word}", count(ours, severity), "", goal, peer,
                  None if theirs is None else count(theirs, severity))
        worse = None if theirs is None else len(set(ours) - set(theirs))
        b.add(f"open to {total} probes, {way}: shut only at the peer's", worse, "", "= 0", peer)
        tell(way, ours, theirs or {})


def tell(way, ours, theirs):
    """The doors behind the counts; the peer's only once."""
    for name, (severity, verdict) in sorted(ours.items()):
        print(f"    cay, {way}: {severity} {name}: {verdict}{'' if name not in theirs else ' (peer too)'}")
    if way == "exec":
        for name, (severity, verdict) in sorted(theirs.items()):
            print(f"    peer: {severity} {name}: {verdict}")


FIGURES = {"escape": escape}
