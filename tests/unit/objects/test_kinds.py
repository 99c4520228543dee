"""The table of kinds."""

from __future__ import annotations

import pytest

from mooring.errors import ConfigError
from mooring.objects import KINDS, KINDS_BY_RESOURCE, KINDS_BY_STRUCT, Pod, StorageClass
from mooring.objects.kinds import kind_named, kind_of_resource

CLUSTER_WIDE = {
    "Namespace", "Node", "PriorityClass", "PersistentVolume", "StorageClass", "CSINode",
    "CSIDriver", "VolumeAttachment", "ResourceSlice", "DeviceClass",
    "DeviceTaintRule", "RuntimeClass",
}  # fmt: skip


def test_kinds_are_found_by_name_resource_and_struct() -> None:
    assert kind_named("Pod").struct is Pod
    assert kind_of_resource("storageclasses").struct is StorageClass
    assert KINDS_BY_STRUCT[Pod].name == "Pod"
    assert len(KINDS) == len(KINDS_BY_RESOURCE) == len(KINDS_BY_STRUCT) == 24


def test_kinds_know_their_place_in_the_api() -> None:
    places = {name: kind.path for name, kind in KINDS.items()}
    assert places["Pod"] == "/api/v1/pods"
    assert places["CSIStorageCapacity"] == "/apis/storage.k8s.io/v1/csistoragecapacities"
    assert KINDS["PodDisruptionBudget"].api_version == "policy/v1"
    assert {name for name, kind in KINDS.items() if not kind.namespaced} == CLUSTER_WIDE


@pytest.mark.parametrize(
    ("name", "meant"), [("pods", "Pod"), ("csinode", "CSINode"), ("Job", None)]
)
def test_an_unknown_kind_is_refused_with_what_was_probably_meant(
    name: str, meant: str | None
) -> None:
    with pytest.raises(ConfigError) as caught:
        kind_named(name)
    assert (caught.value.path, caught.value.suggestion) == ("kind", meant)


def test_an_unknown_resource_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        kind_of_resource("Pods")
    assert caught.value.suggestion == "pods"
