# SPDX-License-Identifier: Apache-2.0
"""The peers that cay is measured beside: installed when missing, started and ended by the bench."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

POLICY = Path("/usr/sbin/policy-rc.d")
TOOLS = {"docker": "docker.io", "dockerd": "docker.io", "crun": "crun", "bwrap": "bubblewrap", "wrk": "wrk"}


class Unavailable(Exception):
    """Why a peer cannot run here."""


def need(program):
    """Its path, after installing Debian's package when it is missing."""
    search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    if found := shutil.which(program, path=search):
        return found
    print(f"installing {TOOLS[program]}", flush=True)
    keep_policy = POLICY.exists()
    if not keep_policy:  # a package that is only looked at must not start its service
        POLICY.write_text("#!/bin/sh\nexit 101\n")
        POLICY.chmod(0o755)
    try:
        done = subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", TOOLS[program]],
                              capture_output=True, text=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"})
    finally:
        if not keep_policy:
            POLICY.unlink(missing_ok=True)
    if found := shutil.which(program, path=search):
        return found
    lines = (done.stderr or done.stdout).strip().splitlines()
    raise Unavailable(f"{TOOLS[program]} cannot be installed: {lines[-1] if lines else 'no output'}")


def small_root(directory):
    """A tree with `true` and `sleep` as this host has them, and what they are linked with."""
    root = Path(directory)
    for name in ("proc", "sys", "dev", "tmp", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for program in ("/bin/true", "/bin/sleep"):
        libraries = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        for path in [program, *re.findall(r"(/\S+) \(0x", libraries)]:
            target = root / path.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(path), target)
    return root


class Docker:
    """A dockerd of our own: own directories and socket, no network."""

    def __init__(self, work):
        self.work = Path(tempfile.mkdtemp(prefix="docker-", dir=work))
        self.socket = str(self.work / "docker.sock")
        self.process = None

    def start(self):
        program = need("dockerd")
        log = open(self.work / "log", "wb")
        self.process = subprocess.Popen(
            [program, "--data-root", self.work / "data", "--exec-root", self.work / "exec", "-H", f"unix://{self.socket}",
             "--pidfile", self.work / "pid", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
             "--ip-masq=false", "--bridge=none"], stdout=log, stderr=log)
        log.close()
        deadline = time.monotonic() + 30
        while self.curl("http://d/_ping") != "OK":
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable("dockerd does not start: " + self.last_error())
            time.sleep(0.1)
        self.load()
        return self

    def last_error(self):
        lines = (self.work / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:160] if lines else "no output"

    def curl(self, *args):
        return subprocess.run(["curl", "-s", "--unix-socket", self.socket, *args], capture_output=True, text=True).stdout

    def load(self):
        root = small_root(self.work / "root")
        subprocess.run(["tar", "-C", root, "-cf", self.work / "image.tar", "."], check=True)
        answer = self.curl("-X", "POST", "-H", "Content-Type: application/x-tar", "--data-binary",
                           f"@{self.work / 'image.tar'}", "http://d/images/create?fromSrc=-&repo=cay-bench&tag=1")
        if "sha256:" not in answer:
            raise Unavailable(f"docker import: {answer.strip()}")

    def version(self):
        return json.loads(self.curl("http://d/version"))["Version"]

    def exec_command(self):
        """`docker exec` of true, in a container made for it."""
        docker = [need("docker"), "-H", f"unix://{self.socket}"]
        done = subprocess.run([*docker, "run", "-d", "--rm", "--network", "none", "--name", "bench-exec", "cay-bench:1",
                               "/bin/sleep", "infinity"], capture_output=True, text=True)
        return [*docker, "exec", "bench-exec", "/bin/true"] if done.returncode == 0 else None

    def pids(self):
        """dockerd and its containerd."""
        out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True).stdout
        return [self.process.pid, *map(int, out.split())]

    def stop(self):
        if self.process:
            self.curl("-X", "DELETE", "http://d/containers/bench-exec?force=true")
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        # dockerd binds its data directory onto itself and leaves that mount behind.
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            where = line.split()[4]
            if where.startswith(str(self.work)):
                subprocess.run(["umount", "-l", where])
        shutil.rmtree(self.work, ignore_errors=True)


def bwrap_command(root):
    return [need("bwrap"), "--unshare-all", "--ro-bind", str(root), "/", "--proc", "/proc", "--dev", "/dev", "/bin/true"]


def crun_command(root, work):
    """In a mount namespace without the v2 tree: Debian's crun refuses hybrid cgroups."""
    program = need("crun")
    bundle = Path(work, "bundle")
    bundle.mkdir()
    subprocess.run([program, "spec"], cwd=bundle, check=True, capture_output=True)
    config = json.loads((bundle / "config.json").read_text())
    config["process"].update(terminal=False, args=["/bin/true"])
    config["root"] = {"path": str(root), "readonly": True}
    (bundle / "config.json").write_text(json.dumps(config))
    return [program, "--root", str(Path(work, "crun-state")), "run", "--bundle", str(bundle), "cay-bench-%d-@" % os.getpid()]


def without_unified(command):
    hide = "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\""
    return ["unshare", "-m", "sh", "-c", hide, "sh", *command]
