# SPDX-License-Identifier: Apache-2.0
"""One `cay serve` with a data directory of its own, and the ways to end it."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

from harness import dockerd, leaks, proc
from harness.client import Client
from harness.wait import stretch, until

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("CAY_BUILD") or ROOT / "build").resolve()
IMAGES = os.environ.get("CAY_IMAGES") or "/var/cache/cay-images"
CAY = str(BUILD / "cay")
ROLES = ("supervisor", "engine", "server")
SANDBOX_ID = re.compile(r"sb-[a-z0-9]{20}")
READY_S = 60
STOP_S = 20
TRASH_S = 30


class NotReady(AssertionError):
    """The server ended, or said nothing in time; `code` is its exit status or None."""

    def __init__(self, message, code=None):
        super().__init__(message)
        self.code = code


class Server:
    def __init__(self, *args, data=None, env=None, rate_limit="off", ca=None):
        self.ca = ca  # whom clients trust, where it speaks TLS
        self.namespaces_before = leaks.net_namespaces()
        self.owns_data = data is None
        self.data = str(data) if data else tempfile.mkdtemp(prefix="cay-test-", dir=os.environ.get("TMPDIR", "/tmp"))
        self.args = [*args, *(["--rate-limit", rate_limit] if rate_limit else [])]
        self.env = {**os.environ, **(env or {})}
        # Which provider, as the server itself takes it: CAY_PROVIDER, and CAY_DOCKER_HOST beside it.
        self.docker = self.env.get("CAY_DOCKER_HOST") if self.env.get("CAY_PROVIDER") == "docker" else None
        self.log_path = tempfile.mkstemp(prefix="cay-log-")[1]
        self.process = None
        self.url = None
        self.listen = "127.0.0.1:0"
        self.stdout = []

    # ---- life ----

    def command(self):
        return [CAY, "serve", "--data", self.data, "--listen", self.listen, "--images", IMAGES, *self.args]

    def start(self, timeout=READY_S, env=None):
        with open(self.log_path, "ab") as log:
            log.write(f"--- {' '.join(self.command())}\n".encode())
            log.flush()
            self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=log, env={**self.env, **(env or {})}, text=True,
                                            process_group=0)  # whom it kills by mistake is no test
        ready = threading.Event()
        reader = threading.Thread(target=self._read_stdout, args=(self.process, ready), daemon=True)
        reader.start()
        ready.wait(stretch(timeout))
        if not any(line.startswith("ready ") for line in self.stdout):
            try:
                # One that has closed its stdout is about to end.
                code = self.process.wait(0 if reader.is_alive() else 5)
            except subprocess.TimeoutExpired:
                code = None
                self.process.terminate()
            raise NotReady(f"the server did not get ready, exit {code}:\n{self.log()}", code)
        return self

    def _read_stdout(self, process, ready):
        self.stdout = []
        for line in process.stdout:
            self.stdout.append(line.rstrip("\n"))
            if line.startswith("ready http"):
                self.url = line.split()[1]
                # A restart takes the same port, so that clients find it again.
                self.listen = self.url.partition("://")[2]
                ready.set()
        process.stdout.close()
        ready.set()

    def client(self, **options):
        return Client(self.url, ca=self.ca, **options)

    def stop(self, timeout=STOP_S):
        """SIGTERM; the exit status."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(stretch(timeout))
            except subprocess.TimeoutExpired:
                self.kill("all")
                raise AssertionError(f"the server took longer than {timeout} s to stop:\n{self.log()}")
        code = self.process.returncode
        self.process = None
        return code

    def restart(self):
        self.stop()
        return self.start()

    def cay(self, verb, *args):
        """What the operator's command says."""
        done = subprocess.run([CAY, verb, "--data", self.data, *args], capture_output=True, text=True, timeout=stretch(60))
        assert done.returncode == 0, done
        return done.stdout.strip()

    def key(self, *options):
        return self.cay("key", "create", *options)

    def down(self):
        """`cay down`: no sandbox of this data directory is left."""
        return subprocess.run([CAY, "down", "--data", self.data], capture_output=True, text=True, timeout=stretch(120),
                              env=self.env)

    def close(self):
        """Ends everything, and fails when something is left on the host."""
        problems = []
        try:
            instance = self.instance()
            try:
                self.stop()
            except AssertionError as e:
                problems.append(str(e))
            if instance:
                done = self.down()
                if done.returncode != 0:
                    problems.append(f"cay down: exit {done.returncode}: {done.stdout}{done.stderr}")
            try:
                until(lambda: not leaks.find(self.data, instance, self.namespaces_before), "nothing left", 5, 0.1)
            except AssertionError:
                problems += leaks.find(self.data, instance, self.namespaces_before)
            if self.docker and instance:
                problems += [f"container {c['Names']}" for c in dockerd.containers(self.docker, instance)]
            if self.owns_data:
                shutil.rmtree(self.data)
        finally:
            if problems:
                problems.append(self.log())
            else:
                os.unlink(self.log_path)
        assert not problems, "\n".join(problems)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    # ---- inside ----

    def log(self, lines=80):
        with open(self.log_path, errors="replace") as f:
            return "".join(f.readlines()[-lines:])

    def instance(self):
        try:
            return Path(self.data, "instance").read_text().strip()
        except FileNotFoundError:
            return ""

    def pid(self, role):
        try:
            pid = int(Path(self.data, "run", f"{role}.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if proc.alive(pid) else None

    def pids(self):
        return {role: self.pid(role) for role in ROLES}

    def inits(self):
        """The host's pids of every sandbox's pid 1."""
        if self.docker:
            return dockerd.pids(self.docker, self.instance())
        return [p for p in self.sandbox_processes() if proc.ns_pid(p) == 1]

    def init(self, ident):
        """The host's pid of one sandbox's pid 1."""
        if self.docker:
            return dockerd.inspect(self.docker, ident)["State"]["Pid"]
        [pid] = [p for p in self.inits() if ident in proc.text(p, "cgroup")]
        return pid

    def group(self, ident):
        """What a sandbox's cgroups are called."""
        return dockerd.inspect(self.docker, ident)["Id"] if self.docker else ident

    def sandbox_processes(self):
        if self.docker:
            spaces = {os.readlink(f"/proc/{p}/ns/pid") for p in self.inits()}
            return [p for p in proc.pids() if proc.pid_space(p) in spaces]
        return proc.in_cgroup(f"cay-{self.instance()}")

    def traces(self):
        """Ids of sandboxes that have anything on the host but logs, and where."""
        if self.docker:
            return {c["Labels"]["cay.id"]: c["Names"] for c in dockerd.containers(self.docker, self.instance())}
        # What is in there is to be removed by and by: it counts only when nobody does that.
        trash = os.path.join(self.data, "engine", "trash")
        if self.pid("engine") and os.path.isdir(trash):
            until(lambda: not os.listdir(trash), "the trash is emptied", TRASH_S)
        found = {}
        places = [d for top in proc.cgroup_dirs(f"cay-{self.instance()}") for d, _, _ in os.walk(top)]
        for here, dirs, files in os.walk(self.data):
            dirs[:] = [d for d in dirs if d not in ("logs", "trash", "images")]
            places += [os.path.join(here, name) for name in dirs + files]
            dirs[:] = [d for d in dirs if not SANDBOX_ID.search(d)]
        # The disk is mounted where only the engine sees it.
        disk = f"/proc/{self.pid('engine')}/root/files"
        places += [os.path.join(disk, name) for name in os.listdir(disk)] if os.path.isdir(disk) else []
        for place in places:
            if match := SANDBOX_ID.search(os.path.basename(place)):
                found.setdefault(match[0], []).append(place)
        return found

    def kill(self, role, sig=signal.SIGKILL):
        """Kills one role, or all; returns when it is dead."""
        roles = ROLES if role == "all" else (role,)
        pids = [pid for pid in map(self.pid, roles) if pid]
        assert pids, f"no {role} to kill"
        for pid in pids:
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass  # went with its supervisor
        if sig != signal.SIGKILL:
            return
        if "supervisor" in roles and self.process:
            self.process.wait(stretch(10))
            self.process = None
        until(lambda: not any(proc.alive(p) for p in pids), f"{role} dies")

    def recover(self, timeout=15):
        """After a kill: started again where nobody does it for us, and answering."""
        if self.process is None:
            # Engine and server go with their supervisor; their end must not race with the next start.
            until(lambda: not any(self.pids().values()), "engine and server follow the supervisor")
            self.start()
        client = self.client(timeout=5)

        def healthy():
            try:
                return client.get("/health").status == 200
            except OSError:
                return False

        until(healthy, f"healthy again\n{self.log()}", timeout, 0.05)
        client.close()
        return self
