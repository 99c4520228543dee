"""The contract holds on the real server: its facts are no invention of ours."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.integration.contract.api import Api
from tests.integration.contract.scenario import SCENARIO_FILES, SCENARIOS

for _name in SCENARIO_FILES:
    importlib.import_module(f"tests.integration.contract.scenarios_{_name}")

every_scenario = pytest.mark.parametrize("name", list(SCENARIOS))


@every_scenario
def test_real(real: Api, name: str) -> None:
    with namespace_of(real, "real", name) as namespace:
        SCENARIOS[name](real, namespace)


@contextmanager
def namespace_of(api: Api, test: str, name: str) -> Iterator[str]:
    """Creates a namespace for one scenario of one test, of the same name on both servers.

    The real server has no namespace controller, so a name is used once.
    """
    namespace = f"contract-{test}-{list(SCENARIOS).index(name)}"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    assert api.post("/api/v1/namespaces", space).code == 201
    api.notes.clear()
    try:
        yield namespace
    finally:
        api.delete(f"/api/v1/namespaces/{namespace}")
