"""Pods that are refused."""

from __future__ import annotations

from tests.helpers.scenarios.base import (
    PREFERRED,
    REQUIRED,
    SELECTOR,
    Step,
    affine,
    container,
    node_term,
    pod,
    post_pod,
    resources,
    spread,
    with_metadata,
)

INVALID: dict[str, list[Step]] = {
    "invalid pods": [
        post_pod(container(name="")),
        post_pod(container(name="A_b")),
        post_pod(container(image="")),
        post_pod(container(image=" x")),
        post_pod(container(imagePullPolicy="Foo")),
        post_pod(pod("A")),
        post_pod(pod("a" * 254)),
        post_pod(pod("p", restartPolicy="Foo", dnsPolicy="Bar")),
        post_pod(pod("p", nodeName="A_b")),
        post_pod(pod("p", nodeName="n", schedulingGates=[{"name": "a"}])),
        post_pod(pod("p", schedulingGates=[{"name": "a"}, {"name": "a"}])),
        post_pod(pod("p", schedulingGates=[{"name": "a b"}])),
        post_pod(pod("p", nodeSelector={"a b": "c d"})),
        post_pod(pod("p", activeDeadlineSeconds=0)),
        post_pod(pod("p", preemptionPolicy="Foo")),
        post_pod(pod("p", overhead={"cpu": "-1"})),
        post_pod(pod("p", volumes=[{"name": "v"}, {"name": "v"}])),
        post_pod(pod("p", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": ""}}])),
        post_pod(container(volumeMounts=[{"name": "v", "mountPath": "/x"}])),
        post_pod(pod("p", containers=[{"name": "c", "image": "i"}, {"name": "c", "image": "i"}])),
        post_pod(pod("p", initContainers=[{"name": "c", "image": "i"}])),
        post_pod(pod("p", resourceClaims=[{"name": "r"}])),
        post_pod(container(resources={"claims": [{"name": "r"}]})),
    ],
    "invalid resources": [
        post_pod(resources(requests={"cpu": "-1"})),
        post_pod(resources(requests={"foo": "1"})),
        post_pod(resources(requests={"pods": "1"})),
        post_pod(resources(requests={"a.b/c": "1"})),
        post_pod(resources(requests={"a.b/c": "1"}, limits={"a.b/c": "2"})),
        post_pod(resources(limits={"a.b/c": "500m"})),
        post_pod(resources(requests={"cpu": "2"}, limits={"cpu": "1"})),
        post_pod(resources(limits={"hugepages-2Mi": "2Mi"})),
        post_pod(resources(limits={"hugepages-2Mi": "3Mi", "cpu": "1"})),
        post_pod(resources(limits={"kubernetes.io/x": "1"})),
        post_pod(container(ports=[{"containerPort": 0}])),
        post_pod(container(ports=[{"containerPort": 70000, "hostPort": 70000}])),
        post_pod(container(ports=[{"containerPort": 1, "protocol": "X"}])),
        post_pod(container(ports=[{"containerPort": 1, "name": "A"}])),
        post_pod(
            container(
                ports=[{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}]
            )
        ),
    ],
    "invalid tolerations": [
        post_pod(pod("p", tolerations=[{"key": "a b", "operator": "Exists"}])),
        post_pod(pod("p", tolerations=[{"operator": "Equal"}])),
        post_pod(pod("p", tolerations=[{"key": "a", "operator": "Exists", "value": "b"}])),
        post_pod(pod("p", tolerations=[{"key": "a", "operator": "Foo"}])),
        post_pod(pod("p", tolerations=[{"key": "a", "operator": "Gt", "value": "1"}])),
        post_pod(pod("p", tolerations=[{"key": "a", "effect": "Foo"}])),
        post_pod(pod("p", tolerations=[{"key": "a", "value": "b c"}])),
        post_pod(
            pod("p", tolerations=[{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}])
        ),
    ],
    "invalid affinity": [
        post_pod(affine("nodeAffinity", **{REQUIRED: {"nodeSelectorTerms": []}})),
        post_pod(node_term(key="a", operator="In")),
        post_pod(node_term(key="a", operator="Exists", values=["b"])),
        post_pod(node_term(key="a", operator="Gt", values=["1", "2"])),
        post_pod(node_term(key="a", operator="Foo")),
        post_pod(node_term(key="a b", operator="In", values=["c d"])),
        post_pod(affine("nodeAffinity", **{PREFERRED: [{"weight": 0, "preference": {}}]})),
        post_pod(
            affine(
                "nodeAffinity",
                **{
                    REQUIRED: {
                        "nodeSelectorTerms": [{"matchFields": [{"key": "x", "operator": "Exists"}]}]
                    }
                },
            )
        ),
        post_pod(affine("podAffinity", **{REQUIRED: [{"topologyKey": ""}]})),
        post_pod(
            affine(
                "podAntiAffinity",
                **{
                    PREFERRED: [
                        {
                            "weight": 101,
                            "podAffinityTerm": {
                                "topologyKey": "z",
                                "namespaces": ["A"],
                                "labelSelector": {
                                    "matchExpressions": [{"key": "a", "operator": "Foo"}]
                                },
                            },
                        }
                    ]
                },
            )
        ),
        post_pod(spread(maxSkew=0, topologyKey="", whenUnsatisfiable="Foo")),
        post_pod(spread(minDomains=0, whenUnsatisfiable="ScheduleAnyway")),
        post_pod(spread(nodeAffinityPolicy="Foo")),
        post_pod(spread(matchLabelKeys=["a"])),
        post_pod(
            {
                **with_metadata(
                    spread(labelSelector=SELECTOR, matchLabelKeys=["a"]), labels={"a": "b"}
                ),
            }
        ),
        post_pod(
            pod(
                "p",
                topologySpreadConstraints=[
                    {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
                ]
                * 2,
            )
        ),
    ],
}
