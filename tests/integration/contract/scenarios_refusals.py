"""Objects that no server may store: each has one or two fields that are wrong."""

from __future__ import annotations

import copy
from typing import Any

from tests.integration.contract.api import Api
from tests.integration.contract.scenario import path, scenario

Document = dict[str, Any]

POD = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE: Document = {"metadata": {"labels": {"app": "web"}}, "spec": POD}
SELECTOR: Document = {"matchLabels": {"app": "web"}}
CLAIM: Document = {
    "accessModes": ["ReadWriteOnce"],
    "resources": {"requests": {"storage": "1Gi"}},
}
VOLUME: Document = {
    "accessModes": ["ReadWriteOnce"],
    "capacity": {"storage": "1Gi"},
    "csi": {"driver": "d.example.com", "volumeHandle": "v"},
}
#: Group and version, resource, and what a valid object has besides its metadata.
KINDS: dict[str, tuple[str, str, Document]] = {
    "Service": ("api/v1", "services", {"spec": {"ports": [{"port": 80}]}}),
    "EndpointSlice": (
        "apis/discovery.k8s.io/v1",
        "endpointslices",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}]},
    ),
    "PersistentVolumeClaim": ("api/v1", "persistentvolumeclaims", {"spec": CLAIM}),
    "PersistentVolume": ("api/v1", "persistentvolumes", {"spec": VOLUME}),
    "StorageClass": ("apis/storage.k8s.io/v1", "storageclasses", {"provisioner": "example.com/p"}),
    "CSINode": (
        "apis/storage.k8s.io/v1",
        "csinodes",
        {"spec": {"drivers": [{"name": "d.example.com", "nodeID": "n"}]}},
    ),
    "CSIDriver": ("apis/storage.k8s.io/v1", "csidrivers", {"spec": {}}),
    "CSIStorageCapacity": (
        "apis/storage.k8s.io/v1",
        "csistoragecapacities",
        {"storageClassName": "fast"},
    ),
    "VolumeAttachment": (
        "apis/storage.k8s.io/v1",
        "volumeattachments",
        {
            "spec": {
                "attacher": "d.example.com",
                "nodeName": "n",
                "source": {"persistentVolumeName": "v"},
            }
        },
    ),
    "Secret": ("api/v1", "secrets", {"data": {}}),
    "ReplicationController": (
        "api/v1",
        "replicationcontrollers",
        {"spec": {"selector": {"app": "web"}, "template": TEMPLATE}},
    ),
    "StatefulSet": (
        "apis/apps/v1",
        "statefulsets",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE, "serviceName": "web"}},
    ),
    "DaemonSet": (
        "apis/apps/v1",
        "daemonsets",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    ),
    "Job": (
        "apis/batch/v1",
        "jobs",
        {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}},
    ),
    "CronJob": (
        "apis/batch/v1",
        "cronjobs",
        {
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {"spec": {"template": {"spec": {**POD, "restartPolicy": "Never"}}}},
            }
        },
    ),
    "RuntimeClass": ("apis/node.k8s.io/v1", "runtimeclasses", {"handler": "h"}),
    "ReplicaSet": (
        "apis/apps/v1",
        "replicasets",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
    ),
    "Pod": ("api/v1", "pods", {"spec": POD}),
    "Node": ("api/v1", "nodes", {}),
    "PriorityClass": ("apis/scheduling.k8s.io/v1", "priorityclasses", {"value": 1}),
    "PodDisruptionBudget": (
        "apis/policy/v1",
        "poddisruptionbudgets",
        {"spec": {"selector": {}, "minAvailable": 1}},
    ),
    "HorizontalPodAutoscaler": (
        "apis/autoscaling/v2",
        "horizontalpodautoscalers",
        {
            "spec": {
                "maxReplicas": 2,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
            }
        },
    ),
}
CLUSTER_WIDE = frozenset(
    {
        *("PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "VolumeAttachment"),
        *("RuntimeClass", "Node", "PriorityClass"),
    }
)
_TARGETS: tuple[dict[str, Any], ...] = (
    {},
    {"type": "Value", "value": "-1"},
    {"type": "Half", "value": "1", "averageValue": "0"},
    {"type": "Utilization", "averageUtilization": 0, "averageValue": "1"},
)
#: Metrics of an autoscaler, each of which is wrong.
_METRICS: list[dict[str, Any]] = [
    {"type": "Count"},
    {"type": "Pods", "object": {}},
    {"type": "Resource", "resource": {}, "pods": {}},
    *(
        {"type": kind, source: {name: {"name": "a/b"}, "describedObject": {}, "target": target}}
        for kind, source, name in (
            ("Object", "object", "metric"),
            ("External", "external", "metric"),
            ("Pods", "pods", "metric"),
        )
        for target in _TARGETS
    ),
    *(
        {
            "type": "ContainerResource",
            "containerResource": {"name": name, "container": name, "target": target},
        }
        for name in ("", "A_b")
        for target in _TARGETS
    ),
]
#: Kind -> changes of a valid object, each of which makes it invalid: path and value.
WRONG: dict[str, list[tuple[str, Any]]] = {
    "Service": [
        ("spec.ports", []),
        ("spec.ports.0.name", "Web"),
        ("spec.ports.0.port", 0),
        ("spec.ports.0.targetPort", "toolongforaportname"),
        ("spec.ports.0.protocol", "ICMP"),
        ("spec.ports.0.nodePort", 30000),
        ("spec.ports", [{"name": "a", "port": 1}, {"name": "a", "port": 1}]),
        ("spec.selector", {"-": "x"}),
        ("spec.sessionAffinity", "Cookie"),
        ("spec.externalIPs", ["here"]),
        ("spec.clusterIP", "here"),
        ("spec.ipFamilies", ["IPv5"]),
        ("spec.ipFamilyPolicy", "Any"),
        ("spec.type", "Internal"),
        ("spec.type", "ExternalName"),
        ("spec.externalTrafficPolicy", "Local"),
        ("spec.internalTrafficPolicy", "Near"),
        ("spec.allocateLoadBalancerNodePorts", True),
        ("spec.trafficDistribution", "Far"),
        ("spec.loadBalancerSourceRanges", ["10.0.0.0/8", " 10.0.0.0/8 ", "here", "10.0.0.1/8"]),
    ],
    "EndpointSlice": [
        ("addressType", ""),
        ("addressType", "MAC"),
        ("endpoints.0.addresses", []),
        ("endpoints.0.addresses", ["2001:db8::1"]),
        ("endpoints.0.addresses", ["host"]),
        ("endpoints.0.addresses", ["0.0.0.0"]),
        ("endpoints.0.addresses", ["127.0.0.1", "169.254.0.1", "224.0.0.1"]),
        ("endpoints.0.hostname", "A"),
        ("endpoints.0.nodeName", "_"),
        ("ports", [{"name": "a", "port": 1}, {"name": "a", "port": 2}]),
        ("ports", [{"name": "a", "protocol": "ICMP"}]),
    ],
    "PersistentVolumeClaim": [
        ("spec.accessModes", []),
        ("spec.accessModes", ["ReadWriteOnce", "ReadWriteOncePod"]),
        ("spec.resources.requests.storage", "0"),
        ("spec.volumeMode", "Object"),
        ("spec.storageClassName", "a_b"),
    ],
    "PersistentVolume": [
        ("spec.capacity", None),
        ("spec.capacity.storage", "-1"),
        ("spec.csi", None),
        ("spec.csi.volumeHandle", ""),
        ("spec.local", {"path": "/x"}),
        ("spec.persistentVolumeReclaimPolicy", "Burn"),
        ("spec.storageClassName", "a_b"),
        ("spec.volumeMode", "Object"),
        ("spec.nodeAffinity", {}),
        ("spec.volumeAttributesClassName", ""),
        ("spec.capacity", {"memory": "1", "cpu": "1"}),
        ("spec.csi.controllerPublishSecretRef", {}),
        ("spec.csi.controllerExpandSecretRef", {"name": "A", "namespace": "a.b"}),
        ("spec.csi.nodePublishSecretRef", {"name": "a"}),
        ("spec.csi.nodeExpandSecretRef", {"namespace": "_"}),
    ],
    "StorageClass": [
        ("provisioner", ""),
        ("reclaimPolicy", "Recycle"),
        ("volumeBindingMode", "Later"),
        ("parameters", {"": "x"}),
        ("allowedTopologies", [{}]),
        ("allowedTopologies", [{"matchLabelExpressions": [{"key": "zone", "values": []}]}]),
        ("allowedTopologies", [{"matchLabelExpressions": [{"key": "z", "values": ["a", "a"]}]}]),
    ],
    "CSINode": [
        ("spec.drivers.0.name", "_"),
        ("spec.drivers.0.nodeID", ""),
        ("spec.drivers.0.allocatable", {"count": -1}),
        ("spec.drivers.0.topologyKeys", ["zone", "zone"]),
    ],
    "CSIDriver": [
        ("spec.fsGroupPolicy", "Maybe"),
        ("spec.volumeLifecycleModes", ["Eternal"]),
        ("spec.tokenRequests", [{"audience": "a"}, {"audience": "a"}]),
        ("spec.tokenRequests", [{"audience": "a", "expirationSeconds": 5}]),
        ("spec.nodeAllocatableUpdatePeriodSeconds", 1),
    ],
    "CSIStorageCapacity": [
        ("storageClassName", "a_b"),
        ("nodeTopology", {"matchLabels": {"-": ""}}),
        ("capacity", "-1"),
    ],
    "VolumeAttachment": [
        ("spec.attacher", ""),
        ("spec.attacher", "a" * 64),
        ("spec.source", {}),
        ("spec.source.persistentVolumeName", "A_b"),
        ("spec.nodeName", ""),
    ],
    "Secret": [
        ("data", {"a/b": ""}),
        ("type", "kubernetes.io/tls"),
        ("type", "kubernetes.io/ssh-auth"),
        ("type", "kubernetes.io/basic-auth"),
        ("type", "kubernetes.io/dockercfg"),
        ("type", "kubernetes.io/dockerconfigjson"),
        ("type", "kubernetes.io/service-account-token"),
    ],
    "ReplicationController": [
        ("spec.replicas", -1),
        ("spec.minReadySeconds", -1),
        ("spec.selector", {"app": "db"}),
        ("spec.template", None),
        ("spec.template.spec.restartPolicy", "Never"),
        ("spec.template.spec.activeDeadlineSeconds", 5),
        ("spec.template.spec.containers", []),
        ("spec.template.spec", {"initContainers": [{}, {}]}),
    ],
    "ReplicaSet": [
        ("spec.template.spec.preemptionPolicy", ""),
        ("spec.selector.matchExpressions", [{"values": ["x"], "operator": "Is", "key": ""}]),
    ],
    "Pod": [
        ("spec.containers", [{}, {}]),
        ("spec.initContainers", [{"image": "i"}, {"image": "i"}]),
        ("spec.topologySpreadConstraints", [{"matchLabelKeys": ["-x"]}]),
        ("spec.containers.0.resources", {"limits": {"x y": "1"}}),
        ("spec.containers.0.lifecycle", {"preStop": {"exec": {}, "sleep": {"seconds": 1}}}),
    ],
    "Node": [("status.capacity", {"": "-1"})],
    "PriorityClass": [("preemptionPolicy", ""), ("preemptionPolicy", "Sometimes")],
    "PodDisruptionBudget": [
        ("spec.minAvailable", -1),
        ("metadata", {"annotations": {"": "x"}}),
        ("spec", {"minAvailable": -1, "maxUnavailable": -1}),
    ],
    "StatefulSet": [
        ("spec.persistentVolumeClaimRetentionPolicy", {"whenScaled": "Keep"}),
        ("spec.volumeClaimTemplates", [{"metadata": {"name": "d"}, "spec": {}}]),
        ("spec.updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": -1}}),
        ("spec.updateStrategy", {"type": "Never"}),
        ("spec.ordinals", {"start": -1}),
        ("spec.serviceName", "A"),
    ],
    "DaemonSet": [
        ("spec.updateStrategy", {"rollingUpdate": {"maxUnavailable": 0}}),
        ("spec.updateStrategy", {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 1}}),
        ("spec.updateStrategy", {"rollingUpdate": {"maxUnavailable": "200%"}}),
    ],
    "Job": [
        ("spec.maxFailedIndexes", 1),
        ("spec.completionMode", "Sorted"),
        ("spec.podFailurePolicy", {"rules": [{"action": "Ignore"}]}),
        (
            "spec.podFailurePolicy",
            {"rules": [{"action": "Pray", "onPodConditions": [{"type": "", "status": "Yes"}]}]},
        ),
        (
            "spec.podFailurePolicy",
            {"rules": [{"action": "Count", "onExitCodes": {"operator": "In", "values": [2, 0]}}]},
        ),
    ],
    "CronJob": [
        ("spec.timeZone", "Moon/Crater"),
        ("spec.jobTemplate.spec.template.metadata", {"labels": {"a": "*"}}),
        ("spec.jobTemplate.spec.parallelism", -1),
        ("spec.jobTemplate.spec.template.spec.restartPolicy", "Sometimes"),
    ],
    "RuntimeClass": [
        ("handler", "a.b"),
        ("overhead", {"podFixed": {"x y": "1"}}),
        ("scheduling", {"tolerations": [{"value": "x"}]}),
        (
            "scheduling",
            {"tolerations": [{"key": "k", "operator": "Exists"}] * 2},
        ),
    ],
    "HorizontalPodAutoscaler": [
        ("spec.scaleTargetRef.apiVersion", "apps"),
        ("spec.scaleTargetRef.apiVersion", ""),
        ("spec.scaleTargetRef.apiVersion", "v1"),
        ("spec.behavior", {"scaleDown": {"policies": [{"type": "Cores", "value": 1}]}}),
        *(("spec.metrics", [metric]) for metric in _METRICS),
    ],
}
#: Values of a wrong type, whose error names the type in Go.
TYPES: tuple[tuple[str, str, Any], ...] = (
    ("Service", "spec.sessionAffinity", 1),
    ("Service", "spec.ports.0.targetPort", True),
    ("PersistentVolume", "spec.capacity", "1Gi"),
    ("PersistentVolume", "spec.accessModes", [1]),
    ("RuntimeClass", "scheduling", {"tolerations": [{"operator": []}]}),
    ("HorizontalPodAutoscaler", "spec.behavior", {"scaleDown": 1}),
    ("StatefulSet", "spec.volumeClaimTemplates", [{"spec": {"resources": {"requests": []}}}]),
)


