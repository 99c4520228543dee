"""The view of a running scheduler: redrawn on a terminal, lines elsewhere."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from mooring.clock import seeded_random
from mooring.devcluster.cluster import InMemoryCluster
from mooring.devcluster.observer import ProgressObserver
from mooring.devcluster.seeding import seeds_of_objects
from mooring.devcluster.view import TEXT_WIDTH, PodCounts, Sampler, picture, watched
from mooring.framework import Wait
from mooring.scheduler.service import ServiceOptions
from mooring.simulation.utilization import Utilization
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually
from tests.helpers.scripted_plugins import Permits


class Scene:
    """A cluster with one node, and an observer."""

    def __init__(self, plugins: Sequence[Any] = ()) -> None:
        self.clock = LoopClock(asyncio.get_running_loop())
        self.node = make_node("a", allocatable={"cpu": "2", "example.com/gpu": "1"})
        self.progress = ProgressObserver(Utilization([self.node]), self.clock)
        options = ServiceOptions(observer=self.progress, plugins=plugins)
        self.cluster = InMemoryCluster(clock=self.clock, rng=seeded_random(0), options=options)
        self.sampler = Sampler(self.cluster, self.progress, clock=self.clock)

    async def play(self, *pods: Any) -> None:
        """Creates the pods and waits until all are settled."""
        await self.cluster.submit(seeds_of_objects(pods))
        await self.cluster.settle()


async def shown(
    out: io.StringIO, console: Console | None, *batches: list[Any], pause_s: float = 3.0
) -> Scene:
    """Plays pods in batches while it is watched."""
    scene = Scene()
    async with asyncio.TaskGroup() as tasks:
        await scene.cluster.seed(seeds_of_objects([scene.node]))
        running = tasks.create_task(scene.cluster.run())
        await scene.cluster.service.wait_until_synced()
        async with watched(scene.sampler, title="the title", out=out, console=console):
            for batch in batches:
                await scene.play(*batch)
                await asyncio.sleep(pause_s)
        scene.cluster.service.stop()
        await running
    return scene


def pods(*names: str, cpu: str = "1") -> list[Any]:
    return [make_pod(name, requests={"cpu": cpu}) for name in names]


def test_a_situation_is_one_line() -> None:
    line = PodCounts(3, 2, 0, 1, 4, 1213, 1234.5).line()
    assert line == ("pods: 3 bound, 2 pending, 1 refused   nodes: 4 of 1213 in use   1,234 pods/s")


def test_a_pod_that_waits_for_its_victims_is_not_refused() -> None:
    line = PodCounts(3, 2, 1, 0, 4, 9, 0.0).line()
    assert line.startswith("pods: 3 bound, 2 pending, 1 waiting for victims, 0 refused   ")


@virtually
async def test_lines_tell_what_changes_and_nothing_else() -> None:
    out = io.StringIO()
    await shown(out, None, pods("one"), pods("two", "three"), pause_s=20)
    # Lines about preemption are not checked here.
    whole = [line.partition(" no new claims")[0] for line in out.getvalue().splitlines()]
    lines = [line.rpartition("   ")[0] or line for line in whole]
    assert lines == [
        "the title",
        "pods: 0 bound, 0 pending, 0 refused   nodes: 0 of 1 in use",
        "pods: 1 bound, 0 pending, 0 refused   nodes: 1 of 1 in use",
        # It is decided before the other one is bound.
        "  default/three: 0/1 nodes are available: 1 Insufficient cpu.",
        "  default/two: bound to a",
        "pods: 2 bound, 0 pending, 1 refused   nodes: 1 of 1 in use",
    ]


@virtually
async def test_lines_hold_no_control_characters() -> None:
    out = io.StringIO()
    await shown(out, None, pods("one"))
    assert all(line.isprintable() for line in out.getvalue().splitlines())


@virtually
async def test_a_terminal_shows_where_how_many_how_full_and_the_latest() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120, color_system=None)
    await shown(out, console, pods("one"), pods("big", cpu="40"))
    last = out.getvalue().rpartition("the title")[2]
    assert "pods: 1 bound, 0 pending, 1 refused" in last
    assert "cpu" in last
    assert "50.0%" in last
    assert "gpu" in last
    assert last.index("default/big") < last.index("default/one"), "the newest one is on top"


@virtually
async def test_a_terminal_is_left_in_order_after_an_error() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)

    async def fail() -> None:
        async with watched(Scene().sampler, title="t", out=out, console=console):
            raise RuntimeError

    with pytest.raises(ExceptionGroup) as caught:
        await fail()
    assert caught.value.subgroup(RuntimeError) is not None
    assert out.getvalue().rstrip().endswith("\x1b[?25h")


@virtually
async def test_the_rate_is_that_of_the_last_seconds() -> None:
    scene = Scene()
    assert scene.sampler.now().pods_per_s == 0
    scene.progress.decisions = 100
    await asyncio.sleep(2)
    assert round(scene.sampler.now().pods_per_s) == 50
    for _ in range(40):
        await asyncio.sleep(0.5)
        situation = scene.sampler.now()
    assert situation.pods_per_s == 0


@virtually
async def test_a_long_text_is_cut() -> None:
    scene = Scene()
    console = Console(file=io.StringIO(), width=400, color_system=None)
    from mooring.devcluster.observer import LatestDecision

    scene.progress.latest.append(LatestDecision(0.0, "d/p", "x" * (TEXT_WIDTH + 1), is_bound=False))
    with console.capture() as captured:
        console.print(picture(scene.sampler, "t"))
    assert "x" * (TEXT_WIDTH - 3) + "..." in captured.get()
    assert "x" * TEXT_WIDTH not in captured.get()


@virtually
async def test_a_pod_that_waits_in_permit_is_one_pending_pod() -> None:
    scene = Scene([Permits(Wait(60.0))])
    async with asyncio.TaskGroup() as tasks:
        await scene.cluster.seed(seeds_of_objects([scene.node]))
        running = tasks.create_task(scene.cluster.run())
        await scene.cluster.service.wait_until_synced()
        await scene.cluster.submit(seeds_of_objects(pods("web")))
        await asyncio.sleep(5.0)
        counts = scene.sampler.now()
        assert (counts.bound, counts.pending, counts.refused) == (0, 1, 0)
        scene.cluster.service.stop()
        await running
