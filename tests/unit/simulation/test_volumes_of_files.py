"""Claims and volumes of files are bound as by the controllers of a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mooring import Cluster
from mooring.objects.codec.decode import convert
from mooring.objects.files.generic_objects import generic_object
from mooring.simulation.generated_claims import with_controller_results
from mooring.simulation.workload import workload_of
from mooring.testing import make_node, make_pod
from tests.helpers.volume_objects import LATE, claim, storage_class, volume


def using(*names: str) -> Any:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    return make_pod("web", spec={"volumes": volumes})


def ephemeral(**spec: Any) -> Any:
    spec = {"accessModes": ["ReadWriteOnce"], **spec}
    spec["resources"] = {"requests": {"storage": "1Gi"}}
    source = {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    return make_pod("web", spec={"volumes": [{"name": "scratch", **source}]})


def node_of(*objects: Any) -> str:
    nodes = [make_node(name, labels={"kubernetes.io/hostname": name}) for name in ("a", "b")]
    node: str = Cluster([*nodes, *objects]).simulate()["web"].node
    return node


NEAR_B = {"kubernetes.io/hostname": "b"}


@pytest.mark.parametrize("name", ["manual", ""])
def test_a_claim_without_a_class_object_gets_a_volume_of_its_class(name: str) -> None:
    disk = volume("disk", storage_class=name, near=NEAR_B)

    assert node_of(disk, claim("data", storage_class=name), using("data")) == "b"


@pytest.mark.parametrize(
    "more",
    [
        {"size": "500Mi"},
        {"storage_class": "other"},
        {"claim": "default/another"},
        {"accessModes": ["ReadOnlyMany"]},
        {"volumeMode": "Block"},
        {"volumeAttributesClassName": "gold"},
        {"phase": "Released"},
    ],
)
def test_a_volume_that_does_not_satisfy_the_claim_is_left_alone(more: dict[str, Any]) -> None:
    disk = volume("disk", **{"storage_class": "manual", **more})

    assert node_of(disk, claim("data", storage_class="manual"), using("data")) == ""


def test_the_smallest_volume_is_taken_unless_one_names_the_claim() -> None:
    of_class: dict[str, Any] = {"storage_class": "manual"}
    small = volume("small", size="2Gi", near={"kubernetes.io/hostname": "a"}, **of_class)
    large = volume("large", size="9Gi", near=NEAR_B, **of_class)
    named = volume("named", size="9Gi", near=NEAR_B, claim="default/data", claim_uid="")
    data = claim("data", storage_class="manual")

    assert node_of(large, small, data, using("data")) == "a"
    assert node_of(named, small, data, using("data")) == "b"


@pytest.mark.parametrize(
    ("version", "provisioner", "node"),
    [
        ("", "disk.csi.test", True),
        # An API server has stored it, and the provisioner has made no volume since.
        ("7", "disk.csi.test", False),
        ("", "kubernetes.io/no-provisioner", False),
    ],
)
def test_a_volume_is_made_for_a_new_claim(version: str, provisioner: str, node: bool) -> None:
    at_once = storage_class("now", mode="Immediate", provisioner=provisioner)
    data = claim("data", storage_class="now", version=version)

    assert bool(node_of(at_once, data, using("data"))) is node


def test_a_volume_is_made_for_an_ephemeral_volume_that_waits_for_no_pod() -> None:
    at_once = storage_class("now", mode="Immediate", provisioner="disk.csi.test")

    assert node_of(at_once, ephemeral(storageClassName="now")) != ""


def test_a_claim_that_waits_for_a_pod_is_left_to_the_scheduler() -> None:
    disks = [volume("small", near=NEAR_B), volume("large", size="9Gi")]
    late = storage_class("local", mode=LATE)
    at_b = make_pod(
        "web",
        spec={
            "nodeName": "",
            "nodeSelector": {"kubernetes.io/hostname": "a"},
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
        },
    )

    assert node_of(late, *disks, claim("data", storage_class="local"), at_b) == "a"


def test_an_ephemeral_volume_gets_a_claim_and_a_volume() -> None:
    late = storage_class("made", mode=LATE, provisioner="disk.csi.test")
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    default = convert(
        {
            "metadata": {"name": "standard", "annotations": marked},
            "provisioner": "disk.csi.test",
            "volumeBindingMode": LATE,
        },
        "StorageClass",
    )

    assert node_of(late, ephemeral(storageClassName="made")) != ""
    assert node_of(default, ephemeral()) != ""
    assert node_of(ephemeral(storageClassName="nowhere")) == ""


def test_a_claim_of_another_owner_is_not_the_pods() -> None:
    other = claim("web-scratch", storage_class="made")
    late = storage_class("made", mode=LATE, provisioner="disk.csi.test")

    result = Cluster([make_node("a"), late, other, ephemeral(storageClassName="made")]).simulate()
    assert result["web"].node == ""


DEPLOYMENT = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: made}
provisioner: disk.csi.test
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: nginx}]
      volumes:
        - name: scratch
          ephemeral:
            volumeClaimTemplate:
              spec:
                storageClassName: made
                accessModes: [ReadWriteOnce]
                resources: {requests: {storage: 1Gi}}
"""


@pytest.mark.parametrize("mode", [LATE, "Immediate"])
def test_pods_of_a_deployment_get_claims_of_their_own(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "web.yaml"
    path.write_text(DEPLOYMENT.replace(LATE, mode))
    objects = Cluster.read(str(path))
    cluster = Cluster([make_node("a"), *objects.objects], workloads=objects.workloads)

    placements = [*cluster.simulate().placements]

    assert [row["node"] for row in placements] == ["a"] * 3


def test_objects_of_other_kinds_stay_as_they_are() -> None:
    """Two kinds of custom resources may have objects of one name."""
    groups = [
        {"apiVersion": "a.example/v1", "kind": kind, "metadata": {"name": "one"}}
        for kind in ("Group", "Quota")
    ]
    others = [generic_object(group, {}) for group in groups]
    workload = workload_of("w", [make_node("a"), *others, claim("data", storage_class="manual")])

    found = with_controller_results(workload)

    assert [obj for obj in found.objects if obj in others] == others
