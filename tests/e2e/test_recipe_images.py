# SPDX-License-Identifier: Apache-2.0
"""What our recipes make, tried out: in a store that `make images-all` filled, named by CAY_IMAGES_MORE."""
import os
import shutil
from pathlib import Path

import pytest

from harness.server import Server

MORE = os.environ.get("CAY_IMAGES_MORE")
pytestmark = pytest.mark.skipif(not MORE, reason="set CAY_IMAGES_MORE to a store with all images")

TRIES = [
    ("node:18-bookworm", "node -p 'process.version.split(`.`)[0]'", "v18"),
    ("node:22-bookworm", "node -p 'process.version.split(`.`)[0]'", "v22"),
    ("node:24-bookworm", "node -p 'process.version.split(`.`)[0]'", "v24"),
    ("node:22-bookworm", "npm --version | cut -d. -f1; git --version | cut -c1-3", "10\ngit"),
    ("python:3.11", "python -c 'import sys, ssl, sqlite3; print(*sys.version_info[:2])'", "3 11"),
    ("python:3.11", "python3 --version; pip --version | cut -c1-3; pip3 --version | cut -c1-3", "Python 3.11.2\npip\npip"),
    ("python:3.13", "python -c 'import sys, ssl, sqlite3; print(*sys.version_info[:2])'", "3 13"),
    ("python:3.11", "printf '[project]\\nname=\"x\"\\nversion=\"1\"\\n' > pyproject.toml; cp -r . /tmp/x; "
     "pip install --dry-run --no-index --no-build-isolation --no-deps /tmp/x 2>&1 | grep -c externally-managed || true", "0"),
    ("debian:bookworm", "cut -d. -f1 /etc/debian_version; id -un", "12\nuser"),
    ("base", "for p in git python node npm gcc make cmake rg jq sudo curl tmux gdb; do command -v $p >/dev/null || "
     "echo no $p; done; node -p 1+1; python -c 'print(3)'", "2\n3"),
    ("@ai-sandbox/python", "python -c 'print(42)'", "42"),
    ("python:3.11-slim", "python -c 'print(42)'", "42"),
    ("node:18-alpine", "node -p 40+2", "42"),
]


@pytest.fixture(scope="module")
def shared_server():
    default, made = Path(MORE, "refs/node:20-bookworm"), False
    if not default.exists(): # a server does not start without
        shutil.copy(Path(MORE, "refs/node:22-bookworm"), default)
        made = True
    server = Server("--images", MORE)
    server.start()
    yield server
    server.close()
    if made:
        default.unlink()


@pytest.mark.parametrize("image,command,want", TRIES)
def test_has_what_it_promises(client, image, command, want):
    client.create("box", dockerImage=image)
    assert client.sh("box", command).strip() == want


def test_sudo_gives_nobody_rights(client):
    client.create("box", dockerImage="base")
    told = client.post("/sandbox/box/exec", {"command": "sudo -n id -un"}).json()
    assert told["exitCode"] == 1 and told["stdout"] == "" and "no new privileges" in told["stderr"], told
