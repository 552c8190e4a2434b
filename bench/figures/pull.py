# SPDX-License-Identifier: Apache-2.0
"""An image of 300 MB out of a registry on this machine, fetched and unpacked, beside `docker pull` of the same."""
import gzip
import hashlib
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import peers
from bench import DEFAULT_IMAGE, IMAGES, Failed, Server, Watched
from harness.registry import OCI, Layout, Registry, small_store

LAYERS = 5
LAYER_BYTES = 60 << 20  # of files
GOAL = "1.5 x docker"


def files_of(tree):
    """Every file of a tree, in an order that is always the same."""
    for here, dirs, names in os.walk(tree):
        dirs.sort()
        for name in sorted(names):
            yield Path(here, name)


def add_layer(layout, tree, files, work):
    """The next LAYER_BYTES of files, packed as Docker packs: the descriptor and diff id, and its plain size."""
    plain, size = Path(work, "layer.tar"), 0
    with tarfile.open(plain, "w") as tar:
        for path in files:
            tar.add(path, path.relative_to(tree), recursive=False)
            size += path.lstat().st_size
            if size >= LAYER_BYTES:
                break
    diff = hashlib.file_digest(open(plain, "rb"), "sha256").hexdigest()
    packed = layout.put(gzip.compress(plain.read_bytes(), 6), OCI + "layer.v1.tar+gzip")
    plain_bytes = plain.stat().st_size
    plain.unlink()
    return (packed, f"sha256:{diff}"), plain_bytes


def make_image(b, registry):
    """What it is called, and the bytes of its layers: of the default image's files, so of real ones."""
    tree = peers.image_layers(IMAGES, DEFAULT_IMAGE)[0]
    work = b.fresh_dir("image")
    layout, files, total, layers = Layout(Path(work, "layout")), files_of(tree), 0, []
    for _ in range(LAYERS):
        layer, size = add_layer(layout, tree, files, work)
        layers.append(layer)
        total += size
    name = registry.push(layout.done(layout.manifest(layers)), "bench/image:1")
    shutil.rmtree(work)
    return name, total


def forget(client, name):
    client.delete("/images", ref=name)
    if client.post("/images/prune").status != 200:
        raise Failed("POST /images/prune failed")


def pull(client, name):
    """Milliseconds from the request to the job's end, with nobody else's bytes on their way to the disk."""
    os.sync()
    began = time.perf_counter()
    answer = client.post("/images/pull", {"image": name})
    with client.stream("GET", f"/jobs/{answer.json()['id']}", headers={"Accept": "text/event-stream"}) as stream:
        end = list(stream.events())[-1].data
    took = (time.perf_counter() - began) * 1e3
    if end["status"] != "succeeded":
        raise Failed(f"pull: {end['error']['message']}")
    return {"p50": took}


def of_docker(b, name):
    if not b.docker:
        return None
    # As our store does it: what the last round removed shall not slow down the next, see engine/shelf.c.
    subprocess.run(["chattr", "+T", b.docker.work / "data/overlay2"], capture_output=True)

    def once():
        subprocess.run([peers.need("docker"), "-H", f"unix://{b.docker.socket}", "rmi", name], capture_output=True)
        os.sync()
        began = time.perf_counter()
        b.docker.cli("pull", "-q", name)
        return {"p50": (time.perf_counter() - began) * 1e3}

    return once


def store_bytes(store, before):
    """What the layers that came take on the disk."""
    new = [p for p in Path(store, "layers").iterdir() if p.name not in before]
    done = subprocess.run(["du", "-s", "--block-size=1", "-c", *new], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[-1].split()[0])


def measure(b, registry):
    name, total = make_image(b, registry)
    store = small_store(Path(b.fresh_dir("store"), "images"), IMAGES)
    before = {p.name for p in Path(store, "layers").iterdir()}
    with Server("--images", store, "--registry-insecure", registry.host) as server:
        client = server.client(timeout=600)
        with Watched(server.pid("server")) as of_server, Watched(server.pid("engine")) as of_engine:
            pull(client, name)
        taken = store_bytes(store, before)

        def ours():
            forget(client, name)
            return pull(client, name)

        b.against("pull and unpack an image of 300 MB, loopback registry", ours, of_docker(b, name), goal=GOAL,
                  peer="docker pull", scale=1)
        b.add("the same: server and engine RSS growth", of_server.growth_mib() + of_engine.growth_mib(), "MiB", "< 32")
        b.add("the same: its store beyond the sum of the layers", 100 * (taken - total) / total, "%", "<= 5")
        client.close()


def image_pull(b):
    peers.need("docker-registry")
    peers.need("skopeo")
    registry = Registry()
    try:
        measure(b, registry)
    finally:
        registry.close()


FIGURES = {"pull": image_pull}
