# SPDX-License-Identifier: Apache-2.0
"""A dockerd of a test's own: its directories and socket, no network."""
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.wait import until

QUIET = ["--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none"]


class Docker:
    def __init__(self):
        self.work = Path(tempfile.mkdtemp(prefix="cay-docker-"))
        self.socket = f"unix://{self.work}/docker.sock"
        with open(self.work / "log", "wb") as log:
            self.process = subprocess.Popen(
                [shutil.which("dockerd", path="/usr/sbin:/usr/bin:/sbin:/bin"), "--data-root", self.work / "data", "--exec-root",
                 self.work / "exec", "-H", self.socket, "--pidfile", self.work / "pid", *QUIET], stdout=log, stderr=log)
        try:
            until(lambda: self.process.poll() is not None or self.run("version", check=False).returncode == 0, "dockerd answers", 60, 0.1)
            assert self.process.poll() is None, (self.work / "log").read_text()[-2000:]
        except AssertionError:
            self.close()
            raise

    def run(self, *args, check=True, **options):
        done = subprocess.run(["docker", "-H", self.socket, *map(str, args)], capture_output=True, timeout=120, **options)
        assert not check or done.returncode == 0, f"docker {args[0]}: {done.stderr.decode()}"
        return done

    def output(self, *args):
        return self.run(*args).stdout.decode()

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # It binds its data directory onto itself and leaves that mount behind.
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            where = line.split()[4]
            if where.startswith(str(self.work)):
                subprocess.run(["umount", "-l", where], check=False)
        shutil.rmtree(self.work, ignore_errors=True)
