# SPDX-License-Identifier: Apache-2.0
"""Who may see what listens inside a sandbox: by a token, a signed link, or as anybody; and a decision that is used again."""
import time
from urllib.parse import urlsplit

import pytest

from harness.jwt import SECRET, jwt
from harness.server import Server
from harness.wait import until
from harness.web import PORT, Web, serve
from harness.websocket import BINARY, Refused


@pytest.fixture(scope="module")
def house():
    server = Server("--auth", "keys").start()
    for name in ("ann", "bob"):
        server.cay("account", "create", name)
    yield server
    ann = server.client(token=key_of(server, "ann"))
    for sandbox in ann.get("/sandbox").json()["sandboxes"]:
        assert ann.delete(f"/sandbox/{sandbox['id']}").status == 200
    ann.close()
    server.close()


def key_of(server, name, *options):
    return server.key("--account", name, *options)


@pytest.fixture(scope="module")
def ann(house):
    return house.client(token=key_of(house, "ann"))


@pytest.fixture(scope="module")
def shown(ann):
    """A sandbox with a service on two ports, the first of them exposed."""
    box = ann.create("shown", ports=[PORT, {"port": 4000}])
    serve(ann, "shown")
    serve(ann, "shown", port=4000)
    return box


def test_private_by_default(house, ann, shown):
    web = Web(ann, shown)
    stranger = web.get()
    assert stranger.status == 401 and stranger.error["code"] == "PREVIEW_IS_PRIVATE"
    assert b"private" in web.get("/", {"Accept": "text/html"}).body
    assert web.get("/", {"Cay-Token": "cay_" + "0" * 64}).status == 401
    unknown = Web(ann, None, host=f"3000-sb-00000000000000000000.localhost:{ann.port}")
    assert unknown.get().status == 401, "a stranger does not learn what there is"
    told = web.get("/echo", {"Cay-Token": ann.token, "Authorization": "Bearer app"}).json()["headers"]
    assert told["authorization"] == "Bearer app" and "cay-token" not in told
    told = web.get("/echo", {"Authorization": f"Bearer {ann.token}"}).json()["headers"]
    assert "authorization" not in told
    own = ann.post("/sandbox/shown/auth-token").json()["token"]
    assert web.get("/", {"Cay-Token": own}).status == 200
    assert unknown.get("/", {"Cay-Token": ann.token}).status == 404
    assert unknown.get("/", {"Cay-Token": own}).status == 403
    assert web.get("/", {"Cay-Token": key_of(house, "bob")}).status == 403
    reads = key_of(house, "ann", "--scopes", "read")
    assert web.get("/", {"Cay-Token": reads}).status == 200
    assert web.request("POST", "/echo", b"x", {"Cay-Token": reads}).status == 403
    path = Web(ann, shown, host=f"127.0.0.1:{ann.port}")
    assert path.get(f"/p/{shown['id']}/{PORT}/").status == 401
    assert path.get(f"/p/{shown['id']}/{PORT}/", {"Cay-Token": ann.token}).body == b"hello\n"


def test_public(ann, shown):
    assert ann.post("/sandbox/shown/ports", {"port": PORT, "public": True}).status == 200
    web = Web(ann, shown)
    assert web.get().body == b"hello\n"
    assert web.request("POST", "/echo", b"x", {"Origin": "https://elsewhere.example"}).json()["size"] == 1
    told = web.get("/echo", {"Authorization": f"Bearer {ann.token}"}).json()["headers"]
    assert "authorization" not in told, "a token of ours is never shown to a sandbox"
    assert ann.post("/sandbox/shown/ports", {"port": PORT}).json()["public"] is False
    assert web.get().status == 401


def test_no_jwt_is_shown_to_a_service(fresh, tmp_path):
    """By whatever way the visitor came in."""
    key = tmp_path / "key"
    key.write_text(SECRET + "\n")
    key.chmod(0o600)
    server = fresh("--auth", "jwt", "--jwt-key", str(key), "--jwt-issuer", "https://id", "--jwt-audience", "cay").start()
    claims = {"iss": "https://id", "aud": "cay", "sub": "ann", "exp": time.time() + 600}
    ours = jwt(claims)
    client = server.client(token=ours)
    box = client.create("shown", ports=[{"port": PORT, "public": True}])
    serve(client, "shown")
    web = Web(client, box)
    for token, shown_to in ((ours, False), (jwt(claims, secret=SECRET + "x"), True), ("app", True)):
        told = web.get("/echo", {"Authorization": f"Bearer {token}"}).json()["headers"]
        assert ("authorization" in told) == shown_to, told
    assert client.delete("/sandbox/shown").status == 200


# ---- a decision that is used again ----


def metric(client, name):
    conn = client.connect()
    conn.request("GET", "/metrics", headers={"Authorization": f"Bearer {client.token}"})
    lines = conn.getresponse().read().decode().splitlines()
    conn.close()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))


def recalled(client, web, headers=None):
    """Asks on one connection until a decision was used again: what comes next would be let pass too, if it could."""
    def seen():
        before = metric(client, "cay_http_recalled_total")
        assert [web.get("/", headers).status for _ in range(3)] == [200] * 3
        return metric(client, "cay_http_recalled_total") > before
    until(seen, "a decision is used again")


@pytest.fixture
def own(ann):
    """As `shown`, for what is changed."""
    box = ann.create("own", ports=[PORT])
    serve(ann, "own")
    yield box
    ann.delete("/sandbox/own")


def test_revoked_key(house, ann, shown):
    key = key_of(house, "ann")
    web = Web(ann, shown)
    recalled(ann, web, {"Cay-Token": key})
    house.cay("key", "rm", "--account", "ann", house.client(token=key).get("/account").json()["keyId"])
    assert web.get("/", {"Cay-Token": key}).status == 401
    assert web.get("/", {"Cay-Token": ann.token}).status == 200


