# SPDX-License-Identifier: Apache-2.0
"""Every limit holds, is told, and harms nobody but the one who meets it."""
import ctypes
import os
import re
import time
from pathlib import Path

import pytest

from harness import proc
from harness.engine import Refused
from harness.wait import stretch, until

MIB = 1 << 20
CAP_SYS_RESOURCE = 24


def knob(group, *names):
    """A file of a sandbox's cgroups, by the name it has in v1 or in v2."""
    found = [Path(d, n) for d in proc.cgroup_dirs(group) for n in names if os.path.exists(f"{d}/{n}")]
    assert found, names
    return found[0].read_text().strip()


# ---- each one ----

def test_no_swap(server, client):
    box = client.create("box", memoryGB=0.25)
    swap = knob(server.group(box["id"]), "memory.memsw.limit_in_bytes", "memory.swap.max")
    assert swap in ("0", str(256 * MIB)), "memory and swap together are what was asked for"


def test_tmpfs_is_charged_and_sized(client):
    """What lies in /dev/shm is memory of the sandbox, and at most half of it."""
    client.create("box", memoryGB=0.25)
    half = client.exec("box", "head -c 200M /dev/zero > /dev/shm/f; stat -c %s /dev/shm/f")
    assert 127 * MIB < int(half["stdout"]) <= 128 * MIB, half
    assert client.exec("box", ["python3", "-c", "bytearray(160 << 20)"])["reason"] == "oom"
    client.sh("box", "rm /dev/shm/f")
    assert client.exec("box", ["python3", "-c", "bytearray(160 << 20)"])["exitCode"] == 0
    for place in ("/tmp", "/run", "/workspace"):
        assert client.exec("box", ["stat", "-f", "-c", "%T", place])["stdout"] != "tmpfs\n"


def test_open_files(client, box):
    script = ("import os, resource\nsoft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
              "resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))\nn = 0\n"
              "try:\n while True: os.open('/dev/null', 0); n += 1\n"
              "except OSError as e: print(n < hard <= 65536, e.errno)\n"
              "try: resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard + 1))\n"
              "except (ValueError, PermissionError): print('not more')\n")
    for user in ("user", "root"):
        assert client.sh("box", ["python3", "-c", script], user=user) == "True 24\nnot more\n"


def test_file_size(server, client):
    """A file cannot be larger than the disk, not even one with a hole."""
    client.create("box", diskSizeGB=0.2)
    for user in ("user", "root"):
        assert client.sh("box", ["python3", "-c", "import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE))"],
                         user=user) == "(200000000, 200000000)\n"
        assert client.exec("box", "ulimit -f unlimited", user=user)["exitCode"] != 0
        assert client.exec("box", ["truncate", "-s", "201000000", "f"], user=user)["exitCode"] != 0
    client.sh("box", ["truncate", "-s", "199000000", "f"])
    assert "unlimited" in next(line for line in proc.text(server.inits()[0], "limits").splitlines()
                               if line.startswith("Max file size")), "pid 1 writes logs of any length"


@pytest.mark.native("a container sees what the Engine shows it")
@pytest.mark.parametrize("cores, gib", [(1, 2), (0.5, 2), (1, 0.25)])
def test_runtimes_read_their_limits(server, client, cores, gib):
    box = client.create("box", cpuCores=cores, memoryGB=gib)
    shown = client.sh("box", "cd /sys/fs/cgroup; for f in cgroup.controllers cpu.max memory.max memory.swap.max pids.max; do cat $f; done")
    pids = knob(server.group(box["id"]), "pids.max")
    assert shown.splitlines() == ["cpu memory pids", f"{cores * 100000:.0f} 100000", f"{gib * 1024 * MIB:.0f}", "0", pids]
    assert client.exec("box", "echo max > /sys/fs/cgroup/memory.swap.max", user="root")["exitCode"] != 0


def test_no_core_dumps(client, box):
    result = client.exec("box", "ulimit -c; ulimit -c unlimited 2>/dev/null; cd /tmp; sh -c 'kill -ABRT $$'; ls /tmp")
    assert result["stdout"] == "0\n", result


