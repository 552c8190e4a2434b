# SPDX-License-Identifier: Apache-2.0
"""Who may come in: keys, JWTs and sandboxes' own tokens, on a real server; and that no secret gets into its log."""
import json
import os
import stat
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.jwt import SECRET, jwt
from harness.server import CAY
from harness.wait import stretch


def cay(server, *args, token=None, user=None):
    env = {k: v for k, v in os.environ.items() if k not in ("CAY_TOKEN", "CAY_URL", "HOME")}
    if token:
        env |= {"CAY_TOKEN": token, "CAY_URL": server.url}
    return subprocess.run([CAY, args[0], *(() if token else ("--data", server.data)), *args[1:]], capture_output=True,
                          text=True, timeout=stretch(30), env=env, user=user)


def said(server, *args, **options):
    done = cay(server, *args, **options)
    assert done.returncode == 0, done
    return done.stdout.strip()


@pytest.fixture(scope="module")
def house():
    from harness.server import Server
    server = Server("--auth", "keys", env={"CAY_LOG_LEVEL": "debug"})
    server.start()
    for name in ("ann", "bob"):
        said(server, "account", "create", name)
    yield server
    for name in ("ann", "bob"):
        client = server.client(token=said(server, "key", "create", "--account", name))
        for sandbox in client.get("/sandbox").json()["sandboxes"]:
            assert client.delete(f"/sandbox/{sandbox['id']}").status == 200
        client.close()
    server.close()


def client_of(house, name, *options):
    return house.client(token=said(house, "key", "create", "--account", name, *options))


def test_first_key(house):
    assert house.client().get("/sandbox").status == 401
    ann = client_of(house, "ann", "--scopes", "write,account")
    sandbox = ann.create("first")
    assert ann.get("/account").json()["id"] == sandbox["accountId"]
    assert ann.sh("first", "id -un").strip() == "user"
    bob = client_of(house, "bob")
    for method, path, body in (("GET", "", None), ("DELETE", "", None), ("GET", "/logs", None), ("POST", "/stop", {}),
                               ("POST", "/exec", {"command": "true"}), ("GET", "/files?path=/etc/passwd", None),
                               ("PUT", "/files?path=/workspace/x", "x"), ("POST", "/auth", None),
                               ("GET", "/stats", None), ("GET", "/processes", None), ("POST", "/fork", {})):
        answer = bob.request(method, f"/sandbox/{sandbox['id']}{path}", body)
        assert answer.status == 403, (method, path, answer)
    assert bob.get("/sandbox/first").status == 404, "names are each account's own"
    assert bob.names() == [] and ann.names() == ["first"]


def test_socket_is_roots(house):
    path = os.path.join(house.data, "run", "admin.sock")
    info = os.stat(path)
    assert stat.S_IMODE(info.st_mode) == 0o600, oct(info.st_mode)
    assert info.st_uid == os.stat(os.path.join(house.data, "cay.db")).st_uid, "the server's user"
    done = cay(house, "key", "create", user=65534)
    assert done.returncode == 1 and "try sudo" in done.stderr and "cay_" not in done.stdout, done


def test_revoked_at_once(house):
    ann = client_of(house, "ann", "--name", "short-lived")
    assert ann.get("/sandbox").status == 200
    key = ann.get("/account").json()["keyId"]
    assert said(house, "key", "rm", "--account", "ann", key) == key
    assert ann.get("/sandbox").status == 401
    assert ann.get("/sandbox").error["message"] == house.client().get("/sandbox").error["message"]


def test_expires(house):
    ann = client_of(house, "ann", "--expires", "1s")
    assert ann.get("/sandbox").status == 200
    end = time.monotonic() + stretch(10)
    while ann.get("/sandbox").status == 200:
        assert time.monotonic() < end
        time.sleep(0.1)
    assert ann.get("/sandbox").status == 401


def test_survives_restart(house):
    ann = client_of(house, "ann")
    box = ann.create("stays")
    token = ann.post(f"/sandbox/{box['id']}/auth-token").json()["token"]
    inside = house.client(token=token)
    assert inside.sh(box["id"], "echo hi") == "hi\n"
    house.kill("server")
    house.recover()
    inside.close()
    assert ann.sandbox("stays")["status"] == "RUNNING"
    assert inside.sh(box["id"], "echo hi") == "hi\n", "tokens are signed with a key that stays"
    other = ann.create("other")
    assert inside.get(f"/sandbox/{other['id']}").status == 403
    assert inside.delete(f"/sandbox/{box['id']}").status == 403
    assert inside.get("/sandbox").status == 403 and inside.get("/account").status == 403
    assert ann.delete(f"/sandbox/{box['id']}").status == 200
    assert inside.get(f"/sandbox/{box['id']}").status == 401, "it went with its sandbox"


