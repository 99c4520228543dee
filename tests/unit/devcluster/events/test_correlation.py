"""Events that are counted, combined and limited, as by client-go's event correlator.

The numbers are those of client-go's tools/record/events_cache.go.
"""

from __future__ import annotations

from mooring.devcluster.events.correlation import (
    BURST,
    COMBINED,
    ENTRIES_MAX,
    REFILL_S,
    SIMILAR_S,
    Correlator,
    NewEvent,
    Observation,
    Reference,
)

WEB = Reference("apps/v1", "ReplicaSet", "default", "web", "u1")


def created(number: int, regarding: Reference = WEB) -> NewEvent:
    text = f"Created pod: web-{number}"
    return NewEvent("replicaset-controller", "", regarding, "Normal", "SuccessfulCreate", text)


def observe(correlator: Correlator, number: int, now_s: float = 0.0) -> Observation | None:
    return correlator.observe(created(number), f"web.{number}", now_s)


def test_an_equal_event_is_counted() -> None:
    correlator = Correlator()
    first, second = observe(correlator, 1, 5.0), observe(correlator, 1, 6.0)
    assert first == Observation("web.1", "Created pod: web-1", 1, 5.0, is_combined=False)
    assert second == Observation("web.1", "Created pod: web-1", 2, 5.0, is_combined=False)


def test_the_version_of_the_object_does_not_count() -> None:
    correlator = Correlator()
    correlator.observe(created(1), "a", 0.0)
    later = correlator.observe(created(1, WEB._replace(version="9")), "b", 0.0)
    assert later is not None
    assert (later.name, later.times) == ("a", 2)


def test_ten_similar_events_are_one_from_the_tenth_on() -> None:
    correlator = Correlator()
    results = [observe(correlator, number) for number in range(12)]
    names = [result.name for result in results if result is not None]
    assert names == [*(f"web.{number}" for number in range(10)), "web.9", "web.9"]
    last = results[-1]
    assert last == Observation("web.9", f"{COMBINED}Created pod: web-11", 3, 0.0, is_combined=True)


def test_similar_events_are_apart_again_after_ten_quiet_minutes() -> None:
    correlator = Correlator()
    for number in range(12):
        observe(correlator, number)
    later = observe(correlator, 12, SIMILAR_S + 1)
    assert later is not None
    assert not later.is_combined


def test_the_26th_event_about_an_object_is_dropped_until_five_minutes_later() -> None:
    correlator = Correlator()
    results = [observe(correlator, number) for number in range(BURST + 5)]
    assert [result is not None for result in results] == [True] * BURST + [False] * 5
    assert observe(correlator, 90, REFILL_S - 1) is None
    later = observe(correlator, 91, REFILL_S)
    assert later is not None
    # Those that were dropped are counted.
    assert later.times == BURST + 5 - 9 + 2
    other = correlator.observe(created(1, WEB._replace(name="api", uid="u2")), "api.1", 0.0)
    assert other is not None


def test_warnings_have_a_limit_of_their_own() -> None:
    correlator = Correlator()
    for number in range(BURST):
        observe(correlator, number)
    warning = created(1)._replace(type="Warning", reason="FailedCreate")
    assert correlator.observe(warning, "w", 0.0) is not None


def test_the_oldest_entry_is_forgotten() -> None:
    correlator = Correlator()
    objects = [WEB._replace(name=f"web-{number}") for number in range(ENTRIES_MAX + 1)]
    for regarding in objects:
        correlator.observe(created(1, regarding), "a", 0.0)

    again = [correlator.observe(created(1, objects[at]), "b", 0.0) for at in (-1, 0)]

    assert [event and event.times for event in again] == [2, 1]
