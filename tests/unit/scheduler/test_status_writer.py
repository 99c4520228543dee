"""Conditions and nominations: what is written, when, and what is left out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.client import Client, Request
from mooring.client.transport.transport import Response
from mooring.clock import seeded_random
from mooring.errors import LeaseLost, OutcomeUnknown, Unreachable
from mooring.objects.codec.decode import encode
from mooring.objects.pod import Pod
from mooring.scheduler.status_writer import (
    RETRY_POLICY,
    StatusUpdate,
    StatusWriter,
    WriterStatistics,
    status_patch,
)
from mooring.testing import make_pod
from mooring.virtual_loop import LoopClock
from tests.helpers.client_servers import Script, answer, refusal
from tests.helpers.running_scheduler import virtually

NOW = "2026-01-01T00:00:00Z"
NOW_S = 1_767_225_600.0
CUT = Unreachable("cut off")


def pod(**more: Any) -> Pod:
    found = make_pod("web", uid="u1", **more)
    return replace(found, metadata=replace(found.metadata, generation=4))


def word(
    of: Pod | None = None, message: str = "no room", nominated: str | None = None
) -> StatusUpdate:
    return StatusUpdate(of or pod(), "Unschedulable", message, nominated)


def refused(status: str = "False", message: str = "no room", **more: Any) -> Pod:
    """Returns a pod whose condition says so already."""
    condition = {
        "type": "PodScheduled",
        "status": status,
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }
    return pod(status={"conditions": [condition], **more})


def stored() -> Any:
    return answer(200, encode(pod()))


@asynccontextmanager
async def writing(
    *answers: Any, of: Script | None = None
) -> AsyncIterator[tuple[StatusWriter, Script]]:
    """Runs a writer with prepared responses, or a server that has them."""
    script = of or Script(*answers)
    clock = LoopClock(asyncio.get_running_loop())
    writer = StatusWriter(Client(script, rng=seeded_random(0)), clock=clock, rng=seeded_random(0))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(writer.run())
        yield writer, script
        running.cancel()


# ---- what the patch is ----


def test_a_first_condition_has_everything() -> None:
    assert status_patch(word(), now_s=NOW_S) == {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": "no room",
                "observedGeneration": 4,
                "lastProbeTime": None,
                "lastTransitionTime": NOW,
            }
        ]
    }


def test_the_same_condition_again_is_nothing() -> None:
    assert status_patch(word(refused()), now_s=NOW_S) is None


def test_another_message_keeps_the_time_of_the_transition() -> None:
    patch = status_patch(word(refused(), message="other"), now_s=NOW_S)
    assert patch is not None
    (condition,) = patch["conditions"]
    assert condition["message"] == "other"
    assert "lastTransitionTime" not in condition


def test_another_status_begins_a_new_time() -> None:
    patch = status_patch(word(refused(status="True")), now_s=NOW_S)
    assert patch is not None
    assert patch["conditions"][0]["lastTransitionTime"] == NOW


@pytest.mark.parametrize(
    ("stands", "nominated", "announced", "written"),
    [
        ("", "a", None, {"nominatedNodeName": "a"}),
        ("a", "a", None, {}),
        ("a", "b", None, {"nominatedNodeName": "b"}),
        ("a", "", None, {"nominatedNodeName": None}),
        ("", "", None, {}),
        ("a", None, None, {}),
        # We have written it, and have not heard of it yet.
        ("", "", "a", {"nominatedNodeName": None}),
        # It may not be stored, or another one may be.
        ("", "a", "a", {"nominatedNodeName": "a"}),
        ("a", "a", "b", {"nominatedNodeName": "a"}),
    ],
)
def test_a_nomination_is_written_when_it_changes(
    stands: str, nominated: str | None, announced: str | None, written: Any
) -> None:
    of = refused(nominatedNodeName=stands)
    patch = status_patch(word(of, nominated=nominated)._replace(announced=announced), now_s=NOW_S)
    assert (patch or {}) == written


# ---- writing ----


@virtually
async def test_a_word_is_written_to_this_very_pod() -> None:
    async with writing(stored()) as (writer, script):
        writer.enqueue(word(nominated="a"))
        assert len(writer) == 1
        await asyncio.sleep(0.1)
        (request,) = script.requests
        assert (request.method, request.path) == (
            "PATCH",
            "/api/v1/namespaces/default/pods/web/status",
        )
        assert request.headers["content-type"] == "application/strategic-merge-patch+json"
        assert request.body["metadata"] == {"uid": "u1"}
        assert request.body["status"]["nominatedNodeName"] == "a"
        assert request.body["status"]["conditions"][0]["lastTransitionTime"] == NOW
        assert len(writer) == 0
        assert writer.statistics.written == 1


@virtually
async def test_what_stands_there_already_is_not_written() -> None:
    async with writing() as (writer, script):
        writer.enqueue(word(refused()))
        await asyncio.sleep(1)
        assert script.requests == []
        assert writer.statistics.unchanged == 1


@pytest.mark.parametrize(
    "failure",
    [
        CUT,
        OutcomeUnknown("lost"),
        refusal(500, "InternalError"),
        refusal(429, "TooManyRequests"),
    ],
)
def test_what_passes_is_tried_again(failure: Any) -> None:
    @virtually
    async def main() -> None:
        async with writing(failure, failure, stored()) as (writer, script):
            writer.enqueue(word())
            await asyncio.sleep(2 * RETRY_POLICY.initial_s + 0.5)
            assert len(script.requests) == 3
            assert writer.statistics.written == 1

    main()


@virtually
async def test_a_write_is_retried_as_long_as_the_pod_exists() -> None:
    refused_by_policy = refusal(422, "Invalid", "ValidatingAdmissionPolicy 'p' denied request")
    failures = [*[CUT] * 5, refusal(403, "Forbidden"), *[refused_by_policy, stored()] * 4]
    async with writing(*failures, stored()) as (writer, script):
        writer.enqueue(word())
        await asyncio.sleep(600)
        assert len(script.requests) == len(failures) + 1
        assert writer.statistics == WriterStatistics(written=1)
        assert len(writer) == 0


@virtually
async def test_a_conflict_is_retried_if_the_pod_is_the_same() -> None:
    async with writing(refusal(409, "Conflict"), stored(), stored()) as (writer, script):
        writer.enqueue(word())
        await asyncio.sleep(1)
        assert [request.method for request in script.requests] == ["PATCH", "GET", "PATCH"]
        assert writer.statistics.written == 1


OTHER_UID = answer(
    422,
    {
        "kind": "Status",
        "code": 422,
        "reason": "Invalid",
        "message": "no",
        "details": {"causes": [{"field": "metadata.uid", "message": "field is immutable"}]},
    },
)


@pytest.mark.parametrize(
    "answers",
    [
        [refusal(404, "NotFound")],
        [OTHER_UID],
        [refusal(409, "Conflict"), refusal(404, "NotFound")],
        [refusal(409, "Conflict"), answer(200, encode(make_pod("web", uid="u2")))],
        # Another scheduler has bound it: a nomination is not allowed any more.
        [refusal(422, "Invalid"), answer(200, encode(make_pod("web", uid="u1", node="a")))],
    ],
)
def test_the_status_of_a_deleted_pod_is_not_retried(answers: list[Any]) -> None:
    @virtually
    async def main() -> None:
        async with writing(*answers) as (writer, script):
            writer.enqueue(word())
            await asyncio.sleep(120)
            assert len(script.requests) == len(answers)
            assert writer.statistics.failed == 1

    main()


@virtually
async def test_a_newer_update_waits_as_long_as_the_server_asked() -> None:
    busy = refusal(429, "TooManyRequests", **{"retry-after": "5"})
    async with writing(busy, stored()) as (writer, script):
        writer.enqueue(word(message="first"))
        await asyncio.sleep(0.1)
        writer.enqueue(word(message="second"))
        await asyncio.sleep(4.8)
        assert len(script.requests) == 1
        await asyncio.sleep(1)
        assert len(script.requests) == 2


@virtually
async def test_a_nomination_that_is_not_written_yet_survives_a_newer_update() -> None:
    async with writing(CUT, stored()) as (writer, script):
        writer.enqueue(word(nominated="a"))
        await asyncio.sleep(0.1)
        writer.enqueue(word(message="not eligible", nominated=None))
        await asyncio.sleep(5)
        status = script.requests[-1].body["status"]
        assert status["nominatedNodeName"] == "a"
        assert status["conditions"][0]["message"] == "not eligible"


@virtually
async def test_a_nomination_that_ends_before_it_is_written_is_cleared() -> None:
    async with writing(OutcomeUnknown("lost"), stored()) as (writer, script):
        writer.enqueue(word(nominated="a"))
        await asyncio.sleep(0.1)
        writer.enqueue(word(message="no candidates", nominated=""))
        await asyncio.sleep(5)
        assert script.requests[-1].body["status"]["nominatedNodeName"] is None


@virtually
async def test_a_nomination_that_is_repeated_before_it_is_written_is_written() -> None:
    async with writing(CUT, stored()) as (writer, script):
        writer.enqueue(word(nominated="a"))
        await asyncio.sleep(0.1)
        writer.enqueue(word(message="other victims", nominated="a"))
        await asyncio.sleep(5)
        assert script.requests[-1].body["status"]["nominatedNodeName"] == "a"


@virtually
async def test_a_nomination_that_was_announced_is_cleared_by_an_update_that_leaves_it() -> None:
    async with writing(CUT, stored()) as (writer, script):
        writer.enqueue(word(nominated="")._replace(announced="a"))
        await asyncio.sleep(0.1)
        writer.enqueue(word(message="not eligible", nominated=None))
        await asyncio.sleep(5)
        assert script.requests[-1].body["status"]["nominatedNodeName"] is None


@virtually
async def test_a_nomination_that_was_announced_is_replaced_by_another_one() -> None:
    async with writing(CUT, stored()) as (writer, script):
        older = refused(nominatedNodeName="b")
        writer.enqueue(word(older, nominated="")._replace(announced="a"))
        await asyncio.sleep(0.1)
        writer.enqueue(word(older, message="other victims", nominated="b"))
        await asyncio.sleep(5)
        assert script.requests[-1].body["status"]["nominatedNodeName"] == "b"


def messages(script: Script) -> list[str]:
    return [each.body["status"]["conditions"][0]["message"] for each in script.requests]


@pytest.mark.parametrize("lost", [OutcomeUnknown("lost"), refusal(500, "InternalError")])
def test_a_write_without_an_answer_may_be_stored_so_the_next_one_is_sent(lost: Any) -> None:
    """Also if the informer's version, which is older, has this condition."""

    @virtually
    async def main() -> None:
        async with writing(lost, stored(), stored()) as (writer, script):
            writer.enqueue(word(refused(), message="other"))
            await asyncio.sleep(0.1)
            writer.enqueue(word(refused()))
            await asyncio.sleep(5)
            assert messages(script) == ["other", "no room"]
            # From now on the stored version is known.
            writer.enqueue(word(at_version(refused(), 9)))
            await asyncio.sleep(5)
            assert len(script.requests) == 2

    main()


