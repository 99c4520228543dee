"""PodDisruptionBudgets, as preemption reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mooring.objects.meta import key
from mooring.objects.selectors import NOTHING, Selector, SelectorError, compile_label_selector
from mooring.objects.workloads import PodDisruptionBudget
from mooring.state.columns.caches import LRUCache

#: Label classes whose budgets are cached; a cluster has fewer, but labels are arbitrary.
LABEL_CLASSES_CACHED: Final = 1 << 14

#: Namespace and labels of a pod.
_LabelClass = tuple[str, frozenset[tuple[str, str]]]


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget as preemption reads it.

    Attributes:
        name: Its namespace and name.
        selector: Selects the pods of the budget.
        disruptions_allowed: The number of pods that may be disrupted now.
        disrupted_pods: Names of pods that are being disrupted already, which do not count again.
    """

    name: str
    selector: Selector
    disruptions_allowed: int
    disrupted_pods: frozenset[str]


class Budgets:
    """The budgets by "namespace/name". Owned by the Cache.

    Source: framework/plugins/defaultpreemption/default_preemption.go (filterPodsWithPDBViolation).
    """

    def __init__(self) -> None:
        #: Namespace -> name -> budget.
        self._budgets: dict[str, dict[str, Budget]] = {}
        self._names_for: LRUCache[_LabelClass, tuple[str, ...]] = LRUCache(LABEL_CLASSES_CACHED)

    def __len__(self) -> int:
        """Returns the number of budgets."""
        return sum(map(len, self._budgets.values()))

    def put(self, obj: PodDisruptionBudget) -> None:
        """Adds or updates a budget. Complexity: O(1), unless its selector changed."""
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
        """Removes a budget. Unknown keys are ignored."""
        namespace, _, name = object_key.rpartition("/")
        of_namespace = self._budgets.get(namespace, {})
        if of_namespace.pop(name, None) is not None:
            self._names_for.clear()
        if not of_namespace:
            self._budgets.pop(namespace, None)

    def of(self, namespace: str, labels: frozenset[tuple[str, str]]) -> list[Budget]:
        """Returns the budgets of pods of a namespace with these labels; none without labels.

        Complexity: O(budgets of the namespace) the first time, then O(budgets returned).
        """
        of_namespace = self._budgets.get(namespace)
        if not of_namespace or not labels:
            return []
        label_class = namespace, labels
        names = self._names_for.recent(label_class)
        if names is None:
            names = self._names_for.put(label_class, _matching(of_namespace, dict(labels)))
        return [of_namespace[name] for name in names]


def _matching(budgets: Mapping[str, Budget], labels: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name, budget in budgets.items() if budget.selector.matches(labels))


def _selector(obj: PodDisruptionBudget) -> Selector:
    """Returns the selector of a budget; an empty or invalid selector selects nothing."""
    try:
        selector = compile_label_selector(obj.spec.selector)
    except SelectorError:
        return NOTHING
    return NOTHING if selector.selects_everything else selector
