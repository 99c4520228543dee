"""The next request, and the wait before it, for each end of a request."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from mooring.client.informer.reflector import WATCH_IDLE_S, Listing, Mode, NextRequest, Reflector
from mooring.client.transport.transport import StreamBroken, StreamUnreadable
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    SchedulerError,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from mooring.objects import ObjectMeta, Pod
from mooring.objects.kinds import kind_named

CUT = StreamBroken("cut")
REFUSED = Unreachable("connection refused")
ILL = ServerError("ill", status=500)
SLOW = TooManyRequests("slow down", status=429, retry_after_s=77.0)
EXPIRED = Gone("too old", status=410, reason="Expired")
AHEAD = ServerError("Too large resource version: 9, current: 5", status=504, retry_after_s=1.0)


def line(kind: str, name: str, version: int, **metadata: Any) -> bytes:
    found = {"name": name, "uid": name, "resourceVersion": str(version), **metadata}
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": found}
    return json.dumps({"type": kind, "object": obj}).encode()


def bookmark(version: int) -> bytes:
    return line("BOOKMARK", "", version)


END_OF_LIST = {"k8s.io/initial-events-end": "true"}


def end_of_list(version: int) -> bytes:
    return line("BOOKMARK", "", version, annotations=END_OF_LIST)


class Run:
    """A reflector and its clock."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.told: list[str] = []
        self.reflector = Reflector(
            kind_named("Pod"),
            lambda change: self.told.append((change.new or change.old).metadata.name),
            clock=self.clock,
            rng=seeded_random(3),
        )

    @classmethod
    def watching(cls, version: int = 10) -> Run:
        """Returns one that has its first list and whose first watch has ended."""
        run = cls()
        run.reflector.ask()
        run.receive(end_of_list(version))
        run.end(None, lasted_s=300)
        return run

    def receive(self, *lines: bytes) -> None:
        for _ in self.reflector.received(list(lines)):
            pass

    def end(self, error: SchedulerError | None, *, lasted_s: float = 0.0) -> float:
        self.clock.advance(lasted_s)
        return self.reflector.ended(error)

    def ask(self) -> tuple[Mode, str | None]:
        """Returns the next request, and from which version."""
        ask = self.reflector.ask()
        return ask.mode, dict(ask.query).get("resourceVersion")

    @property
    def names(self) -> set[str]:
        return set(self.reflector.replica.objects)


# -- the first list -------------------------------------------------------------------------------


def test_the_first_request_lists_by_watching() -> None:
    ask = Run().reflector.ask()
    query = dict(ask.query)
    seconds = int(query.pop("timeoutSeconds"))
    assert 300 <= seconds <= 600
    assert (ask.mode, ask.idle_s) == (Mode.STREAM, WATCH_IDLE_S)
    assert query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }


def test_nothing_counts_before_the_end_of_the_initial_events() -> None:
    run = Run()
    run.reflector.ask()
    run.receive(line("ADDED", "b", 9), b"", line("ADDED", "a", 3))
    assert (run.names, run.told, run.reflector.has_synced) == (set(), [], False)
    run.receive(line("MODIFIED", "a", 12), line("DELETED", "b", 13), bookmark(13))
    run.receive(end_of_list(14), line("ADDED", "c", 15))
    assert run.reflector.has_synced
    assert run.names == {"a", "c"}
    assert run.told == ["a", "c"]
    assert run.reflector.replica.version == "15"


def test_a_stream_goes_on_as_a_watch() -> None:
    run = Run()
    run.reflector.ask()
    run.receive(end_of_list(14), line("ADDED", "c", 15))
    assert run.end(CUT) == 0.0
    assert run.ask() == (Mode.WATCH, "15")


