# SPDX-License-Identifier: Apache-2.0
"""Every row of the table, against a server that runs: the answer to the letter, and that nothing has changed."""
import json
import re

import pytest

from abuse.table import ROWS
from harness.wait import until


@pytest.fixture(scope="module")
def house(shared_server):
    client = shared_server.client()
    client.create("box", labels=["module"], memoryGB=0.25, track="workspace")
    client.sh("box", "echo one > /workspace/file")
    until(lambda: client.get("/sandbox/box/history").status == 200, "it has a version")
    yield client
    assert client.delete("/sandbox/box").status == 200
    client.close()


def check_form(answer):
    """The one form of errors, and nothing in it that is ours alone."""
    body = answer.json()
    assert set(body["error"]) >= {"code", "message", "details"} and body["detail"] == body["error"]["message"]
    text = json.dumps(body)
    assert "hunter2x" not in text
    assert not re.search(r"SELECT|INSERT|sqlite|0x[0-9a-f]{6}|\.c:\d|/tmp/cay|/home/|/var/", text), text
    assert answer.headers["X-Request-Id"]


def ident(row):
    return f"{row[0]} {row[1]}"


@pytest.mark.parametrize("request_, status, code, field", [row[2:] for row in ROWS], ids=[ident(row) for row in ROWS])
def test_row(house, request_, status, code, field):
    method, path, body, headers = request_
    answer = house.request(method, path, body, headers=headers)
    assert (answer.status, answer.error["code"]) == (status, code or answer.error["code"]), answer
    check_form(answer)
    if field:
        assert answer.error["details"].get("field", "").startswith(field), answer
    if status == 405:
        assert re.search(r"\b(GET|POST|DELETE)\b", answer.headers["Allow"])
    box = house.sandbox("box")
    assert box["status"] == "RUNNING" and house.names() == ["box"]


def test_every_row_has_a_name_of_its_own():
    names = [ident(row) for row in ROWS]
    assert len(set(names)) == len(names), sorted(n for n in names if names.count(n) > 1)
