"""Quotas, limits, CronJobs, autoscalers and networking: what is refused, and how it is printed."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import TABLE, Api
from tests.integration.contract.objects import deployment
from tests.integration.contract.scenario import path, scenario

NETWORKING = "apis/networking.k8s.io/v1"
_TEMPLATE = deployment("x")["spec"]["template"]
_JOB = {"spec": {"template": {"spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}}}


def document(kind: str, api_version: str, name: str = "x", **content: Any) -> dict[str, Any]:
    """Returns an object."""
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def _refuse(api: Api, where: str, obj: dict[str, Any]) -> None:
    answer = api.post(where, obj)
    assert answer.code == 422, answer.message


@scenario
def schedules_are_parsed(api: Api, namespace: str) -> None:
    jobs = path("apis/batch/v1", namespace, "cronjobs")
    bad = ["", "* * * *", "60 * * * *", "* 5-3 * * *", "* * 0 * *", "a * * * *", "*/0 * * * *"]
    bad += ["1/2/3 * * * *", "1-2-3 * * * *", "@often", "TZ=UTC * * * * *", "-1 * * * *"]
    for schedule in bad:
        spec = {"schedule": schedule, "jobTemplate": _JOB}
        _refuse(api, jobs, document("CronJob", "batch/v1", spec=spec))
    good = ("*/5 * * * *", "0 0 1,15 * ?", "@daily", "0 9-17/2 * jan-jun MON", "@every 5m")
    for number, schedule in enumerate(good):
        spec = {"schedule": schedule, "jobTemplate": _JOB}
        assert api.post(jobs, document("CronJob", "batch/v1", f"j{number}", spec=spec)).code == 201


@scenario
def invalid_cron_jobs_are_refused(api: Api, namespace: str) -> None:
    jobs = path("apis/batch/v1", namespace, "cronjobs")
    base = {"schedule": "@daily", "jobTemplate": _JOB}
    wrong: list[dict[str, Any]] = [
        {"concurrencyPolicy": "Maybe"},
        {"startingDeadlineSeconds": -1},
        {"successfulJobsHistoryLimit": -1, "failedJobsHistoryLimit": -1},
        {"timeZone": ""},
        {"timeZone": "../etc"},
        {"jobTemplate": {"spec": {**_JOB["spec"], "parallelism": -1}}},
        {"jobTemplate": {"spec": {"template": _TEMPLATE}}},
    ]
    for fields in wrong:
        _refuse(api, jobs, document("CronJob", "batch/v1", spec={**base, **fields}))
    _refuse(api, jobs, document("CronJob", "batch/v1", "n" * 53, spec=base))
    assert api.post(jobs, document("CronJob", "batch/v1", spec=base)).code == 201
    patched = api.patch(f"{jobs}/x", {"spec": {"suspend": True}})
    assert patched.body["metadata"]["generation"] == 2


@scenario
def invalid_ingresses_are_refused(api: Api, namespace: str) -> None:
    ingresses = path(NETWORKING, namespace, "ingresses")
    backend = {"service": {"name": "web", "port": {"number": 80}}}
    wrong: list[dict[str, Any]] = [
        {},
        {"defaultBackend": {}},
        {"defaultBackend": {"service": {"name": ""}}},
        {"defaultBackend": {"service": {"name": "A", "port": {"number": 70000}}}},
        {"defaultBackend": {"service": {"name": "a", "port": {"number": 1, "name": "b"}}}},
        {"defaultBackend": {"resource": {"kind": "", "name": ""}}},
        {"rules": [{"host": "10.0.0.1"}]},
        {"rules": [{"host": "*.*.example.com"}]},
        {"rules": [{"host": "A_"}]},
        {"rules": [{"http": {"paths": []}}]},
        {"rules": [{"http": {"paths": [{"path": "/", "backend": backend}]}}]},
        {"defaultBackend": backend, "ingressClassName": "A_"},
        {"defaultBackend": backend, "tls": [{"hosts": ["A_"], "secretName": "B_"}]},
    ]
    for kind, text in (("Prefix", "a"), ("Exact", "/a//b"), ("Exact", "/a/.."), ("Odd", "/")):
        one = {"path": text, "pathType": kind, "backend": backend}
        wrong.append({"rules": [{"http": {"paths": [one]}}]})
    for spec in wrong:
        _refuse(api, ingresses, document("Ingress", "networking.k8s.io/v1", spec=spec))


@scenario
def ingresses_are_printed(api: Api, namespace: str) -> None:
    ingresses = path(NETWORKING, namespace, "ingresses")
    backend = {"service": {"name": "web", "port": {"name": "http"}}}
    hosts = [{"host": f"{letter}.example.com"} for letter in "abcde"]
    specs: list[dict[str, Any]] = [
        {"defaultBackend": backend},
        {"rules": hosts, "ingressClassName": "nginx"},
        {"rules": hosts[:2]},
    ]
    for number, spec in enumerate(specs):
        obj = document("Ingress", "networking.k8s.io/v1", f"i{number}", spec=spec)
        assert api.post(ingresses, obj).code == 201
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "10.1.1.1"}, {"hostname": "h"}]}}}
    assert api.patch(f"{ingresses}/i1/status", status).code == 200
    rows = api.ask("GET", ingresses, accept=TABLE).body["rows"]
    assert rows[1]["cells"][2] == "a.example.com,b.example.com,c.example.com + 2 more..."


@scenario
def invalid_network_policies_are_refused(api: Api, namespace: str) -> None:
    policies = path(NETWORKING, namespace, "networkpolicies")
    everyone: dict[str, Any] = {"podSelector": {}}
    wrong: list[dict[str, Any]] = [
        {"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
        {**everyone, "ingress": [{"from": [{}]}]},
        {**everyone, "ingress": [{"ports": [{"port": 0}, {"port": "A_"}, {"protocol": "X"}]}]},
        {**everyone, "ingress": [{"ports": [{"port": 9, "endPort": 3}, {"endPort": 3}]}]},
        {**everyone, "egress": [{"to": [{"ipBlock": {"cidr": ""}}]}]},
        {**everyone, "policyTypes": ["Both"]},
        {**everyone, "policyTypes": ["Ingress", "Egress", "Ingress"]},
    ]
    block = {"cidr": "10.0.0.0/16", "except": ["10.1.0.0/24", "10.0.0.0/16"]}
    wrong.append({**everyone, "egress": [{"to": [{"ipBlock": block}]}]})
    both = {"ipBlock": {"cidr": "10.0.0.0/16"}, "podSelector": {}}
    wrong.append({**everyone, "egress": [{"to": [both]}]})
    for spec in wrong:
        _refuse(api, policies, document("NetworkPolicy", "networking.k8s.io/v1", spec=spec))


@scenario
def autoscalers_are_validated_and_printed(api: Api, namespace: str) -> None:
    scalers = path("apis/autoscaling/v2", namespace, "horizontalpodautoscalers")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    base: dict[str, Any] = {"scaleTargetRef": target, "maxReplicas": 3}
    by_cpu = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    wrong: list[dict[str, Any]] = [
        {"maxReplicas": 0},
        {"maxReplicas": -1},
        {"minReplicas": 4},
        {"minReplicas": -1},
        {"scaleTargetRef": {"apiVersion": "a/b/c", "kind": "", "name": "a/b"}},
        {"metrics": [{"type": "Odd"}]},
        {"metrics": [{"type": "Pods"}]},
        {"metrics": [by_cpu]},
        {"behavior": {"scaleUp": {"selectPolicy": "Odd", "stabilizationWindowSeconds": -1}}},
        {"behavior": {"scaleDown": {"policies": [{"type": "X", "value": 0, "periodSeconds": 0}]}}},
    ]
    for fields in wrong:
        obj = document("HorizontalPodAutoscaler", "autoscaling/v2", spec={**base, **fields})
        _refuse(api, scalers, obj)
    several = [
        {
            "type": "Resource",
            "resource": {
                "name": "memory",
                "target": {"type": "AverageValue", "averageValue": "1Gi"},
            },
        },
        {
            "type": "Pods",
            "pods": {
                "metric": {"name": "requests"},
                "target": {"type": "AverageValue", "averageValue": "10"},
            },
        },
        {
            "type": "External",
            "external": {"metric": {"name": "queue"}, "target": {"type": "Value", "value": "5"}},
        },
    ]
    for name, fields in (("plain", {}), ("several", {"metrics": several})):
        spec = {**base, **fields}
        obj = document("HorizontalPodAutoscaler", "autoscaling/v2", name, spec=spec)
        assert api.post(scalers, obj).code == 201
    rows = api.ask("GET", scalers, accept=TABLE).body["rows"]
    assert rows[0]["cells"][2] == "cpu: <unknown>/80%"


@scenario
def invalid_limits_are_refused(api: Api, namespace: str) -> None:
    ranges = path("api/v1", namespace, "limitranges")
    wrong: list[list[dict[str, Any]]] = [
        [{"type": "Odd"}],
        [{"type": "a b"}],
        [{"type": "Pod"}, {"type": "Pod"}],
        [{"type": "Pod", "default": {"cpu": "1"}}],
        [{"type": "PersistentVolumeClaim"}],
        [{"type": "Container", "max": {"odd": "1"}}],
        [{"type": "Container", "min": {"cpu": "2"}, "max": {"cpu": "1"}}],
        [{"type": "Container", "min": {"cpu": "2"}, "default": {"cpu": "1"}}],
        [{"type": "Container", "default": {"cpu": "2"}, "max": {"cpu": "1"}}],
        [{"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}],
        [
            {
                "type": "Pod",
                "min": {"cpu": "1"},
                "max": {"cpu": "2"},
                "maxLimitRequestRatio": {"cpu": "3"},
            }
        ],
    ]
    for limits in wrong:
        _refuse(api, ranges, document("LimitRange", "v1", spec={"limits": limits}))


@scenario
def invalid_quotas_are_refused(api: Api, namespace: str) -> None:
    quotas = path("api/v1", namespace, "resourcequotas")
    pods = {"pods": "1"}
    wrong: list[dict[str, Any]] = [
        {"hard": {"odd": "1"}},
        {"hard": {"pods": "-1"}},
        {"hard": {"pods": "100m"}},
        {"hard": {"storage": "1"}},
        {"hard": pods, "scopes": ["Odd"]},
        {"hard": pods, "scopes": ["BestEffort", "NotBestEffort"]},
        {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]},
    ]
    terms: list[dict[str, Any]] = [
        {"scopeName": "PriorityClass", "operator": "In"},
        {"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]},
        {"scopeName": "PriorityClass", "operator": "Near"},
        {"scopeName": "Terminating", "operator": "DoesNotExist"},
        {"scopeName": "Odd", "operator": "Exists"},
    ]
    wrong += [{"hard": pods, "scopeSelector": {"matchExpressions": [term]}} for term in terms]
    for spec in wrong:
        _refuse(api, quotas, document("ResourceQuota", "v1", spec=spec))


@scenario
def invalid_classes_are_refused(api: Api, namespace: str) -> None:
    for handler in ("", "A_"):
        obj = document("RuntimeClass", "node.k8s.io/v1", namespace, handler=handler)
        _refuse(api, "/apis/node.k8s.io/v1/runtimeclasses", obj)
    for spec in (
        {"controller": "example.com/c", "parameters": {"kind": "P", "name": "p", "scope": "Odd"}},
        {"controller": "example.com/c", "parameters": {"kind": "", "name": "p"}},
        {
            "controller": "example.com/c",
            "parameters": {"kind": "P", "name": "p", "scope": "Namespace"},
        },
    ):
        obj = document("IngressClass", "networking.k8s.io/v1", namespace, spec=spec)
        _refuse(api, f"/{NETWORKING}/ingressclasses", obj)


_NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]
    }
}
_POD_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "a", "labelSelector": {"matchLabels": {"a": "b"}}}
    ]
}
_STARTED = {"startTime": "2026-01-01T00:00:00Z"}
_PAUSED = {**_STARTED, "conditions": [{"type": "Suspended", "status": "True"}]}


@scenario
def templates_of_suspended_jobs_may_change_in_part(api: Api, namespace: str) -> None:
    jobs = path("apis/batch/v1", namespace, "jobs")
    containers = [{"name": "c", "image": "i"}, {"name": "d", "image": "i"}]
    resources = {"requests": {"cpu": "1"}}
    changes: list[dict[str, Any]] = [
        {"containers": [{"image": "other"}, {}]},
        {"containers": [{"resources": resources}, {}]},
        {"containers": [{"name": "e", "resources": resources}, {}]},
        {"containers": [{}]},
        {"initContainers": [{"resources": resources}]},
        {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a"}]},
        {"schedulingGates": [{"name": "a/b"}]},
        {"affinity": {"nodeAffinity": _NODE_AFFINITY}},
        {"affinity": {"nodeAffinity": _NODE_AFFINITY, "podAffinity": _POD_AFFINITY}},
        {"affinity": {}},
        {"affinity": None},
        {"schedulerName": "other"},
        {},
    ]
    befores: list[dict[str, Any]] = [
        {},
        {"affinity": {"nodeAffinity": _NODE_AFFINITY}},
        {"affinity": {"podAffinity": _POD_AFFINITY}},
    ]
    states: list[tuple[bool, dict[str, Any]]] = [
        (True, {}),
        (True, _STARTED),
        (True, _PAUSED),
        (True, {**_PAUSED, "active": 1}),
        (False, {}),
    ]
    cases = [
        (is_suspended, status, before, change)
        for is_suspended, status in states
        for before in (befores if is_suspended and "active" not in status else befores[:1])
        for change in changes
    ]
    for number, (is_suspended, status, before, change) in enumerate(cases):
        spec = {"restartPolicy": "Never", "containers": containers, **before}
        spec["initContainers"] = [{"name": "z", "image": "i"}]
        name = f"j-{number}"
        made = {"suspend": is_suspended, "template": {"spec": spec}}
        api.post(jobs, document("Job", "batch/v1", name, spec=made))
        if status:
            api.patch(f"{jobs}/{name}/status", {"status": status})
        job = api.get(f"{jobs}/{name}").body
        _change_template(job["spec"]["template"], change)
        answer = api.ask("PUT", f"{jobs}/{name}", job)
        if answer.code == 422:
            # Upstream prints the fields of its own types.
            api.notes.pop()
            api.note(name, 422, answer.message.partition("Invalid value")[0])


def _change_template(template: dict[str, Any], change: dict[str, Any]) -> None:
    if not change:
        template["metadata"]["annotations"] = {"a": "b"}
    for field, value in change.items():
        if not field.lower().endswith("containers"):
            template["spec"][field] = value
            continue
        old = template["spec"][field]
        template["spec"][field] = [{**old[at], **part} for at, part in enumerate(value)]
