# SPDX-License-Identifier: Apache-2.0
"""Who may not come in, and that all of them hear the same."""
import base64
import json
import time

import pytest

from harness.server import Server
from harness.wait import until
from harness.websocket import Refused, WebSocket


def part(value):
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


@pytest.fixture(scope="module")
def house():
    server = Server("--auth", "keys").start()
    for name in ("ann", "gone"):
        server.cay("account", "create", name)
    ann = server.client(token=server.key("--account", "ann"))
    box, other = ann.create("box", memoryGB=0.25), ann.create("other", memoryGB=0.25)
    yield server, ann, box, other
    for sandbox in (box, other):
        assert ann.delete(f"/sandbox/{sandbox['id']}").status == 200
    ann.close()
    server.close()


def test_tokens_that_open_nothing(house):
    """A-21: status, code and text are one and the same."""
    server, ann, box, _ = house
    revoked = server.key("--account", "ann", "--name", "revoked")
    keys = json.loads(server.cay("key", "ls", "--account", "ann", "--json"))["keys"]
    server.cay("key", "rm", "--account", "ann", next(k["id"] for k in keys if k["name"] == "revoked"))
    of_gone = server.key("--account", "gone")
    server.cay("account", "rm", "gone")
    own = ann.post(f"/sandbox/{box['id']}/auth").json()["token"]
    unsigned = f"{part({'alg': 'none'})}.{part({'sub': 'ann', 'exp': int(time.time()) + 600})}."
    headers = {"none": None, "empty": "", "no token": "Bearer ", "Basic": "Basic YW5uOng=", "no scheme": ann.token,
               "a key nobody has": f"Bearer cay_{'0' * 64}", "half a key": f"Bearer {ann.token[:-1]}", "revoked": f"Bearer {revoked}",
               "of a deleted account": f"Bearer {of_gone}", "unsigned JWT": f"Bearer {unsigned}", "long": "Bearer " + "x" * 9000,
               "a sandbox's, changed": f"Bearer {own[:-1]}{'0' if own[-1] != '0' else '1'}", "two": f"Bearer {ann.token}, Bearer x"}
    client, seen = server.client(), set()
    for what, value in headers.items():
        for method, path in (("GET", "/sandbox"), ("GET", f"/sandbox/{box['id']}"), ("POST", f"/sandbox/{box['id']}/exec")):
            answer = client.request(method, path, {} if method == "POST" else None, headers={"Authorization": value} if value is not None else {})
            assert (answer.status, answer.error["code"]) == (401, "UNAUTHORIZED"), (what, answer)
            seen.add(answer.error["message"])
    assert seen == {"a valid token is needed"}


def test_a_sandboxs_token_opens_that_one_only(house):
    """A-24"""
    server, ann, box, other = house
    client = server.client(token=ann.post(f"/sandbox/{box['id']}/auth").json()["token"])
    assert client.get(f"/sandbox/{box['id']}").status == 200
    for method, path in (("GET", f"/sandbox/{other['id']}"), ("POST", f"/sandbox/{other['id']}/exec"), ("GET", "/account/keys"),
                         ("POST", "/account/keys"), ("POST", "/sandbox"), ("DELETE", f"/sandbox/{box['id']}"), ("GET", "/audit"),
                         ("PATCH", f"/sandbox/{box['id']}"), ("POST", f"/sandbox/{box['id']}/auth"), ("POST", f"/sandbox/{box['id']}/fork")):
        answer = client.request(method, path, None if method == "GET" else {"command": "true"})
        assert (answer.status, answer.error["code"]) == (403, "FORBIDDEN"), (method, path, answer)


def test_websockets_need_a_token_as_well(house):
    """A-52: none, a bad one, another sandbox's; and the right one opens it."""
    server, ann, box, other = house
    client = server.client()
    tokens = {ident: ann.post(f"/sandbox/{ident}/auth").json()["token"] for ident in (box["id"], other["id"])}
    for headers, status in (({}, 401), ({"Authorization": f"Bearer cay_{'0' * 64}"}, 401), ({"Authorization": f"Bearer {tokens[other['id']]}"}, 403)):
        with pytest.raises(Refused) as refused:
            WebSocket(client, f"/sandbox/{box['id']}/terminal", headers)
        assert refused.value.status == status, headers
    WebSocket(client, f"/sandbox/{box['id']}/terminal", {"Authorization": f"Bearer {tokens[box['id']]}"}).close()
    assert ann.get(f"/sandbox/{box['id']}/exec").json()["total"] == 1


def test_a_token_in_the_query_is_none(house):
    """A-25: refused, and in no log."""
    server, ann, box, _ = house
    client = server.client()
    for name in ("token", "access_token", "api_key", "key", "Authorization"):
        answer = client.request("GET", f"/sandbox/{box['id']}?{name}={ann.token}")
        assert (answer.status, answer.error["code"]) == (401, "UNAUTHORIZED"), answer
    until(lambda: server.log(10_000).count('"status":401') >= 5, "it is logged")
    assert ann.token not in server.log(10_000)
