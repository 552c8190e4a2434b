# SPDX-License-Identifier: Apache-2.0
"""Podman's service, which speaks as a Docker Engine does: its own storage and socket, no network."""
import os
import shutil
import subprocess

from harness.dockerd import Service

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


class Podman(Service):
    def __init__(self):
        super().__init__("podman")
        runtime = self.work / "runc"
        runtime.write_text(RUNTIME.format(runc=shutil.which("runc", path=os.environ["PATH"] + ":/usr/sbin")))
        runtime.chmod(0o755)
        self.podman = ["podman", "--root", self.work / "root", "--runroot", self.work / "run", "--cgroup-manager=cgroupfs",
                       "--events-backend=file", "--runtime", runtime]

    def command(self):
        return [*self.podman, "system", "service", "--time=0", self.host]

    def end(self):
        self.process.terminate()
        self.process.wait(30)
        subprocess.run([*self.podman, "rm", "-af"], capture_output=True, timeout=60)
