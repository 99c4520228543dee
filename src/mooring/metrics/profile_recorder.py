"""Records the extension points and the plugins of one profile.

The durations of successful extension points are collected in lists, and sorted into buckets many at
a time. Evaluations of plugins are counted by attempt and not by plugin: the plugins that skip a pod
are nearly always the same, so one counter per set of skipping plugins is increased, and the
plugins' own counts are computed at a scrape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mooring.metrics.recorders import POINTS, FrameworkRecorder, RefusedCounts
from mooring.metrics.series import Distributions, Registered

SUCCESS: Final = "Success"
SKIP: Final = "Skip"
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


#: So many attempts are recorded before their durations are sorted into buckets.
ATTEMPTS_MAX: Final = 512
#: So many calls of one plugin are recorded before their durations are sorted into buckets.
SAMPLES_MAX: Final = 512


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
        "_attempts",
        "_batch_attempts",
        "_batch_flushes",
        "_device_allocations",
        "_device_waits",
        "_evaluations",
        "_executions",
        "_filter_groups",
        "_hints",
        "_plugin_samples",
        "_plugins",
        "_points",
        "_pre_flights_skipped",
        "_preemptions",
        "_profile",
        "_samples",
        "_score_groups",
        "_stores",
        "_volume_errors",
        "is_unbatchable",
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
        self.counts_refused = True
        self._profile = profile
        self._plugins = {point: tuple(plugins.get(point, ())) for point in EVALUATED}
        self._points = distributions("scheduler_framework_extension_point_duration_seconds")
        self._samples: dict[str, list[float]] = {point: [] for point in POINTS}
        self.succeeded = {point: samples.append for point, samples in self._samples.items()}
        self._pre_flights_skipped: list[float] = []
        self.pre_flight_skipped = self._pre_flights_skipped.append
        self._plugin_samples: dict[tuple[str, str, str], list[float]] = {}
        self._attempts = 0
        self._executions = distributions("scheduler_plugin_execution_duration_seconds")
        self._evaluations = numbers("scheduler_plugin_evaluation_total")
        self._preemptions = numbers("scheduler_preemption_attempts_total")
        self._volume_errors = numbers("scheduler_volume_scheduling_stage_error_total")
        self._device_allocations = numbers("scheduler_dra_bindingconditions_allocations_total")
        self._device_waits = distributions("scheduler_dra_bindingconditions_wait_duration_seconds")
        self._batch_attempts = numbers("scheduler_batch_attempts_total")
        self._batch_flushes = numbers("scheduler_batch_cache_flushed_total")
        self._hints = distributions("scheduler_get_node_hint_duration_seconds")
        self._stores = distributions("scheduler_store_schedule_results_duration_seconds")
        #: Batching is on, but no pod of this profile can be signed: counted by ``fold``.
        self.is_unbatchable = False
        self._filter_groups: dict[frozenset[str], _Group] = {}
        self._score_groups: dict[frozenset[str], _Group] = {}

    # -- durations --------------------------------------------------------------------------------

    def point(self, point: str, status: str, started_s: float) -> None:
        """Records that all plugins of an extension point have run, with any status."""
        seconds = self.now() - started_s
        if status == SUCCESS:
            samples = self._samples[point]
            samples.append(seconds)
            if len(samples) >= ATTEMPTS_MAX:
                self._fold_samples()
            return
        self._points.labels(point, status, self._profile).observe(seconds)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Records a call of a plugin that was timed."""
        key = (plugin, point, status)
        samples = self._plugin_samples.get(key)
        if samples is None:
            samples = self._plugin_samples[key] = []
        samples.append(seconds)
        if len(samples) >= SAMPLES_MAX:
            _observe_all(self._executions, key, samples)

    # -- evaluations ------------------------------------------------------------------------------

    def pre_filter_stopped(self, last: str, skipped: frozenset[str]) -> None:
        """Counts the PreFilter plugins of a pod, up to the one that rejected it."""
        self._attempts += 1
        if self._attempts >= ATTEMPTS_MAX:
            self._fold_samples()
        for name in self._plugins[PRE_FILTER]:
            if name not in skipped:
                self._evaluated(name, PRE_FILTER, 1)
            if name == last:
                return

    def filtered(
        self, skipped: frozenset[str], node_count: int, refused_counts: RefusedCounts | None
    ) -> None:
        """Counts the PreFilter plugins of a pod, and the nodes that each filter evaluated."""
        group = self._filter_groups.get(skipped) or self._new_group(self._filter_groups, skipped)
        group.pods += 1
        group.nodes += node_count
        self._attempts += 1
        if self._attempts >= ATTEMPTS_MAX:
            self._fold_samples()
        if refused_counts is not None:
            self._count_refused(group, refused_counts())

    def filtered_again(
        self, skipped: frozenset[str], node_count: int, refused_counts: RefusedCounts | None
    ) -> None:
        """Counts as ``filtered``, but the pod's PreFilter plugins only once for both."""
        self.filtered(skipped, node_count, refused_counts)
        self._filter_groups[skipped].pods -= 1

    def _count_refused(self, group: _Group, counts: Sequence[int]) -> None:
        for number, count in enumerate(counts[1 : len(self._plugins[FILTER]) + 1]):
            if count:
                group.refused[number] = group.refused.get(number, 0) + count

    def filtered_once(self, plugin: str, node_count: int) -> None:
        """Counts the nodes of a call of one filter, on hypothetical nodes."""
        self._evaluated(plugin, FILTER, node_count)

    def scored(self, skipped: frozenset[str], node_count: int) -> None:
        """Counts the PreScore plugins of a pod, and the nodes that each score plugin scored."""
        group = self._score_groups.get(skipped) or self._new_group(self._score_groups, skipped)
        group.pods += 1
        group.nodes += node_count

    def failed(self, point: str, last: str, skipped: frozenset[str], node_count: int = 1) -> None:
        """Counts the plugins of an extension point at which an attempt failed with an error."""
        for name in self._plugins[point]:
            if not self._skips(name, point, skipped):
                self._evaluated(name, point, node_count)
            if name == last:
                return

    def _skips(self, plugin: str, point: str, skipped: frozenset[str]) -> bool:
        # Only PreScore skips Score: the framework does not call a plugin without it for pods to
        # which it does not apply, where kube-scheduler does.
        return plugin in skipped and (point != SCORE or plugin in self._plugins[PRE_SCORE])

    def _new_group(self, groups: dict[frozenset[str], _Group], key: frozenset[str]) -> _Group:
        if len(groups) >= GROUPS_MAX:
            self.fold()
        group = groups[key] = _Group()
        return group

    def fold(self) -> None:
        """Adds what was recorded by attempt to the series. Runs before a scrape."""
        self._fold_samples()
        for key, samples in self._plugin_samples.items():
            _observe_all(self._executions, key, samples)
        if self.is_unbatchable:
            self._fold_batching()
        for point, names in self._plugins.items():
            for name in names:
                self._evaluated(name, point, 0)
        for skipped, group in self._filter_groups.items():
            for name in self._not_in(skipped, PRE_FILTER):
                self._evaluated(name, PRE_FILTER, group.pods)
            nodes = group.nodes
            for number, name in enumerate(self._plugins[FILTER]):
                if name not in skipped:
                    self._evaluated(name, FILTER, nodes)
                    nodes -= group.refused.get(number, 0)
        for skipped, group in self._score_groups.items():
            for name in self._not_in(skipped, PRE_SCORE):
                self._evaluated(name, PRE_SCORE, group.pods)
            for name in self._plugins[SCORE]:
                if not self._skips(name, SCORE, skipped):
                    self._evaluated(name, SCORE, group.nodes)
        self._filter_groups.clear()
        self._score_groups.clear()

    def _fold_samples(self) -> None:
        self._attempts = 0
        for point, samples in self._samples.items():
            _observe_all(self._points, (point, SUCCESS, self._profile), samples)
        key = ("PreBindPreFlight", SKIP, self._profile)
        _observe_all(self._points, key, self._pre_flights_skipped)

    def _fold_batching(self) -> None:
        """Counts every pod as one without a node hint, whose sorted nodes are not stored."""
        filtered = sum(group.pods for group in self._filter_groups.values())
        scored = sum(group.pods for group in self._score_groups.values())
        self._batch_attempts.labels(self._profile, "no_hint").value += filtered
        self._hints.labels("no_hint", self._profile).observe_all([0.0] * filtered)
        self._batch_flushes.labels(self._profile, "pod_not_batchable").value += scored
        self._stores.labels(self._profile).observe_all([0.0] * scored)

    def _not_in(self, skipped: frozenset[str], point: str) -> list[str]:
        return [name for name in self._plugins[point] if name not in skipped]

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

    def waited_for_device(
        self, driver: str, status: str, seconds: float, *, has_conditions: bool
    ) -> None:
        """Records the end of a wait for a pod's devices, for each of them."""
        labels = self._profile, driver, status
        self._device_waits.labels(*labels).observe(seconds)
        if has_conditions:
            self._device_allocations.labels(*labels).value += 1

    def batch_attempted(self, result: str) -> None:
        """Counts a pod by what opportunistic batching did for it."""
        self._batch_attempts.labels(self._profile, result).value += 1

    def batch_flushed(self, reason: str) -> None:
        """Counts that sorted nodes were not used, or not stored."""
        self._batch_flushes.labels(self._profile, reason).value += 1

    def hint_ended(self, started_s: float, *, has_hint: bool) -> None:
        """Records how long it took to get a node hint, or none."""
        label = "hint" if has_hint else "no_hint"
        self._hints.labels(label, self._profile).observe(self.now() - started_s)

    def results_stored(self, started_s: float) -> None:
        """Records how long it took to store the sorted nodes."""
        self._stores.labels(self._profile).observe(self.now() - started_s)


def _observe_all(family: Distributions, labels: tuple[str, ...], samples: list[float]) -> None:
    """Records the samples and empties the list."""
    if not samples:
        return
    series = family.labels(*labels)
    if labels not in family.children:  # every use of a label value that is not allowed counts
        for _ in samples[1:]:
            family.labels(*labels)
    series.observe_all(samples)
    samples.clear()
