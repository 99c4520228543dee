"""Objects that are too large for etcd, with their managedFields or without."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.integration.contract.api import APPLY, Api
from tests.integration.contract.objects import pod
from tests.integration.contract.scenario import path, pods, scenario
from tests.integration.contract.scenarios_customs import (
    GROUP,
    custom,
    definition,
    install,
    remove,
)

TOO_LARGE = "etcdserver: request is too large"
FAR_TOO_LARGE = "trying to send message larger than max ("


def _text(length: int) -> dict[str, Any]:
    return {"size": 1, "free": {"text": "x" * length}}


def _fields(count: int) -> dict[str, Any]:
    return {"size": 1, "free": {f"field-{number:06}": 1 for number in range(count)}}


@scenario
def a_custom_object_is_too_large(api: Api, namespace: str) -> None:
    install(api, definition("gadgets"))
    gadgets = path(f"apis/{GROUP}/v1", namespace, "gadgets")
    large = api.post(gadgets, custom("Gadget", "large", _text(1_500_000)))
    refused = api.post(gadgets, custom("Gadget", "larger", _text(1_600_000)))
    preview = api.post(gadgets, custom("Gadget", "larger", _text(1_600_000)), dryRun="All")
    limits = api.post(gadgets, custom("Gadget", "largest", _text(2_200_000)))
    api.post(gadgets, custom("Gadget", "small"))
    small = f"{gadgets}/small"
    patched = api.patch(small, {"spec": _text(1_600_000)})
    limited = api.patch(small, {"spec": _text(2_200_000)})
    after = api.get(small)
    remove(api, "gadgets")

    assert large.code == preview.code == 201
    assert (refused.code, refused.message, refused.reason) == (500, TOO_LARGE, None)
    assert (patched.code, patched.message) == (500, TOO_LARGE)
    for answer in (limits, limited):
        assert (answer.code, answer.reason) == (500, None)
        assert answer.message.startswith("rpc error: code = ResourceExhausted desc = ")
        assert FAR_TOO_LARGE in answer.message
    assert after.body["spec"] == {"size": 1, "color": "red"}


@scenario
def managed_fields_are_dropped_if_they_are_too_large(api: Api, namespace: str) -> None:
    install(api, definition("gizmos"))
    gizmos = path(f"apis/{GROUP}/v1", namespace, "gizmos")
    fields = _fields(45_000)
    large = api.post(gizmos, custom("Gizmo", "large", fields))
    api.post(gizmos, custom("Gizmo", "small"))
    patched = api.patch(f"{gizmos}/small", {"spec": fields})
    applied = api.patch(
        f"{gizmos}/other", custom("Gizmo", "other", fields), APPLY, fieldManager="a"
    )
    remove(api, "gizmos")

    assert (large.code, patched.code, applied.code) == (201, 200, 500)
    assert "managedFields" not in large.body["metadata"]
    assert "managedFields" not in patched.body["metadata"]
    assert applied.message == TOO_LARGE


@scenario
def the_bytes_of_data_are_counted(api: Api, namespace: str) -> None:
    limit = 1 << 20
    for resource, kind, field in (
        ("secrets", "Secret", "data"),
        ("configmaps", "ConfigMap", "binaryData"),
    ):
        url = path("api/v1", namespace, resource)
        for length, code in ((limit, 201), (limit + 1, 422)):
            content = base64.b64encode(b"x" * length).decode()
            body = {"kind": kind, "metadata": {"name": f"of-{length}"}, field: {"a": content}}
            assert api.post(url, body).code == code
    for count, code in ((limit // 2, 201), (limit // 2 + 1, 422)):
        text = {"metadata": {"name": f"text-{count}"}, "data": {"a": "é" * count}}
        data = json.dumps(text, ensure_ascii=False).encode()
        assert api.post(path("api/v1", namespace, "configmaps"), data).code == code


@scenario
def a_key_of_a_config_map_is_in_one_of_its_maps(api: Api, namespace: str) -> None:
    body = {"metadata": {"name": "a"}, "data": {"a": "x", "b": "y"}, "binaryData": {"b": "eA=="}}
    refused = api.post(path("api/v1", namespace, "configmaps"), body)
    assert refused.code == 422
    assert refused.body["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "b": duplicate of key present in binaryData',
            "field": "data[b]",
        }
    ]


@scenario
def keys_of_a_config_map_count(api: Api, namespace: str) -> None:
    url = path("api/v1", namespace, "configmaps")
    for count, has_managers, problem in (
        (40_000, True, None),
        (45_000, False, TOO_LARGE),
        (60_000, False, FAR_TOO_LARGE),
    ):
        data = {f"k{number:010}": "v" for number in range(count)}
        metadata = {"name": f"with-{count}"}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        created = api.post(url, body)
        assert created.code == 201
        assert ("managedFields" in created.body["metadata"]) is has_managers
        metadata["name"] = "applied"
        applied = api.patch(f"{url}/applied", body, APPLY, fieldManager="a")
        assert applied.code == (201 if problem is None else 500)
        assert problem is None or problem in applied.message


@scenario
def a_pod_is_too_large(api: Api, namespace: str) -> None:
    def with_arguments(name: str, length: int) -> dict[str, Any]:
        large = pod(name)
        large["spec"]["containers"][0]["args"] = ["x" * 1000] * (length // 1000)
        return large

    large = api.post(pods(namespace), with_arguments("large", 1_550_000))
    refused = api.post(pods(namespace), with_arguments("larger", 1_600_000))
    limits = api.post(pods(namespace), with_arguments("largest", 2_200_000))

    assert large.code == 201
    assert (refused.code, refused.message) == (500, TOO_LARGE)
    assert (limits.code, FAR_TOO_LARGE in limits.message) == (500, True)
