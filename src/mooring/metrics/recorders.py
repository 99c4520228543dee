"""The recorders that the scheduler's parts call; these record nothing.

They are the recorders of a scheduler without metrics, and the interface of
``mooring.metrics.profile_recorder`` and ``mooring.metrics.scheduler_recorder``. Times are monotonic
seconds of the clock behind ``now``; where there are no metrics, the time is not needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

#: See ``FrameworkRecorder.filtered``.
RefusedCounts = Callable[[], Sequence[int]]


class FrameworkRecorder:
    """Records the extension points and plugins of one profile."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        #: Returns the time; 0 without metrics.
        self.now: Callable[[], float] = float

    def point(self, point: str, status: str, started_s: float) -> float:  # noqa: ARG002
        """Records that all plugins of an extension point have run; returns the time."""
        return 0.0

    def no_plugins(self, point: str) -> None:
        """Records an extension point at which nothing had to run: a success in no time."""

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Records a call of a plugin that was timed."""

    def pre_filter_stopped(self, last: str, skipped: Set[str]) -> None:
        """Counts the PreFilter plugins of a pod, up to the one that rejected it."""

    def filtered(
        self, skipped: Set[str], node_count: int, refused_counts: RefusedCounts | None
    ) -> None:
        """Counts the PreFilter plugins of a pod, and the nodes that each filter evaluated.

        Args:
            skipped: The plugins whose PreFilter returned SKIP.
            node_count: The nodes that were filtered.
            refused_counts: Returns the nodes that each filter rejected first, by the number of the
                filter + 1; None = all nodes are feasible.
        """

    def filtered_again(
        self, skipped: Set[str], node_count: int, refused_counts: RefusedCounts | None
    ) -> None:
        """Counts as ``filtered``, but the pod's PreFilter plugins only once for both."""

    def filtered_once(self, plugin: str, node_count: int) -> None:
        """Counts the nodes of a call of one filter, on hypothetical nodes."""

    def scored(self, skipped: Set[str], node_count: int) -> None:
        """Counts the PreScore plugins of a pod, and the nodes that each score plugin scored."""

    def plugin_failed(self, plugin: str, point: str) -> None:
        """Counts an error of a plugin, if there is a metric of it."""

    def preemption_attempted(self) -> None:
        """Counts an attempt of DefaultPreemption."""


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

    def preemption_started(self, victim_count: int) -> None:
        """Records the number of victims of a preemption."""

    def preemption_ended(self, started_s: float, *, succeeded: bool) -> None:
        """Records the end of the evictions of a preemption."""


#: Recorders that do nothing.
NO_FRAMEWORK_METRICS = FrameworkRecorder()
NO_SCHEDULER_METRICS = SchedulerRecorder()
