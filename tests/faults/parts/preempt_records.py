"""The record of a preemption that extenders have changed, as a Decision has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mooring.framework.status import PostFilterResult
from mooring.objects.pod import Pod


def record_problem(
    result: PostFilterResult,
    best: str,
    offer: Mapping[str, tuple[list[str], int]],
    costs: Mapping[str, tuple[float, ...]],
    pods: Mapping[str, Pod],
) -> str:
    """Returns what is wrong with a record; "" = nothing.

    Args:
        result: Of PostFilter.
        best: The node that is nominated; "" = none.
        offer: Node -> UIDs of the victims, and how many budgets they violate: what is left.
        costs: Node -> the criteria; the least one is best.
        pods: UID -> the pod.
    """
    if result.record is None:
        return "has no record of its preemption"
    candidates = {
        node: (_keys(uids, pods), violations) for node, (uids, violations) in sorted(offer.items())
    }
    acceptable = [node for node in candidates if costs[node] == costs[best]]
    victims = candidates[best][0] if best else []
    expected: Any = best or None, victims, list(candidates.items()), acceptable
    record = result.record()
    real = (
        record.nominated,
        list(record.victims),
        [(node, (list(it.victims), it.pdb_violations)) for node, it in record.candidates.items()],
        list(record.acceptable),
    )
    return "" if real == expected else f"has the record {real}, not {expected}"


def _keys(uids: list[str], pods: Mapping[str, Pod]) -> list[str]:
    metadata = [pods[uid].metadata for uid in uids]
    return sorted(f"{it.namespace}/{it.name}" for it in metadata)
