# SPDX-License-Identifier: Apache-2.0
"""Many bytes one way: a command's output, a file in, a file out; beside bare sockets and docker cp."""
import os
from pathlib import Path

import peers
from bench import Failed, Watched
from harness.server import CAY, Server

MIB = 1 << 20
SIZE = 1024 * MIB
PLAIN = f"dd if=/dev/zero bs=64k count={SIZE >> 16} 2>/dev/null"
TEXT = f"yes all work and no play makes jack a dull boy | head -c {SIZE}"
FORMS = (("as it came", "text/plain", PLAIN), ("NDJSON", "application/x-ndjson", TEXT), ("SSE", "text/event-stream", TEXT))


def mib_s(b, *args):
    """A round, as MiB/s of what was meant to go through, whatever it was wrapped in."""
    def run():
        got = b.tool("flow", *args)
        if got["bytes"] < SIZE:
            raise Failed(f"flow {args[0]}: only {got['bytes']} bytes came")
        return {"mib_s": SIZE / MIB / (got["wall_ms"] / 1e3)}
    return run


def row(b, name, ours, theirs, goal, peer):
    rate, other = b.side_by_side(ours, theirs, "mib_s")
    b.add(name, rate, "MiB/s", goal, peer, other, more_is_better=True)


def output(b):
    for form, accept, command in FORMS:
        output_as(b, form, accept, command)


def output_as(b, form, accept, command):
    """A server of its own that keeps all of it: by default a log keeps 16 MiB, and past the first 8 takes 32 MiB/s.
    Each round's log is forgotten after it: the peer keeps nothing, and gigabytes of dirty pages are the disk's figure."""
    with Server("--log-head", "4g") as server:
        client = server.client()
        ident = client.create("loud")["id"]
        run = mib_s(b, "exec", server.url.removeprefix("http://"), ident, accept, command)

        def ours():
            try:
                return run()
            finally:
                for execution in client.get(f"/sandbox/{ident}/exec").json()["executions"]:
                    client.delete(f"/sandbox/{ident}/exec/{execution['id']}")

        with Watched(server.pid("server")) as rss:
            row(b, f"output of 1 GiB, {form}, log kept whole", ours, mib_s(b, "pipe", command), "ratio >= 0.5",
                "COMMAND | cat, loopback socket")
        b.add(f"output of 1 GiB, {form}: server RSS grows by", rss.growth_mib(), "MiB", "< 7.6 (8 MB)")


def made(b):
    path = f"{b.work}/gib"
    if not os.path.exists(path):
        piece = os.urandom(MIB)
        with open(path, "wb") as f:
            for _ in range(SIZE // MIB):
                f.write(piece)
            os.fsync(f.fileno())  # or its way to the disk would be in the first rounds
    return path


def files(b):
    """Each upload is a new file. Neither side waits for the disk: what is in a sandbox goes with the host."""
    source, kept = made(b), f"{b.server.data}/kept"
    client = b.server.client()
    ident = client.create("filed")["id"]
    path = f"/sandbox/{ident}/files"

    def put():
        client.delete(f"{path}?path=gib")  # of the round before; neither side overwrites
        return mib_s(b, "put", b.address, f"/api/v1{path}?path=gib", source)()

    with Watched(b.server.pid("server")) as rss:
        row(b, "upload of 1 GiB", put, lambda: once(kept, mib_s(b, "keep", source, kept)), "ratio >= 0.5", "sendfile, recv, write")
        row(b, "download of 1 GiB", mib_s(b, "get", b.address, f"/api/v1{path}?path=gib"), mib_s(b, "give", source),
            "ratio >= 0.5", "sendfile, recv")
    b.add("upload and download of 1 GiB: server RSS grows by", rss.growth_mib(), "MiB", "< 7.6 (8 MB)")
    client.delete(f"/sandbox/{ident}")
    copies(b, source)
    os.unlink(source)


def once(path, run):
    """The next round makes a new file as well."""
    try:
        return run()
    finally:
        os.unlink(path)


def copies(b, source):
    """By the two command lines, from a file and into one. Each round makes a new file here, too."""
    client, copy = b.server.client(), f"{b.work}/copy"
    ident = client.create("copied")["id"]
    ways = {"in": lambda name: (source, f"{name}:/tmp/copy"), "out of": lambda name: (f"{name}:/tmp/copy", copy)}

    def fresh(way, remove, command):
        remove() if way == "in" else Path(copy).unlink(missing_ok=True)
        return b.tool("spawn", 1, *command)

    for way, arguments in ways.items():
        ours = [CAY, "cp", "--url", b.server.url, *arguments(ident)]
        theirs = None
        if b.docker:
            if way == "in":
                b.docker.run("copied", "--", "/bin/sleep", "infinity")
            theirs = [peers.need("docker"), "-H", f"unix://{b.docker.socket}", "cp", *arguments("copied")]
        b.against(f"cay cp of 1 GiB {way} a sandbox",
                  lambda: fresh(way, lambda: client.delete(f"/sandbox/{ident}/files?path=/tmp/copy"), ours),
                  theirs and (lambda: fresh(way, lambda: b.docker.cli("exec", "copied", "rm", "-f", "/tmp/copy"), theirs)),
                  goal="ratio >= 1", peer="docker cp")


FIGURES = {"output": output, "files": files}
