"""Filters on nodes without victims, and with nominated pods, beside sums in plain Python.

Plugins of every form weigh the pods of a node: by one pod at a time, by the changes of many nodes,
or by what the view says. Weights may be negative, so that a node may fit only with a nominated pod.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final

import numpy as np

from mooring.framework import Cycle, FilterStatuses, NodeView, Reject
from mooring.framework.runtime.evaluate import filter_nodes_without_victims
from mooring.framework.runtime.nominated import (
    filter_with_nominated_pods,
    filters_reading_pods,
    nominated_pods_by_row,
)
from mooring.state import Change, PodInfo
from mooring.testing import Harness, make_node, make_pod

NODES: Final = ("a", "b", "c", "d")
WEIGHTS: Final = (-3, -1, 0, 1, 1, 2, 4)
LIMITS: Final = (0, 1, 3, 5)
PRIORITIES: Final = (0, 5, 9)
PRIORITY: Final = 5
#: What filters read; None = they do not say so.
READS: Final = (None, Change.USAGE, Change.PORTS, Change.LABELS, Change.LABELS | Change.PORTS)
OF_PODS: Final = Change.USAGE | Change.PORTS
#: Node -> its pods.
Pods = Mapping[str, Sequence[PodInfo]]


def _weight(pods: Sequence[PodInfo]) -> int:
    return sum(int(pod.metadata.labels["weight"]) for pod in pods)


class Weighing:
    """A filter that rejects nodes whose pods weigh more than a limit."""

    def __init__(self, name: str, limit: int, pods: Pods, reads: Change | None) -> None:
        self.name = name
        self.limit = limit
        self._pods = pods
        if reads is not None:
            self.reads = reads

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Returns the status of each node."""
        weights = [self.weight(cycle, nodes, at) for at in range(len(nodes))]
        return FilterStatuses.of(
            [Reject(f"{it} of {self.limit}") if it > self.limit else None for it in weights]
        )

    def weight(self, cycle: Cycle, nodes: NodeView, at: int) -> int:
        """Returns the weight of a node, by the view."""
        del cycle
        added, removed = nodes.added[at], nodes.removed[at]
        return _weight(self._pods[nodes.names[at]]) + _weight(added) - _weight(removed)


class WeighingOnce(Weighing):
    """Weighs all nodes in PreFilter, without the changes of a view."""

    def pre_filter(self, cycle: Cycle) -> None:
        """Stores the weight of each node."""
        cycle[self] = {name: _weight(pods) for name, pods in self._pods.items()}

    def weight(self, cycle: Cycle, nodes: NodeView, at: int) -> int:
        """Returns the weight of a node, by the state."""
        weight: int = cycle[self][nodes.names[at]]
        return weight


class WeighingNodes(WeighingOnce):
    """Changes the weights of many nodes at once."""

    def apply_deltas(self, cycle: Cycle, state: Any, nodes: NodeView) -> Any:
        """Returns the weights with the pods of the view."""
        del cycle
        changes = {
            name: _weight(nodes.added[at]) - _weight(nodes.removed[at])
            for at, name in enumerate(nodes.names)
        }
        return {name: weight + changes.get(name, 0) for name, weight in state.items()}


class WeighingPods(WeighingOnce):
    """Changes the weight of a node by one pod."""

    def add_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: Any) -> Any:
        """Returns the weights with one more pod."""
        del cycle
        return {**state, node.name: state[node.name] + _weight([pod])}

    def remove_pod(self, cycle: Cycle, state: Any, pod: PodInfo, node: Any) -> Any:
        """Returns the weights with one pod less."""
        del cycle
        return {**state, node.name: state[node.name] - _weight([pod])}


FORMS: Final = (Weighing, WeighingNodes, WeighingPods)


