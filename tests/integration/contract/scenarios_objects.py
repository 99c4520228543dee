"""Create, get, replace, delete: identity, versions, names, and what is refused."""

from __future__ import annotations

import re

from tests.integration.contract.api import Api
from tests.integration.contract.objects import config_map, deployment, labelled, pod
from tests.integration.contract.scenario import path, pods, scenario


@scenario
def a_new_object_gets_an_identity(api: Api, ns: str) -> None:
    made = api.post(path("api/v1", ns, "configmaps"), config_map("one", a="b"))

    assert made.code == 201
    metadata = made.body["metadata"]
    assert metadata["namespace"] == ns
    assert re.fullmatch(r"[0-9a-f-]{36}", metadata["uid"])
    assert int(metadata["resourceVersion"]) > 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert api.get(path("api/v1", ns, "configmaps", "one")).body == made.body


@scenario
def a_pod_is_stored_with_all_defaults(api: Api, ns: str) -> None:
    made = api.post(pods(ns), pod("p"))

    assert made.code == 201
    assert made.body["spec"]["schedulerName"] == "default-scheduler"
    assert made.body["spec"]["priority"] == 0
    assert made.body["spec"]["preemptionPolicy"] == "PreemptLowerPriority"
    assert [t["key"] for t in made.body["spec"]["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert made.body["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@scenario
def requests_follow_from_limits(api: Api, ns: str) -> None:
    limits = {"cpu": "2", "memory": "1Gi"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    made = api.post(pods(ns), pod("p", containers=[container]))

    assert made.body["spec"]["containers"][0]["resources"]["requests"] == limits
    assert made.body["status"]["qosClass"] == "Guaranteed"


@scenario
def a_host_network_pod_takes_its_ports_on_the_host(api: Api, ns: str) -> None:
    container = {"name": "c", "image": "i", "ports": [{"containerPort": 8080}]}
    made = api.post(pods(ns), pod("p", hostNetwork=True, containers=[container]))

    ports = made.body["spec"]["containers"][0]["ports"]
    assert ports == [{"containerPort": 8080, "hostPort": 8080, "protocol": "TCP"}]


@scenario
def a_name_is_taken_once(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    again = api.post(pods(ns), pod("p"))

    assert (again.code, again.reason) == (409, "AlreadyExists")
    assert again.message == 'pods "p" already exists'
    assert again.body["details"] == {"name": "p", "kind": "pods"}


@scenario
def what_is_not_there_is_not_found(api: Api, ns: str) -> None:
    missing = api.get(pods(ns, "none"))

    assert (missing.code, missing.reason) == (404, "NotFound")
    assert missing.message == 'pods "none" not found'
    assert missing.body["status"] == "Failure"
    assert api.delete(pods(ns, "none")).code == 404
    assert api.put(pods(ns, "none"), pod("none")).code == 404
    assert api.patch(pods(ns, "none"), {}).code == 404
    assert api.get(path("apis/apps/v1", ns, "deployments", "none")).message == (
        'deployments.apps "none" not found'
    )


@scenario
def a_namespace_must_exist(api: Api, ns: str) -> None:
    made = api.post(pods(f"{ns}-none"), pod("p"))

    assert (made.code, made.reason) == (404, "NotFound")
    assert made.message == f'namespaces "{ns}-none" not found'
    assert api.get(pods(f"{ns}-none")).body["items"] == []


@scenario
def names_are_generated(api: Api, ns: str) -> None:
    wanted = pod("x")
    wanted["metadata"] = {"generateName": "web-"}
    names = [api.post(pods(ns), wanted).body["metadata"]["name"] for _ in range(3)]

    assert len(set(names)) == 3
    assert all(re.fullmatch(r"web-[bcdfghjklmnpqrstvwxz2456789]{5}", name) for name in names)
    api.notes.clear()


@scenario
def a_name_is_needed(api: Api, ns: str) -> None:
    nameless = pod("x")
    nameless["metadata"] = {}
    made = api.post(pods(ns), nameless)

    assert (made.code, made.reason) == (422, "Invalid")
    assert made.message == (
        'Pod "" is invalid: metadata.name: Required value: name or generateName is required'
    )


@scenario
def a_bad_name_is_refused(api: Api, ns: str) -> None:
    made = api.post(pods(ns), pod("Not_A_Name"))

    assert (made.code, made.reason) == (422, "Invalid")
    assert made.body["details"]["causes"][0]["field"] == "metadata.name"


@scenario
def the_namespace_of_path_and_object_agree(api: Api, ns: str) -> None:
    wanted = pod("p")
    wanted["metadata"]["namespace"] = "other"
    made = api.post(pods(ns), wanted)

    assert (made.code, made.reason) == (400, "BadRequest")
    assert made.message == (
        "the namespace of the provided object does not match the namespace sent on the request"
    )


@scenario
def an_old_version_does_not_replace_a_new_one(api: Api, ns: str) -> None:
    url = path("api/v1", ns, "configmaps", "one")
    old = api.post(path("api/v1", ns, "configmaps"), config_map("one", a="1")).body
    api.put(url, {**old, "data": {"a": "2"}})
    refused = api.put(url, {**old, "data": {"a": "3"}})

    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on configmaps "one": the object has been modified; please'
        " apply your changes to the latest version and try again"
    )
    assert api.get(url).body["data"] == {"a": "2"}


@scenario
def a_replacement_without_a_version_is_taken(api: Api, ns: str) -> None:
    url = path("api/v1", ns, "configmaps", "one")
    api.post(path("api/v1", ns, "configmaps"), config_map("one", a="1"))

    assert api.put(url, config_map("one", a="2")).code == 200
    assert api.get(url).body["data"] == {"a": "2"}


@scenario
def nothing_new_keeps_the_version(api: Api, ns: str) -> None:
    url = path("api/v1", ns, "configmaps", "one")
    made = api.post(path("api/v1", ns, "configmaps"), config_map("one", a="1")).body
    same = api.put(url, made)

    assert same.code == 200
    assert same.body["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


@scenario
def name_and_uid_of_a_replacement_must_fit(api: Api, ns: str) -> None:
    url = path("api/v1", ns, "configmaps", "one")
    made = api.post(path("api/v1", ns, "configmaps"), config_map("one")).body
    renamed = api.put(url, config_map("two"))
    other = {**made, "metadata": {**made["metadata"], "uid": "another"}}
    del other["metadata"]["resourceVersion"]
    swapped = api.put(url, other)

    assert (renamed.code, renamed.reason) == (400, "BadRequest")
    assert (swapped.code, swapped.reason) == (409, "Conflict")


@scenario
def generation_counts_changes_of_the_spec(api: Api, ns: str) -> None:
    url = path("apis/apps/v1", ns, "deployments", "web")
    made = api.post(path("apis/apps/v1", ns, "deployments"), deployment("web")).body
    assert made["metadata"]["generation"] == 1

    scaled = api.patch(url, {"spec": {"replicas": 3}}).body
    assert scaled["metadata"]["generation"] == 2
    labelled_only = api.patch(url, {"metadata": {"labels": {"a": "b"}}}).body
    assert labelled_only["metadata"]["generation"] == 2
    # A Deployment's annotations go down to its ReplicaSets: they count as well.
    annotated = api.patch(url, {"metadata": {"annotations": {"a": "b"}}}).body
    assert annotated["metadata"]["generation"] == 3


@scenario
def spec_and_status_are_written_apart(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    condition = {"type": "Example", "status": "True"}
    through_spec = api.patch(pods(ns, "p"), {"status": {"conditions": [condition]}})
    assert "conditions" not in through_spec.body["status"]

    body = {"status": {"conditions": [condition]}, "metadata": {"labels": {"a": "b"}}}
    through_status = api.patch(pods(ns, "p", "status"), body)
    assert through_status.body["status"]["conditions"][0]["type"] == "Example"
    moved = api.patch(pods(ns, "p", "status"), {"spec": {"nodeName": "n"}})
    assert "nodeName" not in moved.body["spec"]
    assert api.get(pods(ns, "p", "status")).body == api.get(pods(ns, "p")).body


@scenario
def most_of_a_pod_never_changes(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("p"))
    refused = api.patch(pods(ns, "p"), {"spec": {"schedulerName": "other"}})

    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message.startswith(
        'Pod "p" is invalid: spec: Forbidden: pod updates may not change fields other than'
    )
    api.notes.clear()


@scenario
def a_pod_without_a_container_is_refused(api: Api, ns: str) -> None:
    made = api.post(pods(ns), pod("p", containers=[]))

    assert (made.code, made.reason) == (422, "Invalid")
    assert made.message == 'Pod "p" is invalid: spec.containers: Required value'


@scenario
def all_that_is_wrong_is_told_at_once(api: Api, ns: str) -> None:
    bad = {
        "name": "Bad_Name",
        "image": "i",
        "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
    }
    made = api.post(pods(ns), pod("p", containers=[bad], nodeSelector={"a b": "c"}))

    assert (made.code, made.reason) == (422, "Invalid")
    assert {cause["field"] for cause in made.body["details"]["causes"]} >= {
        "spec.containers[0].name",
        "spec.containers[0].resources.requests",
    }


@scenario
def a_quantity_that_is_none_is_refused(api: Api, ns: str) -> None:
    bad = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "a lot"}}}
    made = api.post(pods(ns), pod("p", containers=[bad]))

    assert (made.code, made.reason) == (400, "BadRequest")
    assert "quantities must match the regular expression" in made.message


@scenario
def a_negative_request_is_refused(api: Api, ns: str) -> None:
    bad = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "-1"}}}
    made = api.post(pods(ns), pod("p", containers=[bad]))

    assert (made.code, made.reason) == (422, "Invalid")
    assert made.message == (
        'Pod "p" is invalid: spec.containers[0].resources.requests[cpu]: Invalid value: "-1":'
        " must be greater than or equal to 0"
    )


