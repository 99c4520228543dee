"""Which objects a list or watch is about: namespace, labels, fields.

The parsers are those of ``objects``; here stand kube-apiserver's words for what they refuse, and
how a selector picks from a collection.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mooring.apiserver import names
from mooring.apiserver.errors import bad_request, quoted
from mooring.apiserver.storage.field_selectors import check_fields, fields_of
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
    """What a list or watch selects.

    Attributes:
        resource: Whose objects.
        namespace: "" = all.
        labels: None = any.
        fields: Without requirements = any.
    """

    resource: Resource
    namespace: str
    labels: Selector | None = None
    fields: FieldSelector = _EVERYTHING

    @property
    def is_everything(self) -> bool:
        """Whether neither labels nor fields matter."""
        return self.labels is None and not self.fields.requirements

    def matches(self, stored: Stored | None) -> bool:
        """Returns whether an object is selected; None is not."""
        if stored is None:
            return False
        if self.namespace and not stored.key.startswith(f"{self.namespace}/"):
            return False
        if self.labels is not None and not self.labels.matches(stored.labels):
            return False
        if not self.fields.requirements:
            return True
        return self.fields.matches(fields_of(self.resource, stored))

    def candidates(self, collection: Collection, *, after: str = "") -> Iterator[Stored]:
        """The objects that may match, in the order of their keys: all, if nothing is indexed."""
        node = self.fields.exact("spec.nodeName")
        if node and self.resource.name == "pods":
            return (stored for stored in collection.on_node(node) if stored.key >= after)
        name = self.fields.exact("metadata.name")
        namespace = self.namespace or self.fields.exact("metadata.namespace") or ""
        if name and (namespace or not self.resource.namespaced):
            found = collection.get(f"{namespace}/{name}" if namespace else name)
            return iter([found] if found is not None and found.key >= after else [])
        return collection.in_order(self.namespace, after=after)

    def of(self, objects: Iterable[Stored]) -> Iterator[Stored]:
        """Returns those of the objects that are selected."""
        if self.is_everything and not self.namespace:
            return iter(objects)
        return (stored for stored in objects if self.matches(stored))


def selection_of(resource: Resource, namespace: str, *, labels: str, fields: str) -> Selection:
    """Returns the selection that a URL asks for.

    Raises:
        ApiStatusError: 400.
    """
    label_selector = _labels(labels) if labels else None
    try:
        field_selector = parse_field_selector(fields)
    except SelectorError as error:
        raise bad_request(_field_problem(fields)) from error
    checked = check_fields(resource, field_selector)
    return Selection(resource, namespace, label_selector, checked)


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
    for part in re.split(r"(?<!\\),", text):
        if part and not re.search("=", part):
            return f"invalid selector: '{text}'; can't understand '{part}'"
    return f"invalid selector: '{text}'"


def _label_problem(error: SelectorError) -> str:
    """Upstream's words where they are simple, ours else."""
    named = re.search(r"(?:label '(.*)': )?'(.*)' is not a label (key|value)", str(error))
    if named is not None:
        is_key = named[3] == "key"
        problems = (names.qualified_name if is_key else names.label_value)(named[2])
        field = "<nil>" if is_key else f"values[0][{named[1]}]"
        return f"{field}: Invalid value: {quoted(named[2])}: {'; '.join(problems)}"
    found = re.search(r"found '?(.*?)'? instead of (.*)$", str(error))
    if found is None:
        return str(error)
    what = "" if found[1] == "the end" else found[1]
    if found[2].startswith("one of"):
        return f"found '{what}', expected: in, notin, =, ==, !=, gt, lt"
    if found[2] == "',' or the end":
        return f"found '{what}', expected: ',' or 'end of string'"
    if found[2] == "'('":
        return f"found '{what}' expected: '('"
    return f"found '{what}', expected: {found[2]}"
