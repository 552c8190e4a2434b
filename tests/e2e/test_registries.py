# SPDX-License-Identifier: Apache-2.0
"""Real tools in a sandbox of the default image, against the package registries that this machine reaches."""
import json
import socket

import pytest


def reaches(host, port):
    try:
        socket.create_connection((host, port), 5).close()
        return True
    except OSError:
        return False


def needs(host, port=443):
    return pytest.mark.skipif(not reaches(host, port), reason=f"{host} is not in reach")


@needs("registry.npmjs.org")
def test_npm_install(client, box):
    out = client.exec(box["id"], "npm install --no-audit --no-fund is-number@7.0.0 2>&1", timeoutMs=60000)
    assert out["exitCode"] == 0, out
    found = client.sh(box["id"], ["node", "-p", "require('is-number/package.json').version"])
    assert found.strip() == "7.0.0"
    moved = client.get(f"/sandbox/{box['id']}/stats").json()["network"]
    assert moved["rxBytes"] > 4000


@needs("registry.npmjs.org")
def test_npm_by_policy(client):
    install = "npm install --no-audit --no-fund --fetch-retries=0 is-odd@3.0.1 2>&1"
    box = client.create("box", networkPolicy={"allow": ["registry.npmjs.org:443"]})
    out = client.exec(box["id"], install, timeoutMs=60000)
    assert out["exitCode"] == 0, out
    answer = client.request("PATCH", f"/sandbox/{box['id']}", {"networkPolicy": {"allow": ["deb.debian.org"]}})
    assert answer.status == 200, answer
    out = client.exec(box["id"], "rm -rf node_modules ~/.npm && " + install, timeoutMs=60000)
    assert out["exitCode"] != 0 and "registry.npmjs.org" in out["stdout"], out
    wanted = client.get(f"/sandbox/{box['id']}/network").json()["wanted"]
    assert any(w["name"] == "registry.npmjs.org" and w["verdict"] == "unlisted" for w in wanted), wanted


@needs("deb.debian.org", 80)
def test_apt_get_update(client, box):
    out = client.exec(box["id"], "apt-get update 2>&1", user="root", timeoutMs=80000)
    assert out["exitCode"] == 0 and "Reading package lists" in out["stdout"], out
    assert "Err:" not in out["stdout"], out


@needs("registry.npmjs.org")
def test_who_is_believed(client, box):
    """The machine's own authority may sign what the registry says: curl, git and node know it."""
    url = "https://registry.npmjs.org/is-number/7.0.0"
    out = client.sh(box["id"], ["curl", "-fsS", url])
    assert json.loads(out)["version"] == "7.0.0"
    out = client.sh(box["id"], ["node", "-e", f"fetch('{url}').then(r => r.json()).then(r => console.log(r.version))"])
    assert out.strip() == "7.0.0"
    told = client.exec(box["id"], ["git", "ls-remote", url])
    assert told["exitCode"] != 0 and "certificate" not in told["stderr"], told


@needs("registry.npmjs.org")
def test_without_a_network_they_fail_at_once(client):
    box = client.create("closed", networkAccess=False)
    out = client.exec(box["id"], ["curl", "-sS", "--max-time", "20", "https://registry.npmjs.org/is-number"])
    assert out["exitCode"] == 6, out  # cannot resolve
    assert out["durationMs"] < 10000, out
