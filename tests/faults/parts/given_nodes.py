"""Filter and Score for given nodes, as the server of extenders runs them, beside plain rules.

Source: framework/runtime/framework.go (RunFilterPluginsWithNominatedPods, RunScorePlugins).
*Differs:* the score of a node is the mean of its scores by weight.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from mooring.clock import Rng
from mooring.errors import PluginError
from mooring.framework import Attempt, Cycle, Framework
from mooring.framework.runtime.evaluate import (
    filter_nodes,
    filter_nodes_without_victims,
    score_nodes,
)
from mooring.metrics.recorders import FrameworkRecorder
from mooring.state import PodInfo
from tests.faults.parts.attempts import totals_of
from tests.faults.parts.points_model import (
    CODES,
    FAILED,
    UNRESOLVABLE,
    Outcome,
    PluginRaised,
    PointsModel,
    Rejection,
    reason_of,
)
from tests.faults.parts.points_plugins import DrawnPlugins

LEFT_OUT: Final = "node(s) didn't satisfy plugin(s) [{}]"


def given_problems(
    rng: Rng,
    framework: Framework,
    made: tuple[PodInfo, Attempt],
    model: PointsModel,
    crowded: Collection[str],
    plugins: DrawnPlugins,
) -> Iterator[str]:
    """Filters and scores some nodes after an attempt; yields differences.

    Args:
        rng: Draws the nodes.
        framework: With the plugins.
        made: The pod and the attempt.
        model: Of the pod.
        crowded: The nodes with nominated pods that count.
        plugins: Those of the framework.
    """
    pod, attempt = made
    totals: dict[str, tuple[int, int]] = {}
    if attempt.total is not None and model.evaluated.score:
        weight = sum(plugins.weights[it] for it in model.evaluated.score)
        totals = {name: (total, weight) for name, total in totals_of(attempt).items()}
    names = [attempt.snapshot.nodes.names[row] for row in attempt.snapshot.nodes.order.rows()]
    nodes = GivenNodes(framework, rng, lambda: framework.new_cycle(pod, attempt.snapshot))
    yield from nodes.problems(model, names, crowded, totals)


class GivenNodes:
    """Compares what a framework says of some nodes.

    Args:
        framework: With the plugins of the model.
        rng: Draws the nodes.
        new_cycle: Begins an attempt at a pod.
    """

    def __init__(self, framework: Framework, rng: Rng, new_cycle: Callable[[], Cycle]) -> None:
        self._framework, self._rng, self._new_cycle = framework, rng, new_cycle

    def problems(
        self,
        model: PointsModel,
        nodes: Sequence[str],
        crowded: Collection[str],
        totals: Mapping[str, tuple[int, int]],
    ) -> Iterator[str]:
        """Yields differences.

        Args:
            model: Of the pod.
            nodes: All nodes.
            crowded: Those with nominated pods that count.
            totals: Node -> the sum of its scores and of their weights, of those that are scored.
        """
        framework, recorder = self._framework, self._framework.recorder
        framework.recorder = FrameworkRecorder()
        try:
            yield from self._filtered(model, self._some(nodes))
            yield from self._spared(model, self._some([it for it in nodes if it not in crowded]))
            if totals:
                yield from self._scored(totals)
        finally:
            framework.recorder = recorder

    def _some(self, nodes: Sequence[str]) -> list[str]:
        return self._rng.sample(list(nodes), self._rng.randint(0, len(nodes)))

    def _statuses(
        self, model: PointsModel, names: Sequence[str]
    ) -> dict[str, Rejection | None] | set[str]:
        """Returns the status of each node; or the plugins of which one has failed."""
        try:
            before = model.pre_filter()
        except PluginRaised as error:
            return set(error.args)
        if isinstance(before, Outcome):
            return dict.fromkeys(names, before.pre_filter)
        skipped, narrowing, left = before
        statuses: dict[str, Rejection | None] = {}
        failed = set()
        for name in names:
            first = model.first_rejection(name, skipped)
            if left is not None and name not in left:
                reason = LEFT_OUT.format(" ".join(narrowing))
                statuses[name] = Rejection(CODES[UNRESOLVABLE], (reason,), "")
            elif first is None:
                statuses[name] = None
            elif first.kind == FAILED:
                failed.add(first.plugin)
                statuses[name] = Rejection("Error", (), first.plugin)
            else:
                statuses[name] = Rejection(CODES[first.kind], (reason_of(*first),), first.plugin)
        return failed or statuses

    def _filtered(self, model: PointsModel, names: Sequence[str]) -> Iterator[str]:
        expected = self._statuses(model, names)
        try:
            statuses = filter_nodes(self._framework, self._new_cycle(), names)
        except PluginError as error:
            if not isinstance(expected, set) or error.plugin not in expected:
                yield f"{names} are filtered: {error}, not {expected}"
            return
        real = {name: None if it is None else _rejection(it) for name, it in statuses.items()}
        if isinstance(expected, dict) and not any(map(_is_vague, expected.values())):
            if real != expected:
                yield f"{names} are filtered: {real}, not {expected}"
        elif isinstance(expected, set) or None in real.values():
            yield f"{names} are filtered: {real}, not {expected}"

    def _spared(self, model: PointsModel, names: Sequence[str]) -> Iterator[str]:
        """Compares the nodes that fit without victims, of which there are none here."""
        expected = self._statuses(model, names)
        victims: dict[str, Any] = dict.fromkeys(names, ())
        try:
            real: Any = filter_nodes_without_victims(self._framework, self._new_cycle(), victims)
        except PluginError as error:
            real = error.plugin
        if isinstance(expected, dict):
            if real != {name for name, it in expected.items() if it is None}:
                yield f"{names} fit without victims: {real}, not {expected}"
        elif real not in expected and not isinstance(real, set):
            yield f"{names} fit without victims: {real}, not {expected}"

    def _scored(self, totals: Mapping[str, tuple[int, int]]) -> Iterator[str]:
        names = list(totals)  # scores are scaled by the best of all
        cycle = self._new_cycle()
        # The states of PreFilter, as in a call of ``prioritize`` after one of ``filter``.
        filter_nodes(self._framework, cycle, names)
        real = score_nodes(self._framework, cycle, names)
        expected = {
            name: total / weights if weights else float(total)
            for name, (total, weights) in totals.items()
        }
        if real != expected:
            yield f"{names} are scored: {real}, not {expected}"


def _rejection(status: Any) -> Rejection:
    return Rejection(status.code.value, status.reasons, status.plugin)


def _is_vague(rejection: Rejection | None) -> bool:
    """Returns whether the text of a rejection is not known."""
    return rejection is not None and not rejection.reasons
