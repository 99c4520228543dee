"""A running scheduler on both API servers, with concurrent changes by other clients.

Afterwards no pod is lost, none is bound twice, and no node has more than it can take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mooring.client import Client
from mooring.clock import seeded_random
from mooring.errors import AlreadyExists, ApiError, Conflict, NotFound, OutcomeUnknown, Unreachable
from mooring.objects import Pod
from mooring.testing import make_pod
from tests.integration.schedulers import (
    CREATORS,
    Bound,
    InMemory,
    Real,
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
from tests.integration.test_client_faults import Proxy

pytestmark = pytest.mark.slow

NODES, PODS, CUTS = 500, 3000, 4
GATES = {"spec": {"schedulingGates": None}}


@pytest.fixture(params=["real", "embedded"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    """Yields one of each kind for one test, which may kill it."""
    if request.param == "embedded":
        with in_memory(tmp_path) as found:
            yield found
        return
    request.getfixturevalue("programs")
    with real() as found:
        yield found


class Crowd:
    """Creates pods, and does to every fifth of them what may happen to a pod."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.rng = seeded_random(3)
        self.gated: list[str] = []
        self.gone: set[str] = set()

    async def live(self) -> None:
        """Creates all pods, several at a time."""
        numbers = iter(range(PODS))

        async def create() -> None:
            for number in numbers:
                await self.one(number)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(CREATORS):
                tasks.create_task(create())

    async def one(self, number: int) -> None:
        """Creates a pod, and changes, deletes or binds it."""
        name, fate = f"pod-{number:04}", number % 20
        if fate == 3:
            await self.bound_by_others(name)
            return
        cpu = self.rng.choice(["250m", "500m", "1"])
        gates = ["example.com/wait"] if fate == 0 else []
        pod = make_pod(name, requests={"cpu": cpu}, gates=gates)
        await self.client.create(pod)
        if fate == 0:
            self.gated.append(name)
        elif fate in (1, 2):
            # At once, or when it may be in the middle of its attempt, or on its node.
            await asyncio.sleep(self.rng.choice([0, 0.005, 0.05]))
            await self.client.delete("Pod", name, "default", grace_period_s=0)
            if fate == 1:
                self.gone.add(name)
            else:
                await self.client.create(pod)

    async def bound_by_others(self, name: str) -> None:
        """Creates a pod without requests and binds it, unless the scheduler is faster."""
        stored = await self.client.create(make_pod(name))
        with suppress(Conflict):
            await self.client.bind(stored, f"node-{self.rng.randrange(NODES):03}")

    async def open_gates(self) -> None:
        """Removes the gates of all gated pods."""
        for name in self.gated:
            await self.client.patch("Pod", name, GATES, namespace="default")


