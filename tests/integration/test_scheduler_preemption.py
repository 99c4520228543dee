"""Pods make room for others on both API servers; kubelets let the victims go."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from mooring.client import Client
from mooring.clock import SystemClock, seeded_random
from mooring.devcluster.kubelet.kubelets import Kubelets
from mooring.objects import Pod
from mooring.objects.meta import LabelSelector, ObjectMeta
from mooring.objects.workloads import PodDisruptionBudget, PodDisruptionBudgetSpec
from mooring.testing import make_pod
from tests.integration.schedulers import (
    Bound,
    Server,
    assert_at_rest,
    assert_sound,
    create_all,
    in_memory,
    nodes,
    pods_of,
    real,
    run,
    scheduling,
    transport_to,
    until,
)

pytestmark = pytest.mark.slow

NODES = 10
GOLD = {"tier": "gold"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
BUDGET = PodDisruptionBudget(
    metadata=ObjectMeta(name="gold", namespace="default"),
    spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=GOLD)),
)


@pytest.fixture(params=["real", "embedded"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """Yields one of each kind."""
    if request.param == "embedded":
        with in_memory(tmp_path) as found:
            yield found
        return
    request.getfixturevalue("programs")
    with real() as found:
        yield found


def running() -> list[Pod]:
    """Returns four pods on each node that fill it; one of them is protected."""
    return [
        make_pod(
            f"old-{number:03}-{place}",
            node=f"node-{number:03}",
            requests={"cpu": "1"},
            labels=GOLD if place == 0 else {},
            spec={"terminationGracePeriodSeconds": 1},
        )
        for number in range(NODES)
        for place in range(4)
    ]


def urgent(*names: str) -> list[Pod]:
    """Returns pods that need half of a node, and go first."""
    spec = {"priorityClassName": "urgent"}
    return [make_pod(name, requests={"cpu": "2"}, spec=spec) for name in names]


async def counted(client: Client) -> Counter[str]:
    """Returns the numbers of protected, other earlier, and urgent pods."""
    found: Counter[str] = Counter()
    for pod in await pods_of(client):
        if pod.metadata.deletion_timestamp is None and pod.spec.node_name:
            kind = "old" if pod.metadata.name.startswith("old") else "new"
            found["gold" if pod.metadata.labels == GOLD else kind] += 1
    return found


def test_urgent_pods_land_protected_ones_stay_as_long_as_they_can_and_others_wait(
    server: Server,
) -> None:
    async def main() -> None:
        bound = Bound()
        async with (
            transport_to(server.access()) as way,
            transport_to(server.access("mooring")) as scheduler_way,
        ):
            client = Client(way, rng=seeded_random(0))
            urgently = {"metadata": {"name": "urgent"}, "value": 1000}
            head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            await client.write("POST", CLASSES, msgspec.json.encode({**head, **urgently}))
            await create_all(client, [BUDGET, *nodes(NODES), *running()])
            kubelets = Kubelets(client, clock=SystemClock(), rng=seeded_random(5))
            letting_go = asyncio.create_task(kubelets.run())
            async with scheduling(scheduler_way, observer=bound) as service:
                await service.wait_until_synced()
                await client.create(make_pod("waits", requests={"cpu": "1"}))
                await create_all(client, urgent(*(f"new-{n}" for n in range(NODES))))
                await until(lambda: len(bound.times) == NODES)
                await assert_at_rest(service, client)
                # On each node two of three made room, and none of the protected had to.
                assert await counted(client) == Counter(gold=NODES, old=NODES, new=NODES)

                await create_all(client, urgent("last"))
                await until(lambda: len(bound.times) == NODES + 1)
                await assert_at_rest(service, client)
                assert await counted(client) == Counter(
                    gold=NODES - 1, old=NODES - 1, new=NODES + 1
                )
                await assert_sound(client)
                waits = await client.get("Pod", "waits", "default")
                assert waits.spec.node_name == ""
                assert bound.errors == []
                events = (await client.list("Event", "default")).items
                preempted = [event for event in events if event.reason == "Preempted"]
                assert len(preempted) == 2 * (NODES + 1)
                assert {event.related.name for event in preempted} == {
                    pod.metadata.name for pod in urgent("last", *(f"new-{n}" for n in range(NODES)))
                }
            letting_go.cancel()

    run(main)
