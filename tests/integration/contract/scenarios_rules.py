"""Rules in CEL of CustomResourceDefinitions: ``x-kubernetes-validations``."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import MERGE, Api
from tests.integration.contract.scenario import path, scenario
from tests.integration.contract.scenarios_customs import custom, definition, install, remove

GROUP_VERSION = "apis/contract.example.com/v1"
TEXT = {"type": "string", "maxLength": 20}

_ITEM = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": TEXT, "count": {"type": "integer"}},
    "x-kubernetes-validations": [
        {"rule": "!has(self.count) || self.count < 5", "message": "too many"},
        {"rule": "!has(self.count) || self.count >= oldSelf.count", "message": "only upwards"},
    ],
}
_SPEC = {
    "type": "object",
    "properties": {
        "low": {"type": "integer"},
        "high": {"type": "integer"},
        "share": {"type": "number", "x-kubernetes-validations": [{"rule": "self <= 0.5"}]},
        "fixed": {
            **TEXT,
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
        },
        "max-size": {"type": "integer"},
        "namespace": TEXT,
        "data": {**TEXT, "format": "byte"},
        "until": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "tags": {"type": "array", "maxItems": 4, "items": TEXT},
        "labels": {"type": "object", "maxProperties": 4, "additionalProperties": TEXT},
        "parts": {
            "type": "array",
            "maxItems": 4,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": _ITEM,
        },
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.low) || !has(self.high) || self.low <= self.high"},
        {
            "rule": "!has(self.high) || self.high < 100",
            "message": "is too high",
            "messageExpression": "self.high > 500 ? 'far too high' : 'a bit too high'",
            "fieldPath": ".high",
            "reason": "FieldValueForbidden",
        },
        {"rule": "!has(self.max__dash__size) || self.max__dash__size < 10"},
        {"rule": "!has(self.__namespace__) || self.__namespace__.startsWith('team-')"},
        {"rule": "!has(self.namespace) || self.namespace != 'team-b'"},
        {"rule": "!has(self.data) || self.data.size() < 3 && self.data != b'no'"},
        {"rule": "!has(self.until) || self.until > timestamp('2026-01-01T00:00:00Z')"},
        {"rule": "!has(self.wait) || self.wait < duration('1h')"},
        {"rule": "!has(self.tags) || self.tags.all(t, t.matches('^[a-z]+$'))"},
        {"rule": "!has(self.labels) || self.labels.all(k, k != self.labels[k])"},
        {
            "rule": "oldSelf.hasValue() || !has(self.low) || self.low == 0",
            "optionalOldSelf": True,
            "message": "begins with 0",
            "reason": "FieldValueInvalid",
        },
    ],
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": _SPEC,
        "status": {"type": "object", "properties": {"count": {"type": "integer"}}},
    },
    "x-kubernetes-validations": [
        {"rule": "self.metadata.name.size() < 12", "message": "the name is too long"},
        {"rule": "!has(self.status) || !has(self.status.count) || self.status.count >= 0"},
    ],
}


def ruled(plural: str) -> dict[str, Any]:
    """Returns a definition with rules."""
    return definition(plural, schema={"openAPIV3Schema": _SCHEMA}, subresources={"status": {}})


@scenario
def rules_refuse_objects(api: Api, namespace: str) -> None:
    install(api, ruled("ruleds"))
    url = path(GROUP_VERSION, namespace, "ruleds")
    wrong: list[dict[str, Any]] = [
        {"low": 0, "high": -1},
        {"high": 100},
        {"share": 0.75},
        {"share": 1},
        {"max-size": 10},
        {"namespace": "other"},
        {"namespace": "team-b"},
        {"data": "bm8="},
        {"data": "YWJj"},
        {"until": "2025-12-31T00:00:00Z"},
        {"wait": "2h"},
        {"tags": ["a", "B"]},
        {"labels": {"a": "a"}},
        {"parts": [{"name": "a", "count": 2}, {"name": "b", "count": 7}]},
        {"low": 3},
        {"low": 0, "high": -1, "max-size": 11},
        {"low": "x", "high": 200},
    ]
    for spec in wrong:
        answer = api.post(url, custom("Ruled", "a", spec))
        assert answer.code == 422
    assert api.post(url, custom("Ruled", "a-long-name-of-it", {})).code == 422
    good = {
        "low": 0,
        "high": 3,
        "share": 0.5,
        "fixed": "x",
        "max-size": 9,
        "namespace": "team-a",
        "data": "YWI=",
        "until": "2026-02-01T00:00:00Z",
        "wait": "30m",
        "tags": ["a", "b"],
        "labels": {"a": "b"},
        "parts": [{"name": "a", "count": 2}],
    }
    assert api.post(url, custom("Ruled", "good", good)).code == 201
    remove(api, "ruleds")


@scenario
def rules_compare_with_the_object_before(api: Api, namespace: str) -> None:
    install(api, ruled("olds"))
    url = path(GROUP_VERSION, namespace, "olds")
    parts = [{"name": "a", "count": 2}, {"name": "b", "count": 3}]
    assert api.post(url, custom("Old", "x", {"fixed": "a", "parts": parts})).code == 201
    refused: list[dict[str, Any]] = [
        {"fixed": "b"},
        {"parts": [{"name": "b", "count": 3}, {"name": "a", "count": 1}]},
    ]
    for spec in refused:
        assert api.patch(f"{url}/x", {"spec": spec}, MERGE).code == 422
    allowed: list[dict[str, Any]] = [
        {"fixed": "a", "low": 4},
        {"parts": [{"name": "b", "count": 4}, {"name": "c", "count": 1}]},
    ]
    for spec in allowed:
        assert api.patch(f"{url}/x", {"spec": spec}, MERGE).code == 200
    assert api.patch(f"{url}/x/status", {"status": {"count": -1}}, MERGE).code == 422
    assert api.patch(f"{url}/x/status", {"status": {"count": 1}}, MERGE).code == 200
    remove(api, "olds")


@scenario
def a_definition_with_a_broken_rule_is_refused(api: Api, namespace: str) -> None:
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    del namespace
    plural = "brokens"
    fine = {"rule": "self.size > 1"}
    for rules in (
        [{"rule": "Always"}],
        [fine, {"rule": "self.size >"}],
        [{"rule": "unknown(self)"}],
        [{"rule": "self.name.matches('(')"}],
        [{**fine, "messageExpression": "1 +"}],
        [{"rule": ""}],
        [{**fine, "message": "a\nb"}],
        [{"rule": "self.size > 1 &&\nself.size < 3"}],
        [{**fine, "reason": "Because"}],
    ):
        spec = {
            "type": "object",
            "properties": {"size": {"type": "integer"}, "name": TEXT},
            "x-kubernetes-validations": rules,
        }
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        broken = definition(plural, schema=schema)
        answer = api.post(definitions, broken, dryRun="All")
        assert answer.code == 422
        (cause,) = answer.body["details"]["causes"]
        assert "x-kubernetes-validations" in cause["field"]


_TYPES: dict[str, Any] = {
    "type": "object",
    "x-kubernetes-validations": [],
    "properties": {
        "int": {"type": "integer"},
        "number": {"type": "number"},
        "flag": {"type": "boolean"},
        "text": TEXT,
        "data": {**TEXT, "format": "byte"},
        "day": {"type": "string", "format": "date"},
        "time": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "port": {"x-kubernetes-int-or-string": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "list": {"type": "array", "maxItems": 3, "items": TEXT},
        "map": {"type": "object", "maxProperties": 3, "additionalProperties": TEXT},
        "object": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "objects": {
            "type": "array",
            "maxItems": 3,
            "items": {"type": "object", "properties": {"a": {"type": "integer"}}},
        },
        "anys": {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "a-b": {"type": "integer"},
        "namespace": TEXT,
        "enum": {"type": "string", "enum": ["a", "b"], "nullable": True},
    },
}
#: Rules of such an object, and whether they are valid.
_TYPED: list[tuple[str, bool]] = [
    ("self.int == 1 && self.number > 1.5 && self.flag", True),
    ("self.int == 'a'", False),
    ("self.number + 1 > 2", False),
    ("self.number > 1", True),
    ("self.flag == 1", False),
    ("self.text.startsWith('a') && self.text < 'b'", True),
    ("self.text.nothing()", False),
    ("self.text.a == 1", False),
    ("self.data == b'a' && self.data.size() == 1", True),
    ("self.data == 'a'", False),
    ("self.day < self.time && self.time.getFullYear() == 2026", True),
    ("self.day == '2026-01-01'", False),
    ("self.wait < duration('1h')", True),
    ("self.wait == '1h'", False),
    ("self.port == 1 || self.port == 'a'", True),
    ("self.port", False),
    ("self.free.a == 1", False),
    ("has(self.free)", True),
    ("self.any == 1", False),
    ("has(self.any)", False),
    ("self.list[0] == 'a' && 'a' in self.list", True),
    ("self.list.exists(x, x == 1)", False),
    ("self.list['a'] == 'a'", False),
    ("self.map['a'] == 'b' && self.map.all(k, k.size() < 3)", True),
    ("self.map.a == 'b'", True),
    ("self.map[1] == 'b'", False),
    ("self.object.a == 1 && has(self.object.a)", True),
    ("self.object.b == 1", False),
    ("has(self.object.b)", False),
    ("self.objects.all(o, o.a == 1)", True),
    ("self.objects.all(o, o.b == 1)", False),
    ("self.anys.size() == 1", False),
    ("self.template.kind == 'a' && self.template.metadata.name == 'a'", True),
    ("self.template.metadata.labels.a == 'a'", False),
    ("self.template.spec.a == 1", False),
    ("self.a__dash__b == 1 && self.__namespace__ == 'a'", True),
    ("self.namespace == 'a'", True),
    ("self.enum == 'c'", True),
    ("self.enum == null", False),
    ("self.enum == 1", False),
    ("self.?text.orValue('') == 'a'", True),
    ("self.?text.orValue(1) == 1", False),
    ("oldSelf.int == self.int", True),
    ("oldSelf.hasValue()", False),
    ("oldSelf == self", True),
    ("self.metadata.name == 'a'", False),
    ("params.a == 1", False),
    ("request.name == 'a'", False),
    ("self", False),
    ("self.int", False),
    ("self.text + self.int == 'a'", False),
    ("self.list.map(x, x.size()).sum() == self.int", True),
    ("type(self.int) == int", True),
    ("[self.int, self.text] == []", False),
]


@scenario
def rules_have_types(api: Api, namespace: str) -> None:
    del namespace
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    def is_valid(rule: dict[str, Any], *, at_root: bool = False) -> bool:
        spec = {**_TYPES, **({} if at_root else {"x-kubernetes-validations": [rule]})}
        whole: dict[str, Any] = {"type": "object", "properties": {"spec": spec}}
        if at_root:
            whole["x-kubernetes-validations"] = [rule]
        body = definition("typeds", schema={"openAPIV3Schema": whole})
        return api.post(definitions, body, dryRun="All").code == 201

    assert [(text, is_valid({"rule": text})) for text, _ in _TYPED] == _TYPED
    others: list[tuple[dict[str, Any], bool]] = [
        ({"rule": "oldSelf.hasValue() && oldSelf.value().int == 1", "optionalOldSelf": True}, True),
        ({"rule": "oldSelf.int == 1", "optionalOldSelf": True}, False),
        ({"rule": "self.int == 1", "optionalOldSelf": False}, False),
        ({"rule": "oldSelf.int == self.int", "optionalOldSelf": False}, True),
        ({"rule": "true", "messageExpression": "self.text"}, True),
        ({"rule": "true", "messageExpression": "self.int"}, False),
        ({"rule": "true", "messageExpression": "self.port"}, False),
        ({"rule": "self.int", "messageExpression": "self.int"}, False),
    ]
    assert [(rule, is_valid(rule)) for rule, _ in others] == others
    at_root = [
        ("self.metadata.name == 'a' && self.kind == 'b' && self.spec.int == 1", True),
        ("self.metadata.labels.a == 'b'", False),
        ("self.status.a == 1", False),
        ("self.apiVersion == 1", False),
    ]
    assert [(text, is_valid({"rule": text}, at_root=True)) for text, _ in at_root] == at_root


@scenario
def rules_of_changes_need_a_value_before(api: Api, namespace: str) -> None:
    """Refuses them in lists without keys, whose items have no value before an update."""
    del namespace
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    ruled = {**TEXT, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]}
    object_of = {"type": "object", "properties": {"name": {**ruled}}, "required": ["name"]}
    keys = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}

    def list_of(item: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"type": "array", "maxItems": 3, "items": item, **more}

    valid = [
        ruled,
        object_of,
        list_of(object_of, **keys),
        {**object_of, "x-kubernetes-map-type": "atomic"},
        {"type": "object", "maxProperties": 3, "additionalProperties": ruled},
    ]
    invalid = [
        list_of(ruled),
        list_of(ruled, **{"x-kubernetes-list-type": "set"}),
        list_of(object_of),
        list_of(list_of(object_of, **keys)),
    ]
    for number, spec in enumerate((*valid, *invalid)):
        whole = {"type": "object", "properties": {"spec": spec}}
        body = definition("changeds", schema={"openAPIV3Schema": whole})
        answer = api.post(definitions, body, dryRun="All")
        assert answer.code == (201 if number < len(valid) else 422), f"{spec}: {answer.message}"


def _with_text(*rules: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Returns a schema with rules for a spec with a long text."""
    properties = {"text": {"type": "string", "maxLength": 20_000}, **fields}
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": list(rules)}
    return {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}


