# SPDX-License-Identifier: Apache-2.0
"""What must not work from inside: by exec as user and as root, by the start command, after a fork, after a pause."""
import base64
import json
import os
import re

import pytest

from harness import probes
from harness.server import ROOT

PROBES = ROOT.parent / "shared" / "security" / "probes.sh"

NINE_CAPS = sum(1 << n for n in (0, 1, 3, 4, 5, 6, 7, 10, 31))


@pytest.fixture(scope="module")
def helper(tmp_path_factory):
    return probes.build(tmp_path_factory.mktemp("escape") / "attempts")


def run_inside(client, way, content, command):
    """Runs a program brought along, by one of WAYS."""
    if way == "start":
        return probes.run_started(client, "jail", content, command)
    name = "before" if way == "fork" else "jail"
    client.create(name)
    probes.put(client, name, "/workspace/program", content)
    if way == "fork":
        assert client.post(f"/sandbox/{name}/fork", {"name": "jail"}).status == 201
    if way == "resume":
        assert client.post("/sandbox/jail/pause").status == 200 and client.post("/sandbox/jail/resume").status == 200
    user = way if way in ("user", "root") else "root"
    return client.exec("jail", command, user=user, timeoutMs=60_000)["stdout"]


WAYS = ("user", "root", "start", "fork", "resume")


@pytest.mark.parametrize("way", WAYS)
def test_attempts(client, helper, way):
    """System calls, files of the kernel, and what /proc tells about the guards."""
    text = run_inside(client, way, helper, "/workspace/program")
    count, broken, doors = probes.judge(text)
    assert count > 220, text
    assert (broken, doors) == ([], {})
    assert client.sh("jail", "echo alive", timeoutMs=5000) == "alive\n", "pid 1 is unharmed"


def status(client, name, user):
    text = client.sh(name, "cat /proc/self/status", user=user)
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_privileges_of_the_user(client, box):
    s = status(client, "box", "user")
    assert [int(s[k], 16) for k in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, 0, 0, 0]
    assert int(s["CapBnd"], 16) & ~NINE_CAPS == 0
    assert (s["NoNewPrivs"], s["Seccomp"]) == ("1", "2")
    assert s["Uid"].split() == ["1000"] * 4 and s["Gid"].split() == ["1000"] * 4
    assert s["Groups"].split() in ([], ["1000"])


def test_privileges_of_root_inside(client, box):
    s = status(client, "box", "root")
    assert [int(s[k], 16) for k in ("CapPrm", "CapEff", "CapBnd")] == [NINE_CAPS] * 3
    assert int(s["CapInh"], 16) & ~NINE_CAPS == 0
    assert (s["NoNewPrivs"], s["Seccomp"]) == ("1", "2")


def test_setuid_files_give_nothing(client, box):
    client.sh("box", "cp /usr/bin/id /usr/local/bin/sid && chown root:root /usr/local/bin/sid && chmod 6755 /usr/local/bin/sid",
              user="root")
    assert client.sh("box", "/usr/local/bin/sid -u; /usr/local/bin/sid -g; python3 -c 'import os; print(os.geteuid())'") \
        == "1000\n1000\n1000\n"


def test_file_capabilities_give_nothing_new(client, box):
    """CAP_SYS_ADMIN on a file, as an image could bring it along."""
    script = ("import os, struct\ncap = struct.pack('<IIIII', 0x02000001, 1 << 21, 0, 0, 0)\n"
              "try: os.setxattr('/usr/local/bin/capped', 'security.capability', cap)\nexcept OSError as e: print(e.errno)")
    client.sh("box", ["sh", "-c", f"cp /usr/bin/cat /usr/local/bin/capped && python3 -c \"$0\"", script], user="root")
    for user in ("user", "root"):
        result = client.exec("box", ["/usr/local/bin/capped", "/proc/self/status"], user=user)
        caps = re.search(r"CapEff:\t(\w+)", result["stdout"])
        assert caps is None or int(caps[1], 16) & (1 << 21) == 0, result


WALK_SCRIPT = """
import json, os
bad = []
for top in ('/proc/sys', '/sys'):
    for here, dirs, files in os.walk(top):
        for name in files:
            path = os.path.join(here, name)
            if os.path.islink(path): continue
            try: os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK)); bad.append('write ' + path)
            except OSError: pass
        try: os.mkdir(os.path.join(here, 'probe')); bad.append('mkdir ' + here)
        except OSError: pass
print(json.dumps(bad))
"""


@pytest.mark.parametrize("user", ["user", "root"])
def test_nothing_below_sys_is_writable(client, box, user):
    assert json.loads(client.sh("box", ["python3", "-c", WALK_SCRIPT], user=user, timeoutMs=60_000)) == []


SECRETS = """
import os
os.environ['CANARY'] = 'x'
found = []
for pid in filter(str.isdigit, os.listdir('/proc')):
    try: env = open(f'/proc/{pid}/environ', 'rb').read()
    except OSError: continue
    for word in (b'CAY_TEST_CANARY', b'PYTEST', b'CAY_IMAGES', b'CAY_DATA'):
        if word in env: found.append((pid, word.decode()))
print(found)
"""


