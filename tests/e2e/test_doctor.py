# SPDX-License-Identifier: Apache-2.0
"""cay doctor: what is tried, what is said, and that nothing stays."""
import glob
import json
import os
import resource
import shutil
import socket
import subprocess

import pytest

from harness.server import BUILD, CAY, IMAGES
from harness.wait import stretch


def doctor(*args, program=(CAY,), **options):
    done = subprocess.run([*program, "doctor", "--json", "--listen", "127.0.0.1:0", "--images", IMAGES, *args],
                          capture_output=True, text=True, timeout=stretch(60),
                          env={**os.environ, "CAY_URL": "http://127.0.0.1:1", "HOME": "/nowhere"}, **options)
    report = json.loads(done.stdout)
    return done.returncode, report, {row["what"]: row for row in report["host"]}


@pytest.fixture
def data(tmp_path):
    return ["--data", str(tmp_path / "data")]


def traces():
    backing = {}
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            with open(path) as f:
                backing[path] = f.read()
        except OSError:
            pass  # another test's, gone meanwhile
    return {
        "loops": sorted(p for p, text in backing.items() if "cay-doctor" in text),
        "groups": glob.glob("/sys/fs/cgroup/cay-doctor-*") + glob.glob("/sys/fs/cgroup/*/cay-doctor-*"),
        "mounts": [line for line in open("/proc/self/mounts") if "cay-doctor" in line],
    }


def test_this_machine_can_serve_and_nothing_stays(data, tmp_path):
    files = set(os.listdir("/tmp"))
    code, report, rows = doctor(*data)
    assert code == 0 and report["canServe"] is True and report["server"] is None, report
    for name, row in rows.items():
        assert row["status"] != "untried", row
        assert not row["needed"] or row["status"] in ("ok", "note"), row
        assert row["status"] != "missing" or (row["lost"] and row["fix"]), row
    assert traces() == {"loops": [], "groups": [], "mounts": []}
    assert not os.path.exists(tmp_path / "data")
    assert not {f for f in set(os.listdir("/tmp")) - files if "doctor" in f}


def test_every_thing_has_one_row(data):
    _, report, rows = doctor(*data)
    assert len(rows) == len(report["host"])
    for what in ("kernel", "user namespace", "net namespace", "pid namespace", "mount namespace", "ipc namespace",
                 "uts namespace", "cgroup namespace", "idmapped mounts", "overlayfs, mapped", "seccomp", "cgroups",
                 "cgroup memory", "cgroup cpu", "cgroup pids", "cgroup freezer", "I/O accounting", "kernel log", "swap accounting",
                 "btrfs, simple quotas", "XFS, project quotas", "loop devices", "mkfs.btrfs", "mkfs.xfs", "mmdebstrap", "user namespaces", "process ids",
                 "open files", "inotify watches", "capabilities", "CAP_SYS_RESOURCE", "disk space", "memory", "clock",
                 "data directory", "port", "image", "id ranges", "nftables", "cay-init", "cay-file", "cay-berth", "libcurl", "libgit2"):
        assert what in rows, what


def test_without_root(tmp_path):
    for directory in (tmp_path, *tmp_path.parents):
        if directory.as_posix().startswith("/tmp/"):
            directory.chmod(0o755)
    for name in ("cay", "cay-init", "cay-file", "cay-berth"):
        shutil.copy(BUILD / name, tmp_path / name)
    code, report, rows = doctor("--data", str(tmp_path / "data"), program=(str(tmp_path / "cay"),), user=65534,
                                group=65534, extra_groups=[])
    assert code == 0 and report["untried"] > 10, report
    assert rows["root"]["status"] == "note" and rows["idmapped mounts"]["status"] == "untried"
    assert rows["seccomp"]["status"] == "ok"


