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
TOOLS = {"docker": "docker.io", "dockerd": "docker.io", "crun": "crun", "bwrap": "bubblewrap", "wrk": "wrk",
         "iptables": "iptables", "docker-registry": "docker-registry", "skopeo": "skopeo"}

APPLETS = "sh cat dd head mkdir rm seq sync tail yes".split()


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


def image_layers(images, name):
    """Directories of an image of cay's, topmost first."""
    for line in Path(images, "refs", name).read_text().splitlines():
        key, _, value = line.partition("=")
        if key == "layers":
            return [Path(images, "layers", layer) for layer in value.split()]
    raise Unavailable(f"the image {name} names no layers")


def small_root(directory, program):
    """A tree with `true` and `sleep` as this host has them, what they are linked with, and one program more."""
    root = Path(directory)
    for name in ("proc", "sys", "dev", "tmp", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for path in ("/bin/true", "/bin/sleep"):
        libraries = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        for file in [path, *re.findall(r"(/\S+) \(0x", libraries)]:
            target = root / file.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(file), target)
    shutil.copy(program, root)
    return root


class Docker:
    """A dockerd of our own: own directories and socket, no network."""

    def __init__(self, work):
        self.work = Path(tempfile.mkdtemp(prefix="docker-", dir=work))
        self.socket = str(self.work / "docker.sock")
        self.process = None

    def start(self, root, images):
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
        self.load(root, images)
        return self

    def last_error(self):
        lines = (self.work / "log").read_text(errors="replace").strip().splitlines()
        return lines[-1][:160] if lines else "no output"

    def curl(self, *args):
        return subprocess.run(["curl", "-s", "--unix-socket", self.socket, *args], capture_output=True, text=True).stdout

    def load(self, root, images):
        """The small tree, and busybox for what needs a shell."""
        tree = self.work / "root"
        shutil.copytree(root, tree, symlinks=True)
        shutil.copy(image_layers(images, "busybox")[0] / "bin" / "busybox", tree / "bin" / "busybox")
        for name in APPLETS:
            (tree / "bin" / name).symlink_to("busybox")
        subprocess.run(["tar", "-C", tree, "-cf", self.work / "image.tar", "."], check=True)
        answer = self.curl("-X", "POST", "-H", "Content-Type: application/x-tar", "--data-binary",
                           f"@{self.work / 'image.tar'}", "http://d/images/create?fromSrc=-&repo=cay-bench&tag=1")
        if "sha256:" not in answer:
            raise Unavailable(f"docker import: {answer.strip()}")

    def cli(self, *args, timeout=600):
        """Standard output of `docker ARGS…`, which must succeed."""
        try:
            done = subprocess.run([need("docker"), "-H", f"unix://{self.socket}", *args], capture_output=True, text=True,
                                  timeout=timeout)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"docker {args[0]} took longer than {timeout} s")
        if done.returncode != 0:
            raise Unavailable(f"docker {args[0]}: {(done.stderr.strip().splitlines() or ['failed'])[0][-160:]}")
        return done.stdout

    def run(self, name, *args):
        """A container that stays; ARGS are flags, then the command behind `--`."""
        at = args.index("--")
        return self.cli("run", "-d", "--network", "none", "--name", name, *args[:at], "cay-bench:1", *args[at + 1:])

    def remove_all(self):
        names = json.loads(self.curl("http://d/containers/json?all=true") or "[]")
        for container in names:
            self.curl("-X", "DELETE", f"http://d/containers/{container['Id']}?force=true&v=true")

    def version(self):
        return json.loads(self.curl("http://d/version"))["Version"]

    def exec_command(self, name="bench-exec"):
        """`docker exec` of true, in a container made for it."""
        self.run(name, "--", "/bin/sleep", "infinity")
        return [need("docker"), "-H", f"unix://{self.socket}", "exec", name, "/bin/true"]

    def pids(self):
        """dockerd and its containerd."""
        out = subprocess.run(["ps", "-o", "pid=", "--ppid", str(self.process.pid)], capture_output=True, text=True).stdout
        return [self.process.pid, *map(int, out.split())]

    def stop(self):
        if self.process:
            self.remove_all()
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


def bwrap_command(root, program):
    return [need("bwrap"), "--unshare-all", "--die-with-parent", "--ro-bind", str(root), "/", "--proc", "/proc", "--dev", "/dev",
            program]


def without_unified():
    """Debian's crun refuses hybrid cgroups: what is run behind this does not see the v2 tree."""
    return ["unshare", "-m", "sh", "-c", "umount /sys/fs/cgroup/unified 2>/dev/null; exec \"$@\"", "sh"]


class Crun:
    """Containers of one program, as `crun spec` describes them."""

    def __init__(self, work, root, program):
        self.program = need("crun")
        self.state = Path(work, "crun-state")
        self.bundle = Path(tempfile.mkdtemp(prefix="bundle-", dir=work))
        subprocess.run([self.program, "spec"], cwd=self.bundle, check=True, capture_output=True)
        config = json.loads((self.bundle / "config.json").read_text())
        config["process"].update(terminal=False, args=[program])
        config["root"] = {"path": str(root), "readonly": True}
        (self.bundle / "config.json").write_text(json.dumps(config))
        self.name = f"cay-bench-{os.getpid()}-{self.bundle.name}-@"

    def run(self, *flags):
        return [self.program, "--root", str(self.state), "run", *flags, "--bundle", str(self.bundle), self.name]

    def delete(self):
        return [self.program, "--root", str(self.state), "delete", "-f", self.name]

    @staticmethod
    def remove_all(work):
        """Of a run that was interrupted."""
        state = Path(work, "crun-state")
        for name in os.listdir(state) if state.is_dir() else []:
            subprocess.run([*without_unified(), "crun", "--root", str(state), "delete", "-f", name], capture_output=True)
