"""Schedulers that share a lease: one of them writes at a time, and another takes over in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import ADMIN, IDENTITIES
from mooring.client import Client, InProcessTransport
from mooring.client.transport.transport import Request
from mooring.clock import seeded_random
from mooring.config import default_configuration
from mooring.errors import LeaseLost, OutcomeUnknown
from mooring.objects.meta import Lease, LeaseSpec, ObjectMeta
from mooring.scheduler.leader_election import make_coordinated_elector, make_elector
from mooring.scheduler.service import Service, ServiceOptions
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import HookTransport, virtually

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


class Replica:
    """One scheduler with its own transport, and how it ended."""

    def __init__(
        self, api: ApiServer, seed: int, *, make: Any = make_elector, **changes: Any
    ) -> None:
        clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(seed)
        headers = IDENTITIES["mooring"].headers()
        self.wire = HookTransport(InProcessTransport(api.handle, headers=headers))
        config = default_configuration()
        for name, value in changes.items():
            config = _with(config, name, value)
        elector = make(self.wire, config, clock=clock, rng=rng)
        assert elector is not None
        self.elector = elector
        self.service = Service(
            Client(self.wire, rng=rng, fence=self.elector.fence),
            config,
            clock=clock,
            rng=rng,
            options=ServiceOptions(elector=self.elector),
        )
        self.error: BaseException | None = None

    async def run(self) -> None:
        try:
            await self.service.run()
        except LeaseLost as error:
            self.error = error

    @property
    def writes(self) -> list[Request]:
        return [
            request
            for request in self.wire.requests
            if request.method != "GET" and "/leases" not in request.path
        ]


def _with(config: Any, name: str, value: Any) -> Any:

    return msgspec.structs.replace(config, **{name: value})


class Cluster:
    """An API server, replicas, and an administrator."""

    def __init__(self) -> None:
        clock = LoopClock(asyncio.get_running_loop())
        self.api = ApiServer(clock, seeded_random(9))
        transport = InProcessTransport(self.api.handle, headers=ADMIN.headers())
        self.client = Client(transport, rng=seeded_random(9))
        self.replicas: list[Replica] = []
        self.tasks: dict[Replica, asyncio.Task[None]] = {}

    def start(self, **changes: Any) -> Replica:
        replica = Replica(self.api, len(self.replicas), **changes)
        self.replicas.append(replica)
        self.tasks[replica] = asyncio.create_task(replica.run())
        return replica

    async def lease(self) -> Any:
        return (await self.client.get("Lease", "kube-scheduler", "kube-system")).spec

    async def node_of(self, name: str) -> str:
        return str((await self.client.get("Pod", name, "default")).spec.node_name)

    async def seconds_until(self, replica: Replica, *, at_most: float = 60.0) -> float:
        """Returns the seconds until a replica schedules."""
        loop = asyncio.get_running_loop()
        begun_s = loop.time()
        async with asyncio.timeout(at_most):
            await replica.service.wait_until_synced()
        return loop.time() - begun_s


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    """Yields a cluster; replicas that still run at the end are cancelled."""
    found = Cluster()
    await found.client.create(make_node("a"))
    yield found
    for task in found.tasks.values():
        task.cancel()
    await asyncio.wait(found.tasks.values())


@virtually
async def test_the_first_replica_leads_and_the_second_one_writes_nothing() -> None:
    async with cluster() as world:
        one = world.start()
        assert await world.seconds_until(one) < 1
        two = world.start()
        await world.client.create(make_pod("web"))
        await asyncio.sleep(30)
        assert await world.node_of("web") == "a"
        assert two.writes == []
        assert (await world.lease()).holder_identity == one.elector.identity
        # It is ready to take over: it knows the pod and its node.
        assert len(two.service.cache.pods) == 1


@virtually
async def test_the_leader_is_recorded_as_an_event_of_the_lease() -> None:
    async with cluster() as world:
        one = world.start()
        await world.seconds_until(one)
        await asyncio.sleep(1)
        (event,) = (await world.client.list("Event", "kube-system")).items
        assert (event.type, event.reason) == ("Normal", "LeaderElection")
        assert event.note == f"{one.elector.identity} became leader"
        assert (event.regarding.kind, event.regarding.name) == ("Lease", "kube-scheduler")


@virtually
async def test_a_leader_that_is_stopped_hands_over_at_once() -> None:
    async with cluster() as world:
        one = world.start()
        await world.seconds_until(one)
        two = world.start()
        await asyncio.sleep(10)
        one.service.stop()
        assert await world.seconds_until(two) <= 2.0 * 2.2 + 0.1, "its next try"
        assert one.error is None
        assert (await world.lease()).lease_transitions == 1


@virtually
async def test_a_leader_that_is_gone_is_followed_when_its_lease_has_ended() -> None:
    async with cluster() as world:
        one = world.start()
        await world.seconds_until(one)
        two = world.start()
        await asyncio.sleep(10)
        world.tasks[one].cancel()
        assert 11 <= await world.seconds_until(two) < 20
        await world.client.create(make_pod("web"))
        await asyncio.sleep(1)
        assert await world.node_of("web") == "a"


@virtually
async def test_a_leader_without_an_answer_stops_before_another_one_begins() -> None:
    async def hang(request: Request) -> None:
        await asyncio.sleep(request.deadline_s)
        raise OutcomeUnknown("no response")

    async with cluster() as world:
        one = world.start()
        await world.seconds_until(one)
        two = world.start()
        await asyncio.sleep(10)
        one.wire.before.append(hang)
        cut_s = asyncio.get_running_loop().time()
        await asyncio.wait([world.tasks[one]])
        assert isinstance(one.error, LeaseLost)
        assert asyncio.get_running_loop().time() - cut_s <= 10.1
        assert not two.service.has_synced
        sent = len(one.wire.requests)
        assert await world.seconds_until(two) < 10
        assert len(one.wire.requests) == sent


@virtually
async def test_a_leader_whose_lease_was_taken_stops_at_its_next_renewal() -> None:
    async with cluster() as world:
        one = world.start()
        await world.seconds_until(one)
        await world.client.patch(
            "Lease",
            "kube-scheduler",
            {"spec": {"holderIdentity": "thief"}},
            namespace="kube-system",
        )
        await asyncio.sleep(5)
        assert isinstance(one.error, LeaseLost)
        assert (await world.lease()).holder_identity == "thief"


@virtually
async def test_a_lease_that_is_deleted_is_made_again_and_the_leader_stays() -> None:
    async with cluster() as world:
        one = world.start()
        await world.seconds_until(one)
        before = await world.lease()
        await asyncio.sleep(5)
        await world.client.delete("Lease", "kube-scheduler", "kube-system")
        await asyncio.sleep(5)
        after = await world.lease()
        assert one.error is None
        assert after.holder_identity == one.elector.identity
        assert (after.acquire_time, after.lease_transitions) == (before.acquire_time, 0)


@virtually
async def test_a_standby_that_is_stopped_ends_without_a_word() -> None:
    async with cluster() as world:
        one = world.start()
        await world.seconds_until(one)
        two = world.start()
        await asyncio.sleep(5)
        two.service.stop()
        await world.tasks[two]
        assert two.error is None
        assert (await world.lease()).holder_identity == one.elector.identity


@virtually
async def test_a_standby_may_follow_the_cluster_only_when_it_leads() -> None:
    async with cluster() as world:
        one = world.start()
        await world.seconds_until(one)
        two = world.start(delay_cache_until_active=True)
        await asyncio.sleep(30)
        assert {request.path for request in two.wire.requests} == {LEASE}
        one.service.stop()
        assert await world.seconds_until(two) < 5


@virtually
async def test_bindings_under_way_end_before_the_lease_is_released() -> None:
    async with cluster() as world:
        one = world.start()
        await world.seconds_until(one)

        async def slowly(request: Request) -> None:
            if request.path.endswith("/binding"):
                await asyncio.sleep(3)

        one.wire.before.append(slowly)
        await world.client.create(make_pod("web"))
        await asyncio.sleep(1)
        one.service.stop()
        await world.tasks[one]
        assert await world.node_of("web") == "a"
        paths = [(request.method, request.path) for request in one.wire.requests]
        assert paths[-1] == ("PUT", LEASE)
        assert (await world.lease()).holder_identity == ""


@virtually
async def test_a_binding_that_does_not_end_keeps_the_lease_from_being_released() -> None:
    async with cluster() as world:
        one = world.start()
        await world.seconds_until(one)

        async def hang(request: Request) -> None:
            if request.path.endswith("/binding"):
                await asyncio.sleep(1000)

        one.wire.before.append(hang)
        await world.client.create(make_pod("web"))
        await asyncio.sleep(1)
        one.service.stop()
        await world.tasks[one]
        assert (await world.lease()).holder_identity == one.elector.identity


@virtually
async def test_the_watchdog_fails_when_a_leader_has_not_renewed_for_too_long() -> None:
    async with cluster() as world:
        one = world.start()
        assert one.elector.check_health() is None
        await world.seconds_until(one)
        world.tasks[one].cancel()  # its renewals stall, as if its loop hung
        await asyncio.sleep(34)
        assert one.elector.check_health() is None
        await asyncio.sleep(3)
        problem = one.elector.check_health()
        assert problem == "failed election to renew leadership on lease kube-scheduler"


@virtually
async def test_a_coordinated_replica_leads_for_a_term_and_hands_over() -> None:
    async with cluster() as world:
        one = world.start(make=make_coordinated_elector)
        await asyncio.sleep(20)
        assert not one.service.has_synced
        spec = LeaseSpec(
            holder_identity=one.elector.identity,
            lease_duration_seconds=5,
            strategy="OldestEmulationVersion",
        )
        metadata = ObjectMeta(name="kube-scheduler", namespace="kube-system")
        await world.client.create(Lease(metadata=metadata, spec=spec))
        assert await world.seconds_until(one) <= 4.5
        await world.client.create(make_pod("web"))
        await asyncio.sleep(30)
        assert await world.node_of("web") == "a"

        async def slowly(request: Request) -> None:
            if request.path.endswith("/binding"):
                await asyncio.sleep(3)

        one.wire.before.append(slowly)
        await world.client.create(make_pod("last"))
        await asyncio.sleep(1)
        preferred = {"spec": {"preferredHolder": "two"}}
        await world.client.patch("Lease", "kube-scheduler", preferred, namespace="kube-system")
        await asyncio.wait([world.tasks[one]])
        assert str(one.error) == "another candidate is to lead"
        assert await world.node_of("last") == "a", "a binding in progress is finished"
        lease = await world.lease()
        assert (lease.holder_identity, lease.preferred_holder) == ("", None)


def test_no_election_means_no_candidate() -> None:
    from mooring.config.types import LeaderElection

    config = _with(default_configuration(), "leader_election", LeaderElection(leader_elect=False))
    transport: Any = None
    clock: Any = None
    assert make_elector(transport, config, clock=clock, rng=seeded_random(0)) is None


@pytest.mark.parametrize("seed", range(20))
def test_two_replicas_never_write_at_the_same_time(seed: int) -> None:
    @virtually
    async def main() -> None:
        rng = seeded_random(seed)
        loop = asyncio.get_running_loop()
        writers: list[tuple[float, int]] = []

        def troubled(replica: Replica, number: int) -> None:
            async def trouble(request: Request) -> None:
                if request.method != "GET" and "/leases" not in request.path:
                    writers.append((loop.time(), number))
                elif rng.random() < 0.3:
                    await asyncio.sleep(rng.random() * 12)
                if rng.random() < 0.08:
                    raise OutcomeUnknown("lost")

            replica.wire.before.append(trouble)

        async with cluster() as world:
            for number in range(3):
                troubled(world.start(), number)
            for number in range(60):
                await asyncio.sleep(2)
                await world.client.create(make_pod(f"p{number}"))
                if rng.random() < 0.1:
                    troubled(world.start(), len(world.replicas))
            assert writers
            # Each term of a writer ends before that of the next one begins.
            order = [number for _, number in writers]
            terms = [order[at] for at in range(len(order)) if not at or order[at] != order[at - 1]]
            assert len(terms) == len(set(terms)), "no replica writes again after another one"

    main()
