"""Patches, server-side apply, deletion and what holds it up."""

from __future__ import annotations

from tests.integration.contract.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api
from tests.integration.contract.objects import binding, config_map, deployment, labelled, node, pod
from tests.integration.contract.scenario import path, pods, scenario


def maps(namespace: str, name: str = "") -> str:
    return path("api/v1", namespace, "configmaps", name)


@scenario
def a_merge_patch_sets_and_removes(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1", b="2"))
    patched = api.patch(maps(ns, "one"), {"data": {"a": None, "c": "3"}}, MERGE)

    assert patched.code == 200
    assert patched.body["data"] == {"b": "2", "c": "3"}


@scenario
def a_json_patch_tests_and_changes(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1"))
    good = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "replace", "path": "/data/a", "value": "2"},
        {"op": "add", "path": "/data/b", "value": "3"},
    ]
    assert api.patch(maps(ns, "one"), good, JSON_PATCH).body["data"] == {"a": "2", "b": "3"}
    failed = api.patch(maps(ns, "one"), [good[0]], JSON_PATCH)
    missing = api.patch(maps(ns, "one"), [{"op": "remove", "path": "/data/z"}], JSON_PATCH)
    broken = api.patch(maps(ns, "one"), {"op": "add"}, JSON_PATCH)

    assert (failed.code, failed.reason) == (422, "Invalid")
    assert (missing.code, missing.reason) == (422, "Invalid")
    assert broken.code == 400
    assert api.get(maps(ns, "one")).body["data"] == {"a": "2", "b": "3"}
    api.notes.clear()


@scenario
def a_strategic_patch_merges_lists_by_key(api: Api, ns: str) -> None:
    api.post(path("apis/apps/v1", ns, "deployments"), deployment("web"))
    url = path("apis/apps/v1", ns, "deployments", "web")
    side = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "s"}]}}}}
    both = api.patch(url, side, STRATEGIC).body["spec"]["template"]["spec"]["containers"]
    assert sorted(c["name"] for c in both) == ["c", "side"]
    image = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "new"}]}}}}
    changed = api.patch(url, image, STRATEGIC).body["spec"]["template"]["spec"]["containers"]
    assert {c["name"]: c["image"] for c in changed} == {"c": "new", "side": "s"}
    gone = {"name": "side", "$patch": "delete"}
    removal = {"spec": {"template": {"spec": {"containers": [gone]}}}}
    left = api.patch(url, removal, STRATEGIC).body["spec"]["template"]["spec"]["containers"]
    assert [c["name"] for c in left] == ["c"]


@scenario
def taints_are_replaced_as_a_whole(api: Api, ns: str) -> None:
    name = f"{ns}-taints"
    first = {"key": "a", "value": "1", "effect": "NoSchedule"}
    api.post("/api/v1/nodes", node(name, taints=[first]))
    url = f"/api/v1/nodes/{name}"
    second = {"key": "b", "effect": "NoExecute"}
    added = api.patch(url, {"spec": {"taints": [second]}}, STRATEGIC)
    assert [t["key"] for t in added.body["spec"]["taints"]] == ["b"]
    directive = api.patch(url, {"spec": {"taints": [{"$patch": "replace"}, first]}}, STRATEGIC)
    assert directive.code >= 400
    cordoned = api.patch(url, {"spec": {"unschedulable": True}}, STRATEGIC)
    assert cordoned.body["spec"]["unschedulable"] is True
    freed = api.patch(url, {"spec": {"unschedulable": None}}, STRATEGIC)
    assert "unschedulable" not in freed.body["spec"]
    api.delete(url)


@scenario
def orders_and_primitive_lists_are_merged(api: Api, ns: str) -> None:
    url = path("apis/apps/v1", ns, "deployments", "web")
    api.post(path("apis/apps/v1", ns, "deployments"), deployment("web"))
    containers = [{"name": "a", "image": "a"}, {"name": "c"}]
    order = {"$setElementOrder/containers": [{"name": "a"}, {"name": "c"}]}
    body = {"spec": {"template": {"spec": {"containers": containers, **order}}}}
    ordered = api.patch(url, body, STRATEGIC).body["spec"]["template"]["spec"]["containers"]
    assert [c["name"] for c in ordered] == ["a", "c"]
    held = {"metadata": {"finalizers": ["a.b/c", "a.b/d"]}}
    api.patch(url, held, STRATEGIC)
    fewer = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/c"]}}
    left = api.patch(url, fewer, STRATEGIC).body["metadata"]["finalizers"]
    assert left == ["a.b/d"]
    retained = {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}
    recreated = api.patch(url, retained, STRATEGIC)
    assert recreated.body["spec"]["strategy"] == {"type": "Recreate"}
    api.patch(url, {"metadata": {"finalizers": None}})