@pytest.mark.native("the parent of all containers is the Engine's (dockerd --cgroup-parent)")
@pytest.mark.parametrize("user", ["root", "1000"])
def test_they_go_before_the_host(client, box, user):
    """When memory is out on the host. That nobody inside lowers it the kernel sees to where its setter, root on
    the host, has CAP_SYS_RESOURCE."""
    assert client.sh("box", "cat /proc/1/oom_score_adj /proc/self/oom_score_adj", user=user) == "500\n500\n"
    if int(re.search(r"CapEff:\s*(\w+)", proc.text("self", "status"))[1], 16) >> CAP_SYS_RESOURCE & 1:
        assert client.exec("box", "echo 0 > /proc/self/oom_score_adj", user=user)["exitCode"] != 0


@pytest.mark.native("the parent of all containers is the Engine's (dockerd --cgroup-parent)")
def test_all_together_leave_room(server, client, box):
    """The parent of all: memory and processes for the host, and half of anyone's weight."""
    parent = f"cay-{server.instance()}"
    total = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    most = int(knob(parent, "memory.limit_in_bytes", "memory.max"))
    assert total * 84 // 100 < most <= total * 85 // 100
    told = client.post("/sandbox", {"memoryGB": 1e6}).error["message"]
    assert f" {most // MIB} MiB " in told, "nobody is promised more than all together can have"
    assert int(knob(parent, "pids.max")) <= int(Path("/proc/sys/kernel/pid_max").read_text()) * 8 // 10
    assert knob(parent, "cpu.shares", "cpu.weight") in ("512", "50")


@pytest.mark.native("a container's cgroups are the Engine's")
def test_everybody_is_inside(server, client, box):
    """pid 1 and whatever it starts are in each of the sandbox's cgroups. None of those is one that a process has to be
    moved into, which would hold up every fork of the host: they are of v1, or of threads; or of v2 alone, and cloned into."""
    client.detach("box", ["sleep", "60"])
    name, dirs = server.group(box["id"]), [Path(d) for d in proc.cgroup_dirs(server.group(box["id"]))]
    inside = proc.in_cgroup(name)
    assert len(inside) == 2 and server.init(box["id"]) in inside
    for pid in inside:
        assert proc.text(pid, "cgroup").count(f"/{name}\n") == len(dirs)
    types = [(d / "cgroup.type").read_text().strip() for d in dirs if (d / "cgroup.type").exists()]
    in_container = any(Path(mount, "cgroup.type").exists() for mount in proc.cgroup_mounts())
    assert types == (["domain"] if len(dirs) == 1 or in_container else ["threaded"])[:len(types)]


def test_throttled(server, client):
    """A processor's tenth is no more than that, however busy it is."""
    box = client.create("box", cpuCores=0.1)
    client.detach("box", "while :; do :; done")
    count = lambda: int(next(line.split()[1] for d in proc.cgroup_dirs(server.group(box["id"])) if os.path.exists(f"{d}/cpu.stat")
                             for line in Path(d, "cpu.stat").read_text().splitlines() if line.startswith("nr_throttled")))
    until(lambda: count() > 3, "it is held back")


# ---- the reading ----

@pytest.mark.quota
def test_the_engine_takes_no_limits_it_should_not(client, engine):
    box = client.create("box", memoryGB=0.25)
    sound = {"memory_bytes": 256 * MIB, "disk_bytes": 10 ** 9, "cpu_milli": 1000, "pids": 512}
    for bad in ({"memory_bytes": 0}, {"memory_bytes": (1 << 64) - 1}, {"disk_bytes": 1}, {"cpu_milli": 0},
                {"cpu_milli": 64001}, {"pids": 1}):
        with pytest.raises(Refused, match="limits out of bounds"):
            engine.ask("limit", box["id"], **{**sound, **bad})
    with pytest.raises(Refused, match="knows no"):
        engine.ask("limit", "sb-" + "0" * 20, **sound)
    with pytest.raises(Refused, match="not a sandbox id"):
        engine.ask("limit", "../../etc", **sound)
    assert knob(box["id"], "memory.limit_in_bytes", "memory.max") == str(256 * MIB)
    client.post("/sandbox/box/stop", {"graceMs": 0})
    with pytest.raises(Refused, match="not running"):
        engine.ask("limit", box["id"], **sound)


