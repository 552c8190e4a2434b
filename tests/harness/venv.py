# SPDX-License-Identifier: Apache-2.0
"""What tests/requirements.txt names, installed once into a virtual environment under the build directory."""
import hashlib
import subprocess
import sys

import pytest

from harness.server import BUILD, ROOT
from harness.wait import stretch

WANTED = ROOT / "tests" / "requirements.txt"


def python():
    """Its interpreter; skips the test when PyPI is out of reach."""
    place = BUILD / "venv"
    done = place / hashlib.sha256(WANTED.read_bytes()).hexdigest()[:16]
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True, timeout=stretch(60))
        try:
            subprocess.run([place / "bin" / "pip", "install", "-q", "--retries", "1", "--timeout", "10", "-r", WANTED],
                           check=True, capture_output=True, text=True, timeout=stretch(120))
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
            pytest.skip(f"PyPI is out of reach: {getattr(e, 'stderr', e)}"[:300])
        done.touch()
    return str(place / "bin" / "python")
