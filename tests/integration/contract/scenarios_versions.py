"""Definitions that change, with several versions, or without conditions; their objects."""

from __future__ import annotations

import time
from copy import deepcopy
from typing import Any

from tests.integration.contract.api import APPLY, MERGE, Answer, Api
from tests.integration.contract.scenario import path, scenario
from tests.integration.contract.scenarios_customs import (
    DEFINITIONS,
    GROUP,
    custom,
    definition,
    install,
    remove,
)

_WAIT_S_MAX = 20.0
_SCALE = {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"}
_SPEC: dict[str, Any] = {"size": {"type": "integer"}, "note": {"type": "string"}}


def _schema(**properties: Any) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties}
    status = {"type": "object", "properties": {"replicas": {"type": "integer"}}}
    properties = {"spec": spec, "status": status}
    return {"openAPIV3Schema": {"type": "object", "properties": properties}}


def _two_versions(plural: str, **version: Any) -> dict[str, Any]:
    body = definition(plural, schema=_schema(**_SPEC), **version)
    second = deepcopy(body["spec"]["versions"][0])
    body["spec"]["versions"].append({**second, "name": "v2", "storage": False})
    return body


def _until(api: Api, url: str, is_reached: Any) -> Answer:
    """Reads until an answer is the expected one; notes nothing."""
    notes, end = list(api.notes), time.monotonic() + _WAIT_S_MAX
    while not is_reached(answer := api.get(url)):
        assert time.monotonic() < end, answer
        time.sleep(0.05)
    api.notes[:] = notes
    return answer


def _change_schema(api: Api, plural: str, url: str, **properties: Any) -> None:
    """Changes the schema of the only version, and waits until an object is read with it."""
    notes = list(api.notes)
    name = f"{DEFINITIONS}/{plural}.{GROUP}"
    marked = {**properties, "mark": {"type": "string", "default": "m"}}
    body = api.get(name).body
    body["spec"]["versions"][0]["schema"] = _schema(**marked)
    assert api.put(name, body).code == 200
    api.notes[:] = notes
    _until(api, url, lambda answer: answer.code == 200 and "mark" in answer.body["spec"])


@scenario
def objects_outlive_the_conditions_of_their_definition(api: Api, namespace: str) -> None:
    install(api, definition("outs"))
    try:
        outs, name = path(f"apis/{GROUP}/v1", namespace, "outs"), f"{DEFINITIONS}/outs.{GROUP}"
        assert api.post(outs, custom("Out", "a")).code == 201
        conditions = api.get(name).body["status"]["conditions"]
        assert api.patch(f"{name}/status", {"status": {"conditions": None}}, MERGE).code == 200
        _until(api, outs, lambda answer: answer.code == 404)
        assert api.get(outs).code == 404
        established = {"status": {"conditions": conditions}}
        assert api.patch(f"{name}/status", established, MERGE).code == 200
        _until(api, outs, lambda answer: answer.code == 200)
        assert [item["metadata"]["name"] for item in api.get(outs).body["items"]] == ["a"]
    finally:
        remove(api, "outs")


@scenario
def each_version_has_a_scale(api: Api, namespace: str) -> None:
    install(api, _two_versions("lifts", subresources={"status": {}, "scale": _SCALE}))
    try:
        for version in ("v1", "v2"):
            lifts = path(f"apis/{GROUP}/{version}", namespace, "lifts")
            body = {**custom("Lift", version), "apiVersion": f"{GROUP}/{version}"}
            assert api.post(lifts, body).code == 201
            scale = api.get(f"{lifts}/{version}/scale").body
            assert (scale["apiVersion"], scale["kind"]) == ("autoscaling/v1", "Scale")
            changed = api.patch(f"{lifts}/{version}/scale", {"spec": {"replicas": 3}}, MERGE)
            assert changed.body["kind"] == "Scale"
            assert api.put(f"{lifts}/{version}/scale", scale).code == 409
            assert api.get(f"{lifts}/{version}").body["spec"]["size"] == 3
    finally:
        remove(api, "lifts")


@scenario
def the_scale_of_a_changed_definition_is_a_scale(api: Api, namespace: str) -> None:
    subresources = {"status": {}, "scale": _SCALE}
    install(api, definition("hoists", schema=_schema(**_SPEC), subresources=subresources))
    try:
        hoists = path(f"apis/{GROUP}/v1", namespace, "hoists")
        assert api.post(hoists, custom("Hoist", "a", {"size": 1, "note": "n"})).code == 201
        _change_schema(api, "hoists", f"{hoists}/a", size=_SPEC["size"])
        assert api.get(f"{hoists}/a/scale").body["kind"] == "Scale"
        changed = api.patch(f"{hoists}/a/scale", {"spec": {"replicas": 4}}, MERGE)
        assert changed.body["spec"] == {"replicas": 4}
        assert api.get(f"{hoists}/a").body["spec"] == {"size": 4, "mark": "m"}
    finally:
        remove(api, "hoists")


