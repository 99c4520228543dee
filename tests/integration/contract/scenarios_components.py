"""ComponentStatuses: the health of the scheduler, the controller manager and the store."""

from __future__ import annotations

from tests.integration.contract.api import TABLE, Answer, Api
from tests.integration.contract.scenario import scenario

PATH = "/api/v1/componentstatuses"
DEPRECATION = '299 - "v1 ComponentStatus is deprecated in v1.19+"'
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIALS = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


def listed(api: Api, *, accept: str = "application/json", **query: str) -> Answer:
    """Returns the list in the order of names: that of the real server is random."""
    answer = api.ask("GET", PATH, accept=accept, **query)
    assert answer.headers["warning"] == DEPRECATION
    answer.body.get("items", []).sort(key=lambda item: item["metadata"]["name"])
    answer.body.get("rows", []).sort(key=lambda row: row["cells"][0])
    return answer


def names(answer: Answer) -> list[str]:
    """Returns the names in a list."""
    return [item["metadata"]["name"] for item in answer.body["items"]]


@scenario
def components_have_a_status(api: Api, ns: str) -> None:
    answer = listed(api)
    assert answer.body["metadata"] == {}
    assert names(answer) == ["controller-manager", "etcd-0", "scheduler"]
    manager, store, scheduler = (item["conditions"] for item in answer.body["items"])
    assert store == [{"type": "Healthy", "status": "True", "message": "ok"}]
    for conditions, port in ((manager, 10257), (scheduler, 10259)):
        url = f"https://127.0.0.1:{port}/healthz"
        refused = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
        message = f'Get "{url}": {refused}'
        assert conditions == [{"type": "Healthy", "status": "False", "message": message}]
    single = api.get(f"{PATH}/scheduler", resourceVersion="x", watch="true")
    assert single.body == {
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": {"name": "scheduler"},
        "conditions": scheduler,
    }
    assert single.headers["warning"] == DEPRECATION
    missing = api.get(f"{PATH}/none")
    assert missing.message == 'componentstatus "none" not found'
    assert missing.headers["warning"] == DEPRECATION


@scenario
def components_are_selected_by_name_and_by_labels(api: Api, ns: str) -> None:
    assert names(listed(api, fieldSelector="metadata.name=scheduler")) == ["scheduler"]
    assert names(listed(api, fieldSelector="metadata.name!=scheduler")) == [
        "controller-manager",
        "etcd-0",
    ]
    assert names(listed(api, fieldSelector="metadata.namespace=x")) == []
    assert names(listed(api, labelSelector="a=b")) == []
    assert len(names(listed(api, labelSelector="a!=b"))) == 3
    assert listed(api, fieldSelector="x=y").code == 400
    assert listed(api, labelSelector="!!").code == 400


@scenario
def lists_of_components_have_no_pages_or_versions(api: Api, ns: str) -> None:
    for parameter in (
        {"limit": "1"},
        {"continue": "x"},
        {"resourceVersion": "x"},
        {"resourceVersion": "99999999", "resourceVersionMatch": "Exact"},
    ):
        assert len(names(listed(api, **parameter))) == 3
    assert listed(api, limit="x").code == 400
    assert listed(api, timeoutSeconds="x").code == 400
    assert listed(api, resourceVersionMatch="Exact").code == 422


@scenario
def components_are_only_read(api: Api, ns: str) -> None:
    assert listed(api, watch="true").code == 405
    assert listed(api, watch="true", fieldSelector="x=y").code == 400
    assert listed(api, watch="true", resourceVersionMatch="Exact").code == 422
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        for path in (PATH, f"{PATH}/scheduler", f"{PATH}/none"):
            answer = api.ask(method, path, {})
            assert answer.code == 405
            assert "warning" not in answer.headers
    for path in (
        "/api/v1/watch/componentstatuses",
        "/api/v1/watch/componentstatuses/scheduler",
        f"/api/v1/namespaces/{ns}/componentstatuses",
        f"{PATH}/scheduler/status",
    ):
        assert api.get(path).code == 404


@scenario
def components_are_not_public(api: Api, ns: str) -> None:
    assert api.acting_as("ann").get(PATH).code == 403
    assert api.acting_as("ann").get(f"{PATH}/etcd-0").code == 403


@scenario
def components_have_a_table(api: Api, ns: str) -> None:
    table = listed(api, accept=TABLE)
    assert [column["name"] for column in table.body["columnDefinitions"]] == [
        "Name",
        "Status",
        "Message",
        "Error",
    ]
    assert [row["cells"][:2] for row in table.body["rows"]] == [
        ["controller-manager", "Unhealthy"],
        ["etcd-0", "Healthy"],
        ["scheduler", "Unhealthy"],
    ]
    assert api.ask("GET", f"{PATH}/etcd-0", accept=TABLE).code == 200
    assert api.ask("GET", f"{PATH}/etcd-0", accept=TABLE, includeObject="Object").code == 200
    assert listed(api, accept=PARTIALS).code == 200
    assert listed(api, accept=PARTIAL).code == 406
    assert api.ask("GET", f"{PATH}/etcd-0", accept=PARTIAL).code == 200
    assert api.ask("GET", f"{PATH}/etcd-0", accept=PARTIALS).code == 406


@scenario
def components_are_discovered(api: Api, ns: str) -> None:
    resources = api.get("/api/v1").body["resources"]
    api.notes.pop()  # the real one has more resources
    entry = next(item for item in resources if item["name"] == "componentstatuses")
    api.note("entry", 200, entry)
    assert entry == {
        "name": "componentstatuses",
        "singularName": "componentstatus",
        "namespaced": False,
        "kind": "ComponentStatus",
        "verbs": ["get", "list"],
        "shortNames": ["cs"],
    }
