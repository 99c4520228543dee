"""Choices of victims on full nodes, beside the reference choice.

A run of the whole system has few preemptions, mostly of one victim. Here each pod of a random
cluster is a preemptor: nodes have up to eight pods of several priorities and times of start,
nominated pods, and budgets that allow some disruptions.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.framework import Diagnosis
from mooring.framework.runtime.attempt import Attempt
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.objects.codec.decode import convert
from mooring.objects.pod import Pod
from mooring.objects.workloads import PodDisruptionBudget
from mooring.plugins.default_preemption import DefaultPreemption
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.simulation.offline import OfflineHandle
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node, make_pod
from tests.faults.twins.attached_choice import AttachedChoice

NODES: Final = ("a", "b", "c", "d")
CPU: Final = 6
CHOICES: Final = 6


class ChoiceRun:
    """One run.

    Attributes:
        problems: Differences to the reference.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = rng = seeded_random(seed)
        self._count = 0
        #: The priorities, the times of start and the labels of the run.
        self._priorities = rng.choice(((0,), (0, 5), (-10, 0, 5, 50)))
        self._minutes = rng.choice(((1,), (1, 2, 3), (1, 2, 3, None)))
        cache = Cache()
        nodes = [make_node(name, allocatable={"cpu": str(CPU), "pods": "20"}) for name in NODES]
        handle = OfflineHandle(cache, VirtualClock(), seeded_random(seed + 1))
        plugin = DefaultPreemption(None, handle)
        self._harness = Harness(nodes, [NodeResourcesFit(), plugin])
        self._harness.cache = self._cache = cache
        for node in nodes:
            cache.put_node(node)
        budgets = {f"default/{name}": _budget(rng, name) for name in "xyz" if rng.random() < 0.5}
        for budget in budgets.values():
            cache.put_object("PodDisruptionBudget", budget)
        service: Any = SimpleNamespace(
            cache=cache,
            profiles={"": self._harness.framework},
            informers={"PodDisruptionBudget": SimpleNamespace(objects=budgets)},
        )
        self._plugin = plugin
        self.model = AttachedChoice(service, self.problems.append)

    def run(self) -> None:
        """Fills the nodes, and tries preemptors, whose victims go."""
        for node in NODES:
            self._fill(node)
        for _ in range(CHOICES):
            self._choose()

    def _fill(self, node: str) -> None:
        """Places pods on a node until it is full, mostly."""
        left = CPU
        while left > 0 and self._rng.random() < 0.97:
            cpu = self._rng.choice((1, 1, 1, 2))
            if cpu <= left:
                left -= cpu
                self._cache.put_pod(self._pod(cpu, node=node))

    def _pod(self, cpu: int, *, node: str = "", priority: int | None = None) -> Pod:
        rng = self._rng
        self._count += 1
        value = rng.choice(self._priorities) if priority is None else priority
        status: dict[str, Any] = {}
        if node and (minute := rng.choice(self._minutes)) is not None:
            status["startTime"] = f"2026-01-01T00:{minute:02}:00Z"
        name = f"pod-{self._count}"
        return make_pod(
            name,
            uid=name,
            node=node,
            requests={"cpu": str(cpu)},
            labels={"app": rng.choice("xyz")},
            priority=value,
            status=status,
        )

    def _choose(self) -> None:
        """Tries a preemptor; its victims leave, and it is nominated or placed."""
        rng = self._rng
        pod = self._pod(rng.choice((1, 2, 3, 4)), priority=rng.choice((0, 5, 20, 100)))
        info = PodInfo(pod)
        snapshot = self._cache.snapshot()
        cycle = self._harness.framework.new_cycle(info, snapshot)
        diagnosis = schedule_pod(self._harness.framework, cycle, Attempt(snapshot))
        if not isinstance(diagnosis, Diagnosis):
            return
        post_filter: Any = self._plugin.post_filter
        self.model._calls = -1  # each choice is compared
        result = post_filter(cycle, diagnosis)
        for victim in result.victims:
            self._cache.remove_pod(victim.uid)
        if result.node_name and rng.random() < 0.5:
            self._cache.nominator.nominate(info, result.node_name)
        elif result.node_name:
            self._cache.put_pod(info.on_node(result.node_name).pod)


def _budget(rng: Rng, app: str) -> PodDisruptionBudget:
    """Returns a budget for the pods of an app, which may be of another namespace."""
    body = {
        "metadata": {"name": app, "namespace": rng.choice(("default", "default", "other"))},
        "spec": {"selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": rng.choice((0, 1, 1, 2, 3))},
    }
    budget: PodDisruptionBudget = convert(body, "PodDisruptionBudget")
    return budget


def run_choice(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a choice differs from the reference.
    """
    choice = ChoiceRun(seed)
    choice.run()
    assert not choice.problems, choice.problems[0]
