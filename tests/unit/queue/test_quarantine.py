"""Poison pods: quarantined with growing backoff, reported, and no hindrance to other pods."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import PluginError, SchedulerError
from mooring.queue import QueuedPod, QueueName
from mooring.queue.quarantine import (
    FAILURES_MAX,
    PODS_MAX,
    PODS_MIN,
    QUARANTINE_S,
    QUARANTINE_S_MAX,
    Quarantine,
    is_edited,
)
from mooring.state import PodInfo
from mooring.testing import make_pod
from tests.helpers.queues import NODE_ADD, Bench, Refuser, on


def raised(plugin: str = "Score", cause: Exception | None = None) -> PluginError:
    """Returns the error of a plugin that raised."""
    try:
        try:
            raise cause or ValueError("no")
        except Exception as error:
            raise PluginError(plugin, "Filter", "no") from error
    except PluginError as error:
        return error


def queued(name: str = "poison") -> QueuedPod:
    return QueuedPod(PodInfo(make_pod(name)), 0.0)


def test_the_third_exception_of_a_plugin_in_a_row_quarantines_and_each_more_doubles() -> None:
    quarantine, entry = Quarantine(), queued()

    lengths = []
    for _ in range(9):
        entry.quarantine_s = 0.0
        quarantine.failed(entry, raised())
        lengths.append(entry.quarantine_s)

    first = [0.0] * (FAILURES_MAX - 1)
    assert lengths == [*first, 300, 600, 1200, 2400, 3600, 3600, 3600]
    assert lengths[FAILURES_MAX - 1] == QUARANTINE_S
    assert max(lengths) == QUARANTINE_S_MAX
    assert quarantine.counts == {"Score": 7}


@pytest.mark.parametrize(
    "between",
    [
        None,
        SchedulerError("the API server said no"),
        PluginError("Score", "Filter", "a Status with the code Error"),
        raised("Other"),
        raised(cause=TimeoutError("slow network")),
        raised(cause=SchedulerError("provisioning failed")),
    ],
)
def test_any_other_end_of_an_attempt_starts_the_count_again(between: SchedulerError | None) -> None:
    quarantine, entry = Quarantine(), queued()

    outcomes = [
        quarantine.failed(entry, error)
        for error in [raised(), raised(), between, raised(), raised()]
    ]

    assert not any(outcomes)
    assert quarantine.failed(entry, raised())


def test_a_plugin_that_raises_at_most_pods_is_broken() -> None:
    quarantine = Quarantine()
    for number in range(2 * PODS_MIN):
        entry = queued(f"pod-{number}")
        quarantine.attempted(entry.uid)
        if number % 2:
            quarantine.failed(entry, raised())
    assert quarantine.broken_plugin() is None

    last = queued("last")
    quarantine.attempted(last.uid)
    quarantine.failed(last, raised())

    assert quarantine.broken_plugin() == 'plugin "Score" raises at 11 of the last 21 pods'
    for number in range(20):
        quarantine.attempted(queued(f"sound-{number}").uid)
    assert quarantine.broken_plugin() is None


def test_one_pod_that_fails_again_and_again_does_not_make_a_plugin_broken() -> None:
    quarantine, entry = Quarantine(), queued()
    for _ in range(100):
        quarantine.attempted(entry.uid)
        quarantine.failed(entry, raised())

    assert quarantine.broken_plugin() is None


def test_fewer_attempts_than_the_least_prove_nothing_about_a_plugin() -> None:
    quarantine = Quarantine()
    for number in range(PODS_MIN):
        assert quarantine.broken_plugin() is None
        entry = queued(f"pod-{number}")
        quarantine.attempted(entry.uid)
        quarantine.failed(entry, raised())

    assert quarantine.broken_plugin() == 'plugin "Score" raises at 10 of the last 10 pods'


def test_the_plugin_that_raises_most_is_the_broken_one() -> None:
    quarantine = Quarantine()
    for number in range(PODS_MIN):
        entry = queued(f"pod-{number}")
        quarantine.attempted(entry.uid)
        quarantine.failed(entry, raised("Rare" if number < 2 else "Frequent"))

    assert quarantine.broken_plugin() == 'plugin "Frequent" raises at 8 of the last 10 pods'


def test_a_pod_that_is_attempted_again_is_among_the_last() -> None:
    quarantine, again = Quarantine(), queued("again")
    quarantine.attempted(again.uid)
    for number in range(PODS_MAX - 1):
        quarantine.attempted(f"uid-{number}")
    quarantine.attempted(again.uid)
    quarantine.failed(again, raised())
    # Now the first of the others is the oldest, and goes.
    for number in range(PODS_MAX // 2 + 1):
        other = queued(f"late-{number}")
        quarantine.attempted(other.uid)
        quarantine.failed(other, raised())

    assert quarantine.broken_plugin() == 'plugin "Score" raises at 52 of the last 100 pods'


def test_a_failure_of_a_pod_that_is_not_remembered_any_more_does_not_count() -> None:
    # Its attempt took so long that more than the remembered number of others began meanwhile.
    quarantine, slow = Quarantine(), queued("slow")
    quarantine.attempted(slow.uid)
    for number in range(PODS_MAX):
        quarantine.attempted(f"uid-{number}")

    quarantine.failed(slow, raised())

    assert len(quarantine) == PODS_MAX


def test_an_error_that_is_no_exception_ends_the_count_of_failures() -> None:
    quarantine, entry = Quarantine(), queued()
    quarantine.failed(entry, raised())
    assert (entry.failing_plugin, entry.plugin_failures) == ("Score", 1)

    quarantine.failed(entry, None)

    assert (entry.failing_plugin, entry.plugin_failures) == ("", 0)
    assert not quarantine.counts


@pytest.mark.parametrize(
    ("before", "after", "edited"),
    [
        ({}, {}, False),
        ({}, {"status": {"phase": "Pending", "reason": "x"}}, False),
        ({}, {"priority": 5}, True),
        ({"labels": {"a": "1"}}, {"labels": {"a": "2"}}, True),
        ({}, {"metadata": {"annotations": {"a": "1"}}}, True),
        (
            {"metadata": {"annotations": {"a": "1"}}},
            {"metadata": {"annotations": {"a": "1"}}},
            False,
        ),
    ],
)
def test_a_change_of_spec_labels_or_annotations_is_an_edit_and_one_of_the_status_is_not(
    before: dict[str, Any], after: dict[str, Any], *, edited: bool
) -> None:
    assert is_edited(make_pod(**before), make_pod(**after)) is edited


def test_only_the_last_pods_are_remembered() -> None:
    quarantine = Quarantine()
    for number in range(3 * PODS_MAX):
        quarantine.attempted(f"uid-{number}")

    assert len(quarantine) == PODS_MAX


# -- in the queue ---------------------------------------------------------------------------------


def quarantined(**options: Any) -> tuple[Bench, QueuedPod]:
    """Returns a queue with a pod at which a plugin has raised three times."""
    it = Bench(Refuser("Fit", on(NODE_ADD)), **options)
    it.add("poison")
    entry = queued()
    for _ in range(FAILURES_MAX):
        it.clock.advance(20)
        it.queue.flush()
        entry = it.pop()
        it.queue.quarantine.failed(entry, raised())
        it.queue.add_unschedulable(entry, entry.pod)
    assert entry.is_quarantined
    return it, entry


def test_a_quarantined_pod_waits_in_the_backoff_queue_until_its_quarantine_is_over() -> None:
    it, entry = quarantined()
    assert (it.queue.quarantined_count, entry.queue_name) == (1, QueueName.BACKOFF)

    assert it.queue.pop() is None
    it.queue.activate([entry.uid])
    it.queue.move(NODE_ADD, None, None)
    it.clock.advance(QUARANTINE_S - 1)
    it.queue.flush()
    assert it.queue.pop() is None

    it.clock.advance(2)
    assert it.queue.next_flush_at_s() <= it.clock.monotonic_s()
    it.queue.flush()
    assert it.queue.pop() is entry
    assert it.queue.quarantined_count == 0


def test_without_backoff_a_poison_pod_is_quarantined_all_the_same() -> None:
    it, entry = quarantined(max_backoff_s=0.0)

    assert it.queue.quarantined_count == 1
    assert it.queue.pop() is None
    assert entry.is_quarantined


def test_a_change_of_the_pod_ends_its_quarantine_and_its_next_error_starts_it_again() -> None:
    it, entry = quarantined()
    it.clock.advance(20)
    changed = PodInfo(make_pod("poison", uid=entry.uid, labels={"app": "mended"}))

    it.queue.update(entry.pod, changed)

    assert it.queue.quarantined_count == 0
    assert it.queue.pop() is entry
    assert entry.pod is changed
    assert it.queue.quarantine.failed(entry, raised())
    assert entry.quarantine_s == 2 * QUARANTINE_S


def test_a_deleted_pod_leaves_the_quarantine() -> None:
    it, entry = quarantined()

    it.queue.delete(entry.uid)

    assert it.queue.quarantined_count == 0
    it.clock.advance(2 * QUARANTINE_S)
    it.queue.flush()
    assert it.queue.pop() is None


def test_a_quarantined_pod_counts_as_one_in_backoff() -> None:
    it, _ = quarantined()
    it.unschedulable("other", "Fit")
    it.queue.move(NODE_ADD, None, None)
    assert it.queue_name("other") is QueueName.BACKOFF

    assert it.queue.counts()[QueueName.BACKOFF] == 2


def test_a_pod_whose_quarantine_is_over_is_not_quarantined_while_it_is_active() -> None:
    it, entry = quarantined()
    it.clock.advance(QUARANTINE_S + 2)
    it.queue.flush()

    assert entry.queue_name is QueueName.ACTIVE
    assert not entry.is_quarantined


def test_a_change_of_the_status_does_not_end_a_quarantine() -> None:
    it, entry = quarantined()
    with_condition = make_pod("poison", uid=entry.uid, status={"phase": "Pending", "reason": "x"})

    it.queue.update(entry.pod, PodInfo(with_condition))

    assert entry.is_quarantined
    assert it.queue.quarantined_count == 1


def test_an_edit_of_a_pod_in_an_ordinary_backoff_does_not_shorten_it() -> None:
    it = Bench(Refuser("Fit", on(NODE_ADD)))
    old = it.add("a")
    it.refuse(it.pop())
    assert it.queue_name("a") is QueueName.BACKOFF

    it.clock.advance(0.5)
    it.queue.update(old, PodInfo(make_pod("a", uid="a", labels={"x": "1"})))

    assert it.queue_name("a") is QueueName.BACKOFF
    assert it.queue.pop() is None


def test_a_pod_that_is_edited_at_once_waits_for_the_backoff_of_its_errors() -> None:
    it, entry = quarantined()
    changed = PodInfo(make_pod("poison", uid=entry.uid, labels={"app": "mended"}))

    it.queue.update(entry.pod, changed)

    assert (it.queue.quarantined_count, entry.is_quarantined) == (0, False)
    assert entry.queue_name is QueueName.BACKOFF
    it.clock.advance(3.9)  # after the third error in a row it waits 4 s
    it.queue.flush()
    assert it.queue.pop() is None
    it.clock.advance(2)
    it.queue.flush()
    assert it.queue.pop() is entry
