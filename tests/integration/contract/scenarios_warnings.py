"""Warnings of valid requests, and texts about requests that are not valid JSON of their kind."""

from __future__ import annotations

import re
from typing import Any

from tests.integration.contract.api import Answer, Api
from tests.integration.contract.scenario import path, pods, scenario

_WARNING = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


def warnings(answer: Answer) -> list[str]:
    """Returns the texts of the warnings of an answer."""
    assert answer.code in (200, 201), answer.body
    texts = _WARNING.findall(answer.headers.get("warning", ""))
    return [text.replace('\\"', '"').replace("\\\\", "\\") for text in texts]


def pod(name: str, spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    whole = {"containers": [container], **(spec or {})}
    meta = {"name": name, **metadata}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": whole}


def dry(api: Api, where: str, obj: dict[str, Any]) -> list[str]:
    return warnings(api.post(where, obj, dryRun="All"))


@scenario
def pods_warn_about_what_selects_nodes(api: Api, namespace: str) -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]}
                ]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {
                        "matchExpressions": [{"key": "a", "operator": "In", "values": ["-a-"]}]
                    },
                }
            ],
        },
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]
        },
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
            ]
        },
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "failure-domain.beta.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
    }
    spec = {
        "nodeSelector": {"beta.kubernetes.io/arch": "amd64"},
        "affinity": affinity,
        "topologySpreadConstraints": [spread],
    }
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    no_selector = "labelSelector: a null labelSelector results in matching no pod"
    zone = 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    bad = (
        "spec.affinity.nodeAffinity."
        f"{preferred}[0].preference.matchExpressions[0].values[0]: -a- is invalid, "
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
        "'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )
    assert dry(api, pods(namespace), pod("p", spec)) == [
        "spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use "
        '"kubernetes.io/arch" instead',
        f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms[0].matchExpressions[0].key: "
        'beta.kubernetes.io/os is deprecated since v1.14; use "kubernetes.io/os" instead',
        bad,
        "spec.topologySpreadConstraints[0].topologyKey: failure-domain.beta.kubernetes.io/zone is "
        f"{zone}",
        f"spec.topologySpreadConstraints[0].{no_selector}",
        f"spec.affinity.podAffinity.{required}[0].{no_selector}",
        f"spec.affinity.podAntiAffinity.{preferred}[0].podAffinityTerm.{no_selector}",
    ]


@scenario
def pods_warn_about_their_containers(api: Api, namespace: str) -> None:
    def port(**fields: Any) -> dict[str, Any]:
        return {"containerPort": 80, **fields}

    containers = [
        {
            "name": "a",
            "image": "i",
            "resources": {"requests": {"memory": "100m"}, "limits": {"memory": "1500m"}},
            "env": [
                {"name": "X", "value": "1"},
                {"name": "X", "value": "2"},
                {"name": "Y", "value": "1"},
                {"name": "Y", "value": "$(Y)2"},
            ],
            "ports": [port(name="web"), port(), port(hostPort=80), port(hostIP="10.0.0.1")],
        },
        {"name": "b", "image": "i", "ports": [port(name="web", hostPort=80, hostIP="10.0.0.1")]},
    ]
    field = "spec.containers[0]"
    web = f"{field}.ports[0]"
    assert dry(api, pods(namespace), pod("p", {"containers": containers})) == [
        f'{field}.resources.limits[memory]: fractional byte value "1500m" is invalid, must be an '
        "integer",
        f'{field}.resources.requests[memory]: fractional byte value "100m" is invalid, must be an '
        "integer",
        f'{field}.env[1]: hides previous definition of "X", which may be dropped when using apply',
        f"{field}.ports[1]: duplicate port definition with {web}",
        f"{field}.ports[2]: overlapping port definition with {web}",
        f"{field}.ports[2]: overlapping port definition with {field}.ports[1]",
        f"{field}.ports[3]: hostIP set without hostPort: "
        "{Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}",
        f"{field}.ports[3]: overlapping port definition with {web}",
        f"{field}.ports[3]: overlapping port definition with {field}.ports[1]",
        f"{field}.ports[3]: overlapping port definition with {field}.ports[2]",
        f"spec.containers[1].ports[0]: overlapping port definition with {web}",
        f"spec.containers[1].ports[0]: overlapping port definition with {field}.ports[1]",
        f"spec.containers[1].ports[0]: dangerously ambiguous port definition with {field}.ports[2]",
        f"spec.containers[1].ports[0]: overlapping port definition with {field}.ports[3]",
        f'spec.containers[1].ports[0]: duplicate port name "web" with {web}, services and probes '
        f"that select ports by name will use {web}",
    ]


@scenario
def pods_warn_about_volumes_names_and_addresses(api: Api, namespace: str) -> None:
    items = [{"key": "a", "path": "x"}, {"key": "b", "path": "x/y"}]
    sources = [
        {"configMap": {"name": "m", "items": [{"key": "a", "path": "z"}]}},
        {"secret": {"name": "s", "items": [{"key": "a", "path": "z/y"}]}},
    ]
    spec = {
        "volumes": [
            {"name": "git", "gitRepo": {"repository": "r"}},
            {"name": "map", "configMap": {"name": "m", "items": items}},
            {"name": "all", "projected": {"sources": sources}},
        ],
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["h"]}, {"ip": "1:0::2"}],
        "imagePullSecrets": [{"name": "s"}, {"name": "s"}, {}],
        "terminationGracePeriodSeconds": 5,
    }
    assert dry(api, pods(namespace), pod("a.b", spec)) == [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising "
        "behavior; a DNS label is recommended: [must not contain dots]",
        "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        'volume "map" (ConfigMap "m"): overlapping paths: "x/y" with "x"',
        'volume "all" (Projected): overlapping paths: "z/y" (Secret "s") with "z" (ConfigMap "m")',
        'spec.imagePullSecrets[1].name: duplicate name "s"',
        'spec.imagePullSecrets[2].name: invalid empty name ""',
        'spec.hostAliases[1].ip: IPv6 address "1:0::2" should be in RFC 5952 canonical format '
        '("1::2")',
    ]