@virtually
async def test_a_nomination_without_an_answer_may_be_stored_so_the_next_update_is_sent() -> None:
    async with writing(OutcomeUnknown("lost"), stored()) as (writer, script):
        assert await writer.nominate(refused(), "a")
        writer.enqueue(word(refused(), nominated=""))
        await asyncio.sleep(1)
        assert script.requests[-1].body["status"]["nominatedNodeName"] is None


class Slow(Script):
    """A server that takes two seconds."""

    async def request(self, request: Request) -> Response:
        answered = await super().request(request)
        await asyncio.sleep(2)
        return answered


@virtually
async def test_an_update_during_a_write_is_compared_with_what_that_stores() -> None:
    newer = versioned(refused(message="other"), "5")
    async with writing(of=Slow(answer(200, encode(newer)), stored())) as (writer, script):
        old = versioned(refused(), "3")
        writer.enqueue(word(old, message="other"))
        await asyncio.sleep(1)
        writer.enqueue(word(old))
        await asyncio.sleep(5)
        assert messages(script) == ["other", "no room"]


@virtually
async def test_an_update_after_one_that_was_cancelled_during_its_write_is_sent() -> None:
    newer = versioned(refused(message="other"), "5")
    async with writing(of=Slow(answer(200, encode(newer)), stored())) as (writer, script):
        old = versioned(refused(), "3")
        writer.enqueue(word(old, message="other"))
        await asyncio.sleep(1)
        writer.cancel_update("u1")  # it is being bound, which fails at once
        writer.enqueue(word(old))
        await asyncio.sleep(5)
        assert messages(script) == ["other", "no room"]


