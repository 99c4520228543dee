"""The heap of pods: order, ties, taking out of the middle, and keys made of ``less``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.queue.heap import ByLess, PodHeap
from mooring.queue.queued_pod import QueuedPod
from tests.helpers.queues import pod


def entry(name: str, *, priority: int = 0, timestamp_s: float = 0.0) -> QueuedPod:
    return QueuedPod(pod(name, priority=priority), timestamp_s)


def by_priority(each: QueuedPod) -> int:
    return -each.pod.priority


def drained(heap: PodHeap) -> list[str]:
    names = []
    while (found := heap.pop()) is not None:
        names.append(found.uid)
    return names


def test_the_first_by_its_key_comes_out_first() -> None:
    heap = PodHeap(by_priority)
    for name, priority in [("low", 1), ("high", 9), ("mid", 5)]:
        heap.push(entry(name, priority=priority))

    assert drained(heap) == ["high", "mid", "low"]


def test_of_equals_the_one_that_came_first_comes_out_first() -> None:
    heap = PodHeap(by_priority)
    for name in "dacb":
        heap.push(entry(name))

    assert drained(heap) == ["d", "a", "c", "b"]


def test_an_empty_heap_has_no_first() -> None:
    heap = PodHeap(by_priority)

    assert heap.peek() is None
    assert heap.pop() is None
    assert len(heap) == 0


def test_peek_leaves_the_pod_where_it_is() -> None:
    heap = PodHeap(by_priority)
    only = entry("a")
    heap.push(only)

    assert heap.peek() is only
    assert len(heap) == 1


def test_one_taken_out_of_the_middle_never_comes_out() -> None:
    heap = PodHeap(by_priority)
    entries = [entry(name) for name in "abc"]
    for each in entries:
        heap.push(each)

    assert heap.remove(entries[1])
    assert not heap.remove(entries[1])
    assert entries[1] not in heap
    assert [each.uid for each in heap] == ["a", "c"]
    assert drained(heap) == ["a", "c"]


def test_the_head_may_be_taken_out_too() -> None:
    heap = PodHeap(by_priority)
    first, second = entry("a"), entry("b")
    heap.push(first)
    heap.push(second)

    heap.remove(first)

    assert heap.peek() is second


def test_pushed_anew_a_pod_goes_by_its_new_key() -> None:
    heap = PodHeap(by_priority)
    low, high = entry("low", priority=1), entry("high", priority=5)
    heap.push(low)
    heap.push(high)
    low.pod = pod("low", priority=9)

    heap.push(low)

    assert len(heap) == 2
    assert drained(heap) == ["low", "high"]


def test_a_pod_that_went_through_another_heap_is_there_once() -> None:
    # Both heaps number their entries from 1, and the number is kept in the pod.
    here, there = PodHeap(by_priority), PodHeap(by_priority)
    travelling = entry("a")
    here.push(travelling)
    here.remove(travelling)
    there.push(travelling)

    assert here.peek() is None
    assert drained(there) == ["a"]
    here.push(travelling)
    assert drained(here) == ["a"]


def test_another_pod_of_the_same_uid_is_not_the_one_inside() -> None:
    heap = PodHeap(by_priority)
    heap.push(entry("a"))

    assert entry("a") not in heap
    assert not heap.remove(entry("a"))
    assert len(heap) == 1


def test_what_was_taken_out_or_renewed_is_not_kept_for_ever() -> None:
    heap = PodHeap(by_priority)
    staying = entry("staying", priority=9)
    for number in range(1000):
        passing = entry(f"passing-{number}")
        heap.push(passing)
        heap.push(staying)
        heap.remove(passing)

    assert len(heap) == 1
    assert len(heap._items) <= 65
    assert drained(heap) == ["staying"]


def test_after_stale_entries_are_dropped_the_order_is_that_of_the_keys() -> None:
    # Without stale entries the list is a heap of another shape: it has to be made one again.
    heap = PodHeap(by_priority)
    entries = [entry(str(number), priority=number * 37 % 101) for number in range(100)]
    for each in entries:
        heap.push(each)
    removed = sorted(entries, key=by_priority)[:51]
    for each in removed:
        assert heap.remove(each)

    left = sorted((each for each in entries if each not in removed), key=by_priority)
    assert len(heap._items) < 65
    assert drained(heap) == [each.uid for each in left]


def test_a_removal_alone_drops_stale_entries() -> None:
    heap = PodHeap(by_priority)
    entries = [entry(str(number)) for number in range(1000)]
    for each in entries:
        heap.push(each)
    for each in entries[1:]:
        heap.remove(each)

    assert len(heap._items) <= 65
    assert drained(heap) == ["0"]


def test_one_that_changes_again_and_again_takes_no_more_room() -> None:
    heap = PodHeap(by_priority)
    changing = entry("a")
    for _ in range(1000):
        heap.push(changing)

    assert len(heap._items) <= 65
    assert drained(heap) == ["a"]


class Less:
    """Higher priority first, then the earlier one; counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, a: Any, b: Any) -> bool:
        self.calls += 1
        if a.pod.priority != b.pod.priority:
            return bool(a.pod.priority > b.pod.priority)
        return bool(a.timestamp_s < b.timestamp_s)


