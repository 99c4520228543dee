"""A reflector counts failures and remembers objects between requests, and forgets them in time."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from mooring.client.informer.reflector import PAGE_SIZE, Listing, Mode
from mooring.errors import ServerError
from mooring.objects import ObjectMeta, Pod
from tests.unit.client.informer.test_reflector import (
    CUT,
    EXPIRED,
    ILL,
    REFUSED,
    SLOW,
    Run,
    bookmark,
    end_of_list,
    line,
)


def unreadable(kind: str, name: str, version: int) -> bytes:
    """Returns an event whose object cannot be decoded."""
    return line(kind, name, version).replace(b'"kind": "Pod"', b'"kind": "Pod", "spec": 7')


def pods(*names: str) -> Listing:
    """Returns a complete list."""
    listing = Listing()
    for name in names:
        metadata = ObjectMeta(name=name, uid=name, resource_version="9")
        listing.objects[name] = Pod(metadata=metadata)
    return listing


def listed(run: Run, listing: Listing, version: str) -> None:
    """Ends a list by pages."""
    for _ in run.reflector.listed(listing, version):
        pass


def expired(run: Run) -> None:
    """Ends a watch with 410."""
    assert run.ask()[0] is Mode.WATCH
    run.end(EXPIRED)


# -- how old the replica may be -------------------------------------------------------------------


@pytest.mark.parametrize("is_stream", [True, False])
def test_a_list_is_as_fresh_as_its_request(is_stream: bool) -> None:
    run = Run()
    run.clock.advance(100.0)
    requested_s = run.clock.monotonic_s()
    assert run.reflector.fresh_at_s == -math.inf
    run.ask()
    if not is_stream:
        run.end(None)
        run.clock.advance(20.0)
        requested_s = run.clock.monotonic_s()
        assert run.ask()[0] is Mode.LIST
    run.clock.advance(7.0)
    run.receive(line("ADDED", "a", 3)) if is_stream else None
    assert run.reflector.fresh_at_s == -math.inf
    run.clock.advance(1.0)
    run.receive(end_of_list(9)) if is_stream else listed(run, pods("a"), "9")

    assert run.reflector.fresh_at_s == requested_s


def test_each_event_of_a_watch_makes_it_fresh_and_nothing_else_does() -> None:
    run = Run.watching()
    listed_s = run.reflector.fresh_at_s
    run.clock.advance(10.0)
    run.ask()
    run.reflector.accepted()
    run.receive(b"")
    run.receive()
    assert run.reflector.fresh_at_s == listed_s
    for event in (bookmark(11), line("ADDED", "a", 12), line("DELETED", "a", 13)):
        run.clock.advance(10.0)
        run.receive(event)
        assert run.reflector.fresh_at_s == run.clock.monotonic_s()
    last_s = run.reflector.fresh_at_s
    run.end(CUT, lasted_s=5.0)
    run.ask()
    assert run.reflector.fresh_at_s == last_s


def test_events_after_the_list_of_a_stream_make_it_fresh() -> None:
    run = Run()
    run.ask()
    run.clock.advance(5.0)
    run.receive(end_of_list(9), line("ADDED", "a", 10))
    assert run.reflector.fresh_at_s == run.clock.monotonic_s()


def test_the_replica_is_followed_while_a_watch_or_a_stream_behind_its_list_is_open() -> None:
    run = Run()

    def after(*steps: Callable[[], object]) -> list[bool]:
        following = []
        for step in steps:
            step()
            following.append(run.reflector.is_following)
        return following

    assert not run.reflector.is_following
    accepted = run.reflector.accepted
    stream = after(run.ask, accepted, lambda: run.receive(end_of_list(9)), lambda: run.end(CUT))
    assert stream == [False, False, True, False]
    watch = after(run.ask, accepted, lambda: run.receive(bookmark(10)), run.reflector.relist)
    assert watch == [False, True, True, False]
    run.end(None, lasted_s=10.0)
    assert after(run.ask, accepted, lambda: run.end(None)) == [False] * 3  # not supported: pages
    assert run.ask()[0] is Mode.LIST
    pages = after(accepted, lambda: listed(run, pods("a"), "20"), lambda: run.end(None))
    assert pages == [False] * 3


def test_a_relist_asks_for_the_newest_state_whatever_was_in_flight() -> None:
    run = Run.watching()
    assert run.ask() == (Mode.WATCH, "10")
    run.reflector.relist()
    assert run.ask() == (Mode.STREAM, None)
    assert (run.names, run.reflector.has_synced) == (set(), True)
    run.receive(end_of_list(12))
    run.end(CUT, lasted_s=10.0)
    assert run.ask() == (Mode.WATCH, "12")


# -- objects that cannot be decoded ---------------------------------------------------------------


def test_an_object_that_becomes_readable_in_the_initial_events_is_new() -> None:
    run = Run()
    run.reflector.ask()

    run.receive(unreadable("ADDED", "a", 3), line("MODIFIED", "a", 4), end_of_list(5))

    assert run.names == {"a"}
    assert run.reflector.replica.statistics.malformed == 0


def test_an_unreadable_object_that_is_deleted_during_the_list_is_not_kept() -> None:
    run = Run.watching()
    run.ask()
    run.receive(line("ADDED", "a", 11))
    run.end(EXPIRED)
    run.ask()

    run.receive(unreadable("ADDED", "a", 12), line("DELETED", "a", 13), end_of_list(14))

    assert run.names == set()


def test_an_empty_line_ends_nothing() -> None:
    run = Run.watching()
    run.ask()

    run.receive(b"", line("ADDED", "a", 11), b"", line("ADDED", "b", 12))

    assert run.names == {"a", "b"}


def test_each_change_is_one_event_and_a_bookmark_is_none() -> None:
    run = Run.watching()
    run.ask()
    run.receive(
        line("ADDED", "a", 11),
        line("MODIFIED", "a", 12),
        bookmark(13),
        line("DELETED", "a", 14),
        line("DELETED", "a", 14),
        bookmark(14),
    )

    statistics = run.reflector.replica.statistics
    assert (statistics.events, statistics.duplicates, statistics.unknown_types) == (3, 1, 0)
    assert run.reflector.replica.version == "14"


# -- lists by pages -------------------------------------------------------------------------------


def by_pages() -> Run:
    """Returns a reflector that lists by pages: the server does not stream lists."""
    run = Run()
    run.ask()
    run.end(None)
    assert run.ask()[0] is Mode.LIST
    return run


def page_size(run: Run) -> int:
    """Returns the page size of the next request, a list."""
    request = run.reflector.ask()
    assert request.mode is Mode.LIST
    return request.page_size


def test_a_410_of_a_stream_does_not_make_the_next_list_unpaged() -> None:
    run = Run.watching()
    expired(run)
    assert run.ask()[0] is Mode.STREAM
    run.end(EXPIRED)
    assert run.ask()[0] is Mode.STREAM
    run.end(None)

    assert page_size(run) == PAGE_SIZE


def test_after_a_list_without_pages_the_next_one_has_pages_again() -> None:
    run = by_pages()
    run.end(EXPIRED)
    assert page_size(run) == 0
    listed(run, pods("a"), "20")
    run.end(None)

    expired(run)
    assert run.ask()[0] is Mode.STREAM
    run.end(None)
    assert page_size(run) == PAGE_SIZE


def test_a_list_that_brings_nothing_new_is_followed_by_a_watch_at_once() -> None:
    run = by_pages()
    listed(run, pods("a"), "20")
    assert run.end(None) == 0.0
    expired(run)
    run.ask()
    run.end(None)
    assert run.ask()[0] is Mode.LIST

    # As before: the history of the server was dropped, its objects are the same.
    listed(run, pods("a"), "20")

    assert run.end(None) == 0.0
    assert run.ask() == (Mode.WATCH, "20")


# -- failures in a row ----------------------------------------------------------------------------


def test_streams_that_broke_before_the_last_list_do_not_count() -> None:
    run = Run()
    for _ in range(2):
        run.ask()
        run.end(CUT)
    run.ask()
    run.receive(end_of_list(10))
    run.end(None, lasted_s=300)
    expired(run)

    modes = []
    for _ in range(3):
        modes.append(run.ask()[0])
        run.end(CUT)

    assert modes == [Mode.STREAM] * 3
    assert run.ask()[0] is Mode.LIST


def test_streams_that_broke_before_a_failed_list_do_not_count() -> None:
    run = Run()
    for _ in range(3):
        assert run.ask()[0] is Mode.STREAM
        run.end(CUT)
    assert run.ask()[0] is Mode.LIST
    run.end(ILL)

    modes = []
    for _ in range(3):
        modes.append(run.ask()[0])
        run.end(CUT)

    assert modes == [Mode.STREAM] * 3


def test_a_server_that_is_busy_causes_no_list() -> None:
    run = Run.watching()
    for _ in range(20):
        assert run.ask() == (Mode.WATCH, "10")
        run.end(SLOW)
    assert run.ask() == (Mode.WATCH, "10")


def test_a_server_that_was_away_may_be_an_older_one() -> None:
    run = Run.watching()
    assert run.ask() == (Mode.WATCH, "10")
    assert run.end(REFUSED) >= 0.8
    assert run.ask() == (Mode.STREAM, "10")
    run.end(ServerError("Too large resource version: 10, current: 7", status=504))
    assert run.ask() == (Mode.STREAM, None)
    run.receive(line("ADDED", "a", 3), end_of_list(7))
    run.end(None, lasted_s=300)
    assert run.ask() == (Mode.WATCH, "7")


def test_a_part_of_a_list_shows_that_a_server_is_not_older() -> None:
    run = Run.watching()
    run.ask()
    run.end(REFUSED)
    assert run.ask() == (Mode.STREAM, "10")
    run.end(CUT)
    assert run.ask() == (Mode.STREAM, "10"), "nothing is known yet"
    run.receive(line("ADDED", "b", 4))
    run.end(CUT)
    assert run.ask() == (Mode.WATCH, "10"), "a list might never come through"
    run.receive(line("ADDED", "a", 11))
    run.end(CUT)
    assert run.ask() == (Mode.WATCH, "11")


def test_a_list_that_is_needed_is_asked_for_until_it_is_complete() -> None:
    run = Run.watching()
    run.reflector.relist()
    for _ in range(2):
        assert run.ask() == (Mode.STREAM, None)
        run.receive(line("ADDED", "b", 4))
        run.end(CUT)
    assert run.ask() == (Mode.STREAM, None)


def test_failed_watches_before_a_list_do_not_count_after_it() -> None:
    run = Run.watching()
    for _ in range(3):
        run.ask()
        run.end(ILL)
    assert run.ask()[0] is Mode.STREAM
    # A list without any change: the version is that of before.
    run.receive(end_of_list(10))
    run.end(None, lasted_s=300)

    assert run.ask()[0] is Mode.WATCH
    run.end(ILL)

    assert run.ask() == (Mode.WATCH, "10")
