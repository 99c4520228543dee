"""Volume types of vendors and protocols in pods and PersistentVolumes, and annotations of pods."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import Api
from tests.integration.contract.objects import pod
from tests.integration.contract.scenario import SCENARIOS, pods, scenario

Source = dict[str, Any]

IQN = "iqn.2001-04.com.example:storage.disk2"
LOGIN = {"targetPortal": "10.0.0.1:3260", "iqn": IQN, "lun": 0}
URI = "https://account.blob.core.windows.net/container/disk.vhd"
MANAGED = "/subscriptions/a/resourcegroups/b/providers/microsoft.compute/disks/c"

#: Volume type -> sources that are taken, and sources that are refused.
SOURCES: dict[str, tuple[list[Source], list[Source]]] = {
    "gcePersistentDisk": (
        [{"pdName": "d"}, {"pdName": "d", "partition": 255}],
        [{}, {"pdName": "d", "partition": 256}, {"pdName": "", "partition": -1}],
    ),
    "awsElasticBlockStore": (
        [{"volumeID": "v", "partition": 0}],
        [{"volumeID": "", "partition": 300}],
    ),
    "glusterfs": ([{"endpoints": "e", "path": "p"}], [{}, {"endpoints": "e", "path": ""}]),
    "flocker": (
        [{"datasetName": "d"}, {"datasetUUID": "u"}],
        [{}, {"datasetName": "a/b"}, {"datasetName": "d", "datasetUUID": "u"}],
    ),
    "rbd": ([{"monitors": ["m"], "image": "i"}], [{}, {"monitors": [], "image": "i"}]),
    "cephfs": ([{"monitors": ["m"]}], [{}]),
    "cinder": (
        [{"volumeID": "v"}, {"volumeID": "v", "secretRef": {"name": "s", "namespace": "n"}}],
        [{}, {"volumeID": "v", "secretRef": {}}],
    ),
    "quobyte": (
        [
            {"registry": "h:1,[::1]:2", "volume": "v"},
            {"registry": "h:", "volume": "v", "tenant": "t" * 64},
        ],
        [
            {},
            {"registry": "h", "volume": "v"},
            {"registry": "h:1:2,[a]b:1,[a:1", "volume": ""},
            {"registry": "a[b:1,a]:1,[]:1", "volume": "v"},
            {"registry": "h:1", "volume": "v", "tenant": "t" * 65},
        ],
    ),
    "fc": (
        [{"wwids": ["w"]}, {"targetWWNs": ["w"], "lun": 0}],
        [
            {},
            {"targetWWNs": ["w"]},
            {"targetWWNs": ["w"], "wwids": ["x"], "lun": 256},
            {"targetWWNs": ["w"], "lun": -1},
        ],
    ),
    "flexVolume": (
        [{"driver": "d", "options": {"a": "b", "example.com/kubernetes.io": "c"}}],
        [
            {},
            {"driver": "d", "options": {"kubernetes.io/a": ""}},
            {"driver": "", "options": {"A.K8s.io": ""}},
        ],
    ),
    "azureFile": (
        [{"secretName": "s", "shareName": "h"}],
        [{}, {"secretName": "s", "shareName": ""}],
    ),
    "vsphereVolume": ([{"volumePath": "p"}], [{}]),
    "photonPersistentDisk": ([{"pdID": "p"}], [{}]),
    "portworxVolume": ([{"volumeID": "p"}], [{}]),
    "azureDisk": (
        [
            {"diskName": "d", "diskURI": URI},
            {"diskName": "d", "diskURI": MANAGED, "kind": "Managed", "cachingMode": "None"},
        ],
        [
            {},
            {"diskName": "d", "diskURI": MANAGED},
            {"diskName": "d", "diskURI": URI, "kind": "Managed"},
            {"diskName": "d", "diskURI": URI, "kind": "Blob", "cachingMode": "Some"},
        ],
    ),
    "scaleIO": (
        [{"gateway": "g", "system": "s", "volumeName": "v", "secretRef": {"name": "s"}}],
        [{}, {"gateway": "g", "system": "s"}],
    ),
    "storageos": (
        [{"volumeName": "v", "volumeNamespace": "n"}],
        [
            {},
            {"volumeName": "A", "volumeNamespace": "_"},
            {"volumeName": "v", "secretRef": {}},
        ],
    ),
    "iscsi": (
        [
            LOGIN,
            {**LOGIN, "iqn": "eui.0123456789abcdef", "initiatorName": IQN},
            {
                **LOGIN,
                "iqn": "naa." + "1" * 32,
                "chapAuthSession": True,
                "secretRef": {"name": "s"},
            },
        ],
        [
            {},
            {**LOGIN, "iqn": "a", "lun": 256},
            {**LOGIN, "iqn": "iqn.a", "lun": -1},
            {**LOGIN, "iqn": "eui.1", "chapAuthDiscovery": True},
            {**LOGIN, "iqn": "naa.1", "initiatorName": "a"},
            {**LOGIN, "initiatorName": "iqn.a", "targetPortal": "p" * 70},
        ],
    ),
}
#: Those of pods alone.
OF_PODS: dict[str, tuple[list[Source], list[Source]]] = {
    "gitRepo": (
        [{"repository": "r", "directory": "a/b"}],
        [{}, {"repository": "", "directory": "/a/../b"}],
    ),
    "image": (
        [{"reference": "r"}, {"reference": "r:latest", "pullPolicy": "Never"}],
        [{}, {"reference": "", "pullPolicy": "Sometimes"}],
    ),
}
#: Those whose check differs for PersistentVolumes.
OF_VOLUMES: dict[str, tuple[list[Source], list[Source]]] = {
    "glusterfs": (
        [{"endpoints": "e", "path": "p", "endpointsNamespace": "n"}],
        [
            {"endpoints": "e", "path": "p", "endpointsNamespace": ""},
            {"endpoints": "", "path": "p", "endpointsNamespace": "A_"},
        ],
    ),
    "cinder": ([], [{"volumeID": "v", "secretRef": {"name": "s"}}]),
    "azureFile": (
        [{"secretName": "s", "shareName": "h", "secretNamespace": "n"}],
        [{"secretName": "s", "shareName": "h", "secretNamespace": ""}],
    ),
    "storageos": ([], [{"volumeName": "v", "secretRef": {"name": "s"}}]),
    "iscsi": ([], [{**LOGIN, "secretRef": {}}, {**LOGIN, "iqn": "a", "initiatorName": "b"}]),
}


def _volume(name: str, kind: str, source: Source) -> dict[str, Any]:
    spec = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, kind: source}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
    }


def _in_pods(kind: str, taken: list[Source], refused: list[Source]) -> None:
    def run(api: Api, ns: str) -> None:
        for number, source in enumerate([*taken, *refused]):
            volumes = [{"name": "v", kind: source}]
            made = api.post(pods(ns), pod(f"p-{number}", volumes=volumes))
            assert made.code == (201 if source in taken else 422), (source, made.message)

    SCENARIOS[f"volumes-pod-{kind}"] = run


def _in_volumes(name: str, kind: str, taken: list[Source], refused: list[Source]) -> None:
    def run(api: Api, ns: str) -> None:
        for number, source in enumerate([*taken, *refused]):
            made = api.post("/api/v1/persistentvolumes", _volume(f"{ns}-{number}", kind, source))
            assert made.code == (201 if source in taken else 422), (source, made.message)

    SCENARIOS[f"volumes-{name}-{kind}"] = run


for _kind, (_taken, _refused) in [*SOURCES.items(), *OF_PODS.items()]:
    _in_pods(_kind, _taken, _refused)
for _kind, (_taken, _refused) in SOURCES.items():
    if _kind == "cinder":
        _refused = [source for source in _refused if "name" not in source.get("secretRef", {})]
    _in_volumes("persistent", _kind, _taken, _refused)
for _kind, (_taken, _refused) in OF_VOLUMES.items():
    _in_volumes("namespaced", _kind, _taken, _refused)


@scenario
def several_types_of_one_volume(api: Api, ns: str) -> None:
    target = {**LOGIN, "initiatorName": IQN}
    several: dict[str, Any] = {"name": "v", "cephfs": {}, "iscsi": target, "rbd": {}}
    assert api.post(pods(ns), pod("p", volumes=[several])).code == 422
    target["targetPortal"] = "p" * 70
    assert api.post(pods(ns), pod("p", volumes=[several])).code == 422
    volume = _volume(ns, "rbd", {})
    volume["spec"].update(cephfs={}, flexVolume={}, iscsi={})
    assert api.post("/api/v1/persistentvolumes", volume).code == 422


@scenario
def the_claim_of_an_ephemeral_volume_needs_a_valid_name(api: Api, ns: str) -> None:
    template = {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    }
    volumes = [{"name": "v" * 63, "ephemeral": {"volumeClaimTemplate": template}}]
    assert api.post(pods(ns), pod("p" * 150, volumes=volumes)).code == 201
    assert api.post(pods(ns), pod("p" * 200, volumes=volumes)).code == 422


@scenario
def rules_of_init_containers_count_with_a_policy_only(api: Api, ns: str) -> None:
    rules = [{"action": "Explode", "exitCodes": {"operator": "Near"}}]
    for policy in ({}, {"restartPolicy": "Always"}, {"restartPolicy": "Never"}):
        container = {"name": "i", "image": "i", "restartPolicyRules": rules, **policy}
        assert api.post(pods(ns), pod("p", initContainers=[container])).code == 422


@scenario
def required_terms_are_validated_before_preferred_ones(api: Api, ns: str) -> None:
    affinity = {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 101, "podAffinityTerm": {"topologyKey": ""}}
        ],
        "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": ""}],
    }
    for kind in ("podAffinity", "podAntiAffinity"):
        assert api.post(pods(ns), pod("p", affinity={kind: affinity})).code == 422


MIRROR = "kubernetes.io/config.mirror"
COST = "controller.kubernetes.io/pod-deletion-cost"


def _annotated(name: str, annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    made = pod(name, **spec)
    made["metadata"]["annotations"] = annotations
    return made


@scenario
def only_pods_of_a_node_mirror_a_static_pod(api: Api, ns: str) -> None:
    assert api.post(pods(ns), _annotated("p", {MIRROR: "x"})).code == 422
    claims = [{"name": "c", "resourceClaimName": "c"}]
    bad = _annotated("p", {MIRROR: "x"}, nodeName="n", resourceClaims=[*claims, *claims])
    assert api.post(pods(ns), bad).code == 422
    assert api.post(pods(ns), _annotated("p", {MIRROR: "x"}, nodeName="n")).code == 201
    for value in ("y", None):
        change = {"metadata": {"annotations": {MIRROR: value}}}
        assert api.patch(pods(ns, "p"), change).code == 422
    other = {"metadata": {"annotations": {"other": "z"}}}
    assert api.patch(pods(ns, "p"), other).code == 200
    assert api.post(pods(ns), pod("q")).code == 201
    added = {"metadata": {"annotations": {MIRROR: "x"}}}
    assert api.patch(pods(ns, "q"), added).code == 422


@scenario
def deletion_costs_are_integers(api: Api, ns: str) -> None:
    good = ["0", "-0", "-008", "12", "2147483647", "-2147483648"]
    bad = ["", "-", "+1", "008", "1.5", "x", "2147483648", "-2147483649", "1" * 40, "\u0663"]
    for number, cost in enumerate([*good, *bad]):
        made = api.post(pods(ns), _annotated(f"p-{number}", {COST: cost}))
        assert made.code == (201 if cost in good else 422), (cost, made.message)
    change = {"metadata": {"annotations": {COST: "x"}}}
    assert api.patch(pods(ns, "p-0"), change).code == 422
    template = {
        "metadata": {"labels": {"app": "w"}, "annotations": {COST: "x", MIRROR: "y"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"selector": {"matchLabels": {"app": "w"}}, "template": template},
    }
    assert api.post(f"/apis/apps/v1/namespaces/{ns}/deployments", deployment).code == 422
