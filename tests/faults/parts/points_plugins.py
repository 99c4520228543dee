"""Plugins with drawn extension points, which return anything: see ``points_run.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

from mooring.clock import Rng, seeded_random
from mooring.framework import Cycle, Diagnosis, NodeView, Reject, Wait
from mooring.framework.node_info import NodeInfo
from mooring.framework.status import (
    SKIP,
    ClaimChange,
    FilterStatuses,
    NodeError,
    Pending,
    PostFilterResult,
    PreFilterResult,
    Status,
)
from mooring.objects.resource import ResourceClaim
from mooring.state import Change, PodInfo
from tests.faults.parts.points_model import (
    CHANGED,
    FAILED,
    NARROWED,
    NOMINATED,
    PENDING,
    RAISED,
    RECORDED,
    REJECTED,
    SKIPPED,
    UNRESOLVABLE,
    WAITS,
    reason_of,
)
from tests.faults.parts.timed_points import PluginCalls

NODES_MAX: Final = 5
#: Results of a wrong type, which count as an exception of the plugin: so often they are returned
#: in its place.
WRONG: Final = ("nonsense", 7, (), False, NodeError("no result"))
WRONG_SHARE: Final = 0.4
#: In so many attempts a score plugin fails, in one of these ways.
FAILING_SHARE: Final = 0.12
FAILING: Final = ("score", "normalize", "range")
#: Scores that a plugin normalizes are so many times as large, also of another sign.
SCALES: Final = (1, 1, -1, -2, -50, 300, -40_000, 5_000_000, -(10**12))
#: Scores that are none.
OUT_OF_RANGE: Final = (101, -1, 2**62)
#: The extension points that return nothing, and the one whose result has a status.
UNCHECKED: Final = ("unreserve", "post_bind", "post_filter")
#: What the plugins read of a node.
VALUES: Final = ("0", "1", "2")
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
    "pre_enqueue": ((None, 70), (REJECTED, 15), (UNRESOLVABLE, 10), (RAISED, 5)),
    "filter": ((None, 70), (REJECTED, 20), (UNRESOLVABLE, 6), (PENDING, 3), (FAILED, 0.5)),
    "cap": (("0", 1), ("1", 1), ("9", 1)),
    "post_filter": ((REJECTED, 60), (NOMINATED, 15), (UNRESOLVABLE, 10), (FAILED, 8), (RAISED, 7)),
    "nomination": ((None, 50), ("", 50)),
    "record": ((None, 50), (RECORDED, 50)),
    "claim": ((None, 60), (CHANGED, 40)),
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
#: Those with draws of their own.
LATER: Final = ("pre_enqueue", "record", "claim")
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


class State(NamedTuple):
    """The state of a plugin.

    Attributes:
        of: For which pods it was stored.
        added: How many nominated pods are added to each node; () = none are.
    """

    of: str
    added: tuple[int, ...] = ()


class PointsPlugin:
    """A plugin that has those of the methods below that are drawn."""

    def __init__(self, name: str, run: DrawnPlugins) -> None:
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
            if point not in UNCHECKED and self.run.wrong.random() < WRONG_SHARE:
                return self.run.wrong.choice(WRONG)
            raise ValueError(f"drawn in {point}")
        reason = reason_of(self.name, kind)
        if kind == FAILED:
            return NodeError(reason)
        if kind == PENDING:
            return Pending(reason)
        return Reject(reason, resolvable=kind != UNRESOLVABLE)

    def check_state(self, cycle: Cycle, point: str) -> None:
        """Reports a state that is not of this kind of pods."""
        if self.run.has(self.name, point) and cycle[self].of != self.run.state_of(self.name):
            self.run.problems.append(f"{self.name} has the state {cycle[self]} of other pods")

    def status_on(self, cycle: Cycle, node: str, position: int) -> Status | None:
        """Returns the status of a node; with too many nominated pods it is rejected, too."""
        kind = self.run.result(self.name, "filter", node)
        if kind is None and self in cycle and self.run.has(self.name, "pre_filter"):
            added = cycle[self].added
            is_full = bool(added) and self.run.is_full(self.name, node, added[position])
            kind = REJECTED if is_full else None
        status: Status | None = self.drawn(kind, "filter")
        return status


class Methods:
    """The methods that a plugin may have, but for those that only record their calls."""

    def pre_enqueue(self: Any, pod: PodInfo) -> Any:
        """Returns what was drawn."""
        del pod
        return self.drawn(self.run.result(self.name, "pre_enqueue"), "pre_enqueue")

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
            cycle[self] = State(self.run.state_of(self.name))
        return result

    def filter(self: Any, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        """Returns the status of each node."""
        self.check_state(cycle, "pre_filter")
        return FilterStatuses.of(
            [self.status_on(cycle, name, position) for position, name in enumerate(nodes.names)]
        )

    def filter_node(self: Any, cycle: Cycle, node: NodeInfo) -> Status | None:
        """Returns the status of a node."""
        self.check_state(cycle, "pre_filter")
        status: Status | None = self.status_on(cycle, node.name, 0)
        return status

    def add_pod(self: Any, cycle: Cycle, state: State, pod: PodInfo, node: NodeInfo) -> State:
        """Counts a nominated pod."""
        del cycle, pod, node
        return State(state.of, ((state.added or (0,))[0] + 1,))

    def remove_pod(self: Any, cycle: Cycle, state: State, pod: PodInfo, node: NodeInfo) -> State:
        """Counts a nominated pod less."""
        del cycle, pod, node
        return State(state.of, ((state.added or (0,))[0] - 1,))

    def apply_deltas(self: Any, cycle: Cycle, state: State, nodes: NodeView) -> State:
        """Counts the nominated pods of all nodes."""
        del cycle
        return State(state.of, tuple(len(pods) for pods in nodes.added))

    def post_filter(self: Any, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Nominates the pod, or not."""
        del cycle, diagnosis
        kind = self.run.result(self.name, "post_filter")
        if kind == RAISED and self.run.wrong.random() < WRONG_SHARE:
            wrong: PostFilterResult = self.run.wrong.choice(WRONG)
            return wrong
        more: Any = {
            "record": self.run.record_of(self.name),
            "claim_change": self.run.claim_change_of(self.name),
        }
        if kind == NOMINATED:
            return PostFilterResult(None, f"by {self.name}", **more)
        nomination = self.run.result(self.name, "nomination")
        return PostFilterResult(self.drawn(kind, "post_filter"), nomination, **more)

    def pre_score(self: Any, cycle: Cycle, nodes: NodeView) -> Any:
        """Stores a state, and returns what was drawn."""
        del nodes
        if self.run.is_idle(self.name):
            return SKIP
        result = self.drawn(self.run.result(self.name, "pre_score"), "pre_score")
        if result is not SKIP:
            cycle[self] = State(self.run.state_of(self.name))
        return result

    def score(self: Any, cycle: Cycle, nodes: NodeView) -> Any:
        """Returns the score of each node."""
        self.check_state(cycle, "pre_score")
        self.run.fail(self.name, "score")
        scores = [self.run.score(self.name, node.name) for node in nodes]
        if not hasattr(self, "normalize"):
            scores = self.run.out_of_range(self.name, scores)
        return np.array(scores, dtype=np.int64)

    def score_node(self: Any, cycle: Cycle, node: NodeInfo) -> int:
        """Returns the score of a node."""
        self.check_state(cycle, "pre_score")
        self.run.fail(self.name, "score")
        score: int = self.run.score(self.name, node.name)
        return score

    def normalize(self: Any, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
        """Scales the scores, so that the highest is 100, or 0 if the order is reversed."""
        del cycle, nodes
        self.run.fail(self.name, "normalize")
        scaled = normalized(scores.tolist(), is_reversed=self.is_reversed)
        return np.array(self.run.out_of_range(self.name, scaled))

    def sign(self: Any, pod: PodInfo) -> str | None:
        """Returns the kind of the pod; None = its results are not cached."""
        kind = pod.metadata.labels["kind"]
        return kind if self.run.signs(self.name, kind) else None

    def applies_to(self: Any, pod: PodInfo) -> bool:
        """Returns whether the plugin has to do with pods of this kind."""
        applies: bool = self.run.applies(self.name, pod.metadata.labels["kind"])
        return applies


def normalized(scores: list[int], *, is_reversed: bool) -> list[int]:
    """Returns scores from 0 to 100, by how far they are from 0."""
    sizes = list(map(abs, scores))
    highest = max(1, *sizes)
    scaled = [size * 100 // highest for size in sizes]
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


class DrawnPlugins:
    """The plugins of a run, and what they return for the pod of an attempt.

    Attributes:
        problems: Differences to the model.
        called: The calls of this attempt from Reserve on: extension point and plugin.
        calls: All calls of this attempt, and those that are timed.
        values: Node -> what the plugins read of it.
        weights: Of the scores of each plugin.
        is_reversed: Of the plugins that normalize scores: whether the order is reversed.
        failed: The score plugin that has failed in this attempt, and how; None = none has.

    Args:
        rng: Draws all but the points in ``LATER``.
        more: Draws these.
        kinds: The kinds of pods.
        seed: Of what draws results of a wrong type, and the score plugins that fail.
    """

    def __init__(self, rng: Rng, more: Rng, kinds: list[str], seed: int) -> None:
        self.wrong = seeded_random(seed + 4_000_000)
        self.failed: tuple[str, str] | None = None
        self._failing, self._fails = seeded_random(seed + 5_000_000), ("", "")
        self._scaling, self._scales = seeded_random(seed + 6_000_000), dict[str, int]()
        self.problems: list[str] = []
        self.called: list[tuple[str, str]] = []
        self.calls = PluginCalls()
        self.values: dict[str, str] = {}
        self.weights: dict[str, int] = {}
        self.is_reversed: dict[str, bool] = {}
        self._rng, self._more, self._kinds = rng, more, kinds
        #: Of the attempt: its kind of pods, and its number.
        self._kind, self._number = "", 0
        #: Results of this attempt, and those that stay.
        self._of_attempt: dict[tuple[str, ...], Any] = {}
        self._fixed: dict[tuple[str, ...], Any] = {}
        self._points: dict[str, list[str]] = {}
        self._signing: dict[str, set[str]] = {}
        self._idle_for: dict[str, set[str]] = {}
        #: The plugins that count nominated pods.
        self._counting: set[str] = set()
        self.all = [self._new_plugin(f"P{number}") for number in range(rng.randint(1, 5))]

    def begin(self, kind: str, number: int, *, may_fail: bool = False) -> None:
        """Begins an attempt for a kind of pods, in which a score plugin may fail."""
        self.failed, self._fails = None, ("", "")
        if may_fail and self._failing.random() < FAILING_SHARE:
            self._fails = self._failing.choice(self.all).name, self._failing.choice(FAILING)
        self._kind, self._number = kind, number
        self._of_attempt.clear()
        self.called.clear()
        self.calls.clear()

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
        if self._more.random() < 0.4:
            methods.append("pre_enqueue")
        self._points[name] = [*methods]
        self.weights[name] = rng.choice((1, 1, 3))
        attributes: dict[str, Any] = {}
        if "score" in methods and rng.random() < 0.5:
            methods.append("normalize")
            self._scales[name] = self._scaling.choice(SCALES)
            self.is_reversed[name] = attributes["is_reversed"] = rng.random() < 0.5
            if rng.random() < 0.5:
                attributes["normalized_zero"] = 100 if self.is_reversed[name] else 0
        if rng.random() < 0.6:
            methods.append("sign")
            attributes["reads"] = Change.LABELS
            self._signing[name] = {kind for kind in self._kinds if rng.random() < 0.8}
            if rng.random() < 0.5:
                one_node = (("filter", "filter_node"), ("score", "score_node"))
                methods += [method for point, method in one_node if point in methods]
        if "filter" in methods and rng.random() < 0.5:
            methods += rng.choice((("add_pod", "remove_pod"), ("apply_deltas",)))
            self._counting.add(name)
        if rng.random() < 0.4:
            methods.append("applies_to")
            self._idle_for[name] = {kind for kind in self._kinds if rng.random() < 0.6}
        attributes |= {method: self.calls.noted(method, METHODS[method]) for method in methods}
        plugin: PointsPlugin = type("DrawnPlugin", (PointsPlugin,), attributes)(name, self)
        return plugin

    def fail(self, plugin: str, how: str) -> None:
        """Raises, if the plugin fails in this way."""
        if self._fails == (plugin, how):
            self.failed = self._fails
            raise ValueError(f"drawn in {how}")

    def out_of_range(self, plugin: str, scores: list[int]) -> list[int]:
        """Returns scores of which one is none, if the plugin fails so; cached ones never are."""
        is_cached = plugin in self._signing and plugin not in self.is_reversed
        if self._fails != (plugin, "range") or is_cached:
            return scores
        self.failed = self._fails
        return [*scores[1:], self._failing.choice(OUT_OF_RANGE)]

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
            key = plugin, point, self._kind, self.values[node] if node else ""
            drawn = self._fixed
        else:
            key, drawn = (plugin, point, node, ""), self._of_attempt
        if key not in drawn:
            kinds, weights = zip(*DRAWN[point], strict=True)
            rng = self._more if point in LATER else self._rng
            drawn[key] = rng.choices(kinds, weights)[0]
        result: str | None = drawn[key]
        return result

    def record_of(self, plugin: str) -> Callable[[], Any] | None:
        """Returns the record that PostFilter of the plugin returns."""
        record: Callable[[], Any] | None
        record = self._of_post_filter(plugin, "record", lambda: lambda: None)
        return record

    def claim_change_of(self, plugin: str) -> ClaimChange | None:
        """Returns the change of a claim that PostFilter of the plugin asks for."""
        change: ClaimChange | None
        change = self._of_post_filter(plugin, "claim", lambda: ClaimChange(ResourceClaim()))
        return change

    def _of_post_filter(self, plugin: str, what: str, new: Callable[[], Any]) -> Any:
        """Returns an object, the same one for the whole attempt; None = the plugin has none."""
        if self.result(plugin, what) is None:
            return None
        return self._of_attempt.setdefault((plugin, what, "", "object"), new())

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
        score = 0 if self.is_idle(plugin) else int(self.result(plugin, "score", node) or 0)
        return score * self._scales.get(plugin, 1)

    def is_full(self, plugin: str, node: str, added: int) -> bool:
        """Returns whether the plugin rejects a node with so many nominated pods."""
        return plugin in self._counting and added > int(self.result(plugin, "cap", node) or 0)
