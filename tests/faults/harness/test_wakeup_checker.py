"""L2 during a run: a pod that fits and stays unschedulable is reported, others are not."""

from __future__ import annotations

from typing import Any

from mooring.queue import QueuedPod
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod
from tests.faults.harness.wakeup_checker import FITS_S_MAX, WakeupChecker
from tests.helpers.running_scheduler import Life, run_scheduler, virtually

SMALL, LARGE = (make_node("a", allocatable={"cpu": cpu}) for cpu in ("1", "4"))
GROUP = {"app": "web"}
AFFINITY = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"labelSelector": {"matchLabels": GROUP}, "topologyKey": "kubernetes.io/hostname"}
        ]
    }
}


def problems_later(checker: WakeupChecker, life: Life, *, after_s: float) -> list[str]:
    """Returns the problems after a time in which nothing changes."""
    assert list(checker.problems(life.service, 100.0)) == []
    return list(checker.problems(life.service, 100.0 + after_s))


async def rejected(life: Life, pod: Any) -> None:
    """Creates a pod that is unschedulable after its attempt."""
    await life.create(pod)
    await life.until_seen("failed", pod.metadata.name)
    await life.until(lambda: not len(life.service.writer))


@virtually
async def test_a_pod_that_fits_and_is_not_requeued_is_reported() -> None:
    async with run_scheduler(SMALL) as life:
        checker = WakeupChecker()
        await rejected(life, make_pod("web", requests={"cpu": "2"}))
        assert problems_later(checker, life, after_s=60.0) == []
        # Without the queue: as if the event were lost.
        life.service.cache.put_node(LARGE)
        assert problems_later(checker, life, after_s=FITS_S_MAX) == []
        (problem,) = checker.problems(life.service, 101.0 + FITS_S_MAX)
        assert problem == (
            "default/web fits a since 100.0 s, but no event requeued it; "
            "rejected by ['NodeResourcesFit']"
        )
        assert (checker.checked, checker.fitting) == (5, 3)
        life.service.cache.put_node(SMALL)


@virtually
async def test_resources_of_assumed_and_nominated_pods_are_in_use() -> None:
    async with run_scheduler(SMALL) as life:
        checker, cache = WakeupChecker(), life.service.cache
        await rejected(life, make_pod("web", requests={"cpu": "2"}))
        cache.put_node(LARGE)
        other = PodInfo(make_pod("other", requests={"cpu": "3"}))
        cache.nominator.nominate(other, "a")
        assert problems_later(checker, life, after_s=60.0) == []
        cache.nominator.remove(other.uid)
        cache.assume(other.on_node("a"), "a").keep()
        assert problems_later(checker, life, after_s=60.0) == []
        cache.forget(other.uid)
        assert len(problems_later(checker, life, after_s=60.0)) == 1
        cache.put_node(SMALL)


@virtually
async def test_an_assumed_pod_is_no_event_for_affinity_to_it() -> None:
    async with run_scheduler(SMALL) as life:
        checker, cache = WakeupChecker(), life.service.cache
        await rejected(life, make_pod("web", spec={"affinity": AFFINITY}))
        other = PodInfo(make_pod("other", labels=GROUP))
        cache.assume(other.on_node("a"), "a").keep()
        assert problems_later(checker, life, after_s=60.0) == []
        cache.confirm(other.uid)
        assert len(problems_later(checker, life, after_s=60.0)) == 1
        cache.remove_pod(other.uid)


@virtually
async def test_a_second_assumed_pod_is_no_event_for_a_pod_that_could_be_the_first() -> None:
    other_small = make_node("b", allocatable={"cpu": "1"})
    async with run_scheduler(SMALL, other_small) as life:
        checker, cache = WakeupChecker(), life.service.cache
        anti_affinity = {"podAntiAffinity": AFFINITY["podAffinity"]}
        first = PodInfo(make_pod("first", labels=GROUP, spec={"affinity": anti_affinity}))
        cache.assume(first.on_node("a"), "a").keep()
        await rejected(life, make_pod("web", labels=GROUP, spec={"affinity": AFFINITY}))
        second = PodInfo(make_pod("second", labels=GROUP))
        cache.assume(second.on_node("b"), "b").keep()
        assert problems_later(checker, life, after_s=60.0) == []
        cache.confirm(first.uid)
        cache.confirm(second.uid)
        assert len(problems_later(checker, life, after_s=60.0)) == 1
        cache.remove_pod(first.uid)
        cache.remove_pod(second.uid)


@virtually
async def test_the_deletion_of_a_node_is_no_event_for_affinity() -> None:
    async with run_scheduler(SMALL, make_node("b")) as life:
        checker, cache = WakeupChecker(), life.service.cache
        await rejected(life, make_pod("web", spec={"affinity": AFFINITY}))
        cache.put_pod(make_pod("there", node="gone"))
        cache.put_pod(make_pod("other", labels=GROUP, node="a"))
        assert problems_later(checker, life, after_s=60.0) == []
        cache.remove_pod("pod-default-there")
        assert len(problems_later(checker, life, after_s=60.0)) == 1
        cache.remove_pod("pod-default-other")


@virtually
async def test_a_nomination_that_ended_with_a_later_decision_for_its_pod_is_no_event() -> None:
    async with run_scheduler(SMALL) as life:
        checker, service = WakeupChecker(), life.service
        web = make_pod("web", requests={"cpu": "2"})
        other = QueuedPod(PodInfo(make_pod("other", requests={"cpu": "3"})), 0.0)
        await rejected(life, web)
        (entry,) = service.queue.pods()
        service.cache.put_node(LARGE)
        service.cache.nominator.nominate(other.pod, "a")
        checker.rejected(entry, service)
        service.cache.nominator.remove(other.uid)
        other.attempt_number = entry.attempt_number
        checker.chosen(other)
        assert len(problems_later(checker, life, after_s=60.0)) == 1
        other.attempt_number += 1
        checker.chosen(other)
        assert problems_later(checker, life, after_s=60.0) == []
        service.cache.put_node(SMALL)
