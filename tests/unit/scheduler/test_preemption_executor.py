"""The executor of preemptions by itself: which victims it evicts, and what follows from an error.

The rules are those of kube-scheduler v1.36.3, pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mooring.client import Client, InProcessTransport
from mooring.clock import seeded_random
from mooring.framework.status import PostFilterResult
from mooring.objects.pod import Pod
from mooring.queue import QueueName
from mooring.scheduler.evictor import Evictor
from mooring.scheduler.plugin_handle import PluginHandle
from mooring.scheduler.preemption import PreemptionExecutor
from mooring.state import PodInfo
from mooring.testing import make_pod
from tests.helpers.event_fixture import EventFixture, deleting
from tests.helpers.queues import Refuser
from tests.helpers.running_scheduler import virtually
from tests.unit.scheduler.test_reporting import Office

NEW = make_pod("new", priority=10)


def victim(name: str, **options: Any) -> Pod:
    return make_pod(name, node="a", **options)


class Case:
    """An executor with an API server that carries out writes, unless a test says otherwise."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self.requests: list[tuple[str, str]] = []
        self.bodies: list[Any] = []
        #: (method, name of the pod) -> the status of the response.
        self.refused: dict[tuple[str, str], int] = {}
        #: Name of a pod whose deletion waits for the event.
        self.held: dict[str, asyncio.Event] = {}
        self.desk = EventFixture(Refuser("Refuser"))
        self.desk.add_unschedulable(NEW)
        self.office = Office("default-scheduler", "other")
        self.pods: dict[str, Pod] = {"default/new": NEW}
        rng = seeded_random(0)
        client = Client(InProcessTransport(self._handle), rng=rng, sleep=asyncio.sleep)
        clock = self.desk.clock
        self.executor = PreemptionExecutor(
            self.desk.queue,
            self.desk.cache.nominator,
            PluginHandle(self.desk.cache, client, clock=clock, rng=rng),
            self.pods,
            Evictor(client, clock=clock, rng=rng, sleep=asyncio.sleep),
            self.office.reporting,
        )
        self.executor.open(tasks)

    async def _handle(
        self, method: str, path: str, *parts: Any
    ) -> tuple[int, dict[str, str], bytes]:
        name = path.removesuffix("/status").rpartition("/")[2]
        self.requests.append((method, name))
        self.bodies.append(json.loads(next(part for part in parts if isinstance(part, bytes))))
        if method == "DELETE" and name in self.held:
            await self.held[name].wait()
        code = self.refused.get((method, name), 200)
        if code == 200:
            return 200, {}, json.dumps({"kind": "Pod", "metadata": {"name": name}}).encode()
        return code, {}, json.dumps({"kind": "Status", "code": code, "message": "no"}).encode()

    def start(self, *victims: Pod, preemptor: Pod = NEW, plugin: str = "P") -> None:
        """Starts a preemption of these pods on node a."""
        self.pods.update((f"default/{pod.metadata.name}", pod) for pod in victims)
        infos = tuple(map(PodInfo, victims))
        self.executor.start(PodInfo(preemptor), PostFilterResult(None, "a", infos, plugin=plugin))

    async def run(self, *victims: Pod, preemptor: Pod = NEW) -> None:
        self.start(*victims, preemptor=preemptor)
        await self.executor.wait()

    @property
    def deletions(self) -> list[str]:
        return [name for method, name in self.requests if method == "DELETE"]

    def events(self, scheduler: str = "default-scheduler") -> list[tuple[str, str, str]]:
        """Returns (reason, pod, note) of the events of a scheduler."""
        events = [series.event for series in self.office.recorders[scheduler]._writes.values()]
        return [(event.reason, event.regarding.name, event.note) for event in events]


def note(preemptor: Pod = NEW) -> str:
    return f"Preempted by pod {preemptor.metadata.uid} on node a"


@virtually
async def test_victims_that_are_terminating_are_not_evicted_again() -> None:
    async with asyncio.TaskGroup() as tasks:
        case = Case(tasks)
        await case.run(deleting(victim("one")), victim("two"))
        assert case.deletions == ["two"]
        assert case.events() == [("Preempted", "two", note())]
        case.start(deleting(victim("three")))
        assert (len(case.executor), case.deletions) == (0, ["two"])


@virtually
async def test_the_victims_are_named_while_they_are_evicted() -> None:
    async with asyncio.TaskGroup() as tasks:
        case, uid = Case(tasks), NEW.metadata.uid
        case.held["one"] = asyncio.Event()
        case.start(deleting(victim("gone")), victim("one"), victim("two"))
        await asyncio.sleep(1)
        assert case.executor.victims_of(uid) == ["default/gone", "default/one", "default/two"]
        assert case.executor.victims_of("other") == []
        assert (case.executor.is_running(uid), case.executor.is_running("other")) == (True, False)
        assert case.deletions == ["one"]  # the last one is evicted after all others
        case.held["one"].set()
        await case.executor.wait()
        assert case.deletions == ["one", "two"]
        assert case.executor.victims_of(uid) == []
        assert not case.executor.is_running(uid)


