# SPDX-License-Identifier: Apache-2.0
"""A machine that can limit no disk: sandboxes are made all the same, and everybody is told."""
import os

import pytest

from harness import leaks, proc

# For the server alone neither kind of image can be made.
HIDE = 'for f in /usr/sbin/mkfs.btrfs /usr/sbin/mkfs.xfs; do [ ! -e $f ] || mount --bind /dev/null $f || exit 1; done; exec "$@"'


@pytest.fixture
def server(fresh):
    server = fresh()
    command = server.command
    server.command = lambda: ["unshare", "-m", "sh", "-c", HIDE, "sh", *command()]
    return server.start()


def test_told(server, client):
    health = client.get("/health").json()
    assert health["status"] == "degraded" and health["features"]["diskLimit"] == "none", health
    problem, = health["provider"]["problems"]
    assert problem["what"] == "disk limit" and problem["fix"], problem
    assert ("mkfs.btrfs" if proc.HAS_BTRFS_QUOTAS else "simple quotas") in problem["why"], problem
    assert ("mkfs.xfs" if proc.HAS_XFS_QUOTAS else "XFS has no quotas") in problem["why"], problem
    assert client.create("box", diskSizeGB=0.2)["diskEnforcedBy"] == "none"
    assert client.sh("box", "echo hi > /workspace/f && cat /workspace/f") == "hi\n"


def test_the_attempt_leaves_nothing(server, client, box):
    assert client.sandbox("box")["status"] == "RUNNING"
    assert not os.path.exists(f"{server.data}/engine/disk.img") and leaks.loop_devices(server.data) == []


def test_kept_over_a_restart(server, client):
    client.create("box", startCommand="sleep 1000")
    client.sh("box", "echo kept > /workspace/f")
    server.restart()
    assert server.client().sh("box", "cat /workspace/f") == "kept\n"
