"""S6: only necessary victims of lower priority are evicted; protected pods only as a last resort.

Like the other checkers it shares no code with the plugin: it uses the reference check.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mooring.framework import Code, Diagnosis
from mooring.framework.status import PostFilterResult
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.state.cache import Cache
from tests.faults.harness.reference_fit import fit_error, host_ports_of


class Evictions:
    """The evictions that the scheduler has decided: victims and their preemptors."""

    def __init__(self) -> None:
        self._preemptors: dict[str, list[str]] = {}

    def note(self, victim_uid: str, preemptor_uid: str) -> None:
        """Records a decided eviction."""
        self._preemptors.setdefault(victim_uid, []).append(preemptor_uid)

    def missing_evictions(self, pods: Mapping[str, Pod]) -> Iterator[str]:
        """Yields victims that were not evicted while their preemptor is still nominated."""
        for uid, preemptors in self._preemptors.items():
            victim = pods.get(uid)
            if victim is None or victim.metadata.deletion_timestamp is not None:
                continue
            for waiting in (pods[preemptor] for preemptor in preemptors if preemptor in pods):
                is_nominated = waiting.status.nominated_node_name == victim.spec.node_name
                if is_nominated and victim.spec.node_name and not waiting.spec.node_name:
                    yield f"{key(waiting)} needs an eviction that was not started: {key(victim)}"

    def victims_of(self, preemptor_uid: str) -> set[str]:
        """Returns the UIDs of the victims of a preemptor."""
        return {uid for uid, of in self._preemptors.items() if preemptor_uid in of}

    def has(self, victim_uid: str) -> bool:
        """Returns whether the eviction of the pod was decided."""
        return victim_uid in self._preemptors


def repeated_evictions(
    pod: PodInfo, diagnosis: Diagnosis | None, evictions: Evictions, cache: Cache
) -> Iterator[str]:
    """Yields earlier victims of a preemptor that still leave the node it is nominated to.

    Their node will be free for it: it must not evict others, unless the node has become impossible.
    A victim that was deleted for another reason has no such condition, and does not count
    (podTerminatingByPreemption in default_preemption.go).
    """
    name = cache.nominator.node_of(pod.uid)
    row = cache.nodes.live_row(name) if name else -1
    status = diagnosis.status_of(name) if diagnosis is not None and name else None
    if row < 0 or status is None or status.code is not Code.UNSCHEDULABLE:
        return
    earlier = evictions.victims_of(pod.uid)
    for placed in cache.pods.on_row(row):
        victim = placed.info
        if victim.uid in earlier and _leaves_by_preemption(victim.pod):
            yield f"{pod.key} evicts again, but its victim {victim.key} is leaving {name}"


def _leaves_by_preemption(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None and any(
        condition.reason == "PreemptionByScheduler" for condition in pod.status.conditions
    )


def missing_victims(result: PostFilterResult, cache: Cache) -> Iterator[str]:
    """Yields victims that are not on the node, when their eviction begins."""
    row = cache.nodes.live_row(result.node_name or "")
    for victim in result.victims:
        placed = cache.pods.get(victim.uid)
        if row < 0 or placed is None or placed.row != row:
            yield f"its victim {victim.key} is not on {result.node_name} any more"


def unjustified_evictions(pod: PodInfo, result: PostFilterResult, cache: Cache) -> Iterator[str]:
    """Yields problems of a preemption, on the state of the decision."""
    name = result.node_name or ""
    row = cache.nodes.live_row(name)
    if row < 0:
        yield f"{pod.key} is nominated to {name}, which does not exist"
        return
    node = cache.nodes.node(row)
    here = {placed.info.uid: placed.info for placed in cache.pods.on_row(row)}
    for victim in result.victims:
        if victim.uid not in here:
            yield f"{victim.key} is a victim on {name}, but is not there"
        if victim.priority >= pod.priority:
            yield f"{victim.key} ({victim.priority}) is a victim of {pod.key} ({pod.priority})"
    nominated_pods = [
        other.pod
        for other in cache.nominator.pods_on(name)
        if other.priority >= pod.priority and other.uid != pod.uid
    ]
    victim_uids = {victim.uid for victim in result.victims}
    stay = [other.pod for uid, other in here.items() if uid not in victim_uids]
    why = fit_error(pod.pod, node, [*stay, *nominated_pods])
    if why and not (why.startswith("ports") and _free_ports_of(pod, result.victims)):
        yield f"{pod.key} does not fit {name} without its victims: {why}"
    for victim in result.victims:
        if not fit_error(pod.pod, node, [*stay, *nominated_pods, victim.pod]):
            yield f"{victim.key} need not be evicted from {name} for {pod.key}"
    if _exceeded_budgets(result.victims, cache):
        yield from _protected_victims(pod, node, list(here.values()), nominated_pods, cache)


def _free_ports_of(pod: PodInfo, victims: Iterable[PodInfo]) -> bool:
    """Returns whether a victim uses a host port that the pod requests.

    Upstream's ports in use are a set: the removal of a victim frees its port, although another pod
    uses the same one (another scheduler has placed both). The decision follows upstream.
    """
    requested = set(host_ports_of(pod.pod))
    return any(requested.intersection(host_ports_of(victim.pod)) for victim in victims)


def _protected_victims(
    pod: PodInfo, node: Node, here: list[PodInfo], nominated_pods: list[Pod], cache: Cache
) -> Iterator[str]:
    """Yields a problem if evicting all pods without a budget would be enough."""
    remaining = [
        other.pod
        for other in here
        if other.priority >= pod.priority or _has_budget(other.pod, cache)
    ]
    if not fit_error(pod.pod, node, [*remaining, *nominated_pods]):
        yield f"{node.metadata.name} fits {pod.key} without evicting a protected pod"


def _budgets_of(pod: Pod, cache: Cache) -> list[Any]:
    labels = frozenset(pod.metadata.labels.items())
    return list(cache.budgets.of(pod.metadata.namespace, labels))


def _has_budget(pod: Pod, cache: Cache) -> bool:
    return bool(_budgets_of(pod, cache))


def _exceeded_budgets(victims: Iterable[PodInfo], cache: Cache) -> bool:
    """Returns whether more pods of a budget are victims than it allows to be disrupted."""
    counts: Counter[int] = Counter()
    allowed: dict[int, int] = {}
    for victim in victims:
        for budget in _budgets_of(victim.pod, cache):
            counts[id(budget)] += 1
            allowed[id(budget)] = budget.disruptions_allowed
    return any(count > allowed[budget] for budget, count in counts.items())


def budget_paths(result: PostFilterResult, cache: Cache) -> Iterator[str]:
    """Yields what a preemption does to budgets, for the counters."""
    if not any(_has_budget(victim.pod, cache) for victim in result.victims):
        yield "budget respected"
    elif _exceeded_budgets(result.victims, cache):
        yield "budget violated"
    else:
        yield "budget used"
