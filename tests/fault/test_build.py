# SPDX-License-Identifier: Apache-2.0
"""kill -9 of each part while an image is built: no process, no mount, no file of it is left, and no half image."""
from pathlib import Path

import pytest

from harness import builds
from harness.registry import small_store
from harness.server import IMAGES
from harness.wait import until

pytestmark = pytest.mark.native


def leftovers(images):
    """What a build may leave but its lock, which is an empty file."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(images) in line]
    layers = {p.name for p in Path(images, "layers").iterdir()}
    named = set()
    for ref in Path(images, "refs").iterdir():
        named |= set(ref.read_text().partition("layers=")[2].split("\n")[0].split())
    return builds.processes(images), builds.half_built(images), mounts, layers - named


NOTHING = [], [], [], set()


@pytest.mark.limit(240)
@pytest.mark.parametrize("how", ["server", "engine", "supervisor", "all", "cancelled"])
def test_build_that_is_cut(fresh, tmp_path, how):
    images = Path(small_store(tmp_path / "images", IMAGES))
    server = fresh("--images", str(images), "--recipes", str(tmp_path), "--pull", "never").start()
    client = server.client()
    job = client.post("/images/build", {"recipe": builds.LONG.format(name="long:1")}).json()["id"]
    until(lambda: (images / "tmp").exists() and builds.is_unpacking(images), "files are unpacked", 90, 0.05)
    if how == "cancelled":
        client.delete(f"/jobs/{job}")
    else:
        server.kill(how)
        server.recover()
        client = server.client()
    until(lambda: leftovers(images) == NOTHING, "nothing is left", 20, 0.1)
    told = client.get(f"/jobs/{job}").json()
    assert told["status"] in {"engine": ("failed",), "cancelled": ("cancelled", "running")}.get(how, ("lost",)), told
    assert not (images / "refs/long:1").exists()
    assert builds.build(client, recipe=builds.tiny("after:1"))["status"] == "succeeded"
    client.create("box", image="after:1")
    assert client.sh("box", "echo $GREETING") == "hello\n"
    assert leftovers(images) == NOTHING
