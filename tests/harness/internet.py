# SPDX-License-Identifier: Apache-2.0
"""A small internet of the test's own: two net namespaces, one for the server under test and one for everybody
else. Nothing that a bug sends can leave them.

    with Internet() as net:      the calling thread, and what it starts, is on the server's host
        Server("--resolv-conf", net.resolv_conf)
"""
import ctypes
import json
import os
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

HOST4, HOST6 = "192.0.2.1", "2001:db8:ffff::1"
DNS = "203.0.113.53"
# Everything the others answer to; private ones too, so that only a refusal keeps a sandbox from them.
OTHERS = ["192.0.2.2/24", "203.0.113.53/32", "198.51.100.10/32", "198.51.100.11/32", "203.0.113.20/32",
          "10.9.9.9/32", "172.16.9.9/32", "192.168.9.9/32", "169.254.169.254/32", "100.64.9.9/32",
          "2001:db8:ffff::2/64", "2001:db8:1::10/128", "fd00:9::9/128"]
NAMES = {
    "web.example": ["198.51.100.10", "2001:db8:1::10"], "api.web.example": ["198.51.100.10"],
    "other.example": ["198.51.100.11"], "shared.example": ["198.51.100.10"], "private.example": ["10.9.9.9"],
    "mixed.example": ["10.9.9.9", "198.51.100.10"], "local.example": ["127.0.0.1"],
    "host.example": [HOST4], "mapped.example": ["::ffff:10.9.9.9"], "meta.example": ["169.254.169.254"],
}
HTTP, TLS, SLURP, RESET, BANNER, HOLD, HEADS, PROXY = 80, 443, 7000, 7001, 7002, 7003, 7004, 3128


def run(*args):
    subprocess.run([str(a) for a in args], check=True, capture_output=True)


def enter(fd):
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0x40000000) != 0:
        raise OSError(ctypes.get_errno(), "setns")


class Internet:
    def __init__(self):
        self.host, self.others = (f"t{os.getpid()}{side}" for side in "ho")
        self.dir = Path(tempfile.mkdtemp(prefix="cay-net-"))
        os.chmod(self.dir, 0o755)
        self.resolv_conf = str(self.dir / "resolv.conf")
        Path(self.resolv_conf).write_text(f"nameserver {DNS}\n")
        os.chmod(self.resolv_conf, 0o644)
        self.process = None

    def __enter__(self):
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        for name in (self.host, self.others):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", self.host, "link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", self.others)
        for address in (f"{HOST4}/24", f"{HOST6}/64"):
            run("ip", "-n", self.host, "address", "add", address, "dev", "v0", *(["nodad"] if ":" in address else []))
        for address in OTHERS:
            run("ip", "-n", self.others, "address", "add", address, "dev", "v1", *(["nodad"] if ":" in address else []))
        run("ip", "-n", self.host, "link", "set", "v0", "up")
        run("ip", "-n", self.others, "link", "set", "v1", "up")
        run("ip", "-n", self.host, "route", "add", "default", "via", "192.0.2.2")
        run("ip", "-n", self.host, "-6", "route", "add", "default", "via", "2001:db8:ffff::2")
        self.process = subprocess.Popen(["ip", "netns", "exec", self.others, sys.executable, __file__, str(self.dir)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        where = os.open(f"/run/netns/{self.host}", os.O_RDONLY)
        enter(where)
        os.close(where)
        return self

    def __exit__(self, *_):
        enter(self.home)
        os.close(self.home)
        if self.process:
            self.process.stdin.close()
            self.process.wait(10)
            self.process.stdout.close()
        for name in (self.host, self.others):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)
        for file in self.dir.iterdir():
            file.unlink()
        self.dir.rmdir()

    def tell(self, **order):
        """Changes what the others do; see `obey`."""
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


# ---- everybody else, as a program of its own ----

state = {"names": dict(NAMES), "asked": [], "held": 0, "proxied": []}


def answer(query):
    """A DNS answer by the table above; names in lower case."""
    at, labels = 12, []
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode())
        at += query[at] + 1
    kind = struct.unpack(">H", query[at + 1:at + 3])[0]
    name = ".".join(labels).lower()
    state["asked"].append(name)
    found = state["names"].get(name)
    wanted = [a for a in found or [] if (kind == 28) == (":" in a)]
    records = b""
    for a in wanted:
        data = socket.inet_pton(socket.AF_INET6 if kind == 28 else socket.AF_INET, a)
        records += b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 1, len(data)) + data
    return (query[:2] + struct.pack(">HHHHH", 0x8180 | (3 if found is None else 0), 1, len(wanted), 0, 0) +
            query[12:at + 5] + records)


