# SPDX-License-Identifier: Apache-2.0
"""Recipes for tests, and what a build has on the host while it runs."""
from pathlib import Path

from harness import proc

TINY = "name {name}\nextract busybox-static\nbusybox /bin/busybox\nenv PATH=/bin\nenv GREETING={greeting}\n"
LONG = "name {name}\ndebian bookworm\n"  # half a minute at least


def tiny(name, greeting="hello"):
    return TINY.format(name=name, greeting=greeting)


def processes(images):
    """Those that have to do with this image store but serve it: builders, and what they started."""
    found = []
    for pid in proc.pids():
        words = proc.text(pid, "cmdline").split("\0")
        if any(str(images) in word for word in words) and "serve" not in words:
            found.append((pid, " ".join(words)[:120]))
    return found


def half_built(images):
    return [p for p in Path(images, "tmp").iterdir()]


def is_unpacking(images):
    """mmdebstrap has begun to fill a tree."""
    return any((p / "root/usr/lib").exists() for p in half_built(images))


def follow(client, job_id):
    """The events of a job to its end."""
    with client.stream("GET", f"/jobs/{job_id}", headers={"Accept": "text/event-stream"}) as stream:
        return list(stream.events())


def build(client, **body):
    """The job when it is over."""
    answer = client.post("/images/build", body)
    assert answer.status == 202, answer
    return follow(client, answer.json()["id"])[-1].data