async def cut_now_and_then(proxy: Proxy, bound: Bound) -> None:
    """Resets every connection of the scheduler, watches and bindings, a few times."""
    for number in range(1, CUTS + 1):
        await until(lambda: len(bound.times) >= number * PODS // 10)  # noqa: B023
        proxy.cut_all()


def test_three_thousand_pods_are_bound_whatever_happens_to_them(server: Server) -> None:
    async def main() -> None:
        bound = Bound()
        port = int(server.access().server.rpartition(":")[2])
        async with (
            Proxy(port, seeded_random(4)).running() as proxy,
            transport_to(server.access()) as way,
            transport_to(server.access("mooring"), proxy.url) as scheduler_way,
        ):
            client = Client(way, rng=seeded_random(0))
            crowd = Crowd(client)
            await create_all(client, nodes(NODES))
            async with scheduling(scheduler_way, observer=bound) as service:
                await service.wait_until_synced()
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(crowd.live())
                    tasks.create_task(cut_now_and_then(proxy, bound))
                await crowd.open_gates()
                await until(lambda: not service.queue.pods())
                await assert_at_rest(service, client)
                await assert_sound(client)
                pods = await pods_of(client)
                assert len(pods) == PODS - len(crowd.gone)
                assert all(pod.spec.node_name for pod in pods)
                assert set(bound.times.values()) == {1}
                # Those of others are not ours; all the rest are.
                assert len(bound.times) >= len(pods) - PODS // 20

    run(main)


class Stubborn:
    """Creates pods whether the server is there or not."""

    def __init__(self, client: Client, pods: list[Pod]) -> None:
        self._client = client
        self._pods = iter(pods)

    async def work(self) -> None:
        for pod in self._pods:
            while not await self._create(pod):  # noqa: ASYNC110 - it is away for a while
                await asyncio.sleep(0.05)

    async def _create(self, pod: Pod) -> bool:
        try:
            await self._client.create(pod)
        except AlreadyExists:
            return True
        except (Unreachable, OutcomeUnknown, ApiError):
            return False
        return True


def small_pods(count: int) -> list[Pod]:
    return [make_pod(f"pod-{number:04}", requests={"cpu": "500m"}) for number in range(count)]


def test_a_real_server_that_is_killed_in_the_middle_loses_no_pod(programs: Path) -> None:
    async def main(server: Real) -> None:
        bound = Bound()
        async with (
            transport_to(server.access()) as way,
            transport_to(server.access("mooring")) as scheduler_way,
        ):
            client = Client(way, rng=seeded_random(0))
            await create_all(client, nodes(120))
            async with (
                scheduling(scheduler_way, observer=bound) as service,
                asyncio.TaskGroup() as tasks,
            ):
                await service.wait_until_synced()
                stubborn = Stubborn(client, small_pods(900))
                for _ in range(8):
                    tasks.create_task(stubborn.work())
                await until(lambda: len(bound.times) > 300)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                await until(lambda: len(service.cache.pods) == 900)
                await assert_at_rest(service, client)
                await assert_sound(client)
                pods = await pods_of(client)
                assert sum(bool(pod.spec.node_name) for pod in pods) == 900
                assert set(bound.times.values()) == {1}
                assert len(bound.times) == 900

    with real() as server:
        assert isinstance(server, Real)
        run(lambda: main(server))


def test_an_embedded_server_that_is_killed_goes_back_in_time_and_loses_no_pod(
    tmp_path: Path,
) -> None:
    """What was bound since the file was saved is pending again, and known under old versions."""

    async def main(server: InMemory) -> None:
        bound = Bound()
        async with transport_to(server.access()) as way:
            client = Client(way, rng=seeded_random(0))
            await create_all(client, nodes(120))
            await create_all(client, small_pods(900))
            # Its own connections, left open, would be warnings at its end.
            await way.close()
            await asyncio.to_thread(server.save)
            await asyncio.to_thread(server.start)
            await way.renew(server.access())
            async with (
                transport_to(server.access()) as scheduler_way,
                scheduling(scheduler_way, observer=bound) as service,
            ):
                await until(lambda: len(bound.times) > 300)
                # No watch event reports bindings that were acknowledged and then lost.
                scheduler_way.gate.clear()
                await until(lambda: not scheduler_way.sent)
                await until(lambda: service.cache.assumed_count() == len(service.bindings) > 0)
                await asyncio.to_thread(server.kill)
                await asyncio.to_thread(server.start)
                await way.renew(server.access())
                assert not any(pod.spec.node_name for pod in await pods_of(client))
                await scheduler_way.renew(server.access())
                scheduler_way.gate.set()
                await until(lambda: service.informers["Pod"].statistics().lists == 2)
                await until(lambda: not service.queue.pods() and service.is_settled)
                await assert_at_rest(service, client)
                await assert_sound(client)
                pods = await pods_of(client)
                assert sum(bool(pod.spec.node_name) for pod in pods) == 900

    with in_memory(tmp_path) as server:
        assert isinstance(server, InMemory)
        run(lambda: main(server))


def test_a_pod_that_is_gone_for_ever_is_not_looked_for(server: Server) -> None:
    async def main() -> None:
        async with (
            transport_to(server.access()) as way,
            transport_to(server.access("mooring")) as scheduler_way,
        ):
            client = Client(way, rng=seeded_random(0))
            await create_all(client, nodes(1, pods="1"))
            async with scheduling(scheduler_way) as service:
                await client.create(make_pod("first"))
                await until(lambda: len(service.cache.pods) == 1)
                await client.create(make_pod("second"))
                await until(lambda: len(service.queue.pods()) == 1)
                await client.delete("Pod", "second", "default", grace_period_s=0)
                await until(lambda: not service.queue.pods())
                with pytest.raises(NotFound):
                    await client.get("Pod", "second", "default")
                await assert_at_rest(service, client)

    run(main)
