"""The results of a simulation: the outcome of each pod, and the evictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from mooring.clock import Clock
from mooring.errors import PluginError, SchedulerError
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.framework.status import PostFilterResult, Status
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.observer import Observer
from mooring.scheduler.reporting import error_text
from mooring.simulation.outcome import reasons_of

#: The outcomes of a pod.
PLACED: Final = "placed"
REFUSED: Final = "refused"
FAILED: Final = "error"
GATED: Final = "gated"
#: Nominated to a node whose victims have not left.
WAITING: Final = "waiting"
EVICTED: Final = "evicted"
FINISHED: Final = "finished"
#: No profile has its schedulerName.
NOT_OURS: Final = "not ours"


class PodResult(msgspec.Struct):
    """One pod at the end of a simulation.

    Attributes:
        pod: "namespace/name".
        outcome: One of the constants above.
        node: Its node; "" = none.
        nominated_node: The node where it waits for its victims; "" = none.
        attempts: How often it was scheduled.
        time_s: When it was bound, in virtual seconds; None = it was not.
        score: The weighted sum of the scores of its node; None = no other node was feasible.
        runner_up: The feasible node with the next best score; "" = there is none.
        runner_up_score: Its score.
        plugins: The plugins that rejected it in its last attempt.
        reasons: Reason -> number of nodes, of its last attempt.
        message: kube-scheduler's message of its last attempt; "" = it was placed.
        victims: The pods that were evicted for it.
        evicted_by: The pod that it was evicted for; "" = none.
    """

    pod: str
    outcome: str = REFUSED
    node: str = ""
    nominated_node: str = ""
    attempts: int = 0
    time_s: float | None = None
    score: int | None = None
    runner_up: str = ""
    runner_up_score: int | None = None
    plugins: list[str] = msgspec.field(default_factory=list)
    reasons: dict[str, int] = msgspec.field(default_factory=dict)
    message: str = ""
    victims: list[str] = msgspec.field(default_factory=list)
    evicted_by: str = ""


class Eviction(msgspec.Struct, frozen=True):
    """A pod that was evicted: from which node, for which pod, and when, in virtual seconds."""

    pod: str
    node: str
    by: str
    time_s: float


class Tracker(Observer):
    """Collects the results of a simulation while it runs.

    Args:
        clock: Virtual time.
        with_scores: Whether to note the scores of the selected and of the next best node.
        on_result: Called with each pod after its first attempt, and when it is bound later.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        with_scores: bool = False,
        on_result: Callable[[PodResult], None] = lambda _: None,
    ) -> None:
        self.results: dict[str, PodResult] = {}
        self.evictions: list[Eviction] = []
        self._clock = clock
        self._with_scores = with_scores
        self._on_result = on_result

    def result_of(self, pod_key: str) -> PodResult:
        """Returns the result of a pod so far."""
        result = self.results.get(pod_key)
        if result is None:
            result = self.results[pod_key] = PodResult(pod_key)
        return result

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Notes the scores of a placement."""
        own = self.result_of(entry.pod.key)
        own.attempts = entry.attempts
        if self._with_scores and isinstance(result, Placement):
            _note_scores(own, attempt, result)

    def preempts(self, entry: QueuedPod, post_filter_result: PostFilterResult) -> None:
        """Notes the victims."""
        own = self.result_of(entry.pod.key)
        node, now_s = post_filter_result.node_name or "", self._clock.monotonic_s()
        for victim in post_filter_result.victims:
            if victim.metadata.deletion_timestamp is None:
                own.victims.append(victim.key)
                self.evictions.append(Eviction(victim.key, node, own.pod, now_s))

    def bound(self, entry: QueuedPod, node_name: str) -> None:
        """Notes the node."""
        own = self.result_of(entry.pod.key)
        own.outcome, own.node, own.time_s = PLACED, node_name, self._clock.monotonic_s()
        own.plugins, own.reasons, own.message = [], {}, ""
        self._on_result(own)

    def failed(self, entry: QueuedPod, why: Diagnosis | Status | SchedulerError) -> None:
        """Notes the reasons."""
        own = self.result_of(entry.pod.key)
        own.attempts = entry.attempts
        if isinstance(why, Diagnosis):
            own.outcome, own.reasons = REFUSED, reasons_of(why)
            own.plugins = sorted(why.unschedulable_plugins | why.pending_plugins)
            own.message = why.message
        elif isinstance(why, Status):
            own.outcome, own.reasons, own.message = REFUSED, {}, why.message
            own.plugins = [why.plugin] if why.plugin else []
        else:
            own.outcome, own.reasons, own.plugins = FAILED, {}, []
            own.message = why.located if isinstance(why, PluginError) else error_text(why)
        self._on_result(own)


class Observers(Observer):
    """Calls several observers, in order; methods that an observer does not have cost nothing."""

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = list(observers)
        self._of_moves: list[Observer] = []
        self._connect()

    def add(self, observer: Observer) -> None:
        """Adds an observer, which is called first; before the scheduler uses this object."""
        self._observers.insert(0, observer)
        self._connect()

    def moved(self, entry: QueuedPod, queue_name: QueueName, why: str) -> None:
        """Calls the observers of moves; the queue keeps this method before all are added."""
        for observer in self._of_moves:
            observer.moved(entry, queue_name, why)

    def _connect(self) -> None:
        self._of_moves = [
            observer for observer in self._observers if type(observer).moved is not Observer.moved
        ]
        for name in ("attempted", "preempts", "waits", "allowed", "bound", "failed"):
            methods = [getattr(observer, name) for observer in self._observers]
            methods = [m for m in methods if m.__func__ is not getattr(Observer, name)]
            if methods:
                setattr(self, name, methods[0] if len(methods) == 1 else _all(methods))


def _all(methods: list[Callable[..., None]]) -> Callable[..., None]:
    def call(*arguments: Any) -> None:
        for method in methods:
            method(*arguments)

    return call


def _note_scores(own: PodResult, attempt: Attempt, placement: Placement) -> None:
    """Notes the score of the selected node, and the next best node."""
    best = attempt.best_two(placement.row)
    own.score = own.runner_up_score = None
    own.runner_up = ""
    if best is not None:
        own.score, own.runner_up, own.runner_up_score = best
