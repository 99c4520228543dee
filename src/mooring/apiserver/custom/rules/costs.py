"""Limits of what the rules of a definition may cost, as estimated from their text.

Source: apiextensions-apiserver v0.36.3, pkg/apis/apiextensions/validation/validation.go
(StaticEstimatedCostLimit, getCostErrorMessage) and cel_validation.go (TotalCost,
extractMaxElements).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from mooring.apiserver.errors import FieldError, forbidden_field

#: The largest cost: estimates stop there.
MAX_COST: Final = 2**64 - 1
_RULE_MAX: Final = 10_000_000
_TOTAL_MAX: Final = 100_000_000
#: Rules that cost less are not listed when the sum is too large, and no more than four others.
_LISTED_MIN: Final = _TOTAL_MAX // 100
_LISTED: Final = 4
_ADVICE: Final = (
    "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays,"
    " maps, and strings are declared)"
)


def most_values(around: Iterable[dict[str, Any]]) -> int | None:
    """Returns how many values of a schema an object may have; None = as many as it has space for.

    Args:
        around: The schemas around it.
    """
    product = 1
    for schema in around:
        limit: Any = 1
        if schema.get("type") == "array":
            limit = schema.get("maxItems")
        elif schema.get("type") == "object" and schema.get("additionalProperties") is not None:
            limit = schema.get("maxProperties")
        if limit is None:
            return None
        product = min(product * max(0, int(limit)), MAX_COST)
    return product


class Costs:
    """Adds up the costs of the rules and message expressions of a schema.

    Args:
        limits_rules: Whether the cost of each expression is limited, and not only their sum: an
            update that leaves a schema as it is may not be refused for a lower limit.
    """

    def __init__(self, *, limits_rules: bool) -> None:
        self._limits_rules = limits_rules
        self._total = 0
        self._listed: list[tuple[int, str]] = []

    def add(self, path: str, name: str, cost: int) -> Iterator[FieldError]:
        """Counts an expression; yields an error if it costs too much by itself.

        Args:
            path: The path of the expression.
            name: What the error calls the cost.
            cost: The cost for all values of an object.
        """
        self._total = min(self._total + cost, MAX_COST)
        if cost >= _LISTED_MIN:
            self._listed.append((cost, path))
            self._listed = sorted(self._listed, key=lambda it: -it[0])[:_LISTED]
        if self._limits_rules and cost > _RULE_MAX:
            yield forbidden_field(path, _message(name, cost, _RULE_MAX))

    def errors(self, root: str) -> Iterator[FieldError]:
        """Yields the errors of the sum.

        Args:
            root: The path of the schema of the whole object.
        """
        if self._total <= _TOTAL_MAX:
            return
        name = "estimated rule cost total"
        text = f"contributed to {name} exceeding cost limit for entire OpenAPIv3 schema"
        for _, path in self._listed:
            yield forbidden_field(path, text)
        name = f"x-kubernetes-validations {name} for entire OpenAPIv3 schema"
        yield forbidden_field(root, _message(name, self._total, _TOTAL_MAX))


def _message(name: str, cost: int, limit: int) -> str:
    factor = cost / limit
    if factor > 100:
        text = "more than 100x"
    else:
        text = f"{factor:.6f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{name} exceeds budget by factor of {text} {_ADVICE}"
