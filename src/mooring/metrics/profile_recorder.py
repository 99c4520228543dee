"""Records the extension points and the plugins of one profile.

Evaluations of plugins are counted by attempt and not by plugin: the plugins that skip a pod are
nearly always the same, so one counter per set of skipping plugins is increased, and the plugins'
own counts are computed at a scrape.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Final

from mooring.metrics.recorders import FrameworkRecorder, RefusedCounts
from mooring.metrics.series import Registered

PRE_FILTER: Final = "PreFilter"
FILTER: Final = "Filter"
PRE_SCORE: Final = "PreScore"
SCORE: Final = "Score"

#: The extension points whose evaluations are counted, and the attribute with their plugins.
EVALUATED: Final = {
    PRE_FILTER: "pre_filter",
    FILTER: "filter",
    PRE_SCORE: "pre_score",
    SCORE: "score",
}

#: (plugin, extension point) -> the stage whose errors kube-scheduler counts.
VOLUME_STAGES: Final = {
    ("VolumeBinding", "Filter"): "predicate",
    ("VolumeBinding", "Reserve"): "assume",
    ("VolumeBinding", "PreBind"): "bind",
}

#: Out-of-tree plugins may skip in many combinations: then the counts are added up early.
GROUPS_MAX: Final = 256


class _Group:
    """Attempts that the same plugins skipped: pods, nodes, and nodes by first rejecting filter."""

    __slots__ = ("nodes", "pods", "refused")

    def __init__(self) -> None:
        self.pods = 0
        self.nodes = 0
        self.refused: dict[int, int] = {}


class ProfileRecorder(FrameworkRecorder):
    """Records into the series of the registry.

    Args:
        profile: The schedulerName, a label.
        plugins: Extension point (``PreFilter``, ``Filter``, ``PreScore``, ``Score``) -> names of
            its plugins, in order.
        now: Returns monotonic seconds.
        metrics: Has the series.
    """

    __slots__ = (
        "_evaluations",
        "_executions",
        "_filter_groups",
        "_plugins",
        "_point_children",
        "_points",
        "_preemptions",
        "_profile",
        "_score_groups",
        "_volume_errors",
    )

    def __init__(
        self,
        profile: str,
        plugins: Mapping[str, Sequence[str]],
        now: Callable[[], float],
        metrics: Registered,
    ) -> None:
        numbers, distributions = metrics.numbers, metrics.distributions
        self.now = now
        self._profile = profile
        self._plugins = {point: tuple(plugins.get(point, ())) for point in EVALUATED}
        self._points = distributions("scheduler_framework_extension_point_duration_seconds")
        self._point_children = self._points.children
        self._executions = distributions("scheduler_plugin_execution_duration_seconds")
        self._evaluations = numbers("scheduler_plugin_evaluation_total")
        self._preemptions = numbers("scheduler_preemption_attempts_total")
        self._volume_errors = numbers("scheduler_volume_scheduling_stage_error_total")
        self._filter_groups: dict[frozenset[str], _Group] = {}
        self._score_groups: dict[frozenset[str], _Group] = {}

    # -- durations --------------------------------------------------------------------------------

    def point(self, point: str, status: str, started_s: float) -> None:
        """Records that all plugins of an extension point have run."""
        seconds = self.now() - started_s
        key = (point, status, self._profile)
        child = self._point_children.get(key) or self._points.labels(*key)
        child.counts[bisect_left(child.bounds, seconds)] += 1
        child.sum += seconds

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Records a call of a plugin that was timed."""
        self._executions.labels(plugin, point, status).observe(seconds)

    # -- evaluations ------------------------------------------------------------------------------

    def pre_filtered(self, skipped: Set[str]) -> None:
        """Counts the PreFilter plugins of a pod; ``skipped`` returned SKIP."""
        _group(self._filter_groups, skipped, self.fold).pods += 1

    def pre_filter_stopped(self, last: str, skipped: Set[str]) -> None:
        """Counts the PreFilter plugins of a pod, up to the one that rejected it."""
        for name in self._plugins[PRE_FILTER]:
            if name not in skipped:
                self._evaluated(name, PRE_FILTER, 1)
            if name == last:
                return

    def filtered(
        self, skipped: Set[str], node_count: int, refused_counts: RefusedCounts | None
    ) -> None:
        """Counts the nodes that each filter evaluated."""
        group = _group(self._filter_groups, skipped, self.fold)
        group.nodes += node_count
        if refused_counts is not None:
            counts = refused_counts()
            for number in range(len(self._plugins[FILTER])):
                count = counts[number + 1]
                if count:
                    group.refused[number] = group.refused.get(number, 0) + count

    def filtered_once(self, plugin: str, node_count: int) -> None:
        """Counts the nodes of a call of one filter, on hypothetical nodes."""
        self._evaluated(plugin, FILTER, node_count)

    def scored(self, skipped: Set[str], node_count: int) -> None:
        """Counts the PreScore plugins of a pod, and the nodes that each score plugin scored."""
        group = _group(self._score_groups, skipped, self.fold)
        group.pods += 1
        group.nodes += node_count

    def fold(self) -> None:
        """Adds what was counted by attempt to the counts of the plugins. Runs before a scrape."""
        for point, names in self._plugins.items():
            for name in names:
                self._evaluated(name, point, 0)
        for skipped, group in self._filter_groups.items():
            for name in self._plugins[PRE_FILTER]:
                if name not in skipped:
                    self._evaluated(name, PRE_FILTER, group.pods)
            nodes = group.nodes
            for number, name in enumerate(self._plugins[FILTER]):
                if name not in skipped:
                    self._evaluated(name, FILTER, nodes)
                    nodes -= group.refused.get(number, 0)
        for skipped, group in self._score_groups.items():
            for point, count in ((PRE_SCORE, group.pods), (SCORE, group.nodes)):
                for name in self._plugins[point]:
                    if name not in skipped:
                        self._evaluated(name, point, count)
        self._filter_groups.clear()
        self._score_groups.clear()

    def _evaluated(self, plugin: str, point: str, count: int) -> None:
        self._evaluations.labels(plugin, point, self._profile).value += count

    # -- others -----------------------------------------------------------------------------------

    def plugin_failed(self, plugin: str, point: str) -> None:
        """Counts an error of VolumeBinding by the stage of kube-scheduler's volume binder."""
        operation = VOLUME_STAGES.get((plugin, point))
        if operation is not None:
            self._volume_errors.labels(operation).value += 1

    def preemption_attempted(self) -> None:
        """Counts an attempt of DefaultPreemption."""
        self._preemptions.labels().value += 1


def _group(
    groups: dict[frozenset[str], _Group], skipped: Set[str], fold: Callable[[], None]
) -> _Group:
    key = frozenset(skipped)
    group = groups.get(key)
    if group is None:
        if len(groups) >= GROUPS_MAX:
            fold()
        group = groups[key] = _Group()
    return group
