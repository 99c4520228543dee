"""Compiled selectors: of objects by their labels, of nodes by labels and name.

A selector of the API is compiled once and then evaluated many times. The result is frozen, hashable
and equal to any other with the same meaning (order and repetition do not matter), so it can be the
key of a cache or a counter.

Source: apimachinery v0.36.3, pkg/labels/selector.go and pkg/apis/meta/v1/helpers.go;
component-helpers v0.36.3, scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.objects.names import are_label_values, label_key_problem, label_value_problem
from mooring.objects.text_cache import text_cache

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mooring.objects.meta import LabelSelector, NodeSelector, NodeSelectorTerm
    from mooring.objects.pod import Pod, PreferredSchedulingTerm

IN: Final = "In"
NOT_IN: Final = "NotIn"
EXISTS: Final = "Exists"
DOES_NOT_EXIST: Final = "DoesNotExist"
GREATER: Final = "Gt"
LESS: Final = "Lt"

#: The only field of a node that a node selector can match.
NODE_NAME_FIELD: Final = "metadata.name"

LABEL_OPERATORS: Final = frozenset((IN, NOT_IN, EXISTS, DOES_NOT_EXIST))
NODE_OPERATORS: Final = LABEL_OPERATORS | {GREATER, LESS}

_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)

#: Compiled requirements are shared; a hostile cluster must not fill the memory.
_CACHE_SIZE: Final = 16_384
#: Longer conditions are validated each time.
_CACHED_CHARS_MAX: Final = 1024


class SelectorError(ValueError):
    """A selector that cannot be compiled: an unknown operator, or invalid values."""


class Requirement(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """One condition on one label; ``values`` are sorted and without repetition.

    Example:
        >>> requirement("disk", "In", ("ssd", "nvme")).matches_value("ssd")
        True
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches_value(self, value: str | None) -> bool:
        """Returns whether the condition holds for this value of the label; None = no such label."""
        operator = self.operator
        if operator == IN:
            return _is_among(value, self.values)
        if operator == NOT_IN:
            return not _is_among(value, self.values)
        if operator == EXISTS:
            return value is not None
        if operator == DOES_NOT_EXIST:
            return value is None
        number, bound = parse_int64(value or ""), parse_int64(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if operator == GREATER else number < bound

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Returns whether the condition holds for these labels."""
        return self.matches_value(labels.get(self.key))

    def __str__(self) -> str:
        """Returns the condition in the syntax of ``kubectl --selector``."""
        if self.operator == EXISTS:
            return self.key
        if self.operator == DOES_NOT_EXIST:
            return f"!{self.key}"
        sign = {GREATER: ">", LESS: "<"}.get(self.operator)
        if sign is None and len(self.values) == 1:
            sign = "=" if self.operator == IN else "!="
        if sign is not None:
            return f"{self.key}{sign}{self.values[0]}"
        word = "in" if self.operator == IN else "notin"
        return f"{self.key} {word} ({','.join(self.values)})"


class Selector(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Conditions on labels that must all hold; ``selects_nothing`` overrides them.

    The requirements are sorted, so that equal selectors compare equal.
    """

    requirements: tuple[Requirement, ...] = ()
    selects_nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Returns whether an object with these labels is selected."""
        if self.selects_nothing:
            return False
        for condition in self.requirements:
            if not condition.matches_value(labels.get(condition.key)):
                return False
        return True

    @property
    def selects_everything(self) -> bool:
        """True if there is no condition."""
        return not self.requirements and not self.selects_nothing

    def __str__(self) -> str:
        """Returns the selector in the syntax of ``kubectl --selector``; "" selects everything."""
        return ",".join(map(str, self.requirements))


NOTHING: Final = Selector(selects_nothing=True)
EVERYTHING: Final = Selector()


def selector_of(requirements: Iterable[Requirement]) -> Selector:
    """Returns the selector that requires all of these."""
    return Selector(_sorted(requirements))


def requirement(key: str, operator: str, values: tuple[str, ...] = ()) -> Requirement:
    """Returns a validated condition.

    Raises:
        SelectorError: The key or a value is invalid, the operator is unknown, or it takes another
        number of values.
    """
    if len(key) + len(operator) + sum(map(len, values)) > _CACHED_CHARS_MAX:
        return cached_requirement.__wrapped__(key, operator, values)
    return cached_requirement(key, operator, values)


@lru_cache(maxsize=_CACHE_SIZE)
def cached_requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    """Returns what ``requirement`` does, from a cache."""
    if problem := label_key_problem(key):
        raise SelectorError(f"{_cut(key)} is not a label key: {problem}")
    if problem := _values_problem(operator, values):
        raise SelectorError(f"label {key!r}: {problem}")
    for value in () if are_label_values(values) else values:
        if problem := label_value_problem(value):
            raise SelectorError(f"label {key!r}: {_cut(value)} is not a label value: {problem}")
    return Requirement(key, operator, tuple(sorted(set(values))))


def _values_problem(operator: str, values: tuple[str, ...]) -> str:
    if operator not in NODE_OPERATORS:
        return f"{_cut(operator)} is not an operator of a selector"
    if operator in (IN, NOT_IN):
        return "" if values else f"{operator} needs at least one value"
    if operator in (EXISTS, DOES_NOT_EXIST):
        return f"{operator} takes no values" if values else ""
    if len(values) != 1:
        return f"{operator} needs exactly one value"
    if parse_int64(values[0]) is None:
        return f"{operator} needs an integer, not {_cut(values[0])}"
    return ""


def compile_label_selector(selector: LabelSelector | None) -> Selector:
    """Returns the compiled selector: None selects nothing, an empty one everything.

    Raises:
        SelectorError: It has an unknown operator, or invalid values.
    """
    if selector is None:
        return NOTHING
    conditions = [requirement(key, IN, (value,)) for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        if expression.operator not in LABEL_OPERATORS:
            raise SelectorError(
                f"{_cut(expression.operator)} is not an operator of a label selector"
            )
        conditions.append(requirement(expression.key, expression.operator, expression.values))
    return Selector(_sorted(conditions)) if conditions else EVERYTHING


def selector_of_labels(labels: Mapping[str, str]) -> Selector:
    """Returns the selector of objects that have all of these labels (a Service's, a nodeSelector).

    The labels are not validated: invalid ones select no object.
    """
    return Selector(_sorted(Requirement(key, IN, (value,)) for key, value in labels.items()))


class NodeTerm(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """One term of a node selector: all conditions must hold.

    ``problem`` is the compile error ("" = none); a term with an error selects no node, while the
    other terms still count.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    problem: str = ""

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Returns whether the node with these labels and this name is selected by the term."""
        if self.problem:
            return False
        for condition in self.expressions:
            if not condition.matches_value(labels.get(condition.key)):
                return False
        for condition in self.fields:
            # A field that a node does not have reads as "".
            value = node_name if condition.key == NODE_NAME_FIELD else ""
            if not condition.matches_value(value):
                return False
        return True


class PreferredNodeTerm(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """A term, and the weight that a node gets for matching it."""

    weight: int
    term: NodeTerm


class CompiledNodeSelector(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Terms of which one must hold; without any, no node is selected."""

    terms: tuple[NodeTerm, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Returns whether the node with these labels and this name is selected."""
        return any(term.matches(labels, node_name) for term in self.terms)

    @property
    def problems(self) -> tuple[str, ...]:
        """The compile errors of terms; upstream reports them only if no other term matches."""
        return tuple(term.problem for term in self.terms if term.problem)


class RequiredNodeAffinity(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """The node requirements of a pod: its ``nodeSelector`` and its required node affinity.

    ``affinity`` is None if the pod has none; then ``labels`` alone decide.
    """

    labels: Selector = EVERYTHING
    affinity: CompiledNodeSelector | None = None

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        """Returns whether the pod may be on the node with these labels and this name."""
        if not self.labels.matches(labels):
            return False
        return self.affinity is None or self.affinity.matches(labels, node_name)

    @property
    def selects_everything(self) -> bool:
        """True if the pod may be on any node."""
        return self.affinity is None and self.labels.selects_everything


def compile_node_term(term: NodeSelectorTerm) -> NodeTerm:
    """Returns the compiled term; a compile error is stored in ``problem``.

    An empty term selects every node here: the caller must omit it.
    """
    try:
        expressions = [
            requirement(condition.key, condition.operator, condition.values)
            for condition in term.match_expressions
        ]
        fields = [
            _field_requirement(condition.key, condition.operator, condition.values)
            for condition in term.match_fields
        ]
    except SelectorError as error:
        return NodeTerm(problem=str(error))
    return NodeTerm(_sorted(expressions), _sorted(fields))


def compile_node_selector(selector: NodeSelector) -> CompiledNodeSelector:
    """Returns the compiled selector. Empty terms select no node, so they are omitted."""
    return CompiledNodeSelector(
        tuple(compile_node_term(term) for term in selector.node_selector_terms if _has_any(term))
    )


def required_node_affinity(pod: Pod) -> RequiredNodeAffinity:
    """Returns the nodes that the pod insists on."""
    spec = pod.spec
    labels = selector_of_labels(spec.node_selector) if spec.node_selector else EVERYTHING
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    return RequiredNodeAffinity(labels, compile_node_selector(required) if required else None)


def preferred_node_terms(terms: Iterable[PreferredSchedulingTerm]) -> tuple[PreferredNodeTerm, ...]:
    """Returns the terms that can add to a node's score: with a weight and a requirement.

    Raises:
        SelectorError: One of them cannot be compiled; a preference is never dropped silently.
    """
    compiled = []
    for preferred in terms:
        if preferred.weight == 0 or not _has_any(preferred.preference):
            continue
        term = compile_node_term(preferred.preference)
        if term.problem:
            raise SelectorError(term.problem)
        compiled.append(PreferredNodeTerm(preferred.weight, term))
    return tuple(compiled)


@text_cache(_CACHE_SIZE)
def parse_int64(text: str) -> int | None:
    """Returns a decimal int64 with an optional sign, or None. No spaces, no underscores."""
    if len(text) > _INT64_LENGTH_MAX or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _is_among(value: str | None, values: tuple[str, ...]) -> bool:
    """Returns whether the sorted ``values`` contain ``value``, by bisection if they are many."""
    if len(values) <= _FEW_VALUES:
        return value in values
    if value is None:
        return False
    index = bisect_left(values, value)
    return index < len(values) and values[index] == value


#: Up to this many values, a linear search is as fast as bisection.
_FEW_VALUES: Final = 8

#: Leading zeros are valid, up to the length of a label value.
_INT64_LENGTH_MAX: Final = 63


def _field_requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    if operator not in (IN, NOT_IN):
        raise SelectorError(f"field {key!r}: {_cut(operator)} is not In or NotIn")
    if len(values) != 1:
        raise SelectorError(f"field {key!r}: {operator} needs exactly one value")
    return Requirement(key, operator, values)


def _has_any(term: NodeSelectorTerm) -> bool:
    return bool(term.match_expressions or term.match_fields)


def _sorted(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    unique = dict.fromkeys(requirements)
    return tuple(sorted(unique, key=lambda item: (item.key, item.operator, item.values)))


def _cut(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")
