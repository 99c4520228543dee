from __future__ import annotations

import asyncio
import json

import pytest

from mooring.apiserver.endpoints.request import warning_header
from mooring.apiserver.server import BODY_BYTES_MAX, ApiServer
from mooring.clock import VirtualClock, seeded_random
from tests.helpers.api import APPLY, CONFIG_MAPS, MERGE, PODS, Api, config_map, pod


def test_every_cluster_begins_with_the_same_objects() -> None:
    api = Api()
    assert api.names("/api/v1/namespaces") == [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
    ]
    classes = api.get("/apis/scheduling.k8s.io/v1/priorityclasses")["items"]
    assert {item["metadata"]["name"]: item["value"] for item in classes} == {
        "system-cluster-critical": 2000000000,
        "system-node-critical": 2000001000,
    }


def test_equal_seeds_give_equal_clusters() -> None:
    def made() -> bytes:
        api = Api()
        generated = {**pod(""), "metadata": {"generateName": "web-"}}
        for _ in range(3):
            api.post(PODS, generated)
        return api.server.snapshot()

    assert made() == made()


def test_uids_are_random_and_names_have_five_characters() -> None:
    api = Api()
    generated = {"metadata": {"generateName": "web-"}}
    items = [api.post(CONFIG_MAPS, generated)["metadata"] for _ in range(20)]
    assert len({each["uid"] for each in items}) == 20
    assert all(each["uid"][14] == "4" and each["uid"][19] in "89ab" for each in items)
    suffixes = {each["name"].removeprefix("web-") for each in items}
    assert all(len(suffix) == 5 for suffix in suffixes)
    assert set("".join(suffixes)) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_long_bases_of_names_are_cut() -> None:
    result = Api().post(CONFIG_MAPS, {"metadata": {"generateName": "a" * 70}})
    assert len(result["metadata"]["name"]) == 63


def test_taken_names_are_tried_again() -> None:
    class Stubborn:
        """Draws the same name again and again, then another one."""

        def __init__(self, times: int) -> None:
            self.rng = seeded_random(1)
            self.times = times

        def choices(self, alphabet: str, *, k: int) -> list[str]:
            self.times -= 1
            return ["b"] * k if self.times >= 0 else self.rng.choices(alphabet, k=k)

        def getrandbits(self, count: int) -> int:
            return self.rng.getrandbits(count)

    def api_with(times: int) -> Api:
        api = Api()
        api.post(CONFIG_MAPS, config_map("a-bbbbb"))
        api.server.registry.rng = Stubborn(times)  # type: ignore[assignment]
        return api

    generated = {"metadata": {"generateName": "a-"}}
    assert api_with(7).post(CONFIG_MAPS, generated)["metadata"]["name"] != "a-bbbbb"
    status, result = api_with(8).ask("POST", CONFIG_MAPS, generated)
    assert (status, result["reason"]) == (409, "AlreadyExists")
    assert result["details"]["retryAfterSeconds"] == 1


def test_a_refusal_says_when_to_ask_again() -> None:
    api = Api()
    status, _ = api.ask("GET", f"{PODS}?resourceVersion=999")
    assert status == 504
    assert api.response_headers["retry-after"] == "1"


def test_bodies_have_a_limit() -> None:
    status, result = Api().ask("POST", PODS, b" " * (BODY_BYTES_MAX + 1))
    assert (status, result["reason"]) == (413, "RequestEntityTooLarge")
    assert result["message"] == "Request entity too large: limit is 3145728"


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("depth", [101, 5_000, 500_000])
def test_bodies_have_a_depth(opening: str, depth: int) -> None:
    api = Api()
    closing = {"[": "]", '{"a":': "}"}[opening]
    body = opening * depth + "1" + closing * depth
    assert len(body) < BODY_BYTES_MAX
    for method, path, kind in (
        ("POST", PODS, "application/json"),
        ("PATCH", f"{PODS}/a", MERGE),
        ("PATCH", f"{PODS}/a?fieldManager=m", APPLY),
    ):
        if kind == APPLY and depth > 5_000:
            continue  # YAML of this size takes seconds
        api.ask("POST", PODS, pod("a"))
        status, result = api.ask(method, path, body, content_type=kind)
        assert status == 400, result
        assert "depth" in result["message"] or "deep" in result["message"], result


def test_warnings_of_one_answer_are_one_header() -> None:
    api = Api()
    odd = pod("a")
    odd["spec"]["foo"] = odd['sp"ec'] = 1
    api.post(PODS, odd)
    assert api.response_headers["warning"] == (
        '299 - "unknown field \\"spec.foo\\"", 299 - "unknown field \\"sp\\\\\\"ec\\""'
    )


def test_no_text_of_a_client_ends_a_header() -> None:
    """As upstream, a warning that has control characters is left out."""
    assert warning_header(["ERROR: 1:1\r\n | a\x00b"]) == {}
    assert warning_header(["a\x85b", "c"]) == {"warning": '299 - "c"'}


