"""Ask plugins about a pod on a small cluster, without a scheduler around them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mooring.clock import Clock, VirtualClock
from mooring.decision import Decision
from mooring.framework import (
    Attempt,
    Cycle,
    Diagnosis,
    Framework,
    NodeView,
    Placement,
    Profile,
    schedule_pod,
)
from mooring.framework.interface import EXTENSION_POINTS
from mooring.framework.per_node import ONE_NODE_FORM
from mooring.framework.runtime.filter import pre_filter
from mooring.framework.runtime.nominated import filter_one
from mooring.framework.runtime.score import normalize_one, score_one
from mooring.framework.status import Skip, Status
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.state import Cache, PodInfo


class Decided(NamedTuple):
    """What a Harness's framework made of a pod: ``node`` is None if ``message`` says why."""

    node: str | None
    message: str
    decision: Decision


class Opened(NamedTuple):
    """An attempt whose PreFilter has run: ``refusal`` if that was the end of it already."""

    cycle: Cycle
    view: NodeView
    refusal: Status | None

    def takes_part(self, plugin: Any) -> bool:
        """Returns whether ``plugin`` filters in this attempt."""
        return self.refusal is None and plugin.name not in self.cycle.skipped


def cluster(*objects: Node | Pod) -> Cache:
    """A Cache that holds these nodes, pods with a node, and nominations of pods without one."""
    cache = Cache()
    for found in objects:
        if isinstance(found, Node):
            cache.put_node(found)
        elif found.spec.node_name:
            cache.put_pod(found)
        elif found.status.nominated_node_name:
            cache.nominator.nominate(PodInfo(found), found.status.nominated_node_name)
    return cache


class Harness:
    """Some plugins over a small cluster.

    Example:
        >>> from mooring.framework import Reject, per_node
        >>> from mooring.testing import make_node, make_pod
        >>> class NotOnA:
        ...     name = "NotOnA"
        ...
        ...     @per_node
        ...     def filter(self, pod, node):
        ...         return Reject("is a") if node.name == "a" else None
        >>> harness = Harness([make_node("a"), make_node("b")], [NotOnA()])
        >>> harness.reasons(make_pod())
        {'a': ('is a',), 'b': ()}
        >>> harness.decide(make_pod()).node
        'b'
    """

    def __init__(
        self,
        objects: Iterable[Node | Pod],
        plugins: Sequence[Any],
        *,
        weights: Mapping[str, int] | None = None,
        percentage_of_nodes_to_score: int | None = None,
        cache_results: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """Every plugin runs at every extension point that it has, in the order given."""
        self.cache = cluster(*objects)
        self.plugins = list(plugins)
        points = {
            point: [plugin for plugin in plugins if hasattr(plugin, point)]
            for point in EXTENSION_POINTS
        }
        profile = Profile(
            "default-scheduler", points, dict(weights or {}), percentage_of_nodes_to_score
        )
        self.framework = Framework(
            profile, clock=clock or VirtualClock(), cache_results=cache_results
        )

    def decide(self, pod: Pod, *, start_index: int = 0) -> Decided:
        """Runs a whole decision.

        Raises:
            PluginError: if a plugin fails.
        """
        snapshot = self.cache.snapshot()
        attempt = Attempt(snapshot, start_index)
        cycle = self.framework.new_cycle(PodInfo(pod), snapshot)
        found = schedule_pod(self.framework, cycle, attempt)
        if isinstance(found, Placement):
            decision = attempt.decision("scheduled", node=found.node_name, diagnosis=None)
            return Decided(found.node_name, "", decision)
        decision = attempt.decision("unschedulable", node=None, diagnosis=found)
        return Decided(None, found.message, decision)

    def diagnose(self, pod: Pod) -> Diagnosis | Placement:
        """As ``decide``, the framework's own answer."""
        snapshot = self.cache.snapshot()
        cycle = self.framework.new_cycle(PodInfo(pod), snapshot)
        return schedule_pod(self.framework, cycle, Attempt(snapshot))

    def statuses(self, pod: Pod, plugin: Any | None = None) -> dict[str, Status | None]:
        """Node -> what one filter (the first plugin) says of it; None = feasible.

        If PreFilter refuses the pod, that is said of every node.
        """
        plugin = plugin or self.plugins[0]
        opened = self.begin(pod)
        cycle, view = opened.cycle, opened.view
        if not opened.takes_part(plugin):
            return dict.fromkeys(view.names, opened.refusal)
        verdicts = filter_one(self.framework, cycle, plugin, view)
        statuses = [verdicts.table[code - 1] if code else None for code in verdicts.codes.tolist()]
        return dict(zip(view.names, statuses, strict=True))

    def reasons(self, pod: Pod, plugin: Any | None = None) -> dict[str, tuple[str, ...]]:
        """Node -> the reasons of one filter (the first plugin); () = feasible."""
        found = self.statuses(pod, plugin)
        return {name: status.reasons if status else () for name, status in found.items()}

    def raw_scores(self, pod: Pod, plugin: Any | None = None) -> dict[str, int] | None:
        """Node -> raw score of one plugin (the first) over all nodes; None if it skips the pod."""
        plugin = plugin or self.plugins[0]
        cycle, view = self.open(pod)
        return self.raw_scores_in(cycle, view, plugin)

    def raw_scores_in(self, cycle: Cycle, view: NodeView, plugin: Any) -> dict[str, int] | None:
        """As ``raw_scores``, in a cycle that goes on; afterwards PreScore has run in it."""
        if self._skips_score(cycle, plugin, view):
            return None
        raw = score_one(self.framework, cycle, plugin, view)
        return dict(zip(view.names, raw.tolist(), strict=True))

    def scores(self, pod: Pod, plugin: Any | None = None) -> dict[str, int] | None:
        """As ``raw_scores``, normalized."""
        plugin = plugin or self.plugins[0]
        cycle, view = self.open(pod)
        if not len(view):
            return {}
        if self._skips_score(cycle, plugin, view):
            return None
        raw = score_one(self.framework, cycle, plugin, view)
        scores = normalize_one(self.framework, cycle, plugin, raw, view)
        return dict(zip(view.names, scores.tolist(), strict=True))

    def open(self, pod: Pod) -> tuple[Cycle, NodeView]:
        """Returns a cycle whose PreFilter has run, and a view of every node in visiting order."""
        cycle, view, _ = self.begin(pod)
        return cycle, view

    def begin(self, pod: Pod) -> Opened:
        """As ``open``, with what PreFilter said against the pod as a whole."""
        snapshot = self.cache.snapshot()
        cycle = self.framework.new_cycle(PodInfo(pod), snapshot)
        before = pre_filter(self.framework, cycle)
        return Opened(cycle, NodeView(snapshot, snapshot.nodes.order.array()), before.status)

    def _skips_score(self, cycle: Cycle, plugin: Any, view: NodeView) -> bool:
        if not hasattr(plugin, "pre_score"):
            return False
        cycle.set_writer(plugin.name)
        answer = self.framework.call(plugin, "PreScore", plugin.pre_score, cycle, view)
        cycle.set_writer(None)
        return answer is Skip.SKIP


def scalar_twin(method: Any) -> Any:
    """The one-node form of a method that ``@per_node`` lifted, as (plugin, pod, node) -> answer.

    Raises:
        TypeError: if the method was not lifted.
    """
    found = getattr(method, ONE_NODE_FORM, None)
    if found is None:
        raise TypeError(f"{method!r} was not made with @per_node")
    return found
