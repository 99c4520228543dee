"""Follows the requests of an informer: each is compared with a model, and so is each wait."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from mooring.client import Informer
from mooring.errors import SchedulerError
from tests.faults.twins.reflector_model import ExpectedRequest, ModelReflector

ROUNDING_S: Final = 1e-3

#: A clock may be a fifth too slow, beside the timers.
LEAST_SHARE: Final = 0.75

ERROR: Final = "ERROR"
WATCH: Final = {"watch": "1", "allowWatchBookmarks": "true"}
INITIAL: Final = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
IDLE_S: Final = 150.0
PAGE: Final = 500


class AttachedReflector:
    """Compares the reflector of an informer with the model at each call.

    Args:
        informer: Has not begun yet.
        now_s: Its clock.
        report: Called with each difference.
    """

    def __init__(
        self, informer: Informer, now_s: Callable[[], float], report: Callable[[str], None]
    ) -> None:
        self._name = informer.kind.name
        self._now_s = now_s
        self._report = report
        self._model = ModelReflector()
        self._not_before_s = -math.inf
        real: Any = informer._reflector
        self._real = real
        self._ask, real.ask = real.ask, self._asks
        self._accepted, real.accepted = real.accepted, self._accepts
        self._received, real.received = real.received, self._receives
        self._listed, real.listed = real.listed, self._lists
        self._ended, real.ended = real.ended, self._ends
        self._relist, real.relist = real.relist, self._relists
        self._statistics = AttachedStatistics(real.replica, self._differ)
        if hasattr(informer, "wait_until_fresh"):  # the run of a reflector has no informer
            self._follow_waits(informer)

    def _follow_waits(self, informer: Any) -> None:
        """Compares the end of each wait for fresh objects with the time since when they are so."""
        wait = informer.wait_until_fresh

        async def waits(since_s: float) -> None:
            asked_at_s, model = self._now_s(), self._model
            was_fresh = model.is_following and model.fresh_at_s >= since_s
            await wait(since_s)
            is_missing = informer._is_missing(self._real.last_error)
            if not was_fresh and not is_missing and model.fresh_at_s < asked_at_s - ROUNDING_S:
                fresh_s = model.fresh_at_s
                self._differ(f"counts as fresh since {asked_at_s:.3f} s, not since {fresh_s:.3f} s")

        informer.wait_until_fresh = waits

    def _asks(self) -> Any:
        now_s = self._now_s()
        if now_s < self._not_before_s - ROUNDING_S:
            self._differ(f"asks {self._not_before_s - now_s:.2f} s too early")
        expected = self._model.ask(now_s, self._real.replica.version)
        request = self._ask()
        self._compare_request(expected, request)
        self._compare("ask")
        return request

    def _compare_request(self, expected: ExpectedRequest, request: Any) -> None:
        query = dict(request.query)
        if request.mode.value != expected.mode:
            self._differ(f"sends a {request.mode.value}, not a {expected.mode}")
        elif expected.mode == "list":
            if query or request.page_size != (PAGE if expected.is_paged else 0):
                self._differ(f"lists pages of {request.page_size} with {query}")
        else:
            seconds = query.pop("timeoutSeconds", "0")
            right_query = WATCH | (INITIAL if expected.mode == "stream" else {})
            if expected.version:
                right_query["resourceVersion"] = expected.version
            if query != right_query or len(request.query) != len(right_query) + 1:
                self._differ(f"sends {request.query}, not {right_query}")
            if not 300 <= int(seconds) <= 600 or request.idle_s != IDLE_S:
                self._differ(f"watches for {seconds} s, idle for {request.idle_s} s")

    def _accepts(self) -> None:
        self._model.accepted()
        self._accepted()
        self._compare("accepted")

    def _receives(self, lines: list[bytes]) -> Iterator[None]:
        rest = lines
        if self._model.phase == "stream":
            ends = [i for i, line in enumerate(lines) if b"k8s.io/initial-events-end" in line]
            rest = lines[ends[0] + 1 :] if ends else []
            before_end = lines[: ends[0]] if ends else lines
            if _is_event(next(filter(None, before_end), b"")):
                self._model.heard()
        try:
            yield from self._received(lines)
        except SchedulerError:
            # Which line it was is not known.
            if self._real.fresh_at_s == self._now_s():
                self._model.fresh_at_s = self._real.fresh_at_s
            raise
        if any(rest):
            self._model.fresh_at_s = self._now_s()
        self._compare("received")

    def _lists(self, listing: Any, version: str) -> Iterator[None]:
        yield from self._listed(listing, version)
        if self._real.replica.version != version:
            self._differ(f"has version {self._real.replica.version}, but listed {version}")
        self._model.listed()
        self._compare("listed")

    def _ends(self, error: SchedulerError | None = None) -> float:
        now_s = self._now_s()
        least_s, most_s = self._model.ended(now_s, self._real.replica.version, error)
        wait_s: float = self._ended(error)
        if not least_s <= wait_s <= most_s:
            self._differ(f"waits {wait_s:.2f} s after {error!r}, not {least_s:.2f}-{most_s:.2f}")
        self._not_before_s = now_s + LEAST_SHARE * wait_s
        self._compare("ended")
        return wait_s

    def _relists(self) -> None:
        self._model.relist()
        self._relist()
        self._not_before_s = -math.inf
        self._compare("relist")

    def _compare(self, call: str) -> None:
        real, model = self._real, self._model
        if real.last_error is not model.last_error:
            self._differ(f"has the error {real.last_error!r}, not {model.last_error!r}", call)
        if real.has_synced != model.has_synced:
            self._differ(f"has synced: {real.has_synced}", call)
        if real.is_following != model.is_following:
            self._differ(f"is following: {real.is_following}", call)
        fresh_s, expected_s = real.fresh_at_s, model.fresh_at_s
        if fresh_s != expected_s and not abs(fresh_s - expected_s) <= ROUNDING_S:
            self._differ(f"is fresh at {fresh_s:.3f} s, not {expected_s:.3f} s", call)

    def _differ(self, message: str, call: str = "") -> None:
        at = f" after {call}" if call else ""
        self._report(f"the informer of {self._name}{at} {message}")


class AttachedStatistics:
    """Counts what a replica gets, and compares its statistics after each event and list.

    Args:
        replica: Has counted nothing yet.
        differ: Called with each difference.
    """

    def __init__(self, replica: Any, differ: Callable[[str], None]) -> None:
        self._replica, self._differ = replica, differ
        self._counts = Counter[str]()
        self._apply, replica.apply = replica.apply, self._applies
        self._replacing, replica.replacing = replica.replacing, self._replaces

    def _applies(self, event: Any) -> None:
        old, version = self._replica.objects.get(event.key), self._replica.version
        self._apply(event)
        is_old = event.version == version != ""
        if event.version.isdecimal() and version.isdecimal():
            is_old = int(event.version) <= int(version)
        if is_old:
            self._counts["duplicates"] += event.type != "BOOKMARK"
        elif event.type in ("ADDED", "MODIFIED"):
            uid = event.uid if event.obj is None else event.obj.metadata.uid
            self._counts["events"] += 1
            self._counts["malformed"] += event.obj is None
            self._counts["missed_deletes"] += old is not None and uid not in ("", old.metadata.uid)
        elif event.type != "BOOKMARK":
            self._counts["events" if event.type == "DELETED" else "unknown_types"] += 1
        self._compare(f"{event.type} {event.key}")

    def _replaces(
        self, listed: Mapping[str, Any], unreadable: Mapping[str, str], version: str
    ) -> Iterator[None]:
        self._counts["lists"] += 1
        self._counts["malformed"] += len(unreadable)
        for name, old in self._replica.objects.items():
            uid = listed[name].metadata.uid if name in listed else unreadable.get(name)
            self._counts["missed_deletes"] += uid != old.metadata.uid
        yield from self._replacing(listed, unreadable, version)
        self._compare("a list")

    def _compare(self, what: str) -> None:
        counted = {name: n for name, n in vars(self._replica.statistics).items() if n}
        if counted != (expected := {name: n for name, n in self._counts.items() if n}):
            self._differ(f"counts {counted}, not {expected}, after {what}")


def _is_event(line: bytes) -> bool:
    """Returns whether a line is an event, be its type known or not, and no error."""
    try:
        event = json.loads(line)
    except ValueError:
        return False
    return isinstance(event, dict) and event.get("type", ERROR) != ERROR
