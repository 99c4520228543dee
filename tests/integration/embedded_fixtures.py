"""Fixtures for the test modules that name this one in ``pytest_plugins``: a server, and kubectl."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.embedded import Embedded, Kubectl, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Embedded]:
    """A server of one test module, in which deleted pods go at once."""
    with running(tmp_path_factory.mktemp("embedded"), "--instant-deletion") as found:
        yield found


@pytest.fixture(scope="module")
def kubectl(server: Embedded, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    """The real kubectl, as its administrator."""
    return Kubectl(programs / "kubectl", server, tmp_path_factory.mktemp("home"))
