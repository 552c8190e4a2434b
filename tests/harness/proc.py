# SPDX-License-Identifier: Apache-2.0
"""What /proc tells of the host and its processes."""
import errno
import os
import re
import shutil
import subprocess
from pathlib import Path

KERNEL = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))


def _has_xfs_quotas():
    """Whether an XFS can be made and mounted with prjquota. The file is there where the module has quotas."""
    subprocess.run("modprobe -q xfs", shell=True, capture_output=True, check=False)
    return os.path.exists("/proc/fs/xfs/xqmstat") and bool(shutil.which("mkfs.xfs", path="/usr/sbin:/sbin:/usr/bin"))


HAS_BTRFS_QUOTAS = KERNEL >= (6, 7)  # simple ones
HAS_XFS_QUOTAS = _has_xfs_quotas()
HAS_QUOTAS = HAS_BTRFS_QUOTAS or HAS_XFS_QUOTAS
# Who is just ending has no namespaces any more: its mountinfo is EINVAL.
GONE = (errno.ENOENT, errno.ESRCH, errno.EACCES, errno.EPERM, errno.EINVAL)


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def text(pid, name):
    """A file of a process, or nothing when the process has gone meanwhile."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace")
    except OSError as e:
        if e.errno not in GONE:
            raise
        return ""


def state(pid):
    """A letter, as proc(5) has them; none of somebody who is not there."""
    return "".join(text(pid, "stat").rpartition(")")[2].split()[:1])


def alive(pid):
    return state(pid) not in ("", "Z", "X")


def _kib(pid, name, key):
    for line in text(pid, name).splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    return 0


def rss_kib(pid):
    return _kib(pid, "status", "VmRSS")


def pss_kib(pid):
    return _kib(pid, "smaps_rollup", "Pss")


def ns_pid(pid):
    """Its pid in its own namespace."""
    for line in text(pid, "status").splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return 0


def pid_space(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def children(pid):
    return [p for p in pids() if text(p, "stat").rpartition(")")[2].split()[1:2] == [str(pid)]]


def naming(path):
    """Those with that path in their command lines."""
    return [p for p in pids() if str(path) in text(p, "cmdline") and alive(p)]


def in_cgroup(name):
    """Processes in a cgroup whose path has a component of that name."""
    return [p for p in pids() if f"/{name}" in text(p, "cgroup") and alive(p)]


def cgroup_mounts():
    lines = [line.split()[:3] for line in Path("/proc/mounts").read_text().splitlines()]
    return [where for _, where, kind in lines if kind in ("cgroup", "cgroup2")]


def cgroup_dirs(name):
    """Directories of that name in every cgroup hierarchy of the host."""
    found = []
    for where in cgroup_mounts():
        for here, dirs, _ in os.walk(where):
            if name in dirs:
                found.append(os.path.join(here, name))
            if here[len(where):].count("/") >= 4:
                dirs.clear()
    return found
