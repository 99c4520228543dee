"""From the decision to the binding: PreBind, Bind, PostBind, and what comes in between.

The rules are those of kube-scheduler v1.36.3, pkg/scheduler/schedule_one.go (bindingCycle,
handleBindingCycleError) and eventhandlers.go.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.client.transport.transport import Request
from mooring.errors import InvariantViolation, LeaseLost, Unreachable
from mooring.framework import Reject
from mooring.queue import QueueName
from mooring.testing import make_node, make_pod
from tests.helpers.running_scheduler import on, run_scheduler, virtually
from tests.helpers.scripted_plugins import Binds, Prepares, ReservePlugin, nominated

# ---- PreBind ----


@virtually
async def test_pre_bind_runs_before_the_binding_and_the_pod_is_announced() -> None:
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    prepares = Prepares(wait)
    async with run_scheduler(make_node("a"), plugins=[prepares]) as life:
        await life.create(make_pod("web"))
        await life.until(lambda: prepares.done == ["web"])
        assert life.wire.count("POST", "/binding") == 0
        assert await nominated(life, "web") == "a"
        gate.set()
        await life.settle()
        assert life.wire.count("POST", "/binding") == 1
        assert await life.node_of("web") == "a"


@pytest.mark.parametrize(
    ("step", "reason", "told"),
    [
        (Reject("not ready"), "Unschedulable", "not ready"),
        (OSError("disk"), "SchedulerError", 'running PreBind plugin "Prepares": OSError: disk'),
        (
            Unreachable("no answer"),
            "SchedulerError",
            'running PreBind plugin "Prepares": no answer',
        ),
        (
            asyncio.CancelledError(),
            "SchedulerError",
            'running PreBind plugin "Prepares": its own work was cancelled',
        ),
    ],
)
def test_a_pod_that_cannot_be_prepared_waits_as_after_an_error(
    step: Any, reason: str, told: str
) -> None:
    @virtually
    async def main() -> None:
        keeps = ReservePlugin()
        async with run_scheduler(make_node("a"), plugins=[keeps, Prepares(step)]) as life:
            await life.create(make_pod("web"))
            await life.until_seen("failed", "web")
            assert life.observer.of("failed") == [("failed", "web", told)]
            (entry,) = life.service.queue.pods()
            # No event would help: it is retried after its backoff.
            assert (entry.queue_name, entry.consecutive_errors) == (QueueName.BACKOFF, 1)
            await life.until(lambda: not len(life.service.writer))
            assert (await life.condition("web"))["reason"] == reason
            assert await nominated(life, "web") == ""
            await life.until_seen("bound", "web")
            assert keeps.calls == ["reserve web", "unreserve web", "reserve web"]

    main()


# ---- Bind ----


@virtually
async def test_a_refusal_to_bind_is_signed_and_waits_as_after_an_error() -> None:
    keeps = ReservePlugin()
    async with run_scheduler(make_node("a"), plugins=[keeps, Binds(Reject("not you"))]) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        assert life.observer.of("failed") == [("failed", "web", "not you")]
        await life.until_seen("bound", "web")
        assert keeps.calls == ["reserve web", "unreserve web", "reserve web"]
        reasons = [event.reason for event in await life.events("web")]
        assert sorted(reasons) == ["FailedScheduling", "Scheduled"]


@virtually
async def test_what_the_api_server_says_against_a_binding_names_the_plugin() -> None:
    async with run_scheduler(make_node("a"), plugins=[], at_rest=False) as life:

        async def delete(request: Request) -> None:
            await life.delete("web")
            await life.create(make_pod("web", requests={"cpu": "40"}))

        life.wire.before.append(on("POST", "/binding")(delete))
        first = await life.create(make_pod("web"))
        await life.until(lambda: "Insufficient cpu" in str(life.observer.of("failed")))
        # The old one is forgotten, and the new one was never bound in its place.
        assert life.service.queue.get(first.metadata.uid) is None
        assert await life.node_of("web") == ""
        assert life.observer.names("bound") == []


@virtually
async def test_an_unreachable_server_gives_the_room_back_and_pauses_decisions() -> None:
    async def refuse(request: Request) -> None:
        raise Unreachable("cut off")

    async with run_scheduler(make_node("a")) as life:
        life.wire.before.append(on("POST", "/binding")(refuse))
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        told = 'running Bind plugin "DefaultBinder": cut off'
        assert life.observer.of("failed") == [("failed", "web", told)]
        assert len(life.service.cache.pods) == 0
        await life.until_seen("bound", "web")
        await life.until(lambda: not len(life.service.writer))


@virtually
async def test_a_binding_by_another_scheduler_to_the_same_node_is_a_success() -> None:
    async with run_scheduler(make_node("a")) as life:

        async def bind(request: Request) -> None:
            await life.client.bind(life.service.informers["Pod"].objects["default/web"], "a")

        life.wire.before.append(on("POST", "/binding")(bind))
        await life.create(make_pod("web"))
        await life.settle()
        assert life.observer.names("bound") == ["web"]
        assert life.observer.names("failed") == []


@virtually
async def test_a_pod_that_another_scheduler_binds_elsewhere_is_released() -> None:
    keeps = ReservePlugin()
    async with run_scheduler(make_node("a"), make_node("b"), plugins=[keeps]) as life:

        async def bind(request: Request) -> None:
            chosen = life.observer.of("attempted")[0][2]
            other = "a" if chosen == "b" else "b"
            await life.client.bind(life.service.informers["Pod"].objects["default/web"], other)

        life.wire.before.append(on("POST", "/binding")(bind))
        stored = await life.create(make_pod("web"))
        await life.settle()
        assert life.observer.names("bound") == []
        assert keeps.calls == ["reserve web", "unreserve web"]
        placed = life.service.cache.pods.get(stored.metadata.uid)
        assert placed is not None
        assert placed.info.node_name == await life.node_of("web")
        assert life.service.queue.pods() == []


@virtually
async def test_a_pod_that_is_deleted_while_it_is_being_bound_frees_its_room_at_once() -> None:
    async with run_scheduler(make_node("a", allocatable={"cpu": "1"})) as life:
        counted: list[int] = []

        async def delete(request: Request) -> None:
            await life.delete("web")
            await asyncio.sleep(0.1)
            counted.append(len(life.service.cache.pods))

        life.wire.before.append(on("POST", "/binding")(delete))
        await life.create(make_pod("web", requests={"cpu": "1"}))
        await life.until_seen("attempted", "web")
        await life.settle()
        assert counted == [0]
        assert life.service.queue.pods() == []
        assert life.observer.names("bound") == []


@virtually
async def test_labels_that_change_while_a_pod_is_bound_are_taken_in() -> None:
    async with run_scheduler(make_node("a")) as life:

        async def label(request: Request) -> None:
            labels = {"metadata": {"labels": {"new": "yes"}}}
            await life.client.patch("Pod", "web", labels, namespace="default")

        life.wire.before.append(on("POST", "/binding")(label))
        stored = await life.create(make_pod("web"))
        await life.settle()
        placed = life.service.cache.pods.get(stored.metadata.uid)
        assert placed is not None
        assert placed.info.metadata.labels == {"new": "yes"}


@virtually
async def test_a_node_that_goes_while_a_pod_is_bound_leaves_a_ghost_that_takes_no_more() -> None:
    async with run_scheduler(make_node("a")) as life:

        async def remove(request: Request) -> None:
            await life.client.delete("Node", "a")
            await asyncio.sleep(0.1)

        life.wire.before.append(on("POST", "/binding")(remove))
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") == "a"
        assert len(life.service.cache.pods) == 1
        await life.create(make_pod("next"))
        await life.until_seen("failed", "next", times=2)
        assert await life.node_of("next") == ""
        await life.create(make_node("a"))
        await life.until_seen("bound", "next")


# ---- PostBind, and pods to activate ----


class Activates:
    """Wants another pod tried, when its own is decided or bound."""

    name = "Activates"

    def __init__(self, point: str) -> None:
        self.point = point
        self.other: Any = None

    def _ask(self, cycle: Any, point: str) -> None:
        if point == self.point and self.other is not None and cycle.pod.uid != self.other.uid:
            cycle.pods_to_activate[self.other.uid] = self.other

    def permit(self, cycle: Any, node_name: str) -> None:
        self._ask(cycle, "permit")

    def post_bind(self, cycle: Any, node_name: str) -> None:
        self._ask(cycle, "post_bind")

    def events(self) -> list[Any]:
        return []


@pytest.mark.parametrize("point", ["permit", "post_bind"])
def test_pods_that_a_plugin_names_are_tried_at_once(point: str) -> None:
    @virtually
    async def main() -> None:
        plugin = Activates(point)
        async with run_scheduler(make_node("a"), plugins=[plugin]) as life:
            stored = await life.create(make_pod("big", requests={"cpu": "40"}))
            await life.settle()
            entry = life.service.queue.get(stored.metadata.uid)
            assert entry is not None
            plugin.other = entry.pod
            await life.create(make_pod("web"))
            await life.until_seen("failed", "big", times=2)
            assert ("active", "big", "ForceActivate") in life.observer.lines

    main()


@virtually
async def test_a_post_bind_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Complains:
        name = "Complains"

        def post_bind(self, cycle: Any, node_name: str) -> None:
            raise KeyError("x")

    async with run_scheduler(make_node("a"), plugins=[Complains()]) as life:
        await life.create(make_pod("web"))
        await life.settle()
        assert await life.node_of("web") == "a"
        (record,) = [each for each in caplog.records if each.levelname == "ERROR"]
        assert vars(record)["error"] == "running PostBind plugin \"Complains\": KeyError: 'x'"
        assert vars(record)["pod"] == "default/web"


# ---- what ends it ----


@pytest.mark.parametrize(
    ("error", "queue_name"),
    [
        (LeaseLost("over"), "pre_bind"),
        (InvariantViolation("a bug"), "pre_filter"),
        (InvariantViolation("a bug"), "reserve"),
        (InvariantViolation("a bug"), "permit"),
        (InvariantViolation("a bug"), "pre_bind"),
    ],
)
def test_a_lost_lease_and_a_bug_of_ours_end_everything(error: Exception, queue_name: str) -> None:
    def plugin() -> Any:
        class Ends:
            name = "Ends"

            def pre_filter(self, cycle: Any) -> None:
                if queue_name == "pre_filter":
                    raise error

            def reserve(self, cycle: Any, node_name: str) -> None:
                if queue_name == "reserve":
                    raise error

            def unreserve(self, cycle: Any, node_name: str) -> None:
                pass

            def permit(self, cycle: Any, node_name: str) -> None:
                if queue_name == "permit":
                    raise error

            async def pre_bind(self, cycle: Any, node_name: str) -> None:
                raise error

        return Ends()

    @virtually
    async def main() -> None:
        async with run_scheduler(make_node("a"), plugins=[plugin()], at_rest=False) as life:
            await life.create(make_pod("web"))
            await asyncio.sleep(1)

    with pytest.raises(BaseExceptionGroup) as caught:
        main()
    assert caught.value.subgroup(type(error)) is not None


@virtually
async def test_a_binding_that_is_cancelled_at_the_end_is_no_failure_of_its_pod() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    reserves = ReservePlugin()
    plugins = [reserves, Prepares(never)]
    async with run_scheduler(make_node("a"), plugins=plugins, at_rest=False) as life:
        await life.create(make_pod("web"))
        await asyncio.sleep(1)
        assert reserves.calls == ["reserve web"]
    assert life.observer.of("failed") == []
    # The next scheduler takes up what was reserved.
    assert reserves.calls == ["reserve web"]
