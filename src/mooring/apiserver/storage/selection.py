"""Selections of lists and watches: namespace, labels, fields.

The parsers are those of ``objects``; this module has kube-apiserver's messages for their errors,
and selects from a collection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import bad_request, quoted
from mooring.apiserver.storage.field_selectors import check_fields, fields_of
from mooring.apiserver.storage.many_terms import (
    FieldMatcher,
    LabelMatcher,
    field_matcher,
    label_matcher,
)
from mooring.objects.selector_text import (
    FieldSelector,
    parse_field_selector,
    parse_label_selector,
)
from mooring.objects.selectors import Selector, SelectorError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mooring.apiserver.resources import Resource
    from mooring.apiserver.storage.store import Collection
    from mooring.apiserver.storage.stored_object import Stored

_EVERYTHING = FieldSelector()


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects that a list or watch selects.

    Attributes:
        resource: The resource.
        namespace: "" = all.
        labels: None = any.
        fields: Without requirements = any.
        field_matcher: Matches as ``fields``.
    """

    resource: Resource
    namespace: str
    labels: Selector | LabelMatcher | None = None
    fields: FieldSelector = _EVERYTHING
    field_matcher: FieldSelector | FieldMatcher = _EVERYTHING

    @property
    def is_everything(self) -> bool:
        """True without label and field selectors."""
        return self.labels is None and not self.fields.requirements

    def matches(self, stored: Stored | None) -> bool:
        """Returns True if an object is selected; False for None."""
        if stored is None:
            return False
        if self.namespace and not stored.key.startswith(f"{self.namespace}/"):
            return False
        if self.labels is not None and not self.labels.matches(stored.labels):
            return False
        if not self.fields.requirements:
            return True
        return self.field_matcher.matches(fields_of(self.resource, stored))

    def candidates(self, collection: Collection, *, after: str = "") -> Iterator[Stored]:
        """Returns the objects that may match, in key order; uses an index if one applies."""
        node = self.fields.exact("spec.nodeName")
        if node and self.resource.name == "pods":
            return (stored for stored in collection.on_node(node) if stored.key >= after)
        name = self.fields.exact("metadata.name")
        namespace = self.namespace or self.fields.exact("metadata.namespace") or ""
        if name and (namespace or not self.resource.namespaced):
            match = collection.get(f"{namespace}/{name}" if namespace else name)
            return iter([match] if match is not None and match.key >= after else [])
        return collection.in_order(self.namespace, after=after)

    def of(self, objects: Iterable[Stored]) -> Iterator[Stored]:
        """Returns the selected ones of the objects."""
        if self.is_everything and not self.namespace:
            return iter(objects)
        return (stored for stored in objects if self.matches(stored))


def selection_of(resource: Resource, namespace: str, *, labels: str, fields: str) -> Selection:
    """Returns the selection in the parameters of a URL.

    Raises:
        ApiStatusError: 400.
    """
    label_selector = _labels(labels) if labels else None
    try:
        field_selector = parse_field_selector(fields)
    except SelectorError as error:
        raise bad_request(_field_problem(fields)) from error
    translated = check_fields(resource, field_selector)
    return Selection(
        resource,
        namespace,
        None if label_selector is None else label_matcher(label_selector),
        translated,
        field_matcher(translated),
    )


def _labels(text: str) -> Selector | None:
    try:
        selector = parse_label_selector(text)
    except SelectorError as error:
        problem = _label_problem(error)
        is_rest = problem.endswith("'end of string'")
        raise bad_request(
            problem if is_rest else f"unable to parse requirement: {problem}"
        ) from error
    return selector if selector.requirements else None


def _field_problem(text: str) -> str:
    for term in re.split(r"(?<!\\),", text):
        if term and not re.search("=", term):
            return f"invalid selector: '{text}'; can't understand '{term}'"
    return f"invalid selector: '{text}'"


def _label_problem(error: SelectorError) -> str:
    """Returns upstream's message where it is simple, else our own."""
    invalid_label = re.search(r"(?:label '(.*)': )?'(.*)' is not a label (key|value)", str(error))
    if invalid_label is not None:
        is_key = invalid_label[3] == "key"
        problems = (names.qualified_name if is_key else names.label_value)(invalid_label[2])
        field = "<nil>" if is_key else f"values[0][{invalid_label[1]}]"
        return f"{field}: Invalid value: {quoted(invalid_label[2])}: {'; '.join(problems)}"
    unexpected = re.search(r"found '?(.*?)'? instead of (.*)$", str(error))
    if unexpected is None:
        return str(error)
    token = "" if unexpected[1] == "the end" else unexpected[1]
    if unexpected[2].startswith("one of"):
        return f"found '{token}', expected: in, notin, =, ==, !=, gt, lt"
    if unexpected[2] == "',' or the end":
        return f"found '{token}', expected: ',' or 'end of string'"
    if unexpected[2] == "'('":
        return f"found '{token}' expected: '('"
    if unexpected[2] == "a label's name":
        return f"found '{token}', expected: identifier"
    return f"found '{token}', expected: {unexpected[2]}"
