# SPDX-License-Identifier: Apache-2.0
"""What the engine does without being asked, and whom it answers at the end."""
import select
import struct
import subprocess

import pytest

from harness.engine import Engine
from harness.wait import stretch, until

# The spawner's wait for a sandbox's first process, over at once as often as the file says.
LATE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>

static _Atomic int *left;

__attribute__((constructor)) static void begin(void)
{
    int fd = open(getenv("CAY_TEST_LATE"), O_RDWR | O_CLOEXEC);
    void *at = mmap(NULL, sizeof *left, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    left = at == MAP_FAILED ? NULL : at;
}

int poll(struct pollfd *fds, nfds_t count, int ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    if (ms == 5000 && left && *left > 0 && (*left)-- > 0)
        return 0;
    return ppoll(fds, count, ms < 0 ? NULL : &t, NULL);
}
"""


@pytest.mark.native
def test_a_late_trial_is_made_again(fresh, tmp_path):
    library, file = tmp_path / "late.so", tmp_path / "late"
    subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library], input=LATE, text=True, check=True)
    file.write_bytes(struct.pack("i", 1))
    server = fresh(env={"LD_PRELOAD": str(library), "CAY_TEST_LATE": str(file)}).start()
    client = server.client()
    assert "was not set up in" in server.log(10_000)
    assert client.post("/sandbox", {"name": "early"}).status == 503
    until(lambda: client.get("/health").status == 200, "it can after all", 30, 0.1)
    client.create("box")


@pytest.mark.native
def test_down_is_answered_to_who_asked(fresh):
    """Not to the next one in his place."""
    server = fresh().start()
    server.client().create("box")
    first, beside = Engine(server), Engine(server)
    first.send("down")
    first.close()
    for _ in range(2):  # by then it was seen that he left
        beside.ask("hello")
    second = Engine(server)
    second.ask("hello")
    until(lambda: server.inits() == [], "all have ended")
    assert not select.select([second.sock], [], [], stretch(3))[0], "an answer that nobody asked for"
