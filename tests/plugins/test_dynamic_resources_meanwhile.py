"""DynamicResources: claims that are freed, deleted or made anew between two steps of an attempt."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.dra import DeviceID
from mooring.errors import SchedulerError
from mooring.objects.resource import ResourceClaim
from mooring.simulation.offline import run_to_end
from mooring.state import PodInfo
from tests.helpers.devices import exactly, make_claim, result_of
from tests.plugins.test_dynamic_resources import Cluster, claiming


class RefusingWriter:
    """A writer for an API server that has none of the claims."""

    def __init__(self) -> None:
        self.uids: list[str] = []

    async def wait_removed(self, claim: ResourceClaim, pod: PodInfo) -> None:
        del claim, pod

    async def reserve(self, claim: ResourceClaim, pod: PodInfo, allocation: Any) -> ResourceClaim:
        del pod, allocation
        self.uids.append(claim.metadata.uid)
        raise SchedulerError("deleted")


def test_a_claim_in_flight_for_another_pod_stays_in_flight_when_an_older_attempt_ends() -> None:
    there = Cluster(make_claim("mine", exactly(), allocated=[result_of("d1", "a")]))
    older = there.reserve(claiming("mine"), "a")
    there.put(make_claim("mine", exactly()))
    there.reserve(claiming("mine", pod="other"), "b")
    assert there.in_use() == {DeviceID("gpu.test", "b", "d0")}

    there.plugin.unreserve(older, "a")

    assert there.in_use() == {DeviceID("gpu.test", "b", "d0")}


@pytest.mark.parametrize("anew", [None, "u-anew"])
def test_a_reserved_claim_that_was_deleted_meanwhile_is_reserved_anew_or_fails(
    anew: str | None,
) -> None:
    user = {"resource": "pods", "name": "new", "uid": "u-new"}
    fields: dict[str, Any] = {
        "allocated": [result_of("d1", "a")],
        "status": {"reservedFor": [user]},
    }
    there = Cluster(make_claim("mine", exactly(), **fields))
    cycle = there.reserve(claiming("mine"), "a")
    there.cache.remove_object("ResourceClaim", "default/mine")
    if anew is not None:
        there.put(make_claim("mine", exactly(), **fields, uid=anew))
    writer = RefusingWriter()
    there.handle.claim_writer = writer  # type: ignore[assignment]

    with pytest.raises(SchedulerError, match=r"^deleted$"):
        run_to_end(there.plugin.pre_bind(cycle, "a"))

    assert writer.uids == ["uid-mine"]


@pytest.mark.parametrize(("device", "uids"), [("d1", []), ("d0", ["uid-mine"])])
def test_a_claim_that_is_reserved_already_is_not_written_unless_it_has_other_devices_now(
    device: str, uids: list[str]
) -> None:
    user = {"resource": "pods", "name": "new", "uid": "u-new"}

    def reserved(name: str) -> ResourceClaim:
        fields: dict[str, Any] = {"allocated": [result_of(name, "a")]}
        return make_claim("mine", exactly(), **fields, status={"reservedFor": [user]})

    there = Cluster(reserved("d1"))
    cycle = there.reserve(claiming("mine"), "a")
    there.put(reserved(device))
    writer = RefusingWriter()
    there.handle.claim_writer = writer  # type: ignore[assignment]

    if uids:
        with pytest.raises(SchedulerError, match=r"^deleted$"):
            run_to_end(there.plugin.pre_bind(cycle, "a"))
    else:
        run_to_end(there.plugin.pre_bind(cycle, "a"))

    assert writer.uids == uids
