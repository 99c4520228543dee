"""managedFields: who wrote which field, and what server-side apply makes of it."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import APPLY, JSON_PATCH, MERGE, STRATEGIC, Api
from tests.integration.contract.objects import binding, config_map, deployment, node, pod
from tests.integration.contract.scenario import path, pods, scenario

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def maps(namespace: str, name: str = "") -> str:
    return path("api/v1", namespace, "configmaps", name)


def deployments(namespace: str, name: str = "", part: str = "") -> str:
    return path("apis/apps/v1", namespace, "deployments", name, part)


def owners(answer: Any) -> dict[tuple[str, str, str], Any]:
    """Returns (manager, operation, subresource) -> fields."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in answer.body["metadata"].get("managedFields", [])
    }


@scenario
def who_creates_owns_what_it_wrote_and_the_defaults(api: Api, ns: str) -> None:
    made = api.post(pods(ns), pod("p"), fieldManager="me")

    spec = owners(made)["me", "Update", ""]["f:spec"]
    assert set(spec["f:containers"]) == {'k:{"name":"c"}'}
    assert spec["f:containers"]['k:{"name":"c"}']["."] == {}
    assert "f:dnsPolicy" in spec
    # Fields that admission adds have no manager.
    assert not {"f:tolerations", "f:priority"} & spec.keys()


