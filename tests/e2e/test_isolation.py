# SPDX-License-Identifier: Apache-2.0
"""What a sandbox is made of, and that its limits hold."""
import os
import socket
import time

import pytest

from harness import proc
from harness.wait import stretch, until


def test_hostname_is_the_name(client):
    client.create("island")
    assert client.sh("island", "hostname; cat /proc/sys/kernel/hostname") == "island\nisland\n"


def test_no_host_process_is_seen(server, client, box):
    pids = client.sh("box", "ls /proc | grep -E '^[0-9]+$'").split()
    assert len(pids) < 8 and "1" in pids
    comms = client.sh("box", "cat /proc/[0-9]*/comm")
    assert "cay-server" not in comms and "python" not in comms


def test_only_loopback(client, box):
    assert client.sh("box", "sed -n 's/^ *\\([^:]*\\):.*/\\1/p' /proc/net/dev").split() == ["lo"]
    assert client.sh("box", "python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); "
                     "socket.create_connection(s.getsockname()); print('up')\"") == "up\n"


def test_no_way_to_the_server(server, client, box):
    script = ("import socket\ntry:\n socket.create_connection(('127.0.0.1', %d), 2); print('open')\n"
              "except OSError: print('closed')" % client.port)
    assert client.sh("box", ["python3", "-c", script]) == "closed\n"


@pytest.mark.native("containers have a user namespace only with userns-remap, and then the same one")
def test_ids_are_mapped_to_a_range_of_its_own(client):
    maps = []
    for name in ("one", "two"):
        client.create(name)
        fields = [list(map(int, line.split())) for line in client.sh(name, "cat /proc/self/uid_map").splitlines()]
        assert all(outside > 0 for _, outside, _ in fields)
        assert sum(count for *_, count in fields) <= 65536
        maps.append({outside for _, outside, _ in fields})
    assert not maps[0] & maps[1]


@pytest.mark.native("containers have a user namespace only with userns-remap, and then the same one")
def test_processes_run_as_nobody_of_the_host(server, client, box):
    client.detach("box", ["sleep", "1000"])
    client.detach("box", ["sleep", "1000"], user="root")
    found = [p for p in server.sandbox_processes()]
    assert len(found) >= 3
    for pid in found:
        uids = [line for line in proc.text(pid, "status").splitlines() if line.startswith("Uid:")][0].split()[1:]
        assert all(int(uid) >= 65536 for uid in uids), (pid, uids)


@pytest.mark.native("the runtime's mounts show where Docker keeps its layers")
def test_no_host_path_shows(server, client, box):
    shown = client.sh("box", "cat /proc/self/mountinfo /proc/self/mounts /proc/self/cgroup /proc/1/cgroup 2>/dev/null; "
                      "env; ls -l /proc/self/fd /proc/self/cwd /proc/self/root; cat /proc/cmdline; :")
    for word in (server.data, os.path.basename(server.data), "upperdir=/", "lowerdir=/", server.instance(), "/var/cache"):
        assert word not in shown, word


def test_no_foreign_sockets(client, box):
    name = "\0cay-test-%d" % os.getpid()
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(name)
        assert "cay-test" not in client.sh("box", "cat /proc/net/unix")


def test_sandboxes_do_not_see_each_other(client):
    client.create("left")
    client.create("right")
    client.sh("left", "echo secret > /tmp/s; echo secret > /workspace/s; echo secret > /dev/shm/s")
    client.detach("left", ["sleep", "4242"])
    assert client.sh("right", "cat /tmp/s /workspace/s /dev/shm/s 2>/dev/null; ps -eo args | grep -c '[4]242'; :") == "0\n"


def test_image_is_not_changed_by_a_sandbox(client):
    client.create("writer")
    client.sh("writer", "rm -rf /usr/bin/curl /usr/lib/python3*; echo x > /etc/passwd", user="root")
    client.create("reader")
    client.sh("reader", "curl --version && python3 -c 1 && grep -q root /etc/passwd")


def test_memory_limit_is_the_one_asked_for(client):
    client.create("mem", memoryGB=0.25)
    hold = "import sys; b = bytearray(%d << 20); print(len(b))"
    assert client.exec("mem", ["python3", "-c", hold % 100])["exitCode"] == 0
    assert client.exec("mem", ["python3", "-c", hold % 400])["reason"] == "oom"


def test_cpu_limit(client):
    client.create("half", cpuCores=0.5)
    script = "import time\ne, p = time.time() + 2, time.process_time()\nwhile time.time() < e: pass\n" \
             "print(time.process_time() - p)"
    used = float(client.sh("half", ["python3", "-c", script]))
    assert used < 1.4, "half a core was asked for"


def test_open_files_and_core_dumps_are_bounded(client, box):
    nofile, core = client.sh("box", "ulimit -n; ulimit -c").split()
    assert int(nofile) <= 65536 and core == "0"


def test_shm_is_bounded(client, box):
    size_kib = int(client.sh("box", "df -Pk /dev/shm | awk 'NR==2{print $2}'"))
    assert 0 < size_kib <= 2 << 20


def test_devices_are_the_standard_ones(client, box):
    standard = {"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx", "pts", "shm", "mqueue", "fd",
                "stdin", "stdout", "stderr", "core"}
    assert set(client.sh("box", "ls /dev").split()) <= standard
    assert client.sh("box", "echo x > /dev/null && head -c 4 /dev/urandom | wc -c && head -c 2 /dev/zero | od -An -tx1") \
        .split() == ["4", "00", "00"]


def test_pty_works(client, box):
    script = "import pty, os\npid, fd = pty.fork()\nif pid == 0: os.execlp('echo', 'echo', 'tty')\nprint(os.read(fd, 99))"
    assert "tty" in client.sh("box", ["python3", "-c", script])


@pytest.mark.limit(60)
def test_busy_neighbour_leaves_others_alive(server, client):
    """A sandbox that spins on every core, within its limits."""
    client.create("busy", cpuCores=1)
    client.create("quiet")
    client.detach("busy", "for i in 1 2 3 4; do (while :; do :; done) & done; wait")
    took = []
    for _ in range(20):
        began = time.monotonic()
        client.exec("quiet", ["true"])
        took.append(time.monotonic() - began)
    assert sorted(took)[10] < stretch(0.2), took
    assert until(lambda: client.delete("/sandbox/busy").status == 200, "it goes")


def test_devices_are_shared_with_nobody(client):
    """A lock on /dev/null in one sandbox is none in another."""
    client.create("one")
    client.create("two")
    client.detach("one", "exec 9</dev/null; flock -x 9; echo held > /tmp/held; sleep 1000")
    until(lambda: client.exec("one", ["test", "-s", "/tmp/held"])["exitCode"] == 0, "one holds its lock")
    assert client.exec("two", "exec 9</dev/null; flock -n -x 9")["exitCode"] == 0
    assert client.exec("one", "exec 9</dev/null; flock -n -x 9")["exitCode"] == 1


LOW_PORT = ["python3", "-c", "import socket; socket.socket().bind(('0.0.0.0', 80)); "
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP); print('fine')"]


@pytest.mark.native("a container's are the Engine's")
@pytest.mark.parametrize("user", ["root", "1000"])
def test_low_ports_and_ping(client, box, user):
    """The network is not the sandbox's own to change, so what root may do there is open to everybody."""
    assert client.sh("box", LOW_PORT, user=user) == "fine\n"
