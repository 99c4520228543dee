"""The attempts of a run: the failed ones of its events, the others of its pods' times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from mooring.decision import SCHEDULED
from mooring.decision import UNSCHEDULABLE as RESULT_UNSCHEDULABLE
from mooring.experiments.playback.tables import NEVER, US, Ints, ResultTables
from mooring.scenario.tables.events import ERROR, GATED, LIMIT, PREEMPTS, REFUSED, REJECTED, UNGATED

_FAILED: Final = {REFUSED: RESULT_UNSCHEDULABLE, REJECTED: "rejected", ERROR: "error"}


@dataclass(slots=True)
class PlayedAttempt:
    """One attempt.

    Attributes:
        number: Its place among all attempts, from 1.
        pod: "namespace/name".
        time_s: Seconds from the start of the run.
        result: ``scheduled``, ``unschedulable``, ``preempts``, ``rejected`` or ``error``.
        node: The selected or nominated node; "" = none.
        message: Why the pod has no node.
        plugins: The plugins that rejected it.
        victims: The pods that are evicted for it.
    """

    number: int
    pod: str
    time_s: float
    result: str
    node: str = ""
    message: str = ""
    plugins: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()


class ResultAttempts:
    """The attempts of a run, by time.

    Attributes:
        failures: The failed attempts; the last one of a pod says why it waits.
        failures_us: int64, ascending: their times.
        failed_pods: int64: the rows of their pods.
        nominates: bool: whether they evict pods of a node for their own.
        reasons: The different messages of failed attempts, with their plugins.
        reason_of: int64: index of the reason of each failed attempt.
        gates_us: int64, ascending: when a pod got or lost scheduling gates.
        gated_pods: int64: the rows of these pods.
        has_gates: bool: whether they have gates since then.
        times_us: int64, ascending: the times of all attempts.
        limits: Text of each limit -> from when on events are not kept.
    """

    def __init__(self, tables: ResultTables) -> None:
        self._tables = tables
        self.failures: list[PlayedAttempt] = []
        self.limits: dict[str, int] = {}
        gates: list[tuple[int, int, bool]] = []
        failures: list[tuple[int, int]] = []
        events, pods = tables.events, tables.pods
        for index, time_us in enumerate(tables.events_us.tolist()):
            name, text = events["event"][index], events["text"][index]
            if name == LIMIT:
                self.limits[text] = time_us
                continue
            row = pods.row_at(events["object"][index], time_us)
            if row < 0:
                continue
            if name in (GATED, UNGATED):
                gates.append((time_us, row, name == GATED))
            elif name == PREEMPTS or name in _FAILED:
                self._add(index, row, time_us, failures)
        self.failures_us, self.failed_pods = _columns(failures)
        self.gates_us, self.gated_pods = _columns([(at, row) for at, row, _ in gates])
        self.has_gates = np.array([has for _, _, has in gates], bool)
        self.nominates = np.array([bool(own.node) for own in self.failures], bool)
        ids: dict[tuple[str, tuple[str, ...]], int] = {}
        reasons = [ids.setdefault((own.message, own.plugins), len(ids)) for own in self.failures]
        self.reasons = [*ids]
        self.reason_of = np.array(reasons, np.int64)
        self._merge()

    def _add(self, index: int, row: int, time_us: int, failures: list[tuple[int, int]]) -> None:
        """Adds a failed attempt; the refusal after a preemption belongs to it."""
        events, names = self._tables.events, self._tables.pods.names
        name, text = events["event"][index], events["text"][index]
        plugins = tuple(filter(None, events["plugins"][index].split(",")))
        last = self.failures[-1] if self.failures else None
        is_same = last is not None and failures[-1] == (time_us, row) and not last.message
        if last is not None and name == REFUSED and last.result == PREEMPTS and is_same:
            last.message, last.plugins = text, plugins
            return
        record = PlayedAttempt(0, names[row], time_us / US, _FAILED.get(name, PREEMPTS))
        if name == PREEMPTS:
            record.node = events["on_node"][index]
            record.victims = tuple(filter(None, text.split(",")))
        else:
            record.message, record.plugins = text, plugins
        self.failures.append(record)
        failures.append((time_us, row))

    def _merge(self) -> None:
        """Brings failed attempts and bindings into one order."""
        bound_us = self._tables.pods.bound_us
        bound = np.flatnonzero(bound_us < NEVER)
        count = len(self.failures)
        times = np.concatenate([self.failures_us, bound_us[bound]])
        order = np.argsort(times, kind="stable")
        self.times_us: Ints = times[order]
        #: Below the number of failures: one of them; else the row of a bound pod.
        self._sources = np.where(
            order < count, order, count + bound[np.maximum(order - count, 0)] if len(bound) else 0
        )
        for number, source in enumerate(self._sources.tolist(), 1):
            if source < count:
                self.failures[source].number = number

    def count(self, position: int) -> int:
        """Returns the number of attempts up to a time."""
        return int(np.searchsorted(self.times_us, position, side="right"))

    def records(self, first: int, end: int) -> list[PlayedAttempt]:
        """Returns attempts by index, from 0."""
        return [self._record(index) for index in range(first, end)]

    def latest_first(self, end: int, result: str = "") -> Iterator[PlayedAttempt]:
        """Yields the attempts before an index with a result, or with any (""), the latest first."""
        indexes = np.arange(end)
        if result:
            has_failed = self._sources[:end] < len(self.failures)
            indexes = indexes[has_failed == (result != SCHEDULED)]
        for index in reversed(indexes.tolist()):
            record = self._record(index)
            if result in ("", record.result):
                yield record

    def of_pod(self, name: str, end: int) -> list[PlayedAttempt]:
        """Returns the attempts at a pod before an index."""
        pods, count = self._tables.pods, len(self.failures)
        lives = pods.lives.get(name, [])
        own = np.isin(self.failed_pods, lives)
        sources = [*np.flatnonzero(own).tolist(), *(count + row for row in lives)]
        indexes = np.flatnonzero(np.isin(self._sources[:end], sources)).tolist()
        return [self._record(index) for index in indexes]

    def _record(self, index: int) -> PlayedAttempt:
        source, count = int(self._sources[index]), len(self.failures)
        if source < count:
            return self.failures[source]
        pods, row = self._tables.pods, source - count
        node = int(pods.nodes[row])
        name = self._tables.nodes.names[node] if node >= 0 else ""
        time_s = float(pods.bound_us[row]) / US
        return PlayedAttempt(index + 1, pods.names[row], time_s, SCHEDULED, node=name)


def _columns(pairs: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return columns[:, 0].copy(), columns[:, 1].copy()