@scenario
def who_changes_a_field_takes_it(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1", b="1"), fieldManager="first")
    changed = api.patch(maps(ns, "one"), {"data": {"a": "2", "c": "3"}}, fieldManager="second")
    found = owners(changed)

    assert found["first", "Update", ""]["f:data"] == {".": {}, "f:b": {}}
    assert found["second", "Update", ""]["f:data"] == {"f:a": {}, "f:c": {}}


@scenario
def what_is_removed_belongs_to_nobody(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1", b="1"), fieldManager="first")
    left = api.ask("PUT", maps(ns, "one"), config_map("one", b="1"), fieldManager="second")
    nothing = api.patch(maps(ns, "one"), {"data": None}, fieldManager="third")

    assert owners(left) == {("first", "Update", ""): {"f:data": {".": {}, "f:b": {}}}}
    assert owners(nothing) == {}


@scenario
def the_same_value_again_is_no_change(api: Api, ns: str) -> None:
    made = api.post(maps(ns), config_map("one", a="1"), fieldManager="first")
    again = api.patch(maps(ns, "one"), {"data": {"a": "1"}}, fieldManager="second")

    assert owners(again) == owners(made)
    version = made.body["metadata"]["resourceVersion"]
    assert again.body["metadata"]["resourceVersion"] == version


@scenario
def each_subresource_has_its_own_entry(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"), fieldManager="me")
    ready = {"type": "Ready", "status": "True"}
    status = {"status": {"phase": "Running", "conditions": [ready]}}
    api.patch(pods(ns, "p", "status"), status, STRATEGIC, fieldManager="kubelet")
    found = owners(api.get(pods(ns, "p")))

    conditions = found["kubelet", "Update", "status"]["f:status"]["f:conditions"]
    assert set(conditions) == {".", 'k:{"type":"Ready"}'}
    assert "f:status" not in found["me", "Update", ""]


@scenario
def a_status_sent_with_the_object_is_not_owned(api: Api, ns: str) -> None:
    made = api.post("/api/v1/nodes", node(f"{ns}-n"))
    labelled = api.patch(f"/api/v1/nodes/{ns}-n", {"metadata": {"labels": {"a": "b"}}})

    assert owners(made) == {}
    # Without an entry, field ownership is not tracked.
    assert owners(labelled) == {}
    api.delete(f"/api/v1/nodes/{ns}-n")


@scenario
def binding_leaves_no_entry(api: Api, ns: str) -> None:
    made = api.post(pods(ns), pod("p"), fieldManager="me")
    bound = {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    api.post(pods(ns, "p", "binding"), binding("p", "n", **bound), fieldManager="scheduler")

    assert owners(api.get(pods(ns, "p"))) == owners(made)


@scenario
def scale_has_an_entry_without_a_time(api: Api, ns: str) -> None:
    api.post(deployments(ns), deployment("web"), fieldManager="me")
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "web"}}
    url = deployments(ns, "web", "scale")
    api.ask("PUT", url, {**scale, "spec": {"replicas": 4}}, fieldManager="scaler")
    found = api.get(deployments(ns, "web"))

    assert owners(found)["scaler", "Update", "scale"] == {"f:spec": {"f:replicas": {}}}
    entry = next(e for e in found.body["metadata"]["managedFields"] if e["manager"] == "scaler")
    assert "time" not in entry


@scenario
def lists_that_are_one_value_have_no_parts(api: Api, ns: str) -> None:
    # Of a kind that is not served: no controller deletes the dependents of an absent one.
    owner = {"apiVersion": "example.com/v1", "kind": "Owner", "name": "n", "uid": "u-1"}
    metadata = {"name": "p", "ownerReferences": [owner], "finalizers": ["a.b/c"]}
    spec = {"nodeSelector": {"a": "b"}, "imagePullSecrets": [{"name": "s"}]}
    made = api.post(pods(ns), {**pod("p", **spec), "metadata": metadata}, fieldManager="me")
    found = owners(made)["me", "Update", ""]

    assert found["f:metadata"]["f:ownerReferences"] == {".": {}, 'k:{"uid":"u-1"}': {}}
    assert found["f:metadata"]["f:finalizers"] == {".": {}, 'v:"a.b/c"': {}}
    assert found["f:spec"]["f:nodeSelector"] == {}
    assert found["f:spec"]["f:imagePullSecrets"] == {".": {}, 'k:{"name":"s"}': {}}
    api.patch(pods(ns, "p"), {"metadata": {"finalizers": None}})


@scenario
def entries_can_be_forgotten(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1"))
    gone = api.patch(maps(ns, "one"), {"metadata": {"managedFields": [{}]}})
    still = api.patch(maps(ns, "one"), {"data": {"b": "1"}})
    applied = api.patch(maps(ns, "one"), config_map("one", c="1"), APPLY, fieldManager="me")

    assert owners(gone) == owners(still) == {}
    # The first apply finds owners for what was there before it.
    assert set(owners(applied)) == {("before-first-apply", "Update", ""), ("me", "Apply", "")}


@scenario
def entries_of_the_client_count_if_they_make_sense(api: Api, ns: str) -> None:
    good = {
        "manager": "x",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:k": {}, "f:l": {}}},
    }
    for bad in ({"manager": "x"}, {**good, "operation": "Foo"}, {**good, "fieldsType": "V2"}):
        made = {**config_map("one", k="1"), "metadata": {"name": "one", "managedFields": [bad]}}
        answer = api.post(maps(ns), made, fieldManager="me")
        assert set(owners(answer)) == {("me", "Update", "")}
        api.delete(maps(ns, "one"))
    api.post(maps(ns), config_map("one", k="1", l="1"), fieldManager="me")
    patch = [{"op": "replace", "path": "/metadata/managedFields", "value": [good]}]
    answer = api.patch(maps(ns, "one"), patch, JSON_PATCH, fieldManager="me")
    assert set(owners(answer)) == {("x", "Apply", "")}


@scenario
def fields_of_the_client_are_read_before_they_count(api: Api, ns: str) -> None:
    entry = {"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}

    def left(name: str, fields: Any) -> Any:
        made = config_map(name, k="1")
        made["metadata"]["managedFields"] = [{**entry, "fieldsV1": fields}]
        answer = api.post(maps(ns), made, fieldManager="me")
        assert answer.code == 201
        return owners(answer).get(("x", "Update", ""))

    # An entry without a set, or with an invalid path, is ignored.
    odd: list[Any] = [[{}], [], "x", "", 1, 0, 1.5, True, False]
    unreadable = [{"f:data": {"f:k": each}} for each in odd] + [{"f:data": each} for each in odd]
    unreadable += [{"f:z": {step: {}}} for step in ("", "f", "data", "k:x", "k:[]", "v:", "i:x")]
    for number, fields in enumerate([*odd, *unreadable]):
        assert left(f"odd-{number}", fields) is None, fields
    # The rest is kept in one form: null is an end, and what is not known is left out.
    for number, (fields, kept) in enumerate(
        (
            ({"f:z": None}, {"f:z": {}}),
            ({"f:z": {".": 1, "f:y": None}}, {"f:z": {".": {}, "f:y": {}}}),
            ({"f:z": {".": {"f:y": {}}}}, {"f:z": {}}),
            ({"f:z": {"x:y": 1}}, {"f:z": {}}),
            ({".": {}, "f:z": {"v: 1.50": {}}}, {"f:z": {"v:1.5": {}}}),
            ({"f:z": {'k:{"b":1, "a":2}': {}}}, {"f:z": {'k:{"a":2,"b":1}': {}}}),
            ({"f:z": {"i:01": {}}}, {"f:z": {"i:1": {}}}),
        )
    ):
        assert left(f"kept-{number}", fields) == kept
    changed = {**config_map("odd-0", k="1")}
    changed["metadata"]["managedFields"] = [{**entry, "fieldsV1": {"f:data": [{}]}}]
    answer = api.put(maps(ns, "odd-0"), changed, fieldManager="you")
    assert set(owners(answer)) == {("me", "Update", "")}


@scenario
def only_ten_updaters_are_kept(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1"), fieldManager="m0")
    for number in range(1, 13):
        change = {"data": {f"k{number:02}": "1"}}
        answer = api.patch(maps(ns, "one"), change, fieldManager=f"m{number:02}")
    managers = {manager for manager, _, _ in owners(answer)}

    assert len(managers) == 10
    assert {"ancient-changes", "m12"} <= managers
    api.notes.clear()  # which ones are the oldest is a matter of whole seconds


@scenario
def an_apply_meets_a_conflict(api: Api, ns: str) -> None:
    api.post(maps(ns), config_map("one", a="1"), fieldManager="first")
    refused = api.patch(maps(ns, "one"), config_map("one", a="2"), APPLY, fieldManager="second")
    same = api.patch(maps(ns, "one"), config_map("one", a="1"), APPLY, fieldManager="second")
    forced = api.patch(
        maps(ns, "one"), config_map("one", a="3"), APPLY, fieldManager="second", force="true"
    )

    assert (refused.code, refused.reason) == (409, "Conflict")
    text = 'Apply failed with 1 conflict: conflict with "first" using v1: .data.a'
    assert refused.message == text
    cause = refused.body["details"]["causes"][0]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".data.a")
    assert same.code == 200
    assert forced.body["data"] == {"a": "3"}
    assert owners(forced)["first", "Update", ""] == {"f:data": {}}


@scenario
def several_conflicts_are_told_at_once(api: Api, ns: str) -> None:
    api.post(deployments(ns), deployment("web", replicas=1), fieldManager="first")
    api.patch(deployments(ns, "web", "scale"), {"spec": {"replicas": 3}}, fieldManager="scaler")
    containers = [{"name": "c", "image": "other"}]
    wanted = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {"replicas": 5, "template": {"spec": {"containers": containers}}},
    }
    refused = api.patch(deployments(ns, "web"), wanted, APPLY, fieldManager="second")

    assert refused.code == 409
    assert refused.message == (
        'Apply failed with 2 conflicts: conflicts with "first" using apps/v1:\n'
        '- .spec.template.spec.containers[name="c"].image\n'
        'conflicts with "scaler" with subresource "scale" using apps/v1:\n'
        "- .spec.replicas"
    )
    api.notes.pop()  # the order of the causes is that of a Go map


@scenario
def kubectl_takes_over_what_it_applied_before(api: Api, ns: str) -> None:
    wanted = config_map("one", a="1")
    noted = {**wanted, "metadata": {"name": "one", "annotations": {LAST_APPLIED: "x"}}}
    text = '{"apiVersion":"v1","data":{"a":"1"},"kind":"ConfigMap","metadata":{"name":"one"}}\n'
    noted["metadata"]["annotations"][LAST_APPLIED] = text
    api.post(maps(ns), noted, fieldManager="kubectl-client-side-apply")
    changed = api.patch(maps(ns, "one"), config_map("one", a="2"), APPLY, fieldManager="kubectl")
    other = api.patch(maps(ns, "one"), config_map("one", a="3"), APPLY, fieldManager="else")

    assert changed.code == 200
    assert '"a":"2"' in changed.body["metadata"]["annotations"][LAST_APPLIED]
    assert other.code == 409


@scenario
def what_one_lets_go_goes_unless_others_want_it(api: Api, ns: str) -> None:
    url = maps(ns, "one")
    api.patch(url, config_map("one", a="1", b="1"), APPLY, fieldManager="first")
    api.patch(url, config_map("one", b="1", c="1"), APPLY, fieldManager="second")
    left = api.patch(url, config_map("one"), APPLY, fieldManager="first")
    api.patch(url, {"data": {"d": "1"}}, MERGE, fieldManager="third")
    last = api.patch(url, config_map("one"), APPLY, fieldManager="second")

    assert left.body["data"] == {"b": "1", "c": "1"}
    assert last.body["data"] == {"d": "1"}


@scenario
def what_cannot_be_applied_is_said_field_by_field(api: Api, ns: str) -> None:
    api.post(deployments(ns), deployment("web"))

    def applied(spec: Any, **metadata: Any) -> Any:
        named = {"apiVersion": "apps/v1", "kind": "Deployment"}
        wanted = {**named, "metadata": {"name": "web", **metadata}, "spec": spec}
        url = deployments(ns, "web")
        return api.patch(url, wanted, APPLY, fieldManager="me", force="true")

    def containers(items: Any) -> Any:
        return {"template": {"spec": {"containers": items}}}

    lead = ".spec.template.spec.containers"
    for spec, problem in (
        ({"replicas": "x"}, ".spec.replicas: expected numeric (int or float), got string"),
        (containers("x"), f"{lead}: expected list, got &{{x}}"),
        (containers(["x"]), "element 0: associative list with keys may not have non-map elements"),
        (containers([None]), "element 0: associative list with keys may not have a null element"),
        (containers([{"name": "c"}] * 2), f'{lead}: duplicate entries for key [name="c"]'),
        (containers([{"name": 5}]), f"{lead}[name=5].name: expected string, got &value"),
        (containers([{"name": "c", "nme": 1}]), f'{lead}[name="c"].nme: field not declared'),
    ):
        answer = applied(spec)
        assert answer.code == 500
        assert problem in answer.message
    assert applied({}, finalizers=["a/b", "a/b"]).message.endswith('for key [="a/b"]')


@scenario
def both_kinds_of_events_have_their_own_entries(api: Api, ns: str) -> None:
    event = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "a/b",
        "reportingInstance": "x",
        "action": "A",
        "reason": "R",
        "type": "Normal",
        "regarding": {"namespace": ns, "name": "p", "kind": "Pod"},
    }
    made = api.post(path("apis/events.k8s.io/v1", ns, "events"), event, fieldManager="me")
    changed = api.patch(path("api/v1", ns, "events", "e"), {"count": 3}, fieldManager="you")

    assert "f:regarding" in owners(made)["me", "Update", ""]
    assert owners(changed) == {("you", "Update", ""): {"f:count": {}}}


@scenario
def applied_lists_are_woven_together(api: Api, ns: str) -> None:
    labels = {"app": "web"}

    def applied(names: str, manager: str) -> str:
        containers = [{"name": name, "image": "x"} for name in names]
        template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
        wanted = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
        url = deployments(ns, "web")
        found = api.patch(url, wanted, APPLY, fieldManager=manager, force="true").body
        return "".join(c["name"] for c in found["spec"]["template"]["spec"]["containers"])

    for steps in (
        (("ac", "x", "ac"), ("bc", "y", "abc"), ("ca", "x", "bca"), ("b", "y", "bca")),
        (("dbac", "y", "dbac"), ("edab", "z", "edacb"), ("cde", "x", "acbde")),
        (("caed", "z", "caed"), ("acdb", "x", "aecdb"), ("abce", "y", "adbce")),
    ):
        for names, manager, expected in steps:
            assert applied(names, manager) == expected
        api.delete(deployments(ns, "web"))


@scenario
def empty_lists_of_an_apply_have_no_elements_to_own(api: Api, ns: str) -> None:
    node_name = f"{ns}-n"
    nodes = path("apis/storage.k8s.io/v1", "", "csinodes", node_name)

    def applied(*drivers: dict[str, Any]) -> dict[str, Any]:
        head = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode"}
        csi_node = {**head, "metadata": {"name": node_name}, "spec": {"drivers": list(drivers)}}
        answer = api.patch(nodes, csi_node, APPLY, fieldManager="m")
        entries: list[dict[str, Any]] = answer.body["metadata"].get("managedFields", [])
        return entries[0]["fieldsV1"] if entries else {}

    driver = {"name": "d", "nodeID": "n", "topologyKeys": [], "allocatable": {}}
    assert applied() == {}
    assert "f:drivers" in applied(driver)["f:spec"]
    assert applied() == {}
    api.delete(nodes)

    whole = pod("a", tolerations=[], volumes=[], nodeSelector={}, affinity={})
    whole["metadata"] |= {"finalizers": [], "ownerReferences": [], "annotations": {}}
    api.patch(pods(ns, "a"), whole, APPLY, fieldManager="m")
    head = {"apiVersion": "v1", "kind": "Pod"}
    for finalizers in ([], ["a/b"], []):
        part = {**head, "metadata": {"name": "a", "finalizers": finalizers}}
        api.patch(pods(ns, "a"), part, APPLY, fieldManager="n")
