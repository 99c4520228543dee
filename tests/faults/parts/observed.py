"""Observers of a scheduler: each of several gets each call, in the same order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from mooring.scheduler.observer import Observer


class ObservedCalls(Observer):
    """Keeps all calls.

    Attributes:
        calls: The name of each, and the UID of its pod.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []

    def moved(self, entry: Any, queue_name: Any, why: str) -> None:
        """Keeps a call."""
        self.calls.append(("moved", entry.uid))

    def attempted(self, entry: Any, attempt: Any, result: Any) -> None:
        """Keeps a call."""
        self.calls.append(("attempted", entry.uid))

    def preempts(self, entry: Any, post_filter_result: Any) -> None:
        """Keeps a call."""
        self.calls.append(("preempts", entry.uid))

    def waits(self, entry: Any, node_name: str, waiting: Any) -> None:
        """Keeps a call."""
        self.calls.append(("waits", entry.uid))

    def allowed(self, entry: Any, node_name: str) -> None:
        """Keeps a call."""
        self.calls.append(("allowed", entry.uid))

    def bound(self, entry: Any, node_name: str) -> None:
        """Keeps a call."""
        self.calls.append(("bound", entry.uid))

    def failed(self, entry: Any, why: Any) -> None:
        """Keeps a call."""
        self.calls.append(("failed", entry.uid))


def observed_pair() -> tuple[ObservedCalls, ObservedCalls]:
    """Returns the first observer and the last one."""
    return ObservedCalls(), ObservedCalls()


def observed_problems(
    observed: tuple[ObservedCalls, ObservedCalls], results: Mapping[str, int]
) -> Iterator[str]:
    """Yields differences of two observers, and to the results of all attempts."""
    first, second = observed
    if first.calls != second.calls:
        yield f"the observers are called {first.calls[-3:]} and {second.calls[-3:]} at last"
    counts = Counter(name for name, _ in first.calls)
    n_failed = sum(results.values()) - results["scheduled"]
    if counts["bound"] != results["scheduled"] or counts["failed"] > n_failed:
        yield f"the observers are called {dict(counts)}, but the results are {dict(results)}"
    if not counts["allowed"] <= counts["waits"] <= counts["attempted"]:
        yield f"the observers are called {dict(counts)}"
    if counts["attempted"] < counts["bound"]:
        yield f"more pods are bound than attempted: {dict(counts)}"
