# SPDX-License-Identifier: Apache-2.0
"""What every figure has at hand: a server, a dockerd, small programs that measure, and the table."""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

import goals  # noqa: E402
import peers  # noqa: E402
from harness import proc  # noqa: E402
from harness.server import BUILD, IMAGES, Server  # noqa: E402
from harness.wait import until  # noqa: E402

ROUNDS = int(os.environ.get("CAY_BENCH_ROUNDS", "3"))
TOOLS = ("cycle", "engine", "floor", "flow", "many", "readers", "spawn")
DEFAULT_IMAGE = "node:20-bookworm"
TOOL_S = 600
FORMAT = "{:<56} {:>10} {:<8} {:<44} {:>10} {:>8}  {}"


class Failed(Exception):
    """A figure that could not be taken; the reason goes into its row."""


class Watched:
    """A process's memory while a block runs, looked at ten times a second."""

    def __init__(self, pid):
        self.pid = pid
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.over.wait(0.1):
            self.most_kib = max(self.most_kib, proc.rss_kib(self.pid))

    def growth_mib(self):
        return (self.most_kib - self.first_kib) / 1024

    def __enter__(self):
        self.first_kib = self.most_kib = proc.rss_kib(self.pid)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.most_kib = max(self.most_kib, proc.rss_kib(self.pid))