def url_of(kind: str, namespace: str, name: str = "") -> str:
    group_version, resource, _ = KINDS[kind]
    return path(group_version, "" if kind in CLUSTER_WIDE else namespace, resource, name)


def document(kind: str, namespace: str, name: str) -> Document:
    group_version, _, content = KINDS[kind]
    api_version = group_version.removeprefix("apis/").removeprefix("api/")
    # Objects without a namespace have one in their name, so that scenarios do not meet.
    own = f"{name}-{namespace}" if kind in CLUSTER_WIDE else name
    made = {"apiVersion": api_version, "kind": kind, "metadata": {"name": own}}
    return {**made, **copy.deepcopy(content)}


def changed(obj: Document, field: str, value: Any) -> Document:
    *parents, last = field.split(".")
    target: Any = obj
    for name in parents:
        target = target[int(name)] if isinstance(target, list) else target.setdefault(name, {})
    target[last] = value
    return obj


@scenario
def wrong_fields_are_refused(api: Api, ns: str) -> None:
    for kind, changes in WRONG.items():
        for field, value in changes:
            body = changed(document(kind, ns, "wrong"), field, value)
            answer = api.post(url_of(kind, ns), body)
            assert answer.code == 422, (kind, field, value, answer.message)


@scenario
def wrong_types_are_named(api: Api, ns: str) -> None:
    for kind, field, value in TYPES:
        answer = api.post(url_of(kind, ns), changed(document(kind, ns, "wrong"), field, value))
        assert answer.code == 400, (kind, field, value, answer.message)


