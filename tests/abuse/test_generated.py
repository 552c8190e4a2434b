# SPDX-License-Identifier: Apache-2.0
"""Thousands of bad requests out of the OpenAPI document: none of them is answered with a 5xx that the document does not
name, every answer has the form that it gives, and the server lives on.

    ABUSE_COUNT=20000 ABUSE_SEED=1 ABUSE_PROVIDER=native|fake      `make abuse` does it with sanitizers
"""
import http.client
import json
import os
import re
import time

import pytest

from harness.mutate import Mutator
from harness.openapi import Document, Operator, send
from harness.registry import small_store
from harness.server import IMAGES, Server

COUNT = int(os.environ.get("ABUSE_COUNT") or 400)
SEED = os.environ.get("ABUSE_SEED") or "1"
PROVIDER = os.environ.get("ABUSE_PROVIDER") or "native"
SANITIZERS = {"ASAN_OPTIONS": "detect_leaks=1:abort_on_error=1", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}
REPORT = re.compile(r"(AddressSanitizer|runtime error|LeakSanitizer|SUMMARY:|Assertion).*")
SMALL = {"dockerImage": "busybox", "memoryGB": 0.125}
AFRESH = 25  # requests between two looks at whether what they are about is still there
ALL_AFRESH = 500  # and until it is made anew, with whatever was left running in it


class House:
    """A server, and things in it that requests can be about."""

    def __init__(self, server):
        self.server = server
        server.cay("account", "create", "demo")
        server.cay("account", "create", "other")
        token = server.key("--account", "demo", "--scopes", "write,account")
        self.client = server.client(token=token, timeout=20)
        self.values = {"id": "demo", "pid": "1", "aid": "other",
                       "kid": self.made("/account/keys"), "tid": self.made("/teams")}
        self.ids = {}
        self.sock = None
        self.local = Operator(server)

    def made(self, kind, body=None):
        answer = self.client.post(kind, body or {"name": "some"})
        assert answer.status == 201, answer
        return answer.json()["id"]

    def afresh(self, all_of_it):
        """What is too much goes, what is gone comes back."""
        send(self.local, "POST", "/api/v1/accounts", b'{"name":"other"}', {"Content-Type": "application/json"})
        if all_of_it:
            self.client.delete("/sandbox/demo", preserveVolume="false")
        for sandbox in self.client.get("/sandbox", perPage=1000).json()["sandboxes"]:
            if sandbox["name"] != "demo" or sandbox["status"] != "RUNNING":
                answer = self.client.delete(f"/sandbox/{sandbox['id']}", preserveVolume="false")
                assert answer.status in (200, 404, 409), answer
        if self.client.get("/sandbox/demo").status != 200:
            self.client.create("demo", startCommand="echo started; sleep 1000", **SMALL)
            self.client.request("PUT", "/sandbox/demo/files", b"hello\n", {"path": "hello.txt"})
        if self.client.get(f"/sandbox/demo/exec/{self.values.get('eid', 'none')}").status != 200:
            self.values["eid"] = self.client.detach("demo", "cat", openStdin=True)
        for kind in ("snapshots", "volumes"):
            for one in self.client.get(f"/{kind}", perPage=1000).json()[kind]:
                if not one.get("inUse") and one["id"] not in self.ids.values():
                    self.client.delete(f"/{kind}/{one['id']}")
        if self.client.get(f"/snapshots/{self.ids.get('snapshots', 'none')}").status != 200:
            self.ids["snapshots"] = self.client.post("/sandbox/demo/snapshot", {}).json()["id"]

    def fill(self, operation):
        kind = operation.path.split("/")[3] if operation.path.count("/") > 2 else ""
        return {**{name: "x" for name in operation.names()}, **self.values,
                **({"id": self.ids.get(kind, "none")} if kind in ("snapshots", "volumes") else {})}

    def send(self, data, request, frames):
        """Status, media type and what there was of the body."""
        local = request.operation.scopes == ["admin"]
        if local:
            self.hang_up()
        if self.sock is None:
            self.sock = dial(self.local if local else self.client)
        try:
            try:
                self.sock.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has refused before all was sent
            response = http.client.HTTPResponse(self.sock, method="HEAD" if request.method == "HEAD" else None)
            response.begin()
            media = (response.headers.get("Content-Type") or "").split(";")[0]
            lasts = response.status < 300 and response.chunked and media != "application/json"
            if response.status == 101:
                self.sock.sendall(frames)
            lasts = lasts or local or response.status == 101
            body = response.read() if not lasts or local else b""
            if lasts or response.will_close:
                self.hang_up()
            return response.status, media, body
        except BaseException:
            self.hang_up()
            raise

    def hang_up(self):
        if self.sock:
            self.sock.close()
        self.sock = None


