"""Validation errors of pods and workloads, field by field."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import Api
from tests.integration.contract.objects import deployment, pod
from tests.integration.contract.scenario import path, pods, scenario


def faults_of(answer: Any) -> list[str]:
    """Returns the fields that are wrong, in order; none for what is taken."""
    if answer.code == 201:
        return []
    assert answer.code == 422, answer.body
    return [cause["field"] for cause in answer.body["details"]["causes"]]


class Tries:
    """Tries pods of one container without storing them."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api, self._namespace, self._count = api, namespace, 0

    def container(self, **fields: Any) -> list[str]:
        return self.pod(fields)

    def pod(self, container: dict[str, Any] | None = None, **spec: Any) -> list[str]:
        self._count += 1
        found = pod(f"p{self._count}", **spec)
        found["spec"]["containers"][0].update(container or {})
        answer = self._api.post(pods(self._namespace), found, dryRun="All")
        if answer.code == 201:
            self._api.notes.pop()  # an UID of what is not stored may come again
        return faults_of(answer)

    def volume(self, **source: Any) -> list[str]:
        """Returns the faults of a volume; that nothing can mount it is not counted."""
        found = self.pod(volumes=[{"name": "v", **source}])
        return [field.removeprefix("spec.volumes[0].") for field in found]


@scenario
def environment_variables(api: Api, ns: str) -> None:
    tries = Tries(api, ns)
    names = [{"name": name} for name in ("", "a=b", "é", "1 a", "A", "A")]
    lead = "spec.containers[0].env"
    assert tries.container(env=names) == [f"{lead}[{number}].name" for number in (0, 1, 2)]

    def source(value: str = "", **found: Any) -> list[str]:
        fields = tries.container(env=[{"name": "A", "value": value, "valueFrom": found}])
        return [field.removeprefix(f"{lead}[0].valueFrom").lstrip(".") for field in fields]

    name = {"fieldPath": "metadata.name"}
    assert source() == [""]
    assert source("x", fieldRef=name) == [""]
    assert source(fieldRef=name, configMapKeyRef={"name": "a", "key": "k"}) == [""]
    assert source(configMapKeyRef={"name": "", "key": ""}) == [
        "configMapKeyRef.name",
        "configMapKeyRef.key",
    ]
    assert source(secretKeyRef={"name": "A_", "key": "a b"}) == [
        "secretKeyRef.name",
        "secretKeyRef.key",
    ]


@scenario
def fields_and_resources_as_variables(api: Api, ns: str) -> None:
    tries = Tries(api, ns)

    def is_taken(**source: Any) -> bool:
        return not tries.container(env=[{"name": "A", "valueFrom": source}])

    for field in ("", "nope", "metadata.labels", "status.phase", "spec['x']"):
        assert not is_taken(fieldRef={"fieldPath": field})
    for field in ("metadata.labels['a b']", "metadata.name['x']"):
        assert not is_taken(fieldRef={"fieldPath": field})
    for field in ("spec.host", "status.podIP", "metadata.labels['a']"):
        assert is_taken(fieldRef={"fieldPath": field})
    assert not is_taken(fieldRef={"fieldPath": "metadata.name", "apiVersion": "v2"})
    for name, divisor, taken in (
        ("", "0", False),
        ("cpu", "0", False),
        ("limits.cpu", "2", False),
        ("limits.cpu", "1m", True),
        ("requests.memory", "3", False),
        ("requests.memory", "1Mi", True),
        ("limits.hugepages-2Mi", "1Ki", True),
        ("limits.ephemeral-storage", "2", False),
    ):
        assert is_taken(resourceFieldRef={"resource": name, "divisor": divisor}) is taken


@scenario
def environments_from_elsewhere(api: Api, ns: str) -> None:
    tries = Tries(api, ns)
    lead = "spec.containers[0].envFrom"
    assert tries.container(envFrom=[{}]) == [lead]
    both = {"prefix": "a=", "configMapRef": {"name": ""}, "secretRef": {"name": "X"}}
    assert tries.container(envFrom=[both]) == [
        f"{lead}[0].prefix",
        f"{lead}[0].configMapRef.name",
        f"{lead}[0].secretRef.name",
        lead,
    ]
    assert tries.container(envFrom=[{"secretRef": {"name": "a-"}}]) == []


