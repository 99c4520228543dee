"""Binding conditions of allocated devices: is a claim usable, or has it failed?

Source: pkg/scheduler/framework/plugins/dynamicresources/dynamicresources.go
(isClaimReadyForBinding, isClaimTimeout).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from datetime import datetime

from mooring.objects.go_text import go_quote
from mooring.objects.meta import Condition
from mooring.objects.resource import (
    AllocatedDeviceStatus,
    DeviceRequestAllocationResult,
    ResourceClaim,
)


class Readiness(enum.Enum):
    """The state of the devices of a claim."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


def readiness_of(claim: ResourceClaim) -> Readiness:
    """Returns whether all binding conditions are true; a true failure condition decides."""
    allocation = claim.status.allocation
    if allocation is None:
        return Readiness.WAITING
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        conditions = _conditions_of(claim.status.devices, result)
        if conditions is None:
            return Readiness.WAITING
        if any(_is_true(conditions, name) for name in result.binding_failure_conditions):
            return Readiness.FAILED
        if not all(_is_true(conditions, name) for name in result.binding_conditions):
            return Readiness.WAITING
    return Readiness.READY


def failure_of(claim: ResourceClaim) -> str:
    """Returns the reason and the message of the first true failure condition."""
    allocation = claim.status.allocation
    for result in () if allocation is None else allocation.devices.results:
        conditions = _conditions_of(claim.status.devices, result) or ()
        for condition in conditions:
            if condition.type in result.binding_failure_conditions and condition.status == "True":
                return f"reason={condition.reason}, message={go_quote(condition.message)}"
    return 'reason=, message=""'


def has_timed_out(claim: ResourceClaim, now_s: float, timeout_s: float) -> bool:
    """Returns whether a claim with binding conditions was allocated more than the timeout ago.

    ``now_s`` is in seconds since 1970.
    """
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None:
        return False
    if not any(result.binding_conditions for result in allocation.devices.results):
        return False
    allocated = datetime.fromisoformat(allocation.allocation_timestamp)
    return now_s - allocated.timestamp() > timeout_s


def _conditions_of(
    devices: Iterable[AllocatedDeviceStatus], result: DeviceRequestAllocationResult
) -> tuple[Condition, ...] | None:
    """Returns the conditions that the driver reports for a device; None if it reports nothing."""
    for status in devices:
        if (status.driver, status.pool, status.device) == (
            result.driver,
            result.pool,
            result.device,
        ):
            return status.conditions
    return None


def _is_true(conditions: Iterable[Condition], name: str) -> bool:
    for condition in conditions:
        if condition.type == name:
            return condition.status == "True"
    return False
