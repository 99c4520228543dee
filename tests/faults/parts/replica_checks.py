"""The replica of an informer alone, whose versions may be no numbers, over drawn events and lists.

Servers of other kinds than Kubernetes' own may count in any way: then a version is known only if it
is the newest one. Events may be of a type that does not exist, their objects cannot be read, and a
list may have more changes than are reported at once. The model is a dict and plain rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final

import pytest

from mooring.client.informer import replica as module
from mooring.client.informer.replica import ObjectChange, Replica
from mooring.client.informer.watch_events import WatchEvent
from mooring.clock import Rng

STEPS: Final = 40
NAMES: Final = ("shop/a", "shop/b", "bank/a", "bank/b")
UIDS: Final = ("u1", "u2")
#: Version -> whether a watch may begin at it.
VERSIONS: Final = {
    **dict.fromkeys(("1", "2", "3", "7", "10", "11", "a1", "b2", "c", "-1", "1.0", "٣"), True),
    **dict.fromkeys(("", "0", "00"), False),
}
TYPES: Final = ("ADDED", "MODIFIED", "MODIFIED", "DELETED", "BOOKMARK", "RENAMED", "ERROR")
#: So many changes of a list are reported at once.
SLICES: Final = (1, 2, 200)
COUNTS: Final = ("events", "duplicates", "malformed", "unknown_types", "lists", "missed_deletes")


class ReplicaModel:
    """The objects of a replica, and what it reports.

    Attributes:
        objects: Name -> the newest version.
        changes: Those that are reported, in their order.
        counts: Of events and lists.
        version: Of the last event or list.
    """

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.changes: list[ObjectChange] = []
        self.counts = dict.fromkeys(COUNTS, 0)
        self.version = ""

    def apply(self, event: WatchEvent) -> None:
        """Applies one event."""
        if self._is_known(event.version):
            self.counts["duplicates"] += event.type != "BOOKMARK"
            return
        if event.type in ("ADDED", "MODIFIED", "DELETED"):
            self.counts["events"] += 1
            self._change(event)
        elif event.type != "BOOKMARK":
            self.counts["unknown_types"] += 1
        if VERSIONS[event.version]:
            self.version = event.version

    def _change(self, event: WatchEvent) -> None:
        old, new = self.objects.get(event.key), event.obj
        if event.type == "DELETED":
            if old is not None:
                is_same = new is not None and new.metadata.uid == old.metadata.uid
                self._drop(event.key, new if is_same else None)
        elif new is not None:
            self.store(event.key, new)
        else:
            self.counts["malformed"] += 1
            if old is not None and event.uid not in ("", old.metadata.uid):
                self.counts["missed_deletes"] += 1
                self._drop(event.key, None)

    def replace(self, listed: dict[str, Any], unreadable: dict[str, str], version: str) -> None:
        """Applies a list."""
        self.counts["lists"] += 1
        self.counts["malformed"] += len(unreadable)
        for name, obj in listed.items():
            self.store(name, obj)
        for name, old in list(self.objects.items()):
            if name not in listed and unreadable.get(name) != old.metadata.uid:
                self.counts["missed_deletes"] += 1
                self._drop(name, None)
        self.version = version

    def store(self, name: str, new: Any) -> None:
        """Stores a version of an object, unless it is the one that is there."""
        old = self.objects.get(name)
        if old is not None and old.metadata.uid != new.metadata.uid:
            self.counts["missed_deletes"] += 1
            self._drop(name, None)
            old = None
        if old is None or old.metadata.resource_version != new.metadata.resource_version:
            self.objects[name] = new
            self.changes.append(ObjectChange(old, new))

    def _drop(self, name: str, last: Any) -> None:
        self.changes.append(ObjectChange(self.objects.pop(name), None, last))

    def _is_known(self, version: str) -> bool:
        if _is_number(version) and _is_number(self.version):
            return int(version) <= int(self.version)
        return version != "" and version == self.version


def _is_number(version: str) -> bool:
    return version != "" and set(version) <= set("0123456789")


def replica_problems(rng: Rng) -> Iterator[str]:
    """Yields differences between a replica and the model."""
    with pytest.MonkeyPatch.context() as patch:
        slice_size = rng.choice(SLICES)
        patch.setattr(module, "SLICE", slice_size)
        yield from _compared(rng, slice_size)


def _compared(rng: Rng, slice_size: int) -> Iterator[str]:
    changes: list[ObjectChange] = []
    real, model = Replica(changes.append), ReplicaModel()
    for step in range(STEPS):
        if rng.random() < 0.2:
            listed = {name: _object(rng) for name in NAMES if rng.random() < 0.6}
            unreadable = {
                name: rng.choice(UIDS)
                for name in NAMES
                if name not in listed and rng.random() < 0.3
            }
            version = rng.choice(list(VERSIONS))
            reported = [len(changes)]
            reported += (len(changes) for _ in real.replacing(listed, unreadable, version))
            reported.append(len(changes))
            model.replace(listed, unreadable, version)
            # Another UID under a name is two changes, which are counted as one.
            counts = [after - before for before, after in pairwise(reported)]
            if max(counts) > 2 * slice_size or any(count < slice_size for count in counts[:-1]):
                yield f"a list reports {counts} changes at once, with a limit of {slice_size}"
        else:
            event = _event(rng)
            real.apply(event)
            model.apply(event)
        if changes != model.changes or real.objects != model.objects:
            yield f"step {step}: {changes[-1:]} is reported, not {model.changes[-1:]}"
            return
        counts_of_real = {name: getattr(real.statistics, name) for name in COUNTS}
        if counts_of_real != model.counts or real.version != model.version:
            numbers = f"{counts_of_real} at {real.version!r}"
            yield f"step {step} counts {numbers}, not {model.counts} at {model.version!r}"
            return


def _object(rng: Rng) -> Any:
    versions = ("1", "2", "a1", "")
    return SimpleNamespace(
        metadata=SimpleNamespace(uid=rng.choice(UIDS), resource_version=rng.choice(versions))
    )


def _event(rng: Rng) -> WatchEvent:
    obj = None if rng.random() < 0.25 else _object(rng)
    uid = rng.choice(("", *UIDS)) if obj is None else obj.metadata.uid
    return WatchEvent(rng.choice(TYPES), rng.choice(NAMES), uid, rng.choice(list(VERSIONS)), obj)