@scenario
def probes(api: Api, ns: str) -> None:
    tries = Tries(api, ns)

    def probe(kind: str = "livenessProbe", **fields: Any) -> list[str]:
        found = tries.container(**{kind: fields})
        lead = f"spec.containers[0].{kind}"
        return [field.removeprefix(lead).lstrip(".") for field in found]

    port = {"port": 1}
    assert probe() == [""]
    assert probe(exec={}) == ["exec.command"]
    assert probe(exec={"command": ["a"]}, httpGet=port) == ["httpGet"]
    assert probe(httpGet={"port": 0}) == ["httpGet.port"]
    odd = {"port": "a b", "scheme": "ftp", "httpHeaders": [{"name": "x y", "value": "z"}]}
    assert probe(httpGet=odd) == ["httpGet.port", "httpGet.scheme", "httpGet.httpHeaders"]
    assert probe(tcpSocket={"port": "http"}) == []
    assert probe(grpc={"port": 0}) == ["grpc.port"]
    assert probe(tcpSocket=port, periodSeconds=-1, failureThreshold=-1, successThreshold=2) == [
        "periodSeconds",
        "failureThreshold",
        "successThreshold",
    ]
    grace = "terminationGracePeriodSeconds"
    assert probe(tcpSocket=port, terminationGracePeriodSeconds=0) == [grace]
    late = probe("readinessProbe", tcpSocket=port, terminationGracePeriodSeconds=5)
    assert late == [grace]
    assert probe("startupProbe", tcpSocket=port, successThreshold=3) == ["successThreshold"]


@scenario
def hooks_and_init_containers(api: Api, ns: str) -> None:
    tries = Tries(api, ns)
    lead = "spec.containers[0].lifecycle"
    late = {"postStart": {}, "preStop": {"sleep": {"seconds": 100}}}
    assert tries.container(lifecycle=late) == [f"{lead}.postStart", f"{lead}.preStop.sleep"]
    two = {"preStop": {"exec": {"command": ["x"]}, "sleep": {"seconds": 1}}}
    assert tries.container(lifecycle=two) == [f"{lead}.preStop.sleep"]
    init = {"name": "i", "image": "x"}
    assert tries.pod(initContainers=[{**init, "livenessProbe": {}}]) == [
        "spec.initContainers[0].livenessProbe"
    ]
    sidecar = {**init, "restartPolicy": "Always", "livenessProbe": {"exec": {}}}
    assert tries.pod(initContainers=[sidecar]) == [
        "spec.initContainers[0].livenessProbe.exec.command"
    ]


@scenario
def volumes_from_files_and_claims(api: Api, ns: str) -> None:
    tries = Tries(api, ns)
    assert tries.volume() == []
    assert tries.volume(emptyDir={"sizeLimit": "-1"}) == ["emptyDir.sizeLimit"]
    assert tries.volume(hostPath={"path": ""}) == ["hostPath.path"]
    odd = {"path": "/a/../b", "type": "Foo"}
    assert tries.volume(hostPath=odd) == ["hostPath.path", "hostPath.type"]
    assert tries.volume(persistentVolumeClaim={"claimName": ""}) == [
        "persistentVolumeClaim.claimName"
    ]
    assert tries.volume(nfs={"server": "", "path": "x"}) == ["nfs.server", "nfs.path"]
    assert tries.volume(csi={"driver": ""}) == ["csi.driver"]
    assert tries.volume(csi={"driver": "A_b"}) == ["csi.driver"]
    assert tries.volume(ephemeral={}) == ["ephemeral.volumeClaimTemplate"]
    assert tries.volume(emptyDir={}, configMap={"name": "x"}) == ["configMap"]