@scenario
def a_definition_cannot_lose_its_versions(api: Api, namespace: str) -> None:
    install(api, definition("thins"))
    try:
        name = f"{DEFINITIONS}/thins.{GROUP}"
        for spec in ({"versions": None}, None, {"group": None}, {"names": None}):
            assert api.patch(name, {"spec": spec}, MERGE).code == 422
        body = api.get(name).body
        body["spec"]["versions"] = None
        assert api.put(name, body).code == 422
    finally:
        remove(api, "thins")


@scenario
def a_write_in_another_version_leaves_other_managers(api: Api, namespace: str) -> None:
    install(api, _two_versions("mixeds"))
    try:
        ones, twos = (path(f"apis/{GROUP}/{v}", namespace, "mixeds", "a") for v in ("v1", "v2"))
        first = custom("Mixed", "a", {"size": 1, "note": "mine"})
        assert api.patch(ones, first, APPLY, fieldManager="first").code == 201
        labels = {"metadata": {"labels": {"a": "b"}}}
        assert api.patch(twos, labels, MERGE, fieldManager="second").code == 200
        thief = custom("Mixed", "a", {"note": "theirs"})
        assert api.patch(ones, thief, APPLY, fieldManager="third").code == 409
        assert api.patch(twos, {"spec": {"size": 2}}, MERGE, fieldManager="second").code == 200
        second = {**custom("Mixed", "a", {"note": "theirs"}), "apiVersion": f"{GROUP}/v2"}
        assert api.patch(twos, second, APPLY, fieldManager="third").code == 409
        assert api.patch(twos, second, APPLY, fieldManager="third", force="true").code == 200
        assert api.patch(ones, first, APPLY, fieldManager="first", force="true").code == 200
        less = custom("Mixed", "a", {"size": 1})
        assert api.patch(ones, less, APPLY, fieldManager="first").body["spec"] == {"size": 1}
        api.get(ones)
    finally:
        remove(api, "mixeds")


@scenario
def a_manager_applies_after_a_field_has_left_the_schema(api: Api, namespace: str) -> None:
    install(api, definition("lefts", schema=_schema(**_SPEC)))
    try:
        left = path(f"apis/{GROUP}/v1", namespace, "lefts", "a")
        body = custom("Left", "a", {"size": 1, "note": "n"})
        assert api.patch(left, body, APPLY, fieldManager="first").code == 201
        _change_schema(api, "lefts", left, size=_SPEC["size"])
        for size in (2, 2, 3):
            body = custom("Left", "a", {"size": size})
            answer = api.patch(left, body, APPLY, fieldManager="first")
            assert answer.body["spec"] == {"size": size, "mark": "m"}
    finally:
        remove(api, "lefts")


@scenario
def numbers_are_those_of_go(api: Api, namespace: str) -> None:
    spec = {**_SPEC, "share": {"type": "number"}, "shares": {"type": "array"}}
    spec["shares"]["items"] = {"type": "number"}
    spec["small"] = {"type": "integer", "format": "int32", "maximum": 2**30}
    install(api, definition("sums", schema=_schema(**spec)))
    try:
        sums = path(f"apis/{GROUP}/v1", namespace, "sums")
        large: tuple[float, ...] = (2**63, -(2**63) - 1, 2**64, 10**20, 1e17, 2.0**53, 1.5)
        for number, size in enumerate(large):
            assert api.post(sums, custom("Sum", f"a{number}", {"size": size})).code == 422
        small: tuple[float, ...] = (2**63 - 1, -(2**63), 2.0**53 - 1, 3.0, -3.0)
        for number, size in enumerate(small):
            assert api.post(sums, custom("Sum", f"b{number}", {"size": size})).code == 201
        for wrong in (2**31, 1.5, -(2**31) - 1):
            assert api.post(sums, custom("Sum", "d", {"small": wrong})).code == 422
        body = custom("Sum", "c", {"size": 3.0, "share": 4.0, "shares": [1.0, 2.5, 2**63]})
        sent = api.post(sums, body).body["spec"]
        api.get(f"{sums}/c")
        assert (type(sent["size"]), type(sent["share"])) == (int, int)
        changed = api.patch(f"{sums}/c", {"spec": {"share": 5.0}}, MERGE).body
        assert type(changed["spec"]["share"]) is int
        applied = api.patch(f"{sums}/c", custom("Sum", "c", {"size": 3}), APPLY, fieldManager="x")
        assert applied.code == 200
    finally:
        remove(api, "sums")
