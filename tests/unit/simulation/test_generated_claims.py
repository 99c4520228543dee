"""Claims from templates, made before the first pod and released with it; phases of volumes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.clock import VirtualClock, seeded_random
from mooring.objects.codec.decode import convert
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.objects.resource import ResourceClaim, ResourceClaimTemplate
from mooring.objects.storage import PersistentVolume
from mooring.simulation.driver import Driver
from mooring.simulation.generated_claims import with_controller_results
from mooring.simulation.workload import Workload, workload_of
from mooring.testing import make_node, make_pod
from tests.helpers.command_line import run_command
from tests.helpers.devices import exactly, make_claim, make_class, make_device, make_slice
from tests.helpers.volume_objects import volume

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
    workload = with_controller_results(workload_of("w", [template(), pod("one"), pod("two")]))
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
    workload = with_controller_results(workload_of("w", [*cluster(), missing]))
    assert workload.pending == [missing]
    outcome = driver_of(workload.objects).attempt(missing)
    assert outcome.message == 'pod "default/web": ResourceClaim not created yet'


def test_a_claim_of_an_earlier_run_is_kept() -> None:
    first = with_controller_results(workload_of("w", [template(), pod("web")]))
    again = with_controller_results(workload_of("w", [*first.objects, *first.pending]))
    assert again.objects == first.objects
    assert again.pending == first.pending


def test_long_names_are_cut_in_proportion() -> None:
    long = make_pod(
        "p" * 60,
        spec={"resourceClaims": [{"name": "e" * 30, "resourceClaimTemplateName": "gpus"}]},
    )
    workload = with_controller_results(workload_of("w", [template(), long]))
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
    workload = with_controller_results(workload_of("w", [*cluster("d0", "d1"), low, high]))
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


@pytest.mark.parametrize(
    ("phase", "claim_uid", "expected"),
    [
        ("", None, "Available"),
        ("Pending", None, "Available"),
        ("", "", "Available"),
        ("", "uid-data", ""),
        ("Released", None, "Released"),
        ("Bound", "uid-data", "Bound"),
    ],
)
def test_a_new_volume_without_a_claim_is_available(
    phase: str, claim_uid: str | None, expected: str
) -> None:
    owner = "" if claim_uid is None else "default/data"
    before = volume("v", phase=phase, claim=owner, claim_uid=claim_uid)
    (after,) = with_controller_results(Workload("test", [before], [])).objects
    assert isinstance(after, PersistentVolume)
    assert after.status.phase == expected
    assert replace(after, status=before.status) == before


def test_a_pod_gets_the_local_volume_of_a_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(LOCAL_VOLUME)
    code, out, _ = run_command(capsys, "simulate", f"--cluster={file}", "-o", "csv")
    assert (code, out.splitlines()[1].split(",")[:3]) == (0, ["default/db", "placed", "b"])
    code, out, _ = run_command(capsys, "explain", "db", f"--cluster={file}")
    assert out.startswith("Pod default/db goes to b ")


LOCAL_VOLUME = """
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Node
    metadata: {name: a, labels: {kubernetes.io/hostname: a}}
    status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
  - apiVersion: v1
    kind: Node
    metadata: {name: b, labels: {kubernetes.io/hostname: b}}
    status: {allocatable: {cpu: "4", memory: 8Gi, pods: "10"}}
  - apiVersion: storage.k8s.io/v1
    kind: StorageClass
    metadata: {name: local}
    provisioner: kubernetes.io/no-provisioner
    volumeBindingMode: WaitForFirstConsumer
  - apiVersion: v1
    kind: PersistentVolume
    metadata: {name: disk}
    spec:
      capacity: {storage: 1Gi}
      accessModes: [ReadWriteOnce]
      storageClassName: local
      local: {path: /data}
      nodeAffinity:
        required:
          nodeSelectorTerms:
            - matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [b]}]
  - apiVersion: v1
    kind: PersistentVolumeClaim
    metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: local
      resources: {requests: {storage: 1Gi}}
  - apiVersion: v1
    kind: Pod
    metadata: {name: db}
    spec:
      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
      containers: [{name: db, image: postgres}]
"""
