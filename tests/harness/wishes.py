# SPDX-License-Identifier: Apache-2.0
"""What a sandbox asks of the network, and what became of it."""
import json
from pathlib import Path

PROBE = (Path(__file__).parent.parent / "e2e" / "egress_probe.js").read_text()


def command(*wishes):
    return ["node", "-e", PROBE, json.dumps(list(wishes))]


def probe(client, box, *wishes, **spec):
    """What became of each wish."""
    result = client.exec(box["id"], command(*wishes), **spec)
    assert result["exitCode"] == 0, result
    return json.loads(result["stdout"].splitlines()[-1])


def wish(kind, host, port=None, **more):
    return {"kind": kind, "host": host, **({"port": port} if port else {}), **more}


def refused(result):
    return result.get("error") in ("ECONNRESET", "ECONNREFUSED", "EPIPE") and not result.get("data")