@scenario
def a_patch_can_insist_on_a_version(api: Api, ns: str) -> None:
    made = api.post(maps(ns), config_map("one", a="1")).body
    api.patch(maps(ns, "one"), {"data": {"a": "2"}})
    late = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {}}
    refused = api.patch(maps(ns, "one"), late)

    assert (refused.code, refused.reason) == (409, "Conflict")


@scenario
def a_patch_can_insist_on_a_uid(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1"))
    other = {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}, "data": {"a": "9"}}
    refused = api.patch(maps(ns, "one"), other)

    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.body["details"]["causes"][0]["field"] == "metadata.uid"


@scenario
def an_apply_makes_and_changes(api: Api, ns: str) -> None:
    wanted = config_map("one", a="1", b="2")
    made = api.patch(maps(ns, "one"), wanted, APPLY, fieldManager="test", force="true")
    assert made.code == 201
    fewer = config_map("one", b="3")
    changed = api.patch(maps(ns, "one"), fewer, APPLY, fieldManager="test", force="true")

    assert changed.code == 200
    assert changed.body["data"] == {"b": "3"}
    managers = changed.body["metadata"]["managedFields"]
    assert [(m["manager"], m["operation"]) for m in managers] == [("test", "Apply")]


@scenario
def what_others_own_stays_when_a_manager_lets_go(api: Api, ns: str) -> None:
    api.patch(
        maps(ns, "one"), config_map("one", a="1", b="2"), APPLY, fieldManager="first", force="true"
    )
    api.patch(maps(ns, "one"), config_map("one", a="1"), APPLY, fieldManager="second", force="true")
    left = api.patch(maps(ns, "one"), config_map("one"), APPLY, fieldManager="first", force="true")

    assert left.body["data"] == {"a": "1"}


@scenario
def an_apply_needs_a_manager(api: Api, ns: str) -> None:
    refused = api.patch(maps(ns, "one"), config_map("one"), APPLY)

    assert refused.code in (400, 422)
    assert "fieldManager" in refused.message


@scenario
def an_apply_of_a_pod_keeps_its_defaults(api: Api, ns: str) -> None:
    wanted = labelled(pod("p"), app="web")
    made = api.patch(pods(ns, "p"), wanted, APPLY, fieldManager="test", force="true")
    assert made.code == 201
    again = api.patch(pods(ns, "p"), wanted, APPLY, fieldManager="test", force="true")

    assert again.code == 200
    assert again.body["metadata"]["resourceVersion"] == made.body["metadata"]["resourceVersion"]
    assert again.body["spec"] == made.body["spec"]


@scenario
def a_deletion_answers_with_what_it_deleted(api: Api, ns: str) -> None:
    made = api.post(maps(ns), config_map("one")).body
    deleted = api.delete(maps(ns, "one"))

    assert deleted.code == 200
    assert deleted.body["kind"] == "Status"
    assert deleted.body["status"] == "Success"
    assert deleted.body["details"]["uid"] == made["metadata"]["uid"]
    assert api.get(maps(ns, "one")).code == 404
    pod_made = api.post(pods(ns), pod("p")).body
    gone = api.delete(pods(ns, "p"))
    assert gone.body["metadata"]["uid"] == pod_made["metadata"]["uid"]


