# SPDX-License-Identifier: Apache-2.0
"""F-32: the host's clock is set while sandboxes live. What they were granted they have still."""
import json

import pytest

from harness.clock import Clock
from harness.wait import stretch, until

DAY, YEARS, SLACK = 86400, 3650 * 86400, 30


@pytest.mark.native
def test_the_clock_is_set(fresh, tmp_path):
    clock = Clock(tmp_path)
    server = fresh("--auth", "keys", env=clock.env, rate_limit="100000/60").start()
    client = server.client(token=server.key())
    boxes = [client.create("short", timeoutMinutes=10, memoryGB=0.125), client.create("endless", timeoutMinutes=0, memoryGB=0.125),
             client.create("leased", leaseSeconds=600, idleTimeoutMs=600_000, memoryGB=0.125)]
    before = {box["name"]: client.detach(box["name"], "sleep 1000") for box in boxes}
    jumps = 0
    for ahead in (DAY, 0, -DAY, 0, YEARS, YEARS + 1, 0):
        moved = abs(ahead - clock.ahead) > 300
        clock.set(ahead)
        jumps += moved
        until(lambda: server.log(100_000).count("the clock was set by") == jumps, f"{ahead} s is noticed")
        until(lambda: abs(clock.until(client.sandbox("short")["expiresAt"]) - 600) < SLACK, f"{ahead} s: its end is moved")
        for box in boxes:
            now = client.sandbox(box["name"])
            assert now["status"] == "RUNNING" and now["terminationReason"] is None, now
            assert 0 <= now["uptimeMs"] < stretch(80_000), (ahead, now["uptimeMs"])
            assert client.execution(box["name"], before[box["name"]])["status"] == "running"
        assert client.sandbox("endless")["expiresAt"] is None
        done = client.post("/sandbox/short/exec", {"command": "echo fine"})
        assert (done.json()["stdout"], done.json()["reason"]) == ("fine\n", "exited") and 0 <= done.json()["durationMs"] < 10_000, done
        assert 0 < int(done.headers["RateLimit-Reset"]) <= 60 and int(done.headers["RateLimit-Limit"]) == 100_000
        token = client.post("/sandbox/short/auth").json()
        assert 0 < clock.until(token["expires_at"]) <= 3600 + SLACK
        assert server.client(token=token["token"]).get(f"/sandbox/{boxes[0]['id']}").status == 200
        made = client.create(f"then-{jumps}", memoryGB=0.125, timeoutMinutes=10)
        assert abs(clock.until(made["createdAt"])) < SLACK and client.delete(f"/sandbox/{made['id']}").status == 200
    assert sorted(client.names()) == ["endless", "leased", "short"]
    assert json.loads(client.get("/health").body)["status"] != "unhealthy"
