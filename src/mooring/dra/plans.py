"""Solutions as positions of devices, which are the same on nodes that a search cannot tell apart.

Two nodes whose pools have equal devices in the same order, equally in use, have equal solutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mooring.dra.allocator import Solution
from mooring.dra.ledger import Taken
from mooring.dra.pools import NodePools
from mooring.dra.requests import PreparedClaim


class PlannedDevice(NamedTuple):
    """A device of a claim: its request, the alternative, and its position among all devices."""

    request: int
    alternative: int
    device: int


class ClaimPlan(NamedTuple):
    """The devices of one claim.

    Attributes:
        alternatives: Of each request, the alternative that was chosen; 0 if it has none.
        devices: In the order in which they were taken.
    """

    alternatives: tuple[int, ...]
    devices: tuple[PlannedDevice, ...]


#: The devices of all claims.
Plan = tuple[ClaimPlan, ...]


def plan_of(solution: Solution, pools: NodePools) -> Plan:
    """Returns a solution as positions in the pools of its node."""
    position = pools.devices.index
    plan = []
    for claim, choices, taken in solution.claims:
        places = {
            choice: (number, alternative)
            for number, request in enumerate(claim.requests)
            for alternative, choice in enumerate(request.choices)
        }
        alternatives = tuple([places[choice][1] for choice in choices])
        devices = tuple(
            [PlannedDevice(*places[choice], position(device)) for choice, device, _ in taken]
        )
        plan.append(ClaimPlan(alternatives, devices))
    return tuple(plan)


def solution_of(
    plan: Plan, claims: Sequence[PreparedClaim], pools: NodePools, node_name: str
) -> Solution:
    """Returns the solution that a search on a node with these pools would find.

    Nodes with counters have no plans, so releasing one of these devices releases no counters.
    """
    devices = pools.devices
    parts = []
    for claim, (alternatives, planned) in zip(claims, plan, strict=True):
        requests = claim.requests
        choices = tuple(
            [
                request.choices[alternative]
                for request, alternative in zip(requests, alternatives, strict=True)
            ]
        )
        taken = tuple(
            [
                Taken(requests[number].choices[alternative], devices[index], False)
                for number, alternative, index in planned
            ]
        )
        parts.append((claim, choices, taken))
    return Solution(node_name, tuple(parts), 0)
