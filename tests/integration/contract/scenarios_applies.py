"""Server-side apply: nulls, fields that are applied no more, scales, the order of checks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.integration.contract.api import APPLY, JSON_PATCH, MERGE, Api
from tests.integration.contract.objects import config_map, deployment
from tests.integration.contract.scenario import path, scenario
from tests.integration.contract.scenarios_customs import GROUP, definition, install, remove
from tests.integration.contract.scenarios_managers import deployments, maps, owners

_TEXT, _NUMBER = {"type": "string"}, {"type": "integer"}
_NULLABLE = {"nullable": True}
_PAIR = {"type": "object", "properties": {"a": _TEXT, "b": _TEXT}}
_SET = {"type": "array", "items": _TEXT, "x-kubernetes-list-type": "set"}
_ELEMENT = {
    "type": "object",
    "required": ["key"],
    "properties": {
        "key": _TEXT,
        "side": {**_TEXT, "default": "left"},
        "value": _TEXT,
        "pair": _PAIR,
        "names": _SET,
    },
}
_FIELDS: dict[str, dict[str, Any]] = {
    "number": _NUMBER,
    "nullNumber": _NUMBER | _NULLABLE,
    "pair": _PAIR,
    "nullPair": _PAIR | _NULLABLE,
    "map": {"type": "object", "additionalProperties": _TEXT},
    "pairs": {"type": "object", "additionalProperties": _PAIR},
    "list": {"type": "array", "items": _TEXT},
    "set": _SET,
    "nullSet": _SET | _NULLABLE,
    "elements": {
        "type": "array",
        "items": _ELEMENT,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["key", "side"],
    },
    "whole": {**_PAIR, "x-kubernetes-map-type": "atomic"},
    "nullWhole": {**_PAIR, "x-kubernetes-map-type": "atomic", **_NULLABLE},
    "usual": {**_NUMBER, "default": 4},
    "nullUsual": {**_NUMBER, "default": 4, **_NULLABLE},
    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_VALUES: dict[str, Any] = {
    "number": 1,
    "nullNumber": 1,
    "pair": {"a": "x"},
    "nullPair": {"a": "x"},
    "map": {"a": "x"},
    "list": ["a"],
    "set": ["a"],
    "nullSet": ["a"],
    "elements": [{"key": "a", "value": "v"}],
    "whole": {"a": "x"},
    "nullWhole": {"a": "x"},
    "usual": 5,
    "nullUsual": 5,
    "free": {"z": 1},
}
_INNER: tuple[dict[str, Any], ...] = (
    {"pair": {"a": None}},
    {"map": {"a": None}},
    {"list": [None]},
    {"set": [None]},
    {"elements": [None]},
    {"elements": [{"key": None}]},
    {"elements": [{"key": "a", "side": None}]},
    {"elements": [{"key": "a", "value": None}]},
    {"whole": {"a": None}},
    {"free": {"z": None}},
)


def _install(api: Api, plural: str) -> str:
    made = definition(plural, subresources={"status": {}})
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"] = {"type": "object", "properties": _FIELDS}
    install(api, made)
    return str(made["spec"]["names"]["kind"])


def _custom(kind: str, name: str, spec: Any) -> dict[str, Any]:
    head = {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}}
    return {**head, "spec": spec}


@scenario
def null_is_a_value_that_is_applied(api: Api, namespace: str) -> None:
    kind = _install(api, "nulls")
    url = path(f"apis/{GROUP}/v1", namespace, "nulls")

    def apply(name: str, spec: Any, manager: str) -> Any:
        obj = _custom(kind, name, spec)
        options = {"fieldManager": manager, "force": "true"}
        return api.patch(f"{url}/{name}", obj, APPLY, **options)

    try:
        for field, value in _VALUES.items():
            name = field.lower()
            apply(f"{name}-new", {field: None}, "me")
            apply(f"{name}-new", {field: value}, "me")
            for manager in ("me", "other"):
                apply(f"{name}-{manager}", {field: value}, "me")
                apply(f"{name}-{manager}", {field: None}, manager)
            if isinstance(value, dict | list):
                apply(f"{name}-empty", {field: value}, "me")
                apply(f"{name}-empty", {field: type(value)()}, "me")
                apply(f"{name}-empty", {field: None}, "me")
        for number, spec in enumerate(_INNER):
            field = next(iter(spec))
            apply(f"inner-{number}", spec, "me")
            for manager in ("me", "other"):
                apply(f"inner-{number}-{manager}", {field: _VALUES[field]}, "me")
                apply(f"inner-{number}-{manager}", spec, manager)
        assert apply("no-spec", None, "me").code == 422
        assert api.get(f"{url}/nullnumber-me").body["spec"]["nullNumber"] is None
        assert api.get(f"{url}/number-me").body["spec"]["number"] == 1
    finally:
        remove(api, "nulls")


@scenario
def drawn_applies_leave_what_a_manager_owns(api: Api, namespace: str) -> None:
    kind = _install(api, "drawns")
    url = path(f"apis/{GROUP}/v1", namespace, "drawns")
    rng = Random("applies")
    try:
        for number in range(60):
            for _ in range(rng.randrange(3, 8)):
                _write(api, rng, kind, f"{url}/drawn-{number}")
            api.get(f"{url}/drawn-{number}")
    finally:
        remove(api, "drawns")


def _write(api: Api, rng: Random, kind: str, url: str) -> None:
    """Changes an object in a way that is drawn."""
    manager = rng.choice("xyz")
    way = rng.choices(("apply", "merge", "status", "json"), (7, 2, 1, 1))[0]
    obj = _custom(kind, url.rpartition("/")[2], _spec(rng))
    if way == "json":
        api.patch(url, [{"op": "add", "path": "/spec", "value": obj["spec"]}], JSON_PATCH)
    elif way == "merge":
        api.patch(url, {"spec": obj["spec"]}, MERGE, fieldManager=manager)
    elif way == "status":
        obj["status"] = _part(rng, {"replicas": lambda: rng.randrange(3), "phase": _letter(rng)})
        del obj["spec"]
        api.patch(f"{url}/status", obj, rng.choice((APPLY, MERGE)), fieldManager=manager)
    else:
        force = str(rng.random() < 0.6).lower()
        answer = api.patch(url, obj, APPLY, fieldManager=manager, force=force)
        if answer.code == 409:
            # The conflicts with several managers have the order of a Go map.
            causes = answer.body["details"]["causes"]
            api.notes.pop()
            api.note(url, 409, [answer.message, *sorted(map(str, causes))])


def _letter(rng: Random) -> Callable[[], str]:
    return lambda: rng.choice("abc")


def _part(rng: Random, values: dict[str, Callable[[], Any]], share: float = 0.5) -> dict[str, Any]:
    return {name: value() for name, value in values.items() if rng.random() < share}


def _spec(rng: Random) -> dict[str, Any]:
    letter = _letter(rng)

    def pair() -> dict[str, Any]:
        return _part(rng, {"a": letter, "b": letter})

    def names() -> list[str]:
        return rng.sample("abc", rng.randrange(4))

    def elements() -> list[dict[str, Any]]:
        drawn = {}
        for _ in range(rng.randrange(4)):
            parts = {"side": letter, "value": letter, "pair": pair, "names": names}
            element = {"key": letter(), **_part(rng, parts, 0.35)}
            drawn[element["key"], element.get("side", "left")] = element
        return list(drawn.values())

    values: dict[str, Callable[[], Any]] = {
        "number": lambda: rng.randrange(3),
        "pair": pair,
        "map": lambda: _part(rng, dict.fromkeys("xyz", letter)),
        "pairs": lambda: _part(rng, dict.fromkeys("xy", pair)),
        "list": names,
        "set": names,
        "elements": elements,
        "whole": pair,
        "nullPair": pair,
        "usual": lambda: rng.randrange(3),
        "free": lambda: _part(rng, {"q": letter, "r": pair}),
    }
    return _part(rng, values, 0.35)


def _web(**spec: Any) -> dict[str, Any]:
    made = deployment("web", **spec)
    if "replicas" not in spec:
        made["spec"].pop("replicas", None)
    return made


@scenario
def scales_are_applied_and_share_their_field(api: Api, namespace: str) -> None:
    url = deployments(namespace, "web")
    head = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}}
    replicas: dict[str, Any] = {"f:spec": {"f:replicas": {}}}

    def apply(manager: str, count: int | None, **options: str) -> Any:
        scale = {**head, "metadata": {"name": "web", "namespace": namespace}}
        if count is not None:
            scale["spec"] = {"replicas": count}
        return api.patch(f"{url}/scale", scale, APPLY, fieldManager=manager, **options)

    def patch(manager: str, count: int) -> Any:
        return api.patch(f"{url}/scale", {"spec": {"replicas": count}}, fieldManager=manager)

    assert apply("a", 3).code == 404
    api.post(deployments(namespace), _web(replicas=2), fieldManager="maker")
    assert apply("a", 3).code == 409
    assert apply("a", 3, force="true").body["spec"]["replicas"] == 3
    assert owners(api.get(url))["a", "Apply", "scale"] == replicas
    for manager, count in (("a", 4), ("b", 4), ("b", 5), ("a", None), ("b", None)):
        apply(manager, count)
        api.get(url)
    patch("s", 1)
    assert ("s", "Update", "scale") not in owners(api.get(url))
    api.patch(url, _web(replicas=3), APPLY, fieldManager="m", force="true")
    for manager, count in (("s", 3), ("s", 7), ("t", 7), ("t", 8)):
        patch(manager, count)
        api.get(url)
    api.patch(url, _web(replicas=3), APPLY, fieldManager="m")
    apply("m", 5, force="true")
    api.patch(url, _web(replicas=4), APPLY, fieldManager="m")
    api.patch(url, _web(replicas=5), APPLY, fieldManager="m")
    api.patch(url, _web(), APPLY, fieldManager="m")
    api.get(url)


@scenario
def scales_of_an_applied_workload_have_no_manager(api: Api, namespace: str) -> None:
    url = deployments(namespace, "web")
    metadata = {"name": "web", "namespace": namespace}
    scale: dict[str, Any] = {
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": metadata,
        "spec": {"replicas": 3},
    }
    api.patch(url, _web(), APPLY, fieldManager="m")
    api.patch(f"{url}/scale", {"spec": {"replicas": 7}}, fieldManager="s")
    assert set(owners(api.get(url))) == {("m", "Apply", "")}
    bad: tuple[dict[str, Any], ...] = (
        {**scale, "x": 1},
        {**scale, "spec": {"replicas": "x"}},
        {**scale, "spec": {"replicas": -1}},
        {**scale, "status": {"replicas": 9}},
        {**scale, "metadata": {**metadata, "labels": {"a": "b"}}},
        {**scale, "metadata": {**metadata, "resourceVersion": "1"}},
        {**scale, "metadata": {**metadata, "name": "other"}},
        {**scale, "metadata": {**metadata, "namespace": "other"}},
        _web(replicas=2),
        {"spec": {"replicas": 2}},
    )
    for sent in (scale, *bad):
        for force in ("false", "true"):
            api.patch(f"{url}/scale", sent, APPLY, fieldManager="a", force=force)
        api.get(url)
    assert api.patch(f"{url}/scale", scale, APPLY).code == 422


@scenario
def conflicts_come_before_names_and_versions(api: Api, namespace: str) -> None:
    url = maps(namespace, "one")
    api.patch(url, config_map("one", a="1"), APPLY, fieldManager="first")
    metadata: tuple[dict[str, Any] | None, ...] = (
        {"name": "one", "resourceVersion": "1"},
        {"name": "one", "resourceVersion": "x"},
        {"name": "other"},
        {"name": "other", "resourceVersion": "1"},
        {"name": "one", "uid": "x"},
        {"name": "one", "namespace": "other"},
        {"name": ""},
        {"name": None},
        {},
        None,
    )
    for sent in metadata:
        for manager, value in (("second", "2"), ("first", "2"), ("first", "1")):
            obj = {**config_map("one", a=value), "metadata": sent}
            api.patch(url, obj, APPLY, fieldManager=manager)
            api.get(url)


@scenario
def scales_of_custom_objects_have_replicas(api: Api, namespace: str) -> None:
    scale = {"specReplicasPath": ".spec.number", "statusReplicasPath": ".status.replicas"}
    made = definition("counts", subresources={"scale": scale})
    schema = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"] = {"type": "object", "properties": _FIELDS}
    install(api, made)
    url = path(f"apis/{GROUP}/v1", namespace, "counts")
    try:
        api.post(url, _custom("Count", "a", {"usual": 1}))
        assert api.get(f"{url}/a/scale").code == 500
        api.patch(f"{url}/a/scale", {"spec": {"replicas": 4}}, MERGE, fieldManager="m")
        for manager in ("m", "other"):
            applied = _custom("Count", "a", {"number": 5})
            api.patch(f"{url}/a", applied, APPLY, fieldManager=manager, force="true")
            api.get(f"{url}/a/scale")
        api.patch(f"{url}/a/scale", {"spec": {"replicas": 4}}, MERGE, fieldManager="m")
        api.get(f"{url}/a")
    finally:
        remove(api, "counts")


@scenario
def managers_have_short_printable_names(api: Api, namespace: str) -> None:
    api.post(maps(namespace), config_map("one", a="1"))
    fields: dict[str, Any] = {"f:data": {"f:a": {}}}
    entry = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1"}
    bad = ({"manager": "m" * 129}, {"manager": "\u00e4\t"}, {"subresource": "s" * 257})
    for part in bad:
        entries = [{**entry, "fieldsV1": fields, **part}]
        change = {"metadata": {"managedFields": entries}}
        assert api.patch(maps(namespace, "one"), change, MERGE).code == 422
    twice = [{**entry, "fieldsV1": fields}, {**entry, "fieldsV1": {"f:data": {"f:b": {}}}}]
    api.patch(maps(namespace, "one"), {"metadata": {"managedFields": twice}}, MERGE)
    api.patch(maps(namespace, "one"), {"data": {"b": "2"}}, MERGE, fieldManager="n")
    assert api.get(maps(namespace, "one")).code == 200


@scenario
def no_object_has_a_name_that_is_no_segment(api: Api, namespace: str) -> None:
    for name in ("..", ".", "a%2Fb", "a%25"):
        for method in ("GET", "DELETE"):
            assert api.ask(method, maps(namespace, name)).code in (400, 404)
        api.ask("PUT", maps(namespace, name), config_map(name, a="1"))
        api.patch(maps(namespace, name), {"data": {"a": "1"}}, MERGE)
