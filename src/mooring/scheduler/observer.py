"""Callbacks for what a scheduler does: the live view, the lessons and tests implement them."""

from __future__ import annotations

import logging

from mooring.errors import SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import PostFilterResult, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.queue import QueuedPod, QueueName

_log = logging.getLogger(__name__)


class Observer:
    """Called synchronously, in order, for everything that happens to pods; must be quick.

    The methods do nothing: override those you need.
    """

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """Reports that a pod moved to another queue; ``why`` is the event's label."""

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Reports a decision. ``attempt.decision`` is available during this call only."""

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Reports a preemption: the victims are about to be evicted."""

    def waits(self, entry: QueuedPod, node_name: str, waiting: WaitingPod) -> None:
        """Reports that a Permit plugin delays the pod."""

    def allowed(self, entry: QueuedPod, node_name: str) -> None:
        """Reports that all Permit plugins allow the pod."""

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Reports that the pod is bound."""

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Reports that the attempt failed; the pod has been requeued."""


class LoggingObserver(Observer):
    """Logs what happens to pods, in kube-scheduler's words and from its verbosity of 2."""

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Logs the node; ``PreemptionExecutor`` logs the victims."""
        if _log.isEnabledFor(logging.DEBUG):
            fields = {"node": post_filter_result.node_name, "pod": entry.pod.key, "v": 2}
            _log.debug("the target node for the preemption is determined", extra=fields)

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Logs the node."""
        if _log.isEnabledFor(logging.DEBUG):
            fields = {"pod": entry.pod.key, "node": node_name, "v": 2}
            _log.debug("Successfully bound pod to node", extra=fields)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Logs why no node fits; the scheduler logs errors by itself."""
        if isinstance(why, SchedulerError) or not _log.isEnabledFor(logging.DEBUG):
            return
        fields = {"pod": entry.pod.key, "v": 2}
        if isinstance(why, Diagnosis) and not why.node_count:
            text = "Unable to schedule pod; no nodes are registered to the cluster; waiting"
            _log.debug(text, extra=fields)
        else:
            fields["err"] = why.message
            _log.debug("Unable to schedule pod; no fit; waiting", extra=fields)


class ObserverGroup(Observer):
    """Several observers, called in order."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """Calls all."""
        for observer in self._observers:
            observer.moved(entry, queue_name, why)

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Calls all."""
        for observer in self._observers:
            observer.attempted(entry, attempt, result)

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Calls all."""
        for observer in self._observers:
            observer.preempts(entry, post_filter_result)

    def waits(self, entry: QueuedPod, node_name: str, waiting: WaitingPod) -> None:
        """Calls all."""
        for observer in self._observers:
            observer.waits(entry, node_name, waiting)

    def allowed(self, entry: QueuedPod, node_name: str) -> None:
        """Calls all."""
        for observer in self._observers:
            observer.allowed(entry, node_name)

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Calls all."""
        for observer in self._observers:
            observer.bound(entry, node_name)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Calls all."""
        for observer in self._observers:
            observer.failed(entry, why)
