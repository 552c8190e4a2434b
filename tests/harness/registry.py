# SPDX-License-Identifier: Apache-2.0
"""Debian's docker-registry on loopback, images made for it, and what stands between it and us: a token server and a
proxy that breaks things."""
import base64
import gzip
import hashlib
import http.client
import http.server
import io
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import tarfile
import tempfile
import threading
from pathlib import Path

from harness.wait import until

PLATFORM = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
OCI = "application/vnd.oci.image."


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Registry:
    """One docker-registry with storage of its own. `auth` and `tls` are parts of its configuration."""

    def __init__(self, auth="", tls=None):
        self.dir = Path(tempfile.mkdtemp(prefix="cay-registry-"))
        self.port = free_port()
        self.host = f"localhost:{self.port}"
        lines = ["version: 0.1", "log: {level: error, accesslog: {disabled: true}}",
                 f"storage: {{filesystem: {{rootdirectory: {self.dir}/data}}, delete: {{enabled: true}}}}",
                 f"http:\n  addr: 127.0.0.1:{self.port}\n  secret: x"]
        if tls:
            lines.append(f"  tls:\n    certificate: {tls.cert}\n    key: {tls.key}")
        (self.dir / "config.yml").write_text("\n".join([*lines, auth]) + "\n")
        self.process = subprocess.Popen(["docker-registry", "serve", self.dir / "config.yml"],
                                        stdout=subprocess.DEVNULL, stderr=open(self.dir / "log", "wb"))
        until(lambda: listens(self.port), "the registry listens")

    def close(self):
        self.process.terminate()
        self.process.wait(10)
        shutil.rmtree(self.dir)

    def push(self, layout, name, *options):
        """By skopeo; `name` is repository:tag."""
        done = subprocess.run(["skopeo", "copy", "--all", "--dest-tls-verify=false", *options, f"oci:{layout}:it",
                               f"docker://{self.host}/{name}"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return f"{self.host}/{name}"


class Layout:
    """An OCI image layout, made of files in Python."""

    def __init__(self, directory):
        self.dir = Path(directory)
        (self.dir / "blobs/sha256").mkdir(parents=True)
        (self.dir / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')

    def put(self, data, kind):
        digest = hashlib.sha256(data).hexdigest()
        (self.dir / "blobs/sha256" / digest).write_bytes(data)
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    def layer(self, files, packed="gzip"):
        """(descriptor, diff id) of one with these {path: bytes}."""
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for path, data in files.items():
                info = tarfile.TarInfo(path)
                info.size, info.mode = len(data), 0o755
                tar.addfile(info, io.BytesIO(data))
        data = raw.getvalue()
        zipped = {"gzip": lambda: gzip.compress(data, 1),
                  "zstd": lambda: subprocess.run(["zstd", "-q"], input=data, capture_output=True, check=True).stdout,
                  "": lambda: data}[packed]()
        kind = OCI + "layer.v1.tar" + (f"+{packed}" if packed else "")
        return self.put(zipped, kind), "sha256:" + hashlib.sha256(data).hexdigest()

    def manifest(self, layers, config=None, platform=PLATFORM):
        about = {"architecture": platform, "os": "linux", "config": config or {},
                 "rootfs": {"type": "layers", "diff_ids": [diff for _, diff in layers]}}
        return self.put(json.dumps({
            "schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
            "config": self.put(json.dumps(about).encode(), OCI + "config.v1+json"),
            "layers": [layer for layer, _ in layers]}).encode(), OCI + "manifest.v1+json")

    def index(self, manifests):
        return self.put(json.dumps({"schemaVersion": 2, "mediaType": OCI + "index.v1+json",
                                    "manifests": manifests}).encode(), OCI + "index.v1+json")

    def done(self, top):
        (self.dir / "index.json").write_text(json.dumps({
            "schemaVersion": 2, "manifests": [{**top, "annotations": {"org.opencontainers.image.ref.name": "it"}}]}))
        return self.dir


def small_store(directory, images, *names):
    """An image store of its own with busybox in it, by these names too and by that of the default image, which is not
    built then."""
    store = Path(directory)
    text = Path(images, "refs/busybox").read_text()
    (store / "refs").mkdir(parents=True)
    (store / "layers").mkdir(mode=0o700)
    for line in text.splitlines():
        if line.startswith("layers="):
            for layer in line.partition("=")[2].split():
                shutil.copytree(Path(images, "layers", layer), store / "layers" / layer, symlinks=True)
    for name in ("busybox", "node:20-bookworm", *names):
        (store / "refs" / name).write_text(text)
    return str(store)


def busybox_files(images):
    """The busybox of the image that every machine here has, so that what is pulled can run."""
    for line in Path(images, "refs/busybox").read_text().splitlines():
        key, _, value = line.partition("=")
        if key == "layers":
            for layer in value.split():
                program = Path(images, "layers", layer, "bin/busybox")
                if program.exists():
                    return {"bin/busybox": program.read_bytes(), "bin/sh": program.read_bytes()}
    raise AssertionError("no busybox in the images")


class Between(http.server.ThreadingHTTPServer):
    """A proxy in front of a registry. `rule(path, handler)` may answer itself and return True; `cuts` ends the body
    of blobs after so many bytes, once for each number."""
    daemon_threads = True

    def __init__(self, to_port, tls=None):
        self.to_port = to_port
        self.rule = None
        self.seen = []  # (method, path, headers)
        self.mangle = None  # bytes to bytes, of a blob
        super().__init__(("127.0.0.1", 0), Passing)
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.cert, tls.key)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.port = self.server_address[1]
        self.host = f"localhost:{self.port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # who goes away is part of the play

    def blobs(self):
        return [seen for seen in self.seen if "/blobs/" in seen[1]]

    def close(self):
        self.shutdown()
        self.server_close()


class Passing(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        if self.server.rule and self.server.rule(self.path, self):
            return
        status, headers, body = self.upstream()
        if "/blobs/" in self.path and self.server.mangle:
            body = self.server.mangle(body)
        self.answer(status, body, headers)

    def upstream(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.to_port, timeout=30)
        keep = {k: v for k, v in self.headers.items() if k.lower() in ("accept", "range", "authorization")}
        connection.request("GET", self.path, headers=keep)
        answer = connection.getresponse()
        body = answer.read()
        kept = {k: v for k, v in answer.getheaders()
                if k.lower() in ("content-type", "content-range", "www-authenticate", "docker-content-digest")}
        connection.close()
        return answer.status, kept, body

    def answer(self, status, body=b"", headers=None, length=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        if length is not None and length != len(body):
            self.close_connection = True

    def cut_after(self, count):
        """A blob's answer that ends in the middle."""
        status, headers, body = self.upstream()
        self.answer(status, body[:count], headers, length=len(body))


class Tokens(http.server.ThreadingHTTPServer):
    """A token server; what it gives is good for the rule `allow` of a proxy in front of a registry."""
    daemon_threads = True

    def __init__(self, user, password):
        self.basic = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.asked = []  # (query, authorization)
        self.token = "token-" + os.urandom(8).hex()
        super().__init__(("127.0.0.1", 0), Giving)
        self.host = f"localhost:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def guard(self, path, handler):
        """As the rule of a Between: 401 with a challenge unless the token is shown."""
        if handler.headers.get("Authorization") == f"Bearer {self.token}":
            return False
        repository = re.match(r"/v2/(.+)/(?:manifests|blobs)/", path)[1]
        handler.answer(401, b"{}", {"WWW-Authenticate": f'Bearer realm="http://{self.host}/token",service="test",'
                                                        f'scope="repository:{repository}:pull"'})
        return True

    def close(self):
        self.shutdown()
        self.server_close()


class Giving(Passing):
    def do_GET(self):
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        if self.headers.get("Authorization") != self.server.basic:
            return self.answer(401, b'{"details":"no"}')
        self.answer(200, json.dumps({"token": self.server.token, "expires_in": 300}).encode(),
                    {"Content-Type": "application/json"})
