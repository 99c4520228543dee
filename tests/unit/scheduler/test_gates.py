"""Feature gates of the running scheduler that are on by default, switched off."""

from __future__ import annotations

import asyncio
from typing import Any

from mooring.client.transport.transport import Request
from mooring.framework.status import Skip
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.preemption_fixture import deletions, pod, preempting, small
from tests.helpers.running_scheduler import on, run_scheduler, virtually
from tests.helpers.scripted_plugins import nominated


async def bound_meanwhile(**options: Any) -> bool:
    """Returns whether a pod is bound to another node while a victim is evicted, for 3 s."""

    async def slow(_: Request) -> None:
        await asyncio.sleep(3)

    nodes = [make_node(name, allocatable={"cpu": "1"}, labels={"for": name}) for name in "ab"]
    async with preempting(*nodes, **options) as life:
        await life.create(pod("old", node_selector={"for": "a"}))
        await life.until_seen("bound", "old")
        life.wire.before.append(on("DELETE", "/pods/old")(slow))
        await life.create(pod("new", "high", node_selector={"for": "a"}))
        await life.until_seen("attempted", "new")
        await life.create(pod("other", node_selector={"for": "b"}))
        await asyncio.sleep(2)
        is_bound = await life.node_of("other") == "b"
        await life.until_seen("bound", "other")
        await life.until(lambda: deletions(life) == ["old"])
        await life.settle()
        await life.delete("old")
        await life.until_seen("bound", "new")
        return is_bound


@virtually
async def test_other_pods_are_scheduled_while_victims_are_evicted() -> None:
    assert await bound_meanwhile()


@virtually
async def test_without_async_preemption_other_pods_wait_for_the_evictions() -> None:
    assert not await bound_meanwhile(feature_gates={"SchedulerAsyncPreemption": False})


class PreBinds:
    name = "PreBinds"

    def pre_bind_pre_flight(self, cycle: Any, node_name: str) -> Skip | None:
        return None

    async def pre_bind(self, cycle: Any, node_name: str) -> None:
        await asyncio.sleep(5)


async def announced(**options: Any) -> str | None:
    """Returns the nominated node of a pod in PreBind."""
    async with run_scheduler(small(), plugins=[PreBinds()], **options) as life:
        await life.create(pod("web"))
        await asyncio.sleep(2)
        node: str | None = await nominated(life, "web")
        await life.until_seen("bound", "web")
        return node


@virtually
async def test_the_node_is_announced_before_pre_bind() -> None:
    assert await announced() == "a"


@virtually
async def test_without_the_gate_the_node_is_not_announced() -> None:
    assert not await announced(feature_gates={"NominatedNodeNameForExpectation": False})


def test_without_the_gate_match_label_keys_are_not_read() -> None:
    constraint = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["pod-template-hash"],
    }
    labels = {"app": "web", "pod-template-hash": "new"}
    web = make_pod("web", labels=labels, spec={"topologySpreadConstraints": [constraint]})
    old = make_pod("old", labels={**labels, "pod-template-hash": "old"}, node="a")
    nodes = [make_node(name, labels={"zone": name}) for name in "ab"]
    rejected = {}
    for is_on in (True, False):
        plugin = PodTopologySpread(gates={"MatchLabelKeysInPodTopologySpread": is_on})
        harness = Harness([*nodes, old], [plugin])
        rejected[is_on] = sorted(harness.decide(web).decision.rejected)
    assert rejected == {True: [], False: ["a"]}
