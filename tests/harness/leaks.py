# SPDX-License-Identifier: Apache-2.0
"""What a server must not leave behind once it is down: compared with how the host was before."""
import os
from pathlib import Path

from harness import proc


def net_namespaces():
    return {f.name for d in ("/run/netns", "/var/run/netns") if os.path.isdir(d) for f in os.scandir(d)}


def mounts(data):
    """Lines of any mount table on the host that name the data directory."""
    found, seen = [], set()
    for pid in proc.pids():
        try:
            space = os.readlink(f"/proc/{pid}/ns/mnt")
        except OSError:
            continue
        if space in seen:
            continue
        seen.add(space)
        found += [f"pid {pid}: {line}" for line in proc.text(pid, "mountinfo").splitlines() if data in line]
    return found


def loop_devices(data):
    found = []
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if data in backing.read_text():
                found.append(str(backing))
        except OSError:
            pass
    return found


def processes(data, instance):
    found = set(proc.naming(data))
    if instance:
        found |= set(proc.in_cgroup(f"cay-{instance}"))
    found.discard(os.getpid())
    return [f"{p} {proc.text(p, 'comm').strip()} {proc.text(p, 'cmdline')[:80]!r}" for p in sorted(found)]


def find(data, instance, namespaces_before):
    """Everything that is left, as text; empty when nothing is."""
    left = [f"process {p}" for p in processes(data, instance)]
    left += [f"mount {m}" for m in mounts(data)]
    left += [f"loop device {d}" for d in loop_devices(data)]
    if instance:
        left += [f"cgroup {d}" for d in proc.cgroup_dirs(f"cay-{instance}")]
    new = net_namespaces() - namespaces_before
    left += [f"net namespace {n}" for n in new if n.startswith("cay")]
    return left
