"""Pods on nodes that are not there: a copy of the cluster that nodes are added to, and taken from.

The copy follows the cluster, and asks the scheduler's own filters. Whatever is tried is undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from mooring.clock import VirtualClock, seeded_random
from mooring.config import default_configuration
from mooring.objects.meta import key
from mooring.objects.node import Node
from mooring.objects.pod import FINISHED_PHASES, Pod
from mooring.objects.requests import allocatable_units, pod_requests, scheduler_units
from mooring.scenario.object_reader import named_node
from mooring.simulation.driver import Driver
from mooring.simulation.inputs.unsupported import without_extenders
from mooring.simulation.outcome import Outcome

if TYPE_CHECKING:
    from mooring.client import ObjectChange
    from mooring.scenario.scenario import Scenario

_PACKED = ("cpu", "memory")


class Packing(NamedTuple):
    """Pods packed onto new nodes of one template.

    Attributes:
        n_nodes: Number of nodes.
        pods: Keys of the pods on them.
        refused: The other pods, and why an empty node does not take them.
        waste: The mean free share (0..1) of cpu and memory of the nodes.
    """

    n_nodes: int
    pods: Sequence[str]
    refused: Sequence[tuple[Pod, str]]
    waste: float


class TemplateNodes:
    """A copy of the cluster.

    Args:
        scenario: Gives the configuration of the scheduler.
        objects: The objects of the cluster at the start.
    """

    def __init__(self, scenario: Scenario, objects: Iterable[Any]) -> None:
        config = without_extenders(scenario.config or default_configuration())
        self._driver = Driver(
            [obj for obj in objects if not _is_finished(obj)],
            config=config,
            plugins=scenario.plugins,
            rng=seeded_random(scenario.seed),
            clock=VirtualClock(),
            gates=scenario.gates,
        )
        self._numbers = 0

    def on_change(self, kind: str, change: ObjectChange) -> None:
        """Follows the cluster."""
        obj = change.new if change.new is not None else change.old
        if kind == "Pod" and not obj.spec.node_name:
            return  # pods that wait are tried, never kept
        namespace, name = obj.metadata.namespace, obj.metadata.name
        if change.new is None or _is_finished(change.new):
            if change.old is not None and not _is_finished(change.old):
                self._driver.remove(kind, namespace, name)
        elif kind == "Pod" and (change.old is None or not change.old.spec.node_name):
            self._driver.place(obj, obj.spec.node_name)
        else:
            self._driver.update(obj)

    # -- questions --------------------------------------------------------------------------------

    def size_of(self, pod: Pod) -> tuple[int, int]:
        """Returns the requests for cpu (millicores) and memory (bytes)."""
        amounts = scheduler_units(pod_requests(pod))
        return amounts.get("cpu", 0), amounts.get("memory", 0)

    def left_over(self, pods: Sequence[Pod], coming: Sequence[tuple[str, Node]]) -> list[Pod]:
        """Returns the pods that fit neither on the nodes nor on those that come already."""
        with self._trial() as trial:
            for name, template in coming:
                trial.add_node(named_node(template, name))
            return [pod for pod in pods if trial.place(pod) is None]

    def pack(self, template: Node, group: str, pods: Sequence[Pod], count_max: int) -> Packing:
        """Packs pods onto new nodes, in their order: the first of them that takes a pod.

        Args:
            template: The node.
            group: For names.
            pods: In order.
            count_max: The most nodes.
        """
        refused: list[tuple[Pod, str]] = []
        packed: list[str] = []
        why_of: dict[int, str] = {}
        with self._trial() as trial:
            added: dict[str, list[Pod]] = {}
            for pod in pods:
                why = why_of.get(id(pod.spec), "")
                node = None if why else trial.place(pod)
                if node is None and not why:
                    node, why = self._on_new_node(trial, template, group, pod, added, count_max)
                if node in added:
                    packed.append(key(pod))
                    added[node].append(pod)
                elif node is None:
                    why_of[id(pod.spec)] = why
                    refused.append((pod, why))
            used = [self.utilization(template, own, mean=True) for own in added.values()]
        waste = 1 - sum(used) / len(used) if used else 0.0
        return Packing(len(added), packed, refused, waste)

    def _on_new_node(
        self,
        trial: _Trial,
        template: Node,
        group: str,
        pod: Pod,
        added: dict[str, list[Pod]],
        count_max: int,
    ) -> tuple[str | None, str]:
        """Tries a pod on one more node; returns the node, or why it would not help."""
        if len(added) >= count_max:
            return None, f"would have more than its {count_max} further nodes"
        self._numbers += 1
        name = f"{group}-template-{self._numbers}"
        trial.add_node(named_node(template, name))
        outcome = trial.attempt(pod)
        if outcome.node == name:
            trial.keep(pod, name)
            added[name] = []
            return name, ""
        trial.remove_node(name)
        return None, _reason(outcome, name)

    def utilization(self, node: Node, pods: Iterable[Pod], *, mean: bool = False) -> float:
        """Returns requests / allocatable, the larger of cpu and memory, or their mean; 0..1."""
        allocatable = allocatable_units(node.status.allocatable)
        sizes = [scheduler_units(pod_requests(pod)) for pod in pods]
        shares = [
            sum(size.get(name, 0) for size in sizes) / allocatable[name]
            for name in _PACKED
            if allocatable.get(name)
        ]
        if not shares:
            return 0.0
        return sum(shares) / len(shares) if mean else max(shares)

    def removable(self, pods_of: Mapping[str, Sequence[Pod]]) -> list[str]:
        """Returns the nodes that can go together, as the pods of all of them fit on the others.

        Args:
            pods_of: Node -> its pods that must move. A node that comes earlier goes first.
        """
        if not any(pods_of.values()):
            return [*pods_of]
        with self._trial() as trial:
            return [name for name, pods in pods_of.items() if trial.leave(name, pods)]

    @contextmanager
    def _trial(self) -> Iterator[_Trial]:
        trial = _Trial(self._driver)
        try:
            yield trial
        finally:
            trial.undo()


class _Trial:
    """Changes of the copy that are undone."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._nodes: dict[str, None] = {}
        self._pods: list[Pod] = []
        self._left: list[tuple[Node, Sequence[Pod]]] = []

    def add_node(self, node: Node) -> None:
        self._nodes[node.metadata.name] = None
        self._driver.update(node)

    def remove_node(self, name: str) -> None:
        del self._nodes[name]
        self._driver.remove("Node", "", name)

    def attempt(self, pod: Pod) -> Outcome:
        return self._driver.attempt(pod, explain=True)

    def place(self, pod: Pod) -> str | None:
        """Places a pod where the scheduler would; returns the node, None = there is none."""
        outcome = self._driver.attempt(pod)
        if outcome.node is not None:
            self.keep(pod, outcome.node)
        return outcome.node

    def keep(self, pod: Pod, node: str) -> None:
        placed = replace(pod, spec=replace(pod.spec, node_name=node))
        self._driver.place(placed, node)
        self._pods.append(placed)

    def leave(self, node_name: str, pods: Sequence[Pod]) -> bool:
        """Moves the pods of a node to others, if all fit there; it takes no pods then.

        Pods that the trial has moved to it move on.
        """
        node = self._driver.listers.lister("Node").get(node_name)
        assert isinstance(node, Node)
        moved = [pod for pod in self._pods if pod.spec.node_name == node_name]
        before = [pod for pod in self._pods if pod.spec.node_name != node_name]
        for pod in (*pods, *moved):
            self._driver.remove("Pod", pod.metadata.namespace, pod.metadata.name)
        self._driver.update(_closed(node))
        self._pods = [*before]
        if all(self.place(_unbound(pod)) is not None for pod in (*pods, *moved)):
            self._left.append((node, pods))
            return True
        for pod in self._pods[len(before) :]:
            self._driver.remove("Pod", pod.metadata.namespace, pod.metadata.name)
        self._pods = [*before, *moved]
        self._put_back(node, (*pods, *moved))
        return False

    def undo(self) -> None:
        for pod in self._pods:
            self._driver.remove("Pod", pod.metadata.namespace, pod.metadata.name)
        for name in self._nodes:
            self._driver.remove("Node", "", name)
        for node, pods in self._left:
            self._put_back(node, pods)

    def _put_back(self, node: Node, pods: Sequence[Pod]) -> None:
        self._driver.update(node)
        for pod in pods:
            self._driver.place(pod, pod.spec.node_name)


def _closed(node: Node) -> Node:
    """Returns a node that no pod fits on, whatever it tolerates."""
    status = replace(node.status, allocatable={**node.status.allocatable, "pods": "0"})
    return replace(node, spec=replace(node.spec, unschedulable=True), status=status)


def _unbound(pod: Pod) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=""))


def _is_finished(obj: Any) -> bool:
    return isinstance(obj, Pod) and obj.status.phase in FINISHED_PHASES


def _reason(outcome: Outcome, node_name: str) -> str:
    """Returns why a node refused a pod; the message of all nodes if it was not looked at."""
    rejection = outcome.decision().rejected.get(node_name)
    if rejection is None:
        return outcome.message
    return ", ".join(rejection.reasons) if rejection.reasons else rejection.plugin
