"""Runs plugins for a pod on a small cluster, without a scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from mooring.clock import Clock, VirtualClock, seeded_random
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
from mooring.framework.runtime.registry import instantiate
from mooring.framework.runtime.score import normalize_one, score_one
from mooring.framework.status import Skip, Status
from mooring.objects.meta import KubernetesObject
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.state.listers import Listers
from mooring.testing.handle import HarnessHandle


class ScheduleResult(NamedTuple):
    """The result of scheduling a pod: ``node``, or None and the reason in ``message``."""

    node: str | None
    message: str
    decision: Decision


class PreFilteredAttempt(NamedTuple):
    """An attempt after PreFilter: ``refusal`` if PreFilter rejected the pod."""

    cycle: Cycle
    view: NodeView
    refusal: Status | None

    def takes_part(self, plugin: Any) -> bool:
        """Returns True if ``plugin`` filters in this attempt."""
        return self.refusal is None and plugin.name not in self.cycle.skipped


def cluster(*objects: KubernetesObject) -> Cache:
    """Returns a Cache with these objects, the placed pods, and nominations of pending pods."""
    cache = Cache()
    for obj in objects:
        if isinstance(obj, Node):
            cache.put_node(obj)
        elif not isinstance(obj, Pod):
            cache.put_object(type(obj).__name__, obj)
        elif obj.spec.node_name:
            cache.put_pod(obj)
        elif obj.status.nominated_node_name:
            cache.nominator.nominate(PodInfo(obj), obj.status.nominated_node_name)
    return cache


class Harness:
    """Plugins on a small cluster.

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
        objects: Iterable[KubernetesObject],
        plugins: Sequence[Any],
        *,
        weights: Mapping[str, int] | None = None,
        percentage_of_nodes_to_score: int | None = None,
        cache_results: bool = True,
        clock: Clock | None = None,
    ) -> None:
        """Enables every plugin at each extension point that it implements, in this order.

        A plugin is an object, or a class or function that returns one and may take ``handle``.
        ``handle.lister`` has the objects.
        """
        objects = list(objects)
        self.cache = cluster(*objects)
        listers = Listers(keeps_all=True)
        for obj in objects:
            listers.apply(type(obj).__name__, None, obj)
        clock = clock or VirtualClock()
        #: The handle of plugins that are given as a class or function.
        self.handle = HarnessHandle(self.cache, clock, seeded_random(0), listers)
        self.plugins = [instantiate(plugin, None, self.handle) for plugin in plugins]
        points = {
            point: [plugin for plugin in self.plugins if hasattr(plugin, point)]
            for point in EXTENSION_POINTS
        }
        profile = Profile(
            "default-scheduler", points, dict(weights or {}), percentage_of_nodes_to_score
        )
        self.framework = Framework(
            profile, clock=clock, cache_results=cache_results, waiting=self.handle.waiting
        )

    def decide(self, pod: Pod, *, start_index: int = 0) -> ScheduleResult:
        """Runs a complete scheduling cycle.

        Raises:
            PluginError: if a plugin fails.
        """
        snapshot = self.cache.snapshot()
        attempt = Attempt(snapshot, start_index)
        cycle = self.framework.new_cycle(PodInfo(pod), snapshot)
        result = schedule_pod(self.framework, cycle, attempt)
        if isinstance(result, Placement):
            decision = attempt.decision("scheduled", node=result.node_name, diagnosis=None)
            return ScheduleResult(result.node_name, "", decision)
        decision = attempt.decision("unschedulable", node=None, diagnosis=result)
        return ScheduleResult(None, result.message, decision)

    def diagnose(self, pod: Pod) -> Diagnosis | Placement:
        """Runs a complete scheduling cycle; returns the framework's own result."""
        snapshot = self.cache.snapshot()
        cycle = self.framework.new_cycle(PodInfo(pod), snapshot)
        return schedule_pod(self.framework, cycle, Attempt(snapshot))

    def statuses(self, pod: Pod, plugin: Any | None = None) -> dict[str, Status | None]:
        """Returns a filter's (default: the first plugin's) status by node; None = feasible.

        If PreFilter rejects the pod, every node has that status.
        """
        plugin = plugin or self.plugins[0]
        attempt = self.begin(pod)
        cycle, view = attempt.cycle, attempt.view
        if not attempt.takes_part(plugin):
            return dict.fromkeys(view.names, attempt.refusal)
        statuses = filter_one(self.framework, cycle, plugin, view)
        return dict(zip(view.names, statuses.to_list(), strict=True))

    def reasons(self, pod: Pod, plugin: Any | None = None) -> dict[str, tuple[str, ...]]:
        """Returns a filter's (default: the first plugin's) reasons by node; () = feasible."""
        statuses = self.statuses(pod, plugin)
        return {name: status.reasons if status else () for name, status in statuses.items()}

    def raw_scores(self, pod: Pod, plugin: Any | None = None) -> dict[str, int] | None:
        """Returns a plugin's (default: the first) raw scores by node; None if it skips the pod."""
        plugin = plugin or self.plugins[0]
        cycle, view = self.open(pod)
        return self.raw_scores_in(cycle, view, plugin)

    def raw_scores_in(self, cycle: Cycle, view: NodeView, plugin: Any) -> dict[str, int] | None:
        """Runs PreScore and Score in an existing cycle; otherwise like ``raw_scores``."""
        if self._skips_score(cycle, plugin, view):
            return None
        raw = score_one(self.framework, cycle, plugin, view)
        return dict(zip(view.names, raw.tolist(), strict=True))

    def scores(self, pod: Pod, plugin: Any | None = None) -> dict[str, int] | None:
        """Returns normalized scores; otherwise like ``raw_scores``."""
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
        """Runs PreFilter; returns the cycle, and a view of every node in visiting order."""
        cycle, view, _ = self.begin(pod)
        return cycle, view

    def begin(self, pod: Pod) -> PreFilteredAttempt:
        """Runs PreFilter like ``open``; the result also has PreFilter's rejection."""
        snapshot = self.cache.snapshot()
        cycle = self.framework.new_cycle(PodInfo(pod), snapshot)
        pre_filtered = pre_filter(self.framework, cycle)
        return PreFilteredAttempt(
            cycle, NodeView(snapshot, snapshot.nodes.order.array()), pre_filtered.status
        )

    def _skips_score(self, cycle: Cycle, plugin: Any, view: NodeView) -> bool:
        if not hasattr(plugin, "pre_score"):
            return False
        cycle.writer = plugin.name
        status = self.framework.call(plugin, "PreScore", plugin.pre_score, cycle, view)
        cycle.writer = None
        return status is Skip.SKIP


def one_node_form(method: Any) -> Any:
    """Returns the one-node form of a ``@per_node`` method, as (plugin, pod, node) -> result.

    Raises:
        TypeError: if the method was not made with ``@per_node``.
    """
    form = getattr(method, ONE_NODE_FORM, None)
    if form is None:
        raise TypeError(f"{method!r} was not made with @per_node")
    return form
