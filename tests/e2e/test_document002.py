# SPDX-License-Identifier: Apache-2.0
"""Document 002 on a real server: its criteria by their numbers. Those about a database that fails are in tests/fault and
src/core/told_test.c."""
import json
import re
import sqlite3
import threading

import pytest

from harness.server import Server

SNAKE = re.compile(r"^[a-z0-9_]+$")
OWN_KEYS = ("env", "tags", "secrets")  # whose keys are the caller's


class House:
    def __init__(self):
        self.server = Server("--auth", "keys", "--pull", "never").start()
        self.ids, self.clients = {}, {}
        for name in ("ann", "bob"):
            self.server.cay("account", "create", name)
            self.clients[name] = self.server.client(token=self.server.key("--account", name))
            self.ids[name] = self.clients[name].get("/account").json()["id"]
        self.ann, self.bob = self.clients["ann"], self.clients["bob"]

    def rows(self, where="1", *values):
        with sqlite3.connect(f"file:{self.server.data}/cay.db?mode=ro", uri=True) as db:
            db.row_factory = sqlite3.Row
            found = [dict(row) for row in db.execute(f"SELECT * FROM sandboxes WHERE {where}", values)]
        db.close()
        return found

    def row(self, ident):
        (row,) = self.rows("id = ?", ident)
        return row, json.loads(row["meta_data"])


@pytest.fixture(scope="module")
def house():
    house = House()
    yield house
    house.server.close()


@pytest.fixture(autouse=True)
def clean(house):
    yield
    for client in house.clients.values():
        for sandbox in client.get("/sandbox", per_page=1000).json()["sandboxes"]:
            assert client.delete(f"/sandbox/{sandbox['id']}").status == 200


def check_keys(value):
    if isinstance(value, dict):
        for key, inner in value.items():
            assert SNAKE.match(key), key
            if key not in OWN_KEYS:
                check_keys(inner)
    for inner in value if isinstance(value, list) else []:
        check_keys(inner)


def test_1_and_7_a_create_is_recorded(house):
    made = house.ann.create("box", memoryGB=0.125, env={"Some-Key": "x"}, tags={"K": "v"}, labels=["l"])
    row, meta = house.row(made["id"])
    assert (row["account_id"], row["name"], row["status"], row["deleted_at"]) == (house.ids["ann"], "box", "RUNNING", None)  # 1.1, 1.5
    assert (meta["sandbox_id"], meta["status"], meta["created_at"]) == (made["id"], "RUNNING", made["createdAt"])  # 1.2, 7.1
    assert meta["config"]["name"] == "box" and meta["config"]["labels"] == ["l"] and "s3_config" in meta  # 7.2
    check_keys(meta)  # 7.3
    before = len(house.rows())
    answer = house.ann.post("/sandbox", {"dockerImage": "no-such-image-here"})
    assert answer.status == 404 and len(house.rows()) == before, answer  # 1.3


def test_2_and_11_found_by_its_owner_alone(house):
    ident = house.ann.create("box", memoryGB=0.125)["id"]
    got = house.ann.get(f"/sandbox/{ident}").json()
    assert (got["sandboxId"], got["status"], got["accountId"]) == (ident, "RUNNING", house.ids["ann"]) and got["createdAt"]  # 2.3
    for path in ("sb-00000000000000000000", "nobody", "bad%20id", "0"):  # 2.2, 10.2, 12.3
        answer = house.ann.get(f"/sandbox/{path}")
        assert (answer.status, answer.error["message"]) == (404, "sandbox not found"), answer
    for method, path, body in (("GET", "", None), ("PATCH", "", {"labels": ["x"]}), ("DELETE", "", None), ("POST", "/stop", {}),
                               ("POST", "/exec", {"command": "true"}), ("GET", "/logs", None)):
        answer = house.bob.request(method, f"/sandbox/{ident}{path}", body)
        assert (answer.status, answer.error["code"]) == (403, "FORBIDDEN"), answer  # 11.2 to 11.5
    assert house.bob.get("/sandbox/box").status == 404, "a name is the account's own"
    assert house.bob.get("/sandbox").json()["total"] == 0  # 2.4, 11.1
    assert house.ann.sandbox("box")["status"] == "RUNNING"


def test_3_and_4_status_and_the_end(house):
    ident = house.ann.create("box", memoryGB=0.125)["id"]
    for verb, status in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPED"), ("start", "RUNNING")):
        assert house.ann.post(f"/sandbox/{ident}/{verb}").status == 200
        row, meta = house.row(ident)
        assert row["status"] == meta["status"] == status  # 3.1
    assert house.ann.delete(f"/sandbox/{ident}").json()["status"] == "TERMINATED"
    row, meta = house.row(ident)
    assert row["status"] == meta["status"] == "TERMINATED" and row["deleted_at"]  # 3.2, 4.3
    assert house.ann.get(f"/sandbox/{ident}").json()["terminatedAt"]


def test_8_a_restart_loses_nothing(house):
    made = house.ann.create("box", memoryGB=0.125, labels=["l"])
    house.server.restart()
    again = house.ann.sandbox("box")
    assert {k: again[k] for k in ("id", "status", "createdAt", "labels", "accountId")} == \
        {k: made[k] for k in ("id", "status", "createdAt", "labels", "accountId")}


def test_9_lists(house):
    ids = [house.ann.create(f"n{i}", memoryGB=0.125)["id"] for i in range(5)]
    house.bob.create("other", memoryGB=0.125)
    house.ann.delete(f"/sandbox/{ids[2]}")
    listed = house.ann.get("/sandbox").json()["sandboxes"]
    assert [s["id"] for s in listed] == [ids[4], ids[3], ids[1], ids[0]]  # 9.1 to 9.3
    assert all(s["sandboxId"] == s["id"] and s["status"] and s["createdAt"] and s["accountId"] == house.ids["ann"] for s in listed)  # 9.5
    page = house.ann.get("/sandbox", page=2, limit=3).json()  # 9.4
    assert ([s["id"] for s in page["sandboxes"]], page["total"]) == ([ids[0]], 4)


def test_10_errors_and_writes_at_the_same_time(house):
    answer = house.ann.post("/sandbox", {"cpuCores": -1})
    assert answer.status == 400 and answer.error["details"]["field"] == "cpuCores", answer  # 10.3
    ident, faults = house.ann.create("box", memoryGB=0.125)["id"], []

    def change(n):
        client = house.server.client(token=house.ann.token)
        for i in range(10):
            answer = client.request("PATCH", f"/sandbox/{ident}", {"labels": [f"l{n}-{i}"], "tags": {"who": f"{n}-{i}"}})
            if answer.status != 200 or answer.json()["labels"] != [f"l{n}-{i}"] or answer.json()["tags"] != {"who": f"{n}-{i}"}:
                faults.append(answer)
        client.close()

    threads = [threading.Thread(target=change, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults[:3]  # 10.4
    row, meta = house.row(ident)
    (label,) = meta["config"]["labels"]
    assert label == "l" + meta["config"]["tags"]["who"] and house.ann.get("/sandbox", labels=label).json()["total"] == 1
    with sqlite3.connect(f"file:{house.server.data}/cay.db?mode=ro", uri=True) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert db.execute("SELECT count(*) FROM labels WHERE gone = 0").fetchone() == (1,)
    db.close()