@scenario
def a_null_where_a_list_belongs_is_no_failure_of_the_server(api: Api, ns: str) -> None:
    for number, spec in enumerate(({"devices": None}, {"devices": {"requests": None}}, {})):
        body = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"c{number}"},
            "spec": spec,
        }
        url = path("apis/resource.k8s.io/v1", ns, "resourceclaims")
        assert api.post(url, body).code == 201


@scenario
def what_is_immutable_stays(api: Api, ns: str) -> None:
    updates = (
        ("PersistentVolume", "spec.volumeMode", "Block"),
        ("Secret", "type", "example.com/other"),
        ("StorageClass", "provisioner", "example.com/other"),
        ("EndpointSlice", "addressType", "FQDN"),
        ("CSIStorageCapacity", "storageClassName", "slow"),
        ("CSINode", "spec.drivers.0.nodeID", "other"),
    )
    for kind, field, value in updates:
        obj = api.post(url_of(kind, ns), document(kind, ns, "kept")).body
        url = url_of(kind, ns, obj["metadata"]["name"])
        answer = api.put(url, changed(copy.deepcopy(obj), field, value))
        assert answer.code == 422, (kind, field, answer.message)
        assert api.get(url).body.get("spec") == obj.get("spec")


@scenario
def a_field_of_a_removed_feature_is_dropped(api: Api, ns: str) -> None:
    source = {"configMap": {"name": "c", "namespace": "d"}}
    stored = api.post(
        url_of("Node", ns), changed(document("Node", ns, "off"), "spec.configSource", source)
    )
    assert stored.code == 201, stored.message
    assert "configSource" not in stored.body["spec"]
    url = url_of("Node", ns, stored.body["metadata"]["name"])
    answer = api.put(url, changed(copy.deepcopy(stored.body), "spec.configSource", source))
    assert answer.code == 200, answer.message
    assert "configSource" not in answer.body["spec"]


