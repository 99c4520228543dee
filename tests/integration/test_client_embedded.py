"""mooring's client and the embedded API server: in process, without a socket, on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec
import pytest

from mooring.apiserver import ApiServer
from mooring.client import Client, Informer, InProcessTransport, ObjectChange
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import AlreadyExists, Conflict, NotFound, TooManyRequests
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.testing import make_node, make_pod

#: Turns of the loop after which whatever is under way in process has come to rest.
TURNS = 200


def client_of(server: ApiServer) -> Client:
    return Client(InProcessTransport(server.handle), rng=seeded_random(2), sleep=no_wait)


def new_server(**options: Any) -> ApiServer:
    return ApiServer(VirtualClock(), seeded_random(1), **options)


async def no_wait(_seconds: float) -> None:
    await asyncio.sleep(0)


async def settled() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def pending(name: str, **more: Any) -> Pod:
    return make_pod(name, uid="", **more)


def with_informer(
    steps: Callable[[Client, Informer, list[ObjectChange]], Awaitable[None]], **options: Any
) -> None:
    """Runs ``steps`` beside an informer of pods."""

    async def run() -> None:
        server = new_server(**options)
        client = client_of(server)
        changes: list[ObjectChange] = []
        informer = Informer(
            client,
            "Pod",
            changes.append,
            clock=VirtualClock(),
            rng=seeded_random(3),
            sleep=no_wait,
        )
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(informer.run())
            await informer.wait_until_synced()
            await steps(client, informer, changes)
            task.cancel()
        await client.transport.close()

    asyncio.run(run())


def call(steps: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    """Runs ``steps`` with a client of a new server."""
    asyncio.run(steps(client_of(new_server())))


def test_an_informer_sees_a_pod_come_be_bound_and_go() -> None:
    async def steps(client: Client, informer: Informer, changes: list[ObjectChange]) -> None:
        made = await client.create(pending("web"))
        await client.bind(made, "a")
        await client.delete("Pod", "web", "default", grace_period_s=0)
        await settled()

        assert [(c.old is None, c.new is None) for c in changes] == [
            (True, False),
            (False, False),
            (False, False),
            (False, True),
        ]
        assert changes[1].new.spec.node_name == "a"
        assert informer.objects == {}

    with_informer(steps)


def test_after_many_writes_the_informer_equals_the_list() -> None:
    async def steps(client: Client, informer: Informer, _changes: list[ObjectChange]) -> None:
        for number in range(60):
            made = await client.create(pending(f"p{number}", labels={"n": str(number % 3)}))
            if number % 2:
                await client.bind(made, "a")
            if number % 5 == 0:
                await client.delete("Pod", made.metadata.name, "default", grace_period_s=0)
        await settled()

        listed = await client.list("Pod")
        assert informer.objects == {key(pod): pod for pod in listed.items}
        assert informer.version == listed.resource_version
        assert len(listed.items) == 48

    with_informer(steps)


def test_a_history_that_is_too_short_is_caught_up_by_a_list() -> None:
    async def steps(client: Client, informer: Informer, _changes: list[ObjectChange]) -> None:
        for number in range(300):
            await client.create(pending(f"p{number}"))
        await settled()

        assert len(informer.objects) == 300

    with_informer(steps, history_changes=16)


def test_refusals_have_their_types() -> None:
    async def steps(client: Client) -> None:
        made = await client.create(pending("web"))
        with pytest.raises(AlreadyExists):
            await client.create(pending("web"))
        with pytest.raises(NotFound):
            await client.get("Pod", "none", "default")
        await client.bind(made, "a")
        with pytest.raises(Conflict):
            await client.bind(made, "b")
        with pytest.raises(Conflict):
            await client.delete("Pod", "web", "default", uid="another")

    call(steps)


def test_a_stale_version_is_a_conflict() -> None:
    async def steps(client: Client) -> None:
        node = await client.create(make_node("a"))
        await client.patch("Node", "a", {"spec": {"unschedulable": True}})
        with pytest.raises(Conflict):
            await client.replace(node)

    call(steps)


def test_a_status_is_patched_and_conditions_merge() -> None:
    async def steps(client: Client) -> None:
        made = await client.create(pending("web"))
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        await client.patch_pod_status(made, {"conditions": [condition]})
        result = await client.patch_pod_status(made, {"nominatedNodeName": "a"})

        assert result.status.nominated_node_name == "a"
        assert [c.reason for c in result.status.conditions] == ["Unschedulable"]

    call(steps)


def test_an_eviction_obeys_a_budget() -> None:
    async def steps(client: Client) -> None:
        made = await client.create(pending("web", labels={"app": "web"}))
        await client.bind(made, "a")
        await client.patch_pod_status(
            made, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        )
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        await client.write("POST", path, msgspec.json.encode(budget))
        with pytest.raises(TooManyRequests):
            await client.evict(made)

    call(steps)


def test_pages_make_one_list() -> None:
    async def steps(client: Client) -> None:
        for number in range(25):
            await client.create(make_node(f"n{number:02}"))
        pages = [page async for page in client.pages("Node", page_size=10)]

        assert [len(page.items) for page in pages] == [10, 10, 5]
        assert len({page.resource_version for page in pages}) == 1

    call(steps)
