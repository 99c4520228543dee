"""Tests the notes about objects that pods refer to and the input does not have."""

from __future__ import annotations

from typing import Any

from mooring.objects.codec.decode import convert
from mooring.simulation.inputs.missing_objects import missing_objects, notes_of
from mooring.simulation.workload import workload_of
from mooring.testing import make_node, make_pod


def claim(name: str, **spec: Any) -> Any:
    metadata = {"name": name, "namespace": "default"}
    return convert({"metadata": metadata, "spec": spec}, "PersistentVolumeClaim")


def with_claim(name: str, claim_name: str) -> Any:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
    return make_pod(name, spec={"volumes": [volume]})


def missing(*objects: Any) -> dict[str, list[str]]:
    return missing_objects(workload_of("w", [make_node("a"), *objects]))


def test_claims_volumes_and_classes_are_missed() -> None:
    assert missing(with_claim("web", "data")) == {"PersistentVolumeClaim": ["default/data"]}
    bound = claim("data", volumeName="pv-1")
    assert missing(with_claim("web", "data"), bound) == {"PersistentVolume": ["pv-1"]}
    unbound = claim("data", storageClassName="fast")
    assert missing(with_claim("web", "data"), unbound) == {"StorageClass": ["fast"]}


def test_a_default_class_is_missed() -> None:
    assert missing(claim("data")) == {"StorageClass": ["(a default one)"]}
    assert missing(claim("data", storageClassName="")) == {}
    marked = {"name": "std", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    default = convert({"metadata": marked, "provisioner": "p"}, "StorageClass")
    assert missing(claim("data"), default) == {}


def test_the_classes_of_the_claims_of_a_stateful_set_are_missed() -> None:
    templates = [
        {"metadata": {"name": name}, "spec": {} if name == "data" else {"storageClassName": name}}
        for name in ("data", "fast")
    ]
    workload = workload_of("w", [make_node("a")])
    workload = workload._replace(controlled=[{"spec": {"volumeClaimTemplates": templates}}])

    assert missing_objects(workload) == {"StorageClass": ["(a default one)", "fast"]}


def test_the_nodes_of_placed_pods_are_missed() -> None:
    assert missing(make_pod("here", node="a"), make_pod("there", node="b")) == {"Node": ["b"]}


def test_devices_are_missed() -> None:
    spec = {
        "resourceClaims": [
            {"name": "a", "resourceClaimName": "gpu"},
            {"name": "b", "resourceClaimTemplateName": "nic"},
        ]
    }
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}
    gpu = convert(
        {
            "metadata": {"name": "gpu", "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
        },
        "ResourceClaim",
    )
    assert missing(make_pod("train", spec=spec)) == {
        "ResourceClaim": ["default/gpu"],
        "ResourceClaimTemplate": ["default/nic"],
    }
    assert missing(make_pod("train", spec=spec), gpu)["DeviceClass"] == ["gpu.example.com"]


def test_namespaces_are_missed_if_a_term_selects_them() -> None:
    term = {
        "topologyKey": "zone",
        "namespaceSelector": {"matchLabels": {"team": "a"}},
        "labelSelector": {},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert missing(make_pod("web", affinity=affinity)) == {"Namespace": ["default"]}
    assert missing(make_pod("web")) == {}


def test_a_note_names_the_first_objects_and_what_to_do() -> None:
    names = [f"default/c{number}" for number in range(4)]
    assert notes_of({"PersistentVolumeClaim": names, "StorageClass": ["fast"]}) == [
        "4 PersistentVolumeClaims are not in the input: default/c0, default/c1, default/c2, ...;"
        " write a complete dump with: mooring dump",
        "1 StorageClass is not in the input: fast; write a complete dump with: mooring dump",
    ]
