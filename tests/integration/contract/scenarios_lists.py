"""Lists, selectors, pages, tables and watches."""

from __future__ import annotations

from tests.integration.contract.api import TABLE, Api
from tests.integration.contract.objects import binding, config_map, labelled, node, pod
from tests.integration.contract.scenario import path, pods, scenario


def names(body: dict[str, object]) -> list[str]:
    items = body["items"]
    assert isinstance(items, list)
    return [item["metadata"]["name"] for item in items]


@scenario
def a_list_has_a_version_and_an_order(api: Api, ns: str) -> None:
    for name in ("b", "a", "c"):
        api.post(pods(ns), pod(name))
    found = api.get(pods(ns))

    assert found.body["kind"] == "PodList"
    assert found.body["apiVersion"] == "v1"
    assert names(found.body) == ["a", "b", "c"]
    assert int(found.body["metadata"]["resourceVersion"]) > 0
    assert "kind" not in found.body["items"][0]


@scenario
def labels_select(api: Api, ns: str) -> None:
    api.post(pods(ns), labelled(pod("a"), app="web", tier="1"))
    api.post(pods(ns), labelled(pod("b"), app="web"))
    api.post(pods(ns), labelled(pod("c"), app="db"))

    def found(selector: str) -> list[str]:
        return names(api.get(pods(ns), labelSelector=selector).body)

    assert found("app=web") == ["a", "b"]
    assert found("app==db") == ["c"]
    assert found("app!=web") == ["c"]
    assert found("app in (web,db),tier") == ["a"]
    assert found("!tier") == ["b", "c"]
    assert found("app notin (web)") == ["c"]
    assert found("tier>0") == ["a"]
    bad = api.get(pods(ns), labelSelector="app in (")
    assert (bad.code, bad.reason) == (400, "BadRequest")
    api.notes.pop()


@scenario
def fields_select(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("a"))
    api.post(pods(ns), pod("b", schedulerName="other"))
    api.post(pods(ns, "a", "binding"), binding("a", "n1"))

    def found(selector: str) -> list[str]:
        return names(api.get(pods(ns), fieldSelector=selector).body)

    assert found("spec.nodeName=n1") == ["a"]
    assert found("spec.nodeName=") == ["b"]
    assert found("spec.nodeName!=n1,spec.schedulerName=other") == ["b"]
    assert found("metadata.name=a") == ["a"]
    assert found("status.phase=Pending") == ["a", "b"]
    assert found("status.phase!=Succeeded,status.phase!=Failed") == ["a", "b"]
    assert found(f"metadata.namespace={ns}") == ["a", "b"]


@scenario
def fields_that_cannot_select_are_refused(api: Api, ns: str) -> None:
    refused = api.get(pods(ns), fieldSelector="spec.containers=a")
    other = api.get(path("api/v1", ns, "configmaps"), fieldSelector="data.a=b")

    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message == "field label not supported: spec.containers"
    assert other.code == 400


@scenario
def a_list_comes_in_pages(api: Api, ns: str) -> None:
    for number in range(5):
        api.post(path("api/v1", ns, "configmaps"), labelled(config_map(f"c{number}"), app="x"))
    url = path("api/v1", ns, "configmaps")
    first = api.get(url, limit="2", labelSelector="app=x").body
    api.post(url, labelled(config_map("c2a"), app="x"))
    token = first["metadata"]["continue"]
    second = api.get(url, limit="2", labelSelector="app=x", **{"continue": token}).body
    token = second["metadata"]["continue"]
    third = api.get(url, limit="2", labelSelector="app=x", **{"continue": token}).body

    assert [names(page) for page in (first, second, third)] == [
        ["c0", "c1"],
        ["c2", "c3"],
        ["c4"],
    ]
    version = first["metadata"]["resourceVersion"]
    assert second["metadata"]["resourceVersion"] == version
    assert "continue" not in third["metadata"]
    bad = api.get(url, limit="2", **{"continue": "nonsense"})
    assert bad.code == 400
    api.notes.clear()


