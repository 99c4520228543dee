"""A pod that waits, with what is remembered of its attempts."""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass, field

from mooring.state.tables.pods import PodInfo


class QueueName(enum.Enum):
    """Where a pod is; it is always in exactly one place."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in flight"
    #: Not the queue's business: on its way to a binding, bound, or deleted.
    NONE = "none"

    #: Members are singletons; Enum's own hashes the name, in Python, for every pod that moves.
    __hash__ = object.__hash__

    @property
    def is_busy(self) -> bool:
        """Whether the pod will be tried without anything happening first."""
        return self in (QueueName.ACTIVE, QueueName.BACKOFF, QueueName.IN_FLIGHT)

    @property
    def waits_for_event(self) -> bool:
        """Whether something has to happen before the pod is tried."""
        return self in (QueueName.UNSCHEDULABLE, QueueName.GATED)


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod in the queue, or taken from it for an attempt.

    Attributes:
        pod: The newest version that the queue was told of.
        timestamp_s: When it entered the queue this time; monotonic seconds.
        place: Where it is now.
        attempts: How often it was taken from the queue.
        initial_attempt_s: When it could first have been taken; None while it never could.
        unschedulable_count: Attempts that ended with a refusal.
        consecutive_errors: Attempts that ended with an error, since the last refusal.
        backoff_expiration_s: When its backoff ends; None = not computed since the last attempt.
        unschedulable_plugins: Plugins that refused it in its last attempt, or hold it at a gate.
        pending_plugins: Those of them that wait for something that surely comes.
        gating_plugin: The PreEnqueue plugin that holds it back; "" if none does.
        was_flushed: Whether it was moved because it had waited for too long, not by an event.
        flight: The number of its last attempt, counted over all pods; 0 before the first.
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
    was_flushed: bool = False
    attempt_number: int = 0
    #: Heaps: the number under which the pod was last put there.
    heap_sequence: int = 0
    #: ``UnschedulablePods``: the groups that the pod is in.
    groups: tuple[tuple[str, tuple[str, Hashable]], ...] = ()
    #: ``UnschedulablePods``: rises with each pod that is parked.
    order: int = 0

    #: The pod's UID: pods of the same name are different pods.
    uid: str = field(init=False)

    def __post_init__(self) -> None:
        self.uid = self.pod.uid

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugins whose events can help it."""
        return self.unschedulable_plugins | self.pending_plugins
