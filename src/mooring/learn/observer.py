"""The events that the tutorial's schedulers report about their pods.

A scheduler reports events to an ``EventSink``. The helpers here report the events of mooring's own
parts: a decision, a move of the queue, the steps of ``mooring.scheduler.schedule_one``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from mooring.clock import Clock, Rng
from mooring.decision import SCHEDULED, UNSCHEDULABLE
from mooring.errors import PluginError, SchedulerError
from mooring.framework import (
    Attempt,
    Diagnosis,
    Framework,
    Placement,
    Profile,
    check_plugin,
)
from mooring.framework.interface import EXTENSION_POINTS
from mooring.framework.status import Status
from mooring.framework.waiting_pods import WaitingPod, WaitingPods
from mooring.objects import Pod
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import Observer
from mooring.state import PodInfo

#: All events of a pod. ``-o json`` prints no ``scored``: a pod's scores are
#: the detail of its next event.
EVENTS: Final = (
    "queued",
    "popped",
    "refused",
    "scored",
    "unschedulable",
    "backoff",
    "active",
    "waiting",
    "allowed",
    "bound",
    "failed",
)

#: Queue -> event of a pod that moves there.
_QUEUE_EVENTS: Final = {
    QueueName.ACTIVE: "active",
    QueueName.BACKOFF: "backoff",
    QueueName.UNSCHEDULABLE: "unschedulable",
    QueueName.GATED: "unschedulable",
    QueueName.IN_FLIGHT: "popped",
}

#: Reasons with which a pod enters the active queue for the first time.
_ENQUEUE_REASONS: Final = frozenset({"UnschedulablePodAdd", "UnschedulablePodUpdate"})

#: Called by the queue at every move, with the pod, its new queue, and the reason.
OnMove = Callable[[QueuedPod, QueueName, str], None]


class EventSink(Protocol):
    """Records events."""

    def __call__(self, what: str, pod: Pod | PodInfo, node: str = "", detail: str = "") -> None:
        """Records the event ``what`` (one of ``EVENTS``) of a pod, with ``node`` if it has one."""
        ...


def emit_decision(
    emit: EventSink, pod: Pod | PodInfo, attempt: Attempt, result: Placement | Diagnosis
) -> None:
    """Reports the rejected nodes with their reasons, and the scores of the others."""
    if isinstance(result, Placement):
        decision = attempt.decision(SCHEDULED, node=result.node_name, diagnosis=None)
    else:
        decision = attempt.decision(UNSCHEDULABLE, node=None, diagnosis=result)
    for node, rejection in decision.rejected.items():
        emit("refused", pod, node, f"{rejection.plugin}: {', '.join(rejection.reasons)}")
    for node, score in (decision.total or {}).items():
        emit("scored", pod, node, str(score))


def moves(emit: EventSink) -> OnMove:
    """Returns a callback for the queue that reports its moves."""

    def on_move(entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        if queue_name is QueueName.ACTIVE and not entry.attempts and why in _ENQUEUE_REASONS:
            emit("queued", entry.pod)
        elif queue_name is QueueName.IN_FLIGHT:
            emit("popped", entry.pod, detail=f"attempt {entry.attempts}")
        elif queue_name is not QueueName.NONE:
            emit(_QUEUE_EVENTS[queue_name], entry.pod, detail=why)

    return on_move


class LoggingObserver(Observer):
    """Reports the steps of ``mooring.scheduler.schedule_one``."""

    def __init__(self, emit: EventSink) -> None:
        self._emit = emit
        self._on_move = moves(emit)

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """Reports a move of the queue."""
        self._on_move(entry, queue_name, why)

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Reports the decision."""
        emit_decision(self._emit, entry.pod, attempt, result)

    def waits(self, entry: QueuedPod, node_name: str, waiting: WaitingPod) -> None:
        """Reports that the pod waits in Permit."""
        self._emit("waiting", entry.pod, node_name, ", ".join(waiting.pending_plugins))

    def allowed(self, entry: QueuedPod, node_name: str) -> None:
        """Reports that Permit allowed the pod."""
        self._emit("allowed", entry.pod, node_name)

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Reports that the pod is bound."""
        self._emit("bound", entry.pod, node_name)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Reports that the attempt failed."""
        self._emit("failed", entry.pod, detail=failure_text(why))


def failure_text(why: Diagnosis | Status | SchedulerError) -> str:
    """Returns kube-scheduler's message for a pod without a node, or file and line of a mistake."""
    if isinstance(why, PluginError):
        return why.located
    return str(why) if isinstance(why, SchedulerError) else why.message


def tutorial_framework(
    name: str,
    plugins: Sequence[object],
    *,
    clock: Clock,
    rng: Rng,
    waiting: WaitingPods | None = None,
) -> Framework:
    """Returns a framework that breaks ties at random, as the teaching schedulers do.

    By default mooring takes the node that kube-scheduler would take.

    Args:
        name: The schedulerName.
        plugins: Run in this order, at every extension point that they implement.
        clock: Measures the plugins' durations.
        rng: Breaks ties.
        waiting: The pods that a Permit plugin delays.
    """
    points = {
        point: [check_plugin(plugin) for plugin in plugins if hasattr(plugin, point)]
        for point in EXTENSION_POINTS
    }
    return Framework(Profile(name, points, {}), clock=clock, waiting=waiting, tie_break=rng.choice)
