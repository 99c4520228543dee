"""NoExecute taints of nodes evict their pods. Source: pkg/controller/tainteviction."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
from msgspec.structs import replace

from mooring.clock import Rng
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.scenario.taint_eviction import TaintEvictionController
from mooring.simulation.engine.object_table import ObjectTable
from mooring.testing.builders import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.virtual_loop import run_virtually

Toleration = dict[str, Any]
Taints = Sequence[str]

A: Final = "a:NoExecute"
B: Final = "b:NoExecute"
END_S: Final = 1000.0


def tolerated(taint: str = "", seconds: int | None = None, **fields: Any) -> Toleration:
    """Returns a toleration of a key ("" = every key), for a time or for ever."""
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", **limit, **fields}


class Cluster:
    """A node with taints, a pod on it, and the times at which the pod is evicted."""

    def __init__(self, tolerations: Sequence[Toleration], *, compares: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.clock = LoopClock(loop)
        self.evicted_s: list[float] = []
        self.pod = make_pod("web", node="n", tolerations=tolerations)
        self.table = ObjectTable([make_node("n"), self.pod], clock=self.clock)
        self.controller = TaintEvictionController(
            self.table,
            clock=self.clock,
            call_later=lambda wait_s, run: void(loop.call_later(wait_s, run)),
            pods_on=lambda _: [*self.table.objects("Pod").values()],
            evict=self.evict,
            compares=compares,
        )
        self.begin_s = self.clock.monotonic_s()

    def evict(self, pod: Pod) -> None:
        self.evicted_s.append(self.clock.monotonic_s() - self.begin_s)
        self.table.delete("Pod", key(pod), grace_period_s=0)

    def taint(self, taints: Taints) -> None:
        self.table.put(make_node("n", taints=taints))


def void(_: object) -> None:
    """Drops a value."""


def evictions(
    tolerations: Sequence[Toleration], taints: Mapping[float, Taints], *, compares: bool = False
) -> list[float]:
    """Returns when a pod is evicted whose node has other taints at some times."""

    async def run() -> list[float]:
        cluster = Cluster(tolerations, compares=compares)
        cluster.controller.start()
        loop = asyncio.get_running_loop()
        for at_s, own in taints.items():
            loop.call_later(at_s, cluster.taint, own)
        await asyncio.sleep(END_S)
        return cluster.evicted_s

    return run_virtually(run(), Rng(0))


@pytest.mark.parametrize(
    ("tolerations", "taints", "expected_s"),
    [
        pytest.param([], {10: [A]}, [10], id="not tolerated"),
        pytest.param([], {10: ["a:NoSchedule"]}, [], id="another effect"),
        pytest.param([tolerated("a")], {10: [A]}, [], id="for ever"),
        pytest.param([tolerated("a", 60)], {10: [A]}, [70], id="for a time"),
        pytest.param([tolerated("a", -5)], {10: [A]}, [10], id="a negative time"),
        pytest.param([tolerated("a", 60)], {10: [A], 69: []}, [], id="the taint is removed"),
        pytest.param([tolerated("a", 60)], {10: [A], 30: [], 40: [A]}, [100], id="it comes back"),
        pytest.param([tolerated("a", 60)], {10: [A, B]}, [10], id="of two, one untolerated"),
        pytest.param(
            [tolerated("a", 60), tolerated("b", 20)], {10: [A, B]}, [30], id="the shortest time"
        ),
        pytest.param([tolerated("a"), tolerated("b", 20)], {10: [A, B]}, [30], id="one for ever"),
        pytest.param(
            [tolerated("a", 60), tolerated("", 20)], {10: [A]}, [70], id="the first that matches"
        ),
        pytest.param(
            [tolerated("a"), tolerated("a", 20)], {10: [A]}, [], id="the first is for ever"
        ),
        pytest.param(
            [tolerated("", 60)], {10: [A], 40: [B]}, [70], id="the time goes on with another taint"
        ),
        pytest.param(
            [tolerated("a", 60), tolerated("b", 5)],
            {10: [A], 20: [A, B]},
            [70],
            id="a shorter time that comes later does not count",
        ),
        pytest.param(
            [tolerated("a", 60)], {10: [A], 20: [A, B]}, [20], id="an untolerated taint comes"
        ),
        pytest.param(
            [tolerated("a", 60), tolerated("b")],
            {10: [A], 20: [B]},
            [],
            id="only one that is tolerated for ever is left",
        ),
        pytest.param(
            [tolerated("a", 60)],
            {10: [A], 20: [A, "c:NoSchedule"]},
            [70],
            id="another effect changes nothing",
        ),
    ],
)
def test_a_pod_is_evicted_as_its_tolerations_say(
    tolerations: list[Toleration], taints: dict[float, Taints], expected_s: list[float]
) -> None:
    assert evictions(tolerations, taints) == pytest.approx(expected_s)


def test_two_changes_at_one_instant_count_as_one() -> None:
    async def run() -> list[float]:
        cluster = Cluster([tolerated("a", 60), tolerated("b", 5)])
        cluster.controller.start()
        cluster.taint([A])
        cluster.taint([A, B])
        await asyncio.sleep(END_S)
        return cluster.evicted_s

    assert run_virtually(run()) == pytest.approx([5])


@pytest.mark.parametrize(("compares", "expected_s"), [(False, [10]), (True, [70])])
def test_operators_that_compare_need_their_gate(compares: bool, expected_s: list[float]) -> None:
    toleration = tolerated("level", 60, operator="Gt", value="3")
    actual_s = evictions([toleration], {10: ["level=5:NoExecute"]}, compares=compares)
    assert actual_s == pytest.approx(expected_s)


def test_a_toleration_that_a_patch_adds_counts() -> None:
    async def run() -> list[float]:
        cluster = Cluster([tolerated("a", 60)])
        cluster.controller.start()
        cluster.taint([A])
        await asyncio.sleep(30)
        other = make_pod("web", node="n", tolerations=[tolerated("a")])
        cluster.table.put(replace(cluster.pod, spec=other.spec))
        await asyncio.sleep(END_S)
        return cluster.evicted_s

    assert run_virtually(run()) == []


def test_a_pod_that_is_replaced_has_its_own_time() -> None:
    async def run() -> list[float]:
        cluster = Cluster([tolerated("a", 60)])
        cluster.controller.start()
        cluster.taint([A])
        await asyncio.sleep(30)
        cluster.table.delete("Pod", "default/web", grace_period_s=0)
        cluster.table.create(cluster.pod)
        await asyncio.sleep(END_S)
        return cluster.evicted_s

    assert run_virtually(run()) == pytest.approx([90])


def test_taints_of_the_start_count() -> None:
    async def run() -> list[float]:
        cluster = Cluster([])
        cluster.taint([A])
        cluster.controller.start()
        await asyncio.sleep(END_S)
        return cluster.evicted_s

    assert run_virtually(run()) == [0]


def test_a_finished_pod_stays() -> None:
    async def run() -> list[float]:
        cluster = Cluster([tolerated("a", 60)])
        cluster.controller.start()
        cluster.taint([A])
        done = replace(cluster.pod, status=replace(cluster.pod.status, phase="Succeeded"))
        cluster.table.put(done)
        await asyncio.sleep(END_S)
        return cluster.evicted_s

    assert run_virtually(run()) == []
