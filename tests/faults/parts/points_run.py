"""Attempts with up to five plugins that return anything at any extension point.

Plugins have drawn extension points. Some apply to few pods, and the results of some are cached by
the kind of a pod, also those of single nodes, while nodes change, come and go. In each attempt the
nodes that fit, their totals, every reason and the plugins that reject, what PostFilter returns, and
the calls from Reserve to PostBind with their order are those of ``points_model.py``. Filters and
scores find the state that their own PreFilter or PreScore has stored for this kind of pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from random import Random
from typing import Any, Final

import pytest

from mooring.clock import Rng, VirtualClock, seeded_random
from mooring.errors import PluginError
from mooring.framework import Attempt, Cycle, Diagnosis, Framework, Profile
from mooring.framework.interface import EXTENSION_POINTS
from mooring.framework.runtime import bind as bind_points
from mooring.framework.runtime import plugin_errors
from mooring.framework.runtime import post_filter as post_filtering
from mooring.framework.runtime.scheduling_algorithm import schedule_pod
from mooring.framework.status import (
    Status,
)
from mooring.framework.waiting_pods import WaitingPod
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.faults.parts import decisions
from tests.faults.parts.attempts import totals_of
from tests.faults.parts.binding_extenders import binding_problems
from tests.faults.parts.evaluations import Evaluations
from tests.faults.parts.given_nodes import given_problems
from tests.faults.parts.hypothetical_checks import hypothetical_problems
from tests.faults.parts.limits import few_cached_results, few_error_pairs
from tests.faults.parts.logged import logged
from tests.faults.parts.points_model import (
    PREEMPTING,
    RAISED,
    REJECTED,
    SUCCESS,
    Outcome,
    PluginRaised,
    PointsModel,
    PostFilterOutcome,
    Rejection,
)
from tests.faults.parts.points_plugins import (
    NODES_MAX,
    VALUES,
    WAIT_S,
    DrawnPlugins,
    normalized,
)
from tests.faults.parts.points_profile import drawn_profile
from tests.faults.parts.reported_points import (
    PointRecorder,
    TimedCalls,
    expected_reports,
    log_problems,
)
from tests.faults.parts.snapshots import Snapshots
from tests.faults.parts.wrong_results import wrong_result_problems
from tests.helpers.virtual_loop import run_virtually

#: Clusters in which nodes are filtered without victims, and with nominated pods.
HYPOTHETICAL: Final = 2
ATTEMPTS: Final = 24
KINDS: Final = 3
#: In such seeds, modulo four, there are more kinds than cached results: entries are reused.
MANY: Final = 3
MANY_KINDS: Final = 10


#: So many of the frameworks are built from a configuration.
CONFIGURED_SHARE: Final = 0.5
#: The limits of the pairs of plugin and point whose errors are counted apart.
ERROR_PAIRS: Final = (1, 2, 4, 1000)
#: The points whose errors do not fail a pod.
#: In such seeds given nodes are filtered and scored, as the server of extenders does.
GIVEN_EVERY: Final = 3
LOGGED: Final = {"unreserve": "Unreserve", "post_bind": "PostBind"}


class ErrorCounts:
    """Counts errors by plugin and point; the pairs beyond a limit count together.

    Attributes:
        limit: That of the pairs.
        counts: By plugin and point.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.counts: dict[tuple[str, str], int] = {}

    def count(self, errors: Iterable[tuple[str, str]]) -> None:
        """Counts errors."""
        for pair in errors:
            key = pair if pair in self.counts or len(self.counts) < self.limit else OTHERS
            self.counts[key] = self.counts.get(key, 0) + 1


OTHERS: Final = ("other", "other")


