"""A real control plane for the tests here: one for all workers of a run, started by the first.

Where it cannot be had, its tests are skipped, with one line that says why; in CI that is a failure.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.testing.controlplane import Access, ControlPlaneUnavailable, build, shared
from tests.helpers.event_loops import LOOPS, on_loop
from tests.integration.embedded import Embedded, Kubectl, running

PROGRAMS = pytest.StashKey[Path | ControlPlaneUnavailable]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what needs the programs where there are none: here, so that pytest says it once."""
    if "programs" not in getattr(item, "fixturenames", ()):
        return
    found = _programs(item.config)
    if isinstance(found, ControlPlaneUnavailable) and not os.environ.get("CI"):
        pytest.skip(str(found))


def _programs(config: pytest.Config) -> Path | ControlPlaneUnavailable:
    """Builds the programs on the first run; returns the error if that fails."""
    if PROGRAMS not in config.stash:
        try:
            config.stash[PROGRAMS] = build(report=print)
        except ControlPlaneUnavailable as why:
            config.stash[PROGRAMS] = why
    return config.stash[PROGRAMS]


@pytest.fixture(scope="session")
def programs(pytestconfig: pytest.Config) -> Path:
    """The folder of etcd, kube-apiserver and so on."""
    found = _programs(pytestconfig)
    if isinstance(found, ControlPlaneUnavailable):
        raise found
    return found


@pytest.fixture(scope="session")
def plane(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    """Shared: keep to the namespace of your test, kill nothing."""
    base = tmp_path_factory.getbasetemp()
    # The workers of one run have folders side by side.
    folder = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with shared(folder / "control-plane") as access:
        yield access


@pytest.fixture
def namespace(plane: Access, numbers: Iterator[int]) -> Iterator[str]:
    """A namespace of the shared control plane for one test."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "alone")
    name = f"test-{worker}-{next(numbers)}"
    plane.kubectl("create", "namespace", name)
    yield name
    plane.kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def numbers() -> Iterator[int]:
    """Counts the namespaces of one worker."""
    return itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """An embedded server of one test module, in which deleted pods go at once."""
    with running(tmp_path_factory.mktemp("embedded"), "--instant-deletion") as found:
        yield found


@pytest.fixture(scope="module")
def kubectl(server: Embedded, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """The real kubectl, as the administrator of ``server``."""
    return Kubectl(programs / "kubectl", server, tmp_path_factory.mktemp("home"))


@pytest.fixture(params=LOOPS)
def each_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs a test once on each loop, if its server is run by ``run_on_loop``."""
    with on_loop(request.param):
        yield