@scenario
def annotations_of_security_profiles_become_fields(api: Api, namespace: str) -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    for value, profile in (
        ("unconfined", {"type": "Unconfined"}),
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("localhost/x", {"type": "Localhost", "localhostProfile": "x"}),
    ):
        answer = api.post(
            pods(namespace), pod("p", annotations={key: value}), dryRun="All", fieldManager="t"
        )
        assert warnings(answer) == [
            f"metadata.annotations[{key}]: deprecated since v1.30; use the "
            '"appArmorProfile" field instead'
        ]
        context = answer.body["spec"]["containers"][0]["securityContext"]
        assert context == {"appArmorProfile": profile}
    same = {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}
    answer = api.post(
        pods(namespace), pod("p", same, annotations={key: "unconfined"}), dryRun="All"
    )
    assert warnings(answer) == []
    assert "securityContext" not in answer.body["spec"]["containers"][0]


@scenario
def templates_warn_when_they_change(api: Api, namespace: str) -> None:
    where = path("apis/apps/v1", namespace, "deployments")
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "nodeSelector": {"node-role.kubernetes.io/master": ""},
        },
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web.1"},
        "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template},
    }
    name = (
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising "
        "behavior; a DNS label is recommended: [must not contain dots]"
    )
    label = (
        "spec.template.spec.nodeSelector[node-role.kubernetes.io/master]: use "
        '"node-role.kubernetes.io/control-plane" instead'
    )
    assert warnings(api.post(where, deployment)) == [name, label]
    assert warnings(api.patch(f"{where}/web.1", {"metadata": {"labels": {"a": "b"}}})) == []
    assert warnings(api.patch(f"{where}/web.1", {"spec": {"replicas": 1}})) == [label]


@scenario
def other_kinds_warn_too(api: Api, namespace: str) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s"},
        "spec": {
            "ports": [{"port": 80}],
            "externalIPs": ["2001:db8:0::1"],
            "externalName": "x",
            "trafficDistribution": "PreferClose",
        },
    }
    assert dry(api, path("api/v1", namespace, "services"), service) == [
        'spec.externalIPs[0]: IPv6 address "2001:db8:0::1" should be in RFC 5952 canonical format '
        '("2001:db8::1")',
        "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
        'spec.externalName is ignored when spec.type is not "ExternalName"',
        'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
    ]
    api.notes.pop()  # the address
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"v-{namespace}"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Recycle",
            "nfs": {"server": "h", "path": "/"},
        },
    }
    assert dry(api, "/api/v1/persistentvolumes", volume) == [
        "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, "
        "the recommended approach is to use dynamic provisioning."
    ]
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "n"},
        "spec": {
            "podSelector": {},
            "ingress": [{"from": [{"ipBlock": {"cidr": "2001:db8:0::/64"}}]}],
        },
    }
    where = path("apis/networking.k8s.io/v1", namespace, "networkpolicies")
    assert dry(api, where, policy) == [
        'spec.ingress[0].from[0].ipBlock.cidr: IPv6 CIDR value "2001:db8:0::/64" should be in '
        'RFC 5952 canonical format ("2001:db8::/64")'
    ]