def serve_dns():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind((DNS, 53))
    while True:
        query, who = s.recvfrom(2000)
        reply = answer(query)
        if b"\x06silent" not in query:  # who has it is there and says nothing
            s.sendto(reply, who)


def read_until(s, mark):
    data = b""
    while mark not in data:
        chunk = s.recv(65536)
        if not chunk:
            break
        data += chunk
    return data


def serve_http(s):
    head = read_until(s, b"\r\n\r\n").decode()
    body = f"hello from {s.getsockname()[0]} path {head.split(' ')[1]}".encode()
    if head.split(" ")[1].startswith("/big/"):
        body = b"x" * int(head.split(" ")[1][5:])
    s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)


def serve_slurp(s):
    data = read_until(s, b"\0never")
    s.sendall(b"%d bytes" % len(data))


def serve_reset(s):
    s.recv(1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def serve_banner(s):
    s.sendall(b"220 hello\r\n")
    s.sendall(b"you said " + s.recv(100))


def serve_hold(s):
    state["held"] += 1
    s.sendall(b"held\n")
    while data := s.recv(1000):
        s.sendall(data)
    state["held"] -= 1


def serve_heads(s):
    """Answers each request of a connection with its own head; those that say so are the last. Like some, it takes the end
    for the end of a head."""
    data = b""
    while True:
        while b"\r\n\r\n" not in data:
            if not (chunk := s.recv(65536)):
                s.sendall(data)
                return
            data += chunk
        head, _, data = data.partition(b"\r\n\r\n")
        s.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(head) + 1) + head + b"\n")
        if b"Connection: close" in head:
            return


def serve_proxy(s):
    head = read_until(s, b"\r\n\r\n").decode()
    target = head.split(" ")[1]
    state["proxied"].append((target, "Basic dTpw" in head))  # u:p
    if target.startswith("other.example"):
        s.sendall(b"HTTP/1.1 403 Forbidden\r\n\r\n")
        return
    host, _, port = target.rpartition(":")
    address = state["names"].get(host, [host.strip("[]")])[0]
    with socket.create_connection((address, int(port))) as out:
        s.sendall(b"HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n")
        thread = threading.Thread(target=pump, args=(out, s))
        thread.start()
        pump(s, out)
        thread.join()


def pump(source, sink):
    while data := source.recv(65536):
        sink.sendall(data)
    sink.shutdown(socket.SHUT_WR)


def listen(port, serve, context=None):
    s = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)

    def one(c):
        try:
            if context:
                c = context.wrap_socket(c, server_side=True)
            serve(c)
        except OSError:
            pass
        finally:
            c.close()

    while True:
        c, _ = s.accept()
        threading.Thread(target=one, args=(c,), daemon=True).start()


def obey(order):
    """{"names": {...}}: those are other addresses now; {"asked": true}: which names anybody asked for, who came
    through the proxy, and how many connections are held."""
    state["names"].update(order.get("names", {}))
    return {key: state[key] for key in ("asked", "held", "proxied")}


def main(where):
    cert, key = f"{where}/web.crt", f"{where}/web.key"
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", 2,
        "-subj", "/CN=web.example", "-keyout", key, "-out", cert)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    threading.Thread(target=serve_dns, daemon=True).start()
    for port, serve, tls in ((HTTP, serve_http, None), (8080, serve_http, None), (TLS, serve_http, context),
                             (SLURP, serve_slurp, None), (RESET, serve_reset, None), (BANNER, serve_banner, None),
                             (HOLD, serve_hold, None), (HEADS, serve_heads, None),
                             (PROXY, serve_proxy, None), (22, serve_banner, None)):
        threading.Thread(target=listen, args=(port, serve, tls), daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