@pytest.mark.parametrize("name", ["cay-init", "cay-file", "cay-berth"])
def test_without_a_program_of_ours(data, tmp_path, name):
    for there in {"cay", "cay-init", "cay-file", "cay-berth"} - {name}:
        shutil.copy(BUILD / there, tmp_path / there)
    code, report, rows = doctor(*data, program=(str(tmp_path / "cay"),))
    assert code == 1 and report["canServe"] is False
    assert [what for what, row in rows.items() if row["needed"] and row["status"] == "missing"] == [name]
    assert rows[name]["lost"] == "sandboxes cannot be made" and "make install" in rows[name]["fix"]


@pytest.mark.parametrize("name, lost", [("libcurl", "no registry can be asked"), ("libgit2", "no code history")])
def test_without_a_library(data, tmp_path, name, lost):
    """Each is loaded when it is needed, so a server runs without it, and does less."""
    row = doctor(*data)[2][name]
    if row["status"] == "missing":
        pytest.skip("it is not here anyway")
    soname = row["detail"]
    assert soname.startswith(f"{name}.so."), soname
    (tmp_path / soname).touch()
    code, report, rows = doctor(*data, program=("env", f"LD_LIBRARY_PATH={tmp_path}", CAY))
    assert code == 0 and report["canServe"] is True
    assert rows[name]["status"] == "missing" and soname in rows[name]["detail"], rows[name]
    assert rows[name]["lost"].startswith(lost) and soname in rows[name]["fix"], rows[name]


def test_every_right_is_needed(data):
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    for right in ("sys_ptrace", "net_admin"):
        code, report, rows = doctor(*data, program=("setpriv", "--bounding-set", f"-{right}", CAY))
        assert code == 1 and rows["capabilities"]["detail"] == f"without cap_{right}", rows["capabilities"]


def test_what_is_missing_is_told(data):
    if not shutil.which("setpriv"):
        pytest.skip("setpriv is not installed")
    code, report, rows = doctor(*data, program=("setpriv", "--bounding-set", "-sys_admin", CAY))
    assert code == 1 and report["canServe"] is False
    assert rows["capabilities"]["status"] == "missing" and "cap_sys_admin" in rows["capabilities"]["detail"]
    for what in ("net namespace", "idmapped mounts", "overlayfs, mapped", "image store"):
        assert rows[what]["status"] == "missing" and rows[what]["lost"] and rows[what]["fix"], rows[what]
    assert rows["seccomp"]["status"] == "ok", "what does not need the right is there"


def test_low_limits_only_weaken(data):
    code, report, rows = doctor(*data, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024)))
    assert code == 0 and report["canServe"] is True
    assert rows["open files"]["status"] == "missing" and rows["open files"]["detail"].startswith("only 1024")


def test_places(tmp_path):
    code, _, rows = doctor("--data", "/etc/passwd")
    assert code == 1 and "no directory" in rows["data directory"]["detail"]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        code, _, rows = doctor("--data", str(tmp_path), "--listen", f"127.0.0.1:{port}")
        assert code == 1 and rows["port"]["status"] == "missing", rows["port"]
    code, _, rows = doctor("--data", str(tmp_path), "--images", str(tmp_path / "none"))
    assert rows["image"]["status"] in ("note", "missing")


def test_beside_a_server(server, client):
    env = {**os.environ, "CAY_URL": server.url}
    args = ["--data", server.data, "--images", IMAGES, "--listen", server.listen]
    done = subprocess.run([CAY, "doctor", "--json", *args], capture_output=True, text=True, timeout=stretch(60), env=env)
    report = json.loads(done.stdout)
    rows = {row["what"]: row for row in report["host"]}
    assert done.returncode == 0 and report["server"]["status"] == client.get("/health").json()["status"]
    assert rows["port"]["status"] == "note" and "in use" in rows["data directory"]["detail"]
    text = subprocess.run([CAY, "doctor", *args], capture_output=True, text=True, timeout=stretch(60), env=env)
    assert text.returncode == 0 and "A server can run here" in text.stdout and "overlayfs" in text.stdout