def test_usage_is_whole(client, engine):
    box = client.create("box", memoryGB=0.25, diskSizeGB=0.2)
    before = engine.usage(box["id"])
    assert before.pids == 1 and before.oom_kills == before.pids_refused == 0
    counted = before.disk_limit_bytes > 0  # by whom disks are limited
    assert not counted or 200_000_000 - 4096 < before.disk_limit_bytes <= 200_000_000, "in whole blocks"
    assert counted or engine.server.docker or not proc.HAS_QUOTAS
    held = client.detach("box", ["python3", "-c", "b = bytearray(64 << 20); print('up', flush=True); __import__('signal').pause()"])
    until(lambda: client.output("box", held) == b"up\n", "it holds memory")
    client.sh("box", "head -c 20M /dev/urandom > f; sync f")
    client.exec("box", ["python3", "-c", "bytearray(400 << 20)"])
    client.exec("box", ["python3", "-c", FORKS])
    after = engine.usage(box["id"])
    assert after.cpu_us > before.cpu_us
    assert 64 * MIB <= after.memory_bytes <= after.memory_peak_bytes <= 257 * MIB and after.memory_peak_bytes > 200 * MIB
    assert after.oom_kills >= 1 and after.pids_refused >= 1
    assert not counted or before.disk_bytes < MIB and 20 * MIB <= after.disk_bytes < 30 * MIB
    assert client.post("/sandbox/box/pause").status == 200
    still = engine.usage(box["id"])
    assert still.memory_bytes and still.pids == after.pids, "a paused one can be read as well"
    client.post("/sandbox/box/resume")


FORKS = """
import os, signal
pids = []
try:
    while len(pids) < 1000:
        pid = os.fork()
        if pid == 0:
            signal.pause()
        pids.append(pid)
except OSError:
    print(len(pids))
for pid in pids:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""


# ---- F-29: what the kernel counts by user ----

EXHAUST = {
    "inotify": "while libc.inotify_init1(0) >= 0: n += 1",
    "timers": "while libc.timer_create(0, None, ctypes.byref(timer)) == 0: n += 1",
    "queues": "while libc.mq_open(b'/q%d' % n, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0: n += 1",
    "segments": "while libc.shmget(0, ctypes.c_size_t(4096), 0o1600) >= 0: n += 1",
    "semaphores": "while libc.semget(0, 100, 0o1600) >= 0: n += 1",
    "messages": "while libc.msgget(0, 0o1600) >= 0: n += 1",
    "pipes": "try:\n while True: fds.append(os.pipe()); n += 1\nexcept OSError: pass",
    "epoll": "try:\n while True: fds.append(select.epoll()); n += 1\nexcept OSError: pass",
    "memfds": "try:\n while True: fds.append(os.memfd_create('x')); n += 1\nexcept OSError: pass",
    "locked memory": "while n < 100000 and libc.mlock(ctypes.c_void_p(libc.mmap(None, ctypes.c_size_t(65536), 3, 34, -1, 0)),"
                     " ctypes.c_size_t(65536)) == 0: n += 1",
}
TAKE = """
import ctypes, os, resource, select, signal, sys
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
timer, fds, n = ctypes.c_void_p(), [], 0
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
%s
print(n, flush=True)
if len(sys.argv) > 1:
    signal.pause()
"""


@pytest.mark.native("counted by user, and containers share their users with each other")
@pytest.mark.parametrize("what", EXHAUST)
def test_exhausted_for_itself_alone(client, what):
    """One takes all it can get; the other gets as much, and so does the host."""
    client.create("greedy")
    client.create("modest")
    script = TAKE % EXHAUST[what]
    held = client.detach("greedy", ["python3", "-c", script, "hold"])
    until(lambda: client.output("greedy", held).endswith(b"\n"), "it has all", 30)
    taken = int(client.output("greedy", held))
    assert taken > 0
    other = int(client.sh("modest", ["python3", "-c", script], timeoutMs=30_000))
    assert other >= taken * 9 // 10, (taken, other)
    libc = ctypes.CDLL(None)
    fd = libc.inotify_init1(0)
    assert fd >= 0
    os.close(fd)
    assert client.sh("greedy", "echo alive") == "alive\n"


# ---- a neighbour ----

HOGS = {
    "fork bomb": ["python3", "-c", "import os\nwhile True:\n try: os.fork()\n except OSError: pass"],
    "memory": ["sh", "-c", "while :; do python3 -c 'b = bytearray(1 << 30)'; done"],
    "disk": ["sh", "-c", "while :; do head -c 300M /dev/zero > /workspace/f; done"],
    "files": ["python3", "-c", "import os\nn = 0\nwhile True:\n n += 1\n try: open('/workspace/%d' % n, 'w').write('x' * 4000)\n"
              " except OSError: pass"],
    "log": ["yes"],
}


@pytest.mark.parametrize("hog", [pytest.param(h, marks=[pytest.mark.quota] if h in ("disk", "files") else []) for h in HOGS])
def test_neighbour_is_unharmed(server, client, engine, hog):
    """While one takes all it can, the other's processes live and new ones begin; nobody of ours dies."""
    ours = server.pids()
    box = client.create("hog", memoryGB=0.125, diskSizeGB=0.2)
    group = server.group(box["id"])
    client.create("neighbour", memoryGB=0.125, diskSizeGB=0.2)
    lasting = client.detach("neighbour", ["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done"])
    ident = client.detach("hog", HOGS[hog])
    at_its_bound = {
        "fork bomb": lambda: engine.usage(box["id"]).pids_refused > 0,
        "memory": lambda: engine.usage(box["id"]).oom_kills > 1,
        "disk": lambda: engine.usage(box["id"]).disk_bytes > 190_000_000,
        "files": lambda: engine.usage(box["id"]).disk_bytes > 50_000_000,
        "log": lambda: client.execution("hog", ident)["truncated"],
    }
    until(at_its_bound[hog], "it is at its bound", 60)
    said = len(client.output("neighbour", lasting))
    for _ in range(10):
        assert client.sh("neighbour", "echo x > f && cat f") == "x\n"
    until(lambda: len(client.output("neighbour", lasting)) > said, "the neighbour's process lives")
    told = engine.usage(client.sandbox("neighbour")["id"])
    assert told.oom_kills == told.pids_refused == 0
    assert client.sandbox("hog")["status"] == "RUNNING" and server.pids() == ours
    assert client.delete("/sandbox/hog").status == 200
    assert proc.in_cgroup(group) == []


