# SPDX-License-Identifier: Apache-2.0
"""A wall clock that can be set, for one server: clock.c is preloaded into it."""
import struct
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    def __init__(self, directory):
        library, self.file = directory / "clock.so", directory / "ahead"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
        self.set(0)
        self.env = {"LD_PRELOAD": str(library), "CAY_TEST_CLOCK": str(self.file)}

    def set(self, seconds):
        """So far ahead of the true time; the file stays the same one."""
        self.ahead = seconds
        with open(self.file, "r+b" if self.file.exists() else "wb") as f:
            f.write(struct.pack("=q", seconds))

    def now(self):
        return time.time() + self.ahead

    def until(self, text):
        """Seconds from now to a time of an answer."""
        at = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=timezone.utc)
        return at.timestamp() - self.now()
