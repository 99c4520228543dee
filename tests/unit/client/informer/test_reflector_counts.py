"""A reflector counts failures and remembers objects between requests, and forgets them in time."""

from __future__ import annotations

import pytest

from mooring.client.informer.reflector import PAGE_SIZE, Listing, Mode
from mooring.errors import SchedulerError
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


@pytest.mark.parametrize("error", [REFUSED, SLOW])
def test_a_server_that_cannot_be_reached_or_is_busy_causes_no_list(error: SchedulerError) -> None:
    run = Run.watching()
    for _ in range(20):
        assert run.ask() == (Mode.WATCH, "10")
        run.end(error)
    assert run.ask() == (Mode.WATCH, "10")


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
