"""The pods that a change brings back: kube-scheduler's queue and hints, and ours, say the same.

More of them: ``python -m tests.parity.requeue FIRST COUNT``, and with ``devices`` as a third
argument.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.against_peer import build_peer
from mooring.clock import seeded_random
from tests.parity.requeue import compared, refused, told_by_peer
from tests.parity.requeue_cases import random_requeue_case


@pytest.fixture(scope="session")
def peer() -> Path:
    """kube-scheduler as a program."""
    return build_peer()


@pytest.mark.parametrize("seed", range(30))
def test_both_bring_back_the_same_pods(peer: Path, seed: int) -> None:
    case = refused(random_requeue_case(seeded_random(seed)))

    assert compared(case, told_by_peer(peer, case)) == []


@pytest.mark.parametrize("seed", range(15))
def test_both_bring_back_the_same_pods_with_devices(peer: Path, seed: int) -> None:
    case = refused(random_requeue_case(seeded_random(seed), with_devices=True))

    assert compared(case, told_by_peer(peer, case)) == []