@virtually
async def test_an_answer_says_nothing_about_another_request_at_the_same_time() -> None:
    """The condition has no answer, and may be stored after the nomination, which has one."""

    class Losing(Script):
        async def request(self, request: Request) -> Response:
            answered = await super().request(request)
            is_first = len(self.requests) == 1
            await asyncio.sleep(2 if is_first else 4)
            if is_first:
                raise OutcomeUnknown("lost")
            return answered

    old = versioned(refused(), "3")
    nominated = answer(200, encode(versioned(refused(), "5")))
    async with writing(of=Losing(stored(), nominated, stored())) as (writer, script):
        writer.enqueue(word(old, message="other"))
        await asyncio.sleep(1)
        writer.cancel_update("u1")
        assert await writer.nominate(old, "a")
        writer.enqueue(word(old))
        await asyncio.sleep(5)
        assert script.requests[-1].body["status"]["conditions"][0]["message"] == "no room"


@virtually
async def test_nominations_are_written_first() -> None:
    async with writing(*[stored()] * 40) as (writer, script):
        for number in range(39):
            writer.enqueue(word(make_pod(f"p{number}", uid=f"u{number}")))
        writer.enqueue(word(make_pod("preemptor", uid="u"), nominated="a"))
        await asyncio.sleep(1)
        assert "preemptor" in script.requests[0].path
        assert len(script.requests) == 40


