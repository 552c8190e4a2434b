# SPDX-License-Identifier: Apache-2.0
"""What services inside try on their visitors, and visitors on signed links (A-54, A-56)."""
from urllib.parse import quote, urlsplit

import pytest

from abuse.table import HEADERS, LINKS
from harness.server import Server
from harness.wait import until
from harness.web import PORT, Web, serve


@pytest.fixture(scope="module")
def ann():
    server = Server("--auth", "keys").start()
    client = server.client(token=server.key())
    for name in ("box", "other"):
        client.create(name, ports=[PORT, 4000], memoryGB=0.25)
    serve(client, "box")
    yield client
    for name in ("box", "other"):
        assert client.delete(f"/sandbox/{name}").status == 200
    client.close()
    server.close()


@pytest.fixture(scope="module")
def box(ann):
    return ann.sandbox("box")


def link(client, **body):
    made = client.post(f"/sandbox/box/ports/{PORT}/link", body)
    assert made.status == 201, made
    return urlsplit(made.json()["url"]).query


@pytest.mark.parametrize("said, comes", [row[2:] for row in HEADERS], ids=[f"{row[0]} {row[1]}" for row in HEADERS])
def test_header(ann, box, said, comes):
    name, value = said
    answer = Web(ann, box).get(f"/answer?name={name}&value={quote(value)}", {"Cay-Token": ann.token})
    assert answer.status == 200 and answer.headers[name] == comes, answer.headers


@pytest.mark.parametrize("bend", [row[2] for row in LINKS], ids=[f"{row[0]} {row[1]}" for row in LINKS])
def test_link(ann, box, bend):
    proof = link(ann).partition("=")[2]
    bad, web = bend(*proof.split(".")), Web(ann, box)
    told = web.get(f"/?cay_link={bad}")
    assert told.status in (400, 403) and "Set-Cookie" not in told.headers, told
    assert web.get(f"/p/{box['id']}/{PORT}/?cay_link={bad}", {"Host": f"127.0.0.1:{ann.port}"}).status in (400, 401, 403)
    assert web.get("/", {"Cookie": f"cay-preview={bad}"}).status == 401


def test_a_link_is_for_one_port_of_one_sandbox(ann, box):
    query, web = link(ann), Web(ann, box)
    opened = web.get(f"/?{query}")
    assert opened.status == 302
    cookie = opened.headers["Set-Cookie"].partition(";")[0]
    assert web.get("/", {"Cookie": cookie}).status == 200
    for elsewhere in (Web(ann, box, port=4000), Web(ann, ann.sandbox("other"))):
        assert elsewhere.get(f"/?{query}").status == 403
        assert elsewhere.get("/", {"Cookie": cookie}).status == 401


def test_a_link_ends(ann, box):
    web, query = Web(ann, box), link(ann, expiresIn=1)
    until(lambda: web.get(f"/?{query}").status == 403, "its time is over")