def _searches(count: int) -> str:
    """Returns an expression that costs 10 for each character of the text and each search."""
    return " || ".join([f"self.text.matches('^{'y' * 399}')"] * count)


_FOUR = {"rule": f"!({_searches(4)})"}
_SIX = {"rule": f"!({_searches(6)})"}
_REFUSAL = {"rule": "self.text.size() < 5", "message": "too long"}


@scenario
def rules_of_an_object_have_a_budget(api: Api, namespace: str) -> None:
    later = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]}
    schema = _with_text(_REFUSAL, *[_FOUR] * 13, _REFUSAL, number=later)
    install(api, definition("budgets", schema=schema))
    url = path(GROUP_VERSION, namespace, "budgets")
    for length in (5, 10_000, 19_000, 19_200, 19_230, 19_300, 20_000):
        spec = {"text": "x" * length, "number": 1}
        assert api.post(url, custom("Budget", "a", spec)).code == 422
    assert api.post(url, custom("Budget", "a", {"text": "abcd", "number": 2})).code == 201
    remove(api, "budgets")


@scenario
def a_rule_that_costs_too_much_is_the_last_one(api: Api, namespace: str) -> None:
    install(api, definition("calls", schema=_with_text(_FOUR, _SIX, _REFUSAL)))
    url = path(GROUP_VERSION, namespace, "calls")
    for length in (5, 16_600, 16_660, 16_670, 16_700, 20_000):
        assert api.post(url, custom("Call", "a", {"text": "x" * length})).code == 422
    remove(api, "calls")


