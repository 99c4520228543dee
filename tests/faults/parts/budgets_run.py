"""Budgets that come, change and go in several namespaces, and which of them a pod has.

The budgets of labels are remembered until a selector changes. The model loops over all budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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


#: A key, an operator, and values.
Expression = tuple[str, str, list[str]]
OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Like")
OPERATOR_WEIGHTS: Final = (3, 3, 3, 3, 1)


class BudgetsRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._more = seeded_random(seed + 1_000_000)
        self._cache = Cache()
        #: (namespace, name) -> the labels that its pods must have, None = it has no pods; how many
        #: disruptions it allows; which pods are being disrupted.
        self._budgets: dict[tuple[str, str], tuple[dict[str, str] | None, int, set[str]]] = {}
        #: The expressions of a budget: key, operator, values.
        self._expressions: dict[tuple[str, str], list[Expression]] = {}

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
        expressions = self._drawn_expressions()
        if place in self._budgets and rng.random() < 0.5:
            labels = self._budgets[place][0]  # its status changes
            expressions = self._expressions[place]
        self._expressions[place] = expressions
        allowed, disrupted = rng.randrange(3), set(rng.sample(NAMES, rng.randrange(3)))
        self._budgets[place] = labels, allowed, disrupted
        body: dict[str, Any] = {
            "metadata": {"namespace": namespace, "name": name},
            "spec": {} if labels is None else {"selector": _selector(labels, expressions)},
            "status": {
                "disruptionsAllowed": allowed,
                "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
            },
        }
        budget: PodDisruptionBudget = convert(body, KIND)
        self._cache.put_object(KIND, budget)

    def _drawn_expressions(self) -> list[Expression]:
        """Draws expressions, few of which are invalid."""
        rng = self._more
        return [
            (rng.choice(KEYS), operator, rng.sample(VALUES, rng.choice((1, 1, 2))))
            for operator in rng.choices(OPERATORS, OPERATOR_WEIGHTS, k=rng.choice((0, 0, 1, 2)))
        ]

    def _compare(self, namespace: str) -> None:
        """Compares the budgets of a pod with drawn labels."""
        labels = {key: self._rng.choice(VALUES) for key in KEYS if self._rng.random() < 0.6}
        expected = {
            (f"{place[0]}/{place[1]}", allowed, frozenset(disrupted))
            for place, (selected, allowed, disrupted) in self._budgets.items()
            if place[0] == namespace
            and selected is not None
            and _selects(selected, self._expressions[place], labels)
        }
        budgets = self._cache.budgets.of(namespace, frozenset(labels.items()))
        actual = [(it.name, it.disruptions_allowed, it.disrupted_pods) for it in budgets]
        if len(actual) != len(expected) or set(actual) != expected:
            self.problems.append(f"{namespace} {labels} has {actual}, not {sorted(expected)}")


def _selector(labels: dict[str, str], expressions: Sequence[Expression]) -> dict[str, Any]:
    """Returns a label selector as a document."""
    items = [
        {"key": key, "operator": operator, "values": [] if "xist" in operator else values}
        for key, operator, values in expressions
    ]
    return {"matchLabels": labels, **({"matchExpressions": items} if items else {})}


def _selects(
    selected: Mapping[str, str], expressions: Sequence[Expression], labels: Mapping[str, str]
) -> bool:
    """Returns whether a budget counts pods with these labels.

    One that selects all, or cannot be compiled, counts none, and none counts pods without labels.
    """
    if not labels or not (selected or expressions):
        return False
    tests: dict[str, Callable[[str, list[str]], bool]] = {
        "In": lambda key, values: labels.get(key) in values,
        "NotIn": lambda key, values: labels.get(key) not in values,
        "Exists": lambda key, _: key in labels,
        "DoesNotExist": lambda key, _: key not in labels,
    }
    if any(operator not in tests for _, operator, _ in expressions):
        return False
    matches = all(tests[operator](key, values) for key, operator, values in expressions)
    return matches and labels.items() >= selected.items()


def run_budgets(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a pod has other budgets than by the model.
    """
    run = BudgetsRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