@scenario
def the_controller_of_an_event_has_a_name_in_each_group(api: Api, ns: str) -> None:
    shared: Document = {"eventTime": "2026-01-02T03:04:05.000000Z", "action": "a", "reason": "r"}
    shared |= {"metadata": {"name": "e"}, "reportingInstance": "i", "type": "Normal"}
    for group, subject, controller in (
        ("api/v1", "involvedObject", "reportingComponent"),
        ("apis/events.k8s.io/v1", "regarding", "reportingController"),
    ):
        for name in ("", "a b"):
            event: Document = {**shared, subject: {"namespace": ns}, controller: name}
            answer = api.post(path(group, ns, "events"), event)
            assert answer.code == 422
            assert controller in answer.message


@scenario
def a_template_of_claims_that_changes_is_validated_as_a_new_one(api: Api, ns: str) -> None:
    group = "apis/resource.k8s.io/v1"
    template: Document = {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {}}}}
    assert api.post(path(group, ns, "resourceclaimtemplates"), template).code == 201
    request = {"name": "A", "exactly": {"deviceClassName": "a", "count": -1}}
    wrong = changed(copy.deepcopy(template), "spec.spec.devices.requests", [request])
    answer = api.put(path(group, ns, "resourceclaimtemplates", "t"), wrong)
    assert answer.code == 422
    assert {cause["field"] for cause in answer.body["details"]["causes"]} >= {
        "spec",
        "spec.spec.devices.requests[0].name",
    }


