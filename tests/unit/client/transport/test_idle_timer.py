"""A stream without data ends; one whose reader is slow does not."""

from __future__ import annotations

import asyncio

from mooring.client.transport.idle_timer import IdleTimer
from mooring.virtual_loop import run_virtually


def test_a_wait_ends_after_the_timeout_and_only_then() -> None:
    async def main() -> list[float]:
        loop, ended = asyncio.get_running_loop(), []
        start_s = loop.time()
        timer = IdleTimer(lambda: ended.append(loop.time() - start_s), 10.0)
        for _ in range(3):  # data comes after 7 s, 14 s, 21 s
            await asyncio.sleep(7)
            timer.end()
            timer.begin()
        await asyncio.sleep(9)
        assert ended == []
        await asyncio.sleep(60)
        return ended

    assert run_virtually(main()) == [31.0]


def test_the_time_in_which_the_reader_uses_a_chunk_does_not_count() -> None:
    async def main() -> list[float]:
        loop, ended = asyncio.get_running_loop(), []
        start_s = loop.time()
        timer = IdleTimer(lambda: ended.append(loop.time() - start_s), 10.0)
        await asyncio.sleep(1)
        timer.end()
        await asyncio.sleep(100)
        timer.begin()
        await asyncio.sleep(9)
        assert ended == []
        await asyncio.sleep(60)
        return ended

    assert run_virtually(main()) == [111.0]


def test_a_cancelled_timer_ends_nothing() -> None:
    async def main() -> list[float]:
        ended: list[float] = []
        timer = IdleTimer(lambda: ended.append(0.0), 10.0)
        timer.cancel()
        await asyncio.sleep(100)
        return ended

    assert run_virtually(main()) == []
