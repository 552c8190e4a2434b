# SPDX-License-Identifier: Apache-2.0
"""What one sandbox can do to the commands of another: p95 beside abuse, over p95 alone."""
import statistics

from bench import ROUNDS

SECONDS = 5
QUIET, DOCKER_QUIET = 2000, 15  # commands per measurement, fewer when SECONDS are over
ABUSE = {
    "fork bomb": "bomb() { bomb | bomb & }; bomb; sleep 60",
    "memory hog": "while :; do head -c 8G /dev/zero | tail > /dev/null; done",
    "disk filler": "while :; do dd if=/dev/zero of=AT/filler bs=1M count=4096; sync; done 2>/dev/null",
    "log flood": "yes 'all work and no play makes jack a dull boy'",
}
# Small, so that the abuser is soon at its limits and stays there.
LIMITS = {"memoryGB": 0.25, "diskSizeGB": 0.25, "cpuCores": 1}
DOCKER_LIMITS = ("--memory", "256m", "--memory-swap", "256m", "--cpus", "1", "--pids-limit", "512")


def beside_cay(b, what):
    client = b.server.client()
    ident = client.create("noisy", **LIMITS)["id"]
    client.detach(ident, ["sh", "-c", ABUSE[what].replace("AT", "/workspace")], timeoutMs=(SECONDS + 10) * 1000)
    try:
        return b.cay("exec", 1, QUIET, SECONDS)()["p95"]
    finally:
        client.delete(f"/sandbox/{ident}")


def beside_docker(b, what):
    b.docker.run("noisy", *DOCKER_LIMITS, "--", "/bin/sh", "-c", ABUSE[what].replace("AT", "/tmp"))
    try:
        return b.dock("exec", 1, DOCKER_QUIET, SECONDS)()["p95"]
    finally:
        b.docker.remove_all()


def ratio_of(alone, beside, rounds):
    """The median of the rounds' ratios: each round has its own quiet time just before."""
    quiet_and_loud = [(alone(), beside()) for _ in range(rounds)]
    return statistics.median(loud / quiet for quiet, loud in quiet_and_loud)


def neighbours(b):
    alone = b.cay("exec", 1, QUIET, SECONDS)
    alone()  # warm
    for what in ABUSE:
        ours = ratio_of(lambda: alone()["p95"], lambda: beside_cay(b, what), ROUNDS)
        theirs = None
        if b.docker:
            docker_alone = b.dock("exec", 1, DOCKER_QUIET, SECONDS)
            theirs = ratio_of(lambda: docker_alone()["p95"], lambda: beside_docker(b, what), 1)
        b.add(f"exec p95 beside a {what}, times p95 alone", ours, "x", "<= 2", b.docker_peer("the same, once"), theirs)


FIGURES = {"neighbours": neighbours}
