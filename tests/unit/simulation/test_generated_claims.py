"""Claims from templates in a simulation: made before the first pod, released with their pods."""

from __future__ import annotations

from typing import Any

from mooring.clock import VirtualClock, seeded_random
from mooring.objects.codec.decode import convert
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceClaim, ResourceClaimTemplate
from mooring.simulation.driver import Driver
from mooring.simulation.generated_claims import with_generated_claims
from mooring.simulation.workload import workload_of
from mooring.testing import make_node, make_pod
from tests.helpers.devices import exactly, make_claim, make_class, make_device, make_slice

GPU_CLASS = "device.driver == 'gpu.test'"


def template(name: str = "gpus") -> ResourceClaimTemplate:
    result: ResourceClaimTemplate = convert(
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "metadata": {"labels": {"team": "ml"}},
                "spec": {"devices": {"requests": [exactly()]}},
            },
        },
        "ResourceClaimTemplate",
    )
    return result


def pod(name: str, *, priority: int = 0, **entry: Any) -> Pod:
    entry = {"name": "gpu", **(entry or {"resourceClaimTemplateName": "gpus"})}
    return make_pod(name, spec={"resourceClaims": [entry], "priority": priority})


def cluster(*devices: str) -> list[Any]:
    """Returns one node with these devices, their class, and a template."""
    return [
        make_node("a"),
        make_class("gpu", GPU_CLASS),
        make_slice("a", [make_device(name) for name in devices or ("d0",)], node="a"),
        template(),
    ]


def driver_of(objects: list[Any]) -> Driver:
    return Driver(objects, rng=seeded_random(0), clock=VirtualClock())


def test_every_pending_pod_gets_a_claim_of_its_own() -> None:
    workload = with_generated_claims(workload_of("w", [template(), pod("one"), pod("two")]))
    claims = [obj for obj in workload.objects if isinstance(obj, ResourceClaim)]
    assert [claim.metadata.name for claim in claims] == ["one-gpu-00000", "two-gpu-00000"]
    first, one = claims[0], workload.pending[0]
    assert first.spec == template().spec.spec
    assert first.metadata.labels == {"team": "ml"}
    assert [owner.uid for owner in first.metadata.owner_references] == [one.metadata.uid]
    (status,) = one.status.resource_claim_statuses
    assert (status.name, status.resource_claim_name) == ("gpu", "one-gpu-00000")


def test_a_pod_without_its_template_waits_for_the_claim() -> None:
    missing = pod("web", resourceClaimTemplateName="none")
    workload = with_generated_claims(workload_of("w", [*cluster(), missing]))
    assert workload.pending == [missing]
    outcome = driver_of(workload.objects).attempt(missing)
    assert outcome.message == 'pod "default/web": ResourceClaim not created yet'


def test_a_claim_of_an_earlier_run_is_kept() -> None:
    first = with_generated_claims(workload_of("w", [template(), pod("web")]))
    again = with_generated_claims(workload_of("w", [*first.objects, *first.pending]))
    assert again.objects == first.objects
    assert again.pending == first.pending


def test_long_names_are_cut_in_proportion() -> None:
    long = make_pod(
        "p" * 60,
        spec={"resourceClaims": [{"name": "e" * 30, "resourceClaimTemplateName": "gpus"}]},
    )
    workload = with_generated_claims(workload_of("w", [template(), long]))
    (claim,) = [obj for obj in workload.objects if isinstance(obj, ResourceClaim)]
    # 92 characters with both hyphens: 60 * 57 / 92 and 30 * 57 / 92.
    assert claim.metadata.name == "p" * 37 + "-" + "e" * 18 + "00000"


def test_the_claim_of_an_evicted_pod_is_deleted() -> None:
    low, high = (
        make_pod(
            name,
            requests={"cpu": 3},
            priority=priority,
            spec={"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]},
        )
        for name, priority in (("low", 0), ("high", 10))
    )
    workload = with_generated_claims(workload_of("w", [*cluster("d0", "d1"), low, high]))
    driver = driver_of(workload.objects)
    by_name = {key(pending): pending for pending in workload.pending}
    assert driver.apply(driver.attempt(by_name["default/low"])).node == "a"
    evicting = driver.apply(driver.attempt(by_name["default/high"]))
    assert [victim.key for victim in evicting.victims] == ["default/low"]
    assert evicting.deleted_claims == ("default/low-gpu-00000",)
    assert driver.cache.devices.claims.get("default/low-gpu-00000") is None
    assert driver.apply(driver.attempt(by_name["default/high"])).node == "a"


def test_a_shared_claim_loses_its_allocation_with_its_last_user() -> None:
    users = [pod(name, resourceClaimName="both") for name in ("one", "two")]
    driver = driver_of([*cluster(), make_claim("both", exactly())])
    for user in users:
        driver.apply(driver.attempt(user))
    claims = driver.cache.devices.claims
    for user, n_users in ((users[0], 1), (users[1], 0)):
        driver.handle.claim_writer.release(user)
        claim = claims.get("default/both")
        assert claim is not None
        assert len(claim.status.reserved_for) == n_users
        assert (claim.status.allocation is not None) is (n_users > 0)
