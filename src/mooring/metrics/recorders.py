"""Recorders: the methods that the parts of the scheduler call; the ones here do nothing.

They are the recorders of a scheduler without metrics, and the interface of
``mooring.metrics.profile_recorder`` and ``mooring.metrics.scheduler_recorder``. Times are monotonic
seconds of the clock behind ``now``, which returns 0 without metrics.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final

#: The extension points that are recorded.
POINTS: Final = (
    *("PreEnqueue", "Sign", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve"),
    *("Permit", "PreBindPreFlight", "PreBind", "Bind", "PostBind", "Unreserve"),
)

#: See ``FrameworkRecorder.filtered``.
RefusedCounts = Callable[[], Sequence[int]]


class FrameworkRecorder:
    """Records the extension points and plugins of one profile."""

    __slots__ = ("counts_refused", "now", "pre_flight_skipped", "succeeded")

    def __init__(self) -> None:
        #: Returns the time; 0 without metrics.
        self.now: Callable[[], float] = float
        #: Whether ``filtered`` reads how many nodes each filter rejected.
        self.counts_refused = False
        #: Extension point -> takes the seconds of all its plugins together, if they succeeded.
        #: These are functions of C, here of a queue that keeps nothing: ten of them run per pod.
        self.succeeded: Mapping[str, Callable[[float], None]] = dict.fromkeys(
            POINTS, deque[float](maxlen=0).append
        )
        #: Takes the seconds of PreBindPreFlight if all its plugins skip, as they do for most pods.
        self.pre_flight_skipped: Callable[[float], None] = deque[float](maxlen=0).append

    def point(self, point: str, status: str, started_s: float) -> None:
        """Records that all plugins of an extension point have run, with any status."""

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Records a call of a plugin that was timed."""

    def pre_filter_stopped(self, last: str, skipped: frozenset[str]) -> None:
        """Counts the PreFilter plugins of a pod, up to the one that rejected it."""

    def filtered(
        self, skipped: frozenset[str], node_count: int, refused_counts: RefusedCounts | None
    ) -> None:
        """Counts the PreFilter plugins of a pod, and the nodes that each filter evaluated.

        Args:
            skipped: The plugins whose PreFilter returned SKIP.
            node_count: The nodes that were filtered.
            refused_counts: Returns the nodes that each filter rejected first, by the number of the
                filter + 1; None = all nodes are feasible.
        """

    def filtered_again(
        self, skipped: frozenset[str], node_count: int, refused_counts: RefusedCounts | None
    ) -> None:
        """Counts as ``filtered``, but the pod's PreFilter plugins only once for both."""

    def filtered_once(self, plugin: str, node_count: int) -> None:
        """Counts the nodes of a call of one filter, on hypothetical nodes."""

    def scored(self, skipped: frozenset[str], node_count: int) -> None:
        """Counts the PreScore plugins of a pod, and the nodes that each score plugin scored."""

    def failed(self, point: str, last: str, skipped: frozenset[str], node_count: int = 1) -> None:
        """Counts the plugins of an extension point at which an attempt failed with an error.

        Args:
            point: The extension point.
            last: The plugin that failed; those after it do not count. "" = all of them count.
            skipped: The plugins that skip the pod.
            node_count: The nodes that each of them evaluated.
        """

    def plugin_failed(self, plugin: str, point: str) -> None:
        """Counts an error of a plugin, if there is a metric of it."""

    def preemption_attempted(self) -> None:
        """Counts an attempt of DefaultPreemption."""

    def waited_for_device(
        self, driver: str, status: str, seconds: float, *, has_conditions: bool
    ) -> None:
        """Records the end of a wait for a pod's devices, for each of them.

        Args:
            driver: Its driver.
            status: ``success``, ``failure``, ``timeout`` or ``error``.
            seconds: The time of the whole wait.
            has_conditions: Whether this device has binding conditions.
        """

    def batch_attempted(self, result: str) -> None:
        """Counts a pod by what opportunistic batching did for it."""

    def batch_flushed(self, reason: str) -> None:
        """Counts that sorted nodes were not used, or not stored."""

    def hint_ended(self, started_s: float, *, has_hint: bool) -> None:
        """Records how long it took to get a node hint, or none."""

    def results_stored(self, started_s: float) -> None:
        """Records how long it took to store the sorted nodes."""


class SchedulerRecorder:
    """Records attempts, events, hints and preemptions of all profiles."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        #: Returns the time; 0 without metrics.
        self.now: Callable[[], float] = float

    def algorithm_ended(self, started_s: float) -> None:
        """Records the end of the scheduling algorithm and PostFilter."""

    def attempt_failed(self, profile: str, started_s: float, *, is_unschedulable: bool) -> None:
        """Records an attempt that found no node, or failed with an error."""

    def pod_bound(
        self,
        profile: str,
        started_s: float,
        *,
        attempts: int,
        first_s: float | None,
        was_flushed: bool,
    ) -> None:
        """Records a bound pod.

        Args:
            profile: Its profile.
            started_s: When its attempt began.
            attempts: How often it was tried.
            first_s: When it first entered the active queue; None = unknown.
            was_flushed: Whether it was requeued by the timeout before this attempt.
        """

    def permit_waited(self, result: str, started_s: float) -> None:
        """Records the end of a wait in Permit."""

    def event_handled(self, event: str, started_s: float) -> None:
        """Records that a watch event has been handled."""

    def hint_called(self, plugin: str, event: str, hint: str, started_s: float) -> None:
        """Records a call of a queueing hint."""

    def claim_created(self, *, succeeded: bool) -> None:
        """Counts a ResourceClaim for extended resources that was to be created."""

    def preemption_started(self, victim_count: int) -> None:
        """Records the number of victims of a preemption."""

    def preemption_ended(self, started_s: float, *, succeeded: bool) -> None:
        """Records the end of the evictions of a preemption."""


#: Recorders that do nothing.
NO_FRAMEWORK_METRICS = FrameworkRecorder()
NO_SCHEDULER_METRICS = SchedulerRecorder()