def hypothetical_problems(rng: Random) -> Iterator[str]:
    """Yields the differences of one cluster."""
    pods = {name: [_pod(rng, f"{name}{at}") for at in range(rng.randint(0, 4))] for name in NODES}
    plugins = [
        rng.choice(FORMS)(f"W{number}", rng.choice(LIMITS), pods, rng.choice(READS))
        for number in range(rng.randint(1, 3))
    ]
    harness = Harness([make_node(name) for name in NODES], plugins)
    for name, of_node in pods.items():
        for pod in of_node:
            harness.cache.put_pod(pod.on_node(name).pod)
    nominated = {
        name: [_pod(rng, f"n-{name}{at}") for at in range(rng.choice((0, 0, 1, 2)))]
        for name in (*NODES, "gone")
    }
    for name, of_node in nominated.items():
        for pod in of_node:
            harness.cache.nominator.nominate(pod, name)
    incoming = make_pod("incoming", priority=PRIORITY)
    model = Sums(plugins, pods)
    yield from _without_victims(rng, harness, incoming, model, pods)
    cycle, view, _ = harness.begin(incoming)
    yield from _with_nominated(rng, harness, cycle, view, model, nominated)


class Sums:
    """The verdicts of plugins on a node, by sums of the weights of its pods."""

    def __init__(self, plugins: Sequence[Weighing], pods: Pods) -> None:
        self.plugins, self._pods = plugins, pods

    def rejection(
        self,
        node: str,
        added: Sequence[PodInfo] = (),
        removed: Sequence[PodInfo] = (),
        only: Sequence[str] | None = None,
    ) -> tuple[str, str] | None:
        """Returns the first plugin that rejects a node, and its text; None = it fits."""
        weight = _weight(self._pods[node]) + _weight(added) - _weight(removed)
        for plugin in self.plugins:
            if weight > plugin.limit and (only is None or plugin.name in only):
                return plugin.name, f"{weight} of {plugin.limit}"
        return None


def _without_victims(
    rng: Random, harness: Any, incoming: Any, model: Sums, pods: Pods
) -> Iterator[str]:
    names = rng.sample(NODES, rng.randint(1, len(NODES)))
    victims = {name: rng.sample(pods[name], rng.randint(0, len(pods[name]))) for name in names}
    cycle, _, _ = harness.begin(incoming)
    actual = filter_nodes_without_victims(harness.framework, cycle, victims)
    expected = {name for name in names if model.rejection(name, removed=victims[name]) is None}
    if actual != expected:
        yield f"without {victims} {sorted(actual)} fit, not {sorted(expected)}"


def _with_nominated(
    rng: Random, harness: Any, cycle: Cycle, view: NodeView, model: Sums, nominated: Pods
) -> Iterator[str]:
    rows = dict(zip(view.names, view.rows.tolist(), strict=True))
    due = {
        rows[name]: tuple(pod for pod in of_node if pod.priority >= PRIORITY)
        for name, of_node in nominated.items()
        if name in rows
    }
    due = {row: of_node for row, of_node in due.items() if of_node}
    counted = nominated_pods_by_row(cycle)
    if counted != due:
        yield f"the nominated pods are {counted}, not {due}"
        return
    reading = {it.name for it in model.plugins if getattr(it, "reads", OF_PODS) & OF_PODS}
    if filters_reading_pods(harness.framework, cycle) != reading:
        yield f"{filters_reading_pods(harness.framework, cycle)} read pods, not {reading}"
    only = rng.choice((None, None, [it.name for it in model.plugins if rng.random() < 0.6]))
    places = np.array(rng.sample(range(len(view)), rng.randint(1, len(view))), dtype=np.intp)
    part = view.subset(places)
    statuses = filter_with_nominated_pods(harness.framework, cycle, part, due, only=only)
    for name, code in zip(part.names, statuses.codes.tolist(), strict=True):
        added = due.get(rows[name], ())
        expected = model.rejection(name, added, only=only) or model.rejection(name, only=only)
        status = statuses.table[code - 1] if code else None
        actual = None if status is None else (status.plugin, status.message)
        if actual != expected:
            yield f"{name} with {len(added)} nominated pods: {actual}, not {expected}"


def _pod(rng: Random, name: str) -> PodInfo:
    labels = {"weight": str(rng.choice(WEIGHTS))}
    return PodInfo(make_pod(name, uid=name, labels=labels, priority=rng.choice(PRIORITIES)))
