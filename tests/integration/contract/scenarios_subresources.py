"""Bindings by their own path, ephemeral containers, jobs, and reviews of oneself."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import MERGE, STRATEGIC, Api
from tests.integration.contract.objects import binding, deployment, pod
from tests.integration.contract.scenario import path, pods, scenario


def jobs(namespace: str, name: str = "", part: str = "") -> str:
    return path("apis/batch/v1", namespace, "jobs", name, part)


def job(name: str, **spec: Any) -> dict[str, Any]:
    own = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    spec = {"template": {"spec": own}, **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


@scenario
def a_binding_can_be_posted_beside_the_pods(api: Api, ns: str) -> None:
    url = path("api/v1", ns, "bindings")
    api.post(pods(ns), pod("p"))
    tried = api.post(url, binding("p", "n"), dryRun="All")
    bound = api.post(url, binding("p", "n", labels={"a": "b"}))
    found = api.get(pods(ns, "p"))

    assert (tried.code, bound.code) == (201, 201)
    assert found.body["spec"]["nodeName"] == "n"
    assert found.body["metadata"]["labels"] == {"a": "b"}


@scenario
def a_binding_beside_the_pods_is_checked_like_the_other(api: Api, ns: str) -> None:
    url = path("api/v1", ns, "bindings")
    api.post(pods(ns), pod("p", nodeName="n"))
    for body, code in (
        (binding("p", "n"), 409),
        (binding("none", "n"), 404),
        (binding("", "n"), 400),
        (binding("p", ""), 500),
        (binding("p", "n", namespace="other"), 400),
        (pod("p"), 400),
    ):
        assert api.post(url, body).code == code
    assert api.get(url).code == api.delete(url).code == 405
    assert api.get(f"{url}/p").code == 404
    assert api.get("/api/v1/bindings").code == 404


@scenario
def ephemeral_containers_are_added_to_a_pod(api: Api, ns: str) -> None:
    url = pods(ns, "p", "ephemeralcontainers")
    api.post(pods(ns), pod("p"))
    first = {"name": "look", "image": "x"}
    added = api.patch(url, {"spec": {"ephemeralContainers": [first]}}, STRATEGIC)
    both = [first, {**first, "name": "again"}]
    spec = {"nodeName": "n", "ephemeralContainers": both}
    change = {"metadata": {"labels": {"a": "b"}}, "spec": spec}
    more = api.patch(url, change, MERGE)

    assert added.body["spec"]["ephemeralContainers"][0]["terminationMessagePolicy"] == "File"
    assert added.body["metadata"]["generation"] == 2
    assert [c["name"] for c in more.body["spec"]["ephemeralContainers"]] == ["look", "again"]
    assert "labels" not in more.body["metadata"]
    assert "nodeName" not in more.body["spec"]
    assert api.get(url).body["metadata"]["name"] == "p"


@scenario
def ephemeral_containers_have_rules(api: Api, ns: str) -> None:
    url = pods(ns, "p", "ephemeralcontainers")
    api.post(pods(ns), pod("p"))
    api.patch(url, {"spec": {"ephemeralContainers": [{"name": "a", "image": "x"}]}}, STRATEGIC)

    def refused(**container: Any) -> str:
        body = {"spec": {"ephemeralContainers": [{"image": "x", **container}]}}
        answer = api.patch(url, body, STRATEGIC)
        assert answer.code == 422
        return answer.message

    lead = "spec.ephemeralContainers[0]"
    assert f'{lead}.name: Duplicate value: "c"' in refused(name="c")
    assert f'{lead}.targetContainerName: Not found: "z"' in refused(
        name="b", targetContainerName="z"
    )
    assert f"{lead}.ports: Forbidden" in refused(name="b", ports=[{"containerPort": 1}])
    assert f"{lead}.livenessProbe: Forbidden" in refused(
        name="b", livenessProbe={"exec": {"command": ["x"]}}
    )
    assert f"{lead}.image: Required value" in refused(name="b", image=None)
    removed = api.patch(url, {"spec": {"ephemeralContainers": None}}, MERGE)
    assert 'existing ephemeral containers "a" may not be removed' in removed.message
    created = api.post(pods(ns), pod("q", ephemeralContainers=[{"name": "a", "image": "x"}]))
    assert "cannot be set on create" in created.message


@scenario
def a_job_selects_its_own_pods(api: Api, ns: str) -> None:
    made = api.post(jobs(ns), job("j")).body
    uid = made["metadata"]["uid"]
    labels = made["spec"]["template"]["metadata"]["labels"]

    assert made["spec"]["selector"]["matchLabels"] == {"batch.kubernetes.io/controller-uid": uid}
    assert labels == made["metadata"]["labels"]
    assert labels["batch.kubernetes.io/job-name"] == labels["job-name"] == "j"


@scenario
def a_job_has_rules(api: Api, ns: str) -> None:
    always = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"parallelism": -1}, "spec.parallelism"),
        ({"backoffLimit": -1}, "spec.backoffLimit"),
        ({"manualSelector": True}, "spec.selector"),
        ({"selector": {"matchLabels": {"a": "b"}}}, "spec.selector"),
        ({"backoffLimitPerIndex": 1}, "spec.backoffLimitPerIndex"),
        ({"template": always}, "spec.template.spec.restartPolicy"),
    )
    for number, (spec, field) in enumerate(cases):
        answer = api.post(jobs(ns), job(f"j{number}", **spec))
        assert answer.code == 422
        assert field in [cause["field"] for cause in answer.body["details"]["causes"]]


@scenario
def what_a_job_makes_stays_the_same(api: Api, ns: str) -> None:
    api.post(jobs(ns), job("j"))
    more = api.patch(jobs(ns, "j"), {"spec": {"parallelism": 3, "suspend": True}})
    other = api.patch(jobs(ns, "j"), {"spec": {"completions": 3}})

    assert more.code == 200
    assert other.message.endswith("spec.completions: Invalid value: 3: field is immutable")


@scenario
def the_pods_of_a_deleted_job_are_left_alone_unless_asked(api: Api, ns: str) -> None:
    api.post(jobs(ns), job("j"))
    tried = api.delete(jobs(ns, "j"), dryRun="All")
    told = api.delete(jobs(ns, "j"), {"propagationPolicy": "Background"}, dryRun="All")

    assert tried.body["metadata"]["finalizers"] == ["orphan"]
    assert told.body["kind"] == "Status"


@scenario
def who_asks_can_see_itself(api: Api, ns: str) -> None:
    del ns
    url = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    named = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found = api.post(url, named)

    assert found.code == 201
    assert "system:masters" in found.body["status"]["userInfo"]["groups"]
    api.notes.clear()  # the names of the two administrators differ
    assert api.get(url).code == 405


@scenario
def who_asks_can_see_what_it_may_do(api: Api, ns: str) -> None:
    url = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    named = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    found = api.post(url, {**named, "spec": {"namespace": ns}})
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}

    assert everything in found.body["status"]["resourceRules"]
    assert found.body["status"]["incomplete"] is False
    api.notes.clear()  # the same rules, cut in other pieces
    assert api.post(url, named).message == "no namespace on request"


@scenario
def a_review_is_read_strictly(api: Api, ns: str) -> None:
    del ns
    url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    named = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    wrong = api.post(url, {**named, "spec": {"resourceAttributes": {"verb": 5}}})
    empty = api.post(url, {**named, "spec": {}})

    assert "cannot unmarshal number into Go struct field ResourceAttributes" in wrong.message
    assert empty.message.startswith('.authorization.k8s.io "" is invalid')


@scenario
def access_to_one_namespace_is_reviewed_there(api: Api, ns: str) -> None:
    url = path("apis/authorization.k8s.io/v1", ns, "localsubjectaccessreviews")
    get_pods = {"verb": "get", "resource": "pods"}

    def ask(metadata: Any = None, **spec: Any) -> Any:
        named = {"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview"}
        answer = api.post(url, {**named, "metadata": metadata or {}, "spec": spec})
        # The real server tracks the fields of reviews as well, though it does not store them.
        message = answer.message.partition('"managedFields"')[0].replace(ns, "<ns>")
        api.notes[-1] = ("review", answer.code, message or answer.body["status"])
        return answer

    here = {**get_pods, "namespace": ns}
    nobody = ask(user="nobody-here", resourceAttributes=here)
    assert (nobody.code, nobody.body["status"]["allowed"]) == (201, False)
    masters = ask({"namespace": ns}, groups=["system:masters"], resourceAttributes=here)
    assert masters.body["status"]["allowed"] is True
    del api.notes[-1]  # the reason names another authorizer
    for answer in (
        ask(user="a", resourceAttributes=get_pods),
        ask(user="a", resourceAttributes={**get_pods, "namespace": "other"}),
        ask(user="a", nonResourceAttributes={"verb": "get", "path": "/x"}),
        ask(resourceAttributes=here),
    ):
        assert answer.code == 422
    assert ask({"namespace": "other"}, user="a", resourceAttributes=here).code == 400
    assert api.get(url).code == 405
    named = {"apiVersion": "authorization.k8s.io/v1", "kind": "LocalSubjectAccessReview"}
    body = {**named, "spec": {"user": "a", "resourceAttributes": here}}
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert api.ask("POST", url, body, accept=table).code == 406
    del api.notes[-1]  # it lists the formats of each server


@scenario
def a_status_of_a_deployment_leaves_its_labels(api: Api, ns: str) -> None:
    url = path("apis/apps/v1", ns, "deployments", "web")
    api.post(path("apis/apps/v1", ns, "deployments"), deployment("web"))
    change = {"metadata": {"labels": {"a": "b"}}, "status": {"replicas": 2}}
    found = api.patch(f"{url}/status", change)

    assert "labels" not in found.body["metadata"]
    assert found.body["status"]["replicas"] == 2


@scenario
def the_address_of_a_pod_has_two_names(api: Api, ns: str) -> None:
    url = pods(ns, "p", "status")
    api.post(pods(ns), pod("p"))

    def after(status: dict[str, Any], how: str = MERGE) -> tuple[Any, Any]:
        own = api.patch(url, {"status": status}, how).body["status"]
        return own.get("podIP"), own.get("podIPs")

    one, two = {"ip": "10.0.0.1"}, {"ip": "fd00::1"}
    assert after({"podIP": "10.0.0.1"}) == ("10.0.0.1", [one])
    assert after({"podIPs": [{"ip": "10.0.0.2"}, two]}) == ("10.0.0.1", [one])
    assert after({"podIP": None, "podIPs": [two]}) == ("fd00::1", [two])
    assert after({"podIP": "10.0.0.1", "podIPs": [one]}, STRATEGIC)[0] == "10.0.0.1"
    assert after({"podIP": None, "podIPs": None}) == (None, None)


@scenario
def a_scale_is_an_object_of_its_own(api: Api, ns: str) -> None:
    api.post(path("apis/apps/v1", ns, "deployments"), deployment("d", replicas=1))
    scale = path("apis/apps/v1", ns, "deployments", "d", "scale")

    def put(**metadata: Any) -> int:
        return api.put(scale, {"metadata": metadata, "spec": {"replicas": 3}}, dryRun="All").code

    assert put(name="d") == 200
    assert put() == 400
    assert put(name="e") == 400
    assert put(name="d", namespace="other") == 400
    assert put(name="d", labels={"a b": "c"}) == 422
    assert put(name="d", uid="u") == 409
    api.notes.pop()  # the message has a path of etcd
    for how in (MERGE, STRATEGIC):
        assert api.patch(scale, {"metadata": {"uid": "u"}}, how).code == 409
        assert api.patch(scale, {"metadata": {"namespace": "other"}}, how).code == 400
        assert api.patch(scale, {"metadata": {"name": "other"}}, how).code == 400
    assert api.patch(scale, {"spec": {"replicas": "x"}}, STRATEGIC).code == 422
    assert api.patch(scale, {"kind": "Foo"}, STRATEGIC, dryRun="All").code == 200
    assert api.patch(scale, {"spec": {"replicas": "x"}}).code == 422
    api.notes.pop()  # the message has the object, with its fields in another order


@scenario
def a_token_request_has_a_writer(api: Api, ns: str) -> None:
    api.post(path("api/v1", ns, "serviceaccounts"), {"metadata": {"name": "a"}})
    token = path("api/v1", ns, "serviceaccounts", "a", "token")
    for spec in ({}, {"audiences": ["x"], "expirationSeconds": 700}):
        answer = api.post(token, {"spec": spec}, fieldManager="m")
        entry = answer.body["metadata"]["managedFields"][0]
        assert (entry["manager"], entry["subresource"]) == ("m", "token")
        answer.body["status"]["token"] = "a token"
