"""Decides what becomes of an event: a new object, a higher count of an old one, or nothing.

::

    event ──> aggregate ──> count ──> filter ──> Observation, or None
              10 similar     equal     25 of a source about an object,
              are one        are one   then one in five minutes

So a ReplicaSet with a thousand pods has nine events and one for all others.

Source: client-go's tools/record/events_cache.go.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, NamedTuple

from mooring.state.columns.caches import LRUCache

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


class NewEvent(NamedTuple):
    """An event that a controller records.

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


@dataclass(slots=True)
class _Similar:
    messages: set[str]
    last_s: float


@dataclass(slots=True)
class _Counted:
    name: str
    times: int
    first_s: float


@dataclass(slots=True)
class _Bucket:
    tokens: float
    last_s: float


class Correlator:
    """Combines, counts and limits events.

    *Differs:* of each cache the oldest entry goes, not the one that was not used for longest.
    """

    def __init__(self) -> None:
        self._similar: LRUCache[Hashable, _Similar] = LRUCache(ENTRIES_MAX)
        self._counted: LRUCache[Hashable, _Counted] = LRUCache(ENTRIES_MAX)
        self._buckets: LRUCache[Hashable, _Bucket] = LRUCache(ENTRIES_MAX)

    def observe(self, event: NewEvent, name: str, now_s: float) -> Observation | None:
        """Returns the event to write; None = there are too many about this object.

        Args:
            event: The event.
            name: Of its object, if it gets one.
            now_s: The wall clock.
        """
        component, host, regarding, event_type, reason, message = event
        api_version, kind, namespace, obj, uid, _, field_path = regarding
        source = (component, host, api_version, kind, namespace, obj, uid, event_type)
        group: Hashable = (source, reason)
        is_combined = self._is_combined(group, message, now_s)
        key = group if is_combined else (group, field_path, message)
        counted = self._counted.get(key)
        if counted is None:
            counted = _Counted(name, 0, now_s)
            self._counted.put(key, counted)
        counted.times += 1
        if not self._takes_token(source, now_s):
            return None
        text = COMBINED + message if is_combined else message
        return Observation(counted.name, text, counted.times, counted.first_s, is_combined)

    def _is_combined(self, group: Hashable, message: str, now_s: float) -> bool:
        similar = self._similar.get(group)
        if similar is None:
            self._similar.put(group, _Similar({message}, now_s))
            return False
        if now_s - similar.last_s > SIMILAR_S:
            similar.messages.clear()
        similar.last_s = now_s
        if message in similar.messages:
            return False
        if len(similar.messages) == SIMILAR_MAX - 1:
            return True  # upstream adds the message and removes any one
        similar.messages.add(message)
        return False

    def _takes_token(self, source: Hashable, now_s: float) -> bool:
        bucket = self._buckets.get(source)
        if bucket is None:
            self._buckets.put(source, _Bucket(BURST - 1.0, now_s))
            return True
        bucket.tokens = min(float(BURST), bucket.tokens + (now_s - bucket.last_s) / REFILL_S)
        bucket.last_s = now_s
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True