def dial(client):
    conn = client.connect()
    conn.connect()
    return conn.sock


def judge(document, request, answer):
    """What is wrong with an answer, or nothing."""
    status, media, body = answer
    operation = request.operation
    if request.method == "HEAD" or status == 101:
        return [] if status < 500 else [f"answered {status}"]
    leads_there = request.method == operation.method and request.suffix in ("", "?")
    if status >= 500 and not (leads_there and str(status) in operation.responses):
        return [f"answered {status}: {body[:300]!r}"]
    if status >= 400:
        if media != "application/json":
            return [f"{status} is {media}"]
        named = leads_there and document.answer_faults(operation, status, media, body) == []
        ours = "Error" if request.operation.path.startswith(("/api/v1", "/gateway")) else "ContainerError"
        forms = [document.faults({"$ref": f"#/components/schemas/{name}"}, json.loads(body)) for name in (ours, "Error")]
        return [] if named or [] in forms else forms[0]
    if not request.as_described or not body or "Accept" in request.headers:
        return []
    return document.answer_faults(operation, status, media, body)


def ask(house, request, frames):
    """Once again on a new connection where the last answer had closed it."""
    data = request.bytes(f"{house.client.host}:{house.client.port}")
    again = house.sock is not None
    try:
        return data, house.send(data, request, frames)
    except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as e:
        if again:
            return ask(house, request, frames)
        return data, (0, "", repr(e).encode())
    except TimeoutError:
        return data, (0, "", b"no answer in time")
    except http.client.HTTPException as e:
        return data, (0, "", repr(e).encode())


@pytest.mark.limit(max(120, COUNT / 5))
def test_generated_requests(tmp_path):
    print(f"seed {SEED}, {COUNT} requests")
    images = small_store(tmp_path / "images", IMAGES, "spare:1")  # some of them remove images
    server = Server("--auth", "keys", "--provider", PROVIDER, "--images", images, env=SANITIZERS)
    server.start()
    found, statuses, began = [], {}, time.monotonic()
    try:
        house = House(server)
        document = Document(house.client)
        mutator = Mutator(document, SEED)
        pid = server.pid("server")
        for number in range(COUNT):
            if number % AFRESH == 0:
                house.afresh(number % ALL_AFRESH == 0)
            request = mutator.request(number, document.operations, house.fill, house.client.token)
            data, answer = ask(house, request, mutator.frames())
            statuses[answer[0]] = statuses.get(answer[0], 0) + 1
            faults = judge(document, request, answer) if answer[0] else [answer[2].decode()]
            if faults:
                found.append(f"{number} {request.operation}: {faults[:3]}\n    {data[:600]!r}")
        print(f"{COUNT} requests in {time.monotonic() - began:.0f} s, answered {dict(sorted(statuses.items()))}")
        assert server.pid("server") == pid, "the server died on the way"
        assert house.client.get("/health").status == 200
        house.hang_up()
    finally:
        log = server.log(100000)
        server.close()
    reports = [m[0] for m in REPORT.finditer(log)]
    assert not reports, "\n".join(reports[:20]) + log[-8000:]
    assert not found, f"seed {SEED}, {len(found)} faults:\n" + "\n".join(found[:40])
