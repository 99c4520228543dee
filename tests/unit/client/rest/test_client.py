"""Requests, what is repeated, and the three ways a write may end."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from mooring.client.rest.client import EVICT_S_MAX, WRITE_S_MAX, Client, Patch
from mooring.client.rest.paths import path_of
from mooring.client.transport.transport import Pool
from mooring.errors import (
    ApiError,
    Conflict,
    LeaseLost,
    NotFound,
    OutcomeUnknown,
    TooManyRequests,
    Unreachable,
)
from mooring.objects import ObjectMeta, Pod
from mooring.objects.kinds import KINDS, kind_named
from mooring.objects.meta import Lease
from tests.helpers.client_requests import NOWHERE, POD, UNKNOWN, WEB, run
from tests.helpers.client_servers import Script, answer, refusal

# -- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "subresource", "expected"),
    [
        ("Pod", "", "", "", "/api/v1/pods"),
        ("Pod", "shop", "", "", "/api/v1/namespaces/shop/pods"),
        ("Pod", "shop", "web", "binding", "/api/v1/namespaces/shop/pods/web/binding"),
        ("Node", "ignored", "n1", "", "/api/v1/nodes/n1"),
        ("Lease", "x", "y", "", "/apis/coordination.k8s.io/v1/namespaces/x/leases/y"),
        ("Pod", "a/b", "c?d", "", "/api/v1/namespaces/a%2Fb/pods/c%3Fd"),
    ],
)
def test_paths(kind: str, namespace: str, name: str, subresource: str, expected: str) -> None:
    assert path_of(kind_named(kind), namespace, name, subresource) == expected


def test_the_collection_of_every_kind_is_where_the_kind_says() -> None:
    for kind in KINDS.values():
        assert path_of(kind) == kind.path


# -- writing --------------------------------------------------------------------------------------


def test_create_sends_the_object_and_gives_what_was_stored() -> None:
    script = Script(answer(201, POD))
    new = Pod(metadata=ObjectMeta(name="web", namespace="shop"))
    found, _ = run(script, lambda client: client.create(new))
    assert found == WEB
    request = script.requests[0]
    assert (request.method, request.path) == ("POST", "/api/v1/namespaces/shop/pods")
    assert request.query == {"fieldManager": "mooring"}
    assert request.headers["content-type"] == "application/json"
    assert request.body == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "shop"},
    }
    assert (request.pool, request.deadline_s) == (Pool.WRITE, WRITE_S_MAX)


def test_replace_sends_the_version_that_it_replaces() -> None:
    lease = Lease(metadata=ObjectMeta(name="l", namespace="n", resource_version="4"))
    script = Script(answer(200, {"metadata": {"name": "l"}}))
    run(script, lambda client: client.replace(lease))
    assert script.requests[0].method == "PUT"
    assert script.requests[0].body["metadata"]["resourceVersion"] == "4"


@pytest.mark.parametrize(
    ("how", "content_type"),
    [
        (Patch.MERGE, "application/merge-patch+json"),
        (Patch.STRATEGIC, "application/strategic-merge-patch+json"),
        (Patch.JSON, "application/json-patch+json"),
        (Patch.APPLY, "application/apply-patch+yaml"),
    ],
)
def test_a_patch_says_of_which_type_it_is(how: Patch, content_type: str) -> None:
    script = Script(answer(200, POD))
    run(
        script,
        lambda client: client.patch("Pod", "web", {"a": 1}, namespace="shop", how=how, force=True),
    )
    request = script.requests[0]
    assert request.headers["content-type"] == content_type
    assert request.query.get("force") == ("true" if how is Patch.APPLY else None)


def test_delete_says_which_object_is_meant_and_how() -> None:
    script = Script(answer(200, {"kind": "Status"}), answer(200, {}))

    async def both(client: Client) -> None:
        await client.delete(
            "Pod",
            "web",
            "shop",
            uid="u1",
            resource_version="5",
            grace_period_s=0,
            propagation="Background",
        )
        await client.delete("Node", "n1")

    run(script, both)
    assert script.requests[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u1", "resourceVersion": "5"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }
    assert script.requests[1].body == {"apiVersion": "v1", "kind": "DeleteOptions"}


def test_bind_names_the_pod_by_uid() -> None:
    script = Script(answer(201, {"kind": "Status", "status": "Success"}))
    run(script, lambda client: client.bind(WEB, "node-1"))
    request = script.requests[0]
    assert request.path == "/api/v1/namespaces/shop/pods/web/binding"
    assert request.body["metadata"] == {"name": "web", "namespace": "shop", "uid": "u1"}
    assert request.body["target"] == {"apiVersion": "v1", "kind": "Node", "name": "node-1"}


def test_the_deadline_of_a_binding_is_that_of_the_caller_and_else_that_of_a_write() -> None:
    script = Script(answer(201, {}), answer(201, {}))

    async def both(client: Client) -> None:
        await client.bind(WEB, "node-1", deadline_s=3.5)
        await client.bind(WEB, "node-1")

    run(script, both)
    deadlines_s = [request.deadline_s for request in script.requests]
    assert deadlines_s[0] == 3.5
    assert deadlines_s[1] > 3.5


def test_evict_names_the_pod_by_uid_and_gives_the_server_time() -> None:
    script = Script(answer(201, {}), answer(201, {}))

    async def both(client: Client) -> None:
        await client.evict(WEB)
        await client.evict(WEB, grace_period_s=3)

    run(script, both)
    first, second = (request.body["deleteOptions"] for request in script.requests)
    assert first == {"preconditions": {"uid": "u1"}}
    assert second == {"preconditions": {"uid": "u1"}, "gracePeriodSeconds": 3}
    assert script.requests[0].deadline_s == EVICT_S_MAX


def test_an_eviction_that_a_budget_forbids_is_not_tried_again() -> None:
    script = Script(refusal(429, "TooManyRequests", "budget", retry_after="10"))
    with pytest.raises(TooManyRequests, match="budget") as refused:
        run(script, lambda client: client.evict(WEB))
    assert refused.value.retry_after_s == 10.0


def test_a_status_patch_carries_the_uid() -> None:
    script = Script(answer(200, POD))
    run(script, lambda client: client.patch_pod_status(WEB, {"nominatedNodeName": "n"}))
    request = script.requests[0]
    assert request.path == "/api/v1/namespaces/shop/pods/web/status"
    assert request.body == {"metadata": {"uid": "u1"}, "status": {"nominatedNodeName": "n"}}


# -- the three ends of a write --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (refusal(409, "Conflict"), Conflict),
        (refusal(404, "NotFound"), NotFound),
        (UNKNOWN, OutcomeUnknown),
        (NOWHERE, Unreachable),
        (answer(500, b"ill"), OutcomeUnknown),
        (answer(503, b"ill"), OutcomeUnknown),
        (answer(504, b"late"), OutcomeUnknown),
        (refusal(429, "TooManyRequests"), TooManyRequests),
    ],
)
def test_a_write_is_sent_once(trouble: Any, expected: type[Exception]) -> None:
    script = Script(trouble, answer(200, POD))
    with pytest.raises(expected):
        run(script, lambda client: client.bind(WEB, "node-1"))
    assert len(script.requests) == 1


@pytest.mark.parametrize("body", [b"<html>", b'{"metadata": {"name": 7}}', b"{}"])
def test_a_write_whose_answer_cannot_be_read_was_done_nobody_knows_how(body: bytes) -> None:
    for ask in (
        lambda client: client.create(WEB),
        lambda client: client.replace(WEB),
        lambda client: client.patch("Pod", "web", {}, namespace="shop"),
    ):
        script = Script(answer(200, body))
        with pytest.raises(OutcomeUnknown, match="cannot decode the response"):
            run(script, ask)
        assert len(script.requests) == 1


@pytest.mark.parametrize("code", [429, 503])
def test_a_write_is_repeated_where_the_server_says_that_it_did_nothing_yet(code: int) -> None:
    script = Script(refusal(code, "Busy", retry_after="2"), answer(201, {}))
    _, waits_s = run(script, lambda client: client.bind(WEB, "node-1"))
    assert len(script.requests) == 2
    assert 2.0 <= waits_s[0] <= 2.2


@pytest.mark.parametrize(
    ("response", "error"),
    [
        (refusal(500, "Busy", retry_after="2"), OutcomeUnknown),
        (refusal(504, "Busy", retry_after="2"), OutcomeUnknown),
        (refusal(409, "Conflict", retry_after="2"), Conflict),
        (refusal(429, "Busy"), TooManyRequests),
        (refusal(503, "Busy"), OutcomeUnknown),
    ],
)
def test_a_write_that_may_have_happened_is_not_repeated(response: Any, error: Any) -> None:
    script = Script(response, answer(201, {}))
    with pytest.raises(error):
        run(script, lambda client: client.bind(WEB, "node-1"))
    assert len(script.requests) == 1


@pytest.mark.parametrize("code", [200, 201, 204, 299])
def test_every_status_of_success_is_one(code: int) -> None:
    script = Script(answer(code, b"body"))
    body, _ = run(script, lambda client: client.write("POST", "/x", b"{}"))
    assert body == b"body"


@pytest.mark.parametrize("code", [199, 300, 301, 304, 399])
def test_any_other_status_below_400_is_an_error(code: int) -> None:
    script = Script(answer(code, b"elsewhere"), answer(code, b"elsewhere"))
    with pytest.raises(ApiError, match="POST /x: elsewhere") as caught:
        run(script, lambda client: client.write("POST", "/x", b"{}"))
    assert caught.value.status == code
    with pytest.raises(ApiError):
        run(script, lambda client: client.get("Pod", "web", "shop"))
    assert len(script.requests) == 2


def test_a_write_is_given_up_after_ten_tries() -> None:
    script = Script(*[refusal(429, "Busy", retry_after="1")] * 11)
    with pytest.raises(TooManyRequests):
        run(script, lambda client: client.bind(WEB, "node-1"))
    assert len(script.requests) == 10


def test_nothing_is_written_behind_the_fence() -> None:
    def fence() -> float:
        raise LeaseLost("gone")

    script = Script(answer(201, {}))
    for ask in (
        lambda client: client.bind(WEB, "n"),
        lambda client: client.evict(WEB),
        lambda client: client.create(WEB),
        lambda client: client.replace(WEB),
        lambda client: client.patch("Pod", "web", {}, namespace="shop"),
        lambda client: client.delete("Pod", "web", "shop"),
        lambda client: client.patch_pod_status(WEB, {}),
    ):
        with pytest.raises(LeaseLost):
            run(script, ask, fence=fence)
    assert not script.requests


def test_a_repeated_write_passes_the_fence_again() -> None:
    left_s = iter([5.0])

    def fence() -> float:
        found = next(left_s, None)
        if found is None:
            raise LeaseLost("gone while waiting")
        return found

    script = Script(refusal(429, "Busy", retry_after="6"), answer(201, {}))
    with pytest.raises(LeaseLost):
        run(script, lambda client: client.bind(WEB, "node-1"), fence=fence)
    assert len(script.requests) == 1


@pytest.mark.parametrize(("left_s", "expected_s"), [(3.5, 3.5), (math.inf, WRITE_S_MAX)])
def test_a_write_ends_before_the_lease_does(left_s: float, expected_s: float) -> None:
    script = Script(answer(201, {}))
    run(script, lambda client: client.bind(WEB, "node-1"), fence=lambda: left_s)
    assert script.requests[0].deadline_s == expected_s


def test_a_body_that_is_bytes_already_is_sent_as_it_is() -> None:
    script = Script(answer(200, POD))
    patch = json.dumps({"a": 1}).encode()
    run(script, lambda client: client.patch("Pod", "web", patch, namespace="shop"))
    assert script.requests[0].body == {"a": 1}
