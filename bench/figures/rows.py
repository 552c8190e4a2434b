# SPDX-License-Identifier: Apache-2.0
"""Many rows: look-ups and lists with authentication, audit and limits on, and what terminated rows cost."""
import json
import os
import sqlite3
import statistics
import subprocess

import peers
from bench import ROUNDS, Failed
from harness.server import CAY, Server

LIVING, FEW, MANY = 10000, 100, 100000
LIMIT = "1000000000/60"  # on, and never reached
CLIENTS = 64


def fill(data, living, gone):
    """Copies of the newest row: ones in error, which stay as they are, and terminated ones."""
    db = sqlite3.connect(os.path.join(data, "cay.db"))
    columns = [c[1] for c in db.execute("PRAGMA table_info(sandboxes)") if c[1] != "seq"]
    first = dict(zip(columns, db.execute(f"SELECT {','.join(columns)} FROM sandboxes ORDER BY seq DESC LIMIT 1").fetchone()))
    meta = json.loads(first["meta_data"])
    meta["config"]["persistent"] = True

    def rows():
        for i in range(living + gone):
            status = "ERROR" if i < living else "TERMINATED"
            ident = f"sb-{status[0].lower()}{gone:09}{i:010}"
            meta.update(sandbox_id=ident, status=status)
            meta["config"]["name"] = f"row-{gone}-{i}"
            row = {**first, "id": ident, "name": meta["config"]["name"], "status": status, "meta_data": json.dumps(meta),
                   "created_at": first["created_at"] + i % 977, "expires_at": None,
                   "deleted_at": None if i < living else first["updated_at"]}
            yield [row[c] for c in columns]

    with db:
        db.executemany(f"INSERT INTO sandboxes ({','.join(columns)}) VALUES ({','.join('?' * len(columns))})", rows())
    db.close()


def rate(url, token):
    out = subprocess.run([peers.need("wrk"), f"-c{CLIENTS}", "-t2", "-d3s", "-H", f"Authorization: Bearer {token}", url],
                         capture_output=True, text=True).stdout
    if "Non-2xx" in out or "Socket errors" in out or "Requests/sec:" not in out:
        raise Failed(f"wrk: {out.strip()}")
    return float(out.split("Requests/sec:")[1].split()[0])


def key(server):
    return subprocess.run([CAY, "key", "create", "--data", server.data], check=True, capture_output=True,
                          text=True).stdout.strip()


def rows(b):
    """The rounds of few and of many terminated rows cannot alternate: the rows stay."""
    name = f"of {LIVING} rows, {CLIENTS} connections, key checked"
    with Server("--auth", "keys", rate_limit=LIMIT) as server:
        token = key(server)
        client = server.client(token=token)
        ident = client.create("one")["id"]
        lists = []
        for living, gone in ((LIVING, FEW), (0, MANY - FEW)):
            server.stop()
            fill(server.data, living, gone)
            server.start()
            lists.append(statistics.median(rate(f"{server.url}/api/v1/sandbox?per_page=50", token) for _ in range(ROUNDS)))
        one = statistics.median(rate(f"{server.url}/api/v1/sandbox/{ident}", token) for _ in range(ROUNDS))
        client.close()
    b.add(f"GET of one {name}", one, "/s", ">= 15000")
    b.add(f"list of 50 {name}", lists[0], "/s", ">= 3000")
    b.add(f"list of 50 beside {MANY} terminated rows", lists[1], "/s", "ratio >= 0.83", f"beside {FEW}", lists[0],
          more_is_better=True)


FIGURES = {"rows": rows}
