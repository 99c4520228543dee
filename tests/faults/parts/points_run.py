"""Attempts with up to five plugins that return anything at any extension point.

Plugins have drawn extension points. Some apply to few pods, and the results of some are cached by
the kind of a pod, also those of single nodes, while nodes change, come and go. In each attempt the
nodes that fit, their totals, every reason and the plugins that reject, what PostFilter returns, and
the calls from Reserve to PostBind with their order are those of ``points_model.py``. Filters and
scores find the state that their own PreFilter or PreScore has stored for this kind of pods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.errors import PluginError
from mooring.framework import Attempt, Cycle, Diagnosis, Framework, NodeView, Profile, Reject, Wait
from mooring.framework.interface import EXTENSION_POINTS
from mooring.framework.node_info import NodeInfo
from mooring.framework.runtime import bind as bind_points
from mooring.framework.runtime import post_filter as post_filtering
from mooring.framework.runtime import result_cache
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.framework.status import (
    SKIP,
    FilterStatuses,
    NodeError,
    Pending,
    PostFilterResult,
    PreFilterResult,
    Status,
)
from mooring.framework.waiting_pods import WaitingPod
from mooring.state import Change, PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.faults.parts.points_model import (
    FAILED,
    NARROWED,
    NOMINATED,
    PENDING,
    RAISED,
    REJECTED,
    SKIPPED,
    UNRESOLVABLE,
    WAITS,
    Outcome,
    PluginRaised,
    PointsModel,
    Rejection,
    reason_of,
)
from tests.helpers.virtual_loop import run_virtually

ATTEMPTS: Final = 24
NODES_MAX: Final = 5
VALUES: Final = ("0", "1", "2")
KINDS: Final = 3
#: In such seeds, modulo four, there are more kinds than cached results: entries are reused.
MANY: Final = 3
MANY_KINDS: Final = 10
WAIT_S: Final = 7.0
#: Extension point -> the results that are drawn, with their weights.
DRAWN: Final[dict[str, tuple[tuple[str | None, float], ...]]] = {
    "pre_filter": (
        (None, 60),
        (SKIPPED, 16),
        (NARROWED, 14),
        (REJECTED, 5),
        (UNRESOLVABLE, 3),
        (RAISED, 2),
    ),
    "filter": ((None, 70), (REJECTED, 20), (UNRESOLVABLE, 6), (PENDING, 3), (FAILED, 0.5)),
    "post_filter": ((REJECTED, 60), (NOMINATED, 15), (UNRESOLVABLE, 10), (FAILED, 8), (RAISED, 7)),
    "nomination": ((None, 50), ("", 50)),
    "pre_score": ((None, 70), (SKIPPED, 28), (RAISED, 2)),
    "score": tuple((str(score), 1) for score in (0, 0, 0, 10, 60, 100)),
    "reserve": ((None, 88), (REJECTED, 8), (RAISED, 4)),
    "unreserve": ((None, 85), (RAISED, 15)),
    "permit": ((None, 68), (WAITS, 20), (REJECTED, 8), (RAISED, 4)),
    "pre_bind_pre_flight": ((None, 60), (SKIPPED, 38), (RAISED, 2)),
    "pre_bind": ((None, 90), (REJECTED, 6), (RAISED, 4)),
    "bind": ((None, 50), (SKIPPED, 40), (REJECTED, 6), (RAISED, 4)),
    "post_bind": ((None, 85), (RAISED, 15)),
}
#: The extension points that a plugin has together, and how often.
POINTS: Final = (
    (("pre_filter", "filter"), 0.7),
    (("post_filter",), 0.4),
    (("pre_score", "score"), 0.6),
    (("reserve", "unreserve"), 0.6),
    (("permit",), 0.4),
    (("pre_bind_pre_flight", "pre_bind"), 0.6),
    (("bind",), 0.6),
    (("post_bind",), 0.5),
)
#: Of the extension points from Reserve on: a plugin is called also if it does not apply.
CALLED_FOR_ALL: Final = ("permit", "bind", "post_bind")


class PointsPlugin:
    """A plugin that has those of the methods below that are drawn."""

    def __init__(self, name: str, run: PointsRun) -> None:
        self.name = name
        self.run = run

    def call(self, point: str) -> Any:
        """Records a call, and returns what was drawn."""
        if point not in CALLED_FOR_ALL and self.run.is_idle(self.name):
            return SKIP if point == "pre_bind_pre_flight" else None
        self.run.called.append((point, self.name))
        return self.drawn(self.run.result(self.name, point), point)

    def drawn(self, kind: str | None, point: str) -> Any:
        """Returns a result, or raises."""
        if kind is None:
            return None
        if kind == SKIPPED:
            return SKIP
        if kind == WAITS:
            return Wait(WAIT_S)
        if kind == RAISED:
            raise ValueError(f"drawn in {point}")
        reason = reason_of(self.name, kind)
        if kind == FAILED:
            return NodeError(reason)
        if kind == PENDING:
            return Pending(reason)
        return Reject(reason, resolvable=kind != UNRESOLVABLE)

    def check_state(self, cycle: Cycle, point: str) -> None:
        """Reports a state that is not of this kind of pods."""
        if self.run.has(self.name, point) and cycle[self] != self.run.state_of(self.name):
            self.run.problems.append(f"{self.name} has the state {cycle[self]} of other pods")


class Methods:
    """The methods that a plugin may have, but for those that only record their calls."""

    def pre_filter(self: Any, cycle: Cycle) -> Any:
        """Stores a state, and returns what was drawn."""
        if self.run.is_idle(self.name):
            return SKIP
        kind = self.run.result(self.name, "pre_filter")
        if kind == NARROWED:
            result: Any = PreFilterResult(frozenset(self.run.left(self.name)))
        else:
            result = self.drawn(kind, "pre_filter")
        if result is not SKIP:
            cycle[self] = self.run.state_of(self.name)
        return result

    def filter(self: Any, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Returns the status of each node."""
        self.check_state(cycle, "pre_filter")
        kinds = [self.run.result(self.name, "filter", node.name) for node in nodes]
        return FilterStatuses.of([self.drawn(kind, "filter") for kind in kinds])

    def filter_node(self: Any, cycle: Cycle, node: NodeInfo) -> Status | None:
        """Returns the status of a node."""
        self.check_state(cycle, "pre_filter")
        status: Status | None = self.drawn(
            self.run.result(self.name, "filter", node.name), "filter"
        )
        return status

    def post_filter(self: Any, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Nominates the pod, or not."""
        del cycle, diagnosis
        kind = self.run.result(self.name, "post_filter")
        if kind == NOMINATED:
            return PostFilterResult(None, f"by {self.name}")
        nomination = self.run.result(self.name, "nomination")
        return PostFilterResult(self.drawn(kind, "post_filter"), nomination)

    def pre_score(self: Any, cycle: Cycle, nodes: NodeView) -> Any:
        """Stores a state, and returns what was drawn."""
        del nodes
        if self.run.is_idle(self.name):
            return SKIP
        result = self.drawn(self.run.result(self.name, "pre_score"), "pre_score")
        if result is not SKIP:
            cycle[self] = self.run.state_of(self.name)
        return result

    def score(self: Any, cycle: Cycle, nodes: NodeView) -> Any:
        """Returns the score of each node."""
        self.check_state(cycle, "pre_score")
        scores = [self.run.score(self.name, node.name) for node in nodes]
        return np.array(scores, dtype=np.int64)

    def score_node(self: Any, cycle: Cycle, node: NodeInfo) -> int:
        """Returns the score of a node."""
        self.check_state(cycle, "pre_score")
        score: int = self.run.score(self.name, node.name)
        return score

    def normalize(self: Any, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
        """Scales the scores, so that the highest is 100, or 0 if the order is reversed."""
        del cycle, nodes
        return np.array(normalized(scores.tolist(), is_reversed=self.is_reversed))

    def sign(self: Any, pod: PodInfo) -> str | None:
        """Returns the kind of the pod; None = its results are not cached."""
        kind = pod.metadata.labels["kind"]
        return kind if self.run.signs(self.name, kind) else None

    def applies_to(self: Any, pod: PodInfo) -> bool:
        """Returns whether the plugin has to do with pods of this kind."""
        applies: bool = self.run.applies(self.name, pod.metadata.labels["kind"])
        return applies


def normalized(scores: list[int], *, is_reversed: bool) -> list[int]:
    """Returns scores from 0 to 100."""
    highest = max(1, *scores)
    scaled = [score * 100 // highest for score in scores]
    return [100 - score for score in scaled] if is_reversed else scaled


def _caller(point: str) -> Callable[..., Any]:
    def method(self: PointsPlugin, cycle: Cycle, node_name: str) -> Any:
        del cycle, node_name
        return self.call(point)

    return method


def _waiter(point: str) -> Callable[..., Any]:
    async def method(self: PointsPlugin, cycle: Cycle, node_name: str) -> Any:
        del cycle, node_name
        return self.call(point)

    return method


METHODS: Final[dict[str, Callable[..., Any]]] = {
    **{name: method for name, method in vars(Methods).items() if not name.startswith("__")},
    **{
        point: _caller(point)
        for point in ("reserve", "unreserve", "permit", "pre_bind_pre_flight", "post_bind")
    },
    **{point: _waiter(point) for point in ("pre_bind", "bind")},
}
#: The extension points whose results are cached, if a plugin signs pods.
CACHED: Final = ("pre_filter", "filter", "pre_score", "score")


class PointsRun:
    """One run.

    Attributes:
        problems: Differences to the model.
        called: The calls of this attempt from Reserve on: extension point and plugin.
        has_many_kinds: Whether there are more kinds of pods than cached results.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.called: list[tuple[str, str]] = []
        self.has_many_kinds = seed % 4 == MANY
        self._rng = rng = seeded_random(seed)
        self._clock, self._cache = VirtualClock(), Cache()
        self._kinds = [
            str(number) for number in range(MANY_KINDS if self.has_many_kinds else KINDS)
        ]
        #: Of the attempt: its kind of pods, and its number.
        self._kind, self._number = "", 0
        #: Results of this attempt, and those that stay.
        self._of_attempt: dict[tuple[str, ...], Any] = {}
        self._fixed: dict[tuple[str, ...], Any] = {}
        self._values: dict[str, str] = {}
        self._points: dict[str, list[str]] = {}
        self._signing: dict[str, set[str]] = {}
        self._idle_for: dict[str, set[str]] = {}
        self._reversed: dict[str, bool] = {}
        self._weights: dict[str, int] = {}
        plugins = [self._new_plugin(f"P{number}") for number in range(rng.randint(1, 5))]
        self._by_point = {
            point: [plugin for plugin in plugins if point in self._points[plugin.name]]
            for point in EXTENSION_POINTS
        }
        profile = Profile("points", self._by_point, self._weights)
        self._framework = Framework(profile, clock=self._clock)
        self._framework.timed_every = rng.choice((0, 1, 3))
        for number in range(rng.randint(2, NODES_MAX)):
            self._put(f"node-{number}")

    def _new_plugin(self, name: str) -> PointsPlugin:
        rng = self._rng
        methods = [
            point
            for points, share in POINTS
            if rng.random() < share or (name == "P0" and "score" in points)
            for point in points
        ]
        for optional in ("pre_score", "pre_bind_pre_flight"):
            if optional in methods and rng.random() < 0.4:
                methods.remove(optional)
        self._points[name] = [*methods]
        self._weights[name] = rng.choice((1, 1, 3))
        attributes: dict[str, Any] = {}
        if "score" in methods and rng.random() < 0.5:
            methods.append("normalize")
            self._reversed[name] = attributes["is_reversed"] = rng.random() < 0.5
            if rng.random() < 0.5:
                attributes["normalized_zero"] = 100 if self._reversed[name] else 0
        if rng.random() < 0.6:
            methods.append("sign")
            attributes["reads"] = Change.LABELS
            self._signing[name] = {kind for kind in self._kinds if rng.random() < 0.8}
            if rng.random() < 0.5:
                one_node = (("filter", "filter_node"), ("score", "score_node"))
                methods += [method for point, method in one_node if point in methods]
        if rng.random() < 0.4:
            methods.append("applies_to")
            self._idle_for[name] = {kind for kind in self._kinds if rng.random() < 0.6}
        attributes |= {method: METHODS[method] for method in methods}
        plugin: PointsPlugin = type("DrawnPlugin", (PointsPlugin,), attributes)(name, self)
        return plugin

    # -- what plugins read ------------------------------------------------------------------------

    def has(self, plugin: str, point: str) -> bool:
        """Returns whether the plugin has an extension point."""
        return point in self._points[plugin]

    def signs(self, plugin: str, kind: str) -> bool:
        """Returns whether results of the plugin for this kind are cached."""
        return kind in self._signing[plugin]

    def applies(self, plugin: str, kind: str) -> bool:
        """Returns whether the plugin has to do with pods of this kind."""
        return kind not in self._idle_for.get(plugin, ())

    def is_idle(self, plugin: str) -> bool:
        """Returns whether it has nothing to do with the pod of this attempt."""
        return not self.applies(plugin, self._kind)

    def state_of(self, plugin: str) -> str:
        """Returns what the plugin stores for the pod of this attempt."""
        is_fixed = plugin in self._signing
        return f"{plugin} {self._kind if is_fixed else self._number}"

    def result(self, plugin: str, point: str, node: str = "") -> str | None:
        """Returns what the plugin returns, in this attempt."""
        if plugin in self._signing and point in CACHED:
            key = plugin, point, self._kind, self._values[node] if node else ""
            drawn = self._fixed
        else:
            key, drawn = (plugin, point, node, ""), self._of_attempt
        if key not in drawn:
            kinds, weights = zip(*DRAWN[point], strict=True)
            drawn[key] = self._rng.choices(kinds, weights)[0]
        result: str | None = drawn[key]
        return result

    def left(self, plugin: str) -> frozenset[str]:
        """Returns the nodes that PreFilter of the plugin leaves; some do not exist."""
        is_fixed = plugin in self._signing
        drawn = self._fixed if is_fixed else self._of_attempt
        key = plugin, "left", self._kind if is_fixed else ""
        if key not in drawn:
            names = [f"node-{number}" for number in range(NODES_MAX)]
            drawn[key] = frozenset(name for name in names if self._rng.random() < 0.6)
        left: frozenset[str] = drawn[key]
        return left

    def score(self, plugin: str, node: str) -> int:
        """Returns the score of a node."""
        return 0 if self.is_idle(plugin) else int(self.result(plugin, "score", node) or 0)

    # -- attempts ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Makes all attempts, until one differs."""
        for self._number in range(ATTEMPTS):
            for _ in range(self._rng.choice((0, 0, 1, 1, 2, 8))):
                self._change()
            self._kind = self._rng.choice(self._kinds)
            self._of_attempt.clear()
            self.called.clear()
            await self._attempt()
            if self.problems:
                return

    def _change(self) -> None:
        name = f"node-{self._rng.randrange(NODES_MAX)}"
        if name in self._values and len(self._values) > 1 and self._rng.random() < 0.2:
            del self._values[name]
            self._cache.remove_node(name)
        else:
            self._put(name)

    def _put(self, name: str) -> None:
        value = self._values[name] = self._rng.choice(VALUES)
        self._cache.put_node(make_node(name, labels={"value": value}))

    async def _attempt(self) -> None:
        name, kind = f"pod-{self._number}", self._kind
        nominated = self._rng.choice(("", "", *(f"node-{n}" for n in range(2))))
        pod = PodInfo(
            make_pod(
                name,
                uid=name,
                labels={"kind": kind},
                status={"nominatedNodeName": nominated} if nominated else None,
            )
        )
        snapshot = self._cache.snapshot()
        names = {point: [it.name for it in of] for point, of in self._by_point.items()}
        idle = [plugin for plugin in self._points if self.is_idle(plugin)]
        model = PointsModel(names, self.result, self.left, idle)
        cycle, attempt = self._framework.new_cycle(pod, snapshot), Attempt(snapshot)
        expected: Any
        scorers: list[str] = []
        try:
            expected = model.fitting(list(self._values), nominated)
            if not isinstance(expected, Outcome) and len(expected) > 1:
                scorers = model.scorers()
        except PluginRaised as error:
            expected = error
        try:
            result: Any = schedule_pod(self._framework, cycle, attempt)
        except PluginError as error:
            if not isinstance(expected, PluginRaised) or error.plugin not in expected.args:
                self.problems.append(f"{name}: {error}, not {expected!r}")
            return
        if isinstance(expected, PluginRaised):
            self.problems.append(f"{name}: {result}, not an error of {expected.args}")
        elif isinstance(result, Diagnosis):
            self._check_diagnosis(pod, result, expected, model, cycle)
        elif isinstance(expected, Outcome) or result.node_name not in expected:
            self.problems.append(f"{name} is placed on {result.node_name}, not of {expected}")
        else:
            if len(expected) > 1:
                self._check_totals(pod, attempt, result.node_name, expected, scorers)
            await self._bind(pod, cycle, result.node_name, model)

    def _check_diagnosis(
        self, pod: PodInfo, diagnosis: Diagnosis, expected: Any, model: PointsModel, cycle: Cycle
    ) -> None:
        if not isinstance(expected, Outcome):
            self.problems.append(f"{pod.key} has no node, but fits {expected}")
            return
        got = Outcome(
            None if diagnosis.pre_filter is None else _rejection(diagnosis.pre_filter),
            diagnosis.reasons,
            diagnosis.unschedulable_plugins,
            diagnosis.pending_plugins,
        )
        if expected.pre_filter is not None and not expected.pre_filter.reasons:
            # Of several plugins that leave no node none is the one that rejects the pod.
            reasons = got.pre_filter.reasons if got.pre_filter is not None else ()
            expected.pre_filter = expected.pre_filter._replace(reasons=reasons)
        if got != expected:
            self.problems.append(f"{pod.key}: {got}, not {expected}")
            return
        merged = post_filtering.post_filter(self._framework, cycle, diagnosis)
        status = None if merged.status is None else _rejection(merged.status)
        rejection, node = model.post_filter()
        if rejection is not None and not rejection.reasons and status is not None:
            rejection = rejection._replace(reasons=status.reasons)  # the text of an error
        if (status, merged.node_name) != (rejection, node):
            self.problems.append(
                f"{pod.key}: PostFilter {status}, {merged.node_name}, not {rejection}, {node}"
            )

    def _check_totals(
        self, pod: PodInfo, attempt: Attempt, selected: str, fitting: list[str], scorers: list[str]
    ) -> None:
        expected = dict.fromkeys(fitting, 0)
        for plugin in scorers:
            scores = [self.score(plugin, node) for node in fitting]
            if plugin in self._reversed:
                scores = normalized(scores, is_reversed=self._reversed[plugin])
            for node, score in zip(fitting, scores, strict=True):
                expected[node] += score * self._weights[plugin]
        assert attempt.total is not None
        rows = range(len(attempt.total)) if attempt.rows is None else attempt.rows.tolist()
        nodes = [attempt.snapshot.nodes.names[row] for row in rows]
        totals = dict(zip(nodes, attempt.total.tolist(), strict=True))
        if totals != expected:
            self.problems.append(f"{pod.key} has the totals {totals}, not {expected}")
        elif expected[selected] != max(expected.values()):
            self.problems.append(f"{pod.key} is placed on {selected}: {expected}")

    async def _bind(self, pod: PodInfo, cycle: Cycle, node: str, model: PointsModel) -> None:
        made, ended_by, delaying = model.calls()
        expected = made, ended_by, dict.fromkeys(delaying, WAIT_S)
        ended = await _bound(self._framework, self._clock.monotonic_s(), cycle, node)
        if (self.called, *ended) != expected:
            self.problems.append(f"{pod.key}: {self.called}, {ended}, not {expected}")


async def _bound(
    framework: Framework, now_s: float, cycle: Cycle, node: str
) -> tuple[str, dict[str, float]]:
    """Binds a pod; returns the plugin that prevents it, and those that delay it."""
    ended_by = ""
    delaying: dict[str, float] = {}
    try:
        ended_by = _plugin_of(bind_points.reserve(framework, cycle, node))
        if not ended_by:
            permit = bind_points.permit(framework, cycle, node, now_s=now_s)
            if isinstance(permit, WaitingPod):
                delaying = permit.remaining_s(now_s)
                framework.waiting.remove(cycle.pod.uid)
            else:
                ended_by = _plugin_of(permit)
        if not ended_by:
            binders = bind_points.pre_binders(framework, cycle, node)
            ended_by = _plugin_of(await bind_points.pre_bind(framework, cycle, node, binders))
        if not ended_by:
            ended_by = _plugin_of(await bind_points.bind(framework, cycle, node))
    except PluginError as error:
        ended_by = error.plugin or "all skip"
    if ended_by:
        bind_points.unreserve(framework, cycle, node)
    else:
        bind_points.post_bind(framework, cycle, node)
    return ended_by, delaying


def _plugin_of(status: Any) -> str:
    return "" if status is None else status.plugin


def _rejection(status: Status) -> Rejection:
    return Rejection(status.code.value, status.reasons, status.plugin)


def run_points(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: an attempt differs from the model.
    """
    run = PointsRun(seed)
    with pytest.MonkeyPatch.context() as patch:
        if run.has_many_kinds:
            # The least number of entries that a cache has, however much memory one takes.
            patch.setattr(result_cache, "MEMORY_LIMIT_BYTES", 1)
        run_virtually(run.run(), seeded_random(seed + 1_000_000))
    assert not run.problems, run.problems[0]
