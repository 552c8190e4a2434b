# SPDX-License-Identifier: Apache-2.0
"""Waiting for something to become so, with a bound."""
import time


def until(condition, what, timeout=10.0, step=0.02):
    """The condition's first true value; fails with `what` when there is none in time."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s in vain: {what}")
        time.sleep(step)