@scenario
def volumes_from_objects(api: Api, ns: str) -> None:
    tries = Tries(api, ns)
    items = [
        {"key": "", "path": ""},
        {"key": "a", "path": "../x", "mode": -1},
        {"key": "a", "path": "/x"},
        {"key": "a", "path": "..x"},
    ]
    assert tries.volume(secret={"defaultMode": 512, "items": items}) == [
        "secret.secretName",
        "secret.defaultMode",
        "secret.items[0].key",
        "secret.items[0].path",
        "secret.items[1].path",
        "secret.items[1].mode",
        "secret.items[2].path",
        "secret.items[3].path",
    ]
    assert tries.volume(configMap={"defaultMode": -1}) == [
        "configMap.name",
        "configMap.defaultMode",
    ]
    files = [
        {"path": ""},
        {"path": "/a", "fieldRef": {"fieldPath": "spec.nodeName"}},
        {"path": "c", "resourceFieldRef": {"resource": "limits.cpu"}},
    ]
    assert tries.volume(downwardAPI={"items": files}) == [
        "downwardAPI.path",
        "downwardAPI",
        "downwardAPI.path",
        "downwardAPI.fieldRef.fieldPath",
        "downwardAPI.resourceFieldRef.containerName",
    ]


@scenario
def projected_volumes(api: Api, ns: str) -> None:
    tries = Tries(api, ns)
    key = {"key": "k", "path": "p"}
    sources = [
        {"secret": {"name": "a", "items": [key]}},
        {"configMap": {"name": "", "items": [key]}},
        {"secret": {"name": "b"}, "configMap": {"name": "c"}},
    ]
    assert tries.volume(projected={"sources": sources}) == [
        "projected.sources[1].configMap.name",
        "projected",
        "projected.sources[2]",
    ]


@scenario
def mounts_and_devices(api: Api, ns: str) -> None:
    tries = Tries(api, ns)
    volumes = [{"name": "v"}, {"name": "c", "persistentVolumeClaim": {"claimName": "c"}}]
    mounts = [
        {"name": "", "mountPath": ""},
        {"name": "v", "mountPath": "/a", "subPath": "/x"},
        {"name": "v", "mountPath": "/a", "subPath": "a/../b", "subPathExpr": "$(X)"},
        {"name": "zz", "mountPath": "/b", "mountPropagation": "Foo"},
        {"name": "v", "mountPath": "/c", "mountPropagation": "Bidirectional"},
    ]
    found = tries.pod({"volumeMounts": mounts}, volumes=volumes)
    lead = "spec.containers[0].volumeMounts"
    assert [field.removeprefix(lead) for field in found] == [
        "[0].name",
        "[0].name",
        "[0].mountPath",
        ".subPath",
        "[2].mountPath",
        ".subPath",
        "[2].subPathExpr",
        "[3].name",
        ".mountPropagation",
        ".mountPropagation",
    ]
    devices = [
        {"name": "v", "devicePath": "/d"},
        {"name": "c", "devicePath": ""},
        {"name": "c", "devicePath": "/a/../b"},
    ]
    both = {"volumeMounts": [{"name": "v", "mountPath": "/d"}], "volumeDevices": devices}
    assert len(tries.pod(both, volumes=volumes)) == 8


@scenario
def small_things_of_pods(api: Api, ns: str) -> None:
    tries = Tries(api, ns)
    assert tries.pod(readinessGates=[{"conditionType": "a b"}]) == [
        "spec.readinessGates[0].conditionType"
    ]
    assert tries.pod(os={"name": "plan9"}) == ["spec.os"]
    odd = [{"resourceName": "x", "restartPolicy": "y"}]
    assert tries.container(resizePolicy=odd) == ["spec.containers[0].resizePolicy"] * 2
    assert tries.container(restartPolicy="x") == ["spec.containers[0].restartPolicy"]


KINDS = {
    "Deployment": "deployments",
    "ReplicaSet": "replicasets",
    "DaemonSet": "daemonsets",
    "StatefulSet": "statefulsets",
}


def workload(api: Api, ns: str, kind: str, name: str, **spec: Any) -> Any:
    found = {**deployment(name, **spec), "kind": kind}
    return api.post(path("apis/apps/v1", ns, KINDS[kind]), found)


