"""Eviction of one pod: what is written, what is retried, and when the pod counts as deleted.

The rules are those of kube-scheduler v1.36.3, pkg/scheduler/framework/preemption/executor.go
(PreemptPod), and client-go's default backoff, tools' retry.DefaultBackoff.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.client import Client
from mooring.client.transport.transport import Response
from mooring.clock import VirtualClock, seeded_random
from mooring.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    LeaseLost,
    OutcomeUnknown,
    SchedulerError,
    Unreachable,
)
from mooring.objects.pod import Pod
from mooring.scheduler.evictor import Evictor
from mooring.testing import make_pod
from tests.helpers.client_servers import Answer, Script, Sleeper, answer, refusal
from tests.helpers.running_scheduler import virtually

VICTIM = make_pod("web", uid="u1", metadata={"namespace": "shop", "generation": 4})
PATH = "/api/v1/namespaces/shop/pods/web"
MESSAGE = "x: preempting to accommodate a higher priority pod"
PATCH, DELETE, GET = ("PATCH", PATH + "/status"), ("DELETE", PATH), ("GET", PATH)

GONE = refusal(404, "NotFound")
CONFLICT = refusal(409, "Conflict", "the UID in the precondition does not match")
FAILS = refusal(500, "InternalError")


def stored(uid: str) -> Response:
    """Returns a response with a pod of the victim's name."""
    metadata = {"name": "web", "namespace": "shop", "uid": uid}
    return answer(200, {"kind": "Pod", "apiVersion": "v1", "metadata": metadata})


OK = stored("u1")


def other_uid() -> Response:
    """Returns the refusal of a patch whose UID is not that of the stored pod."""
    causes = [{"field": "metadata.uid", "message": "field is immutable"}]
    status = {"kind": "Status", "code": 422, "reason": "Invalid", "message": "no"}
    return answer(422, {**status, "details": {"causes": causes}})


class Eviction:
    """An evictor whose API server gives prepared responses."""

    def __init__(self, *answers: Answer) -> None:
        self.script, self.sleeper = Script(*answers), Sleeper(VirtualClock(wall_s=3600.0))
        rng = seeded_random(0)
        self.evictor = Evictor(
            Client(self.script, rng=rng, sleep=self.sleeper),
            clock=self.sleeper.clock,
            rng=rng,
            sleep=self.sleeper,
        )

    @property
    def requests(self) -> list[tuple[str, str]]:
        return [(request.method, request.path) for request in self.script.requests]

    def has_waited(self, *least_s: float) -> bool:
        """Returns whether the waits are these, with a jitter of a tenth."""
        waits_s = self.sleeper.waits_s
        return len(waits_s) == len(least_s) and all(
            least <= wait <= 1.1 * least for wait, least in zip(waits_s, least_s, strict=True)
        )


@virtually
async def test_the_condition_is_written_before_the_pod_is_deleted_by_uid() -> None:
    eviction = Eviction(OK, OK)
    assert await eviction.evictor.evict(VICTIM, MESSAGE)
    assert eviction.requests == [PATCH, DELETE]
    patch, deletion = (request.body for request in eviction.script.requests)
    (condition,) = patch["status"]["conditions"]
    assert patch["metadata"] == {"uid": "u1"}
    assert condition == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": MESSAGE,
        "observedGeneration": 4,
        "lastProbeTime": None,
        "lastTransitionTime": "1970-01-01T01:00:00Z",
    }
    assert deletion["preconditions"] == {"uid": "u1"}
    assert "gracePeriodSeconds" not in deletion


