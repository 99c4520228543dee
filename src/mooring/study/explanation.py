"""The explanation of a pod of a simulation: every attempt, in words."""

from __future__ import annotations

import html
from typing import Any, NamedTuple

import msgspec

from mooring.clock import Clock
from mooring.decision import Decision
from mooring.explain.explain import explain
from mooring.framework import Attempt, Diagnosis, Placement
from mooring.queue import QueuedPod
from mooring.scheduler.observer import Observer
from mooring.simulation.outcome import decision_of
from mooring.simulation.utilization import Utilization


class ExplainedAttempt(NamedTuple):
    """One attempt: its number, its time in virtual seconds, its decision, and the text."""

    number: int
    time_s: float
    decision: Decision
    text: str


class Explanation:
    """Explains why a pod is placed on its node, or is not: a text, HTML in a notebook, a dict.

    Attributes:
        pod: "namespace/name".
        attempts: The attempts, in order.
    """

    def __init__(self, pod: str, attempts: list[ExplainedAttempt], without: str) -> None:
        self.pod = pod
        self.attempts = attempts
        self._without = without

    def __str__(self) -> str:
        """Returns all attempts; the last one is the current state."""
        if not self.attempts:
            return self._without
        if len(self.attempts) == 1:
            return self.attempts[0].text
        return "\n\n".join(
            f"Attempt {attempt.number}, at {attempt.time_s:g} s\n{attempt.text}"
            for attempt in self.attempts
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Returns the text for a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"

    def to_dict(self) -> dict[str, Any]:
        """Returns the attempts with their decisions, as JSON values."""
        return {
            "pod": self.pod,
            "attempts": [
                {
                    "number": attempt.number,
                    "time_s": attempt.time_s,
                    "decision": msgspec.to_builtins(attempt.decision),
                }
                for attempt in self.attempts
            ],
        }


class AttemptExplainer(Observer):
    """Explains each attempt at one pod while a simulation runs.

    Args:
        pod: "namespace/name".
        utilization: The cluster; the caller keeps it up to date.
        clock: Virtual time.
        weights: Plugin -> weight of its score.
    """

    def __init__(
        self, pod: str, utilization: Utilization, clock: Clock, weights: dict[str, int]
    ) -> None:
        self.attempts: list[ExplainedAttempt] = []
        self._pod = pod
        self._utilization = utilization
        self._clock = clock
        self._weights = weights

    def attempted(self, entry: QueuedPod, attempt: Attempt, result: Placement | Diagnosis) -> None:
        """Explains an attempt at the pod."""
        if entry.pod.key != self._pod:
            return
        decision = decision_of(attempt, result)
        text = explain(
            entry.pod.pod,
            decision,
            self._utilization,
            weights=self._weights,
            snapshot=attempt.snapshot,
        )
        self.attempts.append(
            ExplainedAttempt(entry.attempts, self._clock.monotonic_s(), decision, text)
        )
