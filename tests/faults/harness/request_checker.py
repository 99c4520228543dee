"""Checks the requests of a scheduler: Retry-After (F5) and the rate of each cause (F1).

Requests belong together if they concern the same object: the key is method, path, and the UID in
the body. The body itself does not count, since a newer condition of a pod is another body.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from mooring.client.transport.transport import Request

#: Tolerance for times that are sums of floats.
TIMER_S: Final = 1e-6

WINDOW_S: Final = 60.0
#: Requests with the same key in a window: less than one a second.
REQUESTS_MAX: Final = 45
#: Of lists and watches: a watch whose version is lost is followed by up to three lists, if the
#: server does not stream them. These were up to 42 a minute.
LISTS_MAX: Final = 55
#: Of a status: while the server is down, a newer value waits as long as the one before. But a pod
#: that is tried each second may be placed in between, which ends the wait: up to 59 a minute.
STATUS_MAX: Final = 100

_BINDING: Final = re.compile(r"/pods/[^/]+/binding$")
_POD: Final = re.compile(r"/pods/[^/]+(/status|/binding)?$")


class RequestKey(NamedTuple):
    """The object of a request; ``uid`` is "" if it is unknown."""

    method: str
    path: str
    uid: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class _Reference(msgspec.Struct):
    uid: str = ""
    name: str = ""


class _Body(msgspec.Struct):
    """The parts of bodies that name an object."""

    metadata: _Reference = msgspec.field(default_factory=_Reference)
    target: _Reference = msgspec.field(default_factory=_Reference)
    preconditions: _Reference = msgspec.field(default_factory=_Reference)


class RequestChecker:
    """Records when each object was written or read, and what the scheduler has asked to bind.

    Attributes:
        early: Requests that were sent before the Retry-After of an earlier one has passed.
        uid_at: Path -> the UID of the object there now; "" = unknown. A request without a body
            concerns this object, not one that is created there later.
    """

    def __init__(self) -> None:
        self.uid_at: Callable[[str], str] = lambda _: ""
        self.early: list[str] = []
        self._not_before_s: dict[RequestKey, float] = {}
        self._sent_at_s: dict[RequestKey, deque[float]] = {}
        self._storms: dict[RequestKey, str] = {}
        self._bindings: set[tuple[str, str]] = set()
        self._without_uid: dict[RequestKey, str] = {}

    def note_sent(self, request: Request) -> None:
        """Records a request at the moment when it is sent, whether it arrives or not."""
        key, body, now_s = self._key(request), _decoded(request), _now_s()
        if _BINDING.search(request.path):
            self._bindings.add((body.metadata.uid, body.target.name))
        due_s = self._not_before_s.pop(key, 0.0)
        names_pod = body.metadata.uid or body.preconditions.uid
        if request.method != "GET" and _POD.search(request.path) and not names_pod:
            self._without_uid.setdefault(key, f"{key} would change any pod of this name")
        if now_s < due_s - TIMER_S:
            self.early.append(f"{key} was sent {due_s - now_s:.1f} s too early")
        most = _most(key)
        # Each page of a list is a request of its own; a repeated list has other tokens.
        token = dict(request.query).get("continue", "")
        counted = key._replace(uid=token) if token else key
        times = self._sent_at_s.setdefault(counted, deque(maxlen=most + 1))
        times.append(now_s)
        if len(times) > most and now_s - times[0] < WINDOW_S:
            message = f"{key} was sent {len(times)} times in {now_s - times[0]:.1f} s"
            self._storms.setdefault(key, message)

    def note_retry_after(self, request: Request, seconds: float) -> None:
        """Records that the server asks to wait."""
        self._not_before_s[self._key(request)] = _now_s() + seconds

    def has_asked_to_bind(self, uid: str, node_name: str) -> bool:
        """Returns whether the scheduler has ever sent a binding of this pod to this node."""
        return (uid, node_name) in self._bindings

    def _key(self, request: Request) -> RequestKey:
        """Returns what a request concerns: the same for all its retries, and for newer content."""
        metadata = _decoded(request).metadata
        # Events about one pod are objects of their own: they have names, but no UID yet.
        uid = metadata.uid or metadata.name or self.uid_at(request.path)
        return RequestKey(request.method, request.path, uid)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yields the rule and the message of each violation."""
        for message in self.early:
            yield "F5", message
        for message in self._storms.values():
            yield "F1", message
        for message in self._without_uid.values():
            yield "S1", message


def _most(key: RequestKey) -> int:
    """Returns how many requests of a key a minute may have."""
    if key.path.endswith("/status"):
        return STATUS_MAX
    is_list = key.method == "GET" and not _POD.search(key.path)
    return LISTS_MAX if is_list else REQUESTS_MAX


def name_in_body(request: Request) -> str:
    """Returns the name of the object in the body of a request; "" if there is none."""
    return _decoded(request).metadata.name


def _decoded(request: Request) -> _Body:
    if not request.body:
        return _Body()
    try:
        return msgspec.json.decode(request.body, type=_Body)
    except msgspec.DecodeError:
        return _Body()  # a JSON patch, or another format


def _now_s() -> float:
    return asyncio.get_running_loop().time()
