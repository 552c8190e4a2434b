# SPDX-License-Identifier: Apache-2.0
"""Podman's service, which speaks as a Docker Engine does: its own storage and socket, no network."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness.dockerd import WORK, call
from harness.wait import until

# Podman wants more files and processes for containers than root may give where it lacks CAP_SYS_RESOURCE, as here.
RUNTIME = """#!/usr/bin/python3
import json, os, sys
for flag, bundle in zip(sys.argv, sys.argv[1:]):
    if flag in ("--bundle", "-b"):
        path = os.path.join(bundle, "config.json")
        with open(path) as file:
            config = json.load(file)
        config["process"].pop("rlimits", None)
        with open(path, "w") as file:
            json.dump(config, file)
os.execv({runc!r}, sys.argv)
"""


class Podman:
    def __init__(self):
        self.work = Path(tempfile.mkdtemp(prefix="cay-podman-", dir=WORK))
        self.host = f"unix://{self.work}/podman.sock"
        self.process = None
        runtime = self.work / "runc"
        runtime.write_text(RUNTIME.format(runc=shutil.which("runc", path=os.environ["PATH"] + ":/usr/sbin")))
        runtime.chmod(0o755)
        self.command = ["podman", "--root", self.work / "root", "--runroot", self.work / "run", "--cgroup-manager=cgroupfs",
                        "--events-backend=file", "--runtime", runtime]

    def start(self):
        with open(self.work / "log", "ab") as log:
            self.process = subprocess.Popen([*self.command, "system", "service", "--time=0", self.host], stdout=log, stderr=log)
        until(self.answers, "podman answers", 60, 0.1)
        return self

    def answers(self):
        assert self.process.poll() is None, (self.work / "log").read_text()[-2000:]
        try:
            return call(self.host, "GET", "/_ping")[0] == 200
        except OSError:
            return False

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        subprocess.run([*self.command, "rm", "-af"], capture_output=True, timeout=60)
        for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
            if (where := line.split()[4]).startswith(str(self.work)):
                subprocess.run(["umount", "-l", where], check=False)
        shutil.rmtree(self.work, ignore_errors=True)
