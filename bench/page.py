"""What the page costs: in the scheduler's process, in a browser, and in bindings a second.

A cluster in memory, its page, and a headless Chromium that looks at the map. The bars: first paint
within a second, the whole map within two, 30 ms of the browser's main thread and 3 ms of the
scheduler's process a tick, and 95 % of the bindings a second of CPU time without a page: here the
browser shares the processors with the scheduler, which is not what a page costs.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec

from bench.machine import machine
from mooring.clock import SystemClock, seeded_random
from mooring.devcluster.cluster import InMemoryCluster
from mooring.devcluster.seeding import Seed
from mooring.scheduler.service import ServiceOptions
from mooring.ui.attempts import AttemptLog
from mooring.ui.cluster_copy import SchedulerSettings
from mooring.ui.live_page import LivePage

PAINT_MS, MAP_MS, BROWSER_TICK_MS, TICK_MS, RATE = 1_000, 2_000, 30, 3, 0.95
#: Pods that are bound in one round, and how long an idle browser is watched.
ROUND: Final = 1_000
WATCH_S: Final = 5.0


class Bench(NamedTuple):
    """A running cluster with its page."""

    cluster: InMemoryCluster
    page: LivePage
    address: str


def pod(name: str, node: str = "") -> dict[str, Any]:
    """Returns a small pod, on a node if one is given."""
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "10m"}}}
    spec: dict[str, Any] = {"containers": [container]}
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def node(name: str) -> dict[str, Any]:
    """Returns a node of 32 cores."""
    amounts = {"cpu": "32", "memory": "128Gi", "pods": "250"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


@asynccontextmanager
async def running(nodes: int, pods: int) -> AsyncIterator[Bench]:
    """Runs a cluster with pods on its nodes, and serves its page."""
    clock = SystemClock()
    log = AttemptLog(clock)
    cluster = InMemoryCluster(
        clock=clock, rng=seeded_random(0), options=ServiceOptions(observer=log)
    )
    seeds = [Seed(node(f"n{number:05}")) for number in range(nodes)]
    seeds += [Seed(pod(f"r{number}", f"n{number % nodes:05}")) for number in range(pods)]
    await cluster.seed(seeds)
    page = LivePage(cluster, clock, log, SchedulerSettings())
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(cluster.run())
        await cluster.service.wait_until_synced()
        async with page.serve() as address:
            yield Bench(cluster, page, address)
        cluster.service.stop()
        await run


class Rate(NamedTuple):
    """Bindings a second, and bindings a second of CPU time of the scheduler's process."""

    wall: float
    cpu: float


async def bindings(bench: Bench, name: str) -> Rate:
    """Binds a round of pods."""
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    await bench.cluster.submit([Seed(pod(f"{name}-{number}")) for number in range(ROUND)])
    await bench.cluster.settle()
    passed_s, passed_cpu_s = time.perf_counter() - started_s, time.process_time() - started_cpu_s
    return Rate(ROUND / passed_s, ROUND / passed_cpu_s)


async def ticks_ms(bench: Bench) -> list[float]:
    """Returns the CPU time of ticks after 250 bindings each, a second's worth of a quarter."""
    board, times = bench.page.server.board, []
    for turn in range(8):
        state = board.state()
        names = [f"t{turn}-{number}" for number in range(250)]
        await bench.cluster.submit([Seed(pod(name)) for name in names])
        await bench.cluster.settle()
        started_s = time.process_time()
        msgspec.json.encode(board.tick(state.generation, state.attempt, state.resources))
        times.append(1e3 * (time.process_time() - started_s))
    return times


class BrowserNumbers(NamedTuple):
    """What a browser needs, in milliseconds."""

    paint: float
    whole_map: float
    tick: float
    rates: list[Rate]


async def in_browser(bench: Bench, rounds: int) -> BrowserNumbers:
    """Opens the page, lets it look, and binds pods meanwhile."""
    from playwright.async_api import async_playwright

    path = shutil.which("chromium") or shutil.which("google-chrome")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = await browser.new_page()
        started_s = time.perf_counter()
        await page.goto(bench.address)
        await page.wait_for_selector("canvas")
        whole_map = 1e3 * (time.perf_counter() - started_s)
        paint = await page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        )
        session = await page.context.new_cdp_session(page)
        await session.send("Performance.enable")

        async def task_s() -> float:
            metrics = (await session.send("Performance.getMetrics"))["metrics"]
            return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

        async def versions() -> int:
            text = "import('/static/store.js').then((module) => module.store.version)"
            return int(await page.evaluate(text))

        first_s, first = await task_s(), await versions()
        rates = [await bindings(bench, f"open{number}") for number in range(rounds)]
        await asyncio.sleep(WATCH_S)
        tick = 1e3 * (await task_s() - first_s) / max(1, await versions() - first)
        await browser.close()
        return BrowserNumbers(float(paint), whole_map, tick, rates)


async def measure(nodes: int, pods: int, rounds: int) -> int:
    """Prints all rows; returns 1 if a bar is missed."""
    async with running(nodes, pods) as bench:
        board = bench.page.server.board
        await bindings(bench, "warm")
        started_s = time.process_time()
        size = len(msgspec.json.encode(board.state()))
        state_ms = 1e3 * (time.process_time() - started_s)
        print(f"everything, once: {state_ms:.0f} ms, {size / 1e3:.0f} kB before compression")
        tick = statistics.median(await ticks_ms(bench))
        without = [await bindings(bench, f"none{number}") for number in range(rounds)]
        numbers = await in_browser(bench, rounds)
        after = [await bindings(bench, f"after{number}") for number in range(rounds)]
    without += after
    rate = _median(numbers.rates).cpu / _median(without).cpu
    for title, rates in (("without a page", without), ("with a page", numbers.rates)):
        wall, cpu = zip(*rates, strict=True)
        print(f"bindings a second {title}: {_range(wall)}; of CPU time: {_range(cpu)}")
    rows = (
        ("first paint, ms", numbers.paint, PAINT_MS, numbers.paint <= PAINT_MS),
        ("whole map, ms", numbers.whole_map, MAP_MS, numbers.whole_map <= MAP_MS),
        ("a tick in the browser, ms", numbers.tick, BROWSER_TICK_MS,
         numbers.tick <= BROWSER_TICK_MS),
        ("a tick in the scheduler, ms", tick, TICK_MS, tick <= TICK_MS),
        ("bindings/CPU s, with : without", rate, RATE, rate >= RATE),
    )  # fmt: skip
    for name, value, bar, holds in rows:
        print(f"{name:32} {value:9.2f}   bar {bar:8.2f}   {'ok' if holds else 'MISSED'}")
    return 0 if all(holds for *_, holds in rows) else 1


def _median(rates: list[Rate]) -> Rate:
    return Rate(*(statistics.median(column) for column in zip(*rates, strict=True)))


def _range(rates: Sequence[float]) -> str:
    return f"{min(rates):.0f} to {max(rates):.0f}, median {statistics.median(rates):.0f}"


def main(arguments: list[str]) -> int:
    """Print what the page costs; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    print(f"{machine()}\n{options.pods} pods on {options.nodes} nodes")
    return asyncio.run(measure(options.nodes, options.pods, options.rounds))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