def test_team(house):
    ann, bob = client_of(house, "ann", "--scopes", "write,account"), client_of(house, "bob")
    team = ann.post("/teams", {"name": "crew"}).json()["id"]
    token = said(house, "key", "create", "--account", "ann")
    said(house, "create", "--name", "shared", "--team", team, token=token)
    [line] = said(house, "ls", "--team", team, token=token).splitlines()
    box = ann.get(f"/sandbox/{line.split()[0]}").json()
    assert (box["accountId"], box["teamId"]) == (team, team)
    assert bob.get(f"/sandbox/{box['id']}").status == 403
    said(house, "team", "set", "--account", "ann", team, "bob", "viewer")
    assert bob.get(f"/sandbox/{box['id']}").status == 200
    assert bob.post(f"/sandbox/{box['id']}/exec", {"command": "true"}).status == 403
    assert [s["name"] for s in bob.get("/sandbox", team_id=team).json()["sandboxes"]] == ["shared"]
    said(house, "team", "set", "--account", "ann", team, "bob", "member")
    assert bob.sh(box["id"], "echo hi") == "hi\n"
    told = bob.post("/sandbox/status:batchGet", {"sandbox_ids": [box["id"]]}).json()
    assert (told["statuses"][0]["status"], told["errors"]) == ("RUNNING", []), told
    kept = bob.post(f"/sandbox/{box['id']}/snapshot").json()["id"]
    told = bob.request("DELETE", "/sandbox/bulk", {"sandboxIds": [box["id"]]}).json()
    assert (told["succeeded"], told["failed"]) == ([box["id"]], []), told
    answer = ann.delete(f"/teams/{team}")
    assert (answer.status, answer.error["code"]) == (409, "ACCOUNT_IN_USE"), "it would be nobody's"
    assert bob.delete(f"/snapshots/{kept}").status == 200
    assert ann.delete(f"/teams/{team}").status == 200
    answer = ann.post("/sandbox", {"teamId": team})
    assert (answer.status, answer.error["details"]) == (404, {"field": "teamId"}), answer


def test_quota_holds_under_a_rush(house):
    ann = client_of(house, "ann")
    team = client_of(house, "ann", "--scopes", "write,account").post("/teams", {"name": "few"}).json()["id"]
    said(house, "quota", "set", "--team", team, "sandboxes=3")

    def make(_):
        with_own = house.client(token=ann.token)
        answer = with_own.post("/sandbox", {"teamId": team})
        with_own.close()
        return answer

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(make, range(40)))
    made = [a for a in answers if a.status == 201]
    refused = [a for a in answers if a.status == 429]
    assert (len(made), len(refused)) == (3, 37), [a.status for a in answers]
    assert refused[0].error["code"] == "QUOTA_EXCEEDED"
    assert refused[0].error["details"] == {"quota": "sandboxes", "limit": 3, "used": 3}
    for answer in made:
        assert ann.delete(f"/sandbox/{answer.json()['id']}").status == 200


def test_quota_cannot_be_left(house):
    """By no team of one's own, and by no snapshots."""
    said(house, "account", "create", "carl")
    carl = client_of(house, "carl", "--scopes", "write,account")
    team = carl.post("/teams", {"name": "before"}).json()["id"]
    said(house, "quota", "set", "--account", "carl", "diskBytes=2g")
    answer = carl.post("/teams", {"name": "out"})
    assert (answer.status, answer.error["code"]) == (403, "ACCOUNT_HAS_QUOTA"), answer
    box = carl.create("full", diskSizeGB=1)
    carl.sh("full", "head -c 1200k /dev/urandom > big")
    kept = [carl.post("/sandbox/full/snapshot").json()]
    used = carl.get("/quota").json()["quotas"]["diskBytes"]["used"]
    assert used == box["diskSizeGB"] * 10**9 + kept[0]["sizeBytes"] and kept[0]["sizeBytes"] > 10**6, kept
    said(house, "quota", "set", "--account", "carl", f"diskBytes={10**9 + 10**6}")
    answer = carl.post("/sandbox/full/snapshot")
    assert (answer.status, answer.error["code"]) == (429, "QUOTA_EXCEEDED"), answer
    assert carl.delete("/sandbox/full").status == 200
    for one in kept:
        assert carl.delete(f"/snapshots/{one['id']}").status == 200
    operator = house.client(token=said(house, "key", "create", "--account", "carl", "--scopes", "write"))
    assert operator.request("PUT", f"/quota?teamId={team}", {"sandboxes": 1}).status == 403, "the operator's"
    done = subprocess.run(["curl", "-s", "--unix-socket", os.path.join(house.data, "run", "admin.sock"), "-X", "PUT",
                           "-H", "Content-Type: application/json", "-H", "X-Cay-Account: carl", "-d", '{"sandboxes": 7}',
                           f"http://cay/api/v1/quota?teamId={team}"], capture_output=True, text=True, timeout=stretch(10))
    told = json.loads(done.stdout)
    assert (told["accountId"], told["quotas"]["sandboxes"]["limit"]) == (team, 7), done
    assert carl.get("/quota").json()["quotas"]["diskBytes"]["limit"] == 10**9 + 10**6, "his own is as it was"
    assert carl.delete(f"/teams/{team}").status == 200
    said(house, "account", "rm", "carl")


