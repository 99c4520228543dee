"""Matching of selectors with many terms: the cost depends on the object, not on the terms.

A selector may have thousands of terms, and a list has tens of thousands of objects. All terms about
one label are joined into one set of values when the selector is read; an object is then matched by
a lookup for each label that it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.objects.selectors import DOES_NOT_EXIST, EXISTS, GREATER, IN, LESS, NOT_IN, parse_int64

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.objects.selector_text import FieldSelector
    from mooring.objects.selectors import Requirement, Selector

#: From this number of terms on, joining them is worth its cost.
TERMS_MIN: Final = 8


class _Values:
    """The values that all terms about one label allow."""

    __slots__ = ("allowed", "denied", "greater", "is_present", "is_refused", "less")

    def __init__(self) -> None:
        #: None = all.
        self.allowed: frozenset[str] | None = None
        self.denied: set[str] = set()
        self.is_present = False
        #: Whether no value is allowed.
        self.is_refused = False
        self.greater: int | None = None
        self.less: int | None = None

    def add(self, term: Requirement) -> None:
        operator, values = term.operator, term.values
        self.is_present |= operator in (IN, EXISTS, GREATER, LESS)
        if operator == DOES_NOT_EXIST:
            self.is_refused = True
        elif operator == IN:
            chosen = frozenset(values)
            self.allowed = chosen if self.allowed is None else self.allowed & chosen
        elif operator == NOT_IN:
            self.denied.update(values)
        elif operator in (GREATER, LESS):
            self._add_bound(operator, parse_int64(values[0]))

    def _add_bound(self, operator: str, bound: int | None) -> None:
        if bound is None:
            self.is_refused = True
        elif operator == GREATER:
            self.greater = bound if self.greater is None else max(self.greater, bound)
        else:
            self.less = bound if self.less is None else min(self.less, bound)

    def allows(self, value: str) -> bool:
        if self.is_refused or value in self.denied:
            return False
        if self.allowed is not None and value not in self.allowed:
            return False
        if self.greater is None and self.less is None:
            return True
        number = parse_int64(value)
        if number is None:
            return False
        is_above = self.greater is None or number > self.greater
        return is_above and (self.less is None or number < self.less)


class LabelMatcher:
    """A label selector whose terms are joined by label; matches as the ``Selector`` does."""

    def __init__(self, selector: Selector) -> None:
        self._is_nothing = selector.selects_nothing
        self._by_key: dict[str, _Values] = {}
        for term in selector.requirements:
            self._by_key.setdefault(term.key, _Values()).add(term)
        self._needed = frozenset(key for key, of in self._by_key.items() if of.is_present)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Returns whether an object with these labels is selected.

        Complexity: O(labels), whatever the number of terms.
        """
        if self._is_nothing or len(self._needed) > len(labels):
            return False
        missing = len(self._needed)
        for key, value in labels.items():
            values = self._by_key.get(key)
            if values is None:
                continue
            if not values.allows(value):
                return False
            missing -= values.is_present
        return missing == 0


class FieldMatcher:
    """A field selector whose terms are joined by field; matches as the ``FieldSelector`` does."""

    def __init__(self, selector: FieldSelector) -> None:
        self._equal: dict[str, str] = {}
        self._denied: dict[str, set[str]] = {}
        self._is_nothing = False
        for term in selector.requirements:
            if not term.is_equal:
                self._denied.setdefault(term.field, set()).add(term.value)
            elif self._equal.setdefault(term.field, term.value) != term.value:
                self._is_nothing = True

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Returns whether an object with these fields is selected.

        Complexity: O(selectable fields of the resource), whatever the number of terms.
        """
        if self._is_nothing:
            return False
        return all(fields.get(name, "") == value for name, value in self._equal.items()) and all(
            fields.get(name, "") not in values for name, values in self._denied.items()
        )


def label_matcher(selector: Selector) -> Selector | LabelMatcher:
    """Returns what matches as the selector does, and fast."""
    if len(selector.requirements) < TERMS_MIN:
        return selector
    return LabelMatcher(selector)


def field_matcher(selector: FieldSelector) -> FieldSelector | FieldMatcher:
    """Returns what matches as the selector does, and fast."""
    if len(selector.requirements) < TERMS_MIN:
        return selector
    return FieldMatcher(selector)