@scenario
def a_namespace_of_what_has_none_is_removed(api: Api, namespace: str) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"r-{namespace}", "namespace": "kube-system"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    }
    answer = api.post("/apis/rbac.authorization.k8s.io/v1/clusterroles", role, dryRun="All")
    assert answer.code == 201
    assert "namespace" not in answer.body["metadata"]


@scenario
def a_version_is_refused_when_it_would_be_stored(api: Api, namespace: str) -> None:
    versioned = pod("p", resourceVersion="1")
    assert api.post(pods(namespace), versioned, dryRun="All").code == 201
    refused = api.post(pods(namespace), versioned)
    assert (refused.code, refused.message) == (
        500,
        "resourceVersion should not be set on objects to be created",
    )
    invalid = {**versioned, "spec": {**versioned["spec"], "restartPolicy": "Sometimes"}}
    assert api.post(pods(namespace), invalid).code == 422


@scenario
def errors_name_what_has_a_generated_name(api: Api, namespace: str) -> None:
    generated = pod("", {"priority": 10})
    generated["metadata"] = {"generateName": "web-"}
    answer = api.post(pods(namespace), generated)
    assert answer.code == 403
    assert answer.message.startswith('pods "web-" is forbidden: the integer value of priority (10)')


@scenario
def wrong_types_are_named_as_go_names_them(api: Api, namespace: str) -> None:
    lead = 'Pod in version "v1" cannot be handled as a Pod: '
    where = pods(namespace)
    for spec, problem in (
        (
            {"volumes": [{"name": "v", "hostPath": "x"}]},
            "json: cannot unmarshal string into Go struct field "
            "Volume.spec.volumes.VolumeSource.hostPath of type v1.HostPathVolumeSource",
        ),
        (
            {"nodeName": 4294967296},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type "
            "string",
        ),
        (
            {"priority": 4294967296},
            "json: cannot unmarshal number 4294967296 into Go struct field PodSpec.spec.priority "
            "of type int32",
        ),
        (
            {"nodeName": 1, "overhead": {"cpu": True}},
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ):
        assert api.post(where, pod("p", spec)).message == lead + problem
    timed = pod("p", creationTimestamp={})
    assert api.post(where, timed).message == (
        f"{lead}json: cannot unmarshal object into Go struct field "
        "ObjectMeta.metadata.creationTimestamp of type string"
    )


@scenario
def bytes_are_base64(api: Api, namespace: str) -> None:
    where = path("api/v1", namespace, "secrets")
    lead = 'Secret in version "v1" cannot be handled as a Secret: '

    def message(value: Any) -> str:
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "s"},
            "data": {"x": value},
        }
        answer = api.post(where, secret, dryRun="All")
        return "" if answer.code == 201 else answer.message.removeprefix(lead)

    illegal = "illegal base64 data at input byte"
    assert [message(value) for value in ("1.5", "Always", "YQ=", "YQ==x", "YQ==", "Y\nQ==")] == [
        f"{illegal} 1",
        f"{illegal} 4",
        f"{illegal} 3",
        f"{illegal} 4",
        "",
        "",
    ]
    assert message(["a"]) == (
        "json: cannot unmarshal string into Go struct field Secret.data of type uint8"
    )


@scenario
def unknown_fields_are_in_the_order_of_the_body(api: Api, namespace: str) -> None:
    odd = pod("p", {"zeta": 1, "alpha": 2})
    answer = api.post(pods(namespace), odd, fieldValidation="Strict")
    assert answer.message.endswith(
        'strict decoding error: unknown field "spec.zeta", unknown field "spec.alpha"'
    )


@scenario
def claims_of_ephemeral_volumes_are_validated(api: Api, namespace: str) -> None:
    template = {"metadata": {"name": "x", "labels": {"a": "-"}}, "spec": {}}
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}
    answer = api.post(pods(namespace), pod("p", {"volumes": [volume]}))
    field = "spec.volumes[0].ephemeral.volumeClaimTemplate"
    assert answer.code == 422
    causes = [cause["field"] for cause in answer.body["details"]["causes"]]
    assert causes == [
        f"{field}.metadata.labels",
        f"{field}.metadata.name",
        f"{field}.spec.accessModes",
        f"{field}.spec.resources[storage]",
    ]
