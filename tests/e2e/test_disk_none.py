# SPDX-License-Identifier: Apache-2.0
"""A kernel that can limit no disk: sandboxes are made all the same, and everybody is told."""
import os

import pytest

from harness import leaks, proc

pytestmark = pytest.mark.skipif(proc.HAS_QUOTAS, reason="this kernel has btrfs' simple quotas")


def test_told(server, client):
    health = client.get("/health").json()
    assert health["status"] == "degraded" and health["features"]["diskLimit"] == "none", health
    problem, = health["provider"]["problems"]
    assert problem["what"] == "disk limit" and "simple quotas" in problem["why"] and problem["fix"], problem
    assert client.create("box", diskSizeGB=0.2)["diskEnforcedBy"] == "none"
    assert client.sh("box", "echo hi > /workspace/f && cat /workspace/f") == "hi\n"


def test_the_attempt_leaves_nothing(server, client, box):
    assert client.sandbox("box")["status"] == "RUNNING"
    assert not os.path.exists(f"{server.data}/engine/disk.img") and leaks.loop_devices(server.data) == []


def test_kept_over_a_restart(fresh):
    server = fresh().start()
    client = server.client()
    client.create("box", startCommand="sleep 1000")
    client.sh("box", "echo kept > /workspace/f")
    server.restart()
    assert server.client().sh("box", "cat /workspace/f") == "kept\n"
