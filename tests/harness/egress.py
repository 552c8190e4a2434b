# SPDX-License-Identifier: Apache-2.0
"""What a sandbox wants of the network, asked from inside: a list of wishes, and what became of each."""
import json
from pathlib import Path

PROBE = Path(__file__).with_name("egress_probe.js").read_text()
WEB, WEB6, OTHER = "198.51.100.10", "2001:db8:1::10", "198.51.100.11"


def wish(kind, host, port=None, **more):
    return {"kind": kind, "host": host, **({"port": port} if port else {}), **more}


def command(*wishes):
    return ["node", "-e", PROBE, json.dumps(list(wishes))]


def probe(client, box, *wishes):
    result = client.exec(box["id"], command(*wishes))
    assert result["exitCode"] == 0, result
    return json.loads(result["stdout"].splitlines()[-1])


def question(name, kind=1):
    """A DNS question as hex."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return (b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\0" + bytes([0, kind, 0, 1])).hex()


def refused(result):
    return result.get("error") in ("ECONNRESET", "ECONNREFUSED", "EPIPE") and not result.get("data")