@scenario
def kind_and_version_must_fit_the_path(api: Api, ns: str) -> None:
    wrong = api.post(pods(ns), config_map("one"))
    silent = pod("p")
    del silent["kind"]
    del silent["apiVersion"]

    assert wrong.code == 400
    assert api.post(pods(ns), silent).code == 201


@scenario
def what_is_no_json_is_refused(api: Api, ns: str) -> None:
    broken = api.post(pods(ns), b"{not json")
    listed = api.post(pods(ns), b"[1, 2]")

    assert (broken.code, broken.reason) == (400, "BadRequest")
    assert listed.code == 400
    api.notes.clear()


@scenario
def unknown_paths_and_methods_are_refused(api: Api, ns: str) -> None:
    assert api.get("/api/v1/nothing").code == 404
    assert api.get("/apis/example.com/v1/things").code == 404
    assert api.get("/nothing").code == 404
    not_allowed = api.ask("PUT", pods(ns), pod("p"))
    assert (not_allowed.code, not_allowed.reason) == (405, "MethodNotAllowed")
    api.notes.clear()


@scenario
def an_unknown_content_type_is_refused(api: Api, ns: str) -> None:
    made = api.ask("POST", pods(ns), b"a: b", content_type="text/plain")
    patched = api.ask("PATCH", pods(ns, "p"), b"{}", content_type="application/json")

    assert (made.code, made.reason) == (415, "UnsupportedMediaType")
    assert (patched.code, patched.reason) == (415, "UnsupportedMediaType")
    api.notes.clear()


