"""Validates a Policy as kube-scheduler did, with the path of each error.

What holds for extenders in both files is checked once the Policy is converted.

Source: ValidatePolicy in pkg/scheduler/apis/config/validation/validation.go, validatePredicate and
validatePriority in pkg/scheduler/framework/plugins/legacy_registry.go, of Kubernetes v1.22.
Differs: a weight beyond 32 bits is refused (it was cut off), and a negative httpTimeout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

from mooring.config.durations import parse_duration_s
from mooring.config.field_errors import FieldError
from mooring.config.legacy_policy.names import (
    GONE_PREDICATES,
    GONE_PRIORITIES,
    MISNAMED_PREDICATES,
    PREDICATES,
    PRIORITIES,
)
from mooring.config.legacy_policy.types import (
    API_VERSIONS,
    KIND,
    LabelsPresence,
    Policy,
    Predicate,
    PredicateArgument,
    Priority,
    PriorityArgument,
    RatioArguments,
)
from mooring.config.types import (
    KIND as CONFIGURATION,
)
from mooring.config.types import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ScoringStrategy,
)
from mooring.config.validation.plugin_args import check_args
from mooring.objects.files.documents import Path
from mooring.objects.names import label_key_problem

_WEIGHT_MAX = 2**31 - 1
_NS_PER_S = 10**9


def kind_errors(value: Any) -> list[FieldError]:
    """Returns whether this is a Policy at all."""
    if not isinstance(value, dict):
        return [FieldError((), "must be a Policy: a mapping", value)]
    faults_by_path = {key.casefold(): (key, item) for key, item in value.items()}
    key, kind = faults_by_path.get("kind", ("kind", None))
    if kind == CONFIGURATION:
        problem = "is no Policy, so there is nothing to convert: `mooring config check` reads it"
        return [FieldError((key,), problem, kind)]
    if kind == "ConfigMap":
        problem = "must be Policy: convert what stands in the ConfigMap under policy.cfg"
        return [FieldError((key,), problem, kind)]
    errors = [] if kind == KIND else [FieldError((key,), "must be Policy", kind)]
    key, version = faults_by_path.get("apiversion", ("apiVersion", None))
    if version not in API_VERSIONS:
        errors.append(FieldError((key,), f"must be {API_VERSIONS[0]}", version))
    return errors


def type_error(error: FieldError) -> FieldError:
    """Returns an error of ``strict`` with a hint at a common mistake: the unit of a timeout."""
    if not error.path or error.path[-1] != "httpTimeout":
        return error
    suggestion = None
    if isinstance(error.value, str):
        with suppress(ValueError):
            suggestion = str(round(parse_duration_s(error.value) * _NS_PER_S))
    return FieldError(error.path, "must be an integer: nanoseconds", error.value, suggestion)


def policy_errors(policy: Policy) -> list[FieldError]:
    """Returns the errors of a Policy whose types are right; paths use its own field names."""
    errors: list[FieldError] = []
    for i, predicate in enumerate(policy.predicates or ()):
        errors.extend(_predicate(predicate, ("predicates", i)))
    errors.extend(_label_conflicts(policy.predicates or ()))
    for i, priority in enumerate(policy.priorities or ()):
        errors.extend(_priority(priority, ("priorities", i)))
    errors.extend(_declared_together(policy.priorities or ()))
    for i, extender in enumerate(policy.extenders):
        if extender.http_timeout_ns < 0:
            path = ("extenders", i, "httpTimeout")
            errors.append(FieldError(path, "must be zero or positive", extender.http_timeout_ns))
    weight = policy.hard_pod_affinity_symmetric_weight
    if not 0 <= weight <= 100:
        problem = "not in valid range [0-100]"
        errors.append(FieldError(("hardPodAffinitySymmetricWeight",), problem, weight))
    return errors


def ratio_args(ratio: RatioArguments) -> NodeResourcesFitArgs:
    """Returns the arguments of NodeResourcesFit that score by a curve."""
    return NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type="RequestedToCapacityRatio",
            resources=ratio.resources,
            requested_to_capacity_ratio=RequestedToCapacityRatio(shape=ratio.shape),
        )
    )


def _predicate(predicate: Predicate, path: Path) -> Iterator[FieldError]:
    argument = predicate.argument
    if argument is not None and len(kinds(argument)) != 1:
        problem = "exactly 1 predicate argument is required: serviceAffinity or labelsPresence"
        yield FieldError((*path, "argument"), problem, kinds(argument) or None)
    name = predicate.name
    if argument is None and name not in PREDICATES and name not in GONE_PREDICATES:
        suggestion = MISNAMED_PREDICATES.get(name)
        suggestion = suggestion or nearest(name, (*PREDICATES, *GONE_PREDICATES))
        problem = "unknown predicate"
        if name in PRIORITIES or name in GONE_PRIORITIES:
            problem, suggestion = "is a priority, not a predicate", None
        yield FieldError((*path, "name"), problem, name, suggestion)
    presence = _presence(predicate)
    here = (*path, "argument", "labelsPresence", "labels")
    for i, label in enumerate(presence.labels if presence else ()):
        if problem := label_key_problem(label):
            yield FieldError((*here, i), problem, label)


def _presence(predicate: Predicate) -> LabelsPresence | None:
    """Returns the labels that a predicate checks; none for kube-scheduler's own predicates."""
    if predicate.argument is None or predicate.name in PREDICATES:
        return None
    return predicate.argument.labels_presence