class Bench:
    def __init__(self):
        self.rows = []
        self.work = tempfile.mkdtemp(prefix="cay-bench-", dir=os.environ.get("TMPDIR", "/tmp"))
        # ext4 without a journal passes over each inode given up in the last minutes, one by one, which can take longer
        # than what is measured. So every directory made here is to begin in a part of the disk of its own.
        subprocess.run(["chattr", "+T", self.work], capture_output=True)
        self.cgroup = f"cay-bench-{os.getpid()}"
        self.server = None
        self.docker = None
        self.docker_missing = "not started"
        self.root = None

    # ---- rows ----

    def add(self, name, value, unit, goal="", peer=None, peer_value=None, more_is_better=False):
        """ratio: how many times better than the peer. The goal is held against the numbers as they are shown."""
        ratio = None
        if value and peer_value:
            ratio = value / peer_value if more_is_better else peer_value / value
        row = {"name": name, "value": rounded(value), "unit": unit, "peer": peer, "peer_value": rounded(peer_value),
               "ratio": rounded(ratio)}
        text = ["-" if v is None else str(v) for v in row.values()]
        row |= {"goal": goal or None, "met": goals.met(goal, row["value"], row["ratio"])}
        self.rows.append(row)
        print(FORMAT.format(*text, goal + " MISSED" if row["met"] is False else goal), flush=True)

    def against(self, name, ours, theirs, key="p50", goal="", peer="", scale=1e3, unit="ms"):
        """A row of alternating rounds; a peer that cannot run says why in its place."""
        try:
            value, other = self.side_by_side(ours, theirs, key)
            peer = peer if theirs else f"{peer}: {self.docker_missing}"
        except (peers.Unavailable, Failed) as e:
            value, other, peer = statistics.median(ours()[key] for _ in range(ROUNDS)), None, f"{peer}: {e}"
        self.add(name, value / scale, unit, goal, peer, other and other / scale)

    @staticmethod
    def side_by_side(ours, theirs, key="p50"):
        """Medians of alternating rounds; the second is None where the peer cannot run."""
        a, b = [], []
        for _ in range(ROUNDS):
            a.append(ours()[key])
            if theirs:
                b.append(theirs()[key])
        return statistics.median(a), statistics.median(b) if b else None

    def docker_peer(self, what):
        return f"docker {what}" if self.docker else f"docker: {self.docker_missing}"

    # ---- programs ----

    def build_tools(self):
        flags = ["-std=gnu17", "-D_GNU_SOURCE", "-O2", "-pthread", "-I", TOP / "src"]
        here = TOP / "bench"
        for name in TOOLS:
            subprocess.run(["cc", *flags, "-o", f"{self.work}/{name}", here / f"{name}.c", here / "wire.c", here / "peer.c"],
                           check=True)
        subprocess.run(["cc", *flags, "-static", "-o", f"{self.work}/out", here / "out.c", here / "wire.c"], check=True)
        subprocess.run(["cc", "-std=gnu17", "-Os", "-static", "-o", f"{self.work}/pid1", here / "pid1.c"], check=True)

    def tool(self, name, *args, prefix=()):
        done = subprocess.run([*prefix, f"{self.work}/{name}", *map(str, args)], capture_output=True, text=True, timeout=TOOL_S)
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines() or ["failed without a word"]
            raise Failed(f"{name}: {lines[0][:160]}")
        return json.loads(done.stdout)

    def fresh_dir(self, name):
        return tempfile.mkdtemp(prefix=f"{name}-", dir=self.work)

    # ---- the two servers ----

    @property
    def address(self):
        return self.server.url.removeprefix("http://")

    def cay(self, what, clients, count, *seconds):
        return lambda: self.tool("cycle", "cay", what, self.address, clients, count, *seconds)

    def dock(self, what, clients, count, *seconds):
        """None where there is no docker."""
        if not self.docker:
            return None
        return lambda: self.tool("cycle", "docker", what, self.docker.socket, clients, count, *seconds)

    def many(self, peer, what, clients, count, names):
        address = self.address if peer == "cay" else self.docker.socket
        return self.tool("many", peer, what, address, clients, count, names)

    def rss_mib(self):
        return sum(proc.rss_kib(self.server.pid(role)) for role in ("server", "engine")) / 1024

    def own_mib(self):
        """All that is ours and no sandbox: supervisor, server, engine, its spawners, and what it has ready for the next
        ones, a first process each. Most are forks that share their pages: by PSS each page counts once. What the engine
        starts may be a program of its own, which does not say whose it is."""
        all_of_it = set(proc.naming(self.server.data)) | set(proc.children(self.server.pid("engine")))
        own = all_of_it - set(self.server.sandbox_processes())
        if not {self.server.pid(role) for role in ("server", "engine")} <= own:
            raise Failed("server and engine are not found among the processes")
        return sum(proc.pss_kib(pid) for pid in own) / 1024

    def lower_dirs(self, image=DEFAULT_IMAGE):
        """The image's directories below IMAGES, topmost first, as a sandbox has them."""
        layers = peers.image_layers(IMAGES, image)
        fits = sorted(Path(IMAGES, "fits").glob(layers[0].name[:32] + "*"), key=lambda p: p.stat().st_mtime)
        return [str(p.relative_to(IMAGES)) for p in [*fits[-1:], *layers]]

    def tidy(self):
        """Between figures: nothing of the last one is left."""
        client = self.server.client()
        for sandbox in client.get("/sandbox", per_page=1000).json()["sandboxes"]:
            client.post(f"/sandbox/{sandbox['id']}/resume") if sandbox["status"] == "PAUSED" else None
            client.delete(f"/sandbox/{sandbox['id']}")
        client.close()
        if self.docker:
            self.docker.remove_all()

    # ---- the run ----

    def run(self, figures):
        """Each as (name, function); how many of them failed."""
        failed = 0
        docker = peers.Docker(self.work)
        try:
            self.build_tools()
            self.root = peers.small_root(Path(self.work, "root"), Path(self.work, "pid1"))
            try:
                self.docker = docker.start(self.root, IMAGES)
                print(f"docker {self.docker.version()}", flush=True)
            except peers.Unavailable as e:
                self.docker_missing = str(e)
            self.server = Server()
            with self.server:
                print(FORMAT.format("figure", "cay", "", "peer", "peer's", "ratio", "goal"))
                for name, figure in figures:
                    try:
                        figure(self)
                        self.tidy()
                    except Exception as e:  # one that fails does not cost the others
                        failed += 1
                        self.add(f"{name}: failed", None, "", "", (str(e).splitlines() or [repr(e)])[0][:200])
                        if not isinstance(e, (Failed, peers.Unavailable)):
                            traceback.print_exc()
        finally:
            docker.stop()
            peers.Crun.remove_all(self.work)
            remove_cgroups(self.cgroup)
            shutil.rmtree(self.work, ignore_errors=True)
        BUILD.mkdir(exist_ok=True)
        (BUILD / "bench.json").write_text(json.dumps(self.rows, indent=1) + "\n")
        judged = [row["met"] for row in self.rows]
        print(f"{judged.count(True)} goals met, {judged.count(False)} missed")
        return failed


def remove_cgroups(name):
    """Those whose names begin so, and who is in them: of peers that were interrupted."""
    def gone():
        found = [d for m in proc.cgroup_mounts() for top in Path(m).glob(f"{name}*") for d, _, _ in os.walk(top, topdown=False)]
        for here in found:
            for pid in Path(here, "cgroup.procs").read_text().split():
                os.kill(int(pid), signal.SIGKILL)
            os.rmdir(here)
        return True

    def tried():
        try:
            return gone()
        except OSError:
            return False  # somebody in there is still dying

    until(tried, f"the cgroups {name} can be removed", 5, 0.05)


def rounded(value):
    if value is None or isinstance(value, int):
        return value
    return round(value, 3 if abs(value) < 10 else 1)