@virtually
async def test_only_the_newest_word_about_a_pod_is_written() -> None:
    async with writing(CUT, stored()) as (writer, script):
        writer.enqueue(word(message="first"))
        await asyncio.sleep(0.1)
        writer.enqueue(word(message="second"))
        writer.enqueue(word(message="third"))
        assert len(writer) == 1
        await asyncio.sleep(5)
        said = [each.body["status"]["conditions"][0]["message"] for each in script.requests]
        assert said == ["first", "third"]
        assert writer.statistics == WriterStatistics(written=1)


@virtually
async def test_a_word_that_says_what_stands_takes_an_older_one_away() -> None:
    clock = LoopClock(asyncio.get_running_loop())
    writer = StatusWriter(Client(Script(), rng=seeded_random(0)), clock=clock, rng=seeded_random(0))
    writer.enqueue(word(refused(), message="other"))
    writer.enqueue(word(refused()))
    assert len(writer) == 0


def versioned(of: Pod, version: str) -> Pod:
    return replace(of, metadata=replace(of.metadata, resource_version=version))


@virtually
async def test_an_attempt_on_an_older_version_replaces_the_condition_that_is_stored() -> None:
    old = versioned(refused(message="first"), "3")
    newer = versioned(refused(message="second"), "5")
    async with writing(answer(200, encode(newer)), stored()) as (writer, script):
        writer.enqueue(word(old, message="second"))
        await asyncio.sleep(1)
        # The informer still has version 3, with the first message, which is not stored any more.
        writer.enqueue(word(old, message="first"))
        await asyncio.sleep(1)
        said = [each.body["status"]["conditions"][0]["message"] for each in script.requests]
        assert said == ["second", "first"]


@virtually
async def test_the_version_of_the_informer_counts_once_it_is_as_new_as_the_stored_one() -> None:
    old = versioned(refused(message="first"), "3")
    newer = versioned(refused(message="second"), "5")
    async with writing(answer(200, encode(newer))) as (writer, script):
        writer.enqueue(word(old, message="second"))
        await asyncio.sleep(1)
        writer.enqueue(word(versioned(refused(message="third"), "7"), message="third"))
        await asyncio.sleep(1)
        assert len(script.requests) == 1


@virtually
async def test_no_update_is_dropped_however_many_there_are() -> None:
    async with writing(*[stored()] * 15_000) as (writer, script):
        for number in range(15_000):
            writer.enqueue(word(make_pod(f"p{number}", uid=f"u{number}")))
        await asyncio.sleep(1)
        assert writer.statistics.written == len(script.requests) == 15_000


def test_a_lost_lease_ends_it() -> None:
    @virtually
    async def main() -> None:
        async with writing(LeaseLost("over")) as (writer, _):
            writer.enqueue(word())
            await asyncio.sleep(1)

    with pytest.raises(ExceptionGroup) as caught:
        main()
    assert caught.value.subgroup(LeaseLost) is not None