def test_no_secret_in_the_log(house):
    ann = client_of(house, "ann", "--scopes", "write,account")
    box = ann.create("quiet", environmentVars={"PASS": "hush-environment"})
    more = ann.post("/account/keys", {"name": "more"}).json()["token"]
    inside = ann.post(f"/sandbox/{box['id']}/auth").json()["token"]
    assert house.client(token=inside).exec(box["id"], "true", env={"P": "hush-exec"})["exitCode"] == 0
    assert house.client().get("/sandbox", token="cay_hush-query").status == 401
    assert house.client(token="cay_hush-bad").get("/sandbox").status == 401
    log = house.log(100000)
    assert box["id"] in log, "requests are logged"
    for secret in (ann.token, more, inside, inside.rsplit(".", 1)[1], "hush"):
        assert secret not in log, secret
    with open(os.path.join(house.data, "cay.db"), "rb") as f:
        kept = f.read() + open(os.path.join(house.data, "cay.db-wal"), "rb").read()
    for secret in (ann.token, more, inside):
        assert secret[4:].encode() not in kept, "what is kept is a hash"


def test_jwt(fresh, tmp_path):
    key = tmp_path / "key"
    key.write_text(SECRET + "\n")
    key.chmod(0o600)
    server = fresh("--auth", "jwt", "--jwt-key", str(key), "--jwt-issuer", "https://id", "--jwt-audience", "cay")
    server.start()
    good = {"iss": "https://id", "aud": "cay", "sub": "user|7", "exp": time.time() + 60}
    ann = server.client(token=jwt(good))
    assert ann.create("box")["status"] == "RUNNING"
    assert ann.get("/account").json()["name"] == "jwt:user|7"
    assert server.client(token=jwt(good | {"exp": time.time() + 90})).names() == ["box"], "the same account"
    assert server.client(token=jwt(good | {"sub": "other"})).names() == []
    for bad in (jwt(good, secret=SECRET + "x"), jwt(good, alg="none"), jwt(good | {"aud": "x"}),
                jwt(good | {"exp": time.time() - 60}), jwt(good).rsplit(".", 1)[0] + "."):
        assert server.client(token=bad).get("/sandbox").status == 401
    looks = server.client(token=jwt(good | {"scope": "openid cay:read"}))
    assert looks.names() == ["box"] and looks.delete("/sandbox/box").status == 403
    assert server.client(token=said(server, "key", "create", "--account", "jwt:user|7")).names() == ["box"]


def test_listens_everywhere_with_keys(fresh):
    server = fresh("--auth", "keys")
    server.listen = "0.0.0.0:0"
    server.start()
    port = server.url.rsplit(":", 1)[1]
    server.url = f"http://127.0.0.1:{port}"
    assert server.client().get("/sandbox").status == 401
    assert server.client(token=said(server, "key", "create")).get("/sandbox").status == 200


def test_quota_of_commands(house):
    client = client_of(house, "ann")
    client.create("busy")
    said(house, "quota", "set", "--account", "ann", "executions=2", "logBytes=10m")
    try:
        running = [client.post("/sandbox/busy/exec", {"command": "sleep 60", "detach": True}) for _ in range(2)]
        assert [r.status for r in running] == [202, 202]

        def refused():
            answer = client.post("/sandbox/busy/exec", {"command": "true"})
            assert answer.status == 429 and answer.error["code"] == "QUOTA_EXCEEDED", answer
            return answer.error["details"]

        assert refused() == {"quota": "executions", "limit": 2, "used": 2}
        house.kill("server")
        house.recover()
        client.close()
        assert refused()["used"] == 2, "a restart forgets none"
        assert client.get("/quota").json()["quotas"]["executions"] == {"limit": 2, "used": 2}
        first = running[0].json()["id"]
        assert client.post(f"/sandbox/busy/exec/{first}/kill", {"signal": 9}).status == 200
        assert client.get(f"/sandbox/busy/exec/{first}/output", follow="true").status == 200  # until it ended
        assert client.sh("busy", "echo one") == "one\n"
        said(house, "quota", "set", "--account", "ann", "logBytes=1")
        assert client.get("/quota").json()["quotas"]["executions"]["limit"] == 2, "what is not named stays"
        assert refused()["quota"] == "logBytes"
    finally:
        said(house, "quota", "set", "--account", "ann", "executions=none", "logBytes=none")
    assert [q for q in client.get("/quota").json()["quotas"].values() if q["limit"] is not None] == []
