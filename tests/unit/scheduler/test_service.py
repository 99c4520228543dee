"""A scheduler as a whole: how it begins, how it paces itself, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.apiserver import ApiServer
from mooring.apiserver.auth.authentication import IDENTITIES
from mooring.client import Client, InProcessTransport
from mooring.client.transport.transport import Request
from mooring.clock import seeded_random
from mooring.cluster_event import ActionType, ClusterEvent, ClusterEventWithHint, EventResource
from mooring.config import KubeSchedulerConfiguration, default_configuration
from mooring.errors import ConfigError, Unreachable
from mooring.framework import Reject, Wait
from mooring.framework.status import Skip
from mooring.queue import QueueName, QueueOptions
from mooring.scheduler.schedule_one import ATTEMPTS_MAX
from mooring.scheduler.service import (
    DRAIN_S,
    Service,
    ServiceOptions,
)
from mooring.state.kinds.workloads import WORKLOAD_KINDS
from mooring.testing import make_node, make_pod
from mooring.virtual_loop import LoopClock
from tests.faults.harness.faults import FaultyNetwork
from tests.faults.harness.faulty_transport import FaultyTransport
from tests.helpers.configurations import FEW_PLUGINS
from tests.helpers.running_scheduler import on, run_scheduler, virtually
from tests.helpers.scripted_plugins import Permits, Prepares, ReservePlugin

POD_ADDED = ClusterEvent(EventResource.PERSISTENT_VOLUME, ActionType.ADD)


# ---- beginning ----


@virtually
async def test_nothing_is_decided_before_all_is_known() -> None:
    async with run_scheduler(make_node("a"), make_pod("web")) as life:
        assert life.service.has_synced
        await life.settle()
        # Had it looked at the pod before it knew of the node, it would have been refused first.
        assert life.observer.names("attempted") == life.observer.names("bound") == ["web"]


@virtually
async def test_pods_that_are_on_nodes_count_from_the_start() -> None:
    async with run_scheduler(
        make_node("a", allocatable={"cpu": "1"}), make_pod("there", node="a", requests={"cpu": "1"})
    ) as life:
        await life.create(make_pod("web", requests={"cpu": "1"}))
        await life.settle()
        assert await life.node_of("web") == ""


@virtually
async def test_finished_pods_are_not_even_asked_for() -> None:
    async with run_scheduler(make_node("a", allocatable={"pods": "1"})) as life:
        await life.create(make_pod("done"))
        await life.settle()
        await life.client.patch(
            "Pod",
            "done",
            {"status": {"phase": "Succeeded"}},
            namespace="default",
            subresource="status",
        )
        await life.create(make_pod("web"))
        await life.until_seen("bound", "web")
        assert list(life.service.informers["Pod"].objects) == ["default/web"]


@virtually
async def test_nothing_is_remembered_of_a_pending_pod_that_was_deleted() -> None:
    async with run_scheduler(make_node("a", allocatable={"cpu": "1"})) as life:
        for name in ("first", "second"):
            await life.create(make_pod(name, requests={"cpu": "2"}))
            await life.settle()
            stored = life.service.writer._stored.values()
            assert [pod.metadata.name for pod in stored] == [name]
            await life.client.delete("Pod", name, namespace="default")
            await life.settle()
            assert life.service.writer._stored == {}


class WaitsForVolumes:
    name = "WaitsForVolumes"

    def pre_filter(self, cycle: Any) -> Any:
        return Reject("no volume")

    def events(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(POD_ADDED)]


@virtually
async def test_kinds_that_nobody_wants_to_hear_of_are_not_followed() -> None:
    async with run_scheduler(make_node("a"), config=FEW_PLUGINS) as life:
        assert list(life.service.informers) == ["Node", "DeviceClass", "Pod"]
    async with run_scheduler(
        make_node("a"), plugins=[WaitsForVolumes()], config=FEW_PLUGINS
    ) as life:
        kinds = ["Node", "PersistentVolume", "DeviceClass", "Pod"]
        assert list(life.service.informers) == kinds


@virtually
async def test_kinds_that_plugins_only_read_are_followed_too() -> None:
    async with run_scheduler(make_node("a")) as life:
        kinds = list(life.service.informers)
        assert {*WORKLOAD_KINDS, "PodDisruptionBudget"} <= set(kinds)
        assert (kinds[0], kinds[-1], len(set(kinds))) == ("Node", "Pod", len(kinds))


def alone(api: Any, headers: dict[str, str], plugins: Any = ()) -> Service:
    """Returns a service with a client of ``api``."""
    client = Client(InProcessTransport(api, headers=headers), rng=seeded_random(0))
    clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(0)
    options = ServiceOptions(plugins=plugins)
    return Service(client, FEW_PLUGINS, clock=clock, rng=rng, options=options)


async def forbidden(*_: Any) -> tuple[int, dict[str, str], bytes]:
    told = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"nodes is forbidden"}'
    return 403, {}, told


async def unauthorized(*_: Any) -> tuple[int, dict[str, str], bytes]:
    return 401, {}, b'{"kind":"Status","code":401,"reason":"Unauthorized","message":"Unauthorized"}'


async def away(*_: Any) -> tuple[int, dict[str, str], bytes]:
    raise Unreachable("nobody listens")


def run_alone(api: Any, seconds: float) -> None:
    """Runs a service on an API server for some time; it must not have synced."""

    @virtually
    async def main() -> None:
        service = alone(api, {})
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(service.run())
            await asyncio.sleep(seconds)
            assert not service.has_synced
            service.stop()
            await running

    main()


def health_lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [each for each in caplog.records if each.name == "mooring.scheduler.informer_health"]


def test_a_kind_that_is_refused_is_an_error_repeated_after_longer_and_longer_waits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_alone(forbidden, 20.5)  # logged at 1, 6 and 16 s
    lines, kinds = health_lines(caplog), {"Node", "DeviceClass", "Pod"}
    assert [each.levelno for each in lines] == [logging.ERROR] * 3 * len(kinds)
    assert {vars(each)["kind"] for each in lines} == kinds
    assert "nodes is forbidden" in vars(lines[0])["error"]
    assert "scheduling has not started" in lines[0].getMessage()


def test_credentials_that_are_not_accepted_are_one_error_for_all_kinds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_alone(unauthorized, 20.5)  # logged at 1, 6 and 16 s
    lines = health_lines(caplog)
    assert [each.levelno for each in lines] == [logging.ERROR] * 3
    assert {each.getMessage() for each in lines} == {"API server does not accept the credentials"}
    assert "Unauthorized" in vars(lines[0])["error"]
    assert vars(lines[0])["scheduling"] == "not started"


def test_an_api_server_that_is_away_is_one_warning_and_one_when_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @virtually
    async def main() -> None:
        clock, rng = LoopClock(asyncio.get_running_loop()), seeded_random(0)
        network = FaultyNetwork(seeded_random(0))
        api = ApiServer(clock, rng)
        inner = InProcessTransport(api.handle, headers=IDENTITIES["mooring"].headers())
        client = Client(FaultyTransport(network, inner), rng=rng)
        service = Service(client, FEW_PLUGINS, clock=clock, rng=rng)
        async with asyncio.TaskGroup() as tasks:
            network.open(tasks)
            running = tasks.create_task(service.run())
            await service.wait_until_synced()
            network.restart(120.0)
            await asyncio.sleep(240)
            service.stop()
            await running

    main()
    away_line, back = health_lines(caplog)
    assert (away_line.levelno, back.levelno) == (logging.WARNING, logging.WARNING)
    assert away_line.getMessage() == "API server cannot be reached"
    assert "connection refused" in vars(away_line)["error"]
    assert vars(away_line)["scheduling"] == "paused"
    assert 0 <= vars(away_line)["next_try_s"] <= 60
    assert back.getMessage() == "API server can be reached again"
    assert vars(back)["after_s"] >= 118


def test_an_api_server_that_was_never_there_is_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    run_alone(away, 300.0)
    (line,) = health_lines(caplog)
    assert vars(line)["scheduling"] == "not started"


def test_a_configuration_that_cannot_be_used_is_refused_at_once() -> None:
    @virtually
    async def main() -> None:
        with pytest.raises(ConfigError, match="no_such_module"):
            alone(away, {}, plugins=["no_such_module:Plugin"])

    main()


def test_backoff_is_that_of_the_configuration() -> None:
    config = replace(
        default_configuration(), pod_initial_backoff_seconds=4, pod_max_backoff_seconds=5
    )

    class Fails:
        name = "Fails"

        def pre_filter(self, cycle: Any) -> None:
            raise ValueError

    @virtually
    async def main() -> None:
        async with run_scheduler(
            make_node("a"), config=config, plugins=[Fails()], at_rest=False
        ) as life:
            await life.create(make_pod("web"))
            times = []
            for number in (1, 2, 3):
                await life.until_seen("failed", "web", times=number)
                times.append(life.clock.monotonic_s())
            assert 4 <= times[1] - times[0] <= 5.1
            assert 5 <= times[2] - times[1] <= 6.1

    main()


# ---- pacing ----


@virtually
async def test_others_get_their_turn_between_slices_of_decisions() -> None:
    async with run_scheduler(make_node("a", allocatable={"pods": "500"})) as life:
        bound: list[int] = []
        pods = [make_pod(f"p-{number}") for number in range(3 * ATTEMPTS_MAX)]
        decided = life.service.scheduler.schedule_one

        def counted(entry: Any) -> None:
            decided(entry)
            bound.append(len(life.observer.names("bound")))

        life.service.scheduler.schedule_one = counted  # type: ignore[method-assign]
        await life.create(*pods)
        await life.settle()
        assert len(life.observer.names("bound")) == len(pods)
        # Bindings of the first slice were done before the last one was decided.
        assert bound[-1] > 0


@virtually
async def test_decisions_pause_while_too_many_bindings_are_inside_a_request() -> None:
    most = 0
    inside = 0

    async def slow(request: Request) -> None:
        nonlocal most, inside
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.5)
        inside -= 1

    async with run_scheduler(make_node("a"), bindings_max=3) as life:
        life.wire.before.append(on("POST", "/binding", times=40)(slow))
        await life.create(*(make_pod(f"p-{number}") for number in range(40)))
        await life.settle()
        assert len(life.observer.names("bound")) == 40
        # One slice is decided at a time.
        assert most <= 3 + ATTEMPTS_MAX


@virtually
async def test_a_pod_that_waited_for_five_minutes_is_tried_whatever_happened() -> None:
    class Deaf(WaitsForVolumes):
        pass

    async with run_scheduler(make_node("a"), plugins=[Deaf()]) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        began_s = life.clock.monotonic_s()
        await life.until(lambda: len(life.observer.names("attempted")) == 2, deadline_s=400)
        assert 300 <= life.clock.monotonic_s() - began_s <= 331
        assert ("active", "web", "UnschedulableTimeout") in life.observer.lines


@virtually
async def test_the_queue_may_be_given_options_of_its_own() -> None:
    options = QueueOptions(max_unschedulable_s=5, unschedulable_flush_interval_s=1)
    async with run_scheduler(make_node("a"), plugins=[WaitsForVolumes()], queue=options) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web", times=2)
        assert life.clock.monotonic_s() < 10


@virtually
async def test_pods_go_in_the_order_of_a_queue_sort_plugin_of_ones_own() -> None:
    class ByName:
        name = "ByName"

        def less(self, a: Any, b: Any) -> bool:
            return bool(a.pod.metadata.name < b.pod.metadata.name)

    config = without("PrioritySort")
    async with run_scheduler(make_node("a"), config=config, plugins=[ByName()]) as life:
        await life.create(make_pod("c"), make_pod("a"), make_pod("b"))
        await life.settle()
        assert life.observer.names("attempted") == ["a", "b", "c"]


def without(name: str) -> KubeSchedulerConfiguration:
    """Returns the default configuration without one of its plugins."""
    config = default_configuration()
    (profile,) = config.profiles
    everywhere = profile.plugins.multi_point
    enabled = tuple(entry for entry in everywhere.enabled if entry.name != name)
    assert len(enabled) == len(everywhere.enabled) - 1
    plugins = replace(profile.plugins, multi_point=replace(everywhere, enabled=enabled))
    return replace(config, profiles=(replace(profile, plugins=plugins),))


@virtually
async def test_a_more_important_pod_goes_first() -> None:
    critical = {"priorityClassName": "system-node-critical"}
    pods = [make_pod("low"), make_pod("high", namespace="kube-system", spec=critical)]
    async with run_scheduler(make_node("a"), *pods) as life:
        await life.settle()
        assert life.observer.names("attempted")[0] == "high"


# ---- ending ----


@virtually
async def test_bindings_under_way_are_finished_and_told_before_it_ends() -> None:
    async def slow(request: Request) -> None:
        await asyncio.sleep(3)

    async with run_scheduler(make_node("a"), at_rest=False) as life:
        life.wire.before.append(on("POST", "/binding")(slow))
        await life.create(make_pod("web"))
        await life.until_seen("attempted", "web")
        life.service.stop()
        await asyncio.sleep(0.1)
        # Nothing is decided any more.
        await life.create(make_pod("late"))
        await asyncio.sleep(5)
        assert await life.node_of("web") == "a"
        assert [event.reason for event in await life.events("web")] == ["Scheduled"]
        assert life.observer.names("attempted") == ["web"]


@virtually
async def test_a_binding_that_never_ends_does_not_keep_it_from_ending(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def hang(request: Request) -> None:
        await asyncio.sleep(10_000)

    async with run_scheduler(make_node("a"), at_rest=False) as life:
        life.wire.before.append(on("POST", "/binding")(hang))
        await life.create(make_pod("web"))
        await life.until_seen("attempted", "web")
        stopped_s = life.clock.monotonic_s()
        life.service.stop()
        await life.until(lambda: not len(life.service.bindings))
        assert DRAIN_S <= life.clock.monotonic_s() - stopped_s < DRAIN_S + 1
    assert "bindings did not end in time" in caplog.text


@virtually
async def test_pods_that_wait_in_permit_are_left_at_once() -> None:
    async with run_scheduler(make_node("a"), plugins=[Permits(Wait(900.0))], at_rest=False) as life:
        await life.create(make_pod("web"))
        await life.until_seen("waits", "web")
        await asyncio.sleep(1)
        stopped_s = life.clock.monotonic_s()
        life.service.stop()
        await life.until(lambda: not len(life.service.bindings), deadline_s=1)
        assert life.clock.monotonic_s() - stopped_s < 0.5
        assert await life.node_of("web") == ""


@virtually
async def test_events_that_nobody_takes_do_not_keep_it_from_ending() -> None:
    async def refuse(request: Request) -> None:
        raise Unreachable("cut off")

    async with run_scheduler(make_node("a"), at_rest=False) as life:
        life.wire.before.append(on("POST", "/events", times=99)(refuse))
        await life.create(make_pod("web"))
        await life.until_seen("bound", "web")
        assert not life.service.is_settled
        stopped_s = life.clock.monotonic_s()
    # ``run_scheduler`` has stopped it, and waited.
    assert life.clock.monotonic_s() - stopped_s < 3


@virtually
async def test_it_can_be_stopped_before_it_knows_anything() -> None:
    service = alone(away, {})
    service.stop()
    await service.run()
    assert not service.has_synced


@virtually
async def test_it_can_be_cancelled() -> None:
    service = alone(away, {})
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(service.run())
        await asyncio.sleep(1)
        running.cancel()
    assert running.cancelled()


@virtually
async def test_settled_means_that_nothing_is_left_to_do_or_to_tell() -> None:
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    async with run_scheduler(make_node("a"), plugins=[Prepares(wait), ReservePlugin()]) as life:
        await life.create(make_pod("web"))
        await life.until_seen("attempted", "web")
        assert not life.service.is_settled
        gate.set()
        await life.settle()
        await life.create(make_pod("big", requests={"cpu": "40"}))
        await life.settle()
        assert life.service.queue.counts()[QueueName.UNSCHEDULABLE] == 1


@virtually
async def test_a_skip_of_every_binder_is_an_error_and_not_a_loss() -> None:
    class Never:
        name = "Never"

        async def bind(self, cycle: Any, node_name: str) -> Any:
            return Skip.SKIP

    config = without("DefaultBinder")
    async with run_scheduler(
        make_node("a"), config=config, plugins=[Never()], at_rest=False
    ) as life:
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        assert "every bind plugin skipped the pod" in life.observer.of("failed")[0][2]
        assert len(life.service.cache.pods) == 0


@virtually
async def test_pods_that_wait_for_an_object_in_prebind_are_left_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    plugin = Prepares()
    async with run_scheduler(make_node("a"), plugins=[plugin], at_rest=False) as life:
        until = life.service.handle.until
        plugin.steps.append(lambda: until("Pod", "default/other", lambda obj: obj is not None, 600))
        await life.create(make_pod("web"))
        await life.until(lambda: plugin.done == ["web"])
        stopped_s = life.clock.monotonic_s()
        life.service.stop()
        await life.until(lambda: not len(life.service.bindings))
        assert life.clock.monotonic_s() - stopped_s < 0.5
        assert await life.node_of("web") == ""
    assert "bindings did not end in time" not in caplog.text
