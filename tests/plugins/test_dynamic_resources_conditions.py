"""Binding conditions of claims: which device decides, the text of a failure, and the time limit."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.clock import VirtualClock
from mooring.errors import PluginError
from mooring.framework import Reject
from mooring.metrics.registry import Metrics
from mooring.objects.resource import ResourceClaim
from mooring.plugins.dynamic_resources.bind_claims import (
    BindingConditionsFailed,
    wait_for_devices,
)
from mooring.plugins.dynamic_resources.binding_conditions import (
    Readiness,
    failure_of,
    has_timed_out,
    readiness_of,
)
from mooring.scheduler.metrics import record_frameworks
from mooring.simulation.offline import OfflineHandle, run_to_end
from tests.helpers.devices import exactly, make_claim, result_of
from tests.helpers.exposition import parse
from tests.plugins.test_dynamic_resources import Cluster, claiming, with_timestamp

CONDITIONS: dict[str, Any] = {
    "bindingConditions": ["ready", "warm"],
    "bindingFailureConditions": ["broken", "lost"],
}
READY = {"ready": "True", "warm": "True"}
START = "2026-01-01T00:00:00Z"


def reported(device: str, pool: str = "a", driver: str = "gpu.test", **status: str) -> Any:
    conditions = [
        {"type": name, "status": value, "reason": f"Is-{name}", "message": f'"{device}" {name}'}
        for name, value in status.items()
    ]
    return {"driver": driver, "pool": pool, "device": device, "conditions": conditions}


def claim_of(
    *devices: Any, results: tuple[str, ...] = ("d0",), plain: tuple[str, ...] = ()
) -> ResourceClaim:
    """Returns a claim with devices that have conditions, and plain ones before them."""
    allocated = [result_of(name, "a") for name in plain]
    allocated += [result_of(name, "a", **CONDITIONS) for name in results]
    status = {"devices": list(devices)}
    claim = make_claim("mine", exactly(), allocated=allocated, on="a", status=status)
    return with_timestamp(claim, START)


@pytest.mark.parametrize(
    ("claim", "readiness"),
    [
        (make_claim("mine", exactly()), Readiness.WAITING),
        (claim_of(results=(), plain=("d0",)), Readiness.READY),
        (claim_of(), Readiness.WAITING),
        (claim_of(reported("d0")), Readiness.WAITING),
        (claim_of(reported("d0", ready="True")), Readiness.WAITING),
        (claim_of(reported("d0", warm="True")), Readiness.WAITING),
        (claim_of(reported("d0", **READY)), Readiness.READY),
        (claim_of(reported("d0", **READY, broken="False")), Readiness.READY),
        (claim_of(reported("d0", **READY, lost="True")), Readiness.FAILED),
        (claim_of(reported("d0", broken="True")), Readiness.FAILED),
        # Of another device, pool or driver.
        (claim_of(reported("d1", **READY)), Readiness.WAITING),
        (claim_of(reported("d0", pool="b", **READY)), Readiness.WAITING),
        (claim_of(reported("d0", driver="other", **READY)), Readiness.WAITING),
        # Each device counts; the first that is not ready decides.
        (
            claim_of(reported("d1", **READY), reported("d0", **READY), results=("d0", "d1")),
            Readiness.READY,
        ),
        (claim_of(reported("d0", **READY), results=("d0", "d1")), Readiness.WAITING),
        (
            claim_of(reported("d0", **READY), reported("d1", broken="True"), results=("d0", "d1")),
            Readiness.FAILED,
        ),
        (claim_of(reported("d1", broken="True"), results=("d0", "d1")), Readiness.WAITING),
        (claim_of(reported("d1", **READY), results=("d1",), plain=("d0",)), Readiness.READY),
    ],
)
def test_all_devices_with_conditions_must_be_ready(
    claim: ResourceClaim, readiness: Readiness
) -> None:
    assert readiness_of(claim) is readiness


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        (claim_of(reported("d0", lost="True")), r'reason=Is-lost, message="\"d0\" lost"'),
        (
            claim_of(reported("d0", broken="False", lost="True", ready="True")),
            r'reason=Is-lost, message="\"d0\" lost"',
        ),
        (
            claim_of(reported("d0", lost="True", broken="True")),
            r'reason=Is-lost, message="\"d0\" lost"',
        ),
        (
            claim_of(reported("d1", broken="True"), results=("d0", "d1")),
            r'reason=Is-broken, message="\"d1\" broken"',
        ),
        (claim_of(), 'reason=, message=""'),
        (claim_of(reported("d0", **READY)), 'reason=, message=""'),
        (make_claim("mine", exactly()), 'reason=, message=""'),
    ],
)
def test_a_failure_is_described_by_the_first_true_failure_condition(
    claim: ResourceClaim, text: str
) -> None:
    assert failure_of(claim) == text


def test_the_time_of_a_claim_is_up_later_than_the_limit() -> None:
    start_s = VirtualClock().wall_s()
    claim = claim_of()

    assert not has_timed_out(claim, start_s + 600, 600)
    assert has_timed_out(claim, start_s + 600.5, 600)
    assert not has_timed_out(claim_of(results=(), plain=("d0",)), start_s + 9999, 600)
    assert not has_timed_out(make_claim("mine", exactly()), start_s + 9999, 600)
    assert claim.status.allocation is not None
    without_time = replace(claim.status.allocation, allocation_timestamp=None)
    untimed = replace(claim, status=replace(claim.status, allocation=without_time))
    assert not has_timed_out(untimed, start_s + 9999, 600)


# ---------------------------------------------------------------- PreBind


class Watching(OfflineHandle):
    """A handle whose waits are listed; it may fail."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.waits: list[tuple[str, str, float]] = []
        self.notes: list[tuple[str, str, str]] = []
        self.error: PluginError | None = None

    def report(self, pod: Any, reason: str, action: str, note: str) -> None:
        self.notes.append((reason, action, note))

    async def until(self, kind: str, key: str, predicate: Any, deadline_s: float) -> Any:
        self.waits.append((kind, key, deadline_s))
        assert not predicate(None)
        if self.error is not None:
            raise self.error
        return await super().until(kind, key, predicate, deadline_s)


