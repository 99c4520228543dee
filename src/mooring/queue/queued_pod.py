"""A pod of the scheduling queue, with the state of its attempts."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from mooring.state.tables.pods import PodInfo


class QueueName(enum.Enum):
    """The queue that a pod is in; exactly one at any time."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"
    #: In no queue: being bound, bound, or deleted.
    NONE = "none"

    #: Members are singletons; Enum's own hashes the name, in Python, for every pod that moves.
    __hash__ = object.__hash__

    @property
    def is_busy(self) -> bool:
        """True if the pod will be scheduled without any further event."""
        return self in (QueueName.ACTIVE, QueueName.BACKOFF, QueueName.IN_FLIGHT)

    @property
    def waits_for_event(self) -> bool:
        """True if an event has to occur before the pod is scheduled."""
        return self in (QueueName.UNSCHEDULABLE, QueueName.GATED)


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod in the queue, or taken from it for an attempt.

    Attributes:
        pod: The newest version that the queue has.
        timestamp_s: When it entered the queue this time; monotonic seconds.
        queue_name: The queue that it is in.
        attempts: How often it was popped.
        initial_attempt_s: When it first entered the active queue; None = not yet.
        unschedulable_count: Attempts that ended with a refusal.
        consecutive_errors: Attempts that ended with an error, since the last refusal.
        backoff_expiration_s: When its backoff ends; None = not computed since the last attempt.
        unschedulable_plugins: Plugins that refused it in its last attempt, or hold it at a gate.
        pending_plugins: Those of them that returned ``Pending``.
        gating_plugin: The PreEnqueue plugin that gates it; "" = none.
        quarantine_s: How long it is quarantined; 0 = not at all.
        failing_plugin: The plugin that raised in its last attempt; "" = none.
        plugin_failures: Attempts in a row in which that plugin raised.
        keeps_backoff: True if its last attempt failed in the binding cycle: it is not popped before
            its backoff ends.
        was_flushed: True if it was requeued because it had waited too long, not by an event.
        attempt_started_s: When its last attempt began; 0 without metrics.
        attempt_number: The number of its last attempt, counted over all pods; 0 before the first.
    """

    pod: PodInfo
    timestamp_s: float
    queue_name: QueueName = QueueName.NONE
    attempts: int = 0
    initial_attempt_s: float | None = None
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    backoff_expiration_s: float | None = None
    unschedulable_plugins: frozenset[str] = frozenset()
    pending_plugins: frozenset[str] = frozenset()
    gating_plugin: str = ""
    quarantine_s: float = 0.0
    failing_plugin: str = ""
    plugin_failures: int = 0
    keeps_backoff: bool = False
    was_flushed: bool = False
    attempt_started_s: float = 0.0
    attempt_number: int = 0
    #: ``PodHeap``: the number of its last push.
    heap_sequence: int = 0
    #: ``UnschedulablePods``: the groups that the pod is in.
    groups: tuple[tuple[str, tuple[str, Hashable]], ...] = ()
    #: ``UnschedulablePods``: order of insertion.
    order: int = 0

    #: The pod's UID: pods of the same name are different pods.
    uid: str = field(init=False)

    def __post_init__(self) -> None:
        self.uid = self.pod.uid

    def end_attempt(
        self,
        now_s: float,
        refused_by: Iterable[str],
        pending_on: Iterable[str],
        *,
        is_binding: bool = False,
    ) -> None:
        """Counts a failed attempt; without a rejecting plugin it ended with an error."""
        self.unschedulable_plugins = frozenset(refused_by)
        self.pending_plugins = frozenset(pending_on)
        if self.rejectors:
            self.unschedulable_count += 1
            self.consecutive_errors = 0
        else:
            self.consecutive_errors += 1
        self.keeps_backoff = is_binding
        self.timestamp_s = now_s
        self.backoff_expiration_s = None
        self.was_flushed = False
        self.queue_name = QueueName.NONE

    def start_error_backoff(self, now_s: float) -> None:
        """Starts a backoff as after an error; it grows with the attempts.

        Without a rejecting plugin the pod is not popped early.
        """
        self.unschedulable_plugins = self.pending_plugins = frozenset()
        self.consecutive_errors = max(self.consecutive_errors, self.unschedulable_count, 1)
        self.timestamp_s = now_s
        self.backoff_expiration_s = None

    @property
    def is_quarantined(self) -> bool:
        """True if it waits in the backoff queue until its quarantine is over."""
        return self.quarantine_s > 0 and self.queue_name is QueueName.BACKOFF

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins whose events can requeue it."""
        return self.unschedulable_plugins | self.pending_plugins
