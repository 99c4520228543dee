"""Each fault of the list by itself, at the worst moment, and its required consequence."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from mooring.errors import NotFound
from mooring.queue import QueueName
from tests.faults.fault_fixture import PODS, Lab, run_in_lab, small_node, small_pod
from tests.faults.harness.faults import Faults

WATCH_PODS = "watch /api/v1/pods"


async def settled(lab: Lab, *names: str, within_s: float = 60.0) -> None:
    """Waits until these pods are bound and nothing leaks."""
    await lab.wait_until(
        lambda: all(lab.node_of(name) for name in names) and lab.is_idle(),
        within_s=within_s,
        every_s=0.5,
    )


# -- F1: the server is down --------------------------------------------------------------------


def test_f1_requests_to_a_server_that_is_down_back_off() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node(pods=10))
        async with lab.running():
            await asyncio.sleep(5)
            lab.network.restart(60.0)
            await lab.add(small_pod("p"), small_pod("q"))
            await asyncio.sleep(60.0)
            down = [at_s for at_s in lab.transport.times_s("GET /api/v1/pods") if at_s > 5]
            assert 2 <= len(down) <= 60
            assert min(b - a for a, b in pairwise(down)) >= 0.5

            await settled(lab, "p", "q", within_s=61)

    run_in_lab(work)


def test_f1_an_unreachable_binding_is_rolled_back_and_retried() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node())
        async with lab.running():
            await asyncio.sleep(1)
            lab.network.plan("unreachable", "/binding", times=3)
            await lab.add(small_pod("p"))
            await settled(lab, "p")

            assert len(lab.transport.times_s("/binding")) == 4
            assert lab.checker.attempts == 4

    run_in_lab(work)


# -- F2: a watch breaks anywhere -----------------------------------------------------------------


def test_f2_watches_that_break_at_any_byte_lose_and_repeat_no_event() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node(pods=60))
        async with lab.running():
            lab.network.faults = Faults(cut=0.9)
            names = [f"p{number}" for number in range(40)]
            for name in names:
                await lab.add(small_pod(name))
                await asyncio.sleep(0.3)
            lab.network.heal()
            await settled(lab, *names)

            assert lab.network.fired["cut"] >= 5
            assert lab.checker.binds == 40
            # The watches were resumed, without a new list.
            assert lab.service.informers["Pod"].statistics().lists == 1

    run_in_lab(work)


# -- F3: the resourceVersion expires ---------------------------------------------------------------


def test_f3_a_watch_that_gets_410_lists_once_and_detects_deletions() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node(pods=2))
        async with lab.running():
            await lab.add(small_pod("stays"), small_pod("goes"))
            await settled(lab, "stays", "goes")
            for how in ("in the stream", "at connect"):
                before = lab.service.informers["Pod"].statistics().lists
                if how == "at connect":
                    lab.network.plan("cut", WATCH_PODS)
                lab.network.plan("expired", WATCH_PODS)
                await lab.user.delete("Pod", "goes", "default", grace_period_s=0)
                await lab.add(small_pod("goes"))
                await settled(lab, "stays", "goes")

                statistics = lab.service.informers["Pod"].statistics()
                assert statistics.lists == before + 1, how
            assert statistics.missed_deletes >= 1
            assert lab.network.fired["expired"] == 2

    run_in_lab(work)


def test_f3_a_missed_deletion_releases_resources() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node(pods=1))
        async with lab.running():
            await lab.add(small_pod("first"))
            await settled(lab, "first")
            await lab.add(small_pod("second"))
            await asyncio.sleep(5)
            assert lab.node_of("second") == ""

            lab.network.restart(3.0)
            await lab.user.delete("Pod", "first", "default", grace_period_s=0)
            for collection in lab.api.store.collections():
                collection.history.drop(1000)
            await settled(lab, "second")

            assert lab.service.informers["Pod"].statistics().missed_deletes == 1

    run_in_lab(work)


# -- F4: 409 to a binding ------------------------------------------------------------------------


def test_f4_a_conflict_about_our_own_binding_is_a_success() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node())
        async with lab.running():
            # The binding succeeds, but its response is lost; the retry gets a 409.
            lab.network.plan("lost", "/binding")
            await lab.add(small_pod("p"))
            await settled(lab, "p")

            assert lab.checker.binds == 1
            assert lab.events() == {"Scheduled": 1}

    run_in_lab(work)


def test_f4_a_conflict_with_another_schedulers_binding_releases_resources() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node("a"), small_node("b"))
        async with lab.running():
            # The Retry-After leaves time for another binding between decision and binding.
            lab.network.plan("too_many", "/binding")
            await lab.add(small_pod("p"))
            pod = next(iter(lab.store.pods.values()))
            await lab.wait_until(lab.service.cache.assumed_count)
            mine = next(iter(lab.service.cache.pods)).row
            other = "b" if lab.service.cache.nodes.names[mine] == "a" else "a"
            await lab.user.bind(pod, other)
            await settled(lab, "p", within_s=200)

            assert lab.node_of("p") == other
            await lab.add(small_pod("q"))
            await settled(lab, "q")
            assert lab.node_of("q") == lab.service.cache.nodes.names[mine]

    run_in_lab(work, seed=3)


def test_f4_a_deleted_pod_is_dropped() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node())
        async with lab.running():
            # The pod is deleted while it is assumed and waits for the Retry-After.
            lab.network.plan("too_many", "/binding")
            await lab.add(small_pod("p"))
            await lab.wait_until(lab.service.cache.assumed_count)
            await lab.user.delete("Pod", "p", "default", grace_period_s=0)
            await settled(lab, within_s=200)

            assert len(lab.service.cache.pods) == 0
            assert not any(lab.service.queue.counts().values())

    for seed in range(6):
        run_in_lab(work, seed=seed)


# -- F5: 429 ---------------------------------------------------------------------------------------


def test_f5_retry_after_delays_only_the_request_that_got_it() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node(pods=5))
        async with lab.running():
            lab.network.plan("too_many", "pods/p/binding", times=2)
            await lab.add(small_pod("p"), small_pod("q"))
            await asyncio.sleep(0.5)
            assert lab.node_of("q") == "a"
            assert lab.node_of("p") == ""

            await settled(lab, "p", within_s=300)
            assert lab.network.requests.early == []
            assert len(lab.transport.times_s("pods/p/binding")) == 3
            # One attempt per pod: the pod stayed assumed.
            assert lab.checker.attempts == 2

    run_in_lab(work)


# -- F6: 5xx ---------------------------------------------------------------------------------------


def test_f6_with_half_of_all_requests_failing_every_pod_is_bound_once() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(*(small_node(name, pods=8) for name in "abc"))
        async with lab.running():
            lab.network.faults = Faults(server_error=0.5)
            names = [f"p{number}" for number in range(24)]
            await lab.add(*(small_pod(name) for name in names))
            await asyncio.sleep(60)
            lab.network.heal()
            await settled(lab, *names, within_s=300)

            assert lab.network.fired["server_error"] > 24
            assert lab.checker.binds == 24

    run_in_lab(work)


# -- F7: slow responses, half-open connections -----------------------------------------------------


def test_f7_a_silent_watch_is_closed() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node())
        async with lab.running():
            lab.network.plan("silent", WATCH_PODS)
            await lab.add(small_pod("p"))
            await asyncio.sleep(140)
            assert lab.node_of("p") == ""
            await settled(lab, "p", within_s=60)

    run_in_lab(work)


def test_f7_a_binding_that_arrives_after_its_deadline_is_observed() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node())
        async with lab.running():
            lab.network.faults = Faults(slow=0.5)
            await lab.add(small_pod("p"), small_pod("q"))
            await asyncio.sleep(200)
            lab.network.heal()
            await asyncio.sleep(200)

            assert sorted([bool(lab.node_of("p")), bool(lab.node_of("q"))]) == [False, True]
            assert lab.service.queue.counts()[QueueName.UNSCHEDULABLE] == 1

    for seed in range(6):
        run_in_lab(work, seed=seed)


# -- F8: the response is lost --------------------------------------------------------------------


def test_f8_resources_stay_reserved_while_the_outcome_is_unknown() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node())
        async with lab.running():
            lab.network.plan("lost", "/binding")
            # Reading the pod fails for a while.
            lab.network.plan("server_error", f"GET {PODS}/p", times=5)
            await lab.add(small_pod("p"))
            await lab.wait_until(lambda: lab.network.fired["lost"])
            await lab.add(small_pod("q"))
            await asyncio.sleep(1)
            assert len(lab.service.bindings) == 1
            assert len(lab.service.cache.pods) == 1

            await settled(lab, "p", within_s=300)
            assert lab.checker.binds == 1
            assert lab.node_of("q") == ""

    run_in_lab(work)


def test_f8_a_late_binding_does_not_bind_a_recreated_pod() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node("a", pods=5))
        async with lab.running():
            lab.network.plan("unreachable", "/binding")
            lab.network.plan("slow", "/binding")
            await lab.add(small_pod("p"))
            old = next(iter(lab.store.pods))
            await lab.wait_until(lambda: lab.transport.times_s("/binding"))
            await lab.user.delete("Pod", "p", "default", grace_period_s=0)
            await lab.add(small_pod("p"))
            await settled(lab, "p")

            assert old not in lab.store.bindings
            assert len(lab.service.cache.pods) == 1

    run_in_lab(work)


# -- F13: repeated events ------------------------------------------------------------------------


def test_f13_repeated_events_change_nothing() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node(pods=3))
        async with lab.running():
            lab.network.faults = Faults(repeated=1.0, lag=0.3)
            for number in range(12):
                await lab.add(small_pod("p"))
                await asyncio.sleep(4)
                if number % 2:
                    await lab.user.delete("Pod", "p", "default", grace_period_s=0)
                else:
                    await lab.user.delete("Pod", "p", "default", grace_period_s=0)
                    await lab.add(small_pod("p"))
                    await asyncio.sleep(4)
                    await lab.user.delete("Pod", "p", "default", grace_period_s=0)
            await lab.add(small_pod("last"))
            lab.network.heal()
            await settled(lab, "last")

            assert lab.service.informers["Pod"].statistics().duplicates > 10
            assert len(lab.service.cache.pods) == 1

    run_in_lab(work)


def test_reading_a_missing_pod_raises_not_found() -> None:
    async def work(lab: Lab) -> None:
        try:
            await lab.user.get("Pod", "missing", "default")
        except NotFound:
            return
        raise AssertionError("there is none")

    run_in_lab(work)


# -- late status updates ----------------------------------------------------------------------


def test_a_bound_pod_has_no_stale_condition() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node())
        async with lab.running():
            # The status update of the failed first binding is retried during the second one.
            lab.network.plan("unreachable", "/binding")
            lab.network.plan("unreachable", "/status", times=3)
            await lab.add(small_pod("p"))
            await settled(lab, "p")
            await asyncio.sleep(60)

            (pod,) = lab.store.pods.values()
            assert [condition.status for condition in pod.status.conditions] == ["True"]

    for seed in range(5):
        run_in_lab(work, seed=seed)


def test_a_delayed_status_update_delays_no_binding() -> None:
    async def work(lab: Lab) -> None:
        await lab.add(small_node())
        async with lab.running():
            lab.network.plan("unreachable", "/binding")
            lab.network.plan("too_many", "/status", times=2)
            await lab.add(small_pod("p"))
            await lab.wait_until(lambda: lab.node_of("p"), within_s=10)

            await settled(lab, "p", within_s=300)
            assert lab.network.requests.early == []

    for seed in range(6):
        run_in_lab(work, seed=seed)