def with_condition(message: str) -> Pod:
    """Returns the victim with a DisruptionTarget condition."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": message,
    }
    status = make_pod("web", status={"conditions": [condition]}).status
    return replace(VICTIM, status=status)


@virtually
async def test_a_condition_that_the_pod_has_is_not_written_again() -> None:
    eviction = Eviction(OK)
    assert await eviction.evictor.evict(with_condition(MESSAGE), MESSAGE)
    assert eviction.requests == [DELETE]


@virtually
async def test_a_condition_with_another_message_is_written_and_keeps_its_transition_time() -> None:
    eviction = Eviction(OK, OK)
    assert await eviction.evictor.evict(with_condition("before"), MESSAGE)
    (condition,) = eviction.script.requests[0].body["status"]["conditions"]
    assert condition["message"] == MESSAGE
    assert "lastTransitionTime" not in condition


@pytest.mark.parametrize(
    ("answers", "requests"),
    [
        ([GONE], [PATCH]),
        ([other_uid()], [PATCH]),
        ([OK, GONE], [PATCH, DELETE]),
        ([OK, CONFLICT, GONE], [PATCH, DELETE, GET]),
        ([OK, CONFLICT, stored("u2")], [PATCH, DELETE, GET]),
    ],
    ids=["no pod at the patch", "another pod at the patch", "no pod", "conflict", "another pod"],
)
@virtually
async def test_a_pod_that_was_deleted_meanwhile_is_no_failure(
    answers: list[Answer], requests: list[tuple[str, str]]
) -> None:
    eviction = Eviction(*answers)
    assert not await eviction.evictor.evict(VICTIM, MESSAGE)
    assert eviction.requests == requests
    assert eviction.sleeper.waits_s == []


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([refusal(403, "Forbidden")], Forbidden),
        ([refusal(422, "Invalid", "denied by policy")], Invalid),
        ([OK, refusal(403, "Forbidden")], Forbidden),
        ([OK, refusal(422, "Invalid")], Invalid),
        ([OK, CONFLICT, OK], Conflict),
        ([LeaseLost("another leads")], LeaseLost),
        ([OK, LeaseLost("another leads")], LeaseLost),
    ],
)
@virtually
async def test_a_refused_write_is_an_error_at_once(
    answers: list[Answer], error: type[SchedulerError]
) -> None:
    eviction = Eviction(*answers)
    with pytest.raises(error):
        await eviction.evictor.evict(VICTIM, MESSAGE)
    assert len(eviction.requests) == len(answers)
    assert eviction.sleeper.waits_s == []


@virtually
async def test_a_conflict_of_a_pod_that_cannot_be_read_is_an_error() -> None:
    eviction = Eviction(OK, CONFLICT, refusal(403, "Forbidden"))
    with pytest.raises(ApiError) as caught:
        await eviction.evictor.evict(VICTIM, MESSAGE)
    assert isinstance(caught.value, Forbidden)


TRANSIENT = [FAILS, Unreachable("refused"), OutcomeUnknown("no answer"), refusal(429, "Slow")]


@pytest.mark.parametrize("failure", TRANSIENT)
@virtually
async def test_both_writes_are_tried_four_times_with_growing_waits(failure: Answer) -> None:
    eviction = Eviction(*[failure] * 3, OK, *[failure] * 3, OK)
    assert await eviction.evictor.evict(VICTIM, MESSAGE)
    assert eviction.requests == [PATCH] * 4 + [DELETE] * 4
    assert eviction.has_waited(*[0.01, 0.05, 0.25] * 2)


@pytest.mark.parametrize("failure", TRANSIENT)
@pytest.mark.parametrize("before", [[], [OK]], ids=["patch", "delete"])
@virtually
async def test_a_write_that_fails_four_times_is_an_error(
    failure: Answer, before: list[Answer]
) -> None:
    eviction = Eviction(*before, *[failure] * 4)
    with pytest.raises((Unreachable, OutcomeUnknown, ApiError)):
        await eviction.evictor.evict(VICTIM, MESSAGE)
    assert eviction.requests == [*([PATCH] * len(before)), *[DELETE if before else PATCH] * 4]
    assert eviction.has_waited(0.01, 0.05, 0.25)


@virtually
async def test_a_conflict_is_retried_for_the_status_and_not_for_the_deletion() -> None:
    eviction = Eviction(CONFLICT, OK, CONFLICT, stored("u2"))
    assert not await eviction.evictor.evict(VICTIM, MESSAGE)
    assert eviction.requests == [PATCH, PATCH, DELETE, GET]
    assert eviction.has_waited(0.01)


@virtually
async def test_a_deletion_whose_first_try_was_carried_out_has_evicted_nothing_more() -> None:
    eviction = Eviction(OK, OutcomeUnknown("no answer"), GONE)
    assert not await eviction.evictor.evict(VICTIM, MESSAGE)


@virtually
async def test_retries_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "mooring.scheduler.evictor")
    eviction = Eviction(Unreachable("refused"), OK, GONE)
    await eviction.evictor.evict(VICTIM, MESSAGE)
    lines = [vars(record) for record in caplog.records]
    assert [(line["message"], "refused" in line["error"]) for line in lines] == [
        ("retrying an eviction", True),
        ("victim already deleted", False),
    ]
    assert lines[1]["pod"] == "web"


# ---- nominations ----


@virtually
async def test_a_nomination_is_cleared_by_a_null() -> None:
    eviction = Eviction(CONFLICT, OK)
    await eviction.evictor.clear_nomination(VICTIM)
    assert eviction.requests == [PATCH, PATCH]
    expected: dict[str, Any] = {
        "metadata": {"uid": "u1"},
        "status": {"nominatedNodeName": None},
    }
    assert json.loads(eviction.script.requests[1].request.body) == expected


@pytest.mark.parametrize("response", [GONE, other_uid()])
@virtually
async def test_the_nomination_of_a_deleted_pod_is_cleared(response: Answer) -> None:
    await Eviction(response).evictor.clear_nomination(VICTIM)


@virtually
async def test_a_refused_nomination_is_an_error() -> None:
    with pytest.raises(Forbidden):
        await Eviction(refusal(403, "Forbidden")).evictor.clear_nomination(VICTIM)
