"""The queue of writes: one write of a key at a time, the newest value, fair to namespaces."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mooring.client.write_queue import (
    WRITERS,
    WRITERS_OF_FAILING,
    WRITERS_PER_NAMESPACE,
    Retry,
    WriteQueue,
)
from tests.helpers.running_scheduler import virtually

#: What a write of a value takes, and what it returns.
Outcome = tuple[float, Retry | None]


class Server:
    """Takes the writes of a queue; the outcome of each is that of ``outcome(value, tries)``."""

    def __init__(self, outcome: Callable[[str, int], Outcome] = lambda _, __: (0.1, None)) -> None:
        self.outcome = outcome
        self.started: list[tuple[float, str]] = []
        self.finished: list[str] = []
        self.in_progress = 0
        self.most = 0

    async def write(self, value: str, tries: int) -> Retry | None:
        loop = asyncio.get_running_loop()
        self.started.append((round(loop.time(), 3), value))
        self.in_progress += 1
        self.most = max(self.most, self.in_progress)
        seconds, retry = self.outcome(value, tries)
        await asyncio.sleep(seconds)
        self.in_progress -= 1
        self.finished.append(value)
        return retry


@asynccontextmanager
async def running(
    server: Server, *, items_max: int | None = None
) -> AsyncIterator[WriteQueue[str]]:
    queue = WriteQueue(server.write, sleep=asyncio.sleep, items_max=items_max)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    yield queue
    task.cancel()
    await asyncio.wait([task])


@virtually
async def test_values_are_written_and_leave_the_queue() -> None:
    server = Server()
    async with running(server) as queue:
        queue.put("a", "ns", "A")
        queue.put("b", "ns", "B")
        assert (len(queue), queue.values(), "a" in queue) == (2, ["A", "B"], True)
        await asyncio.sleep(1)
        assert server.finished == ["A", "B"]
        assert (len(queue), "a" in queue) == (0, False)


@virtually
async def test_only_the_newest_value_of_a_key_is_written() -> None:
    server = Server()
    async with running(server) as queue:
        queue.put("a", "ns", "A1")
        queue.put("a", "ns", "A2")
        await asyncio.sleep(0.05)
        queue.put("a", "ns", "A3")  # while A2 is being written
        queue.put("a", "ns", "A4")
        await asyncio.sleep(1)
        assert server.finished == ["A2", "A4"]
        assert server.most == 1, "never two writes of a key at a time"


@virtually
async def test_a_removed_value_is_not_written_nor_repeated() -> None:
    server = Server(lambda _, __: (0.1, Retry(1.0)))
    async with running(server) as queue:
        queue.put("a", "ns", "A")
        queue.put("b", "ns", "B")
        queue.remove("b")
        await asyncio.sleep(0.05)
        queue.remove("a")
        assert queue.get("a") is None
        await asyncio.sleep(10)
        assert server.finished == ["A"]
        assert len(queue) == 0


@virtually
async def test_a_value_after_a_removed_one_waits_for_the_write_in_progress() -> None:
    server = Server(lambda _, __: (1.0, None))
    async with running(server) as queue:
        queue.put("a", "ns", "A1")
        await asyncio.sleep(0.5)
        queue.remove("a")
        queue.put("a", "ns", "A2")
        await asyncio.sleep(5)
        assert server.started == [(0.0, "A1"), (1.0, "A2")]


@virtually
async def test_a_retry_waits_and_occupies_no_writer() -> None:
    server = Server(lambda value, tries: (0.0, Retry(5.0) if (value, tries) == ("A", 1) else None))
    async with running(server) as queue:
        queue.put("a", "ns", "A")
        await asyncio.sleep(1)
        for number in range(3 * WRITERS):
            queue.put(number, "ns", "B")
        await asyncio.sleep(1)
        assert server.finished == ["A", *["B"] * 3 * WRITERS]
        await asyncio.sleep(5)
        assert server.started[-1] == (5.0, "A")


@virtually
async def test_a_newer_value_waits_as_long_as_the_one_that_was_refused() -> None:
    def outcome(value: str, _: int) -> Outcome:
        return 0.0, Retry(5.0, is_requested=value == "B1") if value.endswith("1") else None

    server = Server(outcome)
    async with running(server) as queue:
        queue.put("a", "one", "A1")
        queue.put("b", "two", "B1")
        await asyncio.sleep(1)
        queue.put("a", "one", "A2")
        queue.put("b", "two", "B2")
        await asyncio.sleep(10)
        assert server.started == [(0.0, "A1"), (0.0, "B1"), (5.0, "A2"), (5.0, "B2")]


@virtually
async def test_a_server_that_is_down_gets_no_more_writes_because_of_newer_values() -> None:
    waits_s = (1.0, 2.0, 4.0, 8.0)
    server = Server(lambda _, tries: (0.0, Retry(waits_s[min(tries, 4) - 1])))
    async with running(server) as queue:
        for number in range(30):
            queue.put("a", "ns", f"A{number}")
            await asyncio.sleep(1)
        assert [at_s for at_s, _ in server.started] == [0.0, 1.0, 3.0, 7.0, 15.0, 23.0]


@virtually
async def test_a_removed_value_takes_our_own_wait_with_it() -> None:
    server = Server(lambda value, _: (0.0, Retry(5.0) if value == "A1" else None))
    async with running(server) as queue:
        queue.put("a", "ns", "A1")
        await asyncio.sleep(1)
        queue.remove("a")
        queue.put("a", "ns", "A2")
        await asyncio.sleep(10)
        assert server.started == [(0.0, "A1"), (1.0, "A2")]


@virtually
async def test_the_wait_that_the_server_asked_for_outlives_the_value() -> None:
    server = Server(lambda _, tries: (0.0, Retry(5.0, is_requested=True) if tries == 1 else None))
    async with running(server) as queue:
        queue.put("a", "ns", "A1")
        await asyncio.sleep(1)
        queue.remove("a")
        assert (len(queue), "a" in queue, queue.values()) == (0, False, [])
        await asyncio.sleep(1)
        queue.put("a", "ns", "A2")
        assert (len(queue), "a" in queue, queue.values()) == (1, True, ["A2"])
        await asyncio.sleep(10)
        assert server.started == [(0.0, "A1"), (5.0, "A2")]
        assert len(queue) == 0


@virtually
async def test_a_value_that_was_replaced_while_it_was_refused_waits() -> None:
    def outcome(value: str, _: int) -> Outcome:
        return 1.0, Retry(5.0, is_requested=value == "B1") if value.endswith("1") else None

    server = Server(outcome)
    async with running(server) as queue:
        queue.put("a", "one", "A1")
        queue.put("b", "two", "B1")
        await asyncio.sleep(0.5)
        queue.put("a", "one", "A2")
        queue.put("b", "two", "B2")
        await asyncio.sleep(10)
        assert server.started == [(0.0, "A1"), (0.0, "B1"), (6.0, "A2"), (6.0, "B2")]


@virtually
async def test_a_value_after_a_successful_write_begins_with_the_first_try() -> None:
    def outcome(value: str, tries: int) -> Outcome:
        tried.append((value, tries))
        return 1.0, Retry(5.0) if tries == 1 and value == "A1" else None

    tried: list[tuple[str, int]] = []
    server = Server(outcome)
    async with running(server) as queue:
        queue.put("a", "ns", "A1")
        await asyncio.sleep(6.5)
        queue.put("a", "ns", "A2")
        await asyncio.sleep(10)
        assert tried == [("A1", 1), ("A1", 2), ("A2", 1)]


@virtually
async def test_the_wait_of_a_removed_value_does_not_end_the_next_one() -> None:
    server = Server(lambda _, __: (0.0, Retry(5.0)))
    async with running(server) as queue:
        queue.put("a", "ns", "A1")
        await asyncio.sleep(1)
        queue.remove("a")
        queue.put("a", "ns", "A2")
        await asyncio.sleep(8)
        assert server.started == [(0.0, "A1"), (1.0, "A2"), (6.0, "A2")]


@virtually
async def test_urgent_values_are_written_first() -> None:
    server = Server()
    queue = WriteQueue(server.write, sleep=asyncio.sleep)
    for number in range(20):
        queue.put(number, "ns", str(number))
    queue.put("n", "ns", "urgent")
    queue.put("n", "ns", "urgent", urgent=True)
    await queue.write_all()
    assert server.finished[0] == "urgent"
    assert len(server.finished) == 21


@virtually
async def test_namespaces_take_turns() -> None:
    server = Server()
    queue = WriteQueue(server.write, sleep=asyncio.sleep)
    for number in range(100):
        queue.put(number, "many", "many")
    queue.put("x", "few", "few")
    await queue.write_all()
    assert server.finished.index("few") == 1


@virtually
async def test_writes_that_time_out_delay_no_other_namespace() -> None:
    def outcome(value: str, _: int) -> Outcome:
        return (10.0, Retry(1.0)) if value == "broken" else (0.01, None)

    server = Server(outcome)
    async with running(server) as queue:
        for number in range(1000):
            queue.put(("broken", number), "broken", "broken")
        for number in range(60):
            await asyncio.sleep(1)
            queue.put(("good", number), "good", "good")
            await asyncio.sleep(0.02)
            assert ("good", number) not in queue
        at_once = [at_s for at_s, value in server.started if value == "broken" and at_s == 0.0]
        assert len(at_once) == WRITERS_PER_NAMESPACE, "before its first failure is known"


@virtually
async def test_many_failing_namespaces_share_a_few_writers() -> None:
    def outcome(value: str, _: int) -> Outcome:
        return (10.0, Retry(1.0)) if value == "broken" else (0.01, None)

    server = Server(outcome)
    async with running(server) as queue:
        for number in range(100):
            queue.put(number, f"broken-{number % 20}", "broken")
        await asyncio.sleep(300)  # by now the failures of all of them are known
        for number in range(200):
            queue.put(("good", number), "good", "good")
        await asyncio.sleep(200 * 0.01 / (WRITERS_PER_NAMESPACE - WRITERS_OF_FAILING))
        assert "good" not in queue.values()
        assert server.in_progress <= WRITERS_OF_FAILING


@virtually
async def test_a_namespace_that_recovers_has_all_its_writers_again() -> None:
    broken_until_s = 30.0

    def outcome(_: str, __: int) -> Outcome:
        is_broken = asyncio.get_running_loop().time() < broken_until_s
        return (1.0, Retry(1.0)) if is_broken else (1.0, None)

    server = Server(outcome)
    async with running(server) as queue:
        for number in range(100):
            queue.put(number, "ns", str(number))
        await asyncio.sleep(broken_until_s)
        server.most = 0
        await asyncio.sleep(60)
        assert server.most == WRITERS_PER_NAMESPACE
        assert len(queue) == 0


@virtually
async def test_the_namespace_with_the_most_items_loses_its_oldest() -> None:
    server = Server()
    queue = WriteQueue(server.write, sleep=asyncio.sleep, items_max=10)
    queue.put("x", "few", "few")
    for number in range(12):
        queue.put(number, "many", str(number))
    assert queue.dropped == 3
    assert queue.values() == ["few", *map(str, range(3, 12))]


@virtually
async def test_keys_that_wait_without_a_value_do_not_lift_the_limit() -> None:
    """The namespace with the most keys may have none that can be dropped."""
    server = Server(lambda value, _: (0.1, Retry(60.0, is_requested=True)))
    async with running(server, items_max=4) as queue:
        for number in range(12):
            queue.put(f"gone-{number}", "large", "old")
            await asyncio.sleep(0.2)
            queue.remove(f"gone-{number}")
        assert len(queue) == 0, "they wait, since the server asked for it"
        for number in range(8):
            queue.put(f"new-{number}", "small", f"N{number}")
        assert queue.values() == ["N7"]
        assert queue.dropped == 7


@virtually
async def test_a_value_whose_wait_is_over_may_be_removed_or_become_urgent() -> None:
    """It is ready again, but all writers are busy."""

    def outcome(value: str, tries: int) -> Outcome:
        if value in ("waits", "first"):
            return (0.1, Retry(1.0)) if tries == 1 else (0.1, None)
        return 5.0, None

    server = Server(outcome)
    async with running(server) as queue:
        queue.put("first", "a", "first")
        queue.put("waits", "b", "waits")
        await asyncio.sleep(0.5)
        for number in range(2 * WRITERS):
            queue.put(number, f"ns-{number}", f"busy-{number}")
        await asyncio.sleep(2)
        assert server.in_progress == WRITERS
        queue.remove("first")
        assert ("first" in queue, len(queue)) == (False, 2 * WRITERS + 1)
        queue.put("waits", "b", "urgent", urgent=True)
        await asyncio.sleep(3.5)
        later = [value for at_s, value in server.started if at_s > 2]
        assert later[0] == "urgent"
        await asyncio.sleep(10)
        assert [value for _, value in server.started].count("first") == 1
        assert len(queue) == 0
