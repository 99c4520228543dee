"""Pods make room for others: the victims' way out, and the preemptor's way in.

The rules are those of kube-scheduler v1.36.3, pkg/scheduler/framework/preemption/executor.go.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mooring.client.transport.transport import Request
from mooring.errors import Forbidden, LeaseLost, Unreachable, first_error
from mooring.framework import Wait
from mooring.framework.status import Skip
from mooring.queue import QueueName
from tests.helpers.preemption_fixture import (
    deletions,
    disruption,
    gated,
    is_leaving,
    pod,
    preempting,
    small,
)
from tests.helpers.running_scheduler import RecordedEvent, on, virtually
from tests.helpers.scripted_plugins import Permits, nominated


@virtually
async def test_a_victim_is_told_why_leaves_in_peace_and_then_the_pod_comes() -> None:
    async with preempting() as life:
        await life.create(pod("old"))
        await life.until_seen("bound", "old")
        new = await life.create(pod("new", "high"))
        await life.until(lambda: deletions(life))
        await life.settle()

        condition = await disruption(life, "old")
        assert condition.pop("lastTransitionTime").startswith("2026-01-01T00:00:0")
        assert condition == {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": "default-scheduler: preempting to accommodate a higher priority pod",
            "observedGeneration": 1,
            "lastProbeTime": None,
        }
        assert await is_leaving(life, "old")
        note = f"Preempted by pod {new.metadata.uid} on node a"
        assert await life.events("old") == [
            RecordedEvent(
                "Normal", "Scheduled", "Binding", "Successfully assigned default/old to a"
            ),
            RecordedEvent("Normal", "Preempted", "Preempting", note),
        ]
        assert await nominated(life, "new") == "a"
        # Made room: there are no further words.
        told = "0/1 nodes are available: 1 Insufficient cpu."
        assert (await life.condition("new"))["message"] == told
        assert not gated(life, "new")

        await life.delete("old")
        await life.until_seen("bound", "new")
        assert await life.node_of("new") == "a"
        assert deletions(life) == ["old"]


@virtually
async def test_a_preempted_pod_is_logged_from_a_verbosity_of_2(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "mooring.scheduler.preemption")
    async with preempting() as life:
        await life.create(pod("old"))
        await life.settle()
        await life.create(pod("new", "high"))
        await life.until(lambda: deletions(life))
        await life.delete("old")
    (line,) = [vars(record) for record in caplog.records if record.levelno == logging.DEBUG]
    # As kube-scheduler v1.36.3 has logged it.
    assert line["message"] == "Preemptor Pod preempted victim Pod"
    values = {name: line[name] for name in ("preemptor", "victim", "node", "v")}
    assert values == {"preemptor": "default/new", "victim": "default/old", "node": "a", "v": 2}


@virtually
async def test_while_victims_leave_the_pod_looks_for_no_others() -> None:
    async with preempting(small("a"), small("b")) as life:
        await life.create(pod("one"), pod("two"))
        await life.settle()
        await life.create(pod("new", "high"))
        await life.until(lambda: deletions(life))
        await life.settle()
        # It is retried while its victim is terminating.
        await life.again("new")
        await life.until_seen("attempted", "new", times=2)
        await life.settle()
        told = "preemption: not eligible due to a terminating pod on the nominated node."
        assert (await life.condition("new"))["message"].endswith(told)
        assert len(deletions(life)) == 1
        assert await nominated(life, "new") in ("a", "b")
        await life.delete(deletions(life)[0])
        await life.until_seen("bound", "new")


@virtually
async def test_all_victims_but_the_last_leave_side_by_side_and_the_pod_waits() -> None:
    async with preempting(small(cpu="3")) as life:
        await life.create(pod("one", "low"), pod("two"), pod("three", "low"))
        await life.settle()
        hold, held = asyncio.Event(), []

        async def wait(request: Request) -> None:
            held.append(request.path.rpartition("/")[2])
            await hold.wait()

        life.wire.before.append(
            lambda request: wait(request) if request.method == "DELETE" else asyncio.sleep(0)
        )
        new = await life.create(pod("new", "high", cpu="3"))
        await life.until(lambda: len(held) == 2)
        await asyncio.sleep(1)
        # The two that matter most are being deleted; the third waits for them.
        assert len(held) == 2
        uid = new.metadata.uid
        assert life.service.preemption_executor.is_running(uid)
        assert len(life.service.preemption_executor) == 1
        await life.again("new")
        assert gated(life, "new")
        assert life.service.queue.queue_of(uid) is QueueName.GATED
        hold.set()
        await life.until(lambda: len(held) == 3)
        await life.until(lambda: not len(life.service.preemption_executor))
        assert not life.service.preemption_executor.is_running(uid)
        for name in list(deletions(life)):
            await life.delete(name)
        await life.until_seen("bound", "new")
        assert len(life.observer.names("attempted")) < 8


@virtually
async def test_the_last_victims_leaving_is_enough_even_if_nobody_answers_the_deletion() -> None:
    async with preempting(instant_deletion=True) as life:
        await life.create(pod("old"))
        await life.settle()

        async def never_answer(request: Request) -> None:
            await asyncio.sleep(8)

        life.wire.after.append(on("DELETE", "/pods/old")(never_answer))
        await life.create(pod("new", "high"))
        started_s = life.clock.monotonic_s()
        await life.until_seen("bound", "new")
        assert life.clock.monotonic_s() - started_s < 3
        await life.until(lambda: not len(life.service.preemption_executor))


@virtually
async def test_a_victim_that_is_gone_already_is_nothing_to_worry_about() -> None:
    async with preempting() as life:
        await life.create(pod("old"))
        await life.settle()

        async def somebody_else(request: Request) -> None:
            await life.delete("old")

        life.wire.before.append(on("PATCH", "/pods/old/status")(somebody_else))
        await life.create(pod("new", "high"))
        await life.until_seen("bound", "new")
        await life.settle()
        assert [event.reason for event in await life.events("old")] == ["Scheduled"]
        assert deletions(life) == []


@virtually
async def test_a_pod_made_anew_under_the_victims_name_is_not_deleted() -> None:
    async with preempting() as life:
        await life.create(pod("old"))
        await life.settle()

        async def remake(request: Request) -> None:
            await life.delete("old")
            await life.create(pod("old"))

        life.wire.before.append(on("DELETE", "/pods/old")(remake))
        await life.create(pod("new", "high"))
        await life.until_seen("bound", "new")
        await life.settle()
        assert not await is_leaving(life, "old")
        assert await life.node_of("old") == ""


@virtually
async def test_what_fails_for_a_moment_is_sent_again() -> None:
    async with preempting() as life:
        await life.create(pod("old"))
        await life.settle()

        async def cut(request: Request) -> None:
            raise Unreachable("cut off")

        life.wire.before += [
            on("PATCH", "/pods/old/status", times=2)(cut),
            on("DELETE", "/pods/old", times=3)(cut),
        ]
        await life.create(pod("new", "high"))
        await life.until(lambda: life.wire.count("DELETE", "/pods/old") == 4)
        await life.settle()
        assert await is_leaving(life, "old")
        assert len(life.observer.of("attempted")) == 2
        await life.delete("old")
        await life.until_seen("bound", "new")


@virtually
async def test_if_a_victim_cannot_be_evicted_the_last_one_stays_and_the_pod_is_tried_again() -> (
    None
):
    async with preempting(small(cpu="2")) as life:
        await life.create(pod("one"), pod("two"))
        await life.settle()
        refused: list[str] = []

        async def refuse(request: Request) -> None:
            refused.append(request.path.rpartition("/")[2])
            raise Forbidden("no", status=403)

        life.wire.before.append(
            lambda request: (
                refuse(request) if request.method == "DELETE" and not refused else asyncio.sleep(0)
            )
        )
        await life.create(pod("new", "high", cpu="2"))
        await life.until_seen("attempted", "new", times=2)
        # Retried at once; it preempts again, on its nominated node.
        await life.until(lambda: len(deletions(life)) == 3)
        assert deletions(life)[0] == refused[0]
        for name in ("one", "two"):
            await life.delete(name)
        await life.until_seen("bound", "new")


@virtually
async def test_if_one_of_several_evictions_fails_the_last_victim_stays() -> None:
    async with preempting(small(cpu="3")) as life:
        await life.create(pod("one"), pod("two"), pod("three", "low"))
        await life.settle()
        refused: list[str] = []

        async def refuse(request: Request) -> None:
            if request.method == "DELETE" and not refused:
                refused.append(request.path)
                raise Forbidden("no", status=403)

        life.wire.before.append(refuse)
        await life.create(pod("new", "high", cpu="3"))
        await life.until_seen("attempted", "new", times=2)
        assert sorted(deletions(life)[:2]) == ["one", "two"]
        # The second attempt has just begun: the last victim of the first one was not evicted.
        assert not await is_leaving(life, "three")
        await life.until(lambda: "three" in deletions(life))
        await life.settle()
        # The API server removes a pod by itself when its grace period is over.
        for key in set(life.service.informers["Pod"].objects) - {"default/new"}:
            await life.delete(key.partition("/")[2])
        await life.until_seen("bound", "new")


@virtually
async def test_pods_of_a_lower_priority_are_to_come_to_that_node_no_more() -> None:
    async with preempting() as life:
        await life.create(pod("old", "low"))
        await life.settle()
        await life.create(pod("mid"))
        await life.until(lambda: deletions(life))
        await life.settle()
        assert await nominated(life, "mid") == "a"
        # No victim is left to evict: the only one is terminating.
        await life.create(pod("top", "top"))
        await life.until_seen("failed", "top")
        await life.settle()
        assert await nominated(life, "top") == "a"
        await life.delete("old")
        await life.until_seen("bound", "top")
        await life.settle()
        assert await life.node_of("mid") == ""
        assert deletions(life) == ["old"]


@virtually
async def test_their_nomination_ends_when_others_are_evicted_for_that_node() -> None:
    async with preempting(small(cpu="2")) as life:
        await life.create(pod("one", "low"), pod("two", "high"))
        await life.settle()
        await life.create(pod("mid"))
        await life.until(lambda: deletions(life) == ["one"])
        await life.settle()
        assert await nominated(life, "mid") == "a"
        await life.create(pod("top", "top", cpu="2"))
        await life.until(lambda: len(deletions(life)) == 2)
        await life.settle()
        assert (await nominated(life, "mid"), await nominated(life, "top")) == ("", "a")
        for name in ("one", "two"):
            await life.delete(name)
        await life.until_seen("bound", "top")


@virtually
async def test_a_nomination_that_is_being_written_ends_as_well() -> None:
    async with preempting(small(cpu="2")) as life:
        await life.create(pod("one", "low"), pod("two", "high"))
        await life.settle()
        # The API server stores the nomination of "mid" only after "top" has preempted for its node.
        may_store = asyncio.Event()

        async def late(_: Request) -> None:
            await may_store.wait()

        life.wire.before.append(on("PATCH", "/pods/mid/status")(late))
        await life.create(pod("mid"))
        await life.until_seen("failed", "mid")
        await life.create(pod("top", "top", cpu="2"))
        await life.until_seen("failed", "top")
        await life.until(lambda: len(deletions(life)) == 2)
        may_store.set()
        await life.settle()
        assert (await nominated(life, "mid"), await nominated(life, "top")) == ("", "a")
        for name in ("one", "two"):
            await life.delete(name)
        await life.until_seen("bound", "top")


class Holds(Permits):
    """Holds back the pods called so."""

    def __init__(self, *names: str) -> None:
        super().__init__(None)
        self.names = names

    def permit(self, cycle: Any, node_name: str) -> Any:
        return Wait(600.0) if cycle.pod.metadata.name in self.names else None


@virtually
async def test_a_victim_that_waits_in_permit_is_turned_back_in_memory() -> None:
    async with preempting(plugins=[Holds("old")], at_rest=False) as life:
        await life.create(pod("old"))
        await life.until_seen("waits", "old")
        new = await life.create(pod("new", "high"))
        await life.until_seen("bound", "new")
        await life.until(lambda: len(life.observer.of("failed")) >= 2)
        assert deletions(life) == []
        assert not await is_leaving(life, "old")
        assert ("failed", "old", "waiting on permit for pod: preempted") in life.observer.lines
        await life.until(lambda: not len(life.service.writer))
        await asyncio.sleep(1)
        note = f"Preempted by pod {new.metadata.uid} on node a (in kube-scheduler memory)."
        assert RecordedEvent("Normal", "Preempted", "Preempting", note) in await life.events("old")
        await life.delete("old")


class Prepares:
    """PreBind of these pods takes for ever."""

    name = "Prepares"

    def __init__(self, *names: str) -> None:
        self.names = names
        self.begun: list[str] = []
        self.cancelled: list[str] = []

    def pre_bind_pre_flight(self, cycle: Any, node_name: str) -> Any:
        return None if cycle.pod.metadata.name in self.names else Skip.SKIP

    async def pre_bind(self, cycle: Any, node_name: str) -> None:
        name = cycle.pod.metadata.name
        self.begun.append(name)
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise


@virtually
async def test_a_victim_in_pre_bind_is_called_off_in_memory() -> None:
    prepares = Prepares("old")
    async with preempting(plugins=[prepares], at_rest=False) as life:
        await life.create(pod("old"))
        await life.until(lambda: prepares.begun)
        await life.create(pod("new", "high"))
        await life.until_seen("bound", "new")
        assert prepares.cancelled == ["old"]
        assert deletions(life) == []
        assert (
            "failed",
            "old",
            'running PreBind plugin "Prepares": preempted by DefaultPreemption',
        ) in life.observer.lines
        await life.delete("old")


@virtually
async def test_victims_that_leave_while_it_is_held_back_do_not_leave_it_behind() -> None:
    # Upstream would wait for one more event; here it is woken at the end.
    async with preempting(small(cpu="2"), plugins=[Holds("held")], at_rest=False) as life:
        await life.create(pod("held"))
        await life.until_seen("waits", "held")
        await life.create(pod("old"))
        await life.until_seen("bound", "old")

        async def slow(request: Request) -> None:
            await asyncio.sleep(3)

        life.wire.after.append(on("DELETE", "/pods/old")(slow))
        await life.create(pod("new", "high", cpu="2"))
        await life.until(lambda: not len(life.service.preemption_executor) and deletions(life))
        await life.delete("old")
        await life.until_seen("bound", "new")
        await life.delete("held")


@virtually
async def test_a_pod_that_was_gated_while_all_victims_were_deleted_is_activated() -> None:
    async with preempting(small(cpu="2"), instant_deletion=True) as life:
        await life.create(pod("one"), pod("last", "low"))
        await life.settle()

        async def delete_the_last(request: Request) -> None:
            # No event comes after the answer: both deletions were reported before.
            await life.delete("last")
            await asyncio.sleep(3)

        life.wire.after.append(on("DELETE", "/pods/one")(delete_the_last))
        await life.create(pod("new", "high", cpu="2"))
        await life.until(lambda: gated(life, "new"))
        await life.until(lambda: not len(life.service.preemption_executor))
        ended_s = life.clock.monotonic_s()
        await life.until_seen("bound", "new")
        assert life.clock.monotonic_s() - ended_s < 3
        assert deletions(life) == ["one"]


@pytest.mark.parametrize("victims", [["one"], ["one", "two"]])
def test_nothing_is_evicted_once_the_lease_is_lost(victims: list[str]) -> None:
    @virtually
    async def main() -> None:
        async with preempting(small(cpu=str(len(victims))), at_rest=False) as life:
            await life.create(*map(pod, victims))
            await life.settle()

            async def lost(request: Request) -> None:
                raise LeaseLost("somebody else leads")

            life.wire.before += [on("DELETE", f"/pods/{name}")(lost) for name in victims]
            await life.create(pod("new", "high", cpu=str(len(victims))))
            await asyncio.sleep(30)

    with pytest.raises(ExceptionGroup) as caught:
        main()
    assert isinstance(first_error(caught.value), LeaseLost)


@virtually
async def test_a_pod_that_never_preempts_waits_for_room() -> None:
    async with preempting() as life:
        await life.create(pod("old"))
        await life.settle()
        await life.create(pod("new", "polite"))
        await life.settle()
        told = "preemption: not eligible due to preemptionPolicy=Never."
        message = (await life.condition("new"))["message"]
        assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
        assert message.endswith(told)
        assert deletions(life) == []
        await life.delete("old")
        await life.until_seen("bound", "new")
