# SPDX-License-Identifier: Apache-2.0
"""What the command line says to a person."""
import os
import pty
import subprocess

from harness.server import CAY
from harness.wait import stretch


def said_to_terminal(server, *args, stream="stdout", **options):
    """All that a command wrote to one of its streams, which is a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([CAY, *args], **{stream: theirs}, env={**os.environ, "CAY_URL": server.url}, **options)
    os.close(theirs)
    text = b""
    try:
        while piece := os.read(ours, 4096):
            text += piece
    except OSError:
        pass  # the terminal's other end is closed
    os.close(ours)
    assert process.wait(stretch(30)) == 0
    return text
