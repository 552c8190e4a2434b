# SPDX-License-Identifier: Apache-2.0
"""What the engine makes ahead of sandboxes: berths, and the first processes that wait in them, `cay-hull`."""
import re

from harness import proc
from harness.wait import until

# With nothing but cgroup v2 none waits: a spawner makes each when it is needed, in its cgroup.
HULLS_WAIT = len(proc.cgroup_mounts()) > 1


def of_engine(server, *names):
    """Processes of the engine, by what they are called; "engine" is itself."""
    engine = server.pid("engine")
    found = [p for p in proc.children(engine) if proc.text(p, "comm").strip() in names]
    return found + [engine] * ("engine" in names)


def pool(server):
    """Berths that are there, and how many are to be."""
    conn = server.client().connect()
    conn.request("GET", "/metrics")
    told = dict(re.findall(r"^cay_pool_(\w+) (\d+)$", conn.getresponse().read().decode(), re.M))
    conn.close()
    return int(told["ready"]), int(told["size"])


def waiting(server):
    """First processes that wait for their sandbox, once every berth is there; none where none waits."""
    def all_there():
        ready, size = pool(server)
        return ready == size and (not HULLS_WAIT or len(of_engine(server, "cay-hull")) >= size)

    until(all_there, "berths are ready", 20)
    return of_engine(server, "cay-hull")
