# SPDX-License-Identifier: Apache-2.0
"""A data directory in memory: without btrfs, so that trees are plain directories."""
import subprocess
from contextlib import contextmanager

from harness.server import Server


@contextmanager
def plain_server(tmp_path, size="512m"):
    where = tmp_path / "plain"
    where.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", where], check=True)
    (where / "data").mkdir()
    server = Server(data=where / "data")
    try:
        yield server
        server.close()
    finally:
        server.stop()
        server.down()
        subprocess.run(["umount", "-l", where], check=True)
