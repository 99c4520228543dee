"""Explains preemption: its victims and their budgets, or why it does not help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from mooring.decision import Decision, Preemption
from mooring.explain.reasons.case import Case, count_text, names_text
from mooring.explain.rejections import examples
from mooring.state import PodInfo

#: The code of a rejection that preemption may resolve.
RESOLVABLE: Final = "Unschedulable"

#: Budgets listed.
BUDGETS_SHOWN: Final = 4


def preemption_lines(decision: Decision, case: Case | None) -> Iterator[str]:
    """Yields the result of preemption, with what it depends on."""
    preemption = decision.preemption
    if preemption is None:
        lines = [] if case is None else list(_not_eligible(case))
        if lines:
            yield from ("", *lines)
        return
    yield ""
    if preemption.nominated is None:
        yield "Preemption was tried: it makes no node feasible."
        if case is not None:
            yield from _no_victims(decision, case)
        return
    victims = ", ".join(preemption.victims)
    yield f"Preemption on {preemption.nominated} evicts: {victims}."
    if case is not None:
        yield from _budgets(case, preemption)
    others = [node for node in preemption.candidates if node != preemption.nominated]
    if others:
        yield f"  Other candidates: {examples(others)}"


def _not_eligible(case: Case) -> Iterator[str]:
    """Yields why the pod must not preempt."""
    if case.pod.spec.preemption_policy == "Never":
        yield "Preemption was not tried: preemptionPolicy of the pod is Never."
        return
    name = case.pod.status.nominated_node_name
    terminating = [
        info.key
        for info in case.pods_on(name)
        if info.metadata.deletion_timestamp is not None and info.priority < case.info.priority
    ]
    if terminating:
        yield (
            f"Preemption was not tried: on {name}, to which the pod is nominated,"
            f" {names_text(terminating)} of a lower priority is being deleted."
        )


def _no_victims(decision: Decision, case: Case) -> Iterator[str]:
    resolvable = [
        name for name, rejection in decision.rejected.items() if rejection.code == RESOLVABLE
    ]
    final = len(decision.rejected) - len(resolvable)
    if final:
        yield f"  On {count_text(final, 'node')} no eviction can resolve the rejection."
    lower = {name: _lower(case, name) for name in resolvable}
    without = [name for name, pods in lower.items() if not pods]
    if without:
        yield (
            f"  On {count_text(len(without), 'node')} no pod has a lower priority than"
            f" {case.info.priority}: {names_text(without)}."
        )
    for name, pods in list(lower.items())[:BUDGETS_SHOWN]:
        if pods:
            keys = names_text([info.key for info in pods])
            yield f"  On {name} not even the eviction of all pods of lower priority helps: {keys}."


def _lower(case: Case, name: str) -> list[PodInfo]:
    """Returns the pods of a node that the pod may preempt."""
    return [info for info in case.pods_on(name) if info.priority < case.info.priority]


def _budgets(case: Case, preemption: Preemption) -> Iterator[str]:
    """Yields the budgets of the victims, and those because of which other nodes were not chosen."""
    by_key = {info.key: info for info in case.pods}
    yield from _budget_lines(case, preemption.victims, by_key, "")
    for name, candidate in list(preemption.candidates.items())[:BUDGETS_SHOWN]:
        if name != preemption.nominated and candidate.pdb_violations:
            yield from _budget_lines(case, candidate.victims, by_key, f" on {name}")


def _budget_lines(
    case: Case, victims: tuple[str, ...], by_key: Mapping[str, PodInfo], where: str
) -> Iterator[str]:
    for victim in victims:
        info = by_key.get(victim)
        if info is None:
            continue
        labels = frozenset(info.metadata.labels.items())
        for budget in case.snapshot.budgets.of(info.metadata.namespace, labels):
            allowed = budget.disruptions_allowed
            effect = "violates" if allowed < 1 else "counts against"
            yield (
                f"  The eviction of {victim}{where} {effect} budget {budget.name},"
                f" which allows {count_text(allowed, 'disruption')} now."
            )