def _label_conflicts(predicates: tuple[Predicate, ...]) -> Iterator[FieldError]:
    """Returns a label that must be there and must not: no node could ever fit."""
    expected: dict[str, bool] = {}
    for i, predicate in enumerate(predicates):
        presence = _presence(predicate)
        here = ("predicates", i, "argument", "labelsPresence", "labels")
        for j, label in enumerate(presence.labels if presence else ()):
            assert presence is not None
            if expected.setdefault(label, presence.presence) != presence.presence:
                problem = "the same label must be present and absent"
                yield FieldError((*here, j), problem, label)


def _priority(priority: Priority, path: Path) -> Iterator[FieldError]:
    if not 0 < priority.weight <= _WEIGHT_MAX:
        problem = "should have a positive weight applied to it or it has overflown"
        yield FieldError((*path, "weight"), problem, priority.weight)
    argument = priority.argument
    if argument is not None and len(kinds(argument)) != 1:
        problem = (
            "exactly 1 priority argument is required: serviceAntiAffinity, labelPreference or "
            "requestedToCapacityRatioArguments"
        )
        yield FieldError((*path, "argument"), problem, kinds(argument) or None)
    name = priority.name
    if argument is None and name not in PRIORITIES and name not in GONE_PRIORITIES:
        yield _unknown_priority(name, (*path, "name"))
    ratio = argument.requested_to_capacity_ratio_arguments if argument else None
    if ratio is not None and name not in PRIORITIES:
        yield from _ratio(ratio, (*path, "argument", "requestedToCapacityRatioArguments"))


def _unknown_priority(name: str, path: Path) -> FieldError:
    if name in PREDICATES or name in GONE_PREDICATES:
        return FieldError(path, "is a predicate, not a priority", name)
    if name.startswith("RequestedToCapacityRatio"):
        problem = "needs an argument: requestedToCapacityRatioArguments"
        return FieldError(path, problem, name)
    return FieldError(
        path, "unknown priority", name, nearest(name, (*PRIORITIES, *GONE_PRIORITIES))
    )


def _ratio(ratio: RatioArguments, path: Path) -> Iterator[FieldError]:
    """Yields the errors of the curve as the plugin validates it, with paths of the Policy."""
    for error in check_args(ratio_args(ratio), ()):
        start = next(i for i, step in enumerate(error.path) if step in ("shape", "resources"))
        yield error._replace(path=(*path, *error.path[start:]))


def _declared_together(priorities: tuple[Priority, ...]) -> Iterator[FieldError]:
    """Priorities of one kind were one plugin: they must agree on the weight, or be alone."""
    first: dict[str, Priority] = {}
    for i, priority in enumerate(priorities):
        for kind in kinds(priority.argument) if priority.argument else ():
            before = first.setdefault(kind, priority)
            if before is priority:
                continue
            if kind == "requestedToCapacityRatioArguments":
                problem = f'redeclares RequestedToCapacityRatio, from: "{before.name}"'
                yield FieldError(("priorities", i, "argument", kind), problem)
            elif before.weight != priority.weight:
                problem = f'has a different weight with "{before.name}", also of {kind}'
                yield FieldError(("priorities", i, "weight"), problem, priority.weight)


def kinds(argument: PredicateArgument | PriorityArgument) -> list[str]:
    """Returns the names of the fields that an argument sets."""
    names = type(argument).__struct_encode_fields__
    values = (getattr(argument, field) for field in type(argument).__struct_fields__)
    return [name for name, value in zip(names, values, strict=True) if value is not None]


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Returns the most similar name; None if there is none."""
    by_lower = {item.lower(): item for item in names}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None