@pytest.mark.parametrize("version", ["", "0"])
def test_a_stream_whose_list_has_no_version_is_broken(version: str) -> None:
    # A watch from such a version would begin with what exists: what was deleted would stay.
    run = Run()
    run.reflector.ask()
    end = line("BOOKMARK", "", 0, resourceVersion=version, annotations=END_OF_LIST)
    with pytest.raises(StreamUnreadable, match=f"can start from its resourceVersion '{version}'"):
        run.receive(line("ADDED", "a", 3), end)
    assert (run.names, run.reflector.has_synced) == (set(), False)
    assert run.end(StreamUnreadable("no version")) >= 0.8
    assert run.ask() == (Mode.STREAM, None)


def test_a_watch_never_goes_to_the_version_zero() -> None:
    run = Run.watching()
    run.reflector.ask()
    run.receive(line("ADDED", "a", 0, resourceVersion="x"), line("ADDED", "b", 0))
    run.end(None, lasted_s=300)
    assert run.names == {"a", "b"}
    assert run.ask() == (Mode.WATCH, "x")


def test_an_initial_object_that_cannot_be_read_is_kept_as_it_was() -> None:
    run = Run.watching()
    run.reflector.ask()
    run.receive(line("ADDED", "a", 11))
    run.end(EXPIRED)
    run.reflector.ask()
    bad = line("ADDED", "a", 12).replace(b'"metadata"', b'"spec": 7, "metadata"')
    run.receive(bad, end_of_list(20))
    assert run.names == {"a"}
    run.end(EXPIRED)
    run.reflector.ask()
    run.receive(bad, line("MODIFIED", "a", 22), end_of_list(25))
    assert run.reflector.replica.objects["a"].metadata.resource_version == "22"


@pytest.mark.parametrize(
    "error",
    [
        None,
        BadRequest("sendInitialEvents is forbidden", status=400),
        Invalid("sendInitialEvents: Forbidden", status=422),
        Forbidden("no watch for you", status=403),
        NotFound("what?", status=404),
    ],
)
def test_a_server_that_cannot_list_by_watching_is_asked_for_pages_at_once(
    error: ApiError | None,
) -> None:
    run = Run()
    run.reflector.ask()
    run.receive(line("ADDED", "a", 3))
    assert run.end(error) == 0.0
    assert run.reflector.ask() == NextRequest(Mode.LIST)
    listing = Listing()
    listing.objects["b"] = Pod(metadata=ObjectMeta(name="b", resource_version="5"))
    for _ in run.reflector.listed(listing, "30"):
        pass
    assert run.end(None) == 0.0, "a list that is done is no failure, however short"
    assert run.names == {"b"}
    assert run.ask() == (Mode.WATCH, "30")


@pytest.mark.parametrize("error", [CUT, REFUSED, ILL, SLOW])
def test_a_stream_that_breaks_three_times_gives_way_to_pages(error: SchedulerError) -> None:
    run = Run()
    for _ in range(3):
        assert run.ask() == (Mode.STREAM, None)
        assert run.end(error) > 0
    assert run.ask() == (Mode.LIST, None)
    assert run.end(error) > 0
    assert run.ask() == (Mode.STREAM, None), "and is tried again"


# -- a watch that ends ----------------------------------------------------------------------------


def test_a_watch_goes_on_where_the_last_one_was() -> None:
    run = Run.watching(version=10)
    ask = run.reflector.ask()
    query = dict(ask.query)
    assert query.pop("timeoutSeconds").isdigit()
    assert (ask.mode, ask.idle_s) == (Mode.WATCH, WATCH_IDLE_S)
    assert query == {"watch": "1", "allowWatchBookmarks": "true", "resourceVersion": "10"}
    run.receive(line("ADDED", "a", 11), bookmark(19))
    assert run.end(None, lasted_s=400) == 0.0
    assert run.ask() == (Mode.WATCH, "19")


def test_a_watch_that_is_cut_in_the_middle_is_taken_up_at_once() -> None:
    run = Run.watching()
    run.reflector.ask()
    run.receive(line("ADDED", "a", 11))
    assert run.end(CUT) == 0.0
    assert run.ask() == (Mode.WATCH, "11")