@scenario
def all_namespaces_make_one_list(api: Api, ns: str) -> None:
    api.post(path("api/v1", ns, "configmaps"), labelled(config_map("one"), suite=ns))
    found = api.get("/api/v1/configmaps", labelSelector=f"suite={ns}")

    assert names(found.body) == ["one"]
    assert found.body["items"][0]["metadata"]["namespace"] == ns


@scenario
def a_watch_goes_on_from_a_version(api: Api, ns: str) -> None:
    version = api.get(pods(ns)).body["metadata"]["resourceVersion"]
    api.post(pods(ns), pod("a"))
    api.patch(pods(ns, "a"), {"metadata": {"labels": {"x": "y"}}})
    api.delete(pods(ns, "a"))
    with api.watch(pods(ns), resourceVersion=version) as watch:
        events = [watch.next() for _ in range(4)]
        api.post(pods(ns), pod("b"))
        events.append(watch.next())

    kinds = [kind for kind, _ in events]
    # A pod gets a deletionTimestamp even if it is deleted at once, since it has no node.
    assert kinds == ["ADDED", "MODIFIED", "MODIFIED", "DELETED", "ADDED"]
    assert events[2][1]["metadata"]["deletionGracePeriodSeconds"] == 0
    versions = [int(obj["metadata"]["resourceVersion"]) for _, obj in events]
    assert versions == sorted(set(versions))
    assert events[0][1]["kind"] == "Pod"


@scenario
def a_watch_without_a_version_begins_with_what_is_there(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("a"))
    with api.watch(pods(ns)) as watch:
        assert watch.take(1) == [("ADDED", "a")]
        api.delete(pods(ns, "a"))
        assert watch.take(2) == [("MODIFIED", "a"), ("DELETED", "a")]


@scenario
def a_watch_as_of_zero_begins_with_what_is_there(api: Api, ns: str) -> None:
    made = api.post(pods(ns), pod("a")).body
    with api.watch(
        pods(ns),
        resourceVersion="0",
        resourceVersionMatch="NotOlderThan",
        sendInitialEvents="true",
        allowWatchBookmarks="true",
    ) as watch:
        kind, obj = watch.next()
        assert (kind, obj["metadata"]["uid"]) == ("ADDED", made["metadata"]["uid"])


@scenario
def an_object_that_leaves_a_selector_is_deleted_on_its_watch(api: Api, ns: str) -> None:
    version = api.get(pods(ns)).body["metadata"]["resourceVersion"]
    with api.watch(pods(ns), resourceVersion=version, labelSelector="app=web") as watch:
        api.post(pods(ns), pod("a"))
        api.patch(pods(ns, "a"), {"metadata": {"labels": {"app": "web"}}})
        api.patch(pods(ns, "a"), {"metadata": {"labels": {"app": "web", "b": "c"}}})
        api.patch(pods(ns, "a"), {"metadata": {"labels": {"app": "db"}}})
        assert watch.take(3) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


@scenario
def a_bound_pod_leaves_the_watch_of_pending_ones(api: Api, ns: str) -> None:
    version = api.get(pods(ns)).body["metadata"]["resourceVersion"]
    with api.watch(pods(ns), resourceVersion=version, fieldSelector="spec.nodeName=") as watch:
        api.post(pods(ns), pod("a"))
        api.post(pods(ns, "a", "binding"), binding("a", "n1"))
        assert watch.take(2) == [("ADDED", "a"), ("DELETED", "a")]