@scenario
def templates_are_checked_in_every_workload(api: Api, ns: str) -> None:
    for kind in KINDS:
        template = deployment("t")["spec"]["template"]
        template["spec"].update(restartPolicy="Never", activeDeadlineSeconds=5)
        never = workload(api, ns, kind, "t", template=template)
        assert faults_of(never) == [
            "spec.template.spec.restartPolicy",
            "spec.template.spec.activeDeadlineSeconds",
        ]
        template = deployment("l")["spec"]["template"]
        template["metadata"]["labels"] = {"app": "l", "x y": "z"}
        labels = faults_of(workload(api, ns, kind, "l", template=template))
        assert set(labels) == {"spec.template.labels"}
        assert faults_of(workload(api, ns, kind, "m", minReadySeconds=-1)) != []


@scenario
def what_a_workload_selects_stays_the_same(api: Api, ns: str) -> None:
    labels = {"a": "b"}
    template = {"metadata": {"labels": labels}}
    change = {"spec": {"selector": {"matchLabels": labels}, "template": template}}
    for kind, resource in KINDS.items():
        workload(api, ns, kind, "w")
        refused = api.patch(path("apis/apps/v1", ns, resource, "w"), change)
        assert refused.code == 422
        field = "spec" if kind == "StatefulSet" else "spec.selector"
        assert field in faults_of(refused)


@scenario
def strategies_of_deployments(api: Api, ns: str) -> None:
    rolling = "spec.strategy.rollingUpdate"
    for strategy, fields in (
        ({"type": "Foo"}, ["spec.strategy"]),
        ({"type": "Recreate", "rollingUpdate": {"maxSurge": 1}}, [rolling]),
        ({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}, [f"{rolling}.maxUnavailable"]),
        ({"rollingUpdate": {"maxSurge": "300%"}}, []),
        (
            {"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "200%"}},
            [f"{rolling}.maxSurge", f"{rolling}.maxUnavailable"],
        ),
    ):
        assert faults_of(workload(api, ns, "Deployment", "d", strategy=strategy)) == fields
    late = workload(api, ns, "Deployment", "e", progressDeadlineSeconds=5, minReadySeconds=5)
    assert faults_of(late) == ["spec.progressDeadlineSeconds"]


@scenario
def a_stateful_set_mounts_its_claims(api: Api, ns: str) -> None:
    storage = {"requests": {"storage": "1Gi"}}
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": storage},
    }
    template = deployment("db")["spec"]["template"]
    template["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    spec = {"serviceName": "db", "volumeClaimTemplates": [claim], "template": template}
    made = workload(api, ns, "StatefulSet", "db", **spec)
    url = path("apis/apps/v1", ns, "statefulsets", "db")
    renamed = api.patch(url, {"spec": {"serviceName": "other"}})

    assert made.code == 201
    assert made.body["spec"]["volumeClaimTemplates"][0]["kind"] == "PersistentVolumeClaim"
    assert "updates to statefulset spec for fields other than 'replicas'" in renamed.message
    assert api.patch(url, {"spec": {"replicas": 3}}).code == 200


@scenario
def a_daemon_set_counts_its_templates(api: Api, ns: str) -> None:
    mark = "deprecated.daemonset.template.generation"
    url = path("apis/apps/v1", ns, "daemonsets", "d")
    made = workload(api, ns, "DaemonSet", "d")
    annotated = {"template": {"metadata": {"annotations": {"a": "b"}}}}
    changed = api.patch(url, {"spec": annotated})
    plain = {**deployment("d"), "kind": "DaemonSet"}
    put = api.put(url, plain)

    assert made.body["metadata"]["annotations"][mark] == "1"
    assert changed.body["metadata"]["annotations"][mark] == "2"
    assert put.body["metadata"]["annotations"][mark] == "3"


@scenario
def an_account_has_two_names(api: Api, ns: str) -> None:
    for name, field in (("a", "serviceAccountName"), ("b", "serviceAccount")):
        spec = api.post(pods(ns), pod(name, **{field: "robot"})).body["spec"]
        assert spec["serviceAccountName"] == spec["serviceAccount"] == "robot"
