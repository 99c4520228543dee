"""Claims and volumes that are deleted while something uses them, as kube-controller-manager does.

Expectations: pkg/controller/volume/{pvcprotection,pvprotection,vacprotection}, and their tests. The
contract suite has the objects that remain.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.apiserver.resources import resource_named
from tests.helpers.api import PODS, Api, Object, pod

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/volumeattributesclasses"
FAST: Object = {
    "metadata": {"name": "fast"},
    "driverName": "d.example.com",
    "parameters": {"iops": "100"},
}


def claim(name: str, *, finalizers: list[str] | None = None, **spec: Any) -> Object:
    resources = {"requests": {"storage": "1Gi"}}
    metadata = {"name": name, "finalizers": finalizers or []}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}
    return {"metadata": metadata, "spec": spec}


def volume(name: str, **spec: Any) -> Object:
    usual = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}
    return {"metadata": {"name": name}, "spec": {**usual, "hostPath": {"path": "/x"}, **spec}}


def pod_with(claim_name: str, name: str = "p", node: str = "n") -> Object:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    fields: Object = {"nodeName": node} if node else {}
    return pod(name, volumes=volumes, terminationGracePeriodSeconds=0, **fields)


def exists(api: Api, path: str) -> bool:
    return api.ask("GET", path)[0] == 200


def test_an_unused_claim_goes_at_once() -> None:
    api = Api()
    stored = api.post(CLAIMS, claim("c"))
    assert stored["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    last = api.delete(f"{CLAIMS}/c")
    assert last["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert not exists(api, f"{CLAIMS}/c")


def test_a_claim_in_use_goes_with_its_last_pod() -> None:
    api = Api()
    api.post(CLAIMS, claim("c"))
    for name in ("first", "second"):
        api.post(PODS, pod_with("c", name))
    api.delete(f"{CLAIMS}/c")
    api.delete(f"{PODS}/first")
    stored = api.get(f"{CLAIMS}/c")
    assert stored["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert "deletionTimestamp" in stored["metadata"]
    api.delete(f"{PODS}/second")
    assert not exists(api, f"{CLAIMS}/c")


def test_a_claim_waits_for_the_grace_period_of_its_pod() -> None:
    api = Api()
    api.post(CLAIMS, claim("c"))
    user = pod_with("c")
    user["spec"]["terminationGracePeriodSeconds"] = 30
    api.post(PODS, user)
    api.delete(f"{CLAIMS}/c")
    api.delete(f"{PODS}/p")
    api.clock.advance(29)
    api.server.tick()
    assert exists(api, f"{CLAIMS}/c")
    api.clock.advance(1)
    api.server.tick()
    assert not exists(api, f"{CLAIMS}/c")


@pytest.mark.parametrize(
    "other",
    [
        pod_with("c", node=""),
        pod_with("other"),
        pod("p", nodeName="n"),
    ],
    ids=["has no node", "mounts another claim", "mounts nothing"],
)
def test_other_pods_do_not_use_a_claim(other: Object) -> None:
    api = Api()
    api.post(CLAIMS, claim("c"))
    api.post(PODS, other)
    api.delete(f"{CLAIMS}/c")
    assert not exists(api, f"{CLAIMS}/c")


def test_a_finished_pod_uses_its_claim_until_it_is_deleted() -> None:
    api = Api()
    api.post(CLAIMS, claim("c"))
    api.post(PODS, pod_with("c"))
    api.patch(f"{PODS}/p/status", {"status": {"phase": "Succeeded"}})
    api.delete(f"{CLAIMS}/c")
    assert exists(api, f"{CLAIMS}/c")
    api.delete(f"{PODS}/p")
    assert not exists(api, f"{CLAIMS}/c")


def test_other_finalizers_stay() -> None:
    api = Api()
    api.post(CLAIMS, claim("c", finalizers=["example.com/mine"]))
    api.delete(f"{CLAIMS}/c")
    assert api.get(f"{CLAIMS}/c")["metadata"]["finalizers"] == ["example.com/mine"]
    api.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": None}})
    assert not exists(api, f"{CLAIMS}/c")


def test_a_claim_of_an_ephemeral_volume_goes_with_its_pod_also_if_that_has_finalizers() -> None:
    """The claim does not wait for a pod that is shut down, whose finalizer may wait for it."""
    api = Api()
    template = {"spec": claim("x")["spec"]}
    volumes = [{"name": "data", "ephemeral": {"volumeClaimTemplate": template}}]
    fields: Object = {"volumes": volumes, "terminationGracePeriodSeconds": 0, "nodeName": "n"}
    obj = pod("p", **fields)
    obj["metadata"]["finalizers"] = ["example.com/mine"]
    owner = api.post(PODS, obj)
    own = claim("p-data")
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "controller": True}
    own["metadata"]["ownerReferences"] = [{**reference, "uid": owner["metadata"]["uid"]}]
    api.post(CLAIMS, own)
    api.delete(f"{CLAIMS}/p-data")
    assert exists(api, f"{CLAIMS}/p-data")
    api.delete(f"{PODS}/p")
    assert exists(api, f"{PODS}/p")
    assert not exists(api, f"{CLAIMS}/p-data")


def test_a_bound_volume_goes_after_its_claim() -> None:
    api = Api()
    uid = api.post(CLAIMS, claim("c", volumeName="v"))["metadata"]["uid"]
    reference = {"namespace": "default", "name": "c", "uid": uid}
    stored = api.post(VOLUMES, volume("v", claimRef=reference))
    assert stored["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    api.patch(f"{VOLUMES}/v/status", {"status": {"phase": "Bound"}})
    api.delete(f"{VOLUMES}/v")
    assert exists(api, f"{VOLUMES}/v")
    api.delete(f"{CLAIMS}/c")
    assert not exists(api, f"{VOLUMES}/v")


def test_a_volume_that_is_released_goes() -> None:
    api = Api()
    uid = api.post(CLAIMS, claim("c", volumeName="v"))["metadata"]["uid"]
    reference = {"namespace": "default", "name": "c", "uid": uid}
    api.post(VOLUMES, volume("v", claimRef=reference))
    api.patch(f"{VOLUMES}/v/status", {"status": {"phase": "Bound"}})
    api.delete(f"{VOLUMES}/v")
    assert exists(api, f"{VOLUMES}/v")
    api.patch(f"{VOLUMES}/v/status", {"status": {"phase": "Released"}})
    assert not exists(api, f"{VOLUMES}/v")


def test_a_class_of_attributes_goes_after_what_names_it() -> None:
    api = Api()
    stored = api.post(CLASSES, FAST)
    assert stored["metadata"]["finalizers"] == ["kubernetes.io/vac-protection"]
    api.post(CLAIMS, claim("c", volumeAttributesClassName="fast"))
    api.delete(f"{CLASSES}/fast")
    assert exists(api, f"{CLASSES}/fast")
    api.delete(f"{CLAIMS}/c")
    assert not exists(api, f"{CLASSES}/fast")


def test_a_namespace_with_claims_in_use_goes() -> None:
    api = Api()
    api.post("/api/v1/namespaces", {"metadata": {"name": "a"}})
    claims, pods = CLAIMS.replace("default", "a"), PODS.replace("default", "a")
    api.post(claims, claim("c"))
    api.post(pods, pod_with("c"))
    api.delete("/api/v1/namespaces/a")
    assert not exists(api, "/api/v1/namespaces/a")


def test_a_snapshot_brings_claims_that_wait_with_it() -> None:
    api = Api()
    api.post(CLAIMS, claim("c"))
    api.post(PODS, pod_with("c"))
    api.delete(f"{CLAIMS}/c")
    other = Api()
    other.server.load(api.server.snapshot())
    assert exists(other, f"{CLAIMS}/c")
    other.delete(f"{PODS}/p")
    assert not exists(other, f"{CLAIMS}/c")


def test_a_dry_run_releases_nothing() -> None:
    api = Api()
    api.post(CLAIMS, claim("c"))
    assert "deletionTimestamp" in api.delete(f"{CLAIMS}/c?dryRun=All")["metadata"]
    assert exists(api, f"{CLAIMS}/c")


@pytest.mark.parametrize(
    ("collection", "obj", "finalizer"),
    [
        (CLAIMS, claim("c"), "kubernetes.io/pvc-protection"),
        (VOLUMES, volume("v"), "kubernetes.io/pv-protection"),
        (CLASSES, FAST, "kubernetes.io/vac-protection"),
    ],
)
def test_an_object_gets_its_finalizer_again(collection: str, obj: Object, finalizer: str) -> None:
    api = Api()
    api.post(collection, obj)
    path = f"{collection}/{obj['metadata']['name']}"
    # An annotation with the name of the finalizer protects nothing.
    changed = {"finalizers": ["example.com/mine"], "annotations": {"a": finalizer}}
    answer = api.patch(path, {"metadata": changed})
    assert answer["metadata"]["finalizers"] == ["example.com/mine"]
    stored = api.get(path)
    assert stored["metadata"]["finalizers"] == ["example.com/mine", finalizer]
    managers = {
        entry["manager"]: entry["fieldsV1"]["f:metadata"]["f:finalizers"]
        for entry in stored["metadata"]["managedFields"]
        if "f:finalizers" in entry["fieldsV1"].get("f:metadata", {})
    }
    assert managers["kube-controller-manager"] == {f'v:"{finalizer}"': {}}


def test_a_deleted_object_does_not_get_its_finalizer_again() -> None:
    api = Api()
    api.post(CLAIMS, claim("c", finalizers=["example.com/mine"]))
    api.post(PODS, pod_with("c"))
    api.delete(f"{CLAIMS}/c")
    api.patch(f"{CLAIMS}/c", {"metadata": {"finalizers": ["example.com/mine"]}})
    assert api.get(f"{CLAIMS}/c")["metadata"]["finalizers"] == ["example.com/mine"]


def test_objects_of_a_data_file_get_their_finalizers() -> None:
    before = Api()
    before.post(VOLUMES, volume("v"))
    stored = before.server.store.collection(resource_named("", "persistentvolumes"))
    obj = before.get(f"{VOLUMES}/v")
    del obj["metadata"]["finalizers"]
    stored.replace("v", obj)  # as an earlier version has stored it
    api = Api()
    api.server.load(before.server.snapshot())
    assert api.get(f"{VOLUMES}/v")["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]


def test_a_claim_of_a_loaded_snapshot_goes_whatever_the_server_had_before() -> None:
    """Both states have the same version, and a deleted claim with its finalizer."""
    api = Api()
    api.post(PODS, pod_with("c"))
    api.post(CLAIMS, claim("c"))
    api.delete(f"{CLAIMS}/c")
    state = json.loads(api.server.snapshot())
    assert exists(api, f"{CLAIMS}/c")
    state["format"] = "mooring-apiserver-1"
    del state["sha256"], state["objects"]["pods"]

    api.server.load(json.dumps(state).encode())

    assert not exists(api, f"{CLAIMS}/c")