#: Kind -> changes of stored objects, each refused alone.
CHANGED: dict[str, list[tuple[str, Any]]] = {
    "PersistentVolume": [
        ("spec.accessModes", ["Never"]),
        ("spec.capacity", {"storage": "-1"}),
        ("metadata.finalizers", ["kubernetes.io/x", "plain"]),
        ("metadata.deletionGracePeriodSeconds", 30),
        ("metadata.labels", {"a": "a b"}),
        ("metadata.annotations", {"volume.beta.kubernetes.io/mount-options": "ro"}),
    ],
    "CSINode": [
        ("metadata.deletionGracePeriodSeconds", 30),
        ("metadata.finalizers", ["plain"]),
        ("metadata.labels", {"a": "a b"}),
    ],
    "VolumeAttachment": [
        ("metadata.deletionGracePeriodSeconds", 30),
        ("metadata.finalizers", ["plain"]),
        ("spec.attacher", "../a"),
        ("spec.source", {"persistentVolumeName": "other"}),
        ("spec.source", {}),
    ],
    "StorageClass": [
        ("metadata.finalizers", ["plain"]),
        ("metadata.labels", {"a": "a b"}),
        ("parameters", {"b": "1", "a": "2"}),
        ("provisioner", "example.com/q"),
    ],
    "Node": [
        ("spec.podCIDRs", ["10.0.0.0/8", "host"]),
        ("spec.podCIDRs", ["10.0.0.1/8"]),
        ("spec.taints", [{"key": "a b", "effect": "NoSchedule"}]),
        ("metadata.finalizers", ["plain"]),
        ("metadata.deletionGracePeriodSeconds", 30),
    ],
}


