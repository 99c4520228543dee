"""LimitRanger and ResourceQuota: defaults of pods, and what is refused in upstream's words.

The real server has no quota controller here, so the scenarios write the first status themselves.
"""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import Answer, Api
from tests.integration.contract.scenario import path, pods, scenario

_CLAIMS = "persistentvolumeclaims"


def _limit(api: Api, namespace: str, *limits: dict[str, Any]) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits"},
        "spec": {"limits": list(limits)},
    }
    assert api.post(path("api/v1", namespace, "limitranges"), body).code == 201


def _quota(api: Api, namespace: str, hard: dict[str, str], name: str = "q", **spec: Any) -> None:
    quotas = path("api/v1", namespace, "resourcequotas")
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name},
        "spec": {"hard": hard, **spec},
    }
    assert api.post(quotas, body).code == 201
    status = {"status": {"hard": hard, "used": dict.fromkeys(hard, "0")}}
    assert api.patch(f"{quotas}/{name}/status", status).code == 200
    api.notes.pop()  # one server has written it before


def _pod(name: str, *resources: dict[str, Any], init: Any = None, **spec: Any) -> dict[str, Any]:
    containers = [
        {"name": f"c{number}", "image": "x", "resources": one}
        for number, one in enumerate(resources or ({},))
    ]
    if init is not None:
        spec["initContainers"] = [{"name": "i", "image": "x", "resources": init}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def _claim(api: Api, namespace: str, name: str, storage: str, **spec: Any) -> Answer:
    body = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}},
            **spec,
        },
    }
    return api.post(path("api/v1", namespace, _CLAIMS), body)


def _follow(api: Api, ask: Any, code: int) -> Answer:
    """Asks until the real server's caches have the limits; a create is tried without effect."""
    answer: Answer = api.eventually(ask, code)
    assert answer.code == code, answer.message
    return answer


@scenario
def a_limit_range_sets_defaults(api: Api, namespace: str) -> None:
    container = {"type": "Container", "default": {"cpu": "500m", "memory": "1Gi"}}
    container |= {"defaultRequest": {"cpu": "100m"}, "min": {"ephemeral-storage": "1Ki"}}
    _limit(api, namespace, container)
    where = pods(namespace)

    def dry() -> Answer:
        answer = api.post(where, _pod("dry"), dryRun="All")
        has_limits = "limits" in answer.body["spec"]["containers"][0]["resources"]
        return answer._replace(code=answer.code if has_limits else 0)

    _follow(api, dry, 201)
    made = api.post(where, _pod("a", {}, {"requests": {"cpu": "50m"}}, init={}))
    assert made.body["metadata"]["annotations"]["kubernetes.io/limit-ranger"].startswith(
        "LimitRanger plugin set: "
    )
    assert made.body["spec"]["containers"][0]["resources"]["limits"]["memory"] == "1Gi"
    assert api.post(where, _pod("b", {"limits": {"cpu": "200m"}})).code == 201


