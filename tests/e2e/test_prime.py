# SPDX-License-Identifier: Apache-2.0
"""prime-sandboxes as PyPI has it, pointed here by its two variables: the last version that knows containers, the one
before its great change, and an old one; later ones know virtual machines only."""
import os
import subprocess
from pathlib import Path

import pytest

from harness.server import CAY, Server
from harness.venv import python_with
from harness.wait import stretch

TOUR = Path(__file__).parents[1] / "clients" / "prime_tour.py"
TOUR_S = 150
VERSIONS = ["0.2.42", "0.2.39", "0.2.6"]


@pytest.fixture(scope="module", params=["off", "keys"])
def house(request):
    server = Server("--auth", request.param)
    server.start()
    key = "any string will do"
    if request.param == "keys":
        done = subprocess.run([CAY, "key", "create", "--data", server.data], capture_output=True, text=True)
        assert done.returncode == 0, done
        key = done.stdout.strip()
    yield server, request.param, key
    server.close()


@pytest.mark.limit(2 * TOUR_S)
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("version", VERSIONS)
def test_tour(house, version, mode, tmp_path):
    server, auth, key = house
    env = {k: v for k, v in os.environ.items() if not k.startswith("PRIME_")}
    env |= {"PRIME_API_BASE_URL": server.url, "PRIME_API_KEY": key, "HOME": str(tmp_path)}
    done = subprocess.run([python_with(f"prime-sandboxes=={version}"), TOUR, mode, auth], env=env, capture_output=True,
                          text=True, timeout=stretch(TOUR_S))
    client = server.client(token=key)
    left = [s["name"] for s in client.get("/sandbox").json()["sandboxes"] if client.delete(f"/sandbox/{s['id']}")]
    client.close()
    assert done.returncode == 0 and f"toured {version}" in done.stdout, f"{done.stdout}\n{done.stderr}"
    assert left == []
