# SPDX-License-Identifier: Apache-2.0
"""A data directory with no disk limit, so that trees are plain directories: in memory, or where the kernel cannot map
the ids of such a filesystem (before Linux 6.3) on one too small for an image."""
import subprocess
from contextlib import contextmanager

from harness import proc
from harness.server import Server


@contextmanager
def plain_server(tmp_path, size="512m"):
    where = tmp_path / "plain"
    where.mkdir()
    if proc.KERNEL >= (6, 3):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "none", where], check=True)
    else:
        subprocess.run(["mkfs.ext4", "-q", "-N", "200000", where.with_suffix(".img"), size], check=True)
        subprocess.run(["mount", "-o", "loop", where.with_suffix(".img"), where], check=True)
    (where / "data").mkdir()
    server = Server(data=where / "data")
    try:
        yield server
        server.close()
    finally:
        server.stop()
        server.down()
        subprocess.run(["umount", "-l", where], check=True)
