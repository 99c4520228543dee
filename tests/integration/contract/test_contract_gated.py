"""The contract of what needs a feature gate: both servers are started with it."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.testing.controlplane import ControlPlane
from tests.integration.contract.api import Api
from tests.integration.contract.conftest import admin_of, api_of
from tests.integration.contract.scenario import GATED_SCENARIOS
from tests.integration.embedded import running

importlib.import_module("tests.integration.contract.scenarios_taint_rules")

GATE = "--feature-gates=DRADeviceTaintRules=true"


@pytest.fixture(scope="module")
def gated_real(programs: Path) -> Iterator[Api]:
    flags = ["--runtime-config=resource.k8s.io/v1beta2=true", GATE]
    with ControlPlane(programs=programs, apiserver_arguments=flags) as plane:
        yield admin_of(plane)


@pytest.fixture(scope="module")
def gated_embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with running(tmp_path_factory.mktemp("gated"), GATE) as server:
        yield api_of(server.kubeconfig)


def test_both_answer_alike_with_the_gate(gated_real: Api, gated_embedded: Api) -> None:
    """One test, so that one worker starts one pair of servers."""
    assert GATED_SCENARIOS
    for name, scenario in GATED_SCENARIOS.items():
        gated_real.notes.clear()
        gated_embedded.notes.clear()

        scenario(gated_real, name.replace("_", "-"))
        scenario(gated_embedded, name.replace("_", "-"))

        assert gated_embedded.transcript() == gated_real.transcript(), name
