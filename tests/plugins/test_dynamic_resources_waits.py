"""DynamicResources: PreBind waits for removals of users and for binding conditions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.clock import VirtualClock, seeded_random
from mooring.config.types import DynamicResourcesArgs
from mooring.errors import PluginError, SchedulerError
from mooring.framework import NodeError, Reject
from mooring.objects.resource import ResourceClaim
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.dynamic_resources.binding_conditions import Readiness, readiness_of
from mooring.simulation.offline import OfflineHandle, run_to_end
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.devices import (
    exactly,
    make_claim,
    make_class,
    make_device,
    make_slice,
    result_of,
    selectors,
)
from tests.plugins.test_dynamic_resources import Cluster, claiming, with_timestamp

CONDITIONS: dict[str, Any] = {
    "bindingConditions": ["ready"],
    "bindingFailureConditions": ["broken"],
}


class ReportingDriver(OfflineHandle):
    """A handle with a driver that changes the claim at a time of the virtual clock."""

    due_s = 0.0
    change: Callable[[], None] | None = None

    async def until(
        self, kind: str, key: str, predicate: Callable[[Any], bool], deadline_s: float
    ) -> Any:
        left_s = self.due_s - self.monotonic_s()
        if self.change is not None and left_s <= deadline_s:
            self._clock.advance(left_s)
            change, self.change = self.change, None
            change()
            assert predicate(None)
            return None
        return await super().until(kind, key, predicate, deadline_s)


def claim_with(*conditions: tuple[str, str]) -> ResourceClaim:
    """Returns an allocated claim whose device has these conditions."""
    result = result_of("d0", "a", **CONDITIONS)
    reported = [{"type": name, "status": value} for name, value in conditions]
    device = {"driver": "gpu.test", "pool": "a", "device": "d0", "conditions": reported}
    status = {"devices": [device]} if conditions else {}
    claim = make_claim("mine", exactly(), allocated=[result], on="a", status=status)
    return with_timestamp(claim, "2026-01-01T00:00:00Z")


def reserved(there: Cluster) -> Any:
    """Returns the cycle of a pod for which Reserve has selected node ``a``."""
    there.put(claim_with())
    return there.reserve(claiming("mine"), "a")


def driver_of(there: Cluster, *conditions: tuple[str, str], at_s: float) -> ReportingDriver:
    """Returns the driver, which sets conditions at a time."""

    def report() -> None:
        stored = there.cache.devices.claims.get("default/mine")
        assert stored is not None
        devices = claim_with(*conditions).status.devices
        there.put(replace(stored, status=replace(stored.status, devices=devices)))

    assert isinstance(there.handle, ReportingDriver)
    there.handle.due_s, there.handle.change = there.handle.monotonic_s() + at_s, report
    return there.handle


def elapsed_s(there: Cluster, wait: Callable[[], object]) -> float:
    started_s = there.handle.monotonic_s()
    wait()
    return there.handle.monotonic_s() - started_s


def test_pre_bind_ends_when_the_driver_sets_the_conditions() -> None:
    there = Cluster(handle_type=ReportingDriver)
    cycle = reserved(there)
    driver_of(there, ("ready", "True"), at_s=42.0)

    waited_s = elapsed_s(there, lambda: run_to_end(there.plugin.pre_bind(cycle, "a")))

    assert waited_s == pytest.approx(42.0)


def test_pre_bind_fails_when_the_driver_sets_a_failure_condition() -> None:
    there = Cluster(handle_type=ReportingDriver)
    cycle = reserved(there)
    driver_of(there, ("ready", "True"), ("broken", "True"), at_s=7.0)

    def fails() -> None:
        with pytest.raises((PluginError, SchedulerError), match="binding failed: claim=mine"):
            run_to_end(there.plugin.pre_bind(cycle, "a"))

    assert elapsed_s(there, fails) == pytest.approx(7.0)


def test_pre_bind_times_out_after_ten_minutes() -> None:
    there = Cluster(handle_type=ReportingDriver)
    cycle = reserved(there)

    def fails() -> None:
        with pytest.raises((PluginError, SchedulerError), match="device binding timeout"):
            run_to_end(there.plugin.pre_bind(cycle, "a"))

    assert elapsed_s(there, fails) == pytest.approx(600.0)


@pytest.mark.parametrize(
    ("conditions", "readiness"),
    [
        ((), Readiness.WAITING),
        ((("ready", "True"),), Readiness.READY),
        ((("ready", "True"), ("broken", "True")), Readiness.FAILED),
    ],
)
def test_devices_without_conditions_come_before_others_that_have_some(
    conditions: tuple[tuple[str, str], ...], readiness: Readiness
) -> None:
    claim = claim_with(*conditions)
    allocation = claim.status.allocation
    assert allocation is not None
    (result,) = allocation.devices.results
    plain = replace(result, device="d1", binding_conditions=(), binding_failure_conditions=())
    devices = replace(allocation.devices, results=(plain, result))
    status = replace(claim.status, allocation=replace(allocation, devices=devices))

    assert readiness_of(replace(claim, status=status)) is readiness


class WaitingWriter:
    """A writer that notes its calls; a removal of the pod is in progress."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def wait_removed(self, claim: ResourceClaim, pod: PodInfo) -> None:
        self.calls.append(f"wait for the removal of {pod.metadata.name} from {claim.metadata.name}")

    async def reserve(self, claim: ResourceClaim, pod: PodInfo, allocation: Any) -> ResourceClaim:
        del allocation
        self.calls.append(f"reserve {claim.metadata.name} for {pod.metadata.name}")
        return claim