def test_dry_runs_leave_no_trace() -> None:
    api = Api()
    api.post(PODS, pod("a"))
    before = api.server.snapshot()
    new = {"apiVersion": "v1", "kind": "Pod", **pod("b")}
    target = {"kind": "Node", "name": "n"}
    for method, path, body, kind in (
        ("POST", PODS, pod("b"), "application/json"),
        ("PUT", f"{PODS}/a", {**pod("a"), "metadata": {"name": "a", "labels": {"x": "y"}}}, ""),
        ("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, MERGE),
        ("PATCH", f"{PODS}/b", new, APPLY),
        ("DELETE", f"{PODS}/a", None, ""),
        ("DELETE", PODS, None, ""),
        ("POST", f"{PODS}/a/binding", {"metadata": {"name": "a"}, "target": target}, ""),
        ("POST", f"{PODS}/a/eviction", {"metadata": {"name": "a"}}, ""),
    ):
        headers = {"content_type": kind} if kind else {}
        status, result = api.ask(method, f"{path}?dryRun=All&fieldManager=m", body, **headers)
        assert status < 300, result
    assert api.server.snapshot() == before


def test_a_snapshot_survives_the_process() -> None:
    api = Api()
    api.bound("a")
    api.post(CONFIG_MAPS, config_map("cm", data={"k": "v"}))
    other = ApiServer(VirtualClock(), seeded_random(2))
    other.load(api.server.snapshot())
    assert other.snapshot() == api.server.snapshot()
    status, _, body = asyncio.run(other.handle("GET", f"{PODS}/a", [], {}, b""))
    assert isinstance(body, bytes)
    assert (status, json.loads(body)) == (200, api.get(f"{PODS}/a"))


def test_version_and_discovery_are_served() -> None:
    api = Api()
    assert api.get("/version")["gitVersion"].startswith("v1.36")
    assert api.get("/api/v1")["kind"] == "APIResourceList"


def test_reviews_are_answered_and_forgotten() -> None:
    api = Api()
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    assert api.post(path, body)["status"]["allowed"] is True
    assert api.ask("GET", path)[0] == 405
    assert api.ask("POST", path, "{")[0] == 400
    assert api.ask("POST", path, "[]")[0] == 400


def test_yaml_bodies_are_read() -> None:
    api = Api()
    body = "metadata:\n  name: cm\ndata:\n  on: 'yes'\n"
    response = api.post(CONFIG_MAPS, body, content_type="application/yaml")
    assert response["data"] in ({"true": "yes"}, {"on": "yes"})
    status, answer = api.ask(
        "POST", CONFIG_MAPS, "a: &x 1\nb: *y\n", content_type="application/yaml"
    )
    assert status == 400, answer


def test_priority_classes_give_pods_their_priority() -> None:
    api = Api()
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.post(path, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    assert api.post(PODS, pod("a"))["spec"]["priority"] == 7
    assert api.get(f"{PODS}/a")["spec"]["priorityClassName"] == "usual"
    high = {"metadata": {"name": "high"}, "value": 9, "preemptionPolicy": "Never"}
    api.post(path, high)
    response = api.post(PODS, pod("b", priorityClassName="high"))["spec"]
    assert (response["priority"], response["preemptionPolicy"]) == (9, "Never")
    status, answer = api.ask(
        "POST", path, {"metadata": {"name": "other"}, "value": 1, "globalDefault": True}
    )
    assert status == 403
    assert "PriorityClass usual is already marked as default" in answer["message"]
    api.delete(f"{path}/usual")
    assert api.post(PODS, pod("c"))["spec"]["priority"] == 0


def test_claims_get_the_default_storage_class() -> None:
    api = Api()
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    claims = "/api/v1/namespaces/default/persistentvolumeclaims"
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
    for name in ("b", "a"):
        metadata = {"name": name, "annotations": marked}
        api.post(classes, {"metadata": metadata, "provisioner": "a.b/c"})
    # Both were made in the same second: then the name decides.
    response = api.post(claims, {"metadata": {"name": "c1"}, "spec": spec})["spec"]
    assert response["storageClassName"] == "a"
    none = {**spec, "storageClassName": ""}
    response = api.post(claims, {"metadata": {"name": "c2"}, "spec": none})["spec"]
    assert response["storageClassName"] == ""


def test_both_views_of_an_event_are_one_object() -> None:
    api = Api()
    core = "/api/v1/namespaces/default/events"
    new = "/apis/events.k8s.io/v1/namespaces/default/events"
    api.post(core, {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}})
    series = {"count": 2, "lastObservedTime": "2026-01-01T00:00:00.000001Z"}
    changed = api.patch(f"{new}/e", {"series": series})
    seen = api.get(f"{core}/e")
    assert changed["metadata"]["resourceVersion"] == seen["metadata"]["resourceVersion"]
    assert seen["series"]["count"] == 2
    api.delete(f"{new}/e")
    assert api.names(core) == []
