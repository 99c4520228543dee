"""Estimated costs of rules. That the estimates are kube-apiserver's is tested where both servers
run, in integration/contract (scenarios_costs.py)."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.apiserver.custom.rules.costs import MAX_COST, Costs, most_values
from mooring.apiserver.custom.rules.types import self_type
from mooring.apiserver.validation.definitions import (
    validate_definition,
    validate_definition_update,
)

ADVICE = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, "
    "maps, and strings are declared)"
)
TEXT = {"type": "string"}


def definition(*rules: str, **versions: dict[str, Any]) -> dict[str, Any]:
    """Returns a definition of version v1 with rules for a text, and of other versions."""
    own = [{"rule": rule} for rule in rules]
    text = {**TEXT, "x-kubernetes-validations": own}
    schemas = {"v1": {"type": "object", "properties": {"text": text}}, **versions}
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "listKind": "WidgetList",
            },
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == "v1",
                    "schema": {"openAPIV3Schema": schema},
                }
                for name, schema in schemas.items()
            ],
            "conversion": {"strategy": "None"},
        },
        "status": {"storedVersions": ["v1"]},
    }


EXPENSIVE = "self.matches('^[a-z]+$') || self.matches('^[0-9]+$') || self.matches('^[A-F]+$')"


def test_a_rule_has_a_cost_of_its_own() -> None:
    messages = [error.body for error in validate_definition(definition("self != 'a'"))]
    assert messages == []
    rules = [EXPENSIVE] * 7
    assert [error.body for error in validate_definition(definition(*rules))] == []
    wide = " || ".join([EXPENSIVE] * 9)
    (error,) = validate_definition(definition(wide))
    assert error.body.endswith(f"estimated rule cost exceeds budget by factor of 1.7x {ADVICE}")
    assert error.type_name == "FieldValueForbidden"


def test_the_cost_of_a_rule_of_a_schema_that_stays_is_not_limited() -> None:
    wide = " || ".join([EXPENSIVE] * 9)
    old = definition(wide)
    assert list(validate_definition_update(definition(wide), old)) == []
    other = definition(wide, v2={"type": "object"})
    assert list(validate_definition_update(other, old)) == []
    (error,) = validate_definition_update(definition(wide, "self != ''"), old)
    assert (
        error.field
        == "spec.validation.openAPIV3Schema.properties[text].x-kubernetes-validations[0].rule"
    )


def test_the_sum_is_limited_also_if_the_schema_stays() -> None:
    wide = " || ".join([EXPENSIVE] * 9)
    old = definition(*[wide] * 7)
    errors = list(validate_definition_update(definition(*[wide] * 7), old))
    lead = "spec.validation.openAPIV3Schema"
    text = (
        "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    )
    assert [error.field for error in errors] == [
        *[f"{lead}.properties[text].x-kubernetes-validations[{n}].rule" for n in range(4)],
        lead,
    ]
    assert all(error.body.endswith(text) for error in errors[:4])
    assert "by factor of 1.18" in errors[4].body


@pytest.mark.parametrize(
    ("cost", "factor"),
    [
        (10_000_001, "1.000000x"),
        (14_999_994, "1.499999x"),
        (15_000_000, "1.5x"),
        (1_000_000_000, "100.0x"),
        (1_000_000_001, "more than 100x"),
        (MAX_COST, "more than 100x"),
    ],
)
def test_a_factor_has_few_digits(cost: int, factor: str) -> None:
    (error,) = Costs(limits_rules=True).add("a", "cost", cost)
    assert error.body == f"Forbidden: cost exceeds budget by factor of {factor} {ADVICE}"


def test_no_more_than_four_expensive_rules_are_listed() -> None:
    costs = Costs(limits_rules=False)
    for path, cost in zip("abcdefg", (10, 30, 20, 999_999e-6, 50, 30, 40), strict=True):
        assert list(costs.add(path, "cost", int(cost * 1_000_000))) == []
    assert [error.field for error in costs.errors("root")] == ["e", "g", "b", "f", "root"]


def test_a_sum_that_is_as_large_as_the_limit_is_allowed() -> None:
    costs = Costs(limits_rules=False)
    list(costs.add("a", "cost", 100_000_000))
    assert list(costs.errors("root")) == []
    list(costs.add("a", "cost", 1))
    assert [error.field for error in costs.errors("root")] == ["a", "root"]


def test_values_are_limited_by_all_schemas_around() -> None:
    a_list, a_map = {"type": "array"}, {"type": "object", "additionalProperties": TEXT}
    assert most_values([]) == 1
    assert most_values([{"type": "object"}, {"type": "string"}]) == 1
    assert most_values([{**a_list, "maxItems": 3}, {**a_map, "maxProperties": 4}]) == 12
    assert most_values([{**a_list, "maxItems": 3}, a_map]) is None
    assert most_values([{**a_list, "maxItems": 0}, {**a_map, "maxProperties": 4}]) == 0
    assert most_values([{**a_list, "maxItems": 2**62}] * 3) == MAX_COST


def test_a_value_in_a_list_without_a_limit_is_counted_by_its_size() -> None:
    request_bytes = 3 * 1024 * 1024
    schema = {
        "type": "object",
        "required": ["name", "1", "filled"],
        "properties": {"name": TEXT, "1": {"type": "boolean"}, "filled": {**TEXT, "default": ""}},
    }
    declared = self_type(schema, is_root=False)
    assert declared is not None
    # {"name":"","1":true} without the comma between both, with one behind it
    assert declared.self.least_bytes == 2 + (4 + 2 + 4) + (1 + 4 + 4)
    assert declared.self.instances_max == request_bytes // (declared.self.least_bytes + 1)
    assert sorted(declared.self.below) == ["filled", "name"]