# ---- nominating at once ----


@pytest.mark.parametrize(
    ("answers", "stands"),
    [
        ([stored()], True),
        ([OutcomeUnknown("lost")], True),
        ([CUT], False),
        ([refusal(404, "NotFound")], False),
    ],
)
def test_a_nomination_is_written_once_and_at_once(answers: list[Any], stands: bool) -> None:
    @virtually
    async def main() -> None:
        async with writing(*answers) as (writer, script):
            assert await writer.nominate(pod(), "a") is stands
            (request,) = script.requests
            assert request.body["status"] == {"nominatedNodeName": "a"}

    main()


@virtually
async def test_a_nomination_that_stands_is_not_written() -> None:
    async with writing() as (writer, script):
        assert await writer.nominate(pod(nominated_node="a"), "a")
        assert script.requests == []


@virtually
async def test_a_condition_waits_after_a_nomination_that_was_refused_with_a_wait() -> None:
    busy = refusal(429, "TooManyRequests", **{"retry-after": "5"})
    async with writing(busy, stored()) as (writer, script):
        assert not await writer.nominate(pod(), "a")
        writer.enqueue(word())
        await asyncio.sleep(4.9)
        assert len(script.requests) == 1
        await asyncio.sleep(0.7)
        assert len(script.requests) == 2
        assert not len(writer)


@virtually
async def test_no_nomination_is_sent_while_the_condition_of_the_pod_has_to_wait() -> None:
    busy = refusal(429, "TooManyRequests", **{"retry-after": "5"})
    async with writing(busy, stored()) as (writer, script):
        writer.enqueue(word())
        await asyncio.sleep(1)
        writer.cancel_update("u1")
        assert not await writer.nominate(pod(), "a")
        assert len(script.requests) == 1
        await asyncio.sleep(5)
        assert await writer.nominate(pod(), "a")
        assert len(script.requests) == 2


@virtually
async def test_a_new_pod_of_the_same_name_waits_as_well_and_its_binding_does_not() -> None:
    busy = refusal(429, "TooManyRequests", **{"retry-after": "70"})
    async with writing(busy) as (writer, script):
        writer.enqueue(word())
        await asyncio.sleep(1)
        writer.cancel_update("u1")
        new = make_pod("web", uid="u2")
        writer.enqueue(word(new))
        # Its nomination does not wait, and its condition is not written after it is bound.
        assert not await writer.nominate(new, "a")
        writer.cancel_update("u2")
        await asyncio.sleep(100)
        assert len(script.requests) == 1
        assert not len(writer)


def at_version(of: Pod, number: int) -> Pod:
    return replace(of, metadata=replace(of.metadata, resource_version=f"{number}"))


@pytest.mark.parametrize("is_nomination", [False, True])
def test_what_was_stored_is_known_while_a_binding_is_tried(is_nomination: bool) -> None:
    """The informer may lag behind by minutes: its version has a condition that is gone."""

    @virtually
    async def main() -> None:
        written = at_version(refused(message="connection refused"), 7)
        informed = at_version(refused(message="conflict"), 5)
        async with writing(answer(200, encode(written)), stored()) as (writer, script):
            if is_nomination:
                assert await writer.nominate(informed, "a")
            else:
                writer.enqueue(word(informed, "connection refused"))
            await asyncio.sleep(0.1)
            writer.cancel_update("u1")  # it is being bound
            writer.enqueue(word(informed, "conflict"))
            await asyncio.sleep(0.1)
            last = script.requests[-1].body["status"]["conditions"][0]
            assert (len(script.requests), last["message"]) == (2, "conflict")

    main()


@virtually
async def test_what_was_stored_is_forgotten_once_a_pod_is_bound() -> None:
    written = at_version(refused(message="no room"), 7)
    async with writing(answer(200, encode(written))) as (writer, script):
        writer.enqueue(word(at_version(pod(), 5)))
        await asyncio.sleep(0.1)
        writer.forget("u1")
        writer.enqueue(word(at_version(refused(message="no room"), 5)))
        await asyncio.sleep(0.1)
        assert len(script.requests) == 1
        assert writer.statistics.unchanged == 1