@pytest.mark.parametrize(
    ("live", "is_running"),
    [
        (victim("one"), True),
        (deleting(victim("one")), False),
        (victim("one", uid="another"), False),
        (None, False),
    ],
    ids=["as before", "terminating", "created again", "deleted"],
)
@virtually
async def test_a_preemption_is_over_once_the_last_victim_is_terminating(
    live: Pod | None, is_running: bool
) -> None:
    async with asyncio.TaskGroup() as tasks:
        case, uid = Case(tasks), NEW.metadata.uid
        case.held["one"] = asyncio.Event()
        case.start(victim("one"))
        await asyncio.sleep(1)
        assert case.executor.is_running(uid)
        if live is None:
            del case.pods["default/one"]
        else:
            case.pods["default/one"] = live
        assert case.executor.is_running(uid) is is_running
        case.held["one"].set()


@virtually
async def test_the_end_of_a_preemption_does_not_end_a_later_one_of_the_same_pod() -> None:
    async with asyncio.TaskGroup() as tasks:
        case, uid = Case(tasks), NEW.metadata.uid
        for name in ("one", "two"):
            case.held[name] = asyncio.Event()
            case.start(victim(name))
            await asyncio.sleep(1)
        case.held["one"].set()
        await asyncio.sleep(1)
        assert case.executor.is_running(uid)
        assert case.executor.victims_of(uid) == ["default/two"]
        case.held["two"].set()
        await case.executor.wait()
        assert not case.executor.is_running(uid)


@pytest.mark.parametrize(
    ("refused", "deleted"), [("one", ["one", "two"]), ("two", ["one", "two"]), ("last", None)]
)
@virtually
async def test_after_a_failed_eviction_the_preemptor_is_tried_again_and_reads_why(
    refused: str, deleted: list[str] | None
) -> None:
    async with asyncio.TaskGroup() as tasks:
        case = Case(tasks)
        case.refused["DELETE", refused] = 403
        await case.run(victim("one"), victim("two"), victim("last"))
        # Without one of the first ones the last is not evicted.
        assert case.deletions == (deleted or ["one", "two", "last"])
        preempted = [name for name in case.deletions if name != refused]
        assert sorted(case.events()) == [
            ("FailedPreemption", "new", f"preemption: cannot evict pod default/{refused}: no"),
            *sorted(("Preempted", name, note()) for name in preempted),
        ]
        assert case.desk.queue_name("new") is QueueName.BACKOFF


@virtually
async def test_after_an_eviction_the_preemptor_waits_for_its_event() -> None:
    async with asyncio.TaskGroup() as tasks:
        case = Case(tasks)
        await case.run(victim("one"), victim("two"))
        assert case.desk.queue_name("new") is QueueName.UNSCHEDULABLE


@virtually
async def test_a_victim_that_was_deleted_already_is_evicted_without_an_event() -> None:
    async with asyncio.TaskGroup() as tasks:
        case = Case(tasks)
        case.refused["DELETE", "one"] = 404
        await case.run(victim("one"), victim("two"))
        assert case.deletions == ["one", "two"]
        assert case.events() == [("Preempted", "two", note())]
        assert case.desk.queue_name("new") is QueueName.UNSCHEDULABLE


@virtually
async def test_the_scheduler_of_the_preemptor_reports() -> None:
    async with asyncio.TaskGroup() as tasks:
        case, other = Case(tasks), make_pod("urgent", priority=10, scheduler_name="other")
        await case.run(victim("one"), preemptor=other)
        (condition,) = case.bodies[0]["status"]["conditions"]
        text = "other: preempting to accommodate a higher priority pod"
        assert condition["message"] == text
        assert case.events() == []
        assert case.events("other") == [("Preempted", "one", note(other))]


# ---- nominations of others ----


def nominated(name: str, priority: int, **options: Any) -> Pod:
    return make_pod(name, priority=priority, nominated_node="a", **options)


@pytest.mark.parametrize(("priority", "is_cleared"), [(9, True), (10, False), (11, False)])
@virtually
async def test_nominations_of_a_lower_priority_end(priority: int, is_cleared: bool) -> None:
    async with asyncio.TaskGroup() as tasks:
        case = Case(tasks)
        for name, node in (("here", "a"), ("there", "b")):
            pod = make_pod(name, priority=priority, nominated_node=node)
            case.desk.cache.nominator.nominate(PodInfo(pod), node)
            case.pods[f"default/{name}"] = pod
        await case.run(victim("one"))
        patched = [name for method, name in case.requests if method == "PATCH"]
        assert patched == ["here"] * is_cleared + ["one"]


@pytest.mark.parametrize(
    "live",
    [None, nominated("old", 1, uid="another"), make_pod("old", priority=1)],
    ids=["deleted", "created again", "not stored"],
)
@virtually
async def test_a_nomination_that_is_not_stored_is_not_cleared(live: Pod | None) -> None:
    async with asyncio.TaskGroup() as tasks:
        case = Case(tasks)
        case.desk.cache.nominator.nominate(PodInfo(nominated("old", 1)), "a")
        if live is not None:
            case.pods["default/old"] = live
        await case.run(victim("one"))
        assert ("PATCH", "old") not in case.requests


@virtually
async def test_a_nomination_that_cannot_be_cleared_is_a_failure_after_all_evictions() -> None:
    async with asyncio.TaskGroup() as tasks:
        case = Case(tasks)
        for name in ("first", "second"):
            pod = nominated(name, 1)
            case.desk.cache.nominator.nominate(PodInfo(pod), "a")
            case.pods[f"default/{name}"] = pod
        case.refused["PATCH", "first"] = 403
        await case.run(victim("one"))
        assert [name for method, name in case.requests if method == "PATCH"] == [
            *("first", "second", "one"),
        ]
        assert case.deletions == ["one"]
        assert case.desk.queue_name("new") is QueueName.BACKOFF
