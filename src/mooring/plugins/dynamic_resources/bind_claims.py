"""PreBind: writes the claims of a pod, and waits until its devices can be used.

::

    each claim ──> reserved for the pod ──> devices with binding conditions? ── no ──> done
    (created first, if it is for                   │ yes
     extended resources)                           └──> wait until all conditions are true: done
                                                        a failure condition, the timeout: failed

A failed claim keeps its allocation. The next attempt finds it unusable, and PostFilter frees it.

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go (PreBind, bindClaim,
isPodReadyForBinding). *Differs:* a condition is noticed when the watch reports it; upstream looks
every 5 s.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from mooring.errors import PluginError, SchedulerError
from mooring.framework.cycle_state import Cycle
from mooring.framework.interface import Handle
from mooring.metrics.recorders import FrameworkRecorder
from mooring.objects.meta import key
from mooring.objects.resource import ResourceClaim, devices_in
from mooring.plugins.dynamic_resources.attempt import DeviceAttempt, reserved_claim
from mooring.plugins.dynamic_resources.binding_conditions import (
    Readiness,
    failure_of,
    has_timed_out,
    readiness_of,
)
from mooring.plugins.dynamic_resources.claims import is_reserved_for
from mooring.plugins.dynamic_resources.writes import ClaimWriter
from mooring.state.devices.devices import Devices

#: The claims are looked at so often, whatever the watch reports.
POLL_S: Final = 5.0

SUCCESS: Final = "success"
FAILURE: Final = "failure"
TIMEOUT: Final = "timeout"

_KIND: Final = "ResourceClaim"


class BindingConditionsFailed(SchedulerError):
    """The devices of a pod cannot be used; the message is kube-scheduler's."""

    def __init__(self, message: str, status: str) -> None:
        super().__init__(message)
        self.status = status


async def write_claims(
    cycle: Cycle, attempt: DeviceAttempt, writer: ClaimWriter, node_name: str
) -> None:
    """Reserves all claims for the pod, with their allocations.

    Raises:
        SchedulerError: a write failed.
    """
    for claim in attempt.claims.all:
        if claim is attempt.claims.special:
            await _write_special(cycle, attempt, writer, node_name)
        else:
            await _write_user_claim(cycle, attempt, writer, claim)


async def _write_user_claim(
    cycle: Cycle, attempt: DeviceAttempt, writer: ClaimWriter, claim: ResourceClaim
) -> None:
    devices: Devices = cycle.snapshot.devices
    reserved = reserved_claim(attempt, claim.metadata.uid)
    try:
        await writer.wait_removed(claim, cycle.pod)
        latest = devices.claims.get(key(claim))
        if latest is not None and _is_reserved(cycle.pod.uid, latest, claim):
            return
        allocation = None if reserved is None else reserved.status.allocation
        stored = await writer.reserve(claim, cycle.pod, allocation)
        with suppress(SchedulerError):  # it was deleted or changed meanwhile: the cache knows
            devices.claims.assume(stored)
    finally:
        end_flight(devices, reserved)


def _is_reserved(pod_uid: str, latest: ResourceClaim, claim: ResourceClaim) -> bool:
    """Returns whether a claim is reserved, with the devices for which the node was selected."""
    is_same = latest.metadata.uid == claim.metadata.uid
    has_same_devices = devices_in(latest.status.allocation) == devices_in(claim.status.allocation)
    return is_same and has_same_devices and is_reserved_for(pod_uid, latest)


def end_flight(devices: Devices, reserved: ResourceClaim | None) -> bool:
    """Ends the flight of a claim that Reserve began; returns whether it was in flight.

    The claim may be in flight for another pod: its allocation was freed since the attempt began.
    """
    if reserved is None or devices.in_use.in_flight(reserved.metadata.uid) is not reserved:
        return False
    return devices.in_use.end(reserved.metadata.uid)


