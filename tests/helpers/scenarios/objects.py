"""Scenarios about single kinds of objects."""

from __future__ import annotations

from tests.helpers.scenarios.base import (
    BINDING,
    CLAIMS,
    CLASSES,
    INTERNAL_DIFF,
    MERGE,
    NODES,
    OTHER_RULES,
    PODS,
    PROTECTION,
    REQUIRED,
    SELECTOR,
    STRATEGIC,
    TEMPLATE,
    WORKLOAD,
    Step,
    named,
    pod,
    post_pod,
    resources,
    spread,
    with_metadata,
)

OBJECTS: dict[str, list[Step]] = {
    "binding": [
        Step("POST", NODES, named("NS-node", labels={"topology.kubernetes.io/zone": "z1"})),
        post_pod(pod("gated", schedulingGates=[{"name": "a.b/c"}])),
        post_pod(pod("w", schedulerName="mine")),
        Step("POST", f"{PODS}/gated/binding", with_metadata(BINDING, name="gated")),
        Step("POST", f"{PODS}/zz/binding", BINDING),
        Step("POST", f"{PODS}/zz/binding", with_metadata(BINDING, name="zz")),
        Step("POST", f"{PODS}/w/binding", {**BINDING, "target": {"kind": "Foo"}}),
        Step("POST", f"{PODS}/w/binding", {**BINDING, "target": {"kind": "Node"}}),
        Step("POST", f"{PODS}/w/binding", with_metadata(BINDING, uid="wrong")),
        Step("POST", f"{PODS}/w/binding", with_metadata(BINDING, resourceVersion="3")),
        Step("POST", f"{PODS}/w/binding", with_metadata(BINDING, namespace="xx")),
        Step("PATCH", f"{PODS}/w/status", {"status": {"nominatedNodeName": "n9"}}, MERGE),
        Step("POST", f"{PODS}/w/binding", with_metadata(BINDING, annotations={"k": "v"})),
        Step("GET", f"{PODS}/w"),
        Step("POST", f"{PODS}/w/binding", BINDING),
        Step("GET", f"{PODS}/w/binding"),
        Step("PATCH", f"{PODS}/w/status", {"status": {"nominatedNodeName": "n8"}}, MERGE),
        Step("DELETE", f"{PODS}/w"),
        Step("DELETE", f"{PODS}/w"),
        Step("DELETE", f"{PODS}/w", {"gracePeriodSeconds": 5}),
        Step("POST", f"{PODS}/w/binding", BINDING),
        Step("DELETE", f"{PODS}/w", {"preconditions": {"uid": "foo"}}),
        Step("DELETE", f"{PODS}/w", {"preconditions": {"resourceVersion": "1"}}),
        Step("DELETE", f"{PODS}/w", {"propagationPolicy": "Foo"}),
        Step("DELETE", f"{PODS}/w", {"gracePeriodSeconds": 0}),
        Step("GET", f"{PODS}/w"),
        Step("DELETE", f"{NODES}/NS-node"),
    ],
    "priority": [
        post_pod(pod("pp", priorityClassName="no")),
        post_pod(pod("pp", priority=5)),
        Step("POST", CLASSES, {**named("NS-high"), "value": 1000, "preemptionPolicy": "Never"}),
        Step("POST", CLASSES, {**named("NS-top"), "value": 2000000000}),
        Step("POST", CLASSES, {**named("system-foo"), "value": 1}),
        Step("POST", CLASSES, {**named("NS-foo"), "value": 1, "preemptionPolicy": "Foo"}),
        Step("PATCH", f"{CLASSES}/NS-high", {"value": 5}, MERGE),
        post_pod(pod("critical", priorityClassName="system-node-critical")),
        Step("DELETE", f"{CLASSES}/NS-high"),
    ],
    "nodes": [
        Step(
            "POST",
            NODES,
            {
                **named("NS-a"),
                "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
                "status": {"capacity": {"cpu": "1500m", "memory": "1024Ki"}},
            },
        ),
        Step("POST", NODES, {**named("NS-b"), "spec": {"taints": [{"key": "a b", "effect": ""}]}}),
        Step(
            "POST",
            NODES,
            {**named("NS-b"), "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}] * 2}},
        ),
        Step("POST", NODES, {**named("NS-b"), "status": {"capacity": {"cpu": "-1"}}}),
        Step("POST", NODES, named("A_b")),
        Step("PATCH", f"{NODES}/NS-a", {"spec": {"unschedulable": True}}, STRATEGIC),
        Step(
            "PATCH",
            f"{NODES}/NS-a",
            {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}},
            STRATEGIC,
        ),
        Step("PATCH", f"{NODES}/NS-a", {"spec": {"unschedulable": None}}, STRATEGIC),
        Step("PATCH", f"{NODES}/NS-a", {"status": {"capacity": {"cpu": "9"}}}, MERGE),
        Step("PATCH", f"{NODES}/NS-a/status", {"status": {"capacity": {"cpu": "9"}}}, MERGE),
        Step("PATCH", f"{NODES}/NS-a", {"spec": {"providerID": "x"}}, MERGE),
        Step("PATCH", f"{NODES}/NS-a", {"spec": {"providerID": "y"}}, MERGE),
        Step("DELETE", f"{NODES}/NS-a"),
    ],
    "claims": [
        Step("POST", CLAIMS, {**named("c"), "spec": {}}),
        Step(
            "POST",
            CLAIMS,
            {
                **named("c"),
                "spec": {"accessModes": ["Foo"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        ),
    ],
    "storage": [
        Step(
            "POST",
            CLAIMS,
            {
                **named("c"),
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
            differs=PROTECTION,
        ),
        Step(
            "PATCH",
            f"{CLAIMS}/c",
            {"spec": {"accessModes": ["ReadOnlyMany"]}},
            MERGE,
            differs=INTERNAL_DIFF,
        ),
        Step(
            "POST", "/api/v1/persistentvolumes", {**named("NS-pv"), "spec": {}}, differs=OTHER_RULES
        ),
        Step(
            "POST", "/apis/storage.k8s.io/v1/csinodes", {**named("NS-csi"), "spec": {"drivers": []}}
        ),
        Step("DELETE", "/apis/storage.k8s.io/v1/csinodes/NS-csi"),
        Step("POST", "/apis/storage.k8s.io/v1/csidrivers", {**named("NS-drv"), "spec": {}}),
        Step("DELETE", "/apis/storage.k8s.io/v1/csidrivers/NS-drv"),
        Step(
            "POST",
            "/apis/resource.k8s.io/v1/namespaces/NS/resourceclaims",
            {
                **named("r"),
                "spec": {
                    "devices": {"requests": [{"name": "g", "exactly": {"deviceClassName": "x"}}]}
                },
            },
        ),
        Step("POST", "/apis/storage.k8s.io/v1/storageclasses", named("NS-none")),
    ],
    "defaults": [
        post_pod(
            {
                **named("rich", labels={"a": "b"}),
                "spec": {
                    "hostNetwork": True,
                    "volumes": [
                        {"name": "e"},
                        {"name": "s", "secret": {"secretName": "x"}},
                        {"name": "h", "hostPath": {"path": "/x"}},
                    ],
                    "containers": [
                        {
                            "name": "c",
                            "image": "registry:5000/team/app:v1",
                            "ports": [{"containerPort": 80}],
                            "resources": {
                                "limits": {"cpu": "1000m", "memory": "1024Ki"},
                                "requests": {"cpu": "0.0001"},
                            },
                            "livenessProbe": {"httpGet": {"port": 80}},
                            "env": [
                                {
                                    "name": "N",
                                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                                }
                            ],
                        },
                        {"name": "d", "image": "app@sha256:" + "0" * 64},
                    ],
                    "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
                },
            }
        ),
        post_pod(
            resources(requests={"cpu": "1", "memory": "1"}, limits={"cpu": "1", "memory": "1"})
        ),
        Step(
            "POST",
            "/api/v1/namespaces/NS/secrets",
            {**named("s"), "data": {"a": "YQ=="}},
        ),
        Step(
            "POST",
            "/apis/apps/v1/namespaces/NS/statefulsets",
            {**named("ss"), "spec": {**WORKLOAD, "serviceName": "x"}},
        ),
        Step("POST", "/apis/apps/v1/namespaces/NS/daemonsets", {**named("ds"), "spec": WORKLOAD}),
        Step(
            "POST",
            "/api/v1/namespaces/NS/replicationcontrollers",
            {**named("rc"), "spec": {"template": TEMPLATE}},
        ),
        Step(
            "POST",
            "/apis/storage.k8s.io/v1/storageclasses",
            {**named("NS-sc"), "provisioner": "a.b/c"},
        ),
        Step("DELETE", "/apis/storage.k8s.io/v1/storageclasses/NS-sc"),
    ],
    "label keys": [
        post_pod(
            with_metadata(
                spread(labelSelector=SELECTOR, matchLabelKeys=["rev", "none"]),
                labels={"rev": "7"},
            )
        ),
        post_pod(
            {
                **with_metadata(pod("q"), labels={"rev": "7", "team": "t"}),
                "spec": {
                    "containers": [{"name": "c", "image": "i"}],
                    "affinity": {
                        "podAntiAffinity": {
                            REQUIRED: [
                                {
                                    "topologyKey": "z",
                                    "labelSelector": {},
                                    "matchLabelKeys": ["rev"],
                                    "mismatchLabelKeys": ["team"],
                                }
                            ]
                        }
                    },
                },
            }
        ),
    ],
}
