"""The legacy Policy file as structs, and its keys in any case as Go takes them.

Go's JSON decoder takes ``BindVerb`` for ``bindVerb``, and the first releases wrote it so. The walk
here gives every key its name, so that ``strict`` can do the rest.

Source: k8s.io/kube-scheduler config/v1/legacy_types.go of Kubernetes v1.22, its last version.
Differs: unknown keys are refused, and so is a field that stands twice in different spellings.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from mooring.config.field_errors import FieldError
from mooring.config.types import (
    Config,
    ExtenderManagedResource,
    ExtenderTLSConfig,
    Int32,
    Int64,
    ResourceSpec,
    UtilizationShapePoint,
)
from mooring.objects.codec.struct_types import struct_type
from mooring.objects.files.documents import Path

KIND = "Policy"
#: The first spelling is the one of every example; the second is the one of the reference pages.
API_VERSIONS = ("v1", "kubescheduler.config.k8s.io/v1")


class Labels(Config, frozen=True, kw_only=True):
    """``serviceAffinity``: pods of a service want nodes that are alike in these labels."""

    labels: tuple[str, ...] = ()


class LabelsPresence(Config, frozen=True, kw_only=True):
    """Nodes must have these labels, or must not have them."""

    labels: tuple[str, ...] = ()
    presence: bool = False


class PredicateArgument(Config, frozen=True, kw_only=True):
    """The argument of a custom predicate; exactly one field is set."""

    service_affinity: Labels | None = None
    labels_presence: LabelsPresence | None = None


class Predicate(Config, frozen=True, kw_only=True):
    """A condition that nodes must meet."""

    name: str = ""
    argument: PredicateArgument | None = None


class Label(Config, frozen=True, kw_only=True):
    """``serviceAntiAffinity``: spread the pods of a service over the values of a label."""

    label: str = ""


class LabelPreference(Config, frozen=True, kw_only=True):
    """Nodes with a label, or those without it, are better."""

    label: str = ""
    presence: bool = False


class RatioArguments(Config, frozen=True, kw_only=True):
    """A scoring curve over the use of resources."""

    shape: tuple[UtilizationShapePoint, ...] = ()
    resources: tuple[ResourceSpec, ...] = ()


class PriorityArgument(Config, frozen=True, kw_only=True):
    """The argument of a custom priority; exactly one field is set."""

    service_anti_affinity: Label | None = None
    label_preference: LabelPreference | None = None
    requested_to_capacity_ratio_arguments: RatioArguments | None = None


class Priority(Config, frozen=True, kw_only=True):
    """A score of nodes, and how much it counts."""

    name: str = ""
    weight: Int64 = 0
    argument: PriorityArgument | None = None


class LegacyExtender(Config, frozen=True, kw_only=True):
    """An extender as a Policy spells it; ``http_timeout_ns`` of 0 is the default."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = False  # "enableHttps" in the file: the one name that changed later
    tls_config: ExtenderTLSConfig | None = None
    http_timeout_ns: Int64 = msgspec.field(default=0, name="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class Policy(Config, frozen=True, kw_only=True):
    """A whole Policy. None is a list that the file leaves out; that is not the empty list."""

    api_version: str = ""
    kind: str = ""
    predicates: tuple[Predicate, ...] | None = None
    priorities: tuple[Priority, ...] | None = None
    extenders: tuple[LegacyExtender, ...] = ()
    hard_pod_affinity_symmetric_weight: Int32 = 0
    always_check_all_predicates: bool = False


class Note(NamedTuple):
    """A note on a field: it has no successor, or its meaning has changed."""

    path: Path
    text: str


def named(value: Any, errors: list[FieldError], notes: list[Note]) -> Any:
    """Returns the value of a file with the field names of ``Policy``, whatever their case."""
    return _named(value, struct_type(Policy), (), errors, notes)


def as_written(path: Path, value: Any) -> Path:
    """Returns a path in the names of ``Policy`` as ``value``, the file, spells it."""
    spelled: list[str | int] = []
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            spellings = [key for key in value if key.casefold() == step.casefold()]
            step = step if step in value or not spellings else spellings[0]
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            value = None
        spelled.append(step)
    return tuple(spelled)


def _named(
    value: Any, expected: inspect.Type, path: Path, errors: list[FieldError], notes: list[Note]
) -> Any:
    if isinstance(expected, inspect.UnionType):
        expected = next(kind for kind in expected.types if not isinstance(kind, inspect.NoneType))
    if isinstance(expected, inspect.VarTupleType) and isinstance(value, list):
        item = expected.item_type
        return [_named(element, item, (*path, i), errors, notes) for i, element in enumerate(value)]
    if not isinstance(expected, inspect.StructType) or not isinstance(value, dict):
        return value
    fields = {field.encode_name.casefold(): field for field in expected.fields}
    made: dict[str, Any] = {}
    for key, element in value.items():
        here = (*path, key)
        field = fields.get(key.casefold())
        if field is None:
            errors.append(FieldError(here, "unknown field", None, _nearest(key, expected)))
        elif field.encode_name in made:
            errors.append(FieldError(here, f"this is {field.encode_name} for the second time"))
        else:
            made[field.encode_name] = _named(element, field.type, here, errors, notes)
            notes.extend(_case(here, field.encode_name))
    return made


def _case(path: Path, name: str) -> list[Note]:
    """Returns a note if the case of a field name differs: later versions ignored such fields."""
    is_extender = len(path) > 1 and str(path[0]).casefold() == "extenders"
    if path[-1] == name or is_extender:
        return []
    text = f"read as {name}; later kube-schedulers looked at the case and ignored it"
    return [Note(path, text)]


def _nearest(key: str, expected: inspect.StructType) -> str | None:
    near = get_close_matches(key, [field.encode_name for field in expected.fields], n=1)
    return near[0] if near else None
