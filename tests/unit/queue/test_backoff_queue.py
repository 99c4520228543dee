"""Backoff: how long, in which order, and when it is over. The numbers are kube-scheduler's."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mooring.queue.backoff_queue import BackoffQueue
from mooring.queue.queued_pod import QueuedPod
from tests.helpers.queues import pod

NOW_S = 1000.0


def entry(name: str = "a", *, priority: int = 0, at_s: float = NOW_S, **fields: Any) -> QueuedPod:
    return QueuedPod(pod(name, priority=priority), at_s, **fields)


def refused(name: str, *, priority: int = 0, at_s: float = NOW_S, count: int = 1) -> QueuedPod:
    made = entry(name, priority=priority, at_s=at_s, unschedulable_count=count)
    made.unschedulable_plugins = frozenset({"Fit"})
    return made


def failed(name: str, *, at_s: float = NOW_S, count: int = 1, priority: int = 0) -> QueuedPod:
    return entry(name, at_s=at_s, consecutive_errors=count, priority=priority)


def by_priority(each: QueuedPod) -> tuple[int, float]:
    return -each.pod.priority, each.timestamp_s


def backoff(initial_s: float = 1.0, max_s: float = 10.0, *, window_s: float = 1.0) -> BackoffQueue:
    return BackoffQueue(initial_s, max_s, by_priority, window_s=window_s)


def names(entries: list[QueuedPod]) -> list[str]:
    return [each.uid for each in entries]


def test_it_doubles_from_one_second_and_stays_at_ten() -> None:
    assert [backoff().duration_s(count) for count in range(1, 8)] == [1, 2, 4, 8, 10, 10, 10]


@pytest.mark.parametrize(
    ("initial_s", "max_s", "count", "duration_s"),
    [
        (3e-9, 1000e-9, 5, 48e-9),
        (1, 32, 16, 32),
        (1, 2**31 - 1, 32, 2**31 - 1),
        (1, 2.0**62, 64, 2.0**62),
        (1, 60, 1_000_000, 60),
        (20, 10, 1, 10),
        (0, 10, 5, 0),
    ],
)
def test_no_count_is_too_high_for_it(
    initial_s: float, max_s: float, count: int, duration_s: float
) -> None:
    assert backoff(initial_s, max_s).duration_s(count) == pytest.approx(duration_s)


@pytest.mark.parametrize(
    ("waiting", "ends_s"),
    [
        (entry(), -math.inf),
        (entry(unschedulable_count=16), NOW_S + 32),
        # Errors in a row count by themselves, whatever was refused before.
        (entry(unschedulable_count=5, consecutive_errors=16), NOW_S + 32),
        (entry(unschedulable_count=16, consecutive_errors=1), NOW_S + 1),
        (entry(unschedulable_count=1, backoff_expiration_s=1000.25), 1000.25),
    ],
)
def test_it_ends_after_the_last_attempt_by_what_was_counted(
    waiting: QueuedPod, ends_s: float
) -> None:
    assert backoff(1, 32).expiration_s(waiting) == ends_s


def test_a_longest_backoff_of_zero_means_none() -> None:
    queue, waiting = backoff(1, 0), entry(unschedulable_count=16)

    assert queue.expiration_s(waiting) == -math.inf
    assert not queue.is_backing_off(waiting, NOW_S)


def test_its_end_is_rounded_down_to_the_second_and_kept() -> None:
    queue, waiting = backoff(), refused("a", at_s=1000.75)

    assert queue.expiration_s(waiting) == 1001
    waiting.timestamp_s = 5000
    assert queue.expiration_s(waiting) == 1001


@pytest.mark.parametrize(
    ("now_s", "waits"), [(1000, True), (1001, True), (1001.99, True), (1002, False)]
)
def test_a_pod_waits_to_the_end_of_the_second_in_which_its_backoff_ends(
    now_s: float, *, waits: bool
) -> None:
    assert backoff().is_backing_off(refused("a", at_s=1000.5), now_s) is waits


@pytest.mark.parametrize(("now_s", "waits"), [(1001.49, True), (1001.5, True), (1001.51, False)])
def test_without_windows_it_ends_to_the_moment(now_s: float, *, waits: bool) -> None:
    queue = backoff(window_s=0)

    assert queue.is_backing_off(refused("a", at_s=1000.5), now_s) is waits


BEFORE, LATER = NOW_S - 2, NOW_S + 1
POPPED = {
    "refused-now": refused("refused-now", at_s=BEFORE),
    "refused-later": refused("refused-later", at_s=LATER),
    "failed-now": failed("failed-now", at_s=BEFORE),
    "failed-later": failed("failed-later", at_s=LATER),
}


@pytest.mark.parametrize(
    ("inside", "come_out"),
    [
        ([], []),
        (["refused-now", "refused-later"], ["refused-now"]),
        (["failed-now", "failed-later"], ["failed-now"]),
        (list(POPPED), ["refused-now", "failed-now"]),
        (["failed-now", "refused-now"], ["refused-now", "failed-now"]),
        (["refused-later", "failed-later"], []),
    ],
)
@pytest.mark.parametrize("window_s", [1.0, 0.0])
def test_those_whose_backoff_is_over_come_out_the_refused_first(
    inside: list[str], come_out: list[str], window_s: float
) -> None:
    queue = backoff(window_s=window_s)
    for name in inside:
        POPPED[name].backoff_expiration_s = None
        queue.add(POPPED[name])

    assert names(queue.pop_completed(NOW_S)) == come_out
    assert len(queue) == len(inside) - len(come_out)


@pytest.mark.parametrize(
    ("window_s", "come_out"),
    [(1.0, ["pod5", "pod4", "pod2", "pod3"]), (0.0, ["pod5", "pod3", "pod4", "pod2"])],
)
def test_within_a_second_the_important_go_first(window_s: float, come_out: list[str]) -> None:
    queue = backoff(window_s=window_s)
    for number, (priority, ago_s) in enumerate(
        [(1, 0.0), (1, 1.0), (2, 1.999), (1, 2.0), (2, 2.0), (1, 3.0)]
    ):
        queue.add(refused(f"pod{number}", priority=priority, at_s=NOW_S - ago_s))

    assert names(queue.pop_completed(NOW_S)) == come_out


def test_failed_pods_go_by_time_alone() -> None:
    queue = backoff()
    queue.add(failed("first", at_s=990))
    queue.add(failed("important", at_s=990.5, priority=9))

    assert names(queue.pop_completed(NOW_S)) == ["first", "important"]


def test_with_nothing_else_to_do_a_refused_pod_is_hurried_never_a_failed_one() -> None:
    queue = backoff()
    queue.add(failed("failed"))
    queue.add(refused("low"))
    queue.add(refused("high", priority=5))
    queue.add(refused("soon", at_s=NOW_S - 1))

    hurried = [queue.pop_early() for _ in range(4)]

    assert [each.uid if each else None for each in hurried] == ["soon", "high", "low", None]
    assert len(queue) == 1


def test_a_pod_rejected_in_its_binding_cycle_keeps_its_backoff() -> None:
    queue = backoff()
    rejected = entry("rejected")
    rejected.end_attempt(NOW_S, ["Permits"], [], is_binding=True)
    queue.add(rejected)

    assert queue.pop_early() is None
    assert names(queue.pop_completed(NOW_S + 2)) == ["rejected"]

    rejected.end_attempt(NOW_S, ["Fit"], [])
    queue.add(rejected)
    assert queue.pop_early() is rejected


def test_a_pod_with_a_newer_version_is_sorted_anew_among_its_kind() -> None:
    queue = backoff()
    low, mid = refused("low"), refused("mid", priority=5)
    broken = failed("broken")
    for each in (low, mid, broken):
        queue.add(each)
    low.pod, broken.pod = pod("low", priority=9), pod("broken", priority=9)

    queue.update(low)
    queue.update(broken)

    assert len(queue) == 3
    assert names(queue.pop_completed(NOW_S + 2)) == ["low", "mid", "broken"]


@pytest.mark.parametrize("waiting", [refused("a"), failed("a")])
def test_one_that_leaves_is_gone(waiting: QueuedPod) -> None:
    queue = backoff()
    queue.add(waiting)

    assert waiting in queue
    assert queue.remove(waiting)
    assert waiting not in queue
    assert not queue.remove(waiting)
    assert queue.pop_completed(NOW_S + 60) == []


def test_it_says_when_it_will_have_something() -> None:
    queue = backoff()
    assert queue.next_completion_s() == math.inf
    queue.add(refused("a", at_s=1000.5, count=3))
    assert queue.next_completion_s() == 1005
    queue.add(failed("b", at_s=1000.5))
    assert queue.next_completion_s() == 1002

    assert queue.pop_completed(1001.999) == []
    assert names(queue.pop_completed(queue.next_completion_s())) == ["b"]
    assert names(queue.pop_completed(queue.next_completion_s())) == ["a"]


def test_without_windows_the_moment_it_says_is_late_enough() -> None:
    queue = backoff(window_s=0)
    queue.add(refused("a", at_s=123_456.789))

    assert names(queue.pop_completed(queue.next_completion_s())) == ["a"]


@pytest.mark.parametrize(
    "waits",
    [(1, 2, 3), (3, 1, 2), (2, 3, 1), (3, 2, 1), (1, 3, 2), (2, 1, 3)],
)
def test_the_next_of_all_kinds_of_pods_decides_when_to_look_again(
    waits: tuple[int, int, int],
) -> None:
    queue = backoff()
    entries = [refused("refused"), failed("failed"), entry("quarantined")]
    for each, wait in zip(entries, waits, strict=True):
        each.timestamp_s = NOW_S + 10 * wait
    entries[2].quarantine_s = 1.0
    for each in entries:
        queue.add(each)

    # Each of them waits one second, and the second in which it ends.
    in_order = [each.uid for each in sorted(entries, key=lambda each: each.timestamp_s)]
    for number, uid in enumerate(in_order, start=1):
        at_s = queue.next_completion_s()
        assert at_s == NOW_S + 10 * number + 2
        assert names(queue.pop_completed(at_s - 1)) == []
        assert names(queue.pop_completed(at_s)) == [uid]
    assert queue.next_completion_s() == math.inf
