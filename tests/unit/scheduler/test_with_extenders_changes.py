"""The cluster changes while an extender thinks: the decision is right for what is there afterwards.

``run_scheduler`` checks at its end that nothing leaks, and that the cache agrees with the objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mooring.errors import Unreachable
from mooring.scheduler.with_extenders import ATTEMPTS_MAX
from mooring.testing import make_node, make_pod
from tests.helpers.extenders import Play, configured, extender, keeps, names_in
from tests.helpers.running_scheduler import CHECK_INTERVAL_S, Life, run_scheduler, virtually

Change = Callable[[Life], Awaitable[Any]]

ROOM = {"cpu": "2", "memory": "4Gi", "pods": "10"}


def a_prefers() -> Play:
    """Returns an extender that accepts only node a if it is sent, otherwise b."""

    def answer(arguments: dict[str, Any]) -> dict[str, Any]:
        names = names_in(arguments)
        return {"NodeNames": ["a"] if "a" in names else names}

    return Play(filter=answer)


async def lives(change: Change, then: Callable[[Life, Play], Awaitable[None]]) -> None:
    """Changes the cluster during the first call of an extender."""
    play = a_prefers()
    nodes = [make_node(name, allocatable=ROOM) for name in ("a", "b")]
    async with run_scheduler(
        *nodes, config=configured(extender()), transport_factory=play.transport_factory
    ) as life:

        async def think(_: str, __: str) -> None:
            if len(play.asked) == 1:
                await change(life)
                await asyncio.sleep(
                    10 * CHECK_INTERVAL_S
                )  # the watch event arrives during the call

        play.think = think
        await life.create(make_pod("web", requests={"cpu": "1"}))
        await life.settle()
        await then(life, play)


async def delete_node(life: Life) -> None:
    await life.client.delete("Node", "a")


async def taint_node(life: Life) -> None:
    taints = [{"key": "away", "effect": "NoSchedule"}]
    await life.client.patch("Node", "a", {"spec": {"taints": taints}})


async def cordon_node(life: Life) -> None:
    await life.client.patch("Node", "a", {"spec": {"unschedulable": True}})


async def shrink_node(life: Life) -> None:
    status = {"status": {"allocatable": {"cpu": "500m"}}}
    await life.client.patch("Node", "a", status, subresource="status")


async def replace_node(life: Life) -> None:
    await life.client.delete("Node", "a")
    await life.create(make_node("a", allocatable={**ROOM, "cpu": "100m"}))


async def fill_node(life: Life) -> None:
    await life.create(make_pod("other", node="a", requests={"cpu": "1500m"}))


@pytest.mark.parametrize(
    "change", [delete_node, taint_node, cordon_node, shrink_node, replace_node, fill_node]
)
def test_a_node_that_will_not_do_any_more_is_not_taken(change: Change) -> None:
    async def then(life: Life, play: Play) -> None:
        assert await life.node_of("web") == "b"
        # It was decided again in the same attempt: no failure was reported.
        assert len(play.asked) == 2
        assert life.observer.names("failed") == []
        assert life.observer.names("bound") == ["web"]

    virtually(lives)(change, then)


async def add_nodes(life: Life) -> None:
    for number in range(200):  # the columns grow, and are made anew
        await life.create(make_node(f"new-{number}", allocatable=ROOM))


async def grow_node(life: Life) -> None:
    await life.client.patch("Node", "a", {"metadata": {"labels": {"size": "large"}}})


async def other_pod(life: Life) -> None:
    await life.create(make_pod("other", node="a", requests={"cpu": "100m"}))
    await life.delete("other")


async def delete_other_node(life: Life) -> None:
    await life.client.delete("Node", "b")
    await life.create(make_node("c", allocatable=ROOM))


@pytest.mark.parametrize("change", [add_nodes, grow_node, other_pod, delete_other_node])
def test_what_does_not_matter_changes_nothing(change: Change) -> None:
    async def then(life: Life, play: Play) -> None:
        assert await life.node_of("web") == "a"
        assert len(play.asked) == 1

    virtually(lives)(change, then)


async def delete_pod(life: Life) -> None:
    await life.delete("web")


async def recreate_pod(life: Life) -> None:
    await life.delete("web")
    await life.create(make_pod("web", requests={"cpu": "1"}, labels={"which": "second"}))


async def bind_pod(life: Life) -> None:
    await life.client.bind(await life.client.get("Pod", "web", "default"), "b")


async def label_pod(life: Life) -> None:
    labels = {"metadata": {"labels": {"tier": "front"}}}
    await life.client.patch("Pod", "web", labels, namespace="default")


def test_a_pod_that_is_deleted_is_not_bound() -> None:
    async def then(life: Life, _: Play) -> None:
        assert life.wire.count("POST", "/binding") == 0
        assert life.observer.names("failed") == []

    virtually(lives)(delete_pod, then)


def test_a_pod_that_is_made_anew_is_decided_anew() -> None:
    async def then(life: Life, play: Play) -> None:
        assert await life.node_of("web") == "a"
        assert life.observer.names("bound") == ["web"]
        sent = [asked["Pod"]["metadata"] for _, _, asked in play.asked]
        assert "labels" not in sent[0]
        assert sent[-1]["labels"] == {"which": "second"}

    virtually(lives)(recreate_pod, then)


def test_a_pod_that_another_scheduler_binds_stays_on_its_node() -> None:
    async def then(life: Life, _: Play) -> None:
        assert await life.node_of("web") == "b"
        assert life.wire.count("POST", "/binding") == 0

    virtually(lives)(bind_pod, then)


def test_a_pod_that_changes_is_bound_all_the_same() -> None:
    async def then(life: Life, play: Play) -> None:
        assert await life.node_of("web") == "a"
        assert len(play.asked) == 1

    virtually(lives)(label_pod, then)


@virtually
async def test_a_pod_that_is_leaving_is_not_bound() -> None:
    play = a_prefers()
    node = make_node("a", allocatable=ROOM)
    config = configured(extender())
    stays = make_pod("web", metadata={"finalizers": ["example.com/stay"]})
    async with run_scheduler(node, config=config, transport_factory=play.transport_factory) as life:

        async def think(_: str, __: str) -> None:
            await life.delete("web")
            await asyncio.sleep(10 * CHECK_INTERVAL_S)

        play.think = think
        await life.create(stays)
        await life.settle()
        assert [event.note for event in await life.events("web")] == [
            "skip schedule deleting pod: default/web"
        ]
        assert life.wire.count("POST", "/binding") == 0
        nothing: dict[str, Any] = {"metadata": {"finalizers": []}}
        await life.client.patch("Pod", "web", nothing, namespace="default")


@virtually
async def test_news_that_came_while_it_thought_wakes_the_pod_that_it_refused() -> None:
    play = Play(filter=keeps("c"))
    nodes = [make_node(name, allocatable=ROOM) for name in ("a", "b")]
    async with run_scheduler(
        *nodes, config=configured(extender()), transport_factory=play.transport_factory
    ) as life:

        async def think(_: str, __: str) -> None:
            if len(play.asked) == 1:
                await life.create(make_node("c", allocatable=ROOM))
                await asyncio.sleep(10 * CHECK_INTERVAL_S)

        play.think = think
        await life.create(make_pod("web"))
        await life.until_seen("bound", "web")
        assert life.observer.names("failed") == ["web"]
        assert await life.node_of("web") == "c"


@virtually
async def test_a_cluster_that_changes_all_the_time_ends_the_attempt() -> None:
    play = Play(filter=lambda arguments: {"NodeNames": names_in(arguments)[:1]})
    nodes = [make_node(f"n{number}", allocatable=ROOM) for number in range(ATTEMPTS_MAX + 1)]
    async with run_scheduler(
        *nodes, config=configured(extender()), transport_factory=play.transport_factory
    ) as life:

        async def think(_: str, __: str) -> None:
            first = names_in(play.asked[-1][2])[0]
            if len(play.asked) <= ATTEMPTS_MAX:
                await life.client.delete("Node", first)
                await asyncio.sleep(10 * CHECK_INTERVAL_S)

        play.think = think
        await life.create(make_pod("web", requests={"cpu": "1"}))
        await life.until_seen("bound", "web")
        told = f"the cluster changed {ATTEMPTS_MAX} times while extenders were called"
        assert life.observer.of("failed") == [("failed", "web", told)]


@virtually
async def test_pods_that_fail_to_bind_while_it_thinks_give_their_room_back() -> None:
    play = a_prefers()
    node = make_node("a", allocatable={**ROOM, "cpu": "1"})
    config = configured(extender())
    async with run_scheduler(node, config=config, transport_factory=play.transport_factory) as life:
        gate, asked = asyncio.Event(), asyncio.Event()

        life.wire.before.append(held(gate))

        async def think(_: str, __: str) -> None:
            if play.asked[-1][2]["Pod"]["metadata"]["name"] == "second":
                gate.set()
                await life.until_seen("failed", "first")
                asked.set()

        play.think = think
        await life.create(make_pod("first", requests={"cpu": "600m"}))
        await life.until(lambda: len(play.asked) == 1)
        await life.create(make_pod("second", requests={"cpu": "300m"}))
        await life.until(asked.is_set)
        await life.settle()
        assert {await life.node_of(name) for name in ("first", "second")} == {"a"}


@virtually
async def test_a_scheduler_that_is_stopped_does_not_wait_for_an_answer() -> None:
    play = a_prefers()
    node = make_node("a", allocatable=ROOM)
    async with run_scheduler(
        node, config=configured(extender()), transport_factory=play.transport_factory, at_rest=False
    ) as life:

        async def think(_: str, __: str) -> None:
            await asyncio.Event().wait()

        play.think = think
        await life.create(make_pod("web"))
        await life.until(lambda: play.asked)
        # News that was kept back is taken in all the same, so the cache is what its objects say.
        await life.create(make_node("b", allocatable=ROOM))
        begun_s = life.clock.monotonic_s()
    assert life.clock.monotonic_s() - begun_s < 5
    assert life.service.queue.in_flight_events == 0


def held(gate: asyncio.Event) -> Any:
    """Returns the first binding waits, and then surely does not happen."""
    left = 1

    async def before(request: Any) -> None:
        nonlocal left
        if left and request.path.endswith("/first/binding"):
            left -= 1
            await gate.wait()
            raise Unreachable("the line is cut")

    return before
