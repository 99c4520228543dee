"""The budgets whose status must be calculated again.

A driver passes changes on, takes the next status, and writes it::

    change ──> on_change ──> queue ──> next_status ──> write of the driver ──> change
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from mooring.objects.meta import key
from mooring.objects.selectors import NOTHING, Selector, SelectorError, compile_label_selector
from mooring.simulation.controllers.disruption.status import (
    Calculated,
    FindWorkload,
    SyncFailure,
    calculate,
    failed,
)
from mooring.simulation.controllers.workload_pods import is_ready

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.objects.pod import Pod
    from mooring.objects.workloads import PodDisruptionBudget

BUDGET = "PodDisruptionBudget"


class NewStatus(NamedTuple):
    """A budget and its status.

    Attributes:
        budget: As it is.
        calculated: Its new status, which may be equal to the old one.
        pod_count: The number of pods that it selects.
        failure: Why the status could not be calculated; None = it could.
    """

    budget: PodDisruptionBudget
    calculated: Calculated
    pod_count: int
    failure: SyncFailure | None = None


class _Entry:
    """A budget with its compiled selector and the pods that it selects, by key."""

    __slots__ = ("budget", "pods", "selector")

    def __init__(self, budget: PodDisruptionBudget, selector: Selector) -> None:
        self.budget = budget
        self.selector = selector
        self.pods: dict[str, Pod] = {}


class Budgets:
    """Budgets, their pods, and a queue. Owned by a driver.

    As in kube-controller-manager, changes of workloads alone queue nothing: their pods change soon.

    Args:
        find: Finds the workloads that control pods.
    """

    def __init__(self, find: FindWorkload) -> None:
        self._find = find
        #: Namespace -> name -> budget.
        self._entries: dict[str, dict[str, _Entry]] = {}
        #: Namespace -> key -> pod.
        self._pods: dict[str, dict[str, Pod]] = {}
        self._queue: dict[str, None] = {}

    @property
    def has_work(self) -> bool:
        """True if a budget is queued."""
        return bool(self._queue)

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Stores a change of a pod or a budget, and queues the budgets that it concerns.

        Complexity: O(budgets of the namespace); of a new budget O(pods of the namespace).
        """
        if kind == BUDGET:
            self._on_budget(change.old, change.new)
        elif kind == "Pod":
            self._on_pod(change.old, change.new)

    def add(self, budget_key: str) -> None:
        """Queues a budget."""
        self._queue[budget_key] = None

    def selects(self, pod: Pod) -> bool:
        """Returns whether any budget selects a pod."""
        return bool(self.names_of(pod))

    def names_of(self, pod: Pod) -> list[str]:
        """Returns the names of the budgets that select a pod, the oldest first."""
        entries = self._entries.get(pod.metadata.namespace, {})
        return [
            name for name, entry in entries.items() if entry.selector.matches(pod.metadata.labels)
        ]

    def next_status(self, now_s: float) -> NewStatus | None:
        """Takes the next budget and returns its status; None = the queue is empty.

        Args:
            now_s: The wall clock.
        """
        while self._queue:
            budget_key = next(iter(self._queue))
            del self._queue[budget_key]
            namespace, _, name = budget_key.partition("/")
            entry = self._entries.get(namespace, {}).get(name)
            if entry is None:
                continue
            budget, pod_count = entry.budget, len(entry.pods)
            try:
                result = calculate(budget, [*entry.pods.values()], self._find, now_s)
            except SyncFailure as failure:
                return NewStatus(budget, failed(budget, failure, now_s), pod_count, failure)
            return NewStatus(budget, result, pod_count)
        return None

    def _on_budget(self, old: PodDisruptionBudget | None, new: PodDisruptionBudget | None) -> None:
        if new is None:
            if old is not None:
                self._entries.get(old.metadata.namespace, {}).pop(old.metadata.name, None)
            return
        namespace, name = new.metadata.namespace, new.metadata.name
        entries = self._entries.setdefault(namespace, {})
        entry = entries.get(name)
        if entry is None or entry.budget.spec.selector != new.spec.selector:
            entry = entries[name] = _Entry(new, _selector(new))
            entry.pods = {
                pod_key: pod
                for pod_key, pod in self._pods.get(namespace, {}).items()
                if entry.selector.matches(pod.metadata.labels)
            }
        entry.budget = new
        self.add(key(new))

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        pod = new if new is not None else old
        if pod is None:
            return
        namespace, pod_key = pod.metadata.namespace, key(pod)
        pods = self._pods.setdefault(namespace, {})
        if new is None:
            pods.pop(pod_key, None)
        else:
            pods[pod_key] = new
        counts_alike = old is not None and new is not None and _counts_alike(old, new)
        for entry in self._entries.get(namespace, {}).values():
            was_selected = entry.pods.pop(pod_key, None) is not None
            is_selected = new is not None and entry.selector.matches(pod.metadata.labels)
            if new is not None and is_selected:
                entry.pods[pod_key] = new
            if was_selected != is_selected or (is_selected and not counts_alike):
                self.add(key(entry.budget))


def _counts_alike(old: Pod, new: Pod) -> bool:
    """Returns whether a pod counts as before: a binding changes nothing, for example."""
    return (
        old.metadata.uid == new.metadata.uid
        and old.metadata.deletion_timestamp == new.metadata.deletion_timestamp
        and old.metadata.owner_references == new.metadata.owner_references
        and is_ready(old) == is_ready(new)
    )


def _selector(budget: PodDisruptionBudget) -> Selector:
    """Returns the selector of a budget; an invalid one selects nothing."""
    try:
        return compile_label_selector(budget.spec.selector)
    except SelectorError:
        return NOTHING
