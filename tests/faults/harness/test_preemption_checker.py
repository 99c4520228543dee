"""S6 sees each way in which an eviction can be unjust."""

from __future__ import annotations

from typing import Any

from mooring.framework import PostFilterResult
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.faults.harness.preemption_checker import Evictions, unjustified_evictions
from tests.plugins.preemption_clusters import budget

NODE = make_node("a", allocatable={"cpu": "2", "pods": "9"})


def cache_of(*pods: Any, nominated: Any = None) -> Cache:
    cache = Cache()
    cache.put_node(NODE)
    for pod in pods:
        cache.put_pod(pod)
    if nominated is not None:
        cache.nominator.nominate(PodInfo(nominated), "a")
    return cache


def pod(name: str, priority: int = 0, **more: Any) -> Any:
    return make_pod(name, requests={"cpu": "1"}, priority=priority, node="a", **more)


NEW = PodInfo(make_pod("new", requests={"cpu": "1"}, priority=10))


def told(cache: Cache, *victims: str, node: str = "a", preemptor: PodInfo = NEW) -> list[str]:
    by_name = {placed.info.metadata.name: placed.info for placed in cache.pods}
    found = tuple(by_name.get(name, PodInfo(make_pod(name))) for name in victims)
    return list(unjustified_evictions(preemptor, PostFilterResult(None, node, found), cache))


def test_a_just_eviction_is_nothing_to_tell() -> None:
    cache = cache_of(pod("one"), pod("two", 5))

    assert told(cache, "one") == []


def test_what_is_unjust_is_told() -> None:
    cache = cache_of(pod("one"), pod("two", 10))

    assert told(cache, "two") == ["default/two (10) leaves for default/new (10)"]
    assert told(cache, "one", node="b") == ["default/new makes room on b, which is no node"]
    assert "could stay on a" in told(cache_of(pod("one"), pod("two")), "one", "two")[0]
    assert "is to leave a, and is not there" in told(cache, "one", "stranger")[0]
    assert told(cache_of(pod("one"), pod("two")))[0].startswith("default/new does not fit a")


def test_room_for_others_that_come_before_it_is_not_its_own() -> None:
    rival = make_pod("rival", requests={"cpu": "1"}, priority=10)
    cache = cache_of(pod("one"), pod("two"), nominated=rival)

    assert told(cache, "one", "two") == []
    assert len(told(cache, "one")) == 1


def test_a_protected_pod_leaves_only_in_need() -> None:
    guarded = pod("guarded", labels={"app": "db"})
    cache = cache_of(guarded, pod("free", 5))
    cache.put_object("PodDisruptionBudget", budget("b", 0, app="db"))

    assert told(cache, "free") == []
    assert "without any protected pod" in told(cache, "guarded")[0]
    large = PodInfo(make_pod("new", requests={"cpu": "2"}, priority=10))
    assert told(cache, "guarded", "free", preemptor=large) == []


def test_evictions_are_remembered_by_their_victims() -> None:
    evictions = Evictions()
    evictions.note("victim", "preemptor")

    assert evictions.has("victim")
    assert not evictions.has("preemptor")


def test_who_stays_while_the_pod_that_needs_its_room_waits_is_told() -> None:
    evictions = Evictions()
    victim, waiting = pod("victim"), make_pod("new", nominated_node="a")
    evictions.note(victim.metadata.uid, waiting.metadata.uid)

    def undone(*pods: Any) -> list[str]:
        return list(evictions.missing_evictions({each.metadata.uid: each for each in pods}))

    assert undone(victim, waiting) == [
        "default/new waits for default/victim to leave, which nobody tells"
    ]
    assert undone(waiting) == undone(victim) == []
    assert undone(victim, make_pod("new", node="a")) == []
    assert undone(victim, make_pod("new", nominated_node="b")) == []
    leaving = pod("victim", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert undone(leaving, waiting) == []
