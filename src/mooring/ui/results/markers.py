"""The markers of a run: what happened, combined by second and kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.experiments.playback.tables import NEVER, US, ResultTables
from mooring.scenario.history import EVICTED, PREEMPTED
from mooring.scenario.tables.events import (
    ERROR,
    LIMIT,
    NODE,
    NODE_FAILED,
    NODE_REMOVED,
    REFUSED,
    REJECTED,
    SCALE_UP,
)
from mooring.ui.player import MARKERS_MAX, Marker

#: Kind -> text for one, and for several. A kind is also a class of the page's style.
_TEXTS: Final = {
    "evicted": ("pod evicted", "pods evicted"),
    "preempted": ("pod preempted", "pods preempted"),
    "node-failed": ("node failed", "nodes failed"),
    "node-added": ("node added", "nodes added"),
    "node-removed": ("node removed", "nodes removed"),
    "scale-up": ("node asked for by the autoscaler", "nodes asked for by the autoscaler"),
    "refused": ("attempt refused", "attempts refused"),
    "limit": ("events from here on are not kept", "events from here on are not kept"),
}
_KIND_OF: Final = {
    NODE_FAILED: "node-failed",
    NODE_REMOVED: "node-removed",
    REFUSED: "refused",
    REJECTED: "refused",
    ERROR: "refused",
}
_NAMES_MAX: Final = 3

_Occurrence = tuple[int, str, str, int]


class _Group:
    """The occurrences of one kind in one interval."""

    def __init__(self, position: int) -> None:
        self.position = position
        self.count = 0
        self.names: dict[str, None] = {}


def markers_of(tables: ResultTables, count_max: int = MARKERS_MAX) -> list[Marker]:
    """Returns the markers, ascending.

    What happens in one second is one marker for each kind, at its first instant. Where there would
    be too many, the intervals are longer.
    """
    occurrences = sorted(_occurrences(tables))
    width_us = US
    while True:
        groups: dict[tuple[int, str], _Group] = {}
        for position, kind, name, count in occurrences:
            group = groups.setdefault((position // width_us, kind), _Group(position))
            group.count += count
            if len(group.names) <= _NAMES_MAX:
                group.names[name] = None
        if len(groups) <= max(count_max, len(_TEXTS)) or width_us > tables.end_us:
            break
        width_us *= 2
    markers = [
        Marker(group.position, kind, _text(kind, group)) for (_, kind), group in groups.items()
    ]
    return sorted(markers, key=lambda marker: (marker.position, marker.kind))


def _text(kind: str, group: _Group) -> str:
    singular, plural = _TEXTS[kind]
    names = list(group.names)
    text = ", ".join(names[:_NAMES_MAX]) + (", ..." if len(names) > _NAMES_MAX else "")
    return f"{group.count} {plural}: {text}" if group.count > 1 else f"{singular}: {text}"


def _occurrences(tables: ResultTables) -> Iterator[_Occurrence]:
    """Yields position, kind, name of the object, and how many."""
    pods, events = tables.pods, tables.events
    kinds = {EVICTED: "evicted", PREEMPTED: "preempted"}
    for row, time_us in enumerate(pods.finished_us.tolist()):
        kind = kinds.get(pods.final_states[row])
        if kind is not None and time_us < NEVER:
            yield time_us, kind, pods.names[row], 1
    live: set[str] = set()
    for index, time_us in enumerate(tables.events_us.tolist()):
        event, name = events["event"][index], events["object"][index]
        if event == NODE:
            if name not in live and time_us > 0:
                yield time_us, "node-added", name, 1
            live.add(name)
            continue
        if event == NODE_REMOVED:
            live.discard(name)
        text = events["text"][index]
        if event == SCALE_UP:
            yield time_us, "scale-up", name, int(text) if text.isdecimal() else 1
        elif event == LIMIT:
            yield time_us, "limit", text, 1
        elif event in _KIND_OF:
            yield time_us, _KIND_OF[event], name, 1