@pytest.mark.parametrize("error", [None, CUT])
def test_a_watch_that_ends_at_once_makes_us_wait_and_say_so(
    error: SchedulerError | None, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run.watching()
    run.reflector.ask()
    with caplog.at_level(logging.WARNING):
        assert 0.8 <= run.end(error, lasted_s=0.9) < 1.6
    assert "without an event" in caplog.text
    assert run.ask() == (Mode.WATCH, "10")
    assert run.end(error, lasted_s=1.0) == 0.0


@pytest.mark.parametrize("error", [SLOW, ILL])
def test_a_watch_that_fails_at_first_is_asked_for_again_later(error: SchedulerError) -> None:
    run = Run.watching()
    run.reflector.ask()
    wait_s = run.end(error)
    assert wait_s >= 0.8
    if error is SLOW:
        assert wait_s == 77.0, "as long as the server asks"
    assert run.ask() == (Mode.WATCH, "10")
    assert run.reflector.last_error is error
    run.receive(line("ADDED", "a", 11))
    run.end(None, lasted_s=2)
    assert run.reflector.last_error is None


def test_waits_grow_while_the_server_is_away() -> None:
    run = Run.watching()
    waits_s = []
    for _ in range(8):
        run.reflector.ask()
        waits_s.append(run.end(REFUSED))
    for wait_s, base_s in zip(waits_s, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30], strict=True):
        assert base_s <= wait_s < 2 * base_s


def test_a_watch_that_fails_inside_the_server_three_times_is_followed_by_a_list() -> None:
    run = Run.watching()
    for _ in range(3):
        assert run.ask() == (Mode.WATCH, "10")
        run.end(ILL)
    assert run.ask() == (Mode.STREAM, "10")


def test_failures_count_only_in_a_row() -> None:
    run = Run.watching()
    for version in range(11, 20):
        assert run.ask()[0] is Mode.WATCH
        run.receive(line("ADDED", f"a{version}", version))
        run.end(ILL)
    assert run.ask() == (Mode.WATCH, "19")


def test_a_version_that_the_server_does_not_understand_is_followed_by_a_list() -> None:
    run = Run.watching()
    run.reflector.ask()
    assert run.end(BadRequest("invalid resource version", status=400)) > 0
    assert run.ask()[0] is Mode.STREAM


@pytest.mark.parametrize(
    "error", [REFUSED, Forbidden("no", status=403), Unauthorized("who?", status=401)]
)
def test_a_watch_without_a_server_or_a_right_is_followed_by_a_list(error: SchedulerError) -> None:
    run = Run.watching()
    run.reflector.ask()
    assert run.end(error) >= 0.8
    assert run.ask() == (Mode.STREAM, "10")
    assert run.reflector.last_error is error
    run.receive(line("ADDED", "a", 12), end_of_list(12))
    assert run.end(None, lasted_s=400) == 0.0
    assert run.ask() == (Mode.WATCH, "12")


# -- a version that is lost -----------------------------------------------------------------------


def test_one_list_follows_one_410() -> None:
    run = Run.watching(version=10)
    run.reflector.ask()
    assert run.end(EXPIRED) == 0.0
    assert run.ask() == (Mode.STREAM, "10"), "not older than what we have"
    run.receive(line("ADDED", "b", 44), end_of_list(50))
    assert run.reflector.replica.statistics.lists == 2
    run.end(None, lasted_s=300)
    assert run.ask() == (Mode.WATCH, "50")


def test_a_server_that_loses_each_version_at_once_is_not_stormed_with_lists() -> None:
    run = Run.watching()
    waits_s = []
    for version in range(11, 16):
        run.ask()
        waits_s.append(run.end(EXPIRED))
        assert run.ask()[0] is Mode.STREAM
        run.receive(end_of_list(version))
        run.end(CUT)
    assert waits_s[0] == 0.0
    assert all(wait_s > 0.5 for wait_s in waits_s[1:])