def test_another_credential_on_the_same_connection(house, ann, shown):
    web = Web(ann, shown)
    bob, cookie = key_of(house, "bob"), f"cay-preview={link(ann).query.partition('=')[2]}"
    recalled(ann, web, {"Cay-Token": ann.token})
    for headers, want in (({}, 401), ({"Cay-Token": bob}, 403), ({"Authorization": f"Bearer {bob}"}, 403),
                          ({"Cookie": "cay-preview=1.2"}, 401), ({"Cookie": cookie}, 200)):
        assert web.get("/", headers).status == want, headers
    recalled(ann, web, {"Cookie": cookie})
    assert web.get("/", {"Cookie": cookie, "Sec-Fetch-Site": "cross-site"}).status == 403
    assert web.get("/", {"Cookie": cookie[:-1]}).status == 401
    assert web.get("/", {"Cookie": cookie}, fresh=True).status == 200
    reads = key_of(house, "ann", "--scopes", "read")
    recalled(ann, web, {"Cay-Token": reads})
    assert web.request("DELETE", "/", headers={"Cay-Token": reads}).status == 403
    web.conn = None
    recalled(ann, web, {"Authorization": f"Bearer {ann.token}"})
    told = web.get("/echo", {"Authorization": f"Bearer {ann.token}"}).json()["headers"]
    assert "authorization" not in told
    other = Web(ann, shown, port=4000)
    other.conn = web.conn
    assert other.get("/").status == 401


def test_port_is_taken_back(ann, own):
    web = Web(ann, own)
    recalled(ann, web, {"Cay-Token": ann.token})
    assert ann.delete(f"/sandbox/own/ports/{PORT}").status == 200
    assert web.get("/", {"Cay-Token": ann.token}).error["code"] == "PORT_NOT_EXPOSED"
    assert ann.post("/sandbox/own/ports", {"port": PORT, "public": True}).status == 201
    recalled(ann, web)
    assert ann.request("PATCH", "/sandbox/own", {"ports": [PORT]}).status == 200
    assert web.get("/").status == 401


@pytest.mark.parametrize("change, want", [(("POST", "/stop"), 409), (("POST", "/pause"), 409), (("DELETE", ""), 404)])
def test_sandbox_is_not_there_any_more(ann, own, change, want):
    web = Web(ann, own)
    recalled(ann, web, {"Cay-Token": ann.token})
    assert ann.request(change[0], f"/sandbox/own{change[1]}").status == 200
    assert web.get("/", {"Cay-Token": ann.token}).status == want


def test_visits_are_counted(ann, shown):
    before = {route: metric(ann, f'cay_http_requests_total{{route="{route}",method="any",status="2xx"}}')
              for route in ("{port}-{id}", "/p/{id}/{port}")}
    assert Web(ann, shown).request("POST", "/echo", b"x", {"Cay-Token": ann.token}).status == 200
    path = Web(ann, shown, host=f"127.0.0.1:{ann.port}")
    assert path.get(f"/p/{shown['id']}/{PORT}/", {"Cay-Token": ann.token}).status == 200
    for route, count in before.items():
        assert metric(ann, f'cay_http_requests_total{{route="{route}",method="any",status="2xx"}}') == count + 1


def link(ann, port=PORT, **body):
    made = ann.post(f"/sandbox/shown/ports/{port}/link", body)
    assert made.status == 201, made
    return urlsplit(made.json()["url"])


def test_signed_link(house, ann, shown):
    web, url = Web(ann, shown), link(ann)
    assert url.netloc == web.host
    opened = web.get(f"/a/b?x=1&{url.query}&y=2")
    assert opened.status == 302 and opened.headers["location"] == "/a/b?x=1&y=2"
    cookie, _, rest = opened.headers["set-cookie"].partition(";")
    assert "HttpOnly" in rest and "SameSite=Lax" in rest and "Domain" not in rest and "Path=/" in rest
    told = web.get("/echo", {"Cookie": f"{cookie}; own=1"}).json()["headers"]
    assert told["cookie"] == "own=1"
    # the cookie does not help a page of another origin.
    for origin in ("http://evil.example", "null"):
        assert web.request("POST", "/echo", b"x", {"Cookie": cookie, "Origin": origin}).status == 403
        web.conn = None
        with pytest.raises(Refused):
            web.websocket({"Cookie": cookie, "Origin": origin})
    assert web.get("/echo", {"Cookie": cookie, "Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}).status == 403
    with web.websocket({"Cookie": cookie, "Origin": f"http://{web.host}"}) as ws:
        ws.type(b"in")
        assert ws.next() == (BINARY, b"in")
    # Programs may show it by path, without a cookie.
    path = Web(ann, shown, host=f"127.0.0.1:{ann.port}")
    told = path.get(f"/p/{shown['id']}/{PORT}/echo?{url.query}&z=1").json()
    assert told["url"] == "/echo?z=1"
    login = [e for e in ann.get("/audit", sandbox=shown["id"]).json()["entries"] if e["action"] == "sandbox.preview.login"]
    assert login and login[0]["object"] == str(PORT)


def test_link_ends_and_outlives_a_restart(house, ann, shown):
    web, short, long = Web(ann, shown), link(ann, expiresIn=1), link(ann)
    until(lambda: web.get(f"/?{short.query}").status == 403, "its time is over")
    house.kill("server")
    until(lambda: ann.is_well(), "the next server answers")
    web.conn = None
    assert web.get(f"/?{long.query}").status == 302