def test_a_less_function_orders_as_its_key_would() -> None:
    less = Less()
    heap = PodHeap(lambda each: ByLess(less, each))
    heap.push(entry("late", priority=1, timestamp_s=2))
    heap.push(entry("early", priority=1, timestamp_s=1))
    heap.push(entry("high", priority=2, timestamp_s=3))

    assert drained(heap) == ["high", "early", "late"]
    assert less.calls > 0


def test_keys_made_of_less_are_equal_if_neither_goes_first() -> None:
    less = Less()
    one, same = ByLess(less, entry("a")), ByLess(less, entry("b"))
    other = ByLess(less, entry("c", priority=1))

    assert one == same
    assert one != other
    with pytest.raises(TypeError):
        hash(one)


def test_a_key_made_of_less_is_the_pod_as_it_was_pushed() -> None:
    # What is dead in the heap still takes part in comparisons: it must not change its mind there.
    less = Less()
    heap = PodHeap(lambda each: ByLess(less, each))
    entries = [entry(str(number), priority=number) for number in reversed(range(32))]
    for each in entries:
        heap.push(each)
    for each in entries[2::3]:
        heap.remove(each)
        each.pod = pod(each.uid, priority=-1)

    left = [number for number in reversed(range(32)) if (31 - number) % 3 != 2]
    assert drained(heap) == [str(number) for number in left]


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["push", "remove", "update", "pop"]), st.integers(0, 9), st.integers(0, 4)
    ),
    max_size=60,
)


@given(STEPS)
def test_it_is_a_sorted_list_with_or_without_a_key(steps: list[Step]) -> None:
    less = Less()
    keyed = PodHeap(lambda each: (-each.pod.priority, each.timestamp_s))
    compared = PodHeap(lambda each: ByLess(less, each))
    #: [(-priority, timestamp, when it was pushed, name)]: the same by sorting a list.
    model: list[tuple[int, float, int, str]] = []
    inside: dict[str, tuple[QueuedPod, QueuedPod]] = {}

    for turn, (what, number, priority) in enumerate(steps):
        name = str(number)
        if what == "pop":
            expected = min(model)[3] if model else None
            popped = [heap.pop() for heap in (keyed, compared)]
            assert [each.uid if each else None for each in popped] == [expected, expected]
            model = [item for item in model if item[3] != expected]
            inside.pop(expected or "", None)
            continue
        model = [item for item in model if item[3] != name]
        if what == "remove":
            for heap, each in zip((keyed, compared), inside.pop(name, ()), strict=False):
                assert heap.remove(each)
            continue
        twins = inside.get(name) or (entry(name), entry(name))
        inside[name] = twins
        for heap, each in zip((keyed, compared), twins, strict=True):
            each.pod, each.timestamp_s = pod(name, priority=priority), float(number % 3)
            heap.push(each)
        model.append((-priority, float(number % 3), turn, name))

    assert drained(keyed) == drained(compared) == [item[3] for item in sorted(model)]
