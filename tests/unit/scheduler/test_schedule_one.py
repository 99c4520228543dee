"""Decisions of a running scheduler: bindings, and messages of unschedulable pods.

The words are those of kube-scheduler v1.36.3, pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from msgspec.structs import replace

from mooring.config import default_configuration
from mooring.framework import Reject
from mooring.framework.status import FilterStatuses, PostFilterResult, Status
from mooring.queue import QueueName
from mooring.testing import make_node, make_pod
from tests.helpers.configurations import NO_POST_FILTER, in_vain
from tests.helpers.running_scheduler import RecordedEvent, run_scheduler, virtually

NO_CPU = "0/1 nodes are available: 1 Insufficient cpu. " + in_vain(1)


@virtually
async def test_a_pod_gets_a_node_and_an_event() -> None:
    async with run_scheduler(make_node("a")) as life:
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") == "a"
        note = "Successfully assigned default/web to a"
        assert await life.events("web") == [RecordedEvent("Normal", "Scheduled", "Binding", note)]
        assert life.observer.of("attempted", "bound") == [
            ("attempted", "web", "a"),
            ("bound", "web", "a"),
        ]


@virtually
async def test_the_event_says_who_reports_it() -> None:
    async with run_scheduler(make_node("a"), instance="here") as life:
        await life.create(make_pod("web"))
        await life.settle()
        (event,) = (await life.client.list("Event", "default")).items
        assert event.reporting_controller == "default-scheduler"
        assert event.reporting_instance == "default-scheduler-here"
        assert (event.regarding.kind, event.regarding.name) == ("Pod", "web")


@virtually
async def test_a_pod_that_fits_nowhere_is_unschedulable_and_its_condition_says_why() -> None:
    async with run_scheduler(make_node("a")) as life:
        stored = await life.create(make_pod("big", requests={"cpu": "40"}))
        await life.settle()
        condition = await life.condition("big")
        # As RFC 3339 at the beginning of virtual time.
        assert condition.pop("lastTransitionTime").startswith("2026-01-01T00:00:0")
        assert condition == {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": NO_CPU,
            "observedGeneration": 1,
            "lastProbeTime": None,
        }
        assert await life.events("big") == [
            RecordedEvent("Warning", "FailedScheduling", "Scheduling", NO_CPU)
        ]
        assert life.service.queue.queue_of(stored.metadata.uid) is QueueName.UNSCHEDULABLE
        assert life.observer.of("failed") == [("failed", "big", NO_CPU)]


@virtually
async def test_a_cluster_without_nodes_says_so_and_the_first_node_wakes_the_pod() -> None:
    async with run_scheduler() as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        await life.until(lambda: not len(life.service.writer))
        assert (await life.condition("web"))["message"] == "no nodes available to schedule pods"
        assert (await life.condition("web"))["reason"] == "Unschedulable"
        await life.create(make_node("a"))
        await life.until_seen("bound", "web")
        # The API server itself turns the condition.
        assert (await life.condition("web"))["status"] == "True"


@virtually
async def test_room_that_is_given_back_wakes_the_pod_that_needs_it() -> None:
    async with run_scheduler(make_node("a", allocatable={"cpu": "2"})) as life:
        await life.create(make_pod("first", requests={"cpu": "2"}))
        await life.settle()
        await life.create(make_pod("second", requests={"cpu": "2"}))
        await life.settle()
        assert await life.node_of("second") == ""
        await life.delete("first")
        await life.until_seen("bound", "second")
        assert await life.node_of("second") == "a"


@virtually
async def test_the_same_refusal_again_writes_no_status_and_keeps_its_time() -> None:
    async with run_scheduler(make_node("a")) as life:
        await life.create(make_pod("big", requests={"cpu": "40"}))
        await life.settle()
        before = await life.condition("big")
        assert life.wire.count("PATCH", "/pods/big/status") == 1
        await life.again("big")
        await life.until_seen("failed", "big", times=2)
        await life.settle()
        assert await life.condition("big") == before
        assert life.wire.count("PATCH", "/pods/big/status") == 1
        assert life.service.writer.statistics.unchanged == 1


@virtually
async def test_another_refusal_keeps_the_time_of_the_transition() -> None:
    async with run_scheduler(make_node("a")) as life:
        await life.create(make_pod("big", requests={"cpu": "40"}))
        await life.settle()
        before = await life.condition("big")
        await life.until(lambda: life.clock.monotonic_s() > 5)
        await life.create(make_node("b"))
        await life.again("big")
        await life.until_seen("failed", "big", times=2)
        await life.settle()
        after = await life.condition("big")
        assert after["message"] == "0/2 nodes are available: 2 Insufficient cpu. " + in_vain(2)
        assert after["lastTransitionTime"] == before["lastTransitionTime"]


@virtually
async def test_a_pod_that_is_being_deleted_is_passed_over_with_a_word() -> None:
    async with run_scheduler(make_node("a"), at_rest=False) as life:
        await life.create(
            make_pod("web", metadata={"finalizers": ["example.com/keep"]}, gates=["g"])
        )
        await life.settle()
        await life.delete("web", grace_period_s=None)
        # The gate opens, and so it is tried.
        await life.client.patch(
            "Pod", "web", {"spec": {"schedulingGates": None}}, namespace="default"
        )
        await life.until_seen("in flight", "web")
        await life.settle()
        note = "skip schedule deleting pod: default/web"
        assert await life.events("web") == [
            RecordedEvent("Warning", "FailedScheduling", "Scheduling", note)
        ]
        assert life.observer.of("attempted") == []
        assert await life.node_of("web") == ""


@virtually
async def test_a_pod_that_is_on_its_node_already_is_passed_over_without_a_word() -> None:
    async with run_scheduler(make_node("a")) as life:
        await life.create(make_pod("web"))
        await life.settle()
        info = next(iter(life.service.cache.pods)).info
        life.service.queue.add(info)
        await life.settle()
        assert life.observer.names("attempted") == ["web"]
        assert len(await life.events("web")) == 1


@virtually
async def test_pods_of_other_schedulers_are_left_alone() -> None:
    async with run_scheduler(make_node("a")) as life:
        await life.create(make_pod("theirs", scheduler_name="other"), make_pod("ours"))
        await life.settle()
        assert await life.node_of("theirs") == ""
        assert life.observer.names("attempted") == ["ours"]
        assert await life.events("theirs") == []


@virtually
async def test_two_profiles_place_their_own_pods_and_report_by_their_own_names() -> None:
    config = default_configuration()
    (first,) = config.profiles
    second = replace(first, scheduler_name="second")
    config = replace(config, profiles=(first, second))
    async with run_scheduler(make_node("a", allocatable={"cpu": "1"}), config=config) as life:
        await life.create(make_pod("one"), make_pod("two", scheduler_name="second"))
        await life.create(make_pod("big", scheduler_name="second", requests={"cpu": "2"}))
        await life.settle()
        by = {
            event.regarding.name: event.reporting_controller
            for event in (await life.client.list("Event", "default")).items
        }
        assert by == {"one": "default-scheduler", "two": "second", "big": "second"}
        assert [await life.node_of(name) for name in ("one", "two", "big")] == ["a", "a", ""]


@virtually
async def test_a_gated_pod_waits_until_its_gate_is_gone() -> None:
    async with run_scheduler(make_node("a")) as life:
        await life.create(make_pod("gated", gates=["example.com/wait"]))
        await life.settle()
        assert life.service.queue.counts()[QueueName.GATED] == 1
        assert await life.events("gated") == []
        gone = {"spec": {"schedulingGates": None}}
        await life.client.patch("Pod", "gated", gone, namespace="default")
        await life.until_seen("bound", "gated")
        assert life.observer.names("attempted") == ["gated"]


# ---- plugins that fail ----


class Stumbles:
    """A filter that fails for pods called poison, while it is switched on."""

    name = "Stumbles"

    def __init__(self) -> None:
        self.fails = True

    def pre_filter(self, cycle: Any) -> None:
        if self.fails and cycle.pod.metadata.name == "poison":
            raise ValueError("cannot read it")


@virtually
async def test_a_pod_at_which_a_plugin_fails_is_tried_again_and_others_go_on() -> None:
    plugin = Stumbles()
    async with run_scheduler(make_node("a"), plugins=[plugin]) as life:
        await life.create(make_pod("poison"), make_pod("sound"))
        await life.until_seen("bound", "sound")
        told = 'running PreFilter plugin "Stumbles": ValueError: cannot read it'
        assert life.observer.of("failed") == [("failed", "poison", told)]
        entry = next(iter(life.service.queue.pods()))
        assert (entry.queue_name, entry.consecutive_errors) == (QueueName.BACKOFF, 1)
        await life.until(lambda: not len(life.service.writer))
        condition = await life.condition("poison")
        assert (condition["reason"], condition["message"]) == ("SchedulerError", told)
        assert await life.events("poison") == [
            RecordedEvent("Warning", "FailedScheduling", "Scheduling", told)
        ]
        await life.until_seen("failed", "poison", times=2)
        plugin.fails = False
        await life.until_seen("bound", "poison")
        # 1 s and 2 s, rounded down to whole seconds and tried within the next one.
        assert 3 <= life.clock.monotonic_s() <= 6


@virtually
async def test_a_poison_pod_is_quarantined_and_its_event_and_condition_say_so() -> None:
    plugin = Stumbles()
    async with run_scheduler(make_node("a"), plugins=[plugin]) as life:
        await life.create(make_pod("poison"))
        await life.until_seen("failed", "poison", times=3)
        await life.until(lambda: not len(life.service.writer))
        text = "quarantined for 300 s, because attempts raise again and again"
        told = 'running PreFilter plugin "Stumbles": ValueError: cannot read it'
        condition = await life.condition("poison")
        assert (condition["reason"], condition["message"]) == ("SchedulerError", f"{told}; {text}")
        event = RecordedEvent("Warning", "Quarantined", "Scheduling", text)
        assert event in await life.events("poison")
        assert life.service.queue.quarantined_count == 1
        await life.create(make_pod("sound"), make_node("b"))
        await life.until_seen("bound", "sound")
        # Its own condition, and a new node, have not shortened it.
        assert len(life.observer.of("failed")) == 3
        plugin.fails = False
        await asyncio.sleep(300)
        await life.until_seen("bound", "poison")
        assert life.service.queue.quarantined_count == 0


class Unreadable(Reject):
    """A status at which our own code raises when it reads it."""

    def named(self, plugin: str) -> Status:
        raise LookupError(f"no status of {plugin}")


class Table:
    """A filter with such statuses."""

    name = "Table"

    def filter(self, cycle: Any, nodes: Any) -> FilterStatuses:
        if cycle.pod.metadata.name != "poison":
            return FilterStatuses.feasible(len(nodes))
        return FilterStatuses(np.ones(len(nodes), dtype=np.uint16), [Unreadable("odd")])


@virtually
async def test_an_exception_in_our_own_code_fails_the_pod_and_not_the_scheduler() -> None:
    async with run_scheduler(make_node("a"), plugins=[Table()], at_rest=False) as life:
        await life.create(make_pod("poison"))
        await life.until_seen("failed", "poison", times=3)
        assert life.observer.of("failed")[0][2].startswith("scheduling cycle: LookupError: ")
        assert life.service.queue.quarantined_count == 1
        assert life.service.queue.quarantine.counts == {"mooring": 1}
        await life.create(make_pod("sound"))
        await life.until_seen("bound", "sound")


@virtually
async def test_a_long_message_is_cut_in_the_event_and_whole_in_the_condition() -> None:
    class Talks:
        name = "Talks"

        def pre_filter(self, cycle: Any) -> Any:
            return Reject("é" * 1200)

        def events(self) -> list[Any]:
            return []

    async with run_scheduler(make_node("a"), plugins=[Talks()], config=NO_POST_FILTER) as life:
        await life.create(make_pod("web"))
        await life.settle()
        whole = f"0/1 nodes are available: {'é' * 1200}."
        assert (await life.condition("web"))["message"] == whole
        (event,) = await life.events("web")
        assert len(event.note.encode()) in (1023, 1024)
        assert event.note.endswith(" ...")
        assert whole.startswith(event.note.removesuffix(" ..."))


# ---- nominations ----


class MakesRoom:
    """A PostFilter with a prepared result."""

    name = "MakesRoom"

    def __init__(self, answer: PostFilterResult) -> None:
        self.answer = answer

    def post_filter(self, cycle: Any, diagnosis: Any) -> PostFilterResult:
        return self.answer


@virtually
async def test_room_that_is_made_becomes_a_nomination_and_its_end_clears_it() -> None:
    plugin = MakesRoom(PostFilterResult(None, "a"))
    async with run_scheduler(make_node("a"), plugins=[plugin], config=NO_POST_FILTER) as life:
        stored = await life.create(make_pod("big", requests={"cpu": "40"}))
        uid = stored.metadata.uid
        await life.settle()
        assert (await life.raw("big"))["status"]["nominatedNodeName"] == "a"
        assert life.service.cache.nominator.node_of(uid) == "a"
        # No room can be made any more: the nomination goes.
        plugin.answer = PostFilterResult(Reject("no victims"), "")
        await life.create(make_node("b"))
        await life.again("big")
        await life.until_seen("failed", "big", times=2)
        await life.settle()
        assert "nominatedNodeName" not in (await life.raw("big"))["status"]
        assert life.service.cache.nominator.node_of(uid) == ""
        message = (await life.condition("big"))["message"]
        assert message == "0/2 nodes are available: 2 Insufficient cpu. no victims"


@virtually
async def test_a_nomination_stays_if_nobody_says_anything_about_it() -> None:
    plugin = MakesRoom(PostFilterResult(None, "a"))
    async with run_scheduler(make_node("a"), plugins=[plugin], config=NO_POST_FILTER) as life:
        stored = await life.create(make_pod("big", requests={"cpu": "40"}))
        await life.settle()
        plugin.answer = PostFilterResult(Reject("not eligible"), None)
        await life.create(make_node("b"))
        await life.again("big")
        await life.until_seen("failed", "big", times=2)
        await life.settle()
        assert (await life.raw("big"))["status"]["nominatedNodeName"] == "a"
        assert life.service.cache.nominator.node_of(stored.metadata.uid) == "a"


@virtually
async def test_a_nomination_ends_with_an_error_and_with_a_binding() -> None:
    stumbles = Stumbles()
    stumbles.fails = False
    wait_for_slot = MakesRoom(PostFilterResult(None, "a"))
    async with run_scheduler(make_node("a"), plugins=[wait_for_slot, stumbles]) as life:
        await life.create(make_pod("poison", requests={"cpu": "40"}))
        await life.settle()
        assert (await life.raw("poison"))["status"]["nominatedNodeName"] == "a"
        stumbles.fails = True
        await life.again("poison")
        await life.until(
            lambda: any("ValueError" in line[2] for line in life.observer.of("failed"))
        )
        await life.until(lambda: not len(life.service.writer))
        assert "nominatedNodeName" not in (await life.raw("poison"))["status"]
        stumbles.fails = False
        await life.create(make_node("c", allocatable={"cpu": "64"}))
        await life.until_seen("bound", "poison")
        await life.settle()
        assert len(life.service.cache.nominator) == 0


# ---- the pod changes while it is decided about ----


class Meanwhile:
    """A PreFilter in the middle of which something happens; it refuses the pod then."""

    name = "Meanwhile"

    def __init__(self) -> None:
        self.happens: Any = None

    def pre_filter(self, cycle: Any) -> Any:
        happens, self.happens = self.happens, None
        if happens is None:
            return None
        happens()
        return Reject("wait")

    def events(self) -> list[Any]:
        return []


@virtually
async def test_a_pod_that_vanishes_in_the_middle_is_not_put_back() -> None:
    plugin = Meanwhile()
    async with run_scheduler(make_node("a"), plugins=[plugin]) as life:
        objects = life.service.informers["Pod"].objects
        plugin.happens = lambda: objects.pop("default/web")  # type: ignore[attr-defined]
        await life.create(make_pod("web"))
        await life.until_seen("attempted", "web")
        assert life.service.queue.pods() == []
        assert life.observer.of("failed") == []
        await life.settle()
        # Neither condition nor queue, but the event, as upstream.
        assert [event.reason for event in await life.events("web")] == ["FailedScheduling"]
        assert await life.condition("web") is None


@virtually
async def test_a_pod_that_was_made_anew_in_the_middle_is_not_put_back() -> None:
    plugin = Meanwhile()
    async with run_scheduler(make_node("a"), plugins=[plugin]) as life:
        objects = life.service.informers["Pod"].objects

        def made_anew() -> None:
            objects["default/web"] = make_pod("web", uid="another")  # type: ignore[index]

        plugin.happens = made_anew
        await life.create(make_pod("web"))
        await life.until_seen("attempted", "web")
        assert life.service.queue.pods() == []
        assert life.observer.of("failed") == []


@virtually
async def test_a_pod_comes_back_into_the_queue_in_its_newest_version() -> None:
    plugin = Meanwhile()
    async with run_scheduler(make_node("a"), plugins=[plugin]) as life:
        objects = life.service.informers["Pod"].objects

        def change() -> None:
            pod = objects["default/web"]
            labelled = replace(pod.metadata, labels={"new": "yes"})
            objects["default/web"] = replace(pod, metadata=labelled)  # type: ignore[index]

        plugin.happens = change
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        assert [pod.metadata.labels for pod in life.observer.failed_pods] == [{"new": "yes"}]
