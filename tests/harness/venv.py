# SPDX-License-Identifier: Apache-2.0
"""What tests need from PyPI, installed once into virtual environments under the build directory."""
import fcntl
import hashlib
import subprocess
import sys

import pytest

from harness.server import BUILD, ROOT
from harness.wait import stretch

WANTED = ROOT / "tests" / "requirements.txt"


def made(place, stamp, *wanted):
    """The interpreter of an environment that has this; skips the test when PyPI is out of reach."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{place}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = place / stamp
        if not done.exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True, timeout=stretch(60))
            try:
                subprocess.run([place / "bin" / "pip", "install", "-q", "--retries", "1", "--timeout", "10", *wanted],
                               check=True, capture_output=True, text=True, timeout=stretch(120))
            except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
                pytest.skip(f"PyPI is out of reach: {getattr(e, 'stderr', e)}"[:300])
            done.touch()
    return str(place / "bin" / "python")


def python():
    """With what tests/requirements.txt names."""
    return made(BUILD / "venv", hashlib.sha256(WANTED.read_bytes()).hexdigest()[:16], "-r", WANTED)


def python_with(requirement):
    """With just this, which may not go together with anything else: other people's clients."""
    return made(BUILD / "venvs" / requirement, "done", requirement)
