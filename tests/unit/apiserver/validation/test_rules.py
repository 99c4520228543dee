"""Rules that validations share: which values pass, and the messages of the others.

Expectations are upstream's field errors; the contract suite has them in whole answers.
"""

from __future__ import annotations

import pytest

from mooring.apiserver import names
from mooring.apiserver.errors import Errors
from mooring.apiserver.validation.rules import (
    field_errors,
    immutable,
    not_negative,
    one_of,
    required_fields,
    required_value,
)

NEGATIVE = "Invalid value: -1: must be greater than or equal to 0"
PORT = "Invalid value: 70000: must be between 1 and 65535, inclusive"


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (field_errors("port", 80, names.port_number), []),
        (field_errors("port", 70_000, names.port_number), [("port", PORT)]),
        (required_value("name", "web", names.dns_label), []),
        (required_value("name", "", names.dns_label), [("name", "Required value")]),
        (
            required_value("name", "a.b", names.dns_label),
            [("name", 'Invalid value: "a.b": must not contain dots')],
        ),
        (required_fields({"key": "k"}, "item", "key", "path"), [("item.path", "Required value")]),
        (one_of("policy", None, ["Never"]), []),
        (one_of("policy", "Never", ["Never"]), []),
        (
            one_of("policy", "", ["Never"]),
            [("policy", 'Unsupported value: "": supported values: "Never"')],
        ),
        (not_negative({"a": 0, "b": -1}, "spec", "a", "b", "c"), [("spec.b", NEGATIVE)]),
        (immutable({"a": 1}, {"a": 1}, "a", "b"), []),
        (
            immutable({}, {"a": 1}, "a", parent="spec."),
            [("spec.a", "Invalid value: null: field is immutable")],
        ),
    ],
)
def test_errors_of_a_rule(errors: Errors, expected: list[tuple[str, str]]) -> None:
    assert [(error.field, error.body) for error in errors] == expected