@scenario
def a_pod_without_a_node_is_deleted_at_once(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    version = api.get(pods(ns)).body["metadata"]["resourceVersion"]
    with api.watch(pods(ns), resourceVersion=version) as watch:
        assert api.delete(pods(ns, "p")).code == 200
        assert watch.take(2) == [("MODIFIED", "p"), ("DELETED", "p")]
    assert api.get(pods(ns, "p")).code == 404


@scenario
def a_bound_pod_is_given_its_grace(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    api.post(pods(ns, "p", "binding"), binding("p", "n1"))
    deleted = api.delete(pods(ns, "p"))

    assert deleted.code == 200
    assert deleted.body["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "deletionTimestamp" in deleted.body["metadata"]
    assert api.get(pods(ns, "p")).code == 200
    shorter = api.delete(pods(ns, "p"), {"gracePeriodSeconds": 5})
    assert shorter.body["metadata"]["deletionGracePeriodSeconds"] == 5
    assert api.delete(pods(ns, "p"), {"gracePeriodSeconds": 0}).code == 200
    assert api.get(pods(ns, "p")).code == 404


@scenario
def a_finalizer_holds_an_object(api: Api, ns: str) -> None:
    held = config_map("one")
    held["metadata"]["finalizers"] = ["example.com/hold"]
    api.post(maps(ns), held)
    deleted = api.delete(maps(ns, "one"))
    assert deleted.code == 200
    assert "deletionTimestamp" in api.get(maps(ns, "one")).body["metadata"]
    more = api.patch(maps(ns, "one"), {"metadata": {"finalizers": ["example.com/hold", "a.b/c"]}})
    assert more.code == 422
    released = api.patch(maps(ns, "one"), {"metadata": {"finalizers": None}})
    assert released.code == 200
    assert api.get(maps(ns, "one")).code == 404


@scenario
def a_deletion_can_insist(api: Api, ns: str) -> None:
    made = api.post(maps(ns), config_map("one")).body
    wrong = {"preconditions": {"uid": "11111111-2222-3333-4444-555555555555"}}
    refused = api.delete(maps(ns, "one"), wrong)
    assert (refused.code, refused.reason) == (409, "Conflict")
    stale = {"preconditions": {"resourceVersion": "1"}}
    assert api.delete(maps(ns, "one"), stale).code == 409
    right = {"preconditions": {"uid": made["metadata"]["uid"]}}
    assert api.delete(maps(ns, "one"), right).code == 200


@scenario
def a_collection_is_deleted_by_selector(api: Api, ns: str) -> None:
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        api.post(maps(ns), labelled(config_map(name), app=app))
    deleted = api.delete(maps(ns), labelSelector="app=x")

    assert deleted.code == 200
    left = api.get(maps(ns), labelSelector="app").body["items"]
    assert [item["metadata"]["name"] for item in left] == ["c"]


@scenario
def a_node_is_checked_and_keeps_its_name(api: Api, ns: str) -> None:
    name = f"{ns}-n"
    bad = node(name, taints=[{"key": "a", "effect": "Sometimes"}])
    refused = api.post("/api/v1/nodes", bad)
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.body["details"]["causes"][0]["field"] == "metadata.taints[0].effect"
    made = api.post("/api/v1/nodes", node(name))
    assert made.code == 201
    assert made.body["status"]["allocatable"]["cpu"] == "4"
    renamed = api.patch(f"/api/v1/nodes/{name}", {"spec": {"podCIDR": "10.0.0.0/24"}})
    assert renamed.code == 200
    api.delete(f"/api/v1/nodes/{name}")


@scenario
def a_namespace_empties_before_it_goes(api: Api, ns: str) -> None:
    name = f"{ns}-inner"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    made = api.post("/api/v1/namespaces", space)
    assert made.code == 201
    assert made.body["status"] == {"phase": "Active"}
    assert made.body["metadata"]["labels"] == {"kubernetes.io/metadata.name": name}
    assert made.body["spec"]["finalizers"] == ["kubernetes"]
    deleted = api.delete(f"/api/v1/namespaces/{name}")
    assert deleted.code == 200
    api.notes.clear()


@scenario
def discovery_names_what_is_served(api: Api, ns: str) -> None:
    core = {entry["name"]: entry for entry in api.get("/api/v1").body["resources"]}
    assert core["pods"]["shortNames"] == ["po"]
    assert core["pods/binding"]["kind"] == "Binding"
    assert core["nodes"]["namespaced"] is False
    apps = {entry["name"]: entry for entry in api.get("/apis/apps/v1").body["resources"]}
    assert apps["deployments"]["shortNames"] == ["deploy"]
    version = api.get("/version").body
    assert (version["major"], version["minor"]) == ("1", "36")
    groups = {group["name"] for group in api.get("/apis").body["groups"]}
    assert {"apps", "policy", "events.k8s.io", "coordination.k8s.io"} <= groups
    for healthy in ("/healthz", "/livez", "/readyz"):
        assert api.ask("GET", healthy, accept="*/*").body == "ok"
    api.notes.clear()


@scenario
def rights_can_be_asked_for(api: Api, ns: str) -> None:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"namespace": ns, "verb": "create", "resource": "pods"}},
    }
    answer = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)

    assert answer.code == 201
    assert answer.body["status"]["allowed"] is True
    api.notes.clear()