class PointsRun:
    """One run.

    Attributes:
        problems: Differences to the model.
        has_many_kinds: Whether there are more kinds of pods than cached results.
        errors: The errors that do not fail a pod, of so many pairs of plugin and point.
    """

    def __init__(self, seed: int) -> None:
        self.has_many_kinds = seed % 4 == MANY
        self._rng = rng = seeded_random(seed)
        self._clock, self._cache = VirtualClock(), Cache()
        self._timed = TimedCalls()
        self._kinds = [*map(str, range(MANY_KINDS if self.has_many_kinds else KINDS))]
        more = seeded_random(seed + 3_000_000)
        self._plugins = DrawnPlugins(rng, more, self._kinds, seed)
        self.problems = self._plugins.problems
        #: Node -> the pods that are nominated to it.
        self._nominated: dict[str, list[PodInfo]] = {}
        self._by_point = {
            point: [plugin for plugin in self._plugins.all if self._plugins.has(plugin.name, point)]
            for point in EXTENSION_POINTS
        }
        drawn = drawn_profile(more, self._plugins) if more.random() < CONFIGURED_SHARE else None
        if drawn is None:
            profile = Profile("points", self._by_point, self._plugins.weights)
            self._framework = Framework(profile, clock=self._timed)
        else:
            self._by_point, self._framework = drawn.by_point, drawn.build(self._timed)
            self._plugins.weights.update(drawn.weights)
        #: What PreEnqueue and PostFilter draw beside the rest, and extenders that bind.
        self._more, self._binding = more, seeded_random(seed + 6_000_000)
        #: The errors of plugins that did not fail their pod.
        self.errors = ErrorCounts(more.choice(ERROR_PAIRS))
        self._framework.timed_every = rng.choice((0, 1, 3))
        self._evaluations = Evaluations(self._by_point, self._clock, is_counting=seed % 2 == 0)
        own = self._evaluations.recorder
        self._framework.recorder = self._recorder = PointRecorder(own, self._plugins.calls)
        framework = self._framework
        regarding = partial(given_problems, seeded_random(seed + 9), framework)
        # Such nodes are filtered in attempts of their own, whose calls are not compared.
        self._given = regarding if seed % GIVEN_EVERY == 0 else None
        if self._given is None:
            framework.timings.recorder = self._recorder
        self._snapshots = Snapshots(
            framework.errors.statistics, framework.timings.statistics, framework.cache_statistics
        )
        for number in range(rng.randint(2, NODES_MAX)):
            self._put(f"node-{number}")

    # -- attempts ---------------------------------------------------------------------------------

    async def run(self) -> None:
        """Makes all attempts, until one differs."""
        for number in range(ATTEMPTS):
            for _ in range(self._rng.choice((0, 0, 1, 1, 2, 8))):
                self._change()
            if self._rng.random() < 0.3:
                _nominate(self._rng, self._cache, self._nominated, f"nominated-{number}")
            kind = self._rng.choice(self._kinds)
            self._plugins.begin(kind, number, may_fail=True)
            await self._attempt(f"pod-{number}", kind)
            self.problems += self._snapshots.problems()
            self.problems += self._recorder.problems
            self.problems += self._timed.problems(self._framework.timings)
            if self._given is None:
                self.problems += self._plugins.calls.problems(is_timed=self._framework.is_timed)
            if self.problems:
                return
        parts = self._framework, self._plugins, self._cache, self._kinds
        self.problems += wrong_result_problems(self._more, *parts)
        self.problems += await binding_problems(self._binding, *parts)
        for name in self._plugins.values:
            self._cache.remove_node(name)
        self._recorder.reports.clear()
        self._plugins.called.clear()
        self.problems += _without_nodes(self._framework, self._cache)
        if called := self._recorder.reports or self._plugins.called:
            self.problems.append(f"without nodes there are calls: {called}")

    def _change(self) -> None:
        name = f"node-{self._rng.randrange(NODES_MAX)}"
        if (
            name in self._plugins.values
            and len(self._plugins.values) > 1
            and self._rng.random() < 0.2
        ):
            del self._plugins.values[name]
            self._cache.remove_node(name)
        else:
            self._put(name)

    def _put(self, name: str) -> None:
        value = self._plugins.values[name] = self._rng.choice(VALUES)
        self._cache.put_node(make_node(name, labels={"value": value}))

    async def _attempt(self, name: str, kind: str) -> None:
        nominated = self._rng.choice(("", "", *(f"node-{n}" for n in range(2))))
        priority = self._rng.choice((0, 1))
        pod = PodInfo(
            make_pod(
                name,
                uid=name,
                priority=priority,
                labels={"kind": kind},
                status={"nominatedNodeName": nominated} if nominated else None,
            )
        )
        snapshot = self._cache.snapshot()
        names = {point: [it.name for it in of] for point, of in self._by_point.items()}
        idle = [it.name for it in self._plugins.all if self._plugins.is_idle(it.name)]
        added = {
            node: sum(other.priority >= priority for other in pods)
            for node, pods in self._nominated.items()
        }

        def result_of(plugin: str, point: str, node: str) -> str | None:
            kind = self._plugins.result(plugin, point, node)
            is_full = point == "filter" and self._plugins.is_full(plugin, node, added.get(node, 0))
            return REJECTED if kind is None and is_full else kind

        model = PointsModel(names, result_of, self._plugins.left, idle)
        self._recorder.reports.clear()
        before = self._more.choice(("", "P9", *(plugin.name for plugin in self._plugins.all)))
        self.problems += _pre_enqueued(self._framework, pod, before, model)
        cycle, attempt = self._framework.new_cycle(pod, snapshot), Attempt(snapshot)
        crowded = [node for node, count in added.items() if count]
        expected: Any
        scorers: list[str] = []
        try:
            expected = model.fitting(list(self._plugins.values), nominated)
            if not isinstance(expected, Outcome) and len(expected) > 1:
                scorers = model.scorers(len(expected))
        except PluginRaised as error:
            expected = error
        try:
            result: Any = schedule_pod(self._framework, cycle, attempt)
        except PluginError as error:
            result = error
        expected = model.with_failed_score(self._plugins.failed, expected)
        self._check_reports(pod, model)
        self.problems += self._evaluations.problems(attempt, model.evaluated, crowded)
        if isinstance(result, PluginError):
            if not isinstance(expected, PluginRaised) or result.plugin not in expected.args:
                self.problems.append(f"{name}: {result}, not {expected!r}")
        elif isinstance(expected, PluginRaised):
            self.problems.append(f"{name}: {result}, not an error of {expected.args}")
        elif isinstance(result, Diagnosis):
            self._check_diagnosis(pod, attempt, result, expected, model, cycle)
        elif isinstance(expected, Outcome) or result.node_name not in expected:
            self.problems.append(f"{name} is placed on {result.node_name}, not of {expected}")
        else:
            self._check_placed(pod, attempt, result.node_name, expected, scorers, model)
            await self._bind(pod, cycle, result.node_name, model)
        if self._given is not None and not isinstance(expected, PluginRaised):
            self.problems += self._given((pod, attempt), model, crowded, self._plugins)

    def _check_reports(self, pod: PodInfo, model: PointsModel) -> None:
        """Compares the extension points that are recorded, and the errors that are counted."""
        if (reports := self._recorder.reports) != model.reports:
            self.problems.append(f"{pod.key}: {reports} are reported, not {model.reports}")
        self.errors.count(model.logged)
        model.logged.clear()
        counts = self._framework.errors.statistics()
        if counts != self.errors.counts:
            self.problems.append(f"{pod.key}: errors {counts}, not {self.errors.counts}")

    def _check_diagnosis(
        self,
        pod: PodInfo,
        attempt: Attempt,
        diagnosis: Diagnosis,
        expected: Any,
        model: PointsModel,
        cycle: Cycle,
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
        copies = self._evaluations.copies
        self.problems += decisions.refused(copies, attempt, diagnosis, model.rejected, expected)
        merged = post_filtering.post_filter(self._framework, cycle, diagnosis)
        status = None if merged.status is None else _rejection(merged.status)
        due = model.post_filter()
        if due.rejection is not None and not due.rejection.reasons and status is not None:
            rejection = due.rejection._replace(reasons=status.reasons)  # the text of an error
            due = due._replace(rejection=rejection)
        names = [plugin.name for plugin in self._by_point["post_filter"]]
        result = PostFilterOutcome(
            status,
            merged.node_name,
            _plugin_with(names, self._plugins.record_of, merged.record),
            _plugin_with(names, self._plugins.claim_change_of, merged.claim_change),
        )
        if result != due:
            self.problems.append(f"{pod.key}: PostFilter {result}, not {due}")
        if names:
            code = SUCCESS if due.rejection is None else due.rejection.code
            model.reports.append(("PostFilter", code))
        self._check_reports(pod, model)

    def _check_placed(
        self,
        pod: PodInfo,
        attempt: Attempt,
        selected: str,
        fitting: list[str],
        scorers: list[str],
        model: PointsModel,
    ) -> None:
        """Compares the totals, and the decision as it is recorded."""
        expected = dict.fromkeys(fitting, 0)
        raw = {plugin: dict.fromkeys(fitting, 0) for plugin in model.zero_scorers()}
        scaled = {plugin: dict(zeros) for plugin, zeros in raw.items()}
        for plugin in scorers:
            scores = [self._plugins.score(plugin, node) for node in fitting]
            raw[plugin] = dict(zip(fitting, scores, strict=True))
            if plugin in self._plugins.is_reversed:
                scores = normalized(scores, is_reversed=self._plugins.is_reversed[plugin])
            scaled[plugin] = dict(zip(fitting, scores, strict=True))
            for node, score in zip(fitting, scores, strict=True):
                expected[node] += score * self._plugins.weights[plugin]
        due = expected if len(fitting) > 1 else None
        totals = totals_of(attempt) if due is not None else expected
        if totals != expected:
            self.problems.append(f"{pod.key} has the totals {totals}, not {expected}")
        elif expected[selected] != max(expected.values()):
            self.problems.append(f"{pod.key} is placed on {selected}: {expected}")
        self.problems += decisions.placed(
            self._evaluations.copies, attempt, selected, model.rejected, due, (raw, scaled)
        )

    async def _bind(self, pod: PodInfo, cycle: Cycle, node: str, model: PointsModel) -> None:
        made, ended_by, delaying = model.calls()
        expected = made, ended_by, dict.fromkeys(delaying, WAIT_S)
        self._recorder.reports.clear()
        ended = await _bound(self._framework, self._clock.monotonic_s(), cycle, node)
        if (self._plugins.called, *ended) != expected:
            self.problems.append(f"{pod.key}: {self._plugins.called}, {ended}, not {expected}")
            return
        model.reports = expected_reports(model, is_timed=cycle.is_timed)
        model.logged += _logged(self._plugins)
        self._check_reports(pod, model)


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


def _nominate(rng: Rng, cache: Cache, pods_of: dict[str, list[PodInfo]], name: str) -> None:
    """Nominates a pod to a node, or ends all nominations to one."""
    node = f"node-{rng.randrange(NODES_MAX)}"
    pods = pods_of.setdefault(node, [])
    if len(pods) > 1:
        for pod in pods:
            cache.nominator.remove(pod.uid)
        pods.clear()
        return
    pods.append(PodInfo(make_pod(name, uid=name, priority=rng.choice((0, 1, 2)))))
    cache.nominator.nominate(pods[-1], node)


def _without_nodes(framework: Framework, cache: Cache) -> Iterator[str]:
    """Yields a difference of an attempt without nodes, which ends a nomination."""
    snapshot = cache.snapshot()
    cycle = framework.new_cycle(PodInfo(make_pod("last")), snapshot)
    diagnosis: Any = schedule_pod(framework, cycle, Attempt(snapshot))
    result = post_filtering.post_filter(framework, cycle, diagnosis)
    if (result.status, result.node_name, diagnosis.node_count) != (None, "", 0):
        yield f"without nodes: {result}, {diagnosis}"


def _pre_enqueued(
    framework: Framework, pod: PodInfo, before: str, model: PointsModel
) -> Iterator[str]:
    """Compares PreEnqueue, with a plugin that rejected the pod before; yields a difference."""
    expected: Any
    try:
        expected = model.pre_enqueue(before)
    except PluginRaised as error:
        expected = error.args
    try:
        status = framework.pre_enqueue(pod, first=before)
        result: Any = None if status is None else _rejection(status)
    except PluginError as error:
        result = (error.plugin,)
    if result != expected:
        yield f"{pod.key}: PreEnqueue {result}, not {expected}"


def _logged(plugins: DrawnPlugins) -> list[tuple[str, str]]:
    """Returns the plugin and the point of errors that do not fail their pod."""
    return [
        (plugin, LOGGED[point])
        for point, plugin in plugins.called
        if point in LOGGED and plugins.result(plugin, point) == RAISED
    ]


def _plugin_with(names: Iterable[str], of_plugin: Callable[[str], Any], value: Any) -> str:
    """Returns the plugin whose PostFilter has returned an object, "" = none."""
    return next((it for it in names if value is not None and of_plugin(it) is value), "")


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
    with (
        few_cached_results(only_if=run.has_many_kinds),
        few_error_pairs(run.errors.limit),
        pytest.MonkeyPatch.context() as patch,
        logged(plugin_errors) as log,
    ):
        patch.setattr(post_filtering, "PREEMPTION", PREEMPTING)
        run_virtually(run.run(), seeded_random(seed + 1_000_000))
    problems = [*run.problems, *log_problems(log.lines)]
    hypothetical = Random(f"{seed} hypothetical")
    for _ in range(HYPOTHETICAL):
        problems += hypothetical_problems(hypothetical)
    assert not problems, problems[0]
