"""Choices of victims among more nodes than candidates are searched for, with many budgets.

The clusters of ``choice_run`` have four nodes, and all of them are searched. Here there are up to
twelve nodes and few candidates; pods have labels of several budgets, which change between the
choices. All candidates are compared, with their order, not only the best of them.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from mooring.clock import seeded_random
from mooring.config.types import DefaultPreemptionArgs
from mooring.objects.codec.decode import convert
from mooring.objects.pod import Pod
from mooring.objects.workloads import PodDisruptionBudget
from tests.faults.harness.reference_preemption import Limits
from tests.faults.parts.choice_run import ChoiceRun

NODES: Final = tuple("abcdefghijkl")
TIERS: Final = ("front", "back")
BUDGETS_MAX: Final = 5


class LimitedChoiceRun(ChoiceRun):
    """One run."""

    n_choices = 20

    def __init__(self, seed: int) -> None:
        self._draws = draws = seeded_random(seed + 4)
        self.node_names = NODES[: draws.choice((3, 6, 12))]
        limits = Limits(draws.choice((10, 34, 50)), draws.choice((1, 1, 2, 3)))
        args = DefaultPreemptionArgs(
            min_candidate_nodes_percentage=limits.percent,
            min_candidate_nodes_absolute=limits.at_least,
        )
        self._n_budgets = draws.randrange(BUDGETS_MAX + 1)
        super().__init__(seed, args)
        self.model.limits = limits

    def _first_budgets(self) -> dict[str, PodDisruptionBudget]:
        """Draws budgets of an app, a tier, or both: a pod may have several of them."""
        names = [f"budget-{number}" for number in range(self._n_budgets)]
        budgets = map(self._budget, names)
        return {f"{it.metadata.namespace}/{it.metadata.name}": it for it in budgets}

    def _budget(self, name: str) -> PodDisruptionBudget:
        draws = self._draws
        labels = {"app": draws.choice("xyz"), "tier": draws.choice(TIERS)}
        for key in draws.choice(((), ("app",), ("tier",))):
            del labels[key]
        disrupted = [f"pod-{draws.randrange(40)}" for _ in range(draws.choice((0, 0, 3)))]
        body = {
            "metadata": {"name": name, "namespace": draws.choice(("default",) * 5 + ("other",))},
            "spec": {"selector": {"matchLabels": labels}},
            "status": {
                "disruptionsAllowed": draws.choice((0, 0, 1, 2)),
                "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
            },
        }
        budget: PodDisruptionBudget = convert(body, "PodDisruptionBudget")
        return budget

    def _pod(self, cpu: int, *, node: str = "", priority: int | None = None) -> Pod:
        pod = super()._pod(cpu, node=node, priority=priority)
        draws, metadata = self._draws, pod.metadata
        labels: dict[str, Any] = dict(metadata.labels)
        if draws.random() < 0.7:
            labels["tier"] = draws.choice(TIERS)
        if draws.random() < 0.1:
            labels = {}
        return replace(pod, metadata=replace(metadata, labels=labels))

    def _choose(self) -> None:
        """Changes a budget at times; then tries a preemptor."""
        draws = self._draws
        if draws.random() < 0.3 and self._n_budgets:
            name = f"budget-{draws.randrange(self._n_budgets)}"
            self._change(name)
        super()._choose()

    def _change(self, name: str) -> None:
        """Changes, moves or removes a budget."""
        budget = self._budget(name)
        for namespace in ("default", "other"):
            if self._budgets.pop(f"{namespace}/{name}", None) is not None:
                self._cache.remove_object("PodDisruptionBudget", f"{namespace}/{name}")
        if self._draws.random() < 0.8:
            self._budgets[f"{budget.metadata.namespace}/{name}"] = budget
            self._cache.put_object("PodDisruptionBudget", budget)


def run_limited_choice(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a choice differs from the reference.
    """
    choice = LimitedChoiceRun(seed)
    choice.run()
    assert not choice.problems, choice.problems[0]
