"""Rules in CEL of definitions, beyond the contract suite: what is not compiled, values, updates."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mooring.apiserver.custom.rules.checks import rule_errors
from mooring.apiserver.custom.rules.evaluation import cel_value, escape, find_rule_errors
from mooring.apiserver.errors import invalid, required
from mooring.cel.times import Duration, Timestamp


def schema(kind: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Returns the schema of an object whose field x has rules."""
    field = {"type": kind, "x-kubernetes-validations": list(rules), **more}
    return {"type": "object", "properties": {"x": field}}


def errors(of: dict[str, Any], value: Any, old: Any = None) -> list[tuple[str, str]]:
    before = None if old is None else {"x": old}
    return [(error.field, error.body) for error in find_rule_errors([], of, {"x": value}, before)]


def definition_errors(schema: dict[str, Any], root: str = "") -> list[tuple[str, str]]:
    errors = rule_errors([("p", schema)], root, limits_rules=True)
    return [(error.field, error.body) for error in errors]


def test_the_types_of_a_schema_are_deeper_than_pythons_recursion_limit() -> None:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(sys.getrecursionlimit()):
        schema = {"type": "object", "properties": {"a": schema}}
    schema["x-kubernetes-validations"] = [{"rule": "self.a.a.b == 1"}]

    ((field, body),) = definition_errors(schema, "p")

    assert field == "p.x-kubernetes-validations[0].rule"
    assert "undefined field 'b'" in body


def test_errors_of_form_come_before_those_of_compilation() -> None:
    broken = {"rule": "unknown(3)", "messageExpression": "self +"}
    schema: dict[str, Any] = {"type": "object"}
    both = {**schema, "x-kubernetes-validations": [broken, {"rule": " "}]}
    problem = ("p.x-kubernetes-validations[1].rule", "Required value: rule is not specified")
    assert definition_errors(both) == [problem]
    ((field, _),) = definition_errors({**schema, "x-kubernetes-validations": [broken]})
    assert field == "p.x-kubernetes-validations[0].rule"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"rule": "self < 3"}, "failed rule: self < 3"),
        ({"rule": "self < 3", "message": " too large\t"}, "too large"),
        (
            {"rule": "self < 3", "message": "m", "messageExpression": "'is ' + string(self)"},
            "is 3",
        ),
        ({"rule": "self < 3", "message": "m", "messageExpression": "string(self / 0)"}, "m"),
        ({"rule": "self < 3", "message": "m", "messageExpression": "'a\\nb'"}, "m"),
        ({"rule": "self < 3", "message": "m", "messageExpression": "' '"}, "m"),
    ],
)
def test_the_message_of_a_rule(rule: dict[str, Any], message: str) -> None:
    assert errors(schema("integer", rule), 3) == [("x", f"Invalid value: 3: {message}")]
    assert errors(schema("integer", rule), 2) == []


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ("10 / self > 1", "division by zero evaluating rule: 10 / self > 1"),
        ("self.size() > 1", "'no such overload: size': call arguments did not match"),
    ],
)
def test_a_rule_that_fails_refuses_the_object(rule: str, problem: str) -> None:
    ((field, body),) = errors(schema("integer", {"rule": rule}), 0)
    assert field == "x"
    assert body.startswith('Invalid value: "integer": ')
    assert problem in body


def test_a_value_that_did_not_change_is_not_refused_by_a_new_rule() -> None:
    of = schema("integer", {"rule": "self < 3"})
    assert errors(of, 5, old=5) == []
    assert len(errors(of, 5, old=6)) == 1
    assert len(errors(schema("integer", {"rule": "self < 3 || self < oldSelf"}), 5, old=5)) == 1


def test_rules_are_not_evaluated_for_an_invalid_object() -> None:
    of = schema("integer", {"rule": "self < 3"})
    (error,) = find_rule_errors([required("x")], of, {"x": 5})
    assert "some validation rules were not checked" in error.body
    (error,) = find_rule_errors([invalid("y", 1, "is odd")], of, {"x": 5})
    assert error.field == "x"


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("max-size", "max__dash__size"),
        ("a.b/c", "a__dot__b__slash__c"),
        ("a__b", "a__underscores__b"),
        ("namespace", "__namespace__"),
        ("1st", ""),
        ("a b", ""),
    ],
)
def test_names_of_properties_in_rules(name: str, escaped: str) -> None:
    assert escape(name) == escaped


def test_values_have_the_types_of_the_schema() -> None:
    assert isinstance(cel_value(2, {"type": "number"}), float)
    assert isinstance(cel_value(2.0, {"type": "integer"}), int)
    assert cel_value(True, {"type": "boolean"}) is True
    text = {"type": "string"}
    assert isinstance(cel_value("2026-01-01T00:00:00Z", {**text, "format": "date-time"}), Timestamp)
    assert isinstance(cel_value("2026-01-01", {**text, "format": "date"}), Timestamp)
    assert isinstance(cel_value("90s", {**text, "format": "duration"}), Duration)
    assert cel_value("soon", {**text, "format": "date-time"}) == "soon"
    hidden = {"properties": {"a": text}}
    assert cel_value({"a": "1", "b": "2"}, hidden).entries == {"a": "1"}
    assert cel_value({"a-b": "1"}, {"additionalProperties": text}).entries == {"a-b": "1"}
