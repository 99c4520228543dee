"""Plugins that kube-scheduler does not have, and functions as plugins, while nodes change.

NodeReady, MeasuredLoad, the plugins of the random scheduler, and drawn functions that accept or
score a node. Nodes come, go and change their conditions and labels; measurements come, change and
become too old. The statuses, scores, hints, and errors of results of a wrong type are those of
plain rules with exact fractions; random numbers are those of a second generator with the same seed.

Source: docs/reference/plugins.md (NodeReady, MeasuredLoad); docs/guides/random-scheduler.md;
docs/guides/write-a-plugin.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.cluster_event import ActionType, EventResource
from mooring.errors import PluginError
from mooring.framework import Reject, per_node
from mooring.framework.functions import predicate, priority
from mooring.framework.status import Status
from mooring.plugins.contrib.load_score import MeasuredLoad
from mooring.plugins.contrib.node_ready import NodeReady
from mooring.plugins.contrib.random_scheduler import (
    RandomBinder,
    RandomPredicate,
    RandomPriority,
)
from mooring.plugins.default_binder import DefaultBinder
from mooring.plugins.priority_sort import PrioritySort
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node, make_pod
from mooring.testing.handle import HarnessHandle
from tests.helpers.virtual_loop import run_virtually

STEPS: Final = 25
NODES_MAX: Final = 7
BEST: Final = 100
UNMEASURED: Final = 50
NODE_EVENTS: Final = ActionType.ADD | ActionType.UPDATE_NODE_CONDITION
NOT_READY: Final = "node(s) were not ready"
UNLUCKY: Final = "node(s) had no luck"
RETRY_S: Final = 1.0
FRESH_S: Final = 30.0
PAUSES_S: Final = (0.0, 0.0, 0.0, 0.0, 1.0, 1.0, FRESH_S + 1.0)
CONDITIONS: Final[tuple[list[dict[str, str]], ...]] = (
    [{"type": "Ready", "status": "True"}],
    [{"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}],
    [{"type": "Ready", "status": "False"}, {"type": "DiskPressure", "status": "True"}],
    [{"type": "Ready", "status": "Unknown"}],
    [{"type": "DiskPressure", "status": "True"}],
    [],
)
#: Results of functions that are no result of a filter, or of a score.
NO_STATUSES: Final = (True, False, "too hot", 0)
SCORES: Final = (0, 1, 50, BEST, np.int64(7))
NO_SCORES: Final = (True, None, 1.0, "7")
BOUNDS: Final = (None, None, None, (0.0, 1.0), (0.0, 8.0), (-4.0, 4.0), (2.0, 2.0), (3.0, 1.0))
VALUES: Final = (-3.0, 0.0, 0.25, 0.5, 1.0, 1.0, 2.0, 3.5, 7.0, 20.0)


class Measured:
    """Measurements that a run sets, which are too old after a while."""

    def __init__(self) -> None:
        self.version = 0
        self.values: dict[str, float] = {}
        self.at_s = 0.0
        self.followed: list[Any] = []

    def fresh_values(self, now_s: float) -> Mapping[str, float]:
        """Returns the measurements; none if they are too old."""
        return self.values if now_s - self.at_s <= FRESH_S else {}

    async def follow(self, handle: Any) -> None:
        """Notes the call."""
        self.followed.append(handle)


def new_node_by_node() -> Any:
    """Returns a plugin that returns what is set for each node, whatever it is.

    The class is made anew, so that its methods are adapted by the adapter of this moment.
    """

    class NodeByNode:
        name = "NodeByNode"

        def __init__(self) -> None:
            self.results: dict[str, Any] = {}
            self.points: dict[str, Any] = {}

        @per_node
        def filter(self, pod: PodInfo, node: Any) -> Any:
            """Returns the status that is set."""
            del pod
            return self.results[node.name]

        @per_node
        def score(self, pod: PodInfo, node: Any) -> Any:
            """Returns the score that is set."""
            del pod
            return self.points[node.name]

    return NodeByNode()


class NotingHandle(HarnessHandle):
    """Notes the bindings."""

    def __init__(self, cache: Cache, clock: VirtualClock, rng: Rng) -> None:
        super().__init__(cache, clock, rng)
        self.bound: list[tuple[str, str]] = []

    async def bind(self, pod: PodInfo, node_name: str) -> None:
        """Notes the binding."""
        self.bound.append((pod.uid, node_name))


class ContribCluster:
    """The plugins, and a cluster that changes.

    Attributes:
        problems: Differences to the rules.
        paths: What happened, and how often.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self.paths: Counter[str] = Counter()
        self._rng = rng = seeded_random(seed)
        self._numbers = seeded_random(seed + 1)
        self._clock, self._measured = VirtualClock(), Measured()
        #: Node -> its conditions and labels.
        self._nodes: dict[str, tuple[list[dict[str, str]], dict[str, str]]] = {}
        self._handle = NotingHandle(Cache(), self._clock, seeded_random(seed + 1))
        self._prefers_most, self._bounds = rng.random() < 0.5, rng.choice(BOUNDS)
        #: What the drawn functions return for a node.
        self._accepted: dict[str, Any] = {}
        self._points: dict[str, Any] = {}
        self._reason = rng.choice(("node(s) were too hot", "{} says no"))
        self._ready = NodeReady()
        self._load = MeasuredLoad(
            self._measured, self._handle, prefers_most=self._prefers_most, bounds=self._bounds
        )
        self._cool = predicate(self._is_cool, name="Cool", reason=self._reason)
        self._rank = priority(self._rank_of, name="Rank")
        self._luck = RandomPredicate(self._handle)
        self._dice = RandomPriority(self._handle)
        self._node_by_node = new_node_by_node()
        plugins = [
            self._ready,
            self._load,
            self._cool,
            self._rank,
            self._luck,
            self._dice,
            self._node_by_node,
        ]
        self._weights = {"MeasuredLoad": rng.randint(1, 3), "Rank": rng.randint(1, 3)}
        self._harness = Harness([], rng.sample(plugins, len(plugins)), weights=self._weights)
        for number in range(rng.randint(1, NODES_MAX)):
            self._put(f"node-{number}")

    def _note(self, what: Any, actual: Any, expected: Any) -> None:
        if actual != expected:
            self.problems.append(f"{what}: {actual}, not {expected}")

    # -- the cluster ------------------------------------------------------------------------------

    def _put(self, name: str) -> None:
        old = self._nodes.get(name)
        conditions, labels = old or ([], {})
        if old is None or self._rng.random() < 0.6:
            conditions = self._rng.choice(CONDITIONS)
        else:
            labels = {"rack": self._rng.choice("ab")}
        self._nodes[name] = conditions, labels
        self._harness.cache.put_node(_node(name, conditions, labels))
        self._check_hint(old and (name, *old), (name, conditions, labels))

    def _change(self) -> None:
        rng, name = self._rng, f"node-{self._rng.randrange(NODES_MAX)}"
        draw = rng.random()
        if draw < 0.4:
            self._put(name)
        elif draw < 0.55 and name in self._nodes and len(self._nodes) > 1:
            old = self._nodes.pop(name)
            self._harness.cache.remove_node(name)
            self._check_hint((name, *old), None)
        else:
            self._measure()

    def _measure(self) -> None:
        rng, measured = self._rng, self._measured
        names = [f"node-{number}" for number in range(NODES_MAX)]
        share = rng.choice((0.0, 0.3, 0.8, 1.0, 1.0))
        measured.values = {name: rng.choice(VALUES) for name in names if rng.random() < share}
        measured.version += 1
        measured.at_s = self._clock.monotonic_s()

    def _check_hint(self, old: Any, new: Any) -> None:
        """Compares the hint of NodeReady for a node that was added, changed or removed."""
        events = self._ready.events()
        facts = [(it.event.resource, it.event.action, it.pure) for it in events]
        self._note("events", facts, [(EventResource.NODE, NODE_EVENTS, True)])
        hint = events[0].hint
        assert hint is not None
        nodes = [None if it is None else _node(*it) for it in (old, new)]
        helps = new is not None and _is_ready(new[1]) and not (old and _is_ready(old[1]))
        pod = PodInfo(make_pod("waiting"))
        self._note((old, new), hint(pod, *nodes).value, "Queue" if helps else "QueueSkip")

    def _is_cool(self, node: Any, pod: Any) -> Any:
        return self._accepted[f"{node.name} {pod.uid}"]

    def _rank_of(self, node: Any, pod: Any) -> Any:
        return self._points[f"{node.name} {pod.uid}"]


