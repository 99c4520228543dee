"""Reviews: retries, texts of errors, and the cache of answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.clock import VirtualClock, seeded_random
from mooring.errors import OutcomeUnknown, SchedulerError, Unauthorized, Unreachable
from mooring.serving.delegation import CACHE_ENTRIES_MAX, ReviewCache, Reviews
from tests.helpers.serving import CannedTransport, Sleeps, reviews, status

GOOD = (201, {"status": {"allowed": True}})


def posted(transport: CannedTransport) -> tuple[dict[str, Any], list[float]]:
    """Returns the answer, and the waits between tries."""
    clock = VirtualClock()
    sleeps = Sleeps(clock)
    subject = Reviews(transport, "/p", clock=clock, rng=seeded_random(1), sleep=sleeps)
    return asyncio.run(subject.post({"kind": "X"})), sleeps.waits


def test_a_review_is_posted_as_json() -> None:
    transport = CannedTransport(GOOD)
    answer, waits = posted(transport)
    assert answer == {"allowed": True}
    assert waits == []
    (request,) = transport.requests
    assert (request.method, request.path, request.deadline_s) == ("POST", "/p", 10.0)
    assert transport.bodies() == [{"kind": "X"}]


@pytest.mark.parametrize(
    "failure",
    [status(500, "x"), status(429, "x"), status(504, "x", "Timeout"), OutcomeUnknown("reset")],
)
def test_transient_failures_are_retried_with_growing_waits(failure: Any) -> None:
    transport = CannedTransport(failure, failure, GOOD)
    answer, (first, second) = posted(transport)
    assert answer == {"allowed": True}
    assert 0.5 <= first <= 0.6
    assert 0.75 <= second <= 0.9


@pytest.mark.parametrize(
    ("failure", "error", "text"),
    [
        (status(401, "Unauthorized"), Unauthorized, "^Unauthorized$"),
        (status(403, "reviews is forbidden"), SchedulerError, "^reviews is forbidden$"),
        (Unreachable("connection refused"), Unreachable, "^connection refused$"),
        ((503, b"nonsense"), SchedulerError, "^nonsense$"),
    ],
)
def test_other_failures_are_not(failure: Any, error: type[Exception], text: str) -> None:
    transport = CannedTransport(failure)
    with pytest.raises(error, match=text):
        posted(transport)
    assert len(transport.requests) == 1


def test_five_tries_are_made() -> None:
    transport = CannedTransport(status(500, "down"))
    with pytest.raises(SchedulerError, match=r"^down$"):
        posted(transport)
    assert len(transport.requests) == 5


def test_every_request_is_reported() -> None:
    codes: list[str] = []
    transport = CannedTransport(OutcomeUnknown("reset"), GOOD)
    subject = reviews(transport, observer=lambda code, _: codes.append(code))
    asyncio.run(subject.post({}))
    assert codes == ["<error>", "201"]


class Question:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def __call__(self) -> int:
        self.asked += 1
        await self.may_end.wait()
        return self.asked


def test_answers_are_kept_for_their_time() -> None:
    async def main() -> None:
        clock = VirtualClock()
        cache: ReviewCache[int] = ReviewCache(clock)
        question = Question()
        assert not cache.is_cached("a")
        assert await cache.get("a", question, lambda _: 10.0) == 1
        clock.advance(9.9)
        assert cache.is_cached("a")
        assert await cache.get("a", question, lambda _: 10.0) == 1
        clock.advance(0.2)
        assert not cache.is_cached("a")
        assert await cache.get("a", question, lambda _: 0.0) == 2
        assert await cache.get("a", question, lambda _: 0.0) == 3

    asyncio.run(main())


def test_equal_questions_at_the_same_time_are_asked_once() -> None:
    async def main() -> None:
        cache: ReviewCache[int] = ReviewCache(VirtualClock())
        question = Question()
        question.may_end.clear()
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(cache.get("a", question, lambda _: 10.0)) for _ in range(5)]
            await asyncio.sleep(0)
            question.may_end.set()
        assert [task.result() for task in tasks] == [1] * 5

    asyncio.run(main())


def test_who_waits_asks_again_if_the_first_was_cancelled() -> None:
    async def main() -> None:
        cache: ReviewCache[int] = ReviewCache(VirtualClock())
        question = Question()
        question.may_end.clear()
        async with asyncio.TaskGroup() as group:
            first = group.create_task(cache.get("a", question, lambda _: 10.0))
            await asyncio.sleep(0)
            second = group.create_task(cache.get("a", question, lambda _: 10.0))
            await asyncio.sleep(0)
            first.cancel()
            question.may_end.set()
        assert second.result() == 2

    asyncio.run(main())


def test_the_cache_has_a_limit() -> None:
    async def main() -> None:
        cache: ReviewCache[int] = ReviewCache(VirtualClock())
        for key in range(CACHE_ENTRIES_MAX + 10):
            await cache.get(key, Question(), lambda _: 10.0)
        assert len(cache) == CACHE_ENTRIES_MAX

    asyncio.run(main())
