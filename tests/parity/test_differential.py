"""Clusters that no recording has: kube-scheduler's own framework and we decide the same.

More of them: ``python -m tests.parity.differential FIRST COUNT``, and with ``devices`` as a third
argument.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.against_peer import build_peer
from mooring.clock import seeded_random
from tests.parity.differential import compared, decided_by_peer
from tests.parity.differential_cases import (
    random_case,
    random_device_balance_case,
    random_device_case,
    random_device_score_case,
)

SEEDS = range(60)
#: In the last ones, claims are not available on nodes that another plugin rejects first.
DEVICE_SEEDS = (*range(40), 1333, 1381)


@pytest.fixture(scope="session")
def peer() -> Path:
    """kube-scheduler's framework as a program."""
    return build_peer()


@pytest.mark.parametrize("seed", SEEDS)
def test_both_decide_the_same(peer: Path, seed: int) -> None:
    case = random_case(seeded_random(seed))
    node_order, steps = decided_by_peer(peer, case)

    assert compared(case, node_order, steps) == []
    assert {step.pod_key for step in steps} == {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in case.waiting()
    }


@pytest.mark.parametrize("seed", DEVICE_SEEDS)
def test_both_decide_the_same_about_devices_and_allocate_the_same(peer: Path, seed: int) -> None:
    case = random_device_case(seeded_random(seed))
    node_order, steps = decided_by_peer(peer, case)

    assert compared(case, node_order, steps) == []
    assert {step.pod_key for step in steps} == {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in case.waiting()
    }


@pytest.mark.parametrize("seed", range(30))
def test_both_score_nodes_by_their_devices(peer: Path, seed: int) -> None:
    case = random_device_score_case(seeded_random(seed))
    node_order, steps = decided_by_peer(peer, case)

    assert compared(case, node_order, steps) == []


@pytest.mark.parametrize("seed", range(15))
def test_both_balance_nodes_by_their_devices(peer: Path, seed: int) -> None:
    case = random_device_balance_case(seeded_random(seed))
    node_order, steps = decided_by_peer(peer, case)

    assert compared(case, node_order, steps) == []
