"""Exceptions in the scheduler's own code: the pod of the attempt fails, and no other.

What the attempt has reserved is released, and the pod is requeued. kube-scheduler has no such
case: a panic ends it.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from mooring.framework import FilterStatuses, Reject
from mooring.framework.status import Status
from mooring.testing import make_node, make_pod
from tests.helpers.extenders import Play, configured, extender, keeps
from tests.helpers.running_scheduler import CHECK_INTERVAL_S, run_scheduler, virtually
from tests.helpers.scripted_plugins import Permits, Prepares, ReservePlugin


class Unreadable(Reject):
    """A status at which our own code raises when it reads it."""

    def named(self, plugin: str) -> Status:
        raise LookupError(f"no status of {plugin}")


@pytest.mark.parametrize(
    ("cycle", "plugin", "answers"),
    [
        ("scheduling cycle", ReservePlugin(Unreadable("odd")), ("answer", None)),
        ("scheduling cycle", Permits(Unreadable("odd")), ("answer", None)),
        ("binding cycle", Prepares(Unreadable("odd")), ("steps", [])),
    ],
)
def test_the_pod_fails_and_all_is_released(
    cycle: str, plugin: Any, answers: tuple[str, Any]
) -> None:
    async def run() -> None:
        reserving = plugin if isinstance(plugin, ReservePlugin) else ReservePlugin()
        plugins = [reserving] if plugin is reserving else [reserving, plugin]
        async with run_scheduler(make_node("a"), plugins=plugins) as life:
            await life.create(make_pod("web"))
            await life.until_seen("failed", "web")
            text = f"{cycle}: LookupError: no status of {plugin.name}"
            assert life.observer.of("failed") == [("failed", "web", text)]
            assert reserving.calls == ["reserve web", "unreserve web"]
            assert len(life.service.cache.pods) == 0
            errors = life.service.profiles["default-scheduler"].errors.statistics()
            assert errors == {("mooring", cycle.title().replace(" ", "")): 1}
            setattr(plugin, *answers)
            await life.until_seen("bound", "web")

    virtually(run)()


class Turns:
    """A filter whose statuses become unreadable."""

    name = "Turns"

    def __init__(self) -> None:
        self.is_poison = False

    def filter(self, cycle: Any, nodes: Any) -> FilterStatuses:
        if not self.is_poison:
            return FilterStatuses.feasible(len(nodes))
        return FilterStatuses(np.ones(len(nodes), dtype=np.uint16), [Unreadable("odd")])


@virtually
async def test_the_node_is_looked_at_once_more_after_the_calls_of_extenders() -> None:
    turns, play = Turns(), Play(filter=keeps("a"))
    async with run_scheduler(
        make_node("a"),
        plugins=[turns],
        config=configured(extender()),
        transport_factory=play.transport_factory,
    ) as life:

        async def think(_: str, __: str) -> None:
            if len(play.asked) == 1:
                turns.is_poison = True
                await life.create(make_pod("other", node="a"))
                await asyncio.sleep(10 * CHECK_INTERVAL_S)  # the event arrives during the call

        play.think = think
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        turns.is_poison = False
        text = life.observer.of("failed")[0][2]
        assert text.startswith("scheduling cycle: LookupError: ")
        await life.until_seen("bound", "web")
