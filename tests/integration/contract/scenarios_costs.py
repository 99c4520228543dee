"""Estimated costs of the rules of CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

from tests.integration.contract.api import Api
from tests.integration.contract.scenario import scenario
from tests.integration.contract.scenarios_customs import definition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TEXT: dict[str, Any] = {"type": "string"}
COUNT: dict[str, Any] = {"type": "integer"}


def ruled(schema: dict[str, Any], *rules: str, **fields: Any) -> dict[str, Any]:
    """Returns a schema with rules."""
    own = [{"rule": rule, **fields} for rule in rules]
    return {**schema, "x-kubernetes-validations": own}


def list_of(items: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, **fields}


def map_of(values: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": values, **fields}


def object_of(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed}


def whole(spec: dict[str, Any], **root: Any) -> dict[str, Any]:
    return {"openAPIV3Schema": {**object_of({"spec": spec}), **root}}


def create(api: Api, spec: dict[str, Any], **root: Any) -> int:
    """Creates a definition with a schema of ``spec``, and does not store it."""
    request = definition("costs", schema=whole(spec, **root))
    return api.post(DEFINITIONS, request, dryRun="All").code


#: Schemas of a field, and rules that read all of it: with `self.field`.
_FIELDS: list[tuple[dict[str, Any], list[str]]] = [
    (TEXT, ["self.field.contains('abc')", "self.field.matches('^a+$')", "self.field == 'a'"]),
    (
        {**TEXT, "maxLength": 1_000_000},
        [
            "self.field.contains('abc')",
            "self.field.replace('a', 'bb').size() > 1",
            "self.field.split(',').size() > 1",
            "self.field.split(',').all(x, x != '')",
            "self.field.lowerAscii() == self.field",
            "self.field.find('[a-z]+') == ''",
            "(self.field + self.field).contains('abcde')",
            "quantity(self.field).isGreaterThan(quantity('1'))",
            "url(self.field).getHost() == ''",
            "isIP(self.field)",
        ],
    ),
    ({**TEXT, "enum": ["a", "bcd", "éé"]}, ["self.field.matches('^' + self.field + '$')"]),
    ({**TEXT, "maxLength": 0}, ["self.field.contains('abc')"]),
    ({**TEXT, "format": "byte"}, ["self.field.size() < 10", "self.field == b'a'"]),
    ({**TEXT, "format": "byte", "maxLength": 50}, ["self.field == b'a'"]),
    ({**TEXT, "format": "duration"}, ["self.field > duration('1s')"]),
    ({**TEXT, "format": "date"}, ["self.field.getFullYear() > 1"]),
    ({**TEXT, "format": "date-time"}, ["self.field > timestamp('2026-01-01T00:00:00Z')"]),
    ({"x-kubernetes-int-or-string": True}, ["type(self.field) == int || self.field == 'a'"]),
    (
        {"x-kubernetes-int-or-string": True, "maxLength": 5},
        ["type(self.field) == int || self.field.matches('^a')"],
    ),
    (
        list_of(COUNT),
        [
            "self.field.all(x, x > 1)",
            "self.field.exists(x, self.field.all(y, x >= y))",
            "self.field.sum() < 5",
            "self.field.isSorted()",
            "self.field.max() < 5 && self.field.min() > 1",
            "self.field.indexOf(3) == 1",
            "5 in self.field",
            "self.field.map(x, x * 2).all(x, x > 1)",
            "self.field.filter(x, x > 1).size() < 5",
            "[1, 2].all(x, self.field.exists(y, y == x))",
            "self.field == [1, 2]",
            "(self.field + [1]).size() > 2",
            "sets.contains(self.field, [1, 2])",
            "self.field.exists_one(x, x == 1)",
        ],
    ),
    (list_of(COUNT, maxItems=2500), ["self.field.exists(x, self.field.all(y, x >= y))"]),
    (
        list_of({**TEXT, "maxLength": 100}, maxItems=1000),
        [
            "self.field.all(x, x.matches('^a'))",
            "self.field.all(x, self.field.exists(y, y.contains(x)))",
            "self.field.join(',').size() > 1",
            "self.field.join(',').matches('a')",
            "self.field[0].matches('^a')",
            "cel.bind(first, self.field[0], self.field.all(x, x == first))",
            "self.field.all(i, x, i > 1 || x.contains('abc'))",
            "self.field.isSorted()",
            "self.field.indexOf('a') > 1",
        ],
    ),
    (
        map_of(TEXT),
        [
            "self.field.all(k, k.matches('^a'))",
            "self.field.all(k, self.field[k].matches('^a'))",
            "self.field.all(k, v, k != v)",
            "self.field.exists(k, k == 'a')",
            "'a' in self.field",
            "self.field['a'].contains('b')",
            "self.field.transformList(k, v, v).size() > 1",
        ],
    ),
    (
        map_of(list_of(object_of({"name": TEXT, "n": COUNT}, "name")), maxProperties=10),
        [
            "self.field.all(k, self.field[k].all(x, x.name != k))",
            "self.field.all(k, self.field[k].all(x, x.n > 1))",
        ],
    ),
    (
        object_of({"a-b": TEXT, "namespace": TEXT, "1": TEXT, "n": COUNT}, "a-b", "1"),
        [
            "self.field.a__dash__b.contains(self.field.namespace)",
            "self.field.__namespace__.contains('a') || has(self.field.n)",
            "self.field == self.field",
        ],
    ),
]


@scenario
def expensive_rules_are_refused(api: Api, namespace: str) -> None:
    del namespace
    for field, rules in _FIELDS:
        for rule in rules:
            create(api, ruled(object_of({"field": field}), rule))


@scenario
def costs_of_a_rule_count_for_all_values(api: Api, namespace: str) -> None:
    del namespace
    text = {**TEXT, "maxLength": 30}
    rule = "self.matches('^[a-z]{2,9}$')"
    values = [
        ruled(text, rule),
        object_of({"a": ruled(text, rule)}),
        object_of({"a": ruled(text, rule), "b": COUNT}, "b"),
        object_of({"a": ruled(text, rule), "long name": TEXT}, "long name", "a"),
        object_of({"a": ruled(text, rule), "b": {**TEXT, "default": "x"}}, "b"),
        ruled(object_of({"a": text, "b": {**TEXT, "format": "date-time"}}, "b"), "self.a != 'x'"),
        ruled(object_of({"a": COUNT, "b": {"type": "boolean"}}, "b", "a"), "self.a > 1"),
        ruled(list_of(COUNT), "self.size() > 1"),
        ruled(map_of(COUNT), "self.size() > 1"),
        list_of(ruled(COUNT, "self > 1"), maxItems=100),
        map_of(ruled(COUNT, "self > 1"), maxProperties=1000),
        ruled({"x-kubernetes-int-or-string": True}, "self == 1"),
    ]
    for value in values:
        for limit in ({}, {"maxItems": 0}, {"maxItems": 5_000}, {"maxItems": 400_000}):
            create(api, list_of(value, **limit))
        for limit in ({}, {"maxProperties": 5_000}, {"maxProperties": 1_000_000}):
            create(api, map_of(value, **limit))
            create(api, list_of(object_of({"map": map_of(value, **limit)}), maxItems=3))


@scenario
def costs_of_a_whole_schema_are_limited(api: Api, namespace: str) -> None:
    del namespace
    for size in (4_000_000, 6_500_000, 8_000_000, 9_900_000):
        text = {**TEXT, "maxLength": size}
        for count in (9, 12, 16, 30):
            fields = {
                f"f{number:02}": {**text, "maxLength": size + number} for number in range(count)
            }
            rules = [f"self.{name}.contains('abc')" for name in fields]
            create(api, ruled(object_of(fields), *rules))
    text = {**TEXT, "maxLength": 2_000_000}
    for expression in ("self.field.matches('^[a-z]+$') ? 'a' : 'b'", "self.field", "'a'"):
        rules = ["self.field.contains('abc')"] * 20
        field = object_of({"field": text})
        create(api, ruled(field, *rules, messageExpression=expression))


@scenario
def costs_are_estimated_for_metadata(api: Api, namespace: str) -> None:
    del namespace
    rules = ("self.metadata.name.matches('^a')", "self.kind + self.apiVersion != 'a'")
    metadata = object_of({"name": {**TEXT, "maxLength": 63}, "generateName": TEXT})
    properties = {"kind": {**TEXT, "maxLength": 5}, "apiVersion": {**TEXT, "maxLength": 9}}
    for rule in rules:
        for own in ({}, {"metadata": metadata}, {"metadata": metadata, **properties}):
            root = ruled(object_of({"spec": object_of({}), **own}), rule)
            request = definition("costs", schema={"openAPIV3Schema": root})
            api.post(DEFINITIONS, request, dryRun="All")
            embedded = {
                **ruled(object_of(own), rule),
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
            create(api, list_of(embedded))


@scenario
def rules_of_values_without_a_type(api: Api, namespace: str) -> None:
    del namespace
    unknown = {"x-kubernetes-preserve-unknown-fields": True}
    for schema in (unknown, list_of(unknown), map_of(unknown), {**object_of({}), **unknown}):
        create(api, object_of({"field": ruled(schema, "self == self")}))
        create(api, ruled(object_of({"field": schema}), "self == self", "has(self.field)"))
    create(api, object_of({"field": ruled(unknown, "self ==", "true")}))
