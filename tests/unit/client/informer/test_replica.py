"""One replica: what it keeps and what it tells, for each order of news."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.client.informer.replica import SLICE, ObjectChange, Replica, is_position, number_of
from mooring.client.informer.watch_events import WatchEvent
from mooring.errors import ConfigError
from mooring.objects import ObjectMeta, Pod


def pod(name: str, version: int, uid: str = "u1") -> Pod:
    metadata = ObjectMeta(name=name, namespace="shop", uid=uid, resource_version=str(version))
    return Pod(metadata=metadata)


def event(kind: str, name: str, version: int, uid: str = "u1") -> WatchEvent:
    return WatchEvent(kind, f"shop/{name}", uid, str(version), pod(name, version, uid))


def broken(kind: str, name: str, version: int, uid: str = "u1") -> WatchEvent:
    return WatchEvent(kind, f"shop/{name}", uid, str(version), None, ConfigError("odd"))


class Told:
    """A replica, and the changes that it reported, as short texts."""

    def __init__(self, *listed: Pod, version: str = "10") -> None:
        self.changes: list[ObjectChange] = []
        self.replica = Replica(self.changes.append)
        self.take_list(*listed, version=version)
        self.changes.clear()

    def take_list(self, *pods: Pod, version: str, unreadable: dict[str, str] | None = None) -> int:
        """Applies a list; returns the number of pauses."""
        objects = {f"shop/{pod.metadata.name}": pod for pod in pods}
        return len(list(self.replica.replacing(objects, unreadable or {}, version)))

    def apply(self, *events: WatchEvent) -> None:
        for one in events:
            self.replica.apply(one)

    @property
    def texts(self) -> list[str]:
        return [f"{name(change.old)}->{name(change.new)}" for change in self.changes]

    @property
    def versions(self) -> dict[str, str]:
        found: dict[str, Any] = self.replica.objects
        return {key: obj.metadata.resource_version for key, obj in found.items()}


def name(obj: Any) -> str:
    if obj is None:
        return ""
    return f"{obj.metadata.name}.{obj.metadata.uid}@{obj.metadata.resource_version}"


def test_an_object_comes_changes_and_goes() -> None:
    told = Told()
    told.apply(event("ADDED", "a", 11), event("MODIFIED", "a", 12), event("DELETED", "a", 13))
    assert told.texts == ["->a.u1@11", "a.u1@11->a.u1@12", "a.u1@12->"]
    assert told.replica.objects == {}
    assert told.replica.version == "13"


def test_what_goes_is_reported_with_what_it_was_at_the_end() -> None:
    told = Told(pod("a", 5))
    told.apply(event("DELETED", "a", 11))
    [change] = told.changes
    assert change.last.metadata.resource_version == "11"
    assert change.old.metadata.resource_version == "5"


def test_handlers_find_the_replica_up_to_date() -> None:
    sizes: list[int] = []
    replica = Replica(lambda _: sizes.append(len(replica.objects)))
    list(replica.replacing({"shop/a": pod("a", 1)}, {}, "1"))
    replica.apply(event("DELETED", "a", 2))
    assert sizes == [1, 0]


def test_what_is_known_is_reported_once() -> None:
    told = Told(pod("a", 5), version="10")
    told.apply(event("MODIFIED", "a", 11), event("MODIFIED", "a", 11), event("MODIFIED", "a", 9))
    assert told.texts == ["a.u1@5->a.u1@11"]
    assert told.replica.statistics.duplicates == 2


def test_an_old_event_brings_nobody_back() -> None:
    told = Told(version="10")
    told.apply(event("ADDED", "gone", 7), event("DELETED", "gone", 8))
    assert told.texts == []


def test_another_object_of_the_name_is_an_end_and_a_beginning() -> None:
    told = Told(pod("a", 5, "u1"))
    told.apply(event("ADDED", "a", 12, "u2"))
    assert told.texts == ["a.u1@5->", "->a.u2@12"]
    assert told.changes[0].last is None
    assert told.replica.statistics.missed_deletes == 1


def test_the_end_of_an_object_that_we_never_saw_ends_the_one_of_its_name() -> None:
    told = Told(pod("a", 5, "u1"))
    told.apply(event("DELETED", "a", 12, "u2"))
    assert told.texts == ["a.u1@5->"]
    assert told.changes[0].last is None


def test_the_end_of_somebody_unknown_is_no_news() -> None:
    told = Told()
    told.apply(event("DELETED", "a", 12))
    assert told.texts == []
    assert told.replica.version == "12"


def test_a_bookmark_moves_the_position_only_forward() -> None:
    told = Told(version="10")
    told.apply(WatchEvent("BOOKMARK", "", "", "20"), WatchEvent("BOOKMARK", "", "", "15"))
    assert told.replica.version == "20"
    assert told.texts == []
    assert told.replica.statistics.events == 0


def test_an_unknown_type_is_counted_and_passed_over() -> None:
    told = Told(pod("a", 5))
    told.apply(event("TOUCHED", "a", 12))
    assert (told.texts, told.replica.version) == ([], "12")
    assert told.replica.statistics.unknown_types == 1


def test_an_object_that_cannot_be_read_stays_as_it_was() -> None:
    told = Told(pod("a", 5))
    told.apply(broken("MODIFIED", "a", 12))
    assert (told.texts, told.versions, told.replica.version) == ([], {"shop/a": "5"}, "12")
    told.apply(event("MODIFIED", "a", 13))
    assert told.texts == ["a.u1@5->a.u1@13"]
    assert told.replica.statistics.malformed == 1


def test_another_object_that_cannot_be_read_ends_the_old_one() -> None:
    told = Told(pod("a", 5))
    told.apply(broken("ADDED", "a", 12, "u2"))
    assert told.texts == ["a.u1@5->"]
    assert told.changes[0].last is None
    statistics = told.replica.statistics
    assert (statistics.missed_deletes, statistics.malformed, statistics.events) == (1, 1, 1)


def test_an_object_without_a_uid_that_cannot_be_read_may_be_the_same() -> None:
    told = Told(pod("a", 5))
    told.apply(broken("MODIFIED", "a", 12, ""), broken("ADDED", "b", 13, "u2"))
    assert (told.texts, told.versions) == ([], {"shop/a": "5"})
    assert told.replica.statistics.missed_deletes == 0


def test_before_a_list_an_event_without_a_version_counts() -> None:
    changes: list[ObjectChange] = []
    replica = Replica(changes.append)
    replica.apply(WatchEvent("ADDED", "shop/a", "u1", "", pod("a", 3)))
    assert [change.new.metadata.name for change in changes] == ["a"]
    assert (replica.version, replica.statistics.duplicates) == ("", 0)
    replica.apply(event("ADDED", "b", 4))
    assert replica.version == "4"


def test_known_bookmarks_are_no_duplicates() -> None:
    told = Told(version="10")
    told.apply(WatchEvent("BOOKMARK", "", "", "10"), event("ADDED", "a", 9))
    assert told.replica.statistics.duplicates == 1


@pytest.mark.parametrize(
    ("version", "expected"),
    [("", False), ("0", False), ("00", False), ("1", True), ("10", True), ("abc", True)],
)
def test_a_watch_may_begin_at_any_version_but_none_and_zero(version: str, expected: bool) -> None:
    assert is_position(version) is expected
    told = Told(version="5")
    told.replica.version, told.replica._number = "odd", None  # one that is compared with none
    told.apply(WatchEvent("BOOKMARK", "", "", version))
    assert told.replica.version == (version if expected else "odd")


def test_the_end_of_what_cannot_be_read_is_an_end() -> None:
    told = Told(pod("a", 5))
    told.apply(broken("DELETED", "a", 12))
    assert told.texts == ["a.u1@5->"]


def test_an_event_without_a_version_counts_and_moves_nothing() -> None:
    told = Told(pod("a", 5), version="10")
    told.apply(WatchEvent("ADDED", "shop/b", "u2", "", pod("b", 3, "u2")))
    assert told.replica.version == "10"
    assert told.texts == ["->b.u2@3"]


def test_versions_that_are_no_numbers_are_only_compared_for_equality() -> None:
    told = Told(version="abc")
    told.apply(WatchEvent("ADDED", "shop/a", "u1", "abc", pod("a", 1)))
    told.apply(WatchEvent("ADDED", "shop/b", "u2", "abd", pod("b", 1, "u2")))
    assert told.texts == ["->b.u2@1"]
    assert told.replica.version == "abd"


def test_a_list_tells_the_difference_and_nothing_else() -> None:
    told = Told(pod("same", 1), pod("changed", 2), pod("gone", 3), pod("other", 4, "u1"))
    told.take_list(
        pod("new", 15), pod("same", 1), pod("changed", 12), pod("other", 14, "u2"), version="20"
    )
    assert told.texts == [
        "->new.u1@15",
        "changed.u1@2->changed.u1@12",
        "other.u1@4->",
        "->other.u2@14",
        "gone.u1@3->",
    ]
    assert all(change.last is None for change in told.changes)
    assert told.replica.statistics.missed_deletes == 2
    assert told.replica.version == "20"


def test_a_list_keeps_what_is_there_and_cannot_be_read() -> None:
    told = Told(pod("kept", 1), pod("replaced", 2))
    told.take_list(version="20", unreadable={"shop/kept": "u1", "shop/replaced": "u9"})
    assert told.texts == ["replaced.u1@2->"]
    assert told.versions == {"shop/kept": "1"}
    assert told.replica.statistics.malformed == 2


def test_a_list_may_go_back_in_time_when_the_server_does() -> None:
    told = Told(pod("a", 50), version="100")
    told.take_list(pod("a", 40), version="60")
    assert told.texts == ["a.u1@50->a.u1@40"]
    told.apply(event("MODIFIED", "a", 61))
    assert told.versions == {"shop/a": "61"}


@pytest.mark.parametrize(("count", "pauses"), [(0, 0), (SLICE - 1, 0), (SLICE, 1), (5 * SLICE, 5)])
def test_a_long_list_is_reported_in_slices(count: int, pauses: int) -> None:
    told = Told()
    pods = [pod(f"p{number}", number, f"u{number}") for number in range(1, count + 1)]
    assert told.take_list(*pods, version="9999") == pauses
    assert len(told.changes) == count
    assert told.take_list(version="10000") == pauses, "so are those that are gone"
    assert told.replica.objects == {}


def test_the_position_moves_at_the_end_of_a_list_only() -> None:
    told = Told(version="10")
    pods = {f"shop/p{number}": pod(f"p{number}", number) for number in range(1, SLICE + 1)}
    slices = told.replica.replacing(pods, {}, "500")
    next(slices)
    assert told.replica.version == "10"
    assert list(slices) == []
    assert told.replica.version == "500"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("7", 7), ("", None), ("7a", None), ("-7", None), ("\u0667", None)),
        *(("1" * 64, int("1" * 64)), ("1" * 65, None), ("1" * 5000, None)),
    ],
)
def test_versions_as_numbers(text: str, expected: int | None) -> None:
    assert number_of(text) == expected
