"""PodDisruptionBudgets: how many pods of which kind may go at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mooring.objects.meta import key
from mooring.objects.selectors import NOTHING, Selector, SelectorError, compile_label_selector
from mooring.objects.workloads import PodDisruptionBudget

#: Kinds of pods whose budgets are remembered; a cluster has fewer, but labels may be anything.
KINDS_KEPT: Final = 1 << 14

#: Namespace and labels of a pod.
_Kind = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget as preemption reads it.

    Attributes:
        name: Its namespace and name.
        selector: The pods that it is about.
        disruptions_allowed: How many of them may go now.
        disrupted_pods: Names of those that are on their way already, and count no more.
    """

    name: str
    selector: Selector
    disruptions_allowed: int
    disrupted_pods: frozenset[str]


class Budgets:
    """The budgets by "namespace/name". The Cache is the one owner.

    Source: framework/plugins/defaultpreemption/default_preemption.go (filterPodsWithPDBViolation).
    """

    def __init__(self) -> None:
        #: Namespace -> name -> budget.
        self._budgets: dict[str, dict[str, Budget]] = {}
        self._names_for: dict[_Kind, tuple[str, ...]] = {}

    def __len__(self) -> int:
        """How many are known."""
        return sum(map(len, self._budgets.values()))

    def put(self, obj: PodDisruptionBudget) -> None:
        """A budget is new or changed. Complexity: O(1), unless its selector is another one."""
        metadata, status = obj.metadata, obj.status
        of_namespace = self._budgets.setdefault(metadata.namespace, {})
        before = of_namespace.get(metadata.name)
        budget = Budget(
            key(obj), _selector(obj), status.disruptions_allowed, frozenset(status.disrupted_pods)
        )
        of_namespace[metadata.name] = budget
        if before is None or before.selector != budget.selector:
            self._names_for.clear()

    def remove(self, _kind: str, object_key: str) -> None:
        """The budget is gone. Unknown ones are fine."""
        namespace, _, name = object_key.rpartition("/")
        of_namespace = self._budgets.get(namespace, {})
        if of_namespace.pop(name, None) is not None:
            self._names_for.clear()
        if not of_namespace:
            self._budgets.pop(namespace, None)

    def of(self, namespace: str, labels: frozenset[tuple[str, str]]) -> list[Budget]:
        """The budgets for pods of a namespace with these labels; those without any have none.

        Complexity: O(budgets of the namespace) the first time, then O(those found).
        """
        of_namespace = self._budgets.get(namespace)
        if not of_namespace or not labels:
            return []
        kind = namespace, labels
        names = self._names_for.get(kind)
        if names is None:
            if len(self._names_for) >= KINDS_KEPT:
                self._names_for.clear()
            names = self._names_for[kind] = _matching(of_namespace, dict(labels))
        return [of_namespace[name] for name in names]


def _matching(budgets: Mapping[str, Budget], labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name, budget in budgets.items() if budget.selector.matches(labels))


def _selector(obj: PodDisruptionBudget) -> Selector:
    """What the budget selects; an empty selector, and one that is no selector, select nothing."""
    try:
        selector = compile_label_selector(obj.spec.selector)
    except SelectorError:
        return NOTHING
    return NOTHING if selector.selects_everything else selector
