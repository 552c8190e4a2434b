# SPDX-License-Identifier: Apache-2.0
"""A data directory without btrfs, so that trees are plain directories: in memory, where the kernel has quotas and can
map the ids of such a filesystem (from Linux 6.3 on)."""
import subprocess
from contextlib import contextmanager

from harness import proc
from harness.server import Server


@contextmanager
def plain_server(tmp_path, size="512m"):
    where = tmp_path / "plain"
    where.mkdir()
    if proc.HAS_QUOTAS:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", where], check=True)
    (where / "data").mkdir()
    server = Server(data=where / "data")
    try:
        yield server
        server.close()
    finally:
        server.stop()
        server.down()
        if proc.HAS_QUOTAS:
            subprocess.run(["umount", "-l", where], check=True)