@scenario
def a_watch_list_ends_with_a_bookmark(api: Api, ns: str) -> None:
    for name in ("a", "b"):
        api.post(pods(ns), pod(name))
    with api.watch(
        pods(ns),
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    ) as watch:
        assert sorted(watch.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        kind, obj = watch.next()
        assert kind == "BOOKMARK"
        assert obj["kind"] == "Pod"
        assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert int(obj["metadata"]["resourceVersion"]) > 0
        api.post(pods(ns), pod("c"))
        assert watch.take(1) == [("ADDED", "c")]


@scenario
def initial_events_need_a_match(api: Api, ns: str) -> None:
    refused = api.get(pods(ns), watch="true", sendInitialEvents="true")

    assert (refused.code, refused.reason) == (422, "Invalid")
    assert "sendInitialEvents" in refused.message


@scenario
def a_watch_ends_when_its_time_is_up(api: Api, ns: str) -> None:
    version = api.get(pods(ns)).body["metadata"]["resourceVersion"]
    with api.watch(pods(ns), resourceVersion=version, timeoutSeconds="1") as watch:
        try:
            watch.next()
        except EOFError:
            return
    raise AssertionError("the watch goes on")


@scenario
def one_object_is_watched_by_its_name(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("a"))
    version = api.post(pods(ns), pod("b")).body["metadata"]["resourceVersion"]
    with api.watch(pods(ns), resourceVersion=version, fieldSelector="metadata.name=b") as watch:
        api.patch(pods(ns, "a"), {"metadata": {"labels": {"x": "y"}}})
        api.delete(pods(ns, "b"))
        assert watch.take(2) == [("MODIFIED", "b"), ("DELETED", "b")]


@scenario
def a_version_of_the_future_is_waited_for_and_refused(api: Api, ns: str) -> None:
    answer = api.get(pods(ns), resourceVersion="999999999999", resourceVersionMatch="NotOlderThan")

    assert (answer.code, answer.reason) == (504, "Timeout")
    assert answer.message.startswith("Timeout: Too large resource version: 999999999999, current: ")
    api.notes.clear()


@scenario
def initial_events_of_a_version_of_the_future_are_refused(api: Api, ns: str) -> None:
    future = {"resourceVersion": "999999999999", "resourceVersionMatch": "NotOlderThan"}
    initial = {"sendInitialEvents": "true", "allowWatchBookmarks": "true"}
    with api.watch(pods(ns), **future, **initial) as watch:
        kind, status = watch.next()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 504, "Timeout")
    assert status["message"].startswith("Timeout: Too large resource version: 999999999999")
    api.notes.clear()
    api.note("causes", status["code"], status["details"]["causes"])


@scenario
def a_version_must_be_a_number(api: Api, ns: str) -> None:
    listed = api.get(pods(ns), resourceVersion="abc")
    watched = api.get(pods(ns), watch="true", resourceVersion="abc")

    assert (listed.code, listed.reason) == (400, "BadRequest")
    assert watched.code == 500


@scenario
def a_match_rule_needs_a_version(api: Api, ns: str) -> None:
    refused = api.get(pods(ns), resourceVersionMatch="Exact")

    assert (refused.code, refused.reason) == (422, "Invalid")


@scenario
def a_list_as_of_a_version_is_exact(api: Api, ns: str) -> None:
    url = path("api/v1", ns, "configmaps")
    version = api.post(url, config_map("a")).body["metadata"]["resourceVersion"]
    api.post(url, labelled(config_map("b"), x="y"))
    then = api.get(
        url, resourceVersion=version, resourceVersionMatch="Exact", fieldSelector="metadata.name!=z"
    )

    assert [name for name in names(then.body) if name != "kube-root-ca.crt"] == ["a"]
    assert then.body["metadata"]["resourceVersion"] == version
    api.notes.clear()


# ---- tables ----


def columns(table: dict[str, object]) -> list[str]:
    definitions = table["columnDefinitions"]
    assert isinstance(definitions, list)
    return [column["name"] for column in definitions]


def without_ages(api: Api) -> None:
    """Ages pass while a test runs; all else of the rows is compared."""
    for _, _, body in api.notes:
        for row in body.get("rows", ()) if isinstance(body, dict) else ():
            row["cells"] = ["<age>" if is_age(cell) else cell for cell in row["cells"]]


def is_age(cell: object) -> bool:
    return isinstance(cell, str) and cell[:-1].isdigit() and cell[-1] in "smhd"


