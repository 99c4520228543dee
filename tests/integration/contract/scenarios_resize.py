"""Changes of the resources of pods, through their subresource ``resize``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.integration.contract.api import MERGE, STRATEGIC, Answer, Api
from tests.integration.contract.scenario import pods, scenario

Document = dict[str, Any]
AMOUNTS: Document = {
    "requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "1Gi"},
    "limits": {"memory": "2Gi"},
}


def container(name: str = "c", resources: Document | None = None, **more: Any) -> Document:
    return {"name": name, "image": "i", "resources": resources or AMOUNTS, **more}


def stored_pod(api: Api, ns: str, name: str, spec: Document, **metadata: Any) -> None:
    answer = api.post(pods(ns), {"metadata": {"name": name, **metadata}, "spec": spec})
    assert answer.code == 201


def resizer(api: Api, ns: str, name: str) -> Callable[..., list[str]]:
    """Returns a function that resizes a pod as a dry run, and returns the fields of the errors."""

    def resized(patch: Document, how: str = STRATEGIC) -> list[str]:
        answer = api.patch(pods(ns, name, "resize"), {"spec": patch}, how, dryRun="All")
        return fields_of(answer)

    return resized


def fields_of(answer: Answer) -> list[str]:
    if answer.code in (200, 201):
        return []
    assert answer.code == 422
    return [cause["field"] for cause in answer.body["details"]["causes"]]


def resources(name: str, amounts: Document, kind: str = "containers") -> Document:
    return {kind: [{"name": name, "resources": amounts}]}


@scenario
def cpu_and_memory_are_resized(api: Api, ns: str) -> None:
    stored_pod(api, ns, "a", {"containers": [container(), container("d")]})
    resized = resizer(api, ns, "a")

    assert resized(resources("c", {"requests": {"cpu": "2"}})) == []
    assert resized(resources("c", {"limits": {"cpu": "5", "memory": "1536Mi"}})) == []
    removed = resized(resources("c", {"requests": {"cpu": None}}))
    assert removed == ["spec.containers[0].resources.requests"]
    removed = resized(resources("c", {"limits": {"memory": None}}))
    assert removed == ["spec.containers[0].resources.limits"]
    assert resized(resources("c", {"requests": {"ephemeral-storage": "2Gi"}})) == ["spec"]
    policy = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
    assert resized({"containers": [{"name": "c", "resizePolicy": [policy]}]}) == ["spec"]
    assert resized(resources("c", {"requests": {"cpu": "-2"}})) != []


@scenario
def a_resize_changes_nothing_else(api: Api, ns: str) -> None:
    stored_pod(api, ns, "a", {"containers": [container()]})
    patch = {
        "metadata": {"labels": {"x": "y"}},
        "spec": {"nodeName": "x", **resources("c", {"requests": {"cpu": "3"}})},
        "status": {"phase": "Failed"},
    }
    resized = api.patch(pods(ns, "a", "resize"), patch, STRATEGIC, fieldManager="vpa").body

    assert resized["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "3"
    assert "labels" not in resized["metadata"]
    assert "nodeName" not in resized["spec"]
    assert resized["status"]["phase"] == "Pending"
    # As upstream, the writer owns what it has sent.
    entry = next(e for e in resized["metadata"]["managedFields"] if e["manager"] == "vpa")
    assert entry["subresource"] == "resize"
    assert set(entry["fieldsV1"]) == {"f:metadata", "f:spec", "f:status"}
    api.get(pods(ns, "a"))


@scenario
def containers_stay_in_their_order(api: Api, ns: str) -> None:
    both = {"initContainers": [container("i")], "containers": [container(), container("d")]}
    stored_pod(api, ns, "a", both)
    resized = resizer(api, ns, "a")

    for patch in (
        {"containers": [container("d"), container()]},
        {"containers": [container()]},
        {"containers": [container("e"), container("d")], "initContainers": [container("j")]},
        {"initContainers": None},
        {"containers": None},
    ):
        assert resized(patch, MERGE) != []
    added = resized(resources("x", {"requests": {"cpu": "2"}}))
    assert "spec.containers" in added


@scenario
def init_containers_are_resized(api: Api, ns: str) -> None:
    inits = [container("i"), container("s", restartPolicy="Always")]
    stored_pod(api, ns, "a", {"initContainers": inits, "containers": [container()]})
    resized = resizer(api, ns, "a")

    for number, name in enumerate(("i", "s")):
        amounts: Document = {"requests": {"cpu": "2"}}
        assert resized(resources(name, amounts, "initContainers")) == []
        amounts = {"requests": {"ephemeral-storage": "2Gi"}}
        fields = resized(resources(name, amounts, "initContainers"))
        assert fields == [f"spec.initContainers[{number}]"]
    policy = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}
    assert resized({"initContainers": [{"name": "i", "resizePolicy": [policy]}]}) != []


@scenario
def some_pods_are_not_resized(api: Api, ns: str) -> None:
    change = resources("c", {"requests": {"cpu": "2"}})
    stored_pod(api, ns, "windows", {"os": {"name": "windows"}, "containers": [container()]})
    static: Document = {"annotations": {"kubernetes.io/config.mirror": "x"}}
    stored_pod(api, ns, "static", {"nodeName": "n", "containers": [container()]}, **static)
    for name in ("windows", "static"):
        assert resizer(api, ns, name)(change) == ["[]"]
    sized = {"cpu": "1", "memory": "1Gi"}
    same = container(resources={"requests": sized, "limits": sized})
    stored_pod(api, ns, "guaranteed", {"containers": [same]})
    assert "spec" in resizer(api, ns, "guaranteed")(resources("c", {"limits": {"cpu": "2"}}))

    stored_pod(api, ns, "old-node", {"containers": [container()]})
    status = {"name": "c", "image": "i", "imageID": "i", "ready": True, "restartCount": 0}
    running = {"containerStatuses": [{**status, "state": {"running": {}}}]}
    api.patch(pods(ns, "old-node", "status"), {"status": running})
    assert resizer(api, ns, "old-node")(change) == ["spec"]


@scenario
def resources_of_a_whole_pod_are_resized(api: Api, ns: str) -> None:
    whole = {"requests": {"cpu": "2"}, "limits": {"cpu": "3"}}
    small = container(resources={"requests": {"cpu": "1"}})
    stored_pod(api, ns, "a", {"resources": whole, "containers": [small]})
    stored_pod(api, ns, "b", {"containers": [small]})
    resized = resizer(api, ns, "a")

    assert resized({"resources": {"requests": {"cpu": "3"}}}) == []
    assert resized({"resources": None}) == ["spec.resources"]
    assert resized({"resources": {"limits": {"cpu": None}}}) == ["spec.resources.limits"]
    assert resized({"resources": {"limits": {"hugepages-2Mi": "2Mi"}}}) != []
    assert resizer(api, ns, "b")({"resources": {"requests": {"cpu": "3"}}}) == []


@scenario
def policies_of_resizing_fit_the_pod(api: Api, ns: str) -> None:
    policy = {"resourceName": "cpu", "restartPolicy": "RestartContainer"}

    def refused(spec: Document) -> list[str]:
        return fields_of(
            api.post(pods(ns), {"metadata": {"name": "a"}, "spec": spec}, dryRun="All")
        )

    own = container(resizePolicy=[policy])
    assert refused({"restartPolicy": "Never", "containers": [own]}) == [
        "spec.containers[0].resizePolicy"
    ]
    init = container("i", resizePolicy=[policy])
    assert refused({"initContainers": [init], "containers": [container()]}) == [
        "spec.initContainers[0].resizePolicy[0].restartPolicy"
    ]