@scenario
def message_expressions_cost_as_well(api: Api, namespace: str) -> None:
    four, six = (
        {
            **_REFUSAL,
            "messageExpression": f"({_searches(count)}) ? 'a match' : 'no match'",
            "fieldPath": ".text",
        }
        for count in (4, 6)
    )
    install(api, definition("messages", schema=_with_text(*[four] * 13, _REFUSAL)))
    url = path(GROUP_VERSION, namespace, "messages")
    for length in (5, 10_000, 19_000, 19_230, 19_300, 20_000):
        assert api.post(url, custom("Message", "a", {"text": "x" * length})).code == 422
    remove(api, "messages")
    install(api, definition("notes", schema=_with_text(six, _REFUSAL)))
    url = path(GROUP_VERSION, namespace, "notes")
    for length in (5, 16_600, 16_700):
        assert api.post(url, custom("Note", "a", {"text": "x" * length})).code == 422
    remove(api, "notes")


@scenario
def long_and_empty_results_are_no_messages(api: Api, namespace: str) -> None:
    expressions = ("self.text", "' ' + self.text + ' '", "self.text.replace('x', ' ')")
    rules = [
        {"rule": "self.text == ''", "message": f"rule {number}", "messageExpression": expression}
        for number, expression in enumerate(expressions)
    ]
    install(api, definition("results", schema=_with_text(*rules)))
    url = path(GROUP_VERSION, namespace, "results")
    for text in ("x", "x" * 5119, "x" * 5120, "x" * 5121, "é" * 2560, "é" * 2561, "a\nb"):
        assert api.post(url, custom("Result", "a", {"text": text})).code == 422
    remove(api, "results")


@scenario
def parts_of_all_of_have_no_rules(api: Api, namespace: str) -> None:
    del namespace
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    rules = {"x-kubernetes-validations": [{"rule": "self.low < 10"}]}
    parts: list[dict[str, Any]] = [
        rules,
        {"properties": {"low": rules}},
        {"x-kubernetes-preserve-unknown-fields": True, "x-kubernetes-embedded-resource": True},
        {"x-kubernetes-int-or-string": True},
        {"anyOf": [{"pattern": "("}], "title": "a", "type": "string"},
    ]
    for part in parts:
        spec = {"type": "object", "properties": {"low": {"type": "integer"}}, "allOf": [part]}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        assert api.post(definitions, definition("wrongs", schema=schema), dryRun="All").code == 422
