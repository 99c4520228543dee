"""What a scheduler of the tutorial tells of its work: a word for each thing that happens to a pod.

A scheduler is given a function to tell it to (``Tell``). The helpers here say what mooring's own
parts know: a decision, a move of the queue, the steps of ``mooring.scheduler.schedule_one``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from mooring.clock import Clock, Rng
from mooring.decision import SCHEDULED, UNSCHEDULABLE
from mooring.errors import SchedulerError
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

#: What can happen to a pod. ``scored`` is not among the lines of ``-o json``: a pod's scores are
#: the detail of what follows from them.
WORDS: Final = (
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

#: Where the queue puts a pod -> the word for it.
_PLACES: Final = {
    QueueName.ACTIVE: "active",
    QueueName.BACKOFF: "backoff",
    QueueName.UNSCHEDULABLE: "unschedulable",
    QueueName.GATED: "unschedulable",
    QueueName.IN_FLIGHT: "popped",
}

#: Why a pod enters the active queue for the first time.
_NEW: Final = frozenset({"UnschedulablePodAdd", "UnschedulablePodUpdate"})

#: What the queue calls at every move: the pod, its place now, and what moved it.
OnMove = Callable[[QueuedPod, QueueName, str], None]


class Tell(Protocol):
    """Takes note of what happens."""

    def __call__(self, what: str, pod: Pod | PodInfo, node: str = "", detail: str = "") -> None:
        """``what`` (one of ``WORDS``) has happened to the pod just now, at ``node`` if at one."""
        ...


def tell_decision(
    tell: Tell, pod: Pod | PodInfo, attempt: Attempt, found: Placement | Diagnosis
) -> None:
    """Tells which nodes were refused and why, and the scores of the others."""
    if isinstance(found, Placement):
        decision = attempt.decision(SCHEDULED, node=found.node_name, diagnosis=None)
    else:
        decision = attempt.decision(UNSCHEDULABLE, node=None, diagnosis=found)
    for node, rejection in decision.rejected.items():
        tell("refused", pod, node, f"{rejection.plugin}: {', '.join(rejection.reasons)}")
    for node, score in (decision.total or {}).items():
        tell("scored", pod, node, str(score))


def moves(tell: Tell) -> OnMove:
    """Returns a function for the queue to call: tells where it has put a pod, and what moved it."""

    def on_move(entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        if queue_name is QueueName.ACTIVE and not entry.attempts and why in _NEW:
            tell("queued", entry.pod)
        elif queue_name is QueueName.IN_FLIGHT:
            tell("popped", entry.pod, detail=f"attempt {entry.attempts}")
        elif queue_name is not QueueName.NONE:
            tell(_PLACES[queue_name], entry.pod, detail=why)

    return on_move


class TellingObserver(Observer):
    """Tells what ``mooring.scheduler.schedule_one`` does."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._on_move = moves(tell)

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """See ``moves``."""
        self._on_move(entry, queue_name, why)

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """See ``tell_decision``."""
        tell_decision(self._tell, entry.pod, attempt, result)

    def waits(self, entry: QueuedPod, node_name: str, waiting: WaitingPod) -> None:
        """Permits holds the pod back."""
        self._tell("waiting", entry.pod, node_name, ", ".join(waiting.pending_plugins))

    def allowed(self, entry: QueuedPod, node_name: str) -> None:
        """Permits lets the pod go on."""
        self._tell("allowed", entry.pod, node_name)

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """The API server has bound the pod."""
        self._tell("bound", entry.pod, node_name)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """The attempt is over; the pod has been put back into the queue."""
        self._tell("failed", entry.pod, detail=failure_text(why))


def failure_text(why: Diagnosis | Status | SchedulerError) -> str:
    """Why a pod has no node, in kube-scheduler's words."""
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