@scenario
def a_limit_range_refuses_containers(api: Api, namespace: str) -> None:
    container: dict[str, Any] = {"type": "Container", "min": {"cpu": "100m"}}
    container |= {"max": {"cpu": "1", "memory": "1Gi"}, "maxLimitRequestRatio": {"cpu": "2"}}
    _limit(api, namespace, container)
    where = pods(namespace)
    low = {"requests": {"cpu": "50m"}, "limits": {"cpu": "50m"}}
    _follow(api, lambda: api.post(where, _pod("low", low), dryRun="All"), 403)
    for number, resources in enumerate(
        (
            {"requests": {"cpu": "500m"}, "limits": {"cpu": "2"}},
            {"requests": {"cpu": "100m"}, "limits": {"cpu": "500m"}},
            {"requests": {"memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        )
    ):
        refused = api.post(where, _pod(f"p{number}", resources))
        assert refused.code == 403, refused.message
    fits = {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}}
    assert api.post(where, _pod("fits", fits)).code == 201
    assert api.post(where, _pod("init", fits, init=low)).code == 403


@scenario
def a_limit_range_refuses_pods_and_claims(api: Api, namespace: str) -> None:
    whole = {"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "200m"}}
    volume = {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "4Gi"}}
    _limit(api, namespace, whole, volume)
    where = pods(namespace)
    some = {"requests": {"cpu": "600m"}, "limits": {"cpu": "600m"}}
    _follow(api, lambda: api.post(where, _pod("none"), dryRun="All"), 403)
    assert api.post(where, _pod("much", some, some)).code == 403
    assert api.post(where, _pod("one", some)).code == 201
    assert _claim(api, namespace, "small", "1Gi").code == 403
    assert _claim(api, namespace, "large", "5Gi").code == 403
    assert _claim(api, namespace, "fits", "3Gi").code == 201


@scenario
def a_quota_limits_pods(api: Api, namespace: str) -> None:
    hard = {"pods": "2", "requests.cpu": "1", "limits.memory": "1Gi"}
    _quota(api, namespace, hard)
    where = pods(namespace)
    _follow(api, lambda: api.post(where, _pod("bare"), dryRun="All"), 403)
    some = {"requests": {"cpu": "600m"}, "limits": {"memory": "256Mi", "cpu": "1"}}
    refused = api.post(where, _pod("lacks", {"requests": {"cpu": "1"}}, some))
    assert refused.message.endswith("failed quota: q: must specify limits.memory for: c0")
    assert api.post(where, _pod("a", some)).code == 201
    over = api.post(where, _pod("b", some))
    assert over.code == 403
    assert "exceeded quota: q, requested: requests.cpu=600m" in over.message
    less = {"requests": {"cpu": "300m"}, "limits": {"memory": "256Mi", "cpu": "1"}}
    assert api.post(where, _pod("b", less)).code == 201
    assert api.post(where, _pod("c", less)).code == 403
    quota = api.get(path("api/v1", namespace, "resourcequotas", "q"))
    api.notes[-1] = ("used", quota.code, quota.body["status"])
    assert quota.body["status"]["used"] == {
        "pods": "2",
        "requests.cpu": "900m",
        "limits.memory": "512Mi",
    }


@scenario
def a_quota_of_a_computing_resource_demands_it_of_each_container(api: Api, namespace: str) -> None:
    quotas = ["requests.cpu", "limits.memory", "cpu", "memory", "limits.cpu", "requests.memory"]
    where, enough = pods(namespace), {"cpu": "10m", "memory": "1Mi"}
    for name in quotas:
        _quota(api, namespace, {name: "1"})
        _follow(api, lambda: api.post(where, _pod("a"), dryRun="All"), 403)
        full = {"requests": enough, "limits": enough}
        api.post(where, _pod("a", full, {"requests": {"cpu": "1m"}}), dryRun="All")
        api.post(where, _pod("a", full, init={}), dryRun="All")
        assert api.delete(path("api/v1", namespace, "resourcequotas", "q")).code == 200
        api.notes.pop()  # with the status
        _follow(api, lambda: api.post(where, _pod("a"), dryRun="All"), 201)
    _quota(api, namespace, {"requests.nvidia.com/gpu": "1"})
    api.post(where, _pod("a"), dryRun="All")


@scenario
def a_quota_limits_claims(api: Api, namespace: str) -> None:
    fast = "fast.storageclass.storage.k8s.io/"
    hard = {_CLAIMS: "2", "requests.storage": "5Gi", f"{fast}requests.storage": "2Gi"}
    _quota(api, namespace, hard)
    _follow(api, lambda: _claim(api, namespace, "huge", "9Gi"), 403)
    assert _claim(api, namespace, "a", "2Gi", storageClassName="fast").code == 201
    assert _claim(api, namespace, "b", "1Gi", storageClassName="fast").code == 403
    assert _claim(api, namespace, "b", "1Gi", storageClassName="slow").code == 201
    assert _claim(api, namespace, "c", "1Gi", storageClassName="slow").code == 403
    quota = api.get(path("api/v1", namespace, "resourcequotas", "q"))
    api.notes[-1] = ("used", quota.code, quota.body["status"])


@scenario
def a_quota_has_scopes(api: Api, namespace: str) -> None:
    _quota(api, namespace, {"pods": "0"}, "best", scopes=["BestEffort"])
    _quota(api, namespace, {"pods": "0"}, "ending", scopes=["Terminating"])
    term = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
    _quota(api, namespace, {"pods": "0"}, "vip", scopeSelector={"matchExpressions": [term]})
    where = pods(namespace)
    some = {"requests": {"cpu": "1m"}}
    ending = _pod("ending", some, activeDeadlineSeconds=30)
    vip = _pod("vip", some, priorityClassName="system-node-critical")
    _follow(api, lambda: api.post(where, _pod("best"), dryRun="All"), 403)
    _follow(api, lambda: api.post(where, ending, dryRun="All"), 403)
    _follow(api, lambda: api.post(where, vip, dryRun="All"), 403)
    assert api.post(where, _pod("plain", some)).code == 201


@scenario
def a_quota_counts_objects(api: Api, namespace: str) -> None:
    _quota(api, namespace, {"configmaps": "1", "count/leases.coordination.k8s.io": "0"})
    maps = path("api/v1", namespace, "configmaps")

    def make(name: str, **query: str) -> Answer:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        return api.post(maps, body, **query)

    leases = path("apis/coordination.k8s.io/v1", namespace, "leases")
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "x"}}
    _follow(api, lambda: api.post(leases, lease, dryRun="All"), 403)
    assert make("a").code == 201
    assert make("b").code == 403


