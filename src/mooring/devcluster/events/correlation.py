"""Decides what becomes of an event: a new object, a higher count of an old one, or nothing.

::

    event ──> aggregate ──> count ──> filter ──> Observation, or None
              10 similar     equal     25 of a source about an object,
              are one        are one   then one in five minutes

So a ReplicaSet with a thousand pods has nine events and one for all others.

Source: client-go's tools/record/events_cache.go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, NamedTuple, TypeVar

#: As in client-go: entries of each cache.
ENTRIES_MAX: Final = 4096
#: So many events that differ in their messages alone are one from then on,
SIMILAR_MAX: Final = 10
#: unless there was none for so long.
SIMILAR_S: Final = 600.0
#: A source may record so many events about an object at once,
BURST: Final = 25
#: and one more after so many seconds.
REFILL_S: Final = 300.0
COMBINED: Final = "(combined from similar events): "

Value = TypeVar("Value")


class Reference(NamedTuple):
    """The object of an event.

    Attributes:
        api_version: "apps/v1".
        kind: "ReplicaSet".
        namespace: "" for objects without namespaces.
        name: The object.
        uid: "" if the source does not say it, as that of taints does not.
        version: The resourceVersion.
        field_path: The part of the object, as ``spec.containers{web}``; "" = all of it.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    field_path: str = ""


class Happening(NamedTuple):
    """What a controller records.

    Attributes:
        component: The source, as "replicaset-controller".
        host: The node of the source; "" for controllers.
        regarding: The object.
        type: "Normal" or "Warning".
        reason: In CamelCase.
        message: For users.
    """

    component: str
    host: str
    regarding: Reference
    type: str
    reason: str
    message: str


class Observation(NamedTuple):
    """An event to write.

    Attributes:
        name: Of the Event object.
        message: That of the event, or of several.
        times: How often it happened; more than 1 = the object exists.
        first_s: When it happened first; seconds since 1970.
        is_combined: True if its messages differ.
    """

    name: str
    message: str
    times: int
    first_s: float
    is_combined: bool


class RecentEntries(Generic[Value]):
    """The entries that were used last.

    Attributes:
        limit: The number of entries.
    """

    def __init__(self, limit: int = ENTRIES_MAX) -> None:
        self.limit = limit
        self._entries: OrderedDict[Hashable, Value] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Value | None:
        """Returns an entry, which counts as used now; None if there is none."""
        value = self._entries.get(key)
        if value is not None:
            self._entries.move_to_end(key)
        return value

    def put(self, key: Hashable, value: Value) -> None:
        """Stores an entry; the one not used for longest goes."""
        self._entries[key] = value
        self._entries.move_to_end(key)
        if len(self._entries) > self.limit:
            self._entries.popitem(last=False)


class _Similar(NamedTuple):
    messages: frozenset[str]
    last_s: float


class _Counted(NamedTuple):
    name: str
    times: int
    first_s: float


class _Bucket(NamedTuple):
    tokens: float
    last_s: float


class Correlator:
    """Combines, counts and limits events."""

    def __init__(self) -> None:
        self._similar: RecentEntries[_Similar] = RecentEntries()
        self._counted: RecentEntries[_Counted] = RecentEntries()
        self._buckets: RecentEntries[_Bucket] = RecentEntries()

    def observe(self, happening: Happening, name: str, now_s: float) -> Observation | None:
        """Returns the event to write; None = there are too many about this object.

        Args:
            happening: The event.
            name: Of its object, if it gets one.
            now_s: The wall clock.
        """
        regarding = happening.regarding
        key: Hashable = (*happening[:2], *regarding[:5], regarding.field_path, *happening[3:])
        message, is_combined = happening.message, False
        group = (*happening[:2], *regarding[:5], *happening[3:5])
        if self._is_combined(group, message, now_s):
            key, message, is_combined = group, COMBINED + message, True
        counted = self._counted.get(key) or _Counted(name, 0, now_s)
        counted = counted._replace(times=counted.times + 1)
        self._counted.put(key, counted)
        if not self._take_token((*happening[:2], *regarding[:5], happening.type), now_s):
            return None
        return Observation(counted.name, message, counted.times, counted.first_s, is_combined)

    def _is_combined(self, group: Hashable, message: str, now_s: float) -> bool:
        similar = self._similar.get(group)
        messages: frozenset[str] = frozenset()
        if similar is not None and now_s - similar.last_s <= SIMILAR_S:
            messages = similar.messages
        # A full set stays as it is: upstream adds the message and removes any one.
        is_combined = len(messages | {message}) >= SIMILAR_MAX
        if not is_combined:
            messages |= {message}
        self._similar.put(group, _Similar(messages, now_s))
        return is_combined

    def _take_token(self, source: Hashable, now_s: float) -> bool:
        bucket = self._buckets.get(source) or _Bucket(BURST, now_s)
        tokens = min(float(BURST), bucket.tokens + (now_s - bucket.last_s) / REFILL_S)
        is_accepted = tokens >= 1.0
        self._buckets.put(source, _Bucket(tokens - is_accepted, now_s))
        return is_accepted
