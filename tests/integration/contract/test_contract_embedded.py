"""One contract, two servers; where they differ, the embedded one is wrong."""

from __future__ import annotations

from tests.integration.contract.api import Api
from tests.integration.contract.scenario import SCENARIOS
from tests.integration.contract.test_contract import every_scenario, namespace_of


@every_scenario
def test_embedded(embedded: Api, name: str) -> None:
    with namespace_of(embedded, "alone", name) as namespace:
        SCENARIOS[name](embedded, namespace)


@every_scenario
def test_both_answer_alike(real: Api, embedded: Api, name: str) -> None:
    """Beyond what a scenario asserts: every field of every answer, but for what servers make up."""
    with namespace_of(real, "both", name) as namespace:
        SCENARIOS[name](real, namespace)
        expected = real.transcript()
    with namespace_of(embedded, "both", name) as namespace:
        SCENARIOS[name](embedded, namespace)
        assert embedded.transcript() == expected
