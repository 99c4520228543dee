"""Who watches a scheduler work: the live view, the lessons, tests. By default nobody."""

from __future__ import annotations

from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.queue import QueuedPod, QueueName


class Observer:
    """Told of everything that happens to pods, at once and in order; must be quick.

    Every method does nothing: override those that matter.
    """

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """The pod is in another place of the queue now; ``why`` is the event's label."""

    def attempted(self, entry: QueuedPod, attempt: Attempt, found: Placement | Diagnosis) -> None:
        """A decision was made. ``attempt.decision`` may be asked for now, but not later."""

    def preempts(self, entry: QueuedPod, room: PostFilterResult) -> None:
        """Pods are to leave ``room.node_name``, so that this one can come."""

    def waits(self, entry: QueuedPod, node_name: str, waiting: WaitingPod) -> None:
        """Permits holds the pod back."""

    def allowed(self, entry: QueuedPod, node_name: str) -> None:
        """Permits lets the pod go on."""

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """The API server has bound the pod."""

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """The attempt is over and the pod has no node; it is back in the queue."""
