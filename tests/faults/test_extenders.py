"""F22: extenders that are slow, return invalid results or are down, in a changing cluster.

Every invariant is checked after every step; after the faults, all pods must be bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.clock import Rng, seeded_random
from mooring.errors import ApiError
from mooring.extenders.http import NoResponse
from tests.faults.fault_fixture import Lab, run_in_lab, small_node, small_pod
from tests.faults.harness.records import compared
from tests.helpers.extenders import Play, configured, extender, names_in

NODES = 6
PODS = 40
STEPS = 120
SEEDS = range(10)

INVALID_RESULTS: list[Any] = [
    {"NodeNames": ["moon"]},
    {"Error": "out of order"},
    b"<html>",
    [{"Host": "n0", "Score": 10**30}],
    [{"Host": "n0", "Score": -7}],
    {"NodeNameToMetaVictims": {"moon": {"Pods": [{"UID": "x"}]}}},
    {},
    None,
]


class FaultyExtender:
    """Waits up to six seconds, fails, rejects nodes, or returns invalid results."""

    def __init__(self, rng: Rng) -> None:
        self.is_correct = False
        self.play = Play(filter=self._filter, prioritize=self._prioritize)
        self.play.think = self._think
        self._rng = rng

    async def _think(self, _: str, __: str) -> None:
        if self.is_correct:
            return
        await asyncio.sleep(self._rng.choice([0.0, 0.01, 0.3, 6.0]))
        if self._rng.random() < 0.2:
            raise NoResponse("no answer in 5 s")

    def _filter(self, arguments: dict[str, Any]) -> Any:
        names = names_in(arguments)
        if self.is_correct:
            return _filter_result(arguments, names)
        if self._rng.random() < 0.2:
            return self._rng.choice(INVALID_RESULTS)
        buffered = [name for name in names if self._rng.random() < 0.7]
        rejected = [name for name in names if name not in buffered]
        failed = {"FailedNodes": dict.fromkeys(rejected, "rejected")}
        return _filter_result(arguments, buffered[::-1]) | failed

    def _prioritize(self, arguments: dict[str, Any]) -> Any:
        if not self.is_correct and self._rng.random() < 0.2:
            return self._rng.choice(INVALID_RESULTS)
        return [{"Host": name, "Score": self._rng.randrange(11)} for name in names_in(arguments)]


def _filter_result(arguments: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Returns a result in the form of the request."""
    if arguments["NodeNames"] is not None:
        return {"NodeNames": names}
    return {"Nodes": {"items": [{"metadata": {"name": name}} for name in names]}}


class RandomUser:
    """Changes the cluster: creates, deletes and taints nodes; creates, deletes and labels pods."""

    def __init__(self, lab: Lab, rng: Rng) -> None:
        self._lab = lab
        self._rng = rng
        self._number = 0

    async def run(self, steps: int) -> None:
        kinds: list[Callable[[], Awaitable[Any]]] = [
            self._add_pod, self._add_pod, self._add_pod, self._delete_pod, self._label_pod,
            self._taint, self._untaint, self._cordon, self._delete_node, self._add_node,
        ]  # fmt: skip
        for _ in range(steps):
            await asyncio.sleep(self._rng.choice([0.0, 0.05, 0.5]))
            try:
                await self._rng.choice(kinds)()
            except ApiError:
                continue  # the object does not exist, or exists already

    def _some_pod(self) -> str:
        return f"p{self._rng.randrange(max(1, self._number))}"

    def _some_node(self) -> str:
        return f"n{self._rng.randrange(NODES)}"

    async def _add_pod(self) -> None:
        if self._number < PODS:
            self._number += 1
            await self._lab.add(small_pod(f"p{self._number}"))

    async def _delete_pod(self) -> None:
        await self._lab.user.delete("Pod", self._some_pod(), "default", grace_period_s=0)

    async def _label_pod(self) -> None:
        labels = {"metadata": {"labels": {"tier": str(self._rng.randrange(3))}}}
        await self._lab.user.patch("Pod", self._some_pod(), labels, namespace="default")

    async def _patch(self, spec: dict[str, Any]) -> None:
        await self._lab.user.patch("Node", self._some_node(), {"spec": spec})

    async def _taint(self) -> None:
        await self._patch({"taints": [{"key": "away", "effect": "NoSchedule"}]})

    async def _untaint(self) -> None:
        await self._patch({"taints": None, "unschedulable": None})

    async def _cordon(self) -> None:
        await self._patch({"unschedulable": True})

    async def _delete_node(self) -> None:
        name = self._some_node()
        pods = [pod for pod in self._lab.store.pods.values() if pod.spec.node_name == name]
        await self._lab.user.delete("Node", name)
        for pod in pods:  # as the pod garbage collector does
            await self._lab.user.delete("Pod", pod.metadata.name, "default", grace_period_s=0)

    async def _add_node(self) -> None:
        await self._lab.add(small_node(self._some_node(), pods=PODS))

    async def repair(self) -> None:
        for number in range(NODES):
            try:
                spec = {"spec": {"taints": None, "unschedulable": None}}
                await self._lab.user.patch("Node", f"n{number}", spec)
            except ApiError:
                await self._lab.add(small_node(f"n{number}", pods=PODS))


def run_extenders(seed: int) -> FaultyExtender:
    """Runs a seed; an exception if an invariant is violated."""
    rng = seeded_random(seed)
    extenders = FaultyExtender(rng)
    config = configured(
        extender("ignorable", "filter", "prioritize", ignorable=True),
        extender("strict", "filter", "prioritize"),
        extender("whole", "filter", nodeCacheCapable=False, ignorable=True),
    )

    async def work(lab: Lab) -> None:
        random_user = RandomUser(lab, rng)
        await lab.add(*(small_node(f"n{number}", pods=PODS) for number in range(NODES)))
        async with lab.running():
            await random_user.run(STEPS)
            extenders.is_correct = True
            await random_user.repair()
            await lab.wait_until(
                lambda: (
                    all(pod.spec.node_name for pod in lab.store.pods.values()) and lab.is_idle()
                ),
                within_s=400.0,  # pods rejected by an extender may wait five minutes
                every_s=0.5,
            )

    run_in_lab(work, seed=seed, config=config, transport_factory=extenders.play.transport_factory)
    return extenders


@pytest.mark.parametrize("seed", SEEDS)
def test_f22_extenders_extenders_and_a_cluster_that_changes_break_nothing(seed: int) -> None:
    extenders = compared("extender", seed, run_extenders)
    assert {verb for _, verb, _ in extenders.play.asked} == {"filter", "prioritize"}
