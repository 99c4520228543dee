"""A scheduler's requests: bind, evict, set conditions, write events, hold a lease."""

from __future__ import annotations

from tests.integration.contract.api import STRATEGIC, Api
from tests.integration.contract.objects import binding, labelled, node, pod
from tests.integration.contract.scenario import path, pods, scenario


@scenario
def a_binding_gives_a_pod_its_node(api: Api, ns: str) -> None:
    made = api.post(pods(ns), pod("p")).body
    bound = api.post(pods(ns, "p", "binding"), binding("p", "n1", uid=made["metadata"]["uid"]))

    assert bound.code == 201
    assert bound.body["status"] == "Success"
    found = api.get(pods(ns, "p")).body
    assert found["spec"]["nodeName"] == "n1"
    condition = found["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "True")


@scenario
def a_pod_is_bound_once(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    api.post(pods(ns, "p", "binding"), binding("p", "n1"))
    again = api.post(pods(ns, "p", "binding"), binding("p", "n2"))

    assert (again.code, again.reason) == (409, "Conflict")
    assert again.message == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n1"'
    )


@scenario
def a_binding_of_another_pod_of_the_name_is_refused(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    wrong = "11111111-2222-3333-4444-555555555555"
    refused = api.post(pods(ns, "p", "binding"), binding("p", "n1", uid=wrong))

    assert (refused.code, refused.reason) == (409, "Conflict")
    assert "nodeName" not in api.get(pods(ns, "p")).body["spec"]


@scenario
def a_gated_pod_is_not_bound(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p", schedulingGates=[{"name": "example.com/wait"}]))
    refused = api.post(pods(ns, "p", "binding"), binding("p", "n1"))

    assert (refused.code, refused.reason) == (409, "Conflict")
    assert "has non-empty .spec.schedulingGates" in refused.message
    conditions = api.get(pods(ns, "p")).body["status"]["conditions"]
    assert [(c["type"], c["reason"]) for c in conditions] == [("PodScheduled", "SchedulingGated")]


@scenario
def gates_are_removed_and_never_added(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p", schedulingGates=[{"name": "example.com/wait"}]))
    opened = api.patch(pods(ns, "p"), {"spec": {"schedulingGates": None}})
    closed = api.patch(pods(ns, "p"), {"spec": {"schedulingGates": [{"name": "a.b/c"}]}})

    assert opened.code == 200
    assert "schedulingGates" not in opened.body["spec"]
    assert (closed.code, closed.reason) == (422, "Invalid")


@scenario
def a_pod_that_is_being_deleted_is_not_bound(api: Api, ns: str) -> None:
    made = pod("p")
    made["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(pods(ns), made)
    api.delete(pods(ns, "p"))
    refused = api.post(pods(ns, "p", "binding"), binding("p", "n1"))

    assert (refused.code, refused.reason) == (409, "Conflict")
    assert "is being deleted, cannot be assigned to a host" in refused.message
    api.patch(pods(ns, "p"), {"metadata": {"finalizers": None}})


@scenario
def a_binding_without_a_pod_or_a_target_is_refused(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    missing = api.post(pods(ns, "none", "binding"), binding("none", "n1"))
    nowhere = api.post(pods(ns, "p", "binding"), binding("p", ""))
    other_kind = binding("p", "n1")
    other_kind["target"]["kind"] = "Rack"
    wrong = api.post(pods(ns, "p", "binding"), other_kind)

    assert missing.code == 404
    assert nowhere.code == 500
    assert wrong.code == 500


@scenario
def labels_and_annotations_of_a_binding_are_copied(api: Api, ns: str) -> None:
    api.post(pods(ns), labelled(pod("p"), a="1"))
    extra = binding("p", "n1", annotations={"note": "x"}, labels={"b": "2"})
    api.post(pods(ns, "p", "binding"), extra)

    metadata = api.get(pods(ns, "p")).body["metadata"]
    assert metadata["annotations"] == {"note": "x"}
    assert metadata["labels"]["a"] == "1"


@scenario
def a_bound_pod_carries_the_topology_of_its_node(api: Api, ns: str) -> None:
    name = f"{ns}-topology"
    wanted = labelled(
        node(name),
        **{
            "topology.kubernetes.io/zone": "z1",
            "topology.kubernetes.io/region": "r1",
            "disk": "ssd",
        },
    )
    api.post("/api/v1/nodes", wanted)
    api.post(pods(ns), pod("p"))
    api.post(pods(ns, "p", "binding"), binding("p", name))

    assert api.get(pods(ns, "p")).body["metadata"]["labels"] == {
        "topology.kubernetes.io/zone": "z1",
        "topology.kubernetes.io/region": "r1",
    }
    api.delete(f"/api/v1/nodes/{name}")


@scenario
def a_nomination_ends_with_the_binding(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    nominated = api.patch(pods(ns, "p", "status"), {"status": {"nominatedNodeName": "n1"}})
    assert nominated.body["status"]["nominatedNodeName"] == "n1"
    api.post(pods(ns, "p", "binding"), binding("p", "n2"))

    assert "nominatedNodeName" not in api.get(pods(ns, "p")).body["status"]


@scenario
def conditions_merge_by_type(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    first = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"}
    api.patch(pods(ns, "p", "status"), {"status": {"conditions": [first]}}, STRATEGIC)
    other = {"type": "Other", "status": "True"}
    changed = {"type": "PodScheduled", "message": "m2"}
    patch = {"status": {"conditions": [other, changed]}}
    merged = api.patch(pods(ns, "p", "status"), patch, STRATEGIC)

    found = {c["type"]: c for c in merged.body["status"]["conditions"]}
    assert found["PodScheduled"]["reason"] == "Unschedulable"
    assert found["PodScheduled"]["message"] == "m2"
    assert found["Other"]["status"] == "True"


@scenario
def an_eviction_deletes_a_pod(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    evicted = api.post(pods(ns, "p", "eviction"), body)

    assert evicted.code == 201
    assert api.get(pods(ns, "p")).code == 404
    assert api.post(pods(ns, "p", "eviction"), body).code == 404


@scenario
def an_eviction_of_another_pod_of_the_name_is_refused(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "p"},
        "deleteOptions": {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}},
    }
    refused = api.post(pods(ns, "p", "eviction"), body)

    assert (refused.code, refused.reason) == (409, "Conflict")


@scenario
def a_budget_that_nobody_has_filled_in_forbids_evictions(api: Api, ns: str) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    api.post(path("apis/policy/v1", ns, "poddisruptionbudgets"), budget)
    api.post(pods(ns), labelled(pod("p"), app="web"))
    api.post(pods(ns, "p", "binding"), binding("p", "n1"))
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    api.patch(pods(ns, "p", "status"), running)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    refused = api.post(pods(ns, "p", "eviction"), body)

    assert (refused.code, refused.reason) == (429, "TooManyRequests")
    assert refused.body["details"]["causes"][0]["reason"] == "DisruptionBudget"


@scenario
def a_budget_counts_down(api: Api, ns: str) -> None:
    budgets = path("apis/policy/v1", ns, "poddisruptionbudgets")
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    api.post(budgets, budget)
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": 1,
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    api.patch(f"{budgets}/b/status", {"status": status})
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    for name in ("p", "q"):
        api.post(pods(ns), labelled(pod(name), app="web"))
        api.post(pods(ns, name, "binding"), binding(name, "n1"))
        api.patch(pods(ns, name, "status"), running)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert api.post(pods(ns, "p", "eviction"), body).code == 201
    after = api.get(f"{budgets}/b").body["status"]
    assert after["disruptionsAllowed"] == 0
    assert list(after["disruptedPods"]) == ["p"]

    body["metadata"] = {"name": "q"}
    assert api.post(pods(ns, "q", "eviction"), body).code == 429


@scenario
def an_event_is_seen_in_both_groups(api: Api, ns: str) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e.1"},
        "eventTime": "2026-11-21T10:00:00.000000Z",
        "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-here",
        "action": "Binding",
        "reason": "Scheduled",
        "regarding": {"kind": "Pod", "namespace": ns, "name": "p", "apiVersion": "v1", "uid": "u"},
        "note": "Successfully assigned",
        "type": "Normal",
    }
    made = api.post(path("apis/events.k8s.io/v1", ns, "events"), event)
    assert made.code == 201
    seen = api.get(path("api/v1", ns, "events", "e.1")).body
    assert seen["involvedObject"]["name"] == "p"
    assert seen["message"] == "Successfully assigned"
    assert seen["reportingComponent"] == "default-scheduler"
    mine = api.get(
        path("api/v1", ns, "events"), fieldSelector="involvedObject.name=p,involvedObject.uid=u"
    )
    assert [item["metadata"]["name"] for item in mine.body["items"]] == ["e.1"]
    series = {"series": {"count": 2, "lastObservedTime": "2026-11-21T10:01:00.000000Z"}}
    assert api.patch(path("apis/events.k8s.io/v1", ns, "events", "e.1"), series).code == 200


@scenario
def an_event_needs_a_time(api: Api, ns: str) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e.1"},
        "regarding": {"kind": "Pod", "namespace": ns, "name": "p"},
    }
    made = api.post(path("apis/events.k8s.io/v1", ns, "events"), event)

    assert (made.code, made.reason) == (422, "Invalid")
    api.notes.clear()


@scenario
def a_lease_is_taken_over_by_version(api: Api, ns: str) -> None:
    leases = path("apis/coordination.k8s.io/v1", ns, "leases")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "scheduler"},
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-11-21T10:00:00.000000Z",
            "renewTime": "2026-11-21T10:00:00.000000Z",
            "leaseTransitions": 0,
        },
    }
    made = api.post(leases, lease)
    assert made.code == 201
    taken = {**made.body, "spec": {**made.body["spec"], "holderIdentity": "b"}}
    assert api.put(f"{leases}/scheduler", taken).code == 200
    late = {**made.body, "spec": {**made.body["spec"], "holderIdentity": "c"}}
    assert api.put(f"{leases}/scheduler", late).code == 409


@scenario
def a_priority_class_becomes_a_number(api: Api, ns: str) -> None:
    name = f"{ns}-high"
    gold = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": 1000,
        "preemptionPolicy": "Never",
    }
    api.post("/apis/scheduling.k8s.io/v1/priorityclasses", gold)
    made = api.post(pods(ns), pod("p", priorityClassName=name))
    assert made.body["spec"]["priority"] == 1000
    assert made.body["spec"]["preemptionPolicy"] == "Never"
    unknown = api.post(pods(ns), pod("q", priorityClassName="nothing"))
    assert (unknown.code, unknown.reason) == (403, "Forbidden")
    assert "no PriorityClass with name nothing was found" in unknown.message
    own = api.post(pods(ns), pod("r", priority=7))
    assert own.code == 403
    critical = api.post(pods(ns), pod("s", priorityClassName="system-node-critical"))
    assert critical.body["spec"]["priority"] == 2000001000
    api.delete(f"/apis/scheduling.k8s.io/v1/priorityclasses/{name}")


@scenario
def keys_of_pod_labels_become_selectors(api: Api, ns: str) -> None:
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["version"],
    }
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["version"],
        "mismatchLabelKeys": ["tenant"],
    }
    affinity = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
    }
    wanted = labelled(
        pod("p", topologySpreadConstraints=[spread], affinity=affinity),
        app="web",
        version="2",
        tenant="t",
    )
    made = api.post(pods(ns), wanted)

    assert made.code == 201
    required = made.body["spec"]["affinity"]["podAffinity"]
    (stored,) = required["requiredDuringSchedulingIgnoredDuringExecution"]
    assert stored["labelSelector"]["matchExpressions"] == [
        {"key": "version", "operator": "In", "values": ["2"]},
        {"key": "tenant", "operator": "NotIn", "values": ["t"]},
    ]
