"""A binding that was acknowledged and then lost again: its pod is not counted for ever."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from mooring.client import Client, InProcessTransport
from mooring.client.transport.transport import Request
from mooring.clock import seeded_random
from mooring.errors import TooManyRequests, Unreachable
from mooring.objects import Pod
from mooring.queue import SchedulingQueue
from mooring.scheduler.bind_verification import CHECK_INTERVAL_S, CONFIRM_TIMEOUT_S, BindVerifier
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node, make_pod
from tests.helpers.queues import framework_of
from tests.helpers.running_scheduler import HookTransport, Life, on, run_scheduler, virtually
from tests.helpers.scripted_plugins import Binds


@virtually
async def test_a_pod_whose_binding_was_lost_is_placed_again_and_its_room_is_given_back() -> None:
    # It says "bound", and the API server knows nothing of it: as after going back to a backup.
    lies = Binds(None)
    node = make_node("a", allocatable={"cpu": "1"})
    async with run_scheduler(node, plugins=[lies], at_rest=False) as life:
        await life.create(make_pod("lost", requests={"cpu": "1"}))
        await life.until_seen("bound", "lost")
        began_s = life.clock.monotonic_s()
        await life.create(make_pod("other", requests={"cpu": "1"}))
        await life.until_seen("failed", "other")
        assert life.service.cache.assumed_count() == 1

        # One of the two fits, the other one is unschedulable.
        await life.until(lambda: len(life.observer.names("bound")) == 2)
        waited_s = life.clock.monotonic_s() - began_s
        assert CONFIRM_TIMEOUT_S <= waited_s < CONFIRM_TIMEOUT_S + CHECK_INTERVAL_S + 2
        await life.settle()
        nodes = sorted([await life.node_of("lost"), await life.node_of("other")])
        assert nodes == ["", "a"]
        assert len(life.service.queue.pods()) == 1


class Alone:
    """Confirmations over a cache that no watch fills."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.cache = Cache()
        self.cache.put_node(make_node("a"))
        profiles = {"default-scheduler": framework_of()}
        self.queue = SchedulingQueue(profiles, clock=life.clock)
        self.pods: dict[str, Pod] = {}
        self.confirmations = BindVerifier(
            life.client, self.cache, self.queue, self.pods, clock=life.clock
        )

    async def bound(self, name: str) -> PodInfo:
        """Returns a pod that we believe to be bound."""
        stored = await self.life.create(make_pod(name, scheduler_name="somebody-else"))
        self.pods[f"default/{name}"] = stored
        info = PodInfo(stored)
        self.cache.assume(info.on_node("a"), "a").keep()
        self.confirmations.track(info, "a")
        return info


@virtually
async def test_one_that_is_there_is_waited_for_and_asked_about_again() -> None:
    async with run_scheduler(make_node("a")) as life:
        alone = Alone(life)
        info = await alone.bound("web")
        await life.client.bind(info.pod, "a")

        await asyncio.sleep(CONFIRM_TIMEOUT_S - 1)
        await alone.confirmations.check_overdue()
        await asyncio.sleep(2)
        await alone.confirmations.check_overdue()

        assert alone.cache.is_assumed(info.uid)
        assert len(alone.confirmations) == 1
        # The watch event arrives late.
        alone.cache.confirm(info.uid)
        await alone.confirmations.check_overdue()
        assert len(alone.confirmations) == 0


@virtually
async def test_one_that_is_gone_is_counted_no_more_and_not_queued() -> None:
    async with run_scheduler(make_node("a")) as life:
        alone = Alone(life)
        info = await alone.bound("web")
        await life.delete("web")
        del alone.pods["default/web"]

        await asyncio.sleep(CONFIRM_TIMEOUT_S + 1)
        await alone.confirmations.check_overdue()

        assert (len(alone.cache.pods), alone.queue.pods()) == (0, [])
        assert alone.queue.get(info.uid) is None


@virtually
async def test_one_that_was_made_anew_is_another_pod() -> None:
    async with run_scheduler(make_node("a")) as life:
        alone = Alone(life)
        await alone.bound("web")
        await life.delete("web")
        alone.pods["default/web"] = await life.create(
            make_pod("web", scheduler_name="somebody-else")
        )

        await asyncio.sleep(CONFIRM_TIMEOUT_S + 1)
        await alone.confirmations.check_overdue()

        assert (len(alone.cache.pods), alone.queue.pods()) == (0, [])


@virtually
async def test_one_that_is_being_deleted_is_not_placed_again() -> None:
    async with run_scheduler(make_node("a")) as life:
        alone = Alone(life)
        info = await alone.bound("web")
        deleted = make_pod(
            "web", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "uid": info.uid}
        )
        alone.pods["default/web"] = deleted

        await asyncio.sleep(CONFIRM_TIMEOUT_S + 1)
        await alone.confirmations.check_overdue()

        assert (len(alone.cache.pods), alone.queue.pods()) == (0, [])


@virtually
async def test_while_nobody_answers_the_room_is_kept() -> None:
    async def cut(request: Request) -> None:
        raise Unreachable("cut off")

    async with run_scheduler(make_node("a"), plugins=[Binds(None)], at_rest=False) as life:
        await life.create(make_pod("lost"))
        await life.until_seen("bound", "lost")
        life.wire.before.append(on("GET", "/pods/lost", times=1000)(cut))
        await asyncio.sleep(CONFIRM_TIMEOUT_S + 3 * CHECK_INTERVAL_S)
        assert life.service.cache.assumed_count() == 1
        life.wire.before.clear()
        await life.until_seen("bound", "lost", times=2)