def test_a_410_after_a_watch_that_reported_a_change_is_followed_by_a_list_at_once() -> None:
    run = Run.watching()
    for version in (11, 21):
        run.ask()
        run.receive(line("ADDED", "web", version))
        assert run.end(EXPIRED) == 0.0
        run.ask()
        run.receive(end_of_list(version + 5))
        run.end(CUT)


def test_a_410_in_the_stream_ends_it() -> None:
    run = Run.watching()
    run.reflector.ask()
    error = {"type": "ERROR", "object": {"code": 410, "reason": "Expired"}}
    with pytest.raises(Gone) as gone:
        run.receive(line("ADDED", "a", 11), json.dumps(error).encode(), line("ADDED", "b", 12))
    assert run.names == {"a"}
    assert run.end(gone.value) == 0.0
    assert run.ask() == (Mode.STREAM, "11")


def test_a_list_whose_version_is_lost_too_takes_the_newest() -> None:
    run = Run.watching(version=10)
    run.reflector.ask()
    run.end(EXPIRED)
    run.reflector.ask()
    assert run.end(EXPIRED) == 0.0
    assert run.ask() == (Mode.STREAM, None)
    assert run.end(EXPIRED) > 0, "that cannot be: do not hurry"
    assert run.ask() == (Mode.STREAM, None)


def test_a_server_that_is_behind_is_given_time_and_then_believed() -> None:
    run = Run.watching(version=10)
    run.reflector.ask()
    assert run.end(AHEAD) >= 1.0
    assert run.ask() == (Mode.STREAM, "10")
    run.end(AHEAD)
    assert run.ask() == (Mode.STREAM, None)
    run.receive(line("ADDED", "a", 4), end_of_list(5))
    assert run.reflector.replica.version == "5"
    run.end(None, lasted_s=300)
    assert run.ask() == (Mode.WATCH, "5")


def test_pages_that_take_too_long_are_asked_for_as_one() -> None:
    run = Run()
    run.reflector.ask()
    run.end(None)
    assert run.reflector.ask().page_size == 500
    assert run.end(EXPIRED) == 0.0
    assert run.reflector.ask() == NextRequest(Mode.LIST, page_size=0)
    assert run.end(EXPIRED) > 0
    assert run.reflector.ask() == NextRequest(Mode.LIST, page_size=0)


# -- what cannot be read --------------------------------------------------------------------------


def test_an_object_that_cannot_be_read_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run = Run.watching()
    run.reflector.ask()
    with caplog.at_level(logging.WARNING):
        run.receive(line("ADDED", "a", 11).replace(b'"metadata"', b'"spec": 7, "metadata"'))
    [record] = caplog.records
    assert record.__dict__["key"] == "a"
    assert run.reflector.replica.statistics.malformed == 1
    assert run.reflector.replica.version == "11"


def test_a_line_that_makes_no_sense_breaks_the_watch_and_not_what_came_before() -> None:
    run = Run.watching()
    run.reflector.ask()
    with pytest.raises(StreamBroken) as broken:
        run.receive(line("ADDED", "a", 11), b"<html>")
    assert 0.8 <= run.end(broken.value) < 1.6
    assert run.names == {"a"}
    assert run.ask() == (Mode.STREAM, "11"), "it would stand there again"


def test_a_server_that_repeats_itself_and_hangs_up_is_not_asked_at_once() -> None:
    run = Run.watching()
    waits_s = []
    for _ in range(3):
        assert run.ask() == (Mode.WATCH, "10")
        run.receive(line("ADDED", "a", 9), bookmark(10))
        waits_s.append(run.end(CUT))
    assert waits_s[0] >= 0.8
    assert waits_s == sorted(waits_s)


def test_an_error_is_over_as_soon_as_a_request_is_accepted() -> None:
    run = Run.watching()
    run.ask()
    run.end(REFUSED)
    assert run.reflector.last_error is REFUSED
    run.ask()
    assert run.reflector.last_error is REFUSED
    run.reflector.accepted()
    assert run.reflector.last_error is None
