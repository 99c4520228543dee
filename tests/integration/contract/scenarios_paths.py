"""Paths that are no collection or object: deprecated watches, health checks."""

from __future__ import annotations

import pytest

from tests.integration.contract.api import Api
from tests.integration.contract.objects import config_map, node
from tests.integration.contract.scenario import path, scenario


def watched(namespace: str, name: str = "") -> str:
    """Returns the deprecated path of a watch of config maps."""
    return path("api/v1/watch", namespace, "configmaps", name)


@scenario
def a_deprecated_path_watches_a_collection(api: Api, ns: str) -> None:
    for name in ("a", "b"):
        api.post(path("api/v1", ns, "configmaps"), config_map(name))

    with api.watch(watched(ns), timeoutSeconds="5") as watch:
        assert watch.take(2) == [("ADDED", "a"), ("ADDED", "b")]
        api.delete(path("api/v1", ns, "configmaps", "b"))
        assert watch.take(1) == [("DELETED", "b")]
    with api.watch("/api/v1/watch/configmaps", fieldSelector=f"metadata.namespace={ns}") as watch:
        assert watch.take(1) == [("ADDED", "a")]
    with api.watch(f"/api/v1/watch/namespaces/{ns}") as watch:
        assert watch.next()[1]["kind"] == "Namespace"


@scenario
def a_deprecated_path_watches_one_object(api: Api, ns: str) -> None:
    for name in ("a", "b"):
        api.post(path("api/v1", ns, "configmaps"), config_map(name))
    version = api.get(path("api/v1", ns, "configmaps")).body["metadata"]["resourceVersion"]

    with api.watch(watched(ns, "b"), resourceVersion=version, timeoutSeconds="5") as watch:
        api.delete(path("api/v1", ns, "configmaps", "a"))
        api.delete(path("api/v1", ns, "configmaps", "b"))
        assert watch.take(1) == [("DELETED", "b")]
    other = api.get(watched(ns, "a"), fieldSelector="metadata.name=b")
    assert other.code == 400
    assert api.get(watched(ns, "a"), fieldSelector="metadata.namespace=x").code == 400
    assert api.get(watched(ns, "a"), resourceVersion="x").code == 500


@scenario
def deprecated_paths_of_other_groups_watch(api: Api, ns: str) -> None:
    api.post("/api/v1/nodes", node(f"{ns}-n"))
    with api.watch(f"/api/v1/watch/nodes/{ns}-n", timeoutSeconds="5") as watch:
        assert watch.take(1) == [("ADDED", f"{ns}-n")]
    api.delete(f"/api/v1/nodes/{ns}-n")


@scenario
def a_deprecated_path_is_only_watched(api: Api, ns: str) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        assert api.ask(method, watched(ns), {}).code == 405
    for unknown in (
        "/api/v1/watch/foo",
        f"/api/v1/watch/namespaces/{ns}/foo",
        f"/api/v1/watch/namespaces/{ns}/pods/a/status",
        f"/api/v1/watch/namespaces/{ns}/bindings",
        "/apis/authorization.k8s.io/v1/watch/subjectaccessreviews",
    ):
        assert api.get(unknown).code == 404


@scenario
def health_has_single_checks(api: Api, ns: str) -> None:
    for root in ("healthz", "livez", "readyz"):
        assert api.get(f"/{root}").body == "ok"
        for check in ("ping", "log", "etcd"):
            assert api.get(f"/{root}/{check}").body == "ok"
        assert api.get(f"/{root}/none").code == 404
        assert api.get(f"/{root}/").code == 404
        text = api.get(f"/{root}", verbose="", exclude="log").body
        api.notes.pop()  # the real one has more checks
        assert text.startswith("[+]ping ok\n[+]log excluded: ok\n")
        assert text.endswith(f"{root} check passed\n")
        text = api.get(f"/{root}", verbose="1", exclude="none").body
        api.notes.pop()
        assert 'warn: some health checks cannot be excluded: no matches for "none"\n' in text


@scenario
def deprecated_paths_are_authorized_as_watches(api: Api, ns: str) -> None:
    ann = api.acting_as("ann")
    assert ann.get(watched(ns)).code == 403
    assert ann.get(watched(ns, "a")).code == 403
    assert ann.post("/api/v1/watch/nodes", {}).code == 403
    assert ann.get("/api/v1/proxy/nodes/a/metrics").code == 403
    assert ann.get("/healthz/ping").code == 403


@scenario
def a_deprecated_watch_of_nothing_ends(api: Api, ns: str) -> None:
    api.post(path("api/v1", ns, "configmaps"), config_map("a"))
    limit = {"timeoutSeconds": "1"}
    with api.watch(watched(ns), labelSelector="no=such", **limit) as watch, pytest.raises(EOFError):
        watch.next()
    with api.watch(watched(ns, "none"), **limit) as watch, pytest.raises(EOFError):
        watch.next()
    # It is a watch whatever the parameter says.
    deployments = path("apis/apps/v1/watch", ns, "deployments")
    with api.watch(deployments, watch="false", **limit) as watch, pytest.raises(EOFError):
        watch.next()
