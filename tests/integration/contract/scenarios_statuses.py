"""Changes of statuses: what is refused with which words, and what servers add."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import Api
from tests.integration.contract.objects import node, pod
from tests.integration.contract.scenario import path, pods, scenario

TIME = "2026-01-02T03:04:05Z"
EARLIER = "2026-01-01T03:04:05Z"
LABELS = {"app": "a"}


def refusals(api: Api, url: str, obj: dict[str, Any], status: dict[str, Any]) -> list[str]:
    """Writes a status; returns the fields that are refused, or [] if it is stored."""
    answer = api.put(url, {**obj, "status": status})
    assert answer.code in (200, 422), answer.body
    causes = (answer.body.get("details") or {}).get("causes") or ()
    return [cause["field"] for cause in causes]


def terminated(name: str = "c", code: int = 0) -> dict[str, Any]:
    return container_status(name, terminated={"exitCode": code})


def container_status(name: str = "c", **state: Any) -> dict[str, Any]:
    head = {"name": name, "image": "i", "imageID": "", "ready": False, "restartCount": 0}
    return {**head, "state": state}


RUNNING = container_status(running={})


def restarts(code: int, action: str = "Restart") -> dict[str, Any]:
    rule = {"action": action, "exitCodes": {"operator": "In", "values": [code]}}
    return {"restartPolicy": "Never", "restartPolicyRules": [rule]}


ALL = restarts(9, "RestartAllContainers")


@scenario
def containers_that_are_not_restarted_stay_terminated(api: Api, ns: str) -> None:
    left = ["status.containerStatuses[0].state"]
    own: dict[str, Any] = {"name": "c", "image": "i"}
    cases: tuple[tuple[dict[str, Any], int, list[str]], ...] = (
        ({"restartPolicy": "Never"}, 0, left),
        ({"restartPolicy": "Never"}, 3, left),
        ({"restartPolicy": "OnFailure"}, 0, left),
        ({"restartPolicy": "OnFailure"}, 3, []),
        ({"restartPolicy": "Always"}, 0, []),
        ({"containers": [{**own, "restartPolicy": "Never"}]}, 3, left),
        ({"containers": [{**own, "restartPolicy": "OnFailure"}]}, 0, left),
        ({"containers": [{**own, **restarts(3)}], "restartPolicy": "Never"}, 3, []),
        ({"containers": [{**own, **restarts(3)}], "restartPolicy": "Never"}, 4, left),
        ({"containers": [own, {**own, **ALL, "name": "d"}], "restartPolicy": "Never"}, 0, []),
    )
    for number, (spec, code, expected) in enumerate(cases):
        obj = pod(f"p{number}", **spec)
        assert api.post(pods(ns), obj).code == 201
        url = pods(ns, f"p{number}", "status")
        assert refusals(api, url, obj, {"containerStatuses": [terminated(code=code)]}) == []
        assert refusals(api, url, obj, {"containerStatuses": [RUNNING]}) == expected
        # A container that is not there any more has not left its state.
        assert refusals(api, url, obj, {"containerStatuses": []}) == []


@scenario
def init_and_ephemeral_containers_stay_terminated_too(api: Api, ns: str) -> None:
    init = {"name": "i", "image": "i"}
    sidecar = {"name": "s", "image": "i", "restartPolicy": "Always"}
    obj = pod("p", initContainers=[init, sidecar], restartPolicy="Never")
    api.post(pods(ns), obj)
    url = pods(ns, "p", "status")
    both = {"initContainerStatuses": [terminated("i"), terminated("s")]}
    ephemeral = {"ephemeralContainerStatuses": [terminated("e", 1)]}
    assert refusals(api, url, obj, {**both, **ephemeral}) == []
    waiting = [container_status(name, waiting={}) for name in ("i", "s", "e")]
    status = {"initContainerStatuses": waiting[:2], "ephemeralContainerStatuses": waiting[2:]}
    assert refusals(api, url, obj, status) == [
        "status.initContainerStatuses[0].state",
        "status.ephemeralContainerStatuses[0].state",
    ]


@scenario
def parts_of_the_status_of_a_pod_are_checked(api: Api, ns: str) -> None:
    resources = {"requests": {"cpu": "1"}, "claims": [{"name": "gpu", "request": "one"}]}
    claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
    containers = [{"name": "c", "image": "i", "resources": resources}]
    obj = pod("p", containers=containers, resourceClaims=claims)
    assert api.post(pods(ns), obj).code == 201
    url = pods(ns, "p", "status")

    def allocated(name: str, **more: Any) -> dict[str, Any]:
        health = {"resourceID": "a", "health": "Healthy", **more}
        resource = {"name": name, "resources": [health]}
        return {"containerStatuses": [{**RUNNING, "allocatedResourcesStatus": [resource]}]}

    def user(**linux: Any) -> dict[str, Any]:
        return {
            "containerStatuses": [{**RUNNING, "user": {"linux": {"uid": 1, "gid": 1, **linux}}}]
        }

    def mapping(container: str, resource: str, request: str = "r") -> dict[str, Any]:
        return {"containerName": container, "resourceName": resource, "requestName": request}

    def extended(*mappings: Any, **more: Any) -> dict[str, Any]:
        status = {"requestMappings": [*mappings], "resourceClaimName": "claim", **more}
        return {"extendedResourceClaimStatus": status}

    extended_field = "status.extendedResourceClaimStatus"
    allocated_field = "status.containerStatuses[0].allocatedResourcesStatus[0]"
    user_field = "status.containerStatuses[0].user.linux"
    for status, count, expected in (
        ({"conditions": [{"type": "A b", "status": "True"}]}, 1, "status.conditions[0].Type"),
        ({"conditions": [{"type": "a/b", "status": "x"}, {"type": "Ready", "status": ""}]}, 0, ""),
        ({"resourceClaimStatuses": [{"name": "x"}]}, 1, "status.resourceClaimStatuses[0].name"),
        ({"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "A"}]}, 1, ""),
        (allocated("cpu"), 0, ""),
        (allocated("claim:gpu/one"), 0, ""),
        (allocated("claim:gpu"), 1, f"{allocated_field}.name"),
        (allocated("memory"), 1, f"{allocated_field}.name"),
        (allocated("cpu", health="Sick"), 1, f"{allocated_field}.resources[0].health"),
        (allocated("cpu", message=""), 1, f"{allocated_field}.resources[0].message"),
        (allocated("cpu", message="x" * 1025), 1, f"{allocated_field}.resources[0].message"),
        (user(), 0, ""),
        (user(uid=-1), 1, f"{user_field}.uid"),
        (user(supplementalGroups=[1, 2**31]), 1, f"{user_field}.supplementalGroups[1]"),
        (extended(mapping("c", "cpu")), 0, ""),
        (extended(), 1, f"{extended_field}.requestMappings"),
        (extended(mapping("d", "cpu")), 1, ""),
        (extended(mapping("c", "memory")), 1, ""),
        (extended(mapping("c", "cpu", "A")), 1, f"{extended_field}.requestName"),
        (extended(mapping("c", "cpu"), mapping("c", "cpu")), 3, ""),
        (extended(mapping("c", "cpu"), resourceClaimName=""), 1, ""),
        ({"qosClass": "BestEffort"}, 1, "status.qosClass"),
    ):
        found = refusals(api, url, obj, status)
        assert (len(found), found[:1] if expected else []) == (
            count,
            [expected] if expected else [],
        )


@scenario
def addresses_in_statuses_are_checked(api: Api, ns: str) -> None:
    obj = pod("p")
    api.post(pods(ns), obj)
    url = pods(ns, "p", "status")

    def ips(*items: str) -> list[dict[str, str]]:
        return [{"ip": item} for item in items]

    for status, expected in (
        ({"podIP": "10.0.0.1", "podIPs": ips("10.0.0.1", "fd00::1")}, []),
        ({"podIPs": ips("10.0.0.01")}, ["status.podIPs[0]"]),
        ({"podIPs": ips("::ffff:10.0.0.1")}, ["status.podIPs[0]"]),
        ({"podIPs": ips("x")}, ["status.podIPs[0]"]),
        ({"podIPs": ips("10.0.0.1", "10.0.0.2")}, ["status.podIPs"]),
        ({"podIPs": ips("10.0.0.1", "fd00::1", "fd00::2")}, ["status.podIPs"]),
        ({"podIPs": ips("10.0.0.1", "x")}, ["status.podIPs[1]", "status.podIPs", "status.podIPs"]),
        ({"hostIP": "10.0.0.9", "hostIPs": ips("10.0.0.9")}, []),
        ({"hostIP": "10.0.0.9", "hostIPs": ips("10.0.0.8")}, ["status.hostIPs[0].ip"]),
    ):
        assert refusals(api, url, obj, status) == expected
    spec = {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}
    ingress = {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "spec": spec}
    ingress |= {"metadata": {"name": "i"}}
    url = path("apis/networking.k8s.io/v1", ns, "ingresses")
    api.post(url, ingress)
    field = "status.loadBalancer.ingress[0]"
    for item, expected in (
        ({"ip": "10.0.0.1", "hostname": "a.example.com"}, []),
        ({"ip": "a"}, [f"{field}.ip"]),
        ({"hostname": "A"}, [f"{field}.hostname"]),
        ({"hostname": "10.0.0.1"}, [f"{field}.hostname"]),
    ):
        balanced: dict[str, Any] = {"loadBalancer": {"ingress": [item]}}
        assert refusals(api, f"{url}/i/status", ingress, balanced) == expected
    count = len(api.notes)
    url = path("api/v1", ns, "services")
    for kind, item, expected in (
        ("ClusterIP", {"ip": "10.0.0.1"}, [field.removesuffix("[0]")]),
        ("LoadBalancer", {"ip": "10.0.0.1"}, []),
        ("LoadBalancer", {"ip": "a", "ipMode": "VIP"}, [f"{field}.ip"]),
        ("LoadBalancer", {"ip": "10.0.0.1", "ipMode": "x"}, [f"{field}.ipMode"]),
        ("LoadBalancer", {"hostname": "a", "ipMode": "VIP"}, [f"{field}.ipMode"]),
    ):
        name = f"s-{kind}".lower()
        own: dict[str, Any] = {"type": kind, "ports": [{"port": 80}]}
        body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": own}
        stored = api.get(f"{url}/{name}")
        if stored.code != 200:
            stored = api.post(url, body)
        balanced = {"loadBalancer": {"ingress": [item]}}
        assert refusals(api, f"{url}/{name}/status", stored.body, balanced) == expected
    del api.notes[count:]  # each server gives an address of its own


TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
#: Kind -> group and version, resource.
WORKLOADS = {
    "Deployment": ("apis/apps/v1", "deployments"),
    "ReplicaSet": ("apis/apps/v1", "replicasets"),
    "StatefulSet": ("apis/apps/v1", "statefulsets"),
    "DaemonSet": ("apis/apps/v1", "daemonsets"),
    "ReplicationController": ("api/v1", "replicationcontrollers"),
}


@scenario
def the_counts_of_workloads_are_checked(api: Api, ns: str) -> None:
    for kind, (version, resource) in WORKLOADS.items():
        is_old = kind == "ReplicationController"
        selector = LABELS if is_old else {"matchLabels": LABELS}
        spec = {"selector": selector, "template": TEMPLATE}
        api_version = "v1" if is_old else "apps/v1"
        obj = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
        assert api.post(path(version, ns, resource), obj).code == 201
        url = path(version, ns, resource, "a", "status")
        good: dict[str, Any] = {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2}
        if kind == "DaemonSet":
            good = dict.fromkeys(("currentNumberScheduled", "numberMisscheduled"), 0)
            good |= {"desiredNumberScheduled": 0, "numberReady": 0, "collisionCount": 2}
        elif kind in ("Deployment", "StatefulSet"):
            good["collisionCount"] = 2
        assert refusals(api, url, obj, good) == []
        for change in (
            {"observedGeneration": -1},
            {"replicas": 1},
            {"availableReplicas": 3},
            {"readyReplicas": 4, "updatedReplicas": 4},
            {"terminatingReplicas": -1},
            {"collisionCount": 1},
            {"numberAvailable": -1, "numberReady": -1},
        ):
            refusals(api, url, obj, {**good, **change})
        without = {name: count for name, count in good.items() if name != "collisionCount"}
        has_count = "collisionCount" in good
        expected = ["status.collisionCount"] if has_count else []
        assert refusals(api, url, obj, without) == expected


def condition(kind: str, status: str = "True") -> dict[str, Any]:
    return {"type": kind, "status": status}


def finished(*kinds: str, **more: Any) -> dict[str, Any]:
    conditions = [condition(kind) for kind in kinds]
    return {"startTime": EARLIER, "conditions": conditions, **more}


COMPLETE = finished("SuccessCriteriaMet", "Complete", completionTime=TIME)


@scenario
def the_status_of_a_job_is_checked(api: Api, ns: str) -> None:
    own = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    indexed = {"completions": 4, "completionMode": "Indexed", "parallelism": 2}
    specs: dict[str, dict[str, Any]] = {
        "plain": {},
        "indexed": indexed,
        "per-index": {**indexed, "backoffLimitPerIndex": 1},
        "policy": {**indexed, "successPolicy": {"rules": [{"succeededCount": 1}]}},
        "empty": {"suspend": True, "completions": 0},
    }
    statuses: list[dict[str, Any]] = [
        {"active": -1, "failed": -1, "ready": -1},
        {"active": 1, "ready": 2},
        {"uncountedTerminatedPods": {"succeeded": ["a", "a", ""], "failed": ["a"]}},
        {"completionTime": TIME},
        finished("Complete"),
        finished("Complete", completionTime=TIME),
        finished("Failed"),
        finished("Failed", "FailureTarget", active=1, terminating=1),
        finished("Failed", "FailureTarget", "Complete", completionTime=TIME),
        finished("Failed", "FailureTarget", "SuccessCriteriaMet"),
        {**COMPLETE, "startTime": "2026-02-02T03:04:05Z"},
        {**COMPLETE, "uncountedTerminatedPods": {"succeeded": ["a"]}},
        {"conditions": COMPLETE["conditions"], "completionTime": TIME},
        {"completedIndexes": "0,2-3"},
        {"completedIndexes": "4"},
        {"completedIndexes": "1-2-3"},
        {"completedIndexes": "2,1"},
        {"completedIndexes": "2-1"},
        {"completedIndexes": "a"},
        {"failedIndexes": "0"},
        {"failedIndexes": "x"},
        {"failedIndexes": "1-2", "completedIndexes": "2-3"},
        {"failedIndexes": "x,1", "completedIndexes": "y,0-3"},
    ]
    for name, spec in specs.items():
        obj = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
        obj |= {"spec": {"template": {"spec": own}, **spec}}
        assert api.post(path("apis/batch/v1", ns, "jobs"), obj).code == 201
        url = path("apis/batch/v1", ns, "jobs", name, "status")
        for status in statuses:
            api.put(url, {**obj, "status": status}, dryRun="All")
        counted = {"startTime": EARLIER, "succeeded": 2, "failed": 2}
        assert refusals(api, url, obj, counted) == []
        assert refusals(api, url, obj, {**counted, "failed": 1}) == ["status.failed"]
        assert refusals(api, url, obj, {**counted, "succeeded": 1}) == ["status.succeeded"]
        moved = refusals(api, url, obj, {**counted, "startTime": TIME})
        assert moved == ([] if name == "empty" else ["status.startTime"])
        assert refusals(api, url, obj, {**COMPLETE, **counted}) == []
        later = {**COMPLETE, **counted, "completionTime": "2026-03-02T03:04:05Z"}
        assert refusals(api, url, obj, later) == ["status.completionTime"]
        assert len(refusals(api, url, obj, counted)) == 2
        assert "labels" in api.get(path("apis/batch/v1", ns, "jobs", name)).body["metadata"]


@scenario
def phases_of_namespaces_and_volumes_are_checked_and_dated(api: Api, ns: str) -> None:
    space = api.get(f"/api/v1/namespaces/{ns}").body
    url = f"/api/v1/namespaces/{ns}/status"
    assert refusals(api, url, space, {"phase": "Active"}) == []
    assert refusals(api, url, space, {"phase": "Terminating"}) == ["status.Phase"]
    assert refusals(api, url, space, {}) == []
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "hostPath": {"path": "/tmp"},
    }
    name = f"volume-{ns}"
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}}
    volume |= {"spec": spec}
    created = api.post("/api/v1/persistentvolumes", volume)
    assert created.code == 201
    volume["metadata"] = {"name": name, "finalizers": created.body["metadata"]["finalizers"]}
    url = f"/api/v1/persistentvolumes/{name}/status"
    first = api.put(url, {**volume, "status": {"phase": "Available"}}).body["status"]
    assert "lastPhaseTransitionTime" in first
    again = api.put(url, {**volume, "status": {"phase": "Available", "message": "m"}}).body
    assert again["status"]["lastPhaseTransitionTime"] == first["lastPhaseTransitionTime"]
    own = {"phase": "Bound", "lastPhaseTransitionTime": EARLIER}
    bound = api.put(url, {**volume, "status": own}).body["status"]
    assert bound["lastPhaseTransitionTime"] == EARLIER
    released = api.put(url, {**volume, "status": {**own, "phase": "Released"}}).body["status"]
    assert released["lastPhaseTransitionTime"] != EARLIER
    assert api.delete(f"/api/v1/persistentvolumes/{name}").code == 200


@scenario
def the_status_of_a_volume_claim_is_checked(api: Api, ns: str) -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}}
    claim |= {"spec": spec}
    api.post(path("api/v1", ns, "persistentvolumeclaims"), claim)
    url = path("api/v1", ns, "persistentvolumeclaims", "c", "status")
    for status, expected in (
        ({"capacity": {"storage": "-1"}}, ["status.capacity[storage]"]),
        ({"allocatedResources": {"storage": "2Gi"}}, []),
        ({"allocatedResources": {"cpu": "1"}}, ["status.allocatedResources"]),
        ({"allocatedResources": {"a b": "1"}}, ["status.allocatedResources"]),
        ({"allocatedResources": {"storage": "0.5"}}, []),
        ({"allocatedResources": {"storage": "-1"}}, ["status.allocatedResources[storage]"]),
        ({"allocatedResourceStatuses": {"storage": "NodeResizePending"}}, []),
        ({"allocatedResourceStatuses": {"storage": "x"}}, ["status.allocatedResourceStatuses"]),
        ({"allocatedResourceStatuses": {"cpu": "x"}}, ["status.allocatedResourceStatuses"] * 2),
    ):
        assert refusals(api, url, claim, status) == expected


@scenario
def other_statuses_are_checked(api: Api, ns: str) -> None:
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}}
    budget |= {"spec": {"minAvailable": 1}}
    url = path("apis/policy/v1", ns, "poddisruptionbudgets")
    stored = api.post(url, budget).body
    counts = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    good = dict.fromkeys(counts, 0)
    for change, expected in (
        ({"disruptionsAllowed": -1}, ["status.disruptionsAllowed"]),
        (
            {"expectedPods": -1, "currentHealthy": -2},
            ["status.currentHealthy", "status.expectedPods"],
        ),
        ({"conditions": [{"type": "a", "status": "x"}]}, None),
    ):
        refused = refusals(api, f"{url}/b/status", stored, {**good, **change})
        assert refused == expected or (expected is None and len(refused) == 3)
    name = f"node-{ns}"
    api.post("/api/v1/nodes", node(name))
    status = {"config": {"error": "e"}, "phase": "Running"}
    answer = api.put(f"/api/v1/nodes/{name}/status", {**node(name), "status": status})
    assert answer.code == 200
    assert "config" not in answer.body["status"]
    api.delete(f"/api/v1/nodes/{name}")