# ---- F-27 ----

DEEP = """
import os
import re
import time
os.chdir('/workspace')
for i in range(10000):
    os.mkdir('d')
    os.chdir('d')
os.chdir('/workspace')
for i in range(2000):
    open(f'{i:0255d}', 'w').close()
print('made')
"""


# Made with nothing inside: what they take is names and inodes, which count to the disk's limit like bytes.
FILES = int(os.environ.get("CAY_FILES", 200_000))
MANY = """
import os, sys
os.chdir('/workspace')
for i in range(int(sys.argv[1])):
    if i % 10000 == 0:
        os.mkdir(f'd{i}')
        os.chdir(f'/workspace/d{i}')
    try:
        os.close(os.open(f'{i}', os.O_WRONLY | os.O_CREAT))
    except OSError as e:
        sys.exit(f'{i} {e.strerror}')
    if i % 10000 == 9999:
        os.chdir('/workspace')
print('made')
"""


@pytest.mark.limit(300)
@pytest.mark.parametrize("disk_gb", [pytest.param(0.1, marks=pytest.mark.quota), None], ids=["small", "default"])
def test_many_files_go_away(server, client, disk_gb):
    """The quota stops who makes too many, and those whom it has room for go as well: a delete is answered in time."""
    client.create("many", **({"diskSizeGB": disk_gb} if disk_gb else {}))
    result = client.exec("many", ["python3", "-c", MANY, "10000000" if disk_gb else str(FILES)], timeoutMs=240_000)
    if disk_gb:
        made, _, why = result["stderr"].strip().partition(" ")
        assert result["exitCode"] == 1 and why in ("Disk quota exceeded", "No space left on device"), result
        assert 10_000 < int(made) < 1_000_000, made
    else:
        assert result["stdout"] == "made\n", result
    ours, began = server.pids(), time.monotonic()
    assert client.delete("/sandbox/many").status == 200
    assert time.monotonic() - began < stretch(30)
    until(lambda: server.traces() == {}, "nothing is left", 60)
    assert server.pids() == ours


@pytest.mark.parametrize("disk", [True, pytest.param(False, marks=pytest.mark.native("there is one kind of disk"))],
                         ids=["disk", "plain"])
def test_deep_trees_go_away(request, disk):
    """Neither depth nor long names overflow whoever removes them, with a disk of their own or as plain directories; and
    the answer does not wait for him."""
    server = request.getfixturevalue("shared_server" if disk else "plain_shared")
    client = server.client()
    client.create("deep")
    assert client.sh("deep", ["python3", "-c", DEEP]) == "made\n"
    ours, began = server.pids(), time.monotonic()
    assert client.delete("/sandbox/deep").status == 200
    assert time.monotonic() - began < stretch(30)
    until(lambda: server.traces() == {}, "nothing is left", 30)
    assert server.pids() == ours
