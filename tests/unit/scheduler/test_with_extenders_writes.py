"""Requests to extenders, and extenders that bind or preempt."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.extenders.http import NoResponse
from mooring.objects import Pod
from mooring.objects.meta import ObjectMeta
from mooring.testing import make_node, make_pod
from tests.helpers.extenders import (
    NODES,
    Play,
    away,
    configured,
    extender,
    names_in,
    posted,
)
from tests.helpers.preemption_fixture import pod, preempting, small
from tests.helpers.running_scheduler import Life, run_scheduler, virtually

# ---- what is sent ----


@virtually
async def test_objects_are_sent_as_the_api_server_has_them() -> None:
    node = make_node("a")
    odd = {"metadata": {"annotations": {"rack": "7"}}, "spec": {"podCIDR": "10.0.0.0/24"}}
    play = Play(filter=lambda arguments: {"Nodes": arguments["Nodes"]})
    config = configured(extender(nodeCacheCapable=False))
    async with run_scheduler(node, config=config, transport_factory=play.transport_factory) as life:
        await life.client.patch("Node", "a", odd)
        await posted(life, "web", tty=True)
        await life.settle()
        assert await life.node_of("web") == "a"
    ((_, _, asked),) = play.asked
    assert asked["NodeNames"] is None
    (sent,) = asked["Nodes"]["items"]
    assert sent["spec"]["podCIDR"] == "10.0.0.0/24"
    assert sent["metadata"]["annotations"]["rack"] == "7"
    assert sent["status"]["allocatable"]["cpu"]
    assert asked["Pod"]["spec"]["containers"][0]["tty"] is True
    assert asked["Pod"]["metadata"]["name"] == "web"
    assert not any("managedFields" in each["metadata"] for each in (sent, asked["Pod"]))
    assert play.limits == [128 << 20]


@virtually
async def test_names_count_for_nothing_if_objects_were_asked_about() -> None:
    # Upstream reads NodeNames only from extenders that were sent names.
    play = Play(filter=lambda arguments: {"NodeNames": names_in(arguments)})
    config = configured(extender(nodeCacheCapable=False))
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.settle()
        condition = await life.condition("web")
        assert condition["message"].startswith("0/3 nodes are available: ")
        assert condition["reason"] == "Unschedulable"


# ---- bind ----


@virtually
async def test_an_extender_binds_instead_of_the_plugins() -> None:
    play = Play()
    async with run_scheduler(
        *NODES, config=configured(extender("one", "bind")), transport_factory=play.transport_factory
    ) as life:

        async def bind(_: str, verb: str) -> None:
            asked = play.asked[-1][2]
            metadata = ObjectMeta(
                name=asked["PodName"], namespace=asked["PodNamespace"], uid=asked["PodUID"]
            )
            await life.client.bind(Pod(metadata=metadata), asked["Node"])

        play.think = bind
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") != ""
        assert life.observer.names("bound") == ["web"]
        assert life.wire.count("POST", "/binding") == 0
    ((_, _, asked),) = play.asked
    assert sorted(asked) == ["Node", "PodName", "PodNamespace", "PodUID"]


@virtually
async def test_a_binding_that_was_not_answered_is_looked_for() -> None:
    play = Play()

    async def bind(_: str, verb: str) -> None:
        asked = play.asked[-1][2]
        live = await life.client.get("Pod", asked["PodName"], asked["PodNamespace"])
        await life.client.bind(live, asked["Node"])
        raise NoResponse("no answer in 5 s")

    play.think = bind
    async with run_scheduler(
        *NODES, config=configured(extender("one", "bind")), transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") != ""
        assert life.observer.names("bound") == ["web"]
        assert life.observer.names("failed") == []


@virtually
async def test_a_binding_that_an_extender_refuses_gives_everything_back() -> None:
    play = Play(bind=lambda _: {"Error": "not today"})
    async with run_scheduler(
        *NODES, config=configured(extender("one", "bind")), transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        assert life.observer.of("failed")[0][2] == "not today"
        assert life.service.cache.assumed_count() == 0
        condition = await life.condition("web")
        assert condition["reason"] == "SchedulerError"
        await life.delete("web")


@virtually
async def test_an_extender_that_cannot_bind_and_may_be_ignored_leaves_it_to_the_plugins() -> None:
    play = Play(bind=lambda _: {"Error": "not today"})
    config = configured(extender("one", "bind", ignorable=True))
    async with run_scheduler(
        *NODES, config=config, transport_factory=play.transport_factory
    ) as life:
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") != ""
        assert play.verbs() == ["one.bind"]


# ---- preempt ----


@asynccontextmanager
async def busy(play: Play, *names: str, **parts: Any) -> AsyncIterator[Life]:
    """Nodes with a pod each that takes all of it."""
    config = configured(extender("one", "preempt", **parts))
    nodes = [small(name) for name in names]
    async with preempting(
        *nodes, config=config, transport_factory=play.transport_factory, instant_deletion=True
    ) as life:
        for name in names:
            await life.create(pod(f"on-{name}", "low", node=name))
        await life.settle()
        yield life


@virtually
async def test_an_extender_says_where_room_is_made() -> None:
    play = Play()

    def only_c(arguments: dict[str, Any]) -> Any:
        found = arguments["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {"c": found["c"]}}

    play.answers["preempt"] = only_c
    async with busy(play, "a", "b", "c") as life:
        await life.create(pod("urgent", "high"))
        await life.until_seen("bound", "urgent")
        assert await life.node_of("urgent") == "c"
    ((_, _, asked),) = play.asked
    assert sorted(asked["NodeNameToMetaVictims"]) == ["a", "b", "c"]
    assert asked["NodeNameToVictims"] is None
    assert [victims["NumPDBViolations"] for victims in asked["NodeNameToMetaVictims"].values()] == [
        0, 0, 0,
    ]  # fmt: skip


@virtually
async def test_victims_are_sent_whole_to_those_that_know_no_nodes() -> None:
    play = Play()

    def by_uid(arguments: dict[str, Any]) -> Any:
        victims = arguments["NodeNameToVictims"]
        return {
            "nodeNameToMetaVictims": {
                node: {"pods": [{"uid": pod["metadata"]["uid"]} for pod in each["Pods"]]}
                for node, each in victims.items()
            }
        }

    play.answers["preempt"] = by_uid
    async with busy(play, "a", nodeCacheCapable=False) as life:
        await life.create(pod("urgent", "high"))
        await life.until_seen("bound", "urgent")
    ((_, _, asked),) = play.asked
    (victim,) = asked["NodeNameToVictims"]["a"]["Pods"]
    assert victim["metadata"]["name"] == "on-a"
    assert victim["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1"}


REFUSED = [
    ({}, "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: no"
     " candidate node for preemption"),
    ({"moon": {"Pods": []}}, 'preemption: extender "http://one" claims to preempt on node "moon",'
     " which was not sent to it"),
    ({"a": {"Pods": []}}, 'preemption: expected at least one victim pod on node "a"'),
    ({"a": None}, 'preemption: expected at least one victim pod on node "a"'),
    ({"a": {"Pods": [{"UID": "x"}]}}, "preemption: extender: http://one claims to preempt pod"
     " (UID: &{x}) on node: a, but the pod is not found on that node"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "told"), REFUSED)
def test_nobody_leaves_for_an_answer_that_makes_no_sense(answer: Any, told: str) -> None:
    @virtually
    async def refuses() -> None:
        play = Play(preempt=lambda _: {"NodeNameToMetaVictims": answer})
        async with busy(play, "a") as life:
            await life.create(pod("urgent", "high"))
            await life.settle()
            assert (await life.condition("urgent"))["message"].endswith(told)
            assert await life.node_of("on-a") == "a"

    refuses()


@virtually
async def test_pods_of_the_same_priority_are_never_victims() -> None:
    play = Play()
    async with busy(play, "b") as life:
        await life.create(small("a", "2"), pod("guard", "high", node="a"), pod("on-a", node="a"))
        uid = (await life.raw("guard"))["metadata"]["uid"]
        answer = {"NodeNameToMetaVictims": {"a": {"Pods": [{"UID": uid}]}}}
        await life.settle()
        play.answers["preempt"] = lambda _: answer
        await life.create(pod("urgent", "high"))
        await life.settle()
        assert "but its priority is not lower" in (await life.condition("urgent"))["message"]
        assert await life.node_of("guard") == "a"


@virtually
async def test_an_ignorable_extender_cannot_stop_a_preemption() -> None:
    play = Play(preempt=away)
    async with busy(play, "a", ignorable=True) as life:
        await life.create(pod("urgent", "high"))
        await life.until_seen("bound", "urgent")