@scenario
def what_is_asked_for_in_vain_is_not_acceptable(api: Api, ns: str) -> None:
    answer = api.ask("GET", pods(ns), accept="text/csv")

    assert (answer.code, answer.reason) == (406, "NotAcceptable")
    api.notes.clear()


@scenario
def a_dry_run_stores_nothing(api: Api, ns: str) -> None:
    made = api.post(pods(ns), pod("p"), dryRun="All")

    assert made.code == 201
    assert made.body["metadata"]["uid"]
    assert "resourceVersion" not in made.body["metadata"]
    assert api.get(pods(ns, "p")).code == 404

    api.post(pods(ns), pod("p"))
    api.patch(pods(ns, "p"), {"metadata": {"labels": {"a": "b"}}}, dryRun="All")
    assert "labels" not in api.get(pods(ns, "p")).body["metadata"]
    assert api.delete(pods(ns, "p"), dryRun="All").code == 200
    assert api.get(pods(ns, "p")).code == 200
    assert api.post(pods(ns), pod("q"), dryRun="Some").code == 422


@scenario
def unknown_fields_are_refused_if_asked_for(api: Api, ns: str) -> None:
    wrong = {**pod("p"), "nonsense": 1}
    wrong["spec"]["containres"] = []
    strict = api.post(pods(ns), wrong, fieldValidation="Strict")
    warned = api.post(pods(ns), wrong, fieldValidation="Warn")
    ignored = api.post(pods(ns), {**wrong, "metadata": {"name": "q"}}, fieldValidation="Ignore")

    assert (strict.code, strict.reason) == (400, "BadRequest")
    assert 'unknown field "nonsense"' in strict.message
    assert 'unknown field "spec.containres"' in strict.message
    assert warned.code == 201
    assert "unknown field" in warned.headers["warning"]
    assert "spec" in warned.body
    assert ignored.code == 201
    assert "warning" not in ignored.headers
    api.notes.clear()


@scenario
def labels_are_checked(api: Api, ns: str) -> None:
    made = api.post(pods(ns), labelled(pod("p"), good="no good value!"))

    assert (made.code, made.reason) == (422, "Invalid")
    assert made.body["details"]["causes"][0]["field"] == "metadata.labels"


@scenario
def a_body_has_a_limit(api: Api, ns: str) -> None:
    made = api.post(path("api/v1", ns, "configmaps"), config_map("big", a="x" * (4 << 20)))

    assert (made.code, made.reason) == (413, "RequestEntityTooLarge")
    api.notes.clear()