async def _write_special(
    cycle: Cycle, attempt: DeviceAttempt, writer: ClaimWriter, node_name: str
) -> None:
    """Creates and allocates the claim for extended resources, and records it in the pod."""
    claim = attempt.claims.special
    assert claim is not None
    reserved = reserved_claim(attempt, claim.metadata.uid)
    if reserved is None:
        return  # a device plugin serves the resources of this node
    try:
        attempt.created = created = await writer.create(reserved)
        stored = await writer.reserve(created, cycle.pod, reserved.status.allocation)
        attempt.created = stored
        await writer.record(cycle.pod, stored, attempt.allocations[node_name].mappings)
        await writer.observe(stored)
    finally:
        end_flight(cycle.snapshot.devices, reserved)


async def wait_for_devices(
    cycle: Cycle, attempt: DeviceAttempt, handle: Handle, node_name: str, timeout_s: float
) -> None:
    """Waits until all binding conditions of the pod's devices are true.

    Raises:
        BindingConditionsFailed: a failure condition is true, or the timeout has passed.
    """
    if not any(_has_conditions(claim) for claim in _latest(cycle, attempt)):
        return
    note = f"waiting for binding conditions for device on node {node_name}"
    handle.report(cycle.pod, "BindingConditionsPending", "Scheduling", note)
    started_s, status = handle.monotonic_s(), SUCCESS
    try:
        await _wait(cycle, attempt, handle, timeout_s)
    except BindingConditionsFailed as error:
        status = error.status
        raise
    finally:
        duration_s = handle.monotonic_s() - started_s
        if cycle.framework is not None:
            _record(cycle.framework.recorder, _latest(cycle, attempt), status, duration_s)


async def _wait(cycle: Cycle, attempt: DeviceAttempt, handle: Handle, timeout_s: float) -> None:
    deadline_s = handle.monotonic_s() + timeout_s
    while (pending := _first_pending(cycle, attempt, handle, timeout_s)) is not None:
        started_s = handle.monotonic_s()
        if started_s >= deadline_s:
            text = "device binding timeout: context deadline exceeded"
            raise BindingConditionsFailed(text, TIMEOUT)
        wait_s = min(POLL_S, deadline_s - started_s)

        def has_changed(_: ResourceClaim | None, pending: ResourceClaim = pending) -> bool:
            return cycle.snapshot.devices.claims.get(key(pending)) is not pending

        try:
            await handle.until(_KIND, key(pending), has_changed, wait_s)
        except PluginError as error:
            # A timeout of ``until``: look again. Any other error comes without a wait.
            if error.plugin or handle.monotonic_s() - started_s < wait_s / 2:
                raise


def _first_pending(
    cycle: Cycle, attempt: DeviceAttempt, handle: Handle, timeout_s: float
) -> ResourceClaim | None:
    """Returns a claim whose devices are not ready; None = all are.

    Raises:
        BindingConditionsFailed: they never will be.
    """
    for claim in _latest(cycle, attempt):
        readiness = readiness_of(claim)
        if readiness is Readiness.FAILED:
            name, condition = claim.metadata.name, failure_of(claim)
            text = f"device binding failed: claim={name}, {condition}"
            raise BindingConditionsFailed(text, FAILURE)
        if readiness is Readiness.WAITING:
            if has_timed_out(claim, handle.wall_s(), timeout_s):
                text = f"device binding timeout: claim={claim.metadata.name}"
                raise BindingConditionsFailed(text, TIMEOUT)
            return claim
    return None


def _latest(cycle: Cycle, attempt: DeviceAttempt) -> list[ResourceClaim]:
    """Returns the newest versions of the pod's claims."""
    claims = cycle.snapshot.devices.claims
    own = [claim for claim in attempt.claims.all if claim is not attempt.claims.special]
    if attempt.created is not None:
        own.append(attempt.created)
    return [claims.get(key(claim)) or claim for claim in own]


def _has_conditions(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    return allocation is not None and any(
        result.binding_conditions for result in allocation.devices.results
    )


def _record(
    recorder: FrameworkRecorder, claims: Sequence[ResourceClaim], status: str, duration_s: float
) -> None:
    for claim in claims:
        if claim.status.allocation is None:
            continue
        for result in claim.status.allocation.devices.results:
            recorder.waited_for_device(
                result.driver,
                status,
                duration_s,
                has_conditions=bool(result.binding_conditions),
            )
