"""A whole cluster in one process: seeded, filled, settled, and ended."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from mooring.apiserver.auth.authentication import ADMIN
from mooring.clock import seeded_random
from mooring.config import KubeSchedulerConfiguration, loads
from mooring.devcluster.cluster import InMemoryCluster
from mooring.devcluster.seeding import Seed, seeds_of_objects
from mooring.errors import ConfigError, InvariantViolation
from mooring.framework import Wait
from mooring.queue import QueueName
from mooring.scheduler.service import ServiceOptions
from mooring.simulation.engine.engine import ERRORS_MAX
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.running_scheduler import virtually


class Fails:
    """Fails at pods called poison."""

    name = "Fails"

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.calls = 0

    def pre_filter(self, cycle: Any) -> None:
        if cycle.pod.metadata.name == "poison":
            self.calls += 1
            raise self.error


class Holds:
    """Lets every pod wait in Permit until it times out; any event brings it back."""

    name = "Holds"

    def permit(self, cycle: Any, node_name: str) -> Wait:
        return Wait(30.0)


@asynccontextmanager
async def cluster(*objects: Any, plugins: Any = (), **more: Any) -> AsyncIterator[InMemoryCluster]:
    clock = LoopClock(asyncio.get_running_loop())
    found = InMemoryCluster(
        clock=clock, rng=seeded_random(0), options=ServiceOptions(plugins=plugins), **more
    )
    pending = await found.seed(seeds_of_objects(objects))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(found.run())
        await found.service.wait_until_synced()
        await found.submit(pending)
        yield found
        found.service.stop()
        await running


@virtually
async def test_pods_that_wait_are_not_part_of_the_seed_but_handed_back() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    found = InMemoryCluster(clock=clock, rng=seeded_random(0))
    seeds = seeds_of_objects([make_pod("web"), make_node("a"), make_pod("there", node="a")])
    pending = await found.seed(seeds)
    assert [seed.metadata["name"] for seed in pending] == ["web"]
    assert [pod.metadata.name for pod in (await found.client.list("Pod")).items] == ["there"]


@virtually
async def test_settled_means_bound_or_refused() -> None:
    async with cluster(
        make_node("a"), make_pod("web"), make_pod("big", requests={"cpu": "40"})
    ) as found:
        await found.settle()
        assert found.is_settled
        assert len(found.service.cache.pods) == 1


@virtually
async def test_each_submitted_pod_is_reported() -> None:
    async with cluster(make_node("a")) as found:
        told: list[str] = []
        pods = seeds_of_objects([make_pod(f"p{number}") for number in range(60)])
        await found.submit(pods, lambda created: told.append(created.metadata.name))
        assert told == [f"p{number}" for number in range(60)]
        await found.settle()
        assert len(found.service.cache.pods) == 60


@virtually
async def test_pods_that_fail_for_ever_do_not_keep_it_from_being_settled() -> None:
    plugin = Fails(ValueError("no"))
    async with cluster(
        make_node("a"), make_pod("poison"), make_pod("web"), plugins=[plugin]
    ) as found:
        await found.settle()
        assert plugin.calls == ERRORS_MAX
        assert len(found.service.cache.pods) == 1


@virtually
async def test_pods_that_wait_in_permit_for_ever_do_not_keep_it_from_being_settled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mooring.devcluster.cluster.STALLED_S", 100.0)
    members = [make_pod("first"), make_pod("second")]
    async with cluster(make_node("a"), *members, plugins=[Holds()]) as found:
        async with asyncio.timeout(200):
            await found.settle()
        assert len(found.service.cache.pods) == found.service.cache.assumed_count()


@virtually
async def test_a_cluster_without_nodes_is_settled_some_time() -> None:
    async with cluster(make_pod("web")) as found:
        await found.settle()
        assert len(found.service.cache.pods) == 0


def test_kubelets_and_the_scheduler_write_without_keeping_other_tasks_waiting() -> None:
    """A connection of the server needs several turns of the loop before it is established."""
    pods = [make_pod(f"p{number}") for number in range(100)]

    async def writes_between_turns() -> list[int]:
        async with cluster(make_node("a"), *pods, with_kubelets=True) as found:
            versions = [found.api.store.version]
            running = 0
            while running < len(pods):
                await asyncio.sleep(0)
                versions.append(found.api.store.version)
                if versions[-1] == versions[-2]:
                    listed = (await found.client.list("Pod")).items
                    running = [pod.status.phase for pod in listed].count("Running")
            return [later - earlier for earlier, later in itertools.pairwise(versions)]

    steps = asyncio.run(writes_between_turns())
    # Each pod is at least set to Running; events and bindings may come earlier or later.
    assert sum(steps) >= len(pods)
    assert max(steps) < 60


@virtually
async def test_kubelets_run_what_is_bound() -> None:
    async with cluster(make_node("a"), make_pod("web"), with_kubelets=True) as found:
        await found.settle()
        await asyncio.sleep(2)
        assert (await found.client.get("Pod", "web", "default")).status.phase == "Running"


@pytest.mark.parametrize(("instant_deletion", "is_there"), [(True, False), (False, True)])
def test_bound_pods_go_at_once_only_if_that_is_wanted(
    instant_deletion: bool, is_there: bool
) -> None:
    @virtually
    async def main() -> None:
        async with cluster(
            make_node("a"), make_pod("web"), instant_deletion=instant_deletion
        ) as found:
            await found.settle()
            await found.client.delete("Pod", "web", "default")
            left = (await found.client.list("Pod")).items
            assert bool(left) is is_there

    main()


@virtually
async def test_time_finishes_what_is_terminating() -> None:
    async with cluster(make_node("a"), make_pod("web")) as found:
        await found.settle()
        await found.client.delete("Pod", "web", "default")
        await asyncio.sleep(40)
        assert (await found.client.list("Pod")).items == ()
        assert len(found.service.cache.pods) == 0


def test_a_bug_of_ours_ends_it() -> None:
    @virtually
    async def main() -> None:
        bug = InvariantViolation("a bug")
        async with cluster(make_node("a"), make_pod("poison"), plugins=[Fails(bug)]):
            await asyncio.sleep(1)

    with pytest.raises(BaseExceptionGroup) as caught:
        main()
    assert caught.value.subgroup(InvariantViolation) is not None


def test_the_same_seed_gives_the_same_world() -> None:
    traces: list[list[tuple[str, str, str]]] = []

    @virtually
    async def main() -> None:
        nodes = [make_node(f"n{number}") for number in range(5)]
        pods = [make_pod(f"p{number}", requests={"cpu": "500m"}) for number in range(50)]
        async with cluster(*nodes, *pods, with_kubelets=True) as found:
            await found.settle()
            await asyncio.sleep(3)
            listed = (await found.client.list("Pod")).items
            traces.append(
                [
                    (pod.metadata.uid, pod.spec.node_name, pod.metadata.resource_version)
                    for pod in listed
                ]
            )

    main()
    main()
    assert traces[0] == traces[1]
    assert len(traces[0]) == 50


def test_a_seed_is_its_raw_object() -> None:
    seed = Seed({"kind": "Node", "metadata": {"name": "n"}})
    assert (seed.kind, seed.source, seed.is_pending_pod) == ("Node", None, False)


# -- another configuration ----------------------------------------------------------------------


def configured(text: str) -> KubeSchedulerConfiguration:
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    return loads(head + text)


@virtually
async def test_another_scheduler_takes_over() -> None:
    second = make_pod("second", requests={"cpu": "1"}, scheduler_name="second")
    full = make_pod("full", requests={"cpu": "9"})
    async with cluster(
        make_node("n", allocatable={"cpu": "4", "pods": "9"}), second, full
    ) as running:
        await running.settle()
        assert running.service.queue.counts()[QueueName.UNSCHEDULABLE] == 1
        old = running.service
        await running.reconfigure(configured("profiles: [{schedulerName: second}]"))
        await running.service.wait_until_synced()
        await running.settle()
        assert running.service is not old
        assert [placed.info.pod.metadata.name for placed in running.service.cache.pods] == [
            "second"
        ]
        assert sum(running.service.queue.counts().values()) == 0  # "full" has no profile now


@virtually
async def test_a_configuration_that_cannot_be_used_changes_nothing() -> None:
    async with cluster(make_node("n", allocatable={"cpu": "4", "pods": "9"})) as running:
        old = running.service
        wrong = configured("profiles: [{plugins: {score: {enabled: [{name: Nothing}]}}}]")
        with pytest.raises(ConfigError, match="Nothing"):
            await running.reconfigure(wrong)
        assert running.service is old
        await running.submit(seeds_of_objects([make_pod("web")]))
        await running.settle()
        assert len(old.cache.pods) == 1


async def health_of_components(simulated: InMemoryCluster) -> dict[str, tuple[str, str]]:
    """Returns status and message of the components, by name."""
    path = "/api/v1/componentstatuses"
    headers = ADMIN.headers()
    _, _, body = await simulated.api.handle("GET", path, [], headers, b"")
    assert isinstance(body, bytes)
    items = msgspec.json.decode(body)["items"]
    return {
        item["metadata"]["name"]: (
            item["conditions"][0]["status"],
            item["conditions"][0]["message"],
        )
        for item in items
    }


REFUSED = {
    name: (
        "False",
        f'Get "https://127.0.0.1:{port}/healthz": '
        f"dial tcp 127.0.0.1:{port}: connect: connection refused",
    )
    for name, port in (("scheduler", 10259), ("controller-manager", 10257))
}


@virtually
async def test_components_are_healthy_while_they_run() -> None:
    async with cluster(make_node("a"), with_controllers=True) as simulated:
        assert await health_of_components(simulated) == {
            "controller-manager": ("True", "ok"),
            "etcd-0": ("True", "ok"),
            "scheduler": ("True", "ok"),
        }
    assert await health_of_components(simulated) == {**REFUSED, "etcd-0": ("True", "ok")}


@virtually
async def test_without_controllers_the_controller_manager_is_unhealthy() -> None:
    async with cluster(make_node("a")) as simulated:
        health = await health_of_components(simulated)
    assert health["controller-manager"] == REFUSED["controller-manager"]
    assert health["scheduler"] == ("True", "ok")


@virtually
async def test_controllers_that_have_not_begun_are_unhealthy() -> None:
    async with cluster(make_node("a"), with_controllers=True, waits_to_begin=True) as simulated:
        health = await health_of_components(simulated)
        assert health["controller-manager"] == REFUSED["controller-manager"]
        simulated.begin()
        health = await health_of_components(simulated)
        assert health["controller-manager"] == ("True", "ok")