def waited(
    *claims: ResourceClaim, timeout_s: float = 12.0, error: PluginError | None = None
) -> tuple[Watching, BaseException | None, dict[Any, float]]:
    """Waits for the devices of allocated claims; returns the error and the recorded metrics."""
    there = Cluster(*claims, handle_type=Watching)
    handle = there.handle
    assert isinstance(handle, Watching)
    handle.error = error
    framework = there.harness.framework
    metrics = Metrics(clock=there.clock)
    record_frameworks(metrics, {"default-scheduler": framework})
    cycle = there.cycle(claiming(*(claim.metadata.name for claim in claims)))
    attempt = cycle.state_of(there.plugin.name)
    raised = None
    try:
        run_to_end(wait_for_devices(cycle, attempt, handle, "a", timeout_s))
    except (BindingConditionsFailed, PluginError) as failure:
        raised = failure
    body, _ = metrics.expose()
    recorded = {
        (name, labels): number
        for family in parse(body).values()
        for (name, labels), number in family.values.items()
        if "bindingconditions" in name and name.endswith(("_total", "_count", "_sum")) and number
    }
    return handle, raised, recorded


def named(name: str, claim: ResourceClaim) -> ResourceClaim:
    return replace(claim, metadata=replace(claim.metadata, name=name, uid=f"uid-{name}"))


def test_devices_without_conditions_are_not_waited_for() -> None:
    handle, raised, _ = waited(claim_of(results=(), plain=("d0",)))

    assert (raised, handle.waits, handle.notes) == (None, [], [])


def test_ready_devices_are_announced_and_not_waited_for() -> None:
    handle, raised, _ = waited(claim_of(reported("d0", **READY)))

    note = "waiting for binding conditions for device on node a"
    assert handle.notes == [("BindingConditionsPending", "Scheduling", note)]
    assert (raised, handle.waits) == (None, [])


def test_the_first_claim_that_is_not_ready_is_waited_for_in_short_turns() -> None:
    ready = named("ready", claim_of(reported("d0", **READY)))
    handle, raised, _ = waited(ready, named("late", claim_of()), timeout_s=12.0)

    assert {(kind, key) for kind, key, _ in handle.waits} == {("ResourceClaim", "default/late")}
    assert sum(wait_s for _, _, wait_s in handle.waits) == pytest.approx(12.0)
    assert max(wait_s for _, _, wait_s in handle.waits) <= 5.0
    assert str(raised) == "device binding timeout: context deadline exceeded"


def test_the_failure_of_a_later_claim_is_found_after_those_that_wait() -> None:
    failed = named("failed", claim_of(reported("d0", lost="True")))
    _, raised, _ = waited(failed, named("late", claim_of()))
    assert str(raised) == (
        r'device binding failed: claim=failed, reason=Is-lost, message="\"d0\" lost"'
    )
    _, raised, _ = waited(named("late", claim_of()), failed)
    assert str(raised) == "device binding timeout: context deadline exceeded"


def test_a_claim_that_was_allocated_long_ago_is_not_waited_for() -> None:
    claim = named("old", with_timestamp(claim_of(), "2025-12-31T23:59:00Z"))
    handle, raised, _ = waited(claim, timeout_s=59.0)

    assert str(raised) == "device binding timeout: claim=old"
    assert handle.waits == []
    assert isinstance(raised, BindingConditionsFailed)
    assert raised.status == "timeout"


@pytest.mark.parametrize("plugin", ["Other", ""])
def test_an_error_of_the_watch_ends_the_wait(plugin: str) -> None:
    error = PluginError(plugin, "Until", "closed")
    handle, raised, _ = waited(claim_of(), error=error)

    assert raised is error
    assert len(handle.waits) == 1


def test_a_claim_that_no_plugin_state_knows_is_not_available() -> None:
    there = Cluster(make_claim("mine", exactly()))
    assert there.harness.begin(claiming("mine")).refusal is None
    refusal = there.harness.begin(claiming("mine", "none")).refusal
    assert refusal == Reject('could not find ResourceClaim "default/none"', resolvable=False).named(
        "DynamicResources"
    )


@pytest.mark.parametrize(
    ("claims", "status", "seconds"),
    [
        ([claim_of(reported("d0", **READY), plain=("d1",))], "success", 0.0),
        ([claim_of(plain=("d1",))], "timeout", 12.0),
        ([claim_of(reported("d0", broken="True"), plain=("d1",))], "failure", 0.0),
        (
            [
                named("one", claim_of(reported("d0", **READY))),
                named("two", claim_of(results=(), plain=("d1",))),
            ],
            "success",
            0.0,
        ),
    ],
)
def test_the_wait_is_recorded_for_each_device_and_counted_for_those_with_conditions(
    claims: list[ResourceClaim], status: str, seconds: float
) -> None:
    _, _, recorded = waited(*claims)

    prefix = "scheduler_dra_bindingconditions"
    labels = (("driver", "gpu.test"), ("profile", "default-scheduler"), ("status", status))
    expected = {
        (f"{prefix}_allocations_total", labels): 1,
        (f"{prefix}_wait_duration_seconds_count", labels): 2,
        (f"{prefix}_wait_duration_seconds_sum", labels): 2 * seconds,
    }
    assert recorded == {key: number for key, number in expected.items() if number}
