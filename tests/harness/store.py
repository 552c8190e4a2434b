# SPDX-License-Identifier: Apache-2.0
"""An image store of a test's own, with one small image in it under every name that a server asks for."""
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from harness import server as servers

SMALL = "busybox"


class ImageStore:
    def __init__(self):
        self.path = tempfile.mkdtemp(prefix="cay-images-", dir=os.environ.get("TMPDIR", "/tmp"))
        text = Path(servers.IMAGES, "refs", SMALL).read_text()
        self.base = text.partition("layers=")[2].split()[0]
        for name in ("refs", "layers"):
            Path(self.path, name).mkdir()
        subprocess.run(["cp", "-a", Path(servers.IMAGES, "layers", self.base), Path(self.path, "layers")], check=True)
        for name in (SMALL, "node:20-bookworm"):
            Path(self.path, "refs", name).write_text(text)

    def server(self, **options):
        """One that uses this store: of two --images the last counts."""
        return servers.Server("--images", self.path, **options)

    def text(self, *layers, **settings):
        """What a name stands for: these on top of the small image, the topmost first."""
        lines = {"user": "", "workdir": "", "env": "PATH=/usr/local/bin:/usr/bin:/bin", "cmd": "sh", **settings}
        return "\n".join([f"layers={' '.join([*layers, self.base])}", *(f"{k}={v}" for k, v in lines.items())]) + "\n"

    def layer(self, diff_id, *path):
        return Path(self.path, "layers", diff_id, *path)

    def leftovers(self):
        """What is being unpacked, or was when somebody died."""
        return sorted(p.name for p in Path(self.path, "tmp").iterdir())

    def layers(self):
        return sorted(p.name for p in Path(self.path, "layers").iterdir())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)
