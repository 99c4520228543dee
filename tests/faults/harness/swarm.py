"""The scenario of a seed: most are plain, the others hot, long, large, odd, or paged."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tests.faults.harness.scenario import Scenario

#: Of so many seeds each kind has its share; the cycle is short, so every block of ten has most.
CYCLE: Final = 10
HOT: Final = (1, 4)
LONG: Final = (6, 8)
LARGE: Final = 9
PAGED: Final = 2
ODD: Final = (3, 7)

#: Objects in a page of a list: so few that each list has several.
PAGE_SIZE: Final = 3

#: Rates of faults in a hot run, as a multiple of those drawn.
HOT_FACTOR: Final = 2.5


def scenario_of(seed: int) -> Scenario:
    """Returns the scenario of a seed."""
    place = seed % CYCLE
    if place in HOT:
        return Scenario(seed, rate_factor=HOT_FACTOR)
    if place in LONG:
        return Scenario(seed, busy_s=300.0, user_actions=110, nodes=6, pods=16)
    if place == LARGE and seed % (2 * CYCLE) == LARGE:
        # The columns of the scheduler's tables grow at 64 rows.
        return Scenario(seed, nodes=62, n_safe=20, pods=40, user_actions=60, node_share=6)
    if seed % (2 * CYCLE) == PAGED:
        return Scenario(seed, page_size=PAGE_SIZE)
    return Scenario(seed, is_odd=place in ODD)


def crowded(seed: int) -> Scenario:
    """Returns a scenario with more pods than fit: many preemptions."""
    return Scenario(seed, nodes=4, n_safe=2, pods=45, has_broken_pods=False)


def reactive(seed: int) -> Scenario:
    """Returns a scenario whose users change the pods that the scheduler works on."""
    if seed % 2:
        return replace(crowded(seed), busy_s=60.0, has_reactions=True)
    return Scenario(seed, busy_s=60.0, pods=20, has_reactions=True)
