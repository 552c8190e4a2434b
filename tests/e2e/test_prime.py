# SPDX-License-Identifier: Apache-2.0
"""prime-sandboxes as PyPI has it, pointed here by its two variables: the last version that knows containers, the one
before its great change, and an old one; later ones know virtual machines only."""
import os
import subprocess
from pathlib import Path

import pytest

from harness.server import Server
from harness.venv import python_with
from harness.wait import stretch, until

TOUR = Path(__file__).parents[1] / "clients" / "prime_tour.py"
TOUR_S = 150
VERSIONS = ["0.2.42", "0.2.39", "0.2.6"]


@pytest.fixture(scope="module", params=["off", "keys"])
def house(request):
    server = Server("--auth", request.param)
    server.start()
    key = "any string will do"
    if request.param == "keys":
        key = server.key()
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


def test_audit(house):
    """What comes through the gateway is recorded under the names that /api/v1 has for it."""
    server, _, key = house
    client = server.client(token=key)
    box = client.create("box")
    token = client.post(f"/sandbox/{box['id']}/auth").json()
    place = f"{token['gateway_url']}/{token['user_ns']}/{token['job_id']}".removeprefix(server.url)
    conn = client.connect()
    headers = {"Authorization": f"Bearer {token['token']}", "Content-Type": "application/json"}
    conn.request("POST", f"{place}/exec", b'{"command": "echo x > /workspace/x"}', headers)
    assert conn.getresponse().read() == b'{"stdout":"","stderr":"","exit_code":0}'
    conn.request("GET", f"{place}/read-file?path=/workspace/x", headers=headers)
    assert conn.getresponse().status == 200
    conn.close()

    def found():
        entries = client.get("/audit", sandbox=box["id"]).json()["entries"]
        return {(e["action"], e.get("object", "")[:5]) for e in entries}

    until(lambda: {("sandbox.exec", "exec_"), ("sandbox.files.read", "/work")} <= found(), "both are recorded")
    client.delete("/sandbox/box")
    client.close()