@scenario
def changed_objects_are_validated_as_often_as_upstream(api: Api, ns: str) -> None:
    for kind, changes in CHANGED.items():
        stored = api.post(url_of(kind, ns), document(kind, ns, "often")).body
        url = url_of(kind, ns, stored["metadata"]["name"])
        for field, value in changes:
            answer = api.put(url, changed(copy.deepcopy(stored), field, value))
            assert answer.code == 422, (kind, field, value, answer.message)
    annotations = {"volume.beta.kubernetes.io/mount-options": "ro"}
    volume = changed(document("PersistentVolume", ns, "ro"), "metadata.annotations", annotations)
    assert api.post(url_of("PersistentVolume", ns), volume).code == 422


@scenario
def the_ranges_of_a_node_stay(api: Api, ns: str) -> None:
    node = document("Node", ns, "ranges")
    node["spec"] = {"podCIDR": "10.0.0.0/8", "podCIDRs": ["10.0.0.0/8", "1::/64"]}
    stored = api.post(url_of("Node", ns), node).body
    url = url_of("Node", ns, stored["metadata"]["name"])
    for ranges in (["10.0.0.0/8"], ["11.0.0.0/8", "1::/64"], ["11.0.0.0/8", "2::/64"]):
        spec = {"podCIDR": ranges[0], "podCIDRs": ranges}
        assert api.put(url, {**stored, "spec": spec}).code == 422
    status = {"status": {"capacity": {"cpu": "-1"}}, "metadata": {"finalizers": ["plain"]}}
    assert api.patch(f"{url}/status", status).code == 422


@scenario
def fields_of_an_event_stay(api: Api, ns: str) -> None:
    group = "apis/events.k8s.io/v1"
    event: Document = {"eventTime": "2026-01-02T03:04:05.000000Z", "action": "a", "reason": "r"}
    event |= {"metadata": {"name": "stays"}, "reportingInstance": "i", "type": "Normal"}
    event |= {"reportingController": "a/b", "regarding": {"namespace": ns, "name": "p"}}
    assert api.post(path(group, ns, "events"), event).code == 201
    related = {"kind": "Pod", "namespace": ns, "name": "q", "fieldPath": "x"}
    for fields in (
        {"reason": "other"},
        {"regarding": {"namespace": ns, "name": "q", "uid": "u"}},
        {"related": related, "note": "n"},
        {"deprecatedSource": {"component": "c"}, "deprecatedCount": 3},
        {"action": None},
    ):
        answer = api.patch(path(group, ns, "events", "stays"), fields)
        assert answer.code == 422, answer.message


@scenario
def a_selector_in_a_message_has_its_fields_in_order(api: Api, ns: str) -> None:
    expression = {"values": ["a"], "operator": "In", "key": "app"}
    labels = {"tier": "x", "app": "a"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    replica_sets = f"/apis/apps/v1/namespaces/{ns}/replicasets"
    made = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "r"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    assert api.post(replica_sets, made).code == 201
    selector = {"matchExpressions": [expression], "matchLabels": labels}
    assert api.patch(f"{replica_sets}/r", {"spec": {"selector": selector}}).code == 422

    capacities = f"/apis/storage.k8s.io/v1/namespaces/{ns}/csistoragecapacities"
    capacity = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "c"},
        "storageClassName": "fast",
    }
    assert api.post(capacities, capacity).code == 201
    assert api.patch(f"{capacities}/c", {"nodeTopology": selector}).code == 422
