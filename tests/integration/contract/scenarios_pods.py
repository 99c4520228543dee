"""Pods of all shapes: what is filled in, and what is refused with which words."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import Api
from tests.integration.contract.objects import pod
from tests.integration.contract.scenario import SCENARIOS, pods, scenario


def container(name: str = "c", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": "registry.k8s.io/pause:3.10", **more}


def requests(**amounts: str) -> dict[str, Any]:
    return {"resources": {"requests": amounts}}


def node_affinity(*expressions: dict[str, Any], weight: int | None = None) -> dict[str, Any]:
    term = {"matchExpressions": list(expressions)}
    if weight is not None:
        preferred = [{"weight": weight, "preference": term}]
        return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def pod_affinity(kind: str = "podAffinity", **term: Any) -> dict[str, Any]:
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def spread(**more: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
        **more,
    }


WEB = {"matchLabels": {"app": "web"}}

#: Name -> spec of a pod that is taken.
GOOD: dict[str, dict[str, Any]] = {
    "requests": {"containers": [container(**requests(cpu="0.5", memory="1e3"))]},
    "rounded_cpu": {"containers": [container(**requests(cpu="0.1234567"))]},
    "limits_of_two": {
        "containers": [container(resources={"limits": {"cpu": "1"}}), container("d")]
    },
    "init_containers": {"initContainers": [container("i", restartPolicy="Always"), container("j")]},
    "ports": {"containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])]},
    "host_network": {
        "hostNetwork": True,
        "containers": [container(ports=[{"containerPort": 80, "protocol": "UDP"}])],
    },
    "pod_resources": {
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "containers": [container(**requests(cpu="100m"))],
    },
    "extended": {"containers": [container(resources={"limits": {"example.com/gpu": "2"}})]},
    "huge_pages": {
        "containers": [
            container(resources={"limits": {"hugepages-2Mi": "4Mi", "memory": "1Gi", "cpu": "1"}})
        ]
    },
    "tolerations": {
        "tolerations": [
            {"key": "a", "operator": "Exists"},
            {"operator": "Exists", "effect": "NoExecute"},
            {"key": "b", "value": "c", "effect": "NoSchedule"},
        ]
    },
    "node_selector": {"nodeSelector": {"disk": "ssd"}},
    "node_affinity": {
        "affinity": node_affinity(
            {"key": "a", "operator": "In", "values": ["b"]},
            {"key": "c", "operator": "Gt", "values": ["1"]},
        )
    },
    "preferred": {"affinity": node_affinity({"key": "a", "operator": "Exists"}, weight=7)},
    "pod_affinity": {"affinity": pod_affinity(topologyKey="zone", labelSelector=WEB)},
    "anti_affinity": {
        "affinity": pod_affinity(
            "podAntiAffinity", topologyKey="zone", labelSelector=WEB, namespaceSelector={}
        )
    },
    "spread": {"topologySpreadConstraints": [spread(), spread(whenUnsatisfiable="ScheduleAnyway")]},
    "min_domains": {"topologySpreadConstraints": [spread(minDomains=3, nodeTaintsPolicy="Honor")]},
    "volumes": {
        "volumes": [
            {"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "b", "emptyDir": {}},
            {"name": "d", "configMap": {"name": "m"}},
            {"name": "e", "hostPath": {"path": "/tmp"}},
            {"name": "f", "secret": {"secretName": "s"}},
        ]
    },
    "claims": {
        "resourceClaims": [{"name": "g", "resourceClaimName": "g1"}],
        "containers": [container(resources={"claims": [{"name": "g"}]})],
    },
    "placed": {"nodeName": "n1"},
    "gated": {"schedulingGates": [{"name": "example.com/a"}, {"name": "example.com/b"}]},
    "named_scheduler": {"schedulerName": "mine"},
    "no_grace": {"terminationGracePeriodSeconds": 0},
    "negative_grace": {"terminationGracePeriodSeconds": -1},
    "latest_image": {"containers": [{"name": "c", "image": "web:latest"}]},
    "probes": {
        "containers": [
            container(
                readinessProbe={"httpGet": {"path": "/", "port": 80}},
                livenessProbe={"tcpSocket": {"port": 80}},
            )
        ]
    },
    "environment": {
        "containers": [
            container(
                env=[{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
            )
        ]
    },
}

#: Name -> spec of a pod that is refused.
BAD: dict[str, dict[str, Any]] = {
    "two_containers_of_a_name": {"containers": [container(), container()]},
    "quantity": {"containers": [container(**requests(memory="1e3Ki"))]},
    "no_image": {"containers": [{"name": "c"}]},
    "no_container_name": {"containers": [{"image": "i"}]},
    "request_over_limit": {
        "containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]
    },
    "extended_fraction": {
        "containers": [container(resources={"limits": {"example.com/gpu": "0.5"}})]
    },
    "extended_request_alone": {"containers": [container(**requests(**{"example.com/gpu": "1"}))]},
    "unknown_resource": {"containers": [container(**requests(gpu="1"))]},
    "selector_key": {"nodeSelector": {"a b": "c"}},
    "selector_value": {"nodeSelector": {"a": "c d"}},
    "toleration_operator": {"tolerations": [{"key": "a", "operator": "Maybe"}]},
    "toleration_value": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
    "toleration_effect": {"tolerations": [{"key": "a", "effect": "Sometimes"}]},
    "toleration_empty_key": {"tolerations": [{"operator": "Equal", "value": "b"}]},
    "toleration_seconds": {
        "tolerations": [{"key": "a", "operator": "Exists", "tolerationSeconds": 3}]
    },
    "affinity_operator": {
        "affinity": node_affinity({"key": "a", "operator": "Like", "values": ["b"]})
    },
    "affinity_in_nothing": {"affinity": node_affinity({"key": "a", "operator": "In"})},
    "affinity_exists_values": {
        "affinity": node_affinity({"key": "a", "operator": "Exists", "values": ["b"]})
    },
    "affinity_gt_two": {
        "affinity": node_affinity({"key": "a", "operator": "Gt", "values": ["1", "2"]})
    },
    "affinity_no_terms": {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": []}
            }
        }
    },
    "preferred_weight": {"affinity": node_affinity({"key": "a", "operator": "Exists"}, weight=101)},
    "pod_affinity_no_topology": {"affinity": pod_affinity(labelSelector=WEB)},
    "pod_affinity_selector": {
        "affinity": pod_affinity(
            topologyKey="zone",
            labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]},
        )
    },
    "pod_affinity_namespace": {
        "affinity": pod_affinity(topologyKey="zone", labelSelector=WEB, namespaces=["Not_One"])
    },
    "spread_skew": {"topologySpreadConstraints": [spread(maxSkew=0)]},
    "spread_action": {"topologySpreadConstraints": [spread(whenUnsatisfiable="Perhaps")]},
    "spread_twice": {"topologySpreadConstraints": [spread(), spread()]},
    "spread_no_key": {"topologySpreadConstraints": [spread(topologyKey="")]},
    "spread_min_domains": {
        "topologySpreadConstraints": [spread(minDomains=2, whenUnsatisfiable="ScheduleAnyway")]
    },
    "spread_policy": {"topologySpreadConstraints": [spread(nodeAffinityPolicy="Sure")]},
    "port_range": {"containers": [container(ports=[{"containerPort": 70000}])]},
    "host_port_range": {"containers": [container(ports=[{"containerPort": 1, "hostPort": -1}])]},
    "host_ports_clash": {
        "containers": [
            container(ports=[{"containerPort": 1, "hostPort": 5}]),
            container("d", ports=[{"containerPort": 2, "hostPort": 5}]),
        ]
    },
    "protocol": {"containers": [container(ports=[{"containerPort": 1, "protocol": "HTTP"}])]},
    "gate_name": {"schedulingGates": [{"name": "not a name"}]},
    "gates_twice": {"schedulingGates": [{"name": "a.b/c"}, {"name": "a.b/c"}]},
    "gated_and_placed": {"schedulingGates": [{"name": "a.b/c"}], "nodeName": "n1"},
    "node_name": {"nodeName": "Not A Node"},
    "restart_policy": {"restartPolicy": "Often"},
    "volume_twice": {"volumes": [{"name": "a", "emptyDir": {}}, {"name": "a", "emptyDir": {}}]},
    "volume_name": {"volumes": [{"name": "A_b", "emptyDir": {}}]},
    "claim_unknown": {"containers": [container(resources={"claims": [{"name": "g"}]})]},
    "deadline": {"activeDeadlineSeconds": 0},
    "overhead": {"overhead": {"cpu": "1"}},
    "pod_resources_kind": {"resources": {"requests": {"example.com/gpu": "1"}}},
    "host_port_differs": {
        "hostNetwork": True,
        "containers": [container(ports=[{"containerPort": 80, "hostPort": 81}])],
    },
    "service_account": {"serviceAccountName": "Not_One"},
    "priority_of_its_own": {"priority": 3},
}


def _taken(name: str, spec: dict[str, Any]) -> None:
    def run(api: Api, ns: str) -> None:
        made = api.post(pods(ns), pod("p", **spec))
        assert made.code == 201, made.message
        assert api.get(pods(ns, "p")).body == made.body

    SCENARIOS[f"pods-takes-{name}"] = run


def _refused(name: str, spec: dict[str, Any]) -> None:
    def run(api: Api, ns: str) -> None:
        made = api.post(pods(ns), pod("p", **spec))
        assert made.code in (400, 403, 422), made.body
        assert api.get(pods(ns, "p")).code == 404

    SCENARIOS[f"pods-refuses-{name}"] = run


for _name, _spec in GOOD.items():
    _taken(_name, _spec)
for _name, _spec in BAD.items():
    _refused(_name, _spec)


def secured(**context: Any) -> dict[str, Any]:
    return {"containers": [container(securityContext=context)]}


#: Parts of a pod's spec that have nothing to do with its place, each of which is wrong.
WRONG_SETTINGS: tuple[dict[str, Any], ...] = (
    {"dnsPolicy": "None"},
    {"dnsPolicy": "None", "dnsConfig": {"searches": ["a"]}},
    {"dnsConfig": {"nameservers": ["1.1.1.1", "8.8.8.8", "9.9.9.9", "here"]}},
    {"dnsConfig": {"searches": ["a.b.", ".", "a_b", "-x", "B"], "options": [{"value": "1"}]}},
    {"dnsConfig": {"searches": [f"s{n}" for n in range(33)]}},
    {"dnsConfig": {"searches": ["s" * 60 + "." + "t" * 60] * 20}},
    {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["A", "b"]}, {"ip": "host"}]},
    {"hostnameOverride": "Web", "setHostnameAsFQDN": True},
    {"hostnameOverride": "a" * 65, "hostNetwork": True},
    {"hostname": "a.b", "subdomain": "c.d", "serviceAccountName": "_"},
    {"hostUsers": False, "hostPID": True, "hostIPC": True, "hostNetwork": True},
    {"hostPID": True, "shareProcessNamespace": True},
    {"securityContext": {"fsGroup": -1, "runAsUser": 1 << 31, "supplementalGroups": [0, -5]}},
    {"securityContext": {"fsGroupChangePolicy": "Never", "supplementalGroupsPolicy": "Loose"}},
    {"securityContext": {"seLinuxChangePolicy": "Sometimes"}},
    {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
    {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "/a/../b"}}},
    {"securityContext": {"seccompProfile": {"type": "Unconfined", "localhostProfile": "a"}}},
    {"securityContext": {"seccompProfile": {"type": "Own"}}},
    {"securityContext": {"appArmorProfile": {"type": "Localhost", "localhostProfile": " a"}}},
    {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault", "localhostProfile": "a"}}},
    {"securityContext": {"appArmorProfile": {"type": "Own"}}},
    {"securityContext": {"sysctls": [{"name": "Net.a", "value": "1"}]}},
    {"securityContext": {"sysctls": [{"name": "kernel.sem", "value": "1"}] * 2}},
    {
        "hostNetwork": True,
        "hostIPC": True,
        "securityContext": {
            "sysctls": [
                {"name": "net.core.somaxconn", "value": "1"},
                {"name": "net/ipv4/tcp_syncookies", "value": "1"},
                {"name": "kernel.shmmax", "value": "1"},
                {"name": "fs.mqueue.msg_max", "value": "1"},
                {"name": "vm.swappiness", "value": "1"},
            ]
        },
    },
    secured(runAsUser=-1, runAsGroup=-1, procMount="Open"),
    secured(procMount="Unmasked"),
    secured(seccompProfile={"type": "Localhost"}),
    secured(appArmorProfile={"type": "Localhost", "localhostProfile": ""}),
    secured(allowPrivilegeEscalation=False, privileged=True, seLinuxOptions={"level": "s0"}),
    secured(
        allowPrivilegeEscalation=False,
        runAsUser=5,
        seccompProfile={"type": "RuntimeDefault"},
        capabilities={"add": ["NET_ADMIN", "CAP_SYS_ADMIN"]},
    ),
)
#: Such parts that are right.
RIGHT_SETTINGS: tuple[dict[str, Any], ...] = (
    {
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["1.1.1.1", "2001:db8::1"],
            "searches": [".", "_tcp.example.com.", "a_b.example.com"],
            "options": [{"name": "ndots", "value": "2"}],
        },
        "hostAliases": [{"ip": "::1", "hostnames": ["a.b"]}],
    },
    {"hostnameOverride": "web.example.com", "hostUsers": False},
    {
        "securityContext": {
            "runAsUser": 0,
            "fsGroupChangePolicy": "OnRootMismatch",
            "supplementalGroupsPolicy": "Strict",
            "seLinuxChangePolicy": "Recursive",
            "seccompProfile": {"type": "Localhost", "localhostProfile": "a/b.json"},
            "sysctls": [{"name": "net.core.somaxconn", "value": "1024"}],
        }
    },
    {"hostUsers": False, **secured(procMount="Unmasked")},
    secured(allowPrivilegeEscalation=False, capabilities={"drop": ["ALL"]}),
)


@scenario
def settings_of_a_pod_that_are_wrong(api: Api, ns: str) -> None:
    for number, spec in enumerate(WRONG_SETTINGS):
        answer = api.post(pods(ns), pod(f"p{number}", **spec))
        assert answer.code == 422, (spec, answer.message)


@scenario
def settings_of_a_pod_that_are_right(api: Api, ns: str) -> None:
    for number, spec in enumerate(RIGHT_SETTINGS):
        answer = api.post(pods(ns), pod(f"p{number}", **spec))
        assert answer.code == 201, (spec, answer.message)


@scenario
def resources_of_a_pod_wait_for_nothing_else_to_be_right(api: Api, ns: str) -> None:
    own = {"limits": {"cpu": "3"}}

    def said(**spec: Any) -> str:
        answer = api.post(pods(ns), pod("p", resources=own, **spec))
        assert (answer.code, answer.reason) == (422, "Invalid")
        return answer.message.removeprefix('Pod "p" is invalid: ')

    assert said(containers=[]) == said(containers=None) == "spec.containers: Required value"
    assert said(volumes=[None]) == "spec.volumes[0].name: Required value"
    assert said(containers=[None]) == (
        "[spec.containers[0].name: Required value, spec.containers[0].image: Required value]"
    )
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for terms in ({}, {"nodeSelectorTerms": None}):
        assert said(affinity={"nodeAffinity": {required: terms}}) == (
            f"spec.affinity.nodeAffinity.{required}.nodeSelectorTerms: "
            "Required value: must have at least one node selector term"
        )
    # What it comes to in all follows from the containers, those that start it included.
    huge = {"limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}}
    sidecar = container("s", restartPolicy="Always", resources=huge)
    made = api.post(pods(ns), pod("p", resources=own, initContainers=[sidecar]))
    assert made.body["spec"]["resources"] == {
        "limits": {"cpu": "3", "hugepages-2Mi": "2Mi"},
        "requests": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"},
    }


#: The scheduling of a runtime class, and pods that say something about it themselves.
RUNTIME_SCHEDULING: dict[str, Any] = {
    "nodeSelector": {"sandbox": "yes", "zone": "a"},
    "tolerations": [
        {"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "slow", "operator": "Equal", "value": "1", "effect": "NoExecute"},
    ],
}
RUNTIME_PODS: tuple[dict[str, Any], ...] = (
    {},
    {"overhead": {"cpu": "0.25", "memory": "64Mi"}},
    {"overhead": {"cpu": "1"}},
    {"nodeSelector": {"zone": "a", "disk": "fast"}},
    {"nodeSelector": {"zone": "b"}},
    {"tolerations": [{"key": "sandbox", "value": "x", "effect": "NoSchedule"}]},
    {"tolerations": [{"key": "sandbox", "operator": "Equal", "effect": "NoSchedule"}]},
    {"tolerations": [{"operator": "Exists"}]},
    {"tolerations": [{"key": "slow", "operator": "Exists", "tolerationSeconds": 5}]},
    {
        "tolerations": [
            {"key": "slow", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
        ]
    },
)


@scenario
def a_runtime_class_gives_pods_overhead_and_nodes(api: Api, ns: str) -> None:
    classes = "/apis/node.k8s.io/v1/runtimeclasses"

    def runtime_class(name: str, **content: Any) -> str:
        body = {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "metadata": {"name": f"{name}-{ns}"},
            "handler": "h",
            **content,
        }
        assert api.post(classes, body).code == 201
        return f"{name}-{ns}"

    overhead = {"overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}}}
    names = [
        runtime_class("plain"),
        runtime_class("heavy", **overhead),
        runtime_class("placed", scheduling=RUNTIME_SCHEDULING),
        runtime_class("both", scheduling=RUNTIME_SCHEDULING, **overhead),
        runtime_class("empty", scheduling={}, overhead={}),
    ]
    answers = [
        api.post(pods(ns), pod(f"p{number}-{position}", runtimeClassName=name, **spec))
        for number, name in enumerate(names)
        for position, spec in enumerate(RUNTIME_PODS)
    ]
    assert {answer.code for answer in answers} == {201, 403, 422}
    assert answers[10].body["spec"]["overhead"] == {"cpu": "250m", "memory": "64Mi"}
    missing = api.post(pods(ns), pod("p", runtimeClassName=f"none-{ns}"))
    assert (missing.code, missing.reason) == (403, "Forbidden")
    for name in names:
        assert api.delete(f"{classes}/{name}").code == 200


@scenario
def defaults_depend_on_the_image_and_the_probe(api: Api, ns: str) -> None:
    names = ("../a", "./a", "-x/a", "a..b/c", "a_b.c/d", "A/b", "[::1]:5000/a", "a-.b/c", "a:80/b")
    for number, image in enumerate(names):
        containers = [{"name": "c", "image": image, "livenessProbe": {"grpc": {"port": 1}}}]
        assert api.post(pods(ns), pod(f"p{number}", containers=containers)).code == 201


#: Fields of a pod, of its container, and its operating system.
_HOST = {"windowsOptions": {"hostProcess": True}}
_NO_HOST = {"windowsOptions": {"hostProcess": False}}
_ON_SYSTEMS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, _HOST),
    ({"hostNetwork": True}, _HOST),
    ({"securityContext": _HOST}, {}),
    ({"securityContext": _HOST, "hostNetwork": True}, {}),
    ({"securityContext": _HOST, "hostNetwork": True}, _NO_HOST),
    ({"securityContext": _NO_HOST}, _HOST),
    ({"hostNetwork": True, "initContainers": [container("i")]}, _HOST),
    ({"securityContext": _NO_HOST}, _NO_HOST),
    ({"os": {"name": ""}}, {}),
    ({"os": {}}, {}),
    ({"os": {"name": "plan9"}}, _HOST),
    ({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}}, {}),
    ({"os": {"name": "linux"}}, {"windowsOptions": {"runAsUserName": "a"}}),
    ({"os": {"name": "linux"}}, {"runAsUser": 1}),
    ({"os": {"name": "windows"}}, {"windowsOptions": {"runAsUserName": "a"}}),
    ({"os": {"name": "windows"}, "hostPID": False, "hostIPC": False}, {}),
    (
        {
            "os": {"name": "windows"},
            "hostPID": True,
            "hostUsers": True,
            "shareProcessNamespace": False,
            "securityContext": {
                "fsGroup": 1,
                "fsGroupChangePolicy": "Always",
                "runAsUser": 1,
                "runAsGroup": 1,
                "seLinuxOptions": {},
                "seLinuxChangePolicy": "Recursive",
                "seccompProfile": {"type": "RuntimeDefault"},
                "appArmorProfile": {"type": "RuntimeDefault"},
                "supplementalGroups": [1],
                "supplementalGroupsPolicy": "Merge",
                "sysctls": [{"name": "kernel.a", "value": "1"}],
            },
        },
        {},
    ),
    ({"os": {"name": "windows"}, "securityContext": {"sysctls": []}}, {}),
    ({"os": {"name": "windows"}, "hostIPC": True}, {"privileged": False, "procMount": "Default"}),
    (
        {"os": {"name": "windows"}},
        {
            "appArmorProfile": {"type": "RuntimeDefault"},
            "seLinuxOptions": {},
            "seccompProfile": {"type": "RuntimeDefault"},
            "capabilities": {},
            "readOnlyRootFilesystem": False,
            "allowPrivilegeEscalation": False,
            "runAsUser": 1,
            "runAsGroup": 1,
        },
    ),
]


@scenario
def some_fields_are_of_an_operating_system(api: Api, ns: str) -> None:
    answers = [
        api.post(
            pods(ns),
            pod("p", **{"containers": [container(securityContext=context)], **spec}),
            dryRun="All",
        )
        for spec, context in _ON_SYSTEMS
    ]
    valid = [number for number, answer in enumerate(answers) if answer.code == 201]
    assert valid == [1, 3, 7, 13, 14, 15, 17]
    assert {answer.code for answer in answers} == {201, 422}