def test_a_claim_is_reserved_after_the_removal_of_the_pod_has_ended() -> None:
    there = Cluster(make_claim("mine", exactly()))
    cycle = there.reserve(claiming("mine"), "a")
    writer = WaitingWriter()
    there.handle.claim_writer = writer  # type: ignore[assignment]

    run_to_end(there.plugin.pre_bind(cycle, "a"))

    assert writer.calls == ["wait for the removal of new from mine", "reserve mine for new"]


class LookedAtClock(VirtualClock):
    """A second passes with each look at it."""

    def monotonic_s(self) -> float:
        self.advance(1.0)
        return super().monotonic_s()


@pytest.mark.parametrize(
    ("limit_s", "timed_out"),
    [(5.0, ["a", "b"]), (6.0, ["a"]), (9.0, ["a"]), (10.0, []), (0.0, []), (None, [])],
)
def test_the_search_on_each_node_has_a_time_limit_of_its_own(
    limit_s: float | None, timed_out: list[str]
) -> None:
    """Five devices of many, and one more that no node has: all choices of the five are tried.

    The limit is looked at in every 256th step: 9 times on a, and 5 on b, which has fewer devices.
    """
    cache = Cache()
    for name, count in (("a", 12), ("b", 11)):
        cache.put_node(make_node(name))
        devices = [make_device(f"d{number:02}", model="x") for number in range(count)]
        cache.put_object("ResourceSlice", make_slice(f"s-{name}", devices, node=name))
    for device_class in (make_class("gpu"), make_class("absent", "model=y")):
        cache.put_object("DeviceClass", device_class)
    requests = exactly("r", count=5), exactly("s", device_class="absent")
    cache.put_object("ResourceClaim", make_claim("c", *requests))
    handle = OfflineHandle(cache, LookedAtClock(), seeded_random(0))
    args = DynamicResourcesArgs(filter_timeout_s=limit_s)
    plugin = DynamicResources(args, handle, selectors())
    harness = Harness([], [plugin])
    harness.cache = cache

    spec = {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}
    statuses = harness.statuses(make_pod("p", spec=spec))

    assert statuses == {
        name: NodeError(f"node {name}: timed out trying to allocate devices")
        if name in timed_out
        else Reject("cannot allocate all claims", resolvable=False)
        for name in ("a", "b")
    }
