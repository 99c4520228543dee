"""Writes of claims whose answers are lost, and claims that change while they are written.

A request without an answer may arrive later, so that a reservation neither fails nor counts before
a later write makes it a conflict. ``tests/faults/parts/claims_run.py`` found each of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.client.transport.transport import Request
from mooring.errors import (
    Conflict,
    Forbidden,
    OutcomeUnknown,
    SchedulerError,
    ServerError,
    TooManyRequests,
)
from mooring.objects.resource import ResourceClaimStatus
from mooring.testing import make_node, make_pod
from tests.helpers.devices import DRIVER, exactly, make_claim, make_class, make_device, make_slice
from tests.helpers.running_scheduler import Life, on, run_scheduler, virtually

CEL = f'device.driver == "{DRIVER}"'
STATUS = "/resourceclaims/gpu/status"


def objects(*more: Any, nodes: str = "a") -> list[Any]:
    """Returns nodes with a GPU each, the class of GPUs, and a claim of one."""
    slices = [make_slice(f"slice-{name}", [make_device("d")], node=name) for name in nodes]
    world = [make_class("gpu", CEL), make_claim("gpu", exactly()), *more]
    return [*map(make_node, nodes), *slices, *world]


def claiming(name: str, **spec: Any) -> Any:
    claims = [{"name": "c", "resourceClaimName": "gpu"}]
    return make_pod(name, spec={"resourceClaims": claims, **spec})


async def users(life: Life) -> list[str]:
    claim = await life.world.client.get("ResourceClaim", "gpu", "default")
    return [user.name for user in claim.status.reserved_for]


async def free(life: Life) -> None:
    """Frees the claim, as its controller does when its last user is gone."""
    claim = await life.world.client.get("ResourceClaim", "gpu", "default")
    freed = replace(claim, status=ResourceClaimStatus())
    await life.world.client.replace(freed, subresource="status")


class LostWrite:
    """Loses the first write of a claim's status; it arrives a minute later.

    Until then, all writes after it meet ``failure``.
    """

    def __init__(
        self, life: Life, method: str, failure: Callable[[], SchedulerError] | None = None
    ) -> None:
        self._life, self._method, self._failure = life, method, failure
        self._arriving: asyncio.Task[None] | None = None
        self.is_delivered = False
        self.refusal: SchedulerError | None = None

    async def __call__(self, request: Request) -> None:
        if request.method != self._method or not request.path.endswith(STATUS):
            return
        if self._arriving is None:
            self._arriving = asyncio.get_running_loop().create_task(self._arrive(request))
            raise OutcomeUnknown(f"{request.path}: no response")
        if self._failure is not None and not self.is_delivered:
            failure = self._failure()
            raise failure from failure.__cause__

    async def _arrive(self, request: Request) -> None:
        await asyncio.sleep(60.0)
        self.is_delivered = True
        client, kind = self._life.world.client, request.headers["content-type"]
        try:
            await client.write(request.method, request.path, request.body, content_type=kind)
        except SchedulerError as error:
            self.refusal = error


def failing_server() -> SchedulerError:
    error = OutcomeUnknown("busy")
    error.__cause__ = ServerError("busy", status=500)
    return error


@pytest.mark.parametrize(
    "failure",
    [failing_server, lambda: Forbidden("no", status=403), lambda: TooManyRequests("", status=429)],
    ids=["failure", "refusal", "busy"],
)
@virtually
async def test_a_reservation_does_not_fail_while_an_earlier_request_may_arrive(
    failure: Callable[[], SchedulerError],
) -> None:
    async with run_scheduler(*objects(), at_rest=False) as life:
        lost = LostWrite(life, "PUT", failure)
        life.wire.before.append(lost)
        await life.create(claiming("web"))
        await asyncio.sleep(70.0)
        await life.until_seen("bound", "web")
        assert lost.is_delivered
        assert not life.observer.of("failed")
        assert await users(life) == ["web"]


@virtually
async def test_a_failure_of_the_server_counts_only_once_the_claim_was_read() -> None:
    async with run_scheduler(*objects(), at_rest=False) as life:

        async def fail(_: Request) -> None:
            life.wire.before.append(on("GET", "/resourceclaims/gpu", times=3)(fail_to_read))
            raise failing_server()

        async def fail_to_read(_: Request) -> None:
            raise ServerError("busy", status=500)

        life.wire.after.append(on("PUT", STATUS)(fail))
        await life.create(claiming("web"))
        await life.until_seen("bound", "web")
        assert not life.observer.of("failed")
        assert await users(life) == ["web"]


async def refuse_binding(_: Request) -> None:
    raise Forbidden("no", status=403)


@virtually
async def test_a_lost_removal_of_a_user_does_not_remove_its_next_reservation() -> None:
    async with run_scheduler(*objects(), at_rest=False) as life:
        lost = LostWrite(life, "PATCH")
        life.wire.before += [on("POST", "/pods/web/binding")(refuse_binding), lost]
        await life.create(claiming("web"))
        await asyncio.sleep(70.0)
        await life.until_seen("bound", "web")
        assert isinstance(lost.refusal, Conflict)
        assert await users(life) == ["web"]


@virtually
async def test_the_next_attempt_waits_until_its_pod_is_removed_from_the_users() -> None:
    async with run_scheduler(*objects(), at_rest=False) as life:

        async def take_long(_: Request) -> None:
            await asyncio.sleep(5.0)

        life.wire.before.append(on("POST", "/pods/web/binding")(refuse_binding))
        life.wire.before.append(on("PATCH", STATUS)(take_long))
        await life.create(claiming("web"))
        await life.until_seen("bound", "web")
        await life.until(lambda: not len(life.service.handle.claim_writer))
        assert await users(life) == ["web"]
        sent = [sent.method for sent in life.wire.requests if sent.path.endswith(STATUS)]
        assert sent == ["PUT", "PATCH", "PUT"]


@virtually
async def test_a_claim_that_has_other_devices_meanwhile_is_not_reserved() -> None:
    async with run_scheduler(*objects(nodes="ab"), at_rest=False) as life:
        await life.create(claiming("first", nodeSelector={"kubernetes.io/hostname": "a"}))
        await life.until_seen("bound", "first")

        async def allocate_elsewhere(_: Request) -> None:
            claim = await life.world.client.get("ResourceClaim", "gpu", "default")
            results = claim.status.allocation.devices.results
            moved = replace(
                claim.status.allocation.devices,
                results=tuple(replace(result, pool="b") for result in results),
            )
            allocation = replace(claim.status.allocation, devices=moved, node_selector=None)
            await free(life)
            claim = await life.world.client.get("ResourceClaim", "gpu", "default")
            status = ResourceClaimStatus(allocation=allocation)
            await life.world.client.replace(replace(claim, status=status), subresource="status")

        life.wire.before.append(on("PUT", STATUS)(allocate_elsewhere))
        await life.create(claiming("second"))
        await life.until_seen("failed", "second")
        ((_, _, text),) = life.observer.of("failed")
        assert text.endswith("claim default/gpu got deallocated elsewhere in the meantime")
        await life.until_seen("bound", "second")
        assert (await life.raw("second"))["spec"]["nodeName"] == "b"
