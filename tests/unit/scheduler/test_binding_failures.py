"""After the decision: Reserve and Permit, and giving back what they hold.

The rules are those of kube-scheduler v1.36.3, pkg/scheduler/schedule_one.go (bindingCycle,
handleBindingCycleError) and eventhandlers.go (handleAssumedPodDeletion).
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.client.transport.transport import Request
from mooring.cluster_event import ClusterEventWithHint
from mooring.errors import Unreachable
from mooring.framework import Reject, Wait
from mooring.framework.status import Skip
from mooring.queue import QueueName
from mooring.scheduler.event_handlers import POD_GONE
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import on, run_scheduler, virtually
from tests.helpers.scripted_plugins import (
    Binds,
    Permits,
    Prepares,
    ReservePlugin,
    held,
    nominated,
)

ONE = "0/1 nodes are available: "


@virtually
async def test_a_refusal_by_reserve_is_one_about_one_node() -> None:
    keeps = ReservePlugin(Reject("no licence"))
    async with run_scheduler(make_node("a"), make_node("b"), plugins=[keeps]) as life:
        stored = await life.create(make_pod("web"))
        await life.settle()
        assert keeps.calls == ["reserve web", "unreserve web"]
        condition = await life.condition("web")
        assert (condition["reason"], condition["message"]) == (
            "Unschedulable",
            ONE + "1 no licence.",
        )
        entry = life.service.queue.get(stored.metadata.uid)
        assert entry is not None
        assert (entry.queue_name, entry.rejectors) == (
            QueueName.UNSCHEDULABLE,
            frozenset({"ReservePlugin"}),
        )


@virtually
async def test_an_error_in_reserve_gives_back_once_and_is_tried_again() -> None:
    keeps = ReservePlugin(RuntimeError("licence server"))
    async with run_scheduler(make_node("a"), plugins=[keeps]) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        assert keeps.calls == ["reserve web", "unreserve web"]
        told = 'running Reserve plugin "ReservePlugin": RuntimeError: licence server'
        assert life.observer.of("failed") == [("failed", "web", told)]
        keeps.answer = None
        await life.until_seen("bound", "web")


# ---- Permit ----


@virtually
async def test_a_refusal_by_permit_gives_back_what_is_reserved() -> None:
    keeps = ReservePlugin()
    async with run_scheduler(make_node("a"), plugins=[keeps, Permits(Reject("later"))]) as life:
        await life.create(make_pod("web"))
        await life.settle()
        assert keeps.calls == ["reserve web", "unreserve web"]
        assert (await life.condition("web"))["message"] == ONE + "1 later."
        assert len(life.service.cache.pods) == 0


@virtually
async def test_an_error_in_permit_is_an_error_of_the_pod() -> None:
    async with run_scheduler(
        make_node("a"), plugins=[Permits(OSError("gone"))], at_rest=False
    ) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        told = 'running Permit plugin "Permits": OSError: gone'
        assert life.observer.of("failed") == [("failed", "web", told)]
        assert len(life.service.cache.pods) == 0


@virtually
async def test_a_pod_that_permit_holds_is_announced_and_bound_when_allowed() -> None:
    async with run_scheduler(make_node("a"), plugins=[Permits(Wait(30.0))]) as life:
        await life.create(make_pod("web"))
        await life.until_seen("waits", "web")
        await asyncio.sleep(5)
        assert life.observer.of("waits") == [("waits", "web", "Permits")]
        assert not life.service.is_settled
        assert await life.node_of("web") == ""
        # Autoscalers may want to know where it goes.
        assert await nominated(life, "web") == "a"
        held(life, "web").allow("Permits")
        await life.settle()
        assert life.observer.of("allowed", "bound") == [
            ("allowed", "web", "a"),
            ("bound", "web", "a"),
        ]
        assert await life.node_of("web") == "a"


@virtually
async def test_a_pod_that_nobody_holds_is_not_announced() -> None:
    async with run_scheduler(
        make_node("a"), plugins=[ReservePlugin(), Prepares(in_flight=Skip.SKIP)]
    ) as life:
        await life.create(make_pod("web"))
        await life.settle()
        assert life.wire.count("PATCH", "/pods/web/status") == 0


@virtually
async def test_an_announcement_that_fails_stops_nobody() -> None:
    async def refuse(request: Request) -> None:
        raise Unreachable("cut off")

    async with run_scheduler(make_node("a"), plugins=[Prepares()]) as life:
        life.wire.before.append(on("PATCH", "/pods/web/status")(refuse))
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") == "a"


@virtually
async def test_the_wait_in_permit_ends_in_time_while_the_announcement_is_being_written() -> None:
    async def write_slowly(request: Request) -> None:
        await asyncio.sleep(20)

    async with run_scheduler(make_node("a"), plugins=[Permits(Wait(8.0))]) as life:
        life.wire.before.append(on("PATCH", "/pods/web/status")(write_slowly))
        await life.create(make_pod("web"))
        await life.until_seen("waits", "web")
        pod = held(life, "web")
        await asyncio.sleep(10)
        pod.allow("Permits")
        await life.settle()
        told = ONE + "1 rejected due to timeout after waiting 8s at plugin Permits."
        assert (await life.condition("web"))["message"] == told
        assert await life.node_of("web") == ""
        assert await nominated(life, "web") == ""


@virtually
async def test_a_waiting_pod_that_is_rejected_gives_all_back_and_its_nomination_too() -> None:
    keeps = ReservePlugin()
    async with run_scheduler(make_node("a"), plugins=[keeps, Permits(Wait(30.0))]) as life:
        stored = await life.create(make_pod("web"))
        await life.until_seen("waits", "web")
        held(life, "web").reject("Permits", "the gang is too small")
        await life.settle()
        assert keeps.calls == ["reserve web", "unreserve web"]
        assert (await life.condition("web"))["message"] == ONE + "1 the gang is too small."
        assert await nominated(life, "web") == ""
        entry = life.service.queue.get(stored.metadata.uid)
        assert entry is not None
        assert (entry.queue_name, entry.rejectors) == (
            QueueName.UNSCHEDULABLE,
            frozenset({"Permits"}),
        )


@virtually
async def test_a_pod_that_waits_for_too_long_is_rejected_in_kube_schedulers_words() -> None:
    async with run_scheduler(make_node("a"), plugins=[Permits(Wait(7.5))]) as life:
        await life.create(make_pod("web"))
        await life.settle()
        told = "1 rejected due to timeout after waiting 7.5s at plugin Permits."
        assert life.observer.of("failed") == [("failed", "web", ONE + told)]
        assert 7.5 <= life.clock.monotonic_s() < 8.5
        assert (await life.condition("web"))["message"] == ONE + told


@virtually
async def test_a_rejected_wait_wakes_those_that_wait_for_its_room_but_not_itself() -> None:
    class First(Permits):
        def permit(self, cycle: Any, node_name: str) -> Any:
            return Wait(30.0) if cycle.pod.metadata.name == "first" else None

    node = make_node("a", allocatable={"cpu": "1"})
    async with run_scheduler(node, plugins=[First(None)]) as life:
        await life.create(make_pod("first", requests={"cpu": "1"}))
        await life.until_seen("waits", "first")
        await life.create(make_pod("second", requests={"cpu": "1"}))
        await life.until_seen("failed", "second")
        held(life, "first").reject("Permits", "no")
        await life.until_seen("bound", "second")
        assert life.observer.names("attempted") == ["first", "second", "second"]


@virtually
async def test_a_failed_binding_requeues_those_that_wait_for_its_resources() -> None:
    refused = asyncio.Event()

    class RefusesFirst(Binds):
        async def bind(self, cycle: Any, node_name: str) -> Any:
            if cycle.pod.metadata.name == "second":
                return Skip.SKIP
            await refused.wait()
            return Reject("not you")

    node = make_node("a", allocatable={"cpu": "1"})
    async with run_scheduler(node, plugins=[RefusesFirst()], at_rest=False) as life:
        await life.create(make_pod("first", requests={"cpu": "1"}))
        await life.until(lambda: len(life.service.cache.pods) == 1)
        await life.create(make_pod("second", requests={"cpu": "1"}))
        await life.until_seen("failed", "second")
        # Its backoff is over before the resources are released.
        await asyncio.sleep(30)
        refused.set()
        released_s = life.clock.monotonic_s()
        await life.until_seen("bound", "second")
        assert life.clock.monotonic_s() - released_s < 1
        # No nomination has ended, which would have requeued it as well.
        assert life.wire.count("PATCH", "/pods/first/status") <= 1


@virtually
async def test_the_release_of_its_own_resources_does_not_requeue_a_pod() -> None:
    class PermitsAfterDeletions(Permits):
        def events(self) -> list[Any]:
            return [ClusterEventWithHint(POD_GONE)]

    # With a nomination, its end would requeue the pod, as in kube-scheduler.
    gates = {"NominatedNodeNameForExpectation": False}
    waits = PermitsAfterDeletions(Wait(5.0))
    async with run_scheduler(make_node("a"), plugins=[waits], feature_gates=gates) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        await asyncio.sleep(60)
        assert life.observer.names("attempted") == ["web"]
        (entry,) = life.service.queue.pods()
        assert entry.queue_name is QueueName.UNSCHEDULABLE


@virtually
async def test_a_waiting_pod_that_is_deleted_lets_go_at_once() -> None:
    keeps = ReservePlugin()
    async with run_scheduler(make_node("a"), plugins=[keeps, Permits(Wait(600.0))]) as life:
        await life.create(make_pod("web"))
        await life.until_seen("waits", "web")
        deleted_s = life.clock.monotonic_s()
        await life.delete("web")
        await life.settle()
        assert life.clock.monotonic_s() - deleted_s < 1
        assert keeps.calls == ["reserve web", "unreserve web"]
        assert len(life.service.cache.pods) == 0
        assert life.service.queue.pods() == []


@virtually
async def test_a_waiting_pod_that_begins_to_be_deleted_lets_go_at_once() -> None:
    pod = make_pod("web", metadata={"finalizers": ["example.com/keep"]})
    async with run_scheduler(make_node("a"), plugins=[Permits(Wait(600.0))], at_rest=False) as life:
        await life.create(pod)
        await life.until_seen("waits", "web")
        await life.delete("web")
        await life.until(lambda: not len(life.service.handle.waiting), deadline_s=1)
        await life.until(lambda: not len(life.service.cache.pods), deadline_s=1)
        # It is still there, and so it is tried once more, and passed over.
        await life.until(lambda: not life.service.queue.pods())
        await life.settle()
        notes = {event.note for event in await life.events("web")}
        assert "skip schedule deleting pod: default/web" in notes


@virtually
async def test_a_waiting_pod_that_another_scheduler_binds_is_released() -> None:
    keeps = ReservePlugin()
    nodes = [make_node("a", allocatable={"cpu": "1"}), make_node("b", allocatable={"cpu": "9"})]
    async with run_scheduler(*nodes, plugins=[keeps, Permits(Wait(600.0))]) as life:
        stored = await life.create(make_pod("web", requests={"cpu": "1"}))
        await life.until_seen("waits", "web")
        chosen = life.observer.of("attempted")[0][2]
        other = "a" if chosen == "b" else "b"
        await life.client.bind(stored, other)
        await life.settle()
        assert keeps.calls == ["reserve web", "unreserve web"]
        placed = life.service.cache.pods.get(stored.metadata.uid)
        assert placed is not None
        assert placed.info.node_name == other
        assert life.service.queue.pods() == []
        assert life.observer.of("bound") == []
        assert [event.reason for event in await life.events("web")] == ["FailedScheduling"]
        assert (await life.condition("web"))["status"] == "True"


@virtually
async def test_several_pods_wait_without_holding_up_the_others() -> None:
    class Gang(Permits):
        def permit(self, cycle: Any, node_name: str) -> Any:
            return Wait(60.0) if cycle.pod.metadata.name.startswith("gang") else None

    async with run_scheduler(make_node("a"), plugins=[Gang(None)], bindings_max=1) as life:
        await life.create(*(make_pod(f"gang-{number}") for number in range(3)), make_pod("alone"))
        await life.until_seen("bound", "alone", times=1)
        assert len(life.service.handle.waiting) == 3
        for waiting in list(life.service.handle.waiting):
            waiting.allow("Permits")
        await life.settle()
        assert len(life.observer.names("bound")) == 4


@pytest.mark.parametrize("waits_s", [0.001, 0.5])
@virtually
async def test_a_wait_that_times_out_is_retried_after_the_backoff(waits_s: float) -> None:
    class PermitsAfterAnyEvent:
        name = "Permits"

        def permit(self, cycle: Any, node_name: str) -> Wait:
            return Wait(waits_s)

    plugin = PermitsAfterAnyEvent()
    async with run_scheduler(make_node("a"), plugins=[plugin], at_rest=False) as life:
        await life.create(make_pod("web"))
        await asyncio.sleep(60)
        # After 1, 2, 4, 8 and then 10 seconds, though nothing else is to be scheduled.
        assert 6 <= len(life.observer.names("attempted")) <= 10
