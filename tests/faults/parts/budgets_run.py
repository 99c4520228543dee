"""Budgets that come, change and go in several namespaces, and which of them a pod has.

The budgets of labels are remembered until a selector changes. The model loops over all budgets.
"""

from __future__ import annotations

from typing import Any, Final

from mooring.clock import seeded_random
from mooring.objects.codec.decode import convert
from mooring.objects.workloads import PodDisruptionBudget
from mooring.state.cache import Cache

STEPS: Final = 150
KIND: Final = "PodDisruptionBudget"
NAMESPACES: Final = ("default", "bank", "shop")
NAMES: Final = ("a", "b", "c")
VALUES: Final = ("web", "db")
KEYS: Final = ("app", "tier")


class BudgetsRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._cache = Cache()
        #: (namespace, name) -> the labels that its pods must have, None = it has no pods; how many
        #: disruptions it allows; which pods are being disrupted.
        self._budgets: dict[tuple[str, str], tuple[dict[str, str] | None, int, set[str]]] = {}

    def run(self) -> None:
        """Changes budgets, and asks for those of pods."""
        for _ in range(STEPS):
            place = self._rng.choice(NAMESPACES), self._rng.choice(NAMES)
            if self._rng.random() < 0.3:
                self._budgets.pop(place, None)
                self._cache.remove_object(KIND, "/".join(place))
            elif self._rng.random() < 0.5:
                self._put(*place)
            for namespace in NAMESPACES:
                self._compare(namespace)
            if self.problems:
                return

    def _put(self, namespace: str, name: str) -> None:
        rng, place = self._rng, (namespace, name)
        labels = rng.choice((None, {}, *({key: rng.choice(VALUES)} for key in KEYS)))
        if place in self._budgets and rng.random() < 0.5:
            labels = self._budgets[place][0]  # its status changes
        allowed, disrupted = rng.randrange(3), set(rng.sample(NAMES, rng.randrange(3)))
        self._budgets[place] = labels, allowed, disrupted
        body: dict[str, Any] = {
            "metadata": {"namespace": namespace, "name": name},
            "spec": {} if labels is None else {"selector": {"matchLabels": labels}},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
            },
        }
        budget: PodDisruptionBudget = convert(body, KIND)
        self._cache.put_object(KIND, budget)

    def _compare(self, namespace: str) -> None:
        """Compares the budgets of a pod with drawn labels."""
        labels = {key: self._rng.choice(VALUES) for key in KEYS if self._rng.random() < 0.6}
        expected = {
            (f"{place[0]}/{place[1]}", allowed, frozenset(disrupted))
            for place, (selected, allowed, disrupted) in self._budgets.items()
            if place[0] == namespace and selected and labels.items() >= selected.items()
        }
        budgets = self._cache.budgets.of(namespace, frozenset(labels.items()))
        actual = [(it.name, it.disruptions_allowed, it.disrupted_pods) for it in budgets]
        if len(actual) != len(expected) or set(actual) != expected:
            self.problems.append(f"{namespace} {labels} has {actual}, not {sorted(expected)}")


def run_budgets(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a pod has other budgets than by the model.
    """
    run = BudgetsRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