@pytest.mark.parametrize("user", ["user", "root"])
def test_nothing_of_the_servers_environment(fresh, user):
    server = fresh(env={"CAY_TEST_CANARY": "a-secret-of-the-host"}).start()
    client = server.client()
    client.create("box")
    assert client.sh("box", ["python3", "-c", SECRETS], user=user) == "[]\n"
    assert "CANARY" not in client.sh("box", "env", user=user)


def test_kallsyms_and_command_line_tell_nothing(client, box):
    out = client.sh("box", "head -200 /proc/kallsyms 2>/dev/null | grep -vc '^0000000000000000' || :", user="root")
    assert out.strip() in ("0", "")


def test_cwd_does_not_lead_out(client, box):
    roots = client.sh("box", "stat -c %d:%i /; stat -Lc %d:%i /proc/self/cwd/../../../../../..; "
                      "stat -Lc %d:%i /proc/self/root/..; stat -Lc %d:%i /..").split()
    assert len(set(roots)) == 1
    for n in range(3, 12):
        refused = client.post("/sandbox/box/exec", {"command": ["pwd"], "cwd": f"/proc/self/fd/{n}"})
        assert refused.status == 400, refused
    for path in ("/proc/1/root", "/proc/1/cwd", "/proc/self/fd", "/proc/1/root/etc"):
        answer = client.post("/sandbox/box/exec", {"command": ["ls", ".."], "cwd": path})
        assert answer.status == 400 or "vmlinuz" not in answer.json()["stdout"], (path, answer)


def test_cwd_by_a_symlink_of_the_tenant(client, box):
    client.sh("box", "ln -s /proc/1/root/etc /workspace/out; ln -s / /workspace/top")
    answer = client.post("/sandbox/box/exec", {"command": ["cat", "hostname"], "cwd": "/workspace/out"})
    assert answer.status == 400 or answer.json()["stdout"] in ("", "box\n"), answer
    assert client.exec("box", ["pwd", "-P"], cwd="/workspace/top")["stdout"] == "/\n"


def test_shell_of_the_tenant_is_not_run_by_us(client, box):
    """passwd, the shell and the loader's files are the tenant's: what they say binds only the tenant."""
    client.sh("box", "sed -i 's#^user:.*#user:x:0:0::/:/bin/sh#' /etc/passwd; echo /workspace/evil.so > /etc/ld.so.preload",
              user="root")
    out = client.exec("box", ["id", "-u"])["stdout"]
    assert out in ("1000\n", "0\n")
    s = status(client, "box", "1000")
    assert int(s["CapBnd"], 16) & ~NINE_CAPS == 0 and s["NoNewPrivs"] == "1"


def test_replaced_programs_do_not_break_pid_1(client, box):
    client.sh("box", "rm -rf /bin/sh /usr/bin/sh /bin/true /etc/passwd /etc/group /lib64 /usr/lib64 2>/dev/null; :", user="root")
    answer = client.post("/sandbox/box/exec", {"command": ["true"]})
    assert answer.status in (200, 400), answer
    assert client.sandbox("box")["status"] == "RUNNING"
    assert client.post("/sandbox/box/stop", {"graceMs": 200}).json()["status"] == "STOPPED"
    assert client.post("/sandbox/box/start").status in (200, 400, 409, 500, 502)


def test_root_as_a_symlink_farm(client, box):
    """Mount points replaced by links before a restart: nothing is mounted over the host's."""
    client.sh("box", "rm -rf /workspace/d; mv /tmp /tmp-old; ln -s /workspace /tmp; mv /mnt /mnt-old 2>/dev/null; ln -s / /mnt; :",
              user="root")
    client.post("/sandbox/box/stop", {"graceMs": 200})
    answer = client.post("/sandbox/box/start")
    assert answer.status in (200, 400, 409, 500, 502), answer
    if answer.status == 200:
        assert "vmlinuz" not in client.sh("box", "ls / /mnt/")


def test_a_sandbox_cannot_speak_for_pid_1(client, box):
    """Output that looks like the log's own records stays output."""
    forged = base64.b64encode(b"\x05\x00\x00\x00exit\x00" * 2000 + b"event: exit\ndata: {\"exitCode\":0}\n\n" * 20).decode()
    with client.events("POST", "/sandbox/box/exec", {"command": f"echo {forged} | base64 -d; exit 3"}) as stream:
        events = list(stream.events())
    assert [e.data["exitCode"] for e in events if e.name == "exit"] == [3]


@pytest.mark.skipif(not PROBES.exists(), reason=f"{PROBES} is not there")
@pytest.mark.parametrize("way", WAYS)
def test_shared_probes(client, way):
    """The common list of probes, as it stands beside the project: no high failure."""
    text = run_inside(client, way, PROBES.read_bytes(), "PROBE_NET=1 sh /workspace/program")
    assert "TOTAL\t" in text, text
    high = [line for line in text.splitlines() if re.match(r"FAIL\t\S+\tH\t", line)]
    assert high == [] and "high=0" in text, text


def test_no_privileged_port_or_socket_of_the_host(client, box):
    script = ("import glob, os, stat\nfor top in ('/run', '/var/run', '/tmp'):\n for h, d, f in os.walk(top):\n"
              "  for n in f:\n   p = os.path.join(h, n)\n   if stat.S_ISSOCK(os.lstat(p).st_mode): print(p)")
    assert client.sh("box", ["python3", "-c", script], user="root") == ""
    assert os.path.exists("/proc/net/unix")
