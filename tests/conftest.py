# SPDX-License-Identifier: Apache-2.0
"""Fixtures: one server per module, clean between tests; a fresh one where it will be killed."""
import os
import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
pytest.register_assert_rewrite("harness")

from harness import proc  # noqa: E402
from harness.dockerd import Dockerd  # noqa: E402
from harness.engine import Engine  # noqa: E402
from harness.internet import Internet  # noqa: E402
from harness.plain import plain_server  # noqa: E402
from harness.server import CAY, Server  # noqa: E402
from harness.sources import Sources  # noqa: E402
from harness.store import ImageStore  # noqa: E402
from harness.wait import stretch  # noqa: E402

DOCKER = os.environ.get("CAY_PROVIDER") == "docker"
TEST_S = 90  # no test may take longer, unless it is marked with `limit(seconds)`


def pytest_configure(config):
    # A shell ignores interrupts for what it runs in the background, and children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "limit(seconds): a bound other than the usual one")
    config.addinivalue_line("markers", "slow: only with CAY_SLOW=1")
    config.addinivalue_line("markers", "quota: only where the kernel can limit a disk")
    config.addinivalue_line("markers", "native(reason): of what that provider alone has; docs/docker.md says what is so elsewhere")


def pytest_collection_modifyitems(items):
    skipped = {"slow": "" if os.environ.get("CAY_SLOW") else "set CAY_SLOW=1",
               "quota": "btrfs has no simple quotas here, and XFS no project quotas" if not proc.HAS_QUOTAS else
                        "Docker's directory is on no filesystem with quotas" if DOCKER else "",
               "native": "" if not DOCKER else "of the native provider"}
    for item in items:
        for marker, reason in skipped.items():
            mark = item.get_closest_marker(marker)
            if reason and mark:
                item.add_marker(pytest.mark.skip(reason=": ".join([reason, *mark.args])))


def pytest_sessionstart(session):
    if os.geteuid() != 0:
        pytest.exit("these tests make real sandboxes and need root", 4)
    if not os.access(CAY, os.X_OK):
        pytest.exit(f"{CAY} is not there: build first, or set CAY_BUILD", 4)
    if DOCKER and not os.environ.get("CAY_DOCKER_HOST"):
        session.dockerd = Dockerd().start()
        os.environ["CAY_DOCKER_HOST"] = session.dockerd.host


def pytest_sessionfinish(session):
    if dockerd := getattr(session, "dockerd", None):
        dockerd.stop()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    """A test that hangs fails, with the place where it hung."""
    mark = item.get_closest_marker("limit")
    seconds = int(stretch(mark.args[0] if mark else TEST_S))

    def late(*_):
        raise TimeoutError(f"the test took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """On failure the logs of the servers it used are shown."""
    outcome = yield
    report = outcome.get_result()
    if report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if isinstance(value, Server) and os.path.exists(value.log_path):
                report.sections.append((f"log of {name}", value.log()))


@pytest.fixture(scope="module")
def net():
    with Internet() as net:
        yield net


@pytest.fixture(scope="module")
def sources(net):
    with Sources(net) as sources:
        yield sources


@pytest.fixture(scope="module")
def dockerd():
    with Dockerd() as dockerd:
        yield dockerd


@pytest.fixture(scope="module")
def store():
    with ImageStore() as store:
        yield store


@pytest.fixture(scope="module")
def plain_shared(tmp_path_factory):
    with plain_server(tmp_path_factory.mktemp("plain")) as server:
        yield server.start()


@pytest.fixture(scope="module")
def options():
    """Of the module's server. A module that wants others has a fixture of this name."""
    return []


@pytest.fixture(scope="module")
def shared_server(options):
    with Server(*options) as server:
        yield server


@pytest.fixture
def server(shared_server):
    """The module's server, cleared after the test."""
    yield shared_server
    client = shared_server.client()
    left = client.clear()
    client.close()
    assert len(shared_server.inits()) == left


@pytest.fixture
def engine(server):
    engine = Engine(server)
    yield engine
    engine.close()


@pytest.fixture
def client(server):
    client = server.client()
    yield client
    client.close()


@pytest.fixture
def box(client):
    """A sandbox as most callers make it: with a name and nothing else."""
    return client.create("box")


@pytest.fixture
def fresh():
    """Makes servers that nobody else uses; all are closed, and looked after for leaks."""
    made = []

    def make(*args, **options):
        server = Server(*args, **options)
        made.append(server)
        return server

    yield make
    for server in made:
        server.close()
