"""Pods with equal signatures, scheduled one after another by the sorted nodes of the first.

Numbers of cycles have gaps, nodes go, get room again or have equal scores, pods wait too long or
cannot be signed. Each hint, and why there is none, is that of a model with its own heap.

Source: pkg/scheduler/framework/runtime/batch.go; schedule_one.go (nodeScoreHeap); the heap of Go's
container/heap.
"""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any, Final

from mooring.clock import VirtualClock, seeded_random
from mooring.framework.runtime.opportunistic_batch import OpportunisticBatch, SortedNodes
from mooring.state import PodInfo
from mooring.testing import make_pod

CYCLES: Final = 60
AGE_S_MAX: Final = 0.5


class GoHeap:
    """Names and scores, as Go's container/heap holds them: the highest score is popped first."""

    def __init__(self, items: list[tuple[str, int]]) -> None:
        self._items = items
        for start in range(len(items) // 2 - 1, -1, -1):
            self._down(start, len(items))

    def __len__(self) -> int:
        return len(self._items)

    def pop(self) -> str:
        """Removes an item with the highest score; returns its name."""
        end = len(self._items) - 1
        self._items[0], self._items[end] = self._items[end], self._items[0]
        self._down(0, end)
        return self._items.pop()[0]

    def _is_before(self, index: int, other: int) -> bool:
        return self._items[index][1] > self._items[other][1]

    def _down(self, start: int, end: int) -> None:
        parent = start
        while 2 * parent + 1 < end:
            left = best = 2 * parent + 1
            if left + 1 < end and self._is_before(left + 1, left):
                best = left + 1
            if not self._is_before(best, parent):
                break
            self._items[parent], self._items[best] = self._items[best], self._items[parent]
            parent = best


class BatchModel:
    """The state of batching: the sorted nodes of the last pod that was not batched.

    Attributes:
        counts: Attempts and flushes, by reason.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.nodes: GoHeap | None = None
        self.signature: str | None = None
        self.since_s = 0.0
        self.last = -1, ""

    def hint(
        self, number: int, signature: str | None, now_s: float, feasible: dict[str, bool]
    ) -> str:
        """Returns the node to try first; "" = none."""
        reason = ""
        if self.nodes is None or not len(self.nodes):
            reason = "none"
        elif number != self.last[0] + 1:
            reason = "pod_skipped"
        elif signature is None or signature != self.signature:
            reason = "pod_incompatible"
        elif now_s > self.since_s + AGE_S_MAX:
            reason = "expired"
        elif self.last[1] not in feasible:
            reason = "node_missing"
        elif feasible[self.last[1]]:
            reason = "node_not_full"
        if not reason:
            assert self.nodes is not None
            return self.nodes.pop()
        if reason != "none":
            self.counts[f"flushed {reason}"] += 1
        self.counts["attempted no_hint"] += 1
        return ""

    def store(
        self, number: int, signature: str | None, now_s: float, hint: str, nodes: GoHeap, node: str
    ) -> None:
        """Stores the result of a cycle; ``nodes`` are those that the pod did not get."""
        self.last = number, node
        if hint == node:
            self.counts["attempted hint_used"] += 1
            return
        if hint:
            self.counts["attempted hint_not_used"] += 1
        self.nodes = None
        if not len(nodes):
            self.counts["flushed empty_list"] += 1
        elif signature is None:
            self.counts["flushed pod_not_batchable"] += 1
        else:
            self.nodes, self.signature, self.since_s = nodes, signature, now_s


class BatchRun:
    """One run.

    Attributes:
        problems: Differences to the model.
    """

    def __init__(self, seed: int) -> None:
        self.problems: list[str] = []
        self._rng = seeded_random(seed)
        self._clock = VirtualClock()
        self._model, self._counts = BatchModel(), Counter[str]()
        plugin = SimpleNamespace(
            name="Signing", batch_signature=lambda pod: pod.metadata.labels.get("sign")
        )
        self._batch = OpportunisticBatch([plugin], self._clock, lambda _name, _pod: None)
        ignore = lambda *_, **__: None  # noqa: E731
        self._recorder: Any = SimpleNamespace(
            now=lambda: 0.0,
            hint_ended=ignore,
            results_stored=ignore,
            batch_flushed=lambda reason: self._counts.update([f"flushed {reason}"]),
            batch_attempted=lambda what: self._counts.update([f"attempted {what}"]),
        )
        #: Node -> whether the next pod fits it, as far as it exists.
        self._feasible = {f"n{number}": True for number in range(self._rng.choice((2, 5, 9)))}
        self._sign_rate = self._rng.choice((0.5, 0.9, 1.0))

    def run(self) -> None:
        """Schedules pods."""
        number = 0
        for _ in range(CYCLES):
            number += self._rng.choice((1, 1, 1, 1, 1, 1, 2))
            self._schedule(number)
            if self._counts != self._model.counts:
                self.problems.append(f"counts are {self._counts}, not {self._model.counts}")
            if self.problems:
                return

    def _schedule(self, number: int) -> None:
        rng = self._rng
        self._clock.advance(rng.choice((0.0, 0.01, 0.1, 0.5, 0.6)) * rng.choice((0.0, 1.0)))
        now_s = self._clock.monotonic_s()
        sign = rng.choice(("web", "web", "web", "db")) if rng.random() < self._sign_rate else None
        pod = PodInfo(make_pod(f"pod-{number}", labels={"sign": sign} if sign else {}))
        cycle: Any = SimpleNamespace(number=number, pod=pod, node_hint="")
        hint = self._batch.hint(cycle, self._feasible.get, self._recorder)
        expected = self._model.hint(number, sign, now_s, self._feasible)
        if hint != expected:
            self.problems.append(f"cycle {number} tries {hint!r} first, not {expected!r}")
            return
        cycle.node_hint = hint
        if rng.random() < 0.1:
            self._change()
            return  # the pod fits no node, or its attempt fails
        names = [name for name, fits in self._feasible.items() if fits] or list(self._feasible)
        totals = [rng.choice((0, 50, 50, 100)) for _ in names]
        others = GoHeap(list(zip(names, totals, strict=True)))
        node = others.pop()
        if hint and rng.random() < 0.8:
            node = hint
        real = None if len(names) == 1 else lambda: SortedNodes(names, totals)
        self._batch.store(cycle, node, real, self._recorder)
        self._model.store(number, sign, now_s, hint, others, node)
        if rng.random() < 0.8:
            self._feasible[node] = False
        self._change()

    def _change(self) -> None:
        """Lets a node go, come, or have room again."""
        rng = self._rng
        name = f"n{rng.randrange(10)}"
        if rng.random() < 0.15:
            self._feasible[name] = True
        elif rng.random() < 0.05 and len(self._feasible) > 1:
            self._feasible.pop(name, None)


def run_batch(seed: int) -> None:
    """Runs a seed.

    Raises:
        AssertionError: a hint or a count differs from the model.
    """
    run = BatchRun(seed)
    run.run()
    assert not run.problems, run.problems[0]
