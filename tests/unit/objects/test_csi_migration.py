"""In-tree volumes as their CSI drivers know them, with kube-scheduler's own examples."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.objects.codec.decode import convert, encode
from mooring.objects.csi_migration import (
    TranslationError,
    in_tree,
    in_tree_plugin,
    inline_handle,
    translated_affinity,
    volume_handle,
)
from mooring.objects.storage import PersistentVolume
from mooring.testing import make_pod

ZONE, BETA = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"

EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
GCE = {"gcePersistentDisk": {"pdName": "disk-1"}}


def volume(
    source: dict[str, Any],
    *,
    labels: dict[str, str] | None = None,
    terms: list[dict[str, Any]] | None = None,
) -> PersistentVolume:
    spec = dict(source)
    if terms is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    document = {"metadata": {"name": "v", "labels": labels or {}}, "spec": spec}
    found: PersistentVolume = convert(document, "PersistentVolume")
    return found


def near(key: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


@pytest.mark.parametrize(
    ("source", "plugin", "driver", "is_migrated"),
    [
        (GCE, "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", True),
        (EBS, "kubernetes.io/aws-ebs", "ebs.csi.aws.com", True),
        ({"cinder": {}}, "kubernetes.io/cinder", "cinder.csi.openstack.org", True),
        ({"azureDisk": {}}, "kubernetes.io/azure-disk", "disk.csi.azure.com", True),
        ({"azureFile": {}}, "kubernetes.io/azure-file", "file.csi.azure.com", False),
        ({"vsphereVolume": {}}, "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", False),
        ({"portworxVolume": {}}, "kubernetes.io/portworx-volume", "pxd.portworx.com", True),
    ],
)
def test_each_kind_of_old_has_its_driver(
    source: dict[str, Any], plugin: str, driver: str, is_migrated: bool
) -> None:
    kind = in_tree(volume(source).spec)

    assert kind is not None
    assert (kind.plugin, kind.driver, kind.is_migrated) == (plugin, driver, is_migrated)
    assert in_tree_plugin(plugin) == kind


@pytest.mark.parametrize("source", [{"csi": {"driver": "d"}}, {"local": {"path": "/"}}, {}])
def test_others_are_none_of_them(source: dict[str, Any]) -> None:
    assert in_tree(volume(source).spec) is None
    assert in_tree_plugin("csi.example.com") is None


@pytest.mark.parametrize(
    ("source", "labels", "handle"),
    [
        (EBS, {}, "vol-1"),
        ({"awsElasticBlockStore": {"volumeID": "aws://us-east-1/vol-2"}}, {}, "vol-2"),
        ({"awsElasticBlockStore": {"volumeID": "aws:///vol-3"}}, {}, "vol-3"),
        ({"awsElasticBlockStore": {"volumeID": "disk"}}, {}, "disk"),
        (GCE, {}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk-1"),
        (GCE, {ZONE: "us-x1-a"}, "projects/UNSPECIFIED/zones/us-x1-a/disks/disk-1"),
        (GCE, {BETA: "b", ZONE: "a"}, "projects/UNSPECIFIED/zones/b/disks/disk-1"),
        (GCE, {BETA: "", ZONE: "a"}, "projects/UNSPECIFIED/zones/a/disks/disk-1"),
        (GCE, {ZONE: "us-x1-a__us-x1-b"}, "projects/UNSPECIFIED/regions/us-x1/disks/disk-1"),
        ({"azureDisk": {"diskURI": "uri", "kind": "managed"}}, {}, "uri"),
        ({"azureDisk": {"diskURI": "uri"}}, {}, "uri"),
        ({"cinder": {"volumeID": "c"}}, {}, "c"),
        ({"portworxVolume": {"volumeID": "p"}}, {}, "p"),
    ],
)
def test_a_volume_has_the_handle_of_its_driver(
    source: dict[str, Any], labels: dict[str, str], handle: str
) -> None:
    found = volume(source, labels=labels)
    kind = in_tree(found.spec)

    assert kind is not None
    assert volume_handle(found, kind) == handle


@pytest.mark.parametrize(
    ("source", "labels", "problem"),
    [
        (
            {"awsElasticBlockStore": {"volumeID": "aws://z/disk"}},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID "
            "Invalid format for AWS volume (aws://z/disk)",
        ),
        (
            {"azureDisk": {"diskURI": "uri", "kind": "Dedicated"}},
            {},
            "kind(Dedicated) is not supported in csi migration",
        ),
        (
            GCE,
            {ZONE: "a__b"},
            "failed to get region from zones: zone in unexpected format, "
            "expected: {locale}-{region}-{zone}, got: a",
        ),
        (
            GCE,
            {ZONE: "us-x1-a__eu-y2-a"},
            "failed to get region from zones: multiple or no regions gotten from zones, "
            "got: map[eu-y2:{} us-x1:{}]",
        ),
        (
            {"awsElasticBlockStore": {"volumeID": "aws://[z/vol-1"}},
            {},
            "failed to translate Kubernetes ID to EBS Volume ID Invalid disk name (aws://[z/vol-1)",
        ),
    ],
)
def test_volumes_that_no_driver_can_serve_are_reported(
    source: dict[str, Any], labels: dict[str, str], problem: str
) -> None:
    found = volume(source, labels=labels)
    kind = in_tree(found.spec)
    assert kind is not None

    with pytest.raises(TranslationError) as caught:
        volume_handle(found, kind)
    with pytest.raises(TranslationError):
        translated_affinity(found, kind)

    assert str(caught.value).startswith(problem)


def test_a_disk_in_a_pod_has_no_zone() -> None:
    (described,) = make_pod(spec={"volumes": [{"name": "v", **GCE}]}).spec.volumes
    kind = in_tree(described)

    assert kind is not None
    assert inline_handle(described, kind) == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk-1"


@pytest.mark.parametrize(
    ("labels", "terms", "expected"),
    [
        ({}, None, None),
        ({}, [near(ZONE, "a")], [near(EBS_ZONE, "a")]),
        ({}, [near(BETA, "a")], [near(EBS_ZONE, "a")]),
        ({}, [near(ZONE, "a"), near(BETA, "b")], [near(EBS_ZONE, "a"), near(BETA, "b")]),
        ({ZONE: "b"}, [near(ZONE, "a")], [near(EBS_ZONE, "a")]),
        ({ZONE: "b__a"}, None, [near(EBS_ZONE, "a", "b")]),
        ({ZONE: " __"}, None, None),
        ({BETA: "b", ZONE: "a"}, None, [near(EBS_ZONE, "a")]),
        ({BETA: "b"}, None, [near(EBS_ZONE, "b")]),
        (
            {ZONE: "a"},
            [near("rack", "1")],
            [{"matchExpressions": [*near("rack", "1")["matchExpressions"],
                                   *near(EBS_ZONE, "a")["matchExpressions"]]}],
        ),
        (
            {},
            [near(BETA, "a"), near(BETA_REGION, "r")],
            [near(EBS_ZONE, "a"), near("topology.kubernetes.io/region", "r")],
        ),
        ({}, [near(BETA_REGION, "r")], [near(BETA_REGION, "r")]),
    ],
)  # fmt: skip
def test_zones_become_the_drivers_own(labels: dict[str, str], terms: Any, expected: Any) -> None:
    found = volume(EBS, labels=labels, terms=terms)
    kind = in_tree(found.spec)
    assert kind is not None

    translated = translated_affinity(found, kind)

    actual = json.loads(encode(translated)) if translated is not None else {}
    assert actual.get("nodeSelectorTerms") == expected


def test_a_driver_without_zones_leaves_the_affinity_as_it_is() -> None:
    source = {"azureDisk": {"diskURI": "uri"}}
    found = volume(source, labels={ZONE: "b"}, terms=[near(ZONE, "a")])
    kind = in_tree(found.spec)
    assert kind is not None
    assert found.spec.node_affinity is not None

    assert translated_affinity(found, kind) == found.spec.node_affinity.required
