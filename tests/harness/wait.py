# SPDX-License-Identifier: Apache-2.0
"""Waiting for something to become so, with a bound."""
import os
import time

# An emulated machine is many times slower than the one that the bounds are meant for.
FACTOR = float(os.environ.get("CAY_SLOW_FACTOR") or 1)


def stretch(seconds):
    """A bound as this machine needs it."""
    return seconds * FACTOR


def fewer(number):
    """As many as can be asked of this machine at once, within the server's own bounds."""
    return max(2, int(number / FACTOR))


def until(condition, what, timeout=10.0, step=0.02):
    """The condition's first true value; fails with `what` when there is none in time."""
    timeout = stretch(timeout)
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain: {what}")
        time.sleep(step)