@scenario
def pods_make_a_table(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("a"))
    api.post(pods(ns), pod("b", schedulingGates=[{"name": "example.com/g"}]))
    table = api.ask("GET", pods(ns), accept=TABLE)

    assert table.body["kind"] == "Table"
    assert columns(table.body)[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    cells = [row["cells"][:4] for row in table.body["rows"]]
    assert cells == [
        ["a", "0/1", "Pending", "0"],
        ["b", "0/1", "SchedulingGated", "0"],
    ] or cells == [
        ["a", "0/1", "Pending", 0],
        ["b", "0/1", "SchedulingGated", 0],
    ]
    assert table.body["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    one = api.ask("GET", pods(ns, "a"), accept=TABLE)
    assert len(one.body["rows"]) == 1
    without_ages(api)


@scenario
def a_table_can_hold_whole_objects_or_none(api: Api, ns: str) -> None:
    api.post(pods(ns), pod("a"))
    whole = api.ask("GET", pods(ns), accept=TABLE, includeObject="Object").body
    none = api.ask("GET", pods(ns), accept=TABLE, includeObject="None").body

    assert whole["rows"][0]["object"]["kind"] == "Pod"
    assert none["rows"][0]["object"] is None or "object" not in none["rows"][0]
    without_ages(api)


@scenario
def nodes_make_a_table(api: Api, ns: str) -> None:
    wanted = labelled(node(f"{ns}-t", unschedulable=True), suite=ns)
    wanted["metadata"]["labels"]["node-role.kubernetes.io/worker"] = ""
    api.post("/api/v1/nodes", wanted)
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    api.patch(f"/api/v1/nodes/{ns}-t/status", {"status": {"conditions": [ready]}})
    table = api.ask("GET", "/api/v1/nodes", accept=TABLE, labelSelector=f"suite={ns}")

    assert columns(table.body)[:5] == ["Name", "Status", "Roles", "Age", "Version"]
    assert table.body["rows"][0]["cells"][:3] == [
        f"{ns}-t",
        "Ready,SchedulingDisabled",
        "worker",
    ]
    api.delete(f"/api/v1/nodes/{ns}-t")
    without_ages(api)


@scenario
def a_watch_can_be_of_tables(api: Api, ns: str) -> None:
    version = api.get(pods(ns)).body["metadata"]["resourceVersion"]
    with api.watch(pods(ns), accept=TABLE, resourceVersion=version) as watch:
        api.post(pods(ns), pod("a"))
        api.delete(pods(ns, "a"))
        first, marked, second = watch.next(), watch.next(), watch.next()

    assert (first[0], first[1]["kind"]) == ("ADDED", "Table")
    assert first[1]["rows"][0]["cells"][0] == "a"
    assert columns(first[1])[0] == "Name"
    assert (marked[0], second[0]) == ("MODIFIED", "DELETED")
    without_ages(api)


@scenario
def an_empty_table_has_columns(api: Api, ns: str) -> None:
    for resource in (
        "api/v1 pods",
        "api/v1 services",
        "api/v1 events",
        "api/v1 configmaps",
        "api/v1 secrets",
        "api/v1 serviceaccounts",
        "api/v1 endpoints",
        "api/v1 persistentvolumeclaims",
        "api/v1 replicationcontrollers",
        "apis/apps/v1 deployments",
        "apis/apps/v1 replicasets",
        "apis/apps/v1 statefulsets",
        "apis/apps/v1 daemonsets",
        "apis/batch/v1 jobs",
        "apis/policy/v1 poddisruptionbudgets",
        "apis/coordination.k8s.io/v1 leases",
        "apis/resource.k8s.io/v1 resourceclaims",
        "apis/storage.k8s.io/v1 csistoragecapacities",
    ):
        group_version, name = resource.split()
        table = api.ask(
            "GET", path(group_version, ns, name), accept=TABLE, fieldSelector="metadata.name=none"
        )
        assert table.code == 200
        assert columns(table.body)[0] in ("Name", "Last Seen")
