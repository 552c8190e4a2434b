# SPDX-License-Identifier: Apache-2.0
"""The boundaries at which a server can be told to die, as it lists them."""
import subprocess

import pytest

from harness.server import CAY
from harness.wait import stretch

# Between two steps that another provider does not take by itself.
OF_THE_ENGINE = {"create-cgroup-made", "create-cloned", "create-recorded", "create-engine-answers", "delete-intent-written",
                 "delete-reaped", "delete-cgroup-gone", "delete-put-by", "stop-intent-written", "stop-asked", "stop-reaped",
                 "stop-recorded", "stop-cgroup-gone"}
OF_QUOTAS = {"delete-put-by"}


def points(kind):
    """Those of one operation, as parameters of a test; none where the build has none."""
    try:
        done = subprocess.run([CAY, "serve", "--crash-points"], capture_output=True, text=True, timeout=stretch(10))
    except OSError:
        return []
    found = done.stdout.split() if done.returncode == 0 else []
    native = pytest.mark.native("a step of the engine's own")
    return [pytest.param(p, marks=[native] * (p in OF_THE_ENGINE) + [pytest.mark.quota] * (p in OF_QUOTAS))
            for p in found if p.startswith(f"{kind}-")]
