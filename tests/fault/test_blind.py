# SPDX-License-Identifier: Apache-2.0
"""An engine that cannot be set up knows of no sandbox: nobody may take that for their end."""
import os
from pathlib import Path

import pytest


@pytest.fixture
def blinded(fresh):
    """A server that was started again while its disk's image could not be used; and how to mend that."""
    server = fresh().start()
    client = server.client()
    image = Path(server.data, "engine", "disk.img")
    if not image.exists():
        pytest.skip("the data directory needs no image here")
    client.create("keeps", persistent=True)
    client.create("runs")
    client.sh("keeps", "echo precious > /workspace/file; sync")
    away = image.with_suffix(".away")
    server.kill("all")
    os.rename(image, away)
    image.write_bytes(bytes(1 << 20))
    server.start()
    yield server, lambda: os.replace(away, image)


def test_nothing_ends_because_nobody_looks(blinded):
    server, mend = blinded
    client = server.client()
    assert client.get("/health").status == 503
    assert {b["name"]: b["status"] for b in client.get("/sandbox").json()["sandboxes"]} == {
        "keeps": "RUNNING", "runs": "RUNNING"}
    for answer in (client.delete("/sandbox/keeps"), client.post("/sandbox/runs/stop")):
        assert answer.status == 503, answer
    assert server.down().returncode != 0
    mend()
    server.stop()
    server.start()
    client = server.client()
    assert client.sh("keeps", "cat /workspace/file") == "precious\n"
    assert client.sh("runs", "echo here") == "here\n"