@scenario
def claims_count_by_their_attributes_class(api: Api, ns: str) -> None:
    term = {"scopeName": "VolumeAttributesClass", "operator": "In", "values": ["gold"]}
    _quota(api, ns, {_CLAIMS: "1"}, scopeSelector={"matchExpressions": [term]})
    for number, name in enumerate(("gold", "gold", "silver", None)):
        more = {} if name is None else {"volumeAttributesClassName": name}
        answer = _claim(api, ns, f"c{number}", "1Gi", **more)
        assert answer.code == (403 if number == 1 else 201)


@scenario
def resource_claims_count_by_their_device_classes(api: Api, ns: str) -> None:
    _quota(api, ns, {"gold.deviceclass.resource.k8s.io/devices": "34"})
    claims = path("apis/resource.k8s.io/v1", ns, "resourceclaims")
    gold, silver = {"deviceClassName": "gold"}, {"deviceClassName": "silver"}
    options = [
        {"name": "a", **gold, "count": 2},
        {"name": "b", **gold, "count": 3},
        {"name": "c", **silver},
    ]
    for number, requests in enumerate(
        (
            [{"name": "r", "exactly": {**gold, "allocationMode": "All"}}],
            [{"name": "r", "firstAvailable": options}],
            [{"name": "r", "exactly": gold}, {"name": "s", "exactly": silver}],
            [{"name": "r", "exactly": silver}],
            [{"name": "r", "exactly": gold}, {"name": "s", "exactly": gold}],
            [{"name": "r", "exactly": gold}],
        )
    ):
        body = {"metadata": {"name": f"c{number}"}, "spec": {"devices": {"requests": requests}}}
        answer = api.post(claims, body)
        assert answer.code == (403 if number in (1, 4) else 201)


@scenario
def services_count_by_their_type(api: Api, ns: str) -> None:
    _quota(api, ns, {"services": "9", "services.nodeports": "2", "services.loadbalancers": "1"})
    services = path("api/v1", ns, "services")
    ports = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    for number, spec in enumerate(
        (
            {"type": "ClusterIP", "ports": ports},
            {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": ports},
            {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "ports": ports},
            {"type": "NodePort", "ports": ports[:1]},
            {"type": "NodePort", "ports": ports},
            {"type": "NodePort", "ports": ports[1:]},
        )
    ):
        answer = api.post(services, {"metadata": {"name": f"s{number}"}, "spec": spec})
        assert answer.code == (403 if number in (2, 4) else 201)
        if answer.code == 201:
            api.notes.pop()  # each server chooses its own ports
