# SPDX-License-Identifier: Apache-2.0
"""A host of repositories and archives in the test's internet, good ones and bad ones: https://git.example:8443

    /repo/NAME.git    what git http-backend makes of DIR/repos; `private.git` is for me:hunter2x alone
    /tar/…            see ARCHIVES
    /bad/…            see serve_bad
"""
import base64
import gzip
import hashlib
import io
import os
import shutil
import ssl
import subprocess
import sys
import tarfile
import tempfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from harness.certificates import Authority
from harness.server import IMAGES

ADDRESS, PORT = "203.0.113.20", 8443
URL = f"https://git.example:{PORT}"
LOGIN = "Basic " + base64.b64encode(b"me:hunter2x").decode()
ID = "-c user.name=t -c user.email=t@example -c init.defaultBranch=main".split()


def git(where, *args, **options):
    done = subprocess.run(["git", *ID, *args], cwd=where, check=True, capture_output=True, text=True, **options)
    return done.stdout.strip()


def make_repository(path, *commits):
    """Each commit is a dict of files; the first is tagged v1, and `side` is a branch of it. The commits' ids."""
    path.mkdir(parents=True)
    git(path, "init", "-q", ".")
    ids = []
    for number, files in enumerate(commits):
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_text(text)
        git(path, "add", "-A", "-f")
        git(path, "commit", "-q", "-m", f"commit {number}")
        ids.append(git(path, "rev-parse", "HEAD"))
        if number == 0:
            git(path, "tag", "v1")
            git(path, "branch", "side")
    return ids


def make_tar(**files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(name.replace("_", "/"))
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


GOOD = make_tar(a="hello", d_b="there")
BIG = make_tar(a="x" * 100_000)
ARCHIVES = {
    "good.tar": GOOD, "good.tgz": gzip.compress(GOOD), "page.html": b"<html>no archive</html>" * 100, "nothing": b"",
    "cut.tar": BIG[:50_000], "cut.tgz": gzip.compress(os.urandom(50_000))[:30_000],
    "up.tar": make_tar(**{".._up": "x"}),
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    where = None

    def log_message(self, *_):
        with open(self.where / "requests", "a") as f:
            f.write(f"{self.command} {self.path} {self.headers.get('Authorization')}\n")

    def reply(self, body, length=None, status=200, **headers):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        try:
            kind, _, rest = self.path[1:].partition("/")
            {"repo": self.serve_repository, "tar": self.serve_archive, "bad": self.serve_bad}[kind](rest)
        except OSError:
            pass

    do_POST = do_GET

    def serve_archive(self, name):
        self.reply(ARCHIVES[name]) if name in ARCHIVES else self.reply(b"no", status=404)

    def serve_bad(self, rest):
        """What goes wrong, whatever is asked for below it."""
        kind = rest.partition("/")[0]
        if kind == "liar":
            self.reply(GOOD[:512], length=10_000)
        elif kind in ("endless", "slow"):
            self.send_response(200)
            self.send_header("Content-Type", "application/x-git-upload-pack-advertisement")
            self.end_headers()
            line = b"003e" + b"0" * 40 + b" refs/heads/abcdef1\n"
            self.wfile.write(b"001e# service=git-upload-pack\n0000")
            while True:
                self.wfile.write(line * 1000 if kind == "endless" else b"0")
                if kind == "slow":
                    time.sleep(0.2)
        else:
            to = {"loop": self.path, "plain": f"http://git.example:{PORT}/tar/good.tar", "meta": "https://169.254.169.254/a",
                  "file": "file:///etc/passwd", "elsewhere": "https://other.example/a"}[kind]
            self.reply(b"", status=302, Location=to)

    def serve_repository(self, rest):
        path, _, query = rest.partition("?")
        if path.startswith("private") and self.headers.get("Authorization") != LOGIN:
            self.reply(b"", status=401, **{"WWW-Authenticate": 'Basic realm="x"'})
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        env = {"GIT_PROJECT_ROOT": str(self.where / "repos"), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": "/" + path, "QUERY_STRING": query,
               "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
               "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
               "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
               "GIT_CONFIG_VALUE_0": "*"}
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=env)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(headers.pop("Status", "200 OK").split()[0])
        self.reply(rest, status=status, **headers)


class Sources:
    def __init__(self, net):
        self.net = net
        self.dir = Path(tempfile.mkdtemp(prefix="cay-sources-"))
        os.chmod(self.dir, 0o755)
        self.authority = Authority(self.dir)
        self.authority.sign("host", names=f"DNS:git.example,DNS:rebound.example,DNS:web.example,IP:{ADDRESS}")
        net.tell(names={"git.example": [ADDRESS], "rebound.example": [ADDRESS]})
        self.process = subprocess.Popen(["ip", "netns", "exec", net.others, sys.executable, "-m", "harness.sources", str(self.dir)],
                                        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1])
        assert self.process.stdout.readline() == "ready\n"

    def repository(self, name, *commits):
        return make_repository(self.dir / "repos" / f"{name}.git", *commits)

    def requests(self):
        log = self.dir / "requests"
        return log.read_text().splitlines() if log.exists() else []

    def options(self):
        """Of a server whose sandboxes find and believe these sources."""
        return "--resolv-conf", self.net.resolv_conf, "--trust-ca", self.authority.file

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(10)
        self.process.stdout.close()
        # What sandboxes believe is part of a layer in the image store; this authority will not be seen again.
        mark = hashlib.sha256(Path(self.authority.file).read_bytes()).hexdigest()[:16]
        for layer in Path(IMAGES, "fits").glob(f"*-{mark}"):
            shutil.rmtree(layer)
        shutil.rmtree(self.dir)


def main(where):
    Handler.where = Path(where)
    server = ThreadingHTTPServer((ADDRESS, PORT), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{where}/host.crt", f"{where}/host.key")
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