class ContribRun(ContribCluster):
    """One run."""

    async def run(self) -> None:
        """Makes all changes and attempts, until one differs."""
        self._check_names()
        await self._check_bindings()
        for number in range(STEPS):
            for _ in range(self._rng.choice((0, 1, 1, 3))):
                self._change()
            self._clock.advance(self._rng.choice(PAUSES_S))
            pod = make_pod(f"pod-{number}", uid=f"pod-{number}")
            self._check_filters(pod)
            self._check_load(pod)
            self._check_functions(pod)
            self._check_node_by_node(pod)
            self._check_numbers(pod)
            self._check_sorting()
            if self.problems:
                return

    # -- NodeReady --------------------------------------------------------------------------------

    def _check_filters(self, pod: Any) -> None:
        statuses = self._harness.statuses(pod, self._ready)
        expected = {
            name: None
            if _is_ready(self._nodes[name][0])
            else ("UnschedulableAndUnresolvable", (NOT_READY,))
            for name in statuses
        }
        self._note("NodeReady", {name: _plain(it) for name, it in statuses.items()}, expected)

    # -- MeasuredLoad -----------------------------------------------------------------------------

    def _check_load(self, pod: Any) -> None:
        scores = self._harness.scores(pod, self._load)
        fresh = self._clock.monotonic_s() - self._measured.at_s <= FRESH_S
        names = list(self._nodes)
        values = {it: self._measured.values[it] for it in names if it in self._measured.values}
        if not fresh or not values:
            self._note("MeasuredLoad without measurements", scores, None)
            self.paths["not measured"] += 1
            return
        self.paths["measured"] += 1
        expected = {name: self._load_scores(values.get(name), values) for name in names}
        if scores is None or scores.keys() != expected.keys():
            self.problems.append(f"MeasuredLoad: {scores}, not {expected}")
        elif any(score not in expected[name] for name, score in scores.items()):
            self.problems.append(f"MeasuredLoad: {scores}, not {expected} of {values}")

    def _load_scores(self, value: float | None, values: Mapping[str, float]) -> set[int]:
        """Returns the score of a node; two for a half, whose fraction may be inexact."""
        low, high = self._bounds or (min(values.values()), max(values.values()))
        if value is None or high <= low:
            return {UNMEASURED}
        share = Fraction(min(max(value, low), high) - low) / Fraction(high - low)
        exact = BEST * (share if self._prefers_most else 1 - share)
        below = int(exact)
        rest = exact - below
        if rest == Fraction(1, 2):
            return {below, below + 1}
        return {below + (rest > Fraction(1, 2))}

    # -- functions --------------------------------------------------------------------------------

    def _check_functions(self, pod: Any) -> None:
        """Compares functions as plugins, whose results are of a wrong type at times."""
        rng, uid = self._rng, pod.metadata.uid
        for name in self._nodes:
            key = f"{name} {uid}"
            self._accepted[key] = rng.random() < 0.6
            self._points[key] = rng.choice(SCORES)
        wrong = rng.choice(list(self._nodes)) if rng.random() < 0.3 else ""
        if wrong:
            self._points[f"{wrong} {uid}"] = value = rng.choice(NO_SCORES)
            expected: Any = f"returned {value!r} for {wrong}, not an int"
        else:
            expected = {name: int(self._points[f"{name} {uid}"]) for name in self._nodes}
        self._note("Rank", _result(lambda: self._harness.scores(pod, self._rank)), expected)
        reason = self._reason.format("Cool")
        statuses = self._harness.statuses(pod, self._cool)
        rejected = {
            name: None if self._accepted[f"{name} {uid}"] else ("Unschedulable", (reason,))
            for name in self._nodes
        }
        self._note("Cool", {name: _plain(it) for name, it in statuses.items()}, rejected)

    def _check_node_by_node(self, pod: Any) -> None:
        """Compares a filter for one node, whose results are of a wrong type at times."""
        rng, plugin = self._rng, self._node_by_node
        results = (None, Reject("one"), Reject("two", "three", resolvable=False))
        plugin.results = {name: rng.choice(results) for name in self._nodes}
        if rng.random() < 0.3:
            wrong, value = rng.choice(list(self._nodes)), rng.choice(NO_STATUSES)
            plugin.results[wrong] = value
            expected: Any = f"returned {value!r} for {wrong}, not None or Reject"
        else:
            expected = plugin.results
        actual = _result(lambda: self._harness.statuses(pod, plugin))
        if isinstance(actual, dict):
            actual = {name: _plain(it) for name, it in actual.items()}
            expected = {name: _plain(it) for name, it in plugin.results.items()}
        self._note("NodeByNode", actual, expected)
        plugin.points = {name: rng.choice(SCORES) for name in self._nodes}
        expected = {name: int(it) for name, it in plugin.points.items()}
        if rng.random() < 0.3:
            wrong, no_score = rng.choice(list(self._nodes)), rng.choice(NO_SCORES)
            plugin.points[wrong] = no_score
            expected = f"returned {no_score!r} for {wrong}, not an int"
        scores = _result(lambda: self._harness.scores(pod, plugin))
        self._note("scores of NodeByNode", scores, expected)

    def _check_names(self) -> None:
        """Compares the names of functions, and what has none; filters return no wrong type."""

        def small(node: Any, pod: Any) -> Any:
            del pod
            return node is not None

        self._note("name", predicate(small).name, "small")
        self._note("name", priority(small).name, "small")
        self._note("name", predicate(small, name="Small").name, "Small")
        self._note("name", priority(small, name="Small").name, "Small")
        nameless: Any = lambda node, pod: True  # noqa: E731 - a function without a name
        for adapt in (predicate, priority):
            try:
                adapt(nameless)
            except ValueError as error:
                self._note("nameless", str(error), f"{nameless!r} has no name: pass name=")
            else:
                self.problems.append("a function without a name is a plugin")
        default = predicate(lambda node, pod: False, name="Never")
        statuses = self._harness.statuses(make_pod(), default)
        reasons = {_plain(status) for status in statuses.values()}
        self._note("reason", reasons, {("Unschedulable", ("node(s) didn't pass Never",))})

    def _check_sorting(self) -> None:
        """Compares the order of two pods, by both methods of PrioritySort."""
        rng, plugin = self._rng, PrioritySort()
        facts = [(rng.choice((0, 0, 5)), rng.choice((1.0, 2.0, 3.0))) for _ in range(2)]
        pods: list[Any] = [
            SimpleNamespace(pod=PodInfo(make_pod(priority=priority)), timestamp_s=at_s)
            for priority, at_s in facts
        ]
        (priority, at_s), (other_priority, other_s) = facts
        is_first = priority > other_priority or (priority == other_priority and at_s < other_s)
        self._note(facts, plugin.less(*pods), is_first)
        self._note(facts, plugin.sort_key(pods[0]) < plugin.sort_key(pods[1]), is_first)

    # -- the random scheduler ---------------------------------------------------------------------

    def _check_numbers(self, pod: Any) -> None:
        """Compares with the numbers of a second generator, in the order of the nodes."""
        statuses = self._harness.statuses(pod, self._luck)
        accepted = {name: self._numbers.random() < 0.5 for name in statuses}
        plain = {name: _plain(it) for name, it in statuses.items()}
        rejection = "Unschedulable", (UNLUCKY,)
        expected = {name: None if is_lucky else rejection for name, is_lucky in accepted.items()}
        self._note("RandomPredicate", plain, expected)
        scores = self._harness.scores(pod, self._dice) or {}
        self._note(
            "RandomPriority", scores, {name: int(self._numbers.random() * 100) for name in scores}
        )
        self._check_retry(pod)

    def _check_retry(self, pod: Any) -> None:
        """Compares when a pod is activated that had no luck."""
        cycle, _ = self._harness.open(pod)
        diagnosis: Any = None
        result = self._luck.post_filter(cycle, diagnosis)
        status = result.status
        expected = ("Unschedulable", ()), (None, (), None)
        self._note("PostFilter", (_plain(status), result[1:4]), expected)
        self._note("events", self._luck.events(), [])
        self._note("due", self._handle.next_call_s, self._clock.monotonic_s() + RETRY_S)
        self._clock.advance(RETRY_S)
        self._handle.activated.clear()
        self._handle.call_due()
        self._note("activated", self._handle.activated, [pod.metadata.uid])

    async def _check_bindings(self) -> None:
        """Compares what is bound, the note of the event, and the background task."""
        pod = make_pod("web", uid="uid-web", namespace=self._rng.choice(("default", "team")))
        cycle, _ = self._harness.open(pod)
        plugins: tuple[Any, ...] = (RandomBinder(self._handle), DefaultBinder(self._handle))
        for plugin in plugins:
            node = f"node-{self._rng.randrange(NODES_MAX)}"
            self._handle.bound.clear()
            self._note("result", await plugin.bind(cycle, node), None)
            self._note("bound", self._handle.bound, [("uid-web", node)])
        note = RandomBinder(self._handle).scheduled_note(PodInfo(pod), "a")
        key = f"{pod.metadata.namespace}/web"
        self._note("note", note, f"pod [{key}] is successfully scheduled to node a")
        await self._load.background()
        self._note("followed", self._measured.followed, [self._handle])
        self._note("measurements", self._load.measurements, self._measured)


def _node(name: str, conditions: list[dict[str, str]], labels: dict[str, str]) -> Any:
    return make_node(name, labels=labels, status={"conditions": conditions})


def _is_ready(conditions: list[dict[str, str]]) -> bool:
    return {"type": "Ready", "status": "True"} in conditions


def _plain(status: Status | None) -> Any:
    return None if status is None else (status.code.value, status.reasons)


def _result(call: Any) -> Any:
    """Returns the result of a call, or the problem of the plugin that broke the contract."""
    try:
        return call()
    except PluginError as error:
        return error.problem


def run_contrib(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a status, a score, a hint or a call differs from the rules.
    """
    run = ContribRun(seed)
    run_virtually(run.run(), seeded_random(seed + 1_000_000))
    assert not run.problems, run.problems[0]