@virtually
async def test_news_that_come_while_it_asks_count() -> None:
    async with run_scheduler(make_node("a"), plugins=[Binds(None)]) as life:
        stored = await life.create(make_pod("lost"))
        await life.until_seen("bound", "lost")

        async def bind_at_last(request: Request) -> None:
            life.wire.before.clear()
            await life.client.bind(stored, "a")

        async def wait(request: Request) -> None:
            await asyncio.sleep(0.5)

        life.wire.before.append(on("GET", "/pods/lost")(wait))
        life.wire.after.append(on("GET", "/pods/lost")(bind_at_last))
        await asyncio.sleep(CONFIRM_TIMEOUT_S + CHECK_INTERVAL_S + 2)
        await life.settle()
        assert life.observer.names("bound") == ["lost"]
        assert await life.node_of("lost") == "a"


class Delayed(Alone):
    """Confirmations over a connection whose reads call a hook first."""

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        profiles = {"somebody-else": framework_of()}
        self.queue = SchedulingQueue(profiles, clock=life.clock)
        self.wire = HookTransport(InProcessTransport(life.api.handle))
        client = Client(self.wire, rng=seeded_random(1))
        self.confirmations = BindVerifier(
            client, self.cache, self.queue, self.pods, clock=life.clock
        )

    async def check_for(self, seconds: float) -> list[float]:
        """Checks in the middle of each second; returns the seconds in which the pod was read."""
        read_at_s = []
        await asyncio.sleep(0.5)
        for second in range(round(seconds) + 1):
            before = len(self.wire.requests)
            await self.confirmations.check_overdue()
            if len(self.wire.requests) > before:
                read_at_s.append(float(second))
            await asyncio.sleep(1)
        return read_at_s


@virtually
async def test_a_bound_pod_is_read_every_half_minute_until_the_watch_reports_it() -> None:
    async with run_scheduler(make_node("a")) as life:
        alone = Delayed(life)
        info = await alone.bound("web")
        await life.client.bind(info.pod, "a")

        assert await alone.check_for(100) == [30.0, 60.0, 90.0]
        assert alone.cache.is_assumed(info.uid)


@virtually
async def test_a_pod_that_is_bound_again_during_the_read_of_another_is_not_read() -> None:
    async with run_scheduler(make_node("a")) as life:
        alone = Delayed(life)
        first, second = await alone.bound("first"), await alone.bound("second")

        async def bind_second_again(request: Request) -> None:
            alone.cache.forget(second.uid)
            alone.cache.assume(second.on_node("a"), "a").keep()
            alone.confirmations.track(second, "a")

        alone.wire.before.append(on("GET", "/pods/first")(bind_second_again))
        await asyncio.sleep(CONFIRM_TIMEOUT_S + 1)
        await alone.confirmations.check_overdue()

        assert [request.path.rpartition("/")[2] for request in alone.wire.requests] == ["first"]
        assert not alone.cache.is_assumed(first.uid)


@virtually
async def test_a_read_that_is_refused_is_repeated_after_the_wait_that_the_server_asks_for() -> None:
    refused_at_s: list[float] = []

    async def refuse(request: Request) -> None:
        refused_at_s.append(asyncio.get_running_loop().time())
        raise TooManyRequests("slow down", status=429, reason="", retry_after_s=7.0)

    async with run_scheduler(make_node("a")) as life:
        alone = Delayed(life)
        info = await alone.bound("web")
        await life.client.bind(info.pod, "a")
        alone.wire.before.append(refuse)

        await alone.check_for(400)

        # The client gives up after some tries; the next check waits, too.
        pauses_s = [later - at for at, later in pairwise(refused_at_s)]
        assert len(refused_at_s) > 20
        assert min(pauses_s) >= 7.0
        assert alone.cache.is_assumed(info.uid)
        assert len(alone.confirmations) == 1


@virtually
async def test_a_lost_binding_is_tracked_no_more() -> None:
    async with run_scheduler(make_node("a")) as life:
        alone = Delayed(life)
        info = await alone.bound("web")

        assert await alone.check_for(200) == [30.0]
        assert len(alone.confirmations) == 0
        assert [entry.uid for entry in alone.queue.pods()] == [info.uid]
        assert not alone.cache.pods


@virtually
async def test_a_lost_pod_that_the_watch_has_on_another_node_is_not_queued() -> None:
    async with run_scheduler(make_node("a")) as life:
        alone = Delayed(life)
        info = await alone.bound("web")
        alone.pods["default/web"] = make_pod("web", uid=info.uid, node="b")

        assert await alone.check_for(31) == [30.0]
        assert alone.queue.pods() == []
        assert not alone.cache.pods


@pytest.mark.parametrize("event", ["confirmed", "forgotten", "tracked again"])
@virtually
async def test_an_event_that_arrives_during_the_read_decides(event: str) -> None:
    async with run_scheduler(make_node("a")) as life:
        alone = Delayed(life)
        info = await alone.bound("web")

        async def happen(request: Request) -> None:
            if event == "confirmed":
                alone.cache.confirm(info.uid)
            elif event == "forgotten":
                alone.cache.forget(info.uid)
            else:
                # Its attempt failed, and a later one has bound it.
                alone.confirmations.track(info, "a")

        alone.wire.after.append(happen)
        await alone.check_for(30)

        # The server answered that it is not bound; that was true before the event.
        assert alone.queue.pods() == []
        assert (info.uid in {placed.info.uid for placed in alone.cache.pods}) == (
            event != "forgotten"
        )
        alone.wire.after.clear()
