# SPDX-License-Identifier: Apache-2.0
"""A dockerd of the tests' own: its directories, its socket, no network, nothing of the host's."""
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

from harness import proc
from harness.wait import until

WORK = os.environ.get("CAY_DOCKER_WORK") or "/var/tmp"  # overlay2 wants a plain filesystem


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def call(host, method, path, body=None):
    """The Engine's answer, past cay: status and JSON."""
    conn = Connection(host.removeprefix("unix://"))
    try:
        conn.request(method, "/v1.41" + path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = conn.getresponse()
        data = answer.read()
        is_json = answer.headers.get("Content-Type", "").startswith("application/json")
        return answer.status, json.loads(data) if data and is_json else data
    finally:
        conn.close()


def containers(host, instance):
    """What a server has there, running or not."""
    filters = quote(json.dumps({"label": [f"cay.instance={instance}"]}))
    return call(host, "GET", f"/containers/json?all=true&filters={filters}")[1]


def pids(host, instance):
    """The host's pids of their first processes."""
    inspected = [call(host, "GET", f"/containers/{c['Id']}/json") for c in containers(host, instance)]
    return [box["State"]["Pid"] for status, box in inspected if status == 200 and box["State"]["Running"]]


def inspect(host, ident):
    """A sandbox's container."""
    status, box = call(host, "GET", f"/containers/cay-{ident}/json")
    assert status == 200, (status, box)
    return box


class Service:
    """What both engines are to the tests: a program with a directory of its own that answers at a socket in it."""

    def __init__(self, name, place=WORK):
        self.name = name
        self.work = Path(tempfile.mkdtemp(prefix=f"cay-{name}-", dir=place))
        self.host = f"unix://{self.work}/{name}.sock"
        self.process = None

    def start(self):
        with open(self.work / "log", "ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log,
                                            env={**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin",
                                                 "TMPDIR": str(self.work)})
        until(self.answers, f"{self.name} answers", 60, 0.1)
        return self

    def answers(self):
        assert self.process.poll() is None, (self.work / "log").read_text()[-2000:]
        try:
            return call(self.host, "GET", "/_ping")[0] == 200
        except OSError:
            return False

    def stop(self):
        if self.process and self.process.poll() is None:
            self.end()
        for pid in proc.naming(self.work):  # a shim whose containerd was killed stays for ever
            os.kill(pid, signal.SIGKILL)
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            where = line.split()[4]
            if where.startswith(str(self.work)):
                subprocess.run(["umount", "-l", where])
        shutil.rmtree(self.work, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


class Dockerd(Service):
    def __init__(self, *args, place=WORK):
        super().__init__("dockerd", place)
        self.args = args

    def command(self):
        return ["dockerd", "--data-root", self.work / "data", "--exec-root", self.work / "exec", "-H", self.host,
                "--pidfile", self.work / "pid", "--iptables=false", "--ip6tables=false", "--ip-forward=false",
                "--ip-masq=false", "--bridge=none", *self.args]

    def run(self, *args):
        """What Docker's own client says."""
        done = subprocess.run(["docker", "-H", self.host, *map(str, args)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"docker {args[0]}: {done.stderr}"
        return done.stdout

    def kill(self):
        """It and its containerd; what they ran may go on."""
        for pid in [self.process.pid, *proc.children(self.process.pid)]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        (self.work / "exec/containerd/containerd.pid").unlink(missing_ok=True)  # or it is taken for alive until reaped

    def end(self):
        for box in call(self.host, "GET", "/containers/json?all=true")[1]:
            call(self.host, "DELETE", f"/containers/{box['Id']}?force=true&v=true")
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()
