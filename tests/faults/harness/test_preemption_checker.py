"""S6: each kind of unjustified eviction is reported."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.framework import Diagnosis, PostFilterResult, Reject
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.faults.harness.preemption_checker import (
    Evictions,
    repeated_evictions,
    unjustified_evictions,
)
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


def problems(cache: Cache, *victims: str, node: str = "a", preemptor: PodInfo = NEW) -> list[str]:
    by_name = {placed.info.metadata.name: placed.info for placed in cache.pods}
    victim_pods = tuple(by_name.get(name, PodInfo(make_pod(name))) for name in victims)
    return list(unjustified_evictions(preemptor, PostFilterResult(None, node, victim_pods), cache))


def test_a_justified_eviction_is_allowed() -> None:
    cache = cache_of(pod("one"), pod("two", 5))

    assert problems(cache, "one") == []


def test_unjustified_evictions_are_reported() -> None:
    cache = cache_of(pod("one"), pod("two", 10))

    assert problems(cache, "two") == ["default/two (10) is a victim of default/new (10)"]
    assert problems(cache, "one", node="b") == [
        "default/new is nominated to b, which does not exist"
    ]
    assert (
        "need not be evicted from a" in problems(cache_of(pod("one"), pod("two")), "one", "two")[0]
    )
    assert "is a victim on a, but is not there" in problems(cache, "one", "stranger")[0]
    assert problems(cache_of(pod("one"), pod("two")))[0].startswith("default/new does not fit a")


def test_pods_nominated_before_it_keep_their_resources() -> None:
    rival = make_pod("rival", requests={"cpu": "1"}, priority=10)
    cache = cache_of(pod("one"), pod("two"), nominated=rival)

    assert problems(cache, "one", "two") == []
    assert len(problems(cache, "one")) == 1


def test_a_protected_pod_is_evicted_only_if_necessary() -> None:
    guarded = pod("guarded", labels={"app": "db"})
    cache = cache_of(guarded, pod("free", 5))
    cache.put_object("PodDisruptionBudget", budget("b", 0, app="db"))

    assert problems(cache, "free") == []
    assert "without evicting a protected pod" in problems(cache, "guarded")[0]
    large = PodInfo(make_pod("new", requests={"cpu": "2"}, priority=10))
    assert problems(cache, "guarded", "free", preemptor=large) == []


def test_decided_evictions_are_recorded_by_victim() -> None:
    evictions = Evictions()
    evictions.note("victim", "preemptor")

    assert evictions.has("victim")
    assert not evictions.has("preemptor")


def test_an_eviction_that_was_not_started_is_reported() -> None:
    evictions = Evictions()
    victim, waiting = pod("victim"), make_pod("new", nominated_node="a")
    evictions.note(victim.metadata.uid, waiting.metadata.uid)

    def undone(*pods: Any) -> list[str]:
        return list(evictions.missing_evictions({pod.metadata.uid: pod for pod in pods}))

    assert undone(victim, waiting) == [
        "default/new needs an eviction that was not started: default/victim"
    ]
    assert undone(waiting) == undone(victim) == []
    assert undone(victim, make_pod("new", node="a")) == []
    assert undone(victim, make_pod("new", nominated_node="b")) == []
    leaving = pod("victim", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert undone(leaving, waiting) == []


@pytest.mark.parametrize("reason", ["PreemptionByScheduler", "EvictionByEvictionAPI"])
def test_a_second_eviction_is_reported_if_the_first_victim_leaves(reason: str) -> None:
    condition = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    leaving = pod("leaving", metadata=metadata, status={"conditions": [condition]})
    cache = cache_of(leaving, nominated=NEW.pod)
    diagnosis = Diagnosis(1, statuses={"a": Reject("too full")})
    evictions = Evictions()
    evictions.note(leaving.metadata.uid, NEW.uid)

    reports = list(repeated_evictions(NEW, diagnosis, evictions, cache))

    assert len(reports) == (reason == "PreemptionByScheduler")


def test_the_removal_of_a_victim_frees_a_port_that_two_pods_use() -> None:
    new = PodInfo(make_pod("new", host_ports=[80], priority=10))
    cache = cache_of(pod("low", host_ports=[80]), pod("high", 10, host_ports=[80]))

    assert problems(cache, "low", preemptor=new) == []
    assert "ports [('TCP', 80)] are in use" in problems(cache, preemptor=new)[0]
