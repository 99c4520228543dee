"""Writes that fail for ever, for one pod or one namespace: it is reported, and delays no others.

The rules are kube-scheduler's, v1.36.3: pkg/scheduler/schedule_one.go (handleBindingCycleError),
pkg/scheduler/util/utils.go (PatchPodStatus), framework/preemption/executor.go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.client.transport.transport import Request
from mooring.errors import Conflict, Forbidden, Invalid, OutcomeUnknown, ServerError, Unreachable
from mooring.testing import make_node, make_pod
from tests.helpers.preemption_fixture import deletions, disruption, pod, preempting, small
from tests.helpers.running_scheduler import Life, on, run_scheduler, virtually

WEBHOOK = 'Internal error occurred: failed calling webhook "binding.example.com": no endpoints'

Hook = Callable[[Request], Awaitable[None]]


def failing(method: str, part: str, fail: Hook) -> Hook:
    """Runs ``fail`` for every request of this method whose path contains ``part``."""

    async def run(request: Request) -> None:
        if request.method == method and part in request.path:
            await fail(request)

    return run


async def hang(request: Request) -> None:
    await asyncio.sleep(request.deadline_s)
    raise OutcomeUnknown(f"{request.method} {request.path}: no response")


async def webhook_fails(request: Request) -> None:
    error = ServerError(f"POST {request.path}: {WEBHOOK}", status=500, server_message=WEBHOOK)
    raise OutcomeUnknown(str(error)) from error


# ---- bindings ----


@virtually
async def test_a_binding_that_the_server_fails_is_reported_and_its_room_is_given_to_others() -> (
    None
):
    async with run_scheduler(small(), at_rest=False) as life:
        life.wire.before.append(failing("POST", "/pods/broken/", webhook_fails))
        await life.create(pod("broken"))
        await life.until_seen("failed", "broken")
        await life.create(pod("good"))
        await life.until_seen("bound", "good")
        text = f'running Bind plugin "DefaultBinder": {WEBHOOK}'
        condition = await life.condition("broken")
        assert (condition["status"], condition["reason"]) == ("False", "SchedulerError")
        assert condition["message"] == text
        warning = (await life.events("broken"))[0]
        assert (warning.type, warning.reason, warning.note) == ("Warning", "FailedScheduling", text)


@virtually
async def test_a_binding_that_the_server_fails_is_retried_with_backoff() -> None:
    async with run_scheduler(small(), at_rest=False) as life:
        life.wire.before.append(failing("POST", "/pods/broken/", webhook_fails))
        await life.create(pod("broken"))
        await asyncio.sleep(60)
        tries = life.wire.count("POST", "/pods/broken/binding")
        assert 6 <= tries <= 10, "after 1, 2, 4, 8 and then 10 s"


@virtually
async def test_pods_whose_bindings_are_never_answered_do_not_stop_the_others() -> None:
    nodes = [make_node(f"n{number}", allocatable={"pods": "1000"}) for number in range(3)]
    async with run_scheduler(*nodes, at_rest=False) as life:
        life.wire.before.append(failing("POST", "/pods/broken-", hang))
        await life.create(*(make_pod(f"broken-{number}") for number in range(300)))
        for number in range(20):
            begun_s = life.clock.monotonic_s()
            await life.create(make_pod(f"good-{number}", metadata={"namespace": "kube-system"}))
            await life.until_seen("bound", f"good-{number}")
            assert life.clock.monotonic_s() - begun_s < 5
            await asyncio.sleep(10)


@virtually
async def test_a_binding_that_is_never_answered_is_reported_in_the_end() -> None:
    async with run_scheduler(small(), at_rest=False) as life:
        life.wire.before.append(failing("POST", "/pods/broken/", hang))
        await life.create(pod("broken"))
        await life.until(lambda: life.observer.of("failed"), deadline_s=180)
        await asyncio.sleep(0.1)
        condition = await life.condition("broken")
        assert condition["reason"] == "SchedulerError"
        assert condition["message"].startswith('running Bind plugin "DefaultBinder": ')
        assert life.service.cache.assumed_count() == 0


@virtually
async def test_a_pod_that_another_scheduler_binds_meanwhile_is_reported_as_upstream_does() -> None:
    async with run_scheduler(make_node("a"), make_node("b"), at_rest=False) as life:

        async def bind_elsewhere(request: Request) -> None:
            stored = await life.client.get("Pod", "web", "default")
            chosen = next(node for what, _, node in life.observer.lines if what == "attempted")
            await life.world.client.bind(stored, "b" if chosen == "a" else "a")

        life.wire.before.append(on("POST", "/pods/web/binding")(bind_elsewhere))
        await life.create(make_pod("web"))
        await life.until_seen("failed", "web")
        (message,) = (text for what, _, text in life.observer.lines if what == "failed")
        assert message.startswith(
            'running Bind plugin "DefaultBinder": Operation cannot be fulfilled on pods/binding '
            '"web": pod web is already assigned to node'
        )


# ---- status and events ----


@virtually
async def test_a_namespace_whose_writes_hang_delays_no_conditions_and_events_of_others() -> None:
    async with run_scheduler(at_rest=False) as life:
        for path in ("/namespaces/default/pods/", "/namespaces/default/events"):
            for method in ("PATCH", "POST"):
                life.wire.before.append(failing(method, path, hang))
        await life.create(*(make_pod(f"p{number}") for number in range(200)))
        await asyncio.sleep(30)
        await life.create(make_pod("good", metadata={"namespace": "kube-system"}))
        await asyncio.sleep(1)
        stored = await life.raw("good", namespace="kube-system")
        assert stored["status"]["conditions"][0]["reason"] == "Unschedulable"
        events = (await life.client.list("Event", "kube-system")).items
        assert [event.reason for event in events] == ["FailedScheduling"]


@virtually
async def test_a_conflict_on_the_status_is_retried() -> None:
    async def conflict(request: Request) -> None:
        raise Conflict("the object has been modified", status=409)

    async with run_scheduler(at_rest=False) as life:
        life.wire.before.append(on("PATCH", "/pods/web/status", times=3)(conflict))
        await life.create(make_pod("web"))
        await asyncio.sleep(10)
        assert (await life.condition("web"))["reason"] == "Unschedulable"


# ---- preemption ----


async def crowd(life: Life, count: int) -> None:
    """Fills ``count`` nodes with one pod each, then creates half as many urgent pods."""
    await life.create(*(pod(f"old-{number}") for number in range(count)))
    await life.settle()
    await life.create(*(pod(f"urgent-{number}", "high") for number in range(count // 2)))


@virtually
async def test_each_preemptor_evicts_once_though_other_pods_end_meanwhile() -> None:
    async with preempting(*(small(f"n{number}") for number in range(60)), at_rest=False) as life:

        async def slowly(request: Request) -> None:
            await asyncio.sleep(8)

        life.wire.before.append(failing("PATCH", "/pods/urgent-", slowly))
        await crowd(life, 60)
        for number in range(5):
            await asyncio.sleep(1)
            # The end of a pod wakes all preemptors that still wait for their victims.
            if f"old-{number}" not in deletions(life):
                await life.delete(f"old-{number}")
        await asyncio.sleep(400)
        freed = sum(f"old-{number}" not in deletions(life) for number in range(5))
        victims = len(set(deletions(life)))
        assert 30 - freed <= victims <= 30


@virtually
async def test_an_eviction_is_retried_after_a_conflict_on_the_victims_status() -> None:
    async def conflict(request: Request) -> None:
        raise Conflict("the object has been modified", status=409)

    async with preempting(at_rest=False) as life:
        await life.create(pod("old"))
        await life.settle()
        life.wire.before.append(on("PATCH", "/pods/old/status", times=2)(conflict))
        await life.create(pod("new", "high"))
        await life.until(lambda: deletions(life) == ["old"], deadline_s=5)
        assert await disruption(life, "old") is not None
        await life.delete("old")
        await life.until_seen("bound", "new")


@virtually
async def test_a_policy_that_refuses_the_victims_status_once_wakes_the_preemptor() -> None:
    async def refuse(request: Request) -> None:
        raise Invalid("denied by policy", status=422)

    async with preempting(at_rest=False) as life:
        await life.create(pod("old"))
        await life.settle()
        life.wire.before.append(on("PATCH", "/pods/old/status")(refuse))
        await life.create(pod("new", "high"))
        await life.until(lambda: deletions(life) == ["old"], deadline_s=15)


def hot_loop(error: Exception) -> Any:
    @virtually
    async def main() -> None:
        async def fail(request: Request) -> None:
            await asyncio.sleep(0.002)
            raise error

        async with preempting(at_rest=False) as life:
            await life.create(pod("old"))
            await life.settle()
            life.wire.before.append(failing("DELETE", "/pods/old", fail))
            life.wire.before.append(failing("PATCH", "/pods/old/status", fail))
            before = len(life.wire.requests)
            await life.create(pod("new", "high"))
            await asyncio.sleep(60)
            attempts = life.observer.names("attempted").count("new")
            assert 5 <= attempts <= 12, "after 1, 2, 4, 8 and then 10 s"
            assert len(life.wire.requests) - before <= 60, "no more than one a second"
            life.wire.before.clear()
            await life.until(lambda: "old" in deletions(life), deadline_s=15)

    main()


def test_an_eviction_that_is_refused_is_retried_with_backoff() -> None:
    hot_loop(Forbidden("no right to delete pods", status=403))


def test_an_eviction_that_does_not_reach_the_server_is_retried_with_backoff() -> None:
    hot_loop(Unreachable("connection refused"))
