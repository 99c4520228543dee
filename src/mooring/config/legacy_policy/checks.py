"""What kube-scheduler refused in a Policy, with the place of each fault.

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
from mooring.config.field_errors import Fault
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


def kind_faults(value: Any) -> list[Fault]:
    """Returns whether this is a Policy at all."""
    if not isinstance(value, dict):
        return [Fault((), "must be a Policy: a mapping", value)]
    found = {key.casefold(): (key, each) for key, each in value.items()}
    key, kind = found.get("kind", ("kind", None))
    if kind == CONFIGURATION:
        problem = "is no Policy, so there is nothing to convert: `mooring config check` reads it"
        return [Fault((key,), problem, kind)]
    if kind == "ConfigMap":
        problem = "must be Policy: convert what stands in the ConfigMap under policy.cfg"
        return [Fault((key,), problem, kind)]
    faults = [] if kind == KIND else [Fault((key,), "must be Policy", kind)]
    key, version = found.get("apiversion", ("apiVersion", None))
    if version not in API_VERSIONS:
        faults.append(Fault((key,), f"must be {API_VERSIONS[0]}", version))
    return faults


def type_fault(fault: Fault) -> Fault:
    """A fault that ``strict`` found, with more to say where people slip: the unit of a timeout."""
    if not fault.path or fault.path[-1] != "httpTimeout":
        return fault
    suggestion = None
    if isinstance(fault.value, str):
        with suppress(ValueError):
            suggestion = str(round(parse_duration_s(fault.value) * _NS_PER_S))
    return Fault(fault.path, "must be an integer: nanoseconds", fault.value, suggestion)


def policy_faults(policy: Policy) -> list[Fault]:
    """Everything that is wrong with a Policy whose types are right; paths are in its own names."""
    faults: list[Fault] = []
    for i, predicate in enumerate(policy.predicates or ()):
        faults.extend(_predicate(predicate, ("predicates", i)))
    faults.extend(_label_conflicts(policy.predicates or ()))
    for i, priority in enumerate(policy.priorities or ()):
        faults.extend(_priority(priority, ("priorities", i)))
    faults.extend(_declared_together(policy.priorities or ()))
    for i, extender in enumerate(policy.extenders):
        if extender.http_timeout_ns < 0:
            path = ("extenders", i, "httpTimeout")
            faults.append(Fault(path, "must be zero or positive", extender.http_timeout_ns))
    weight = policy.hard_pod_affinity_symmetric_weight
    if not 0 <= weight <= 100:
        problem = "not in valid range [0-100]"
        faults.append(Fault(("hardPodAffinitySymmetricWeight",), problem, weight))
    return faults


def ratio_args(ratio: RatioArguments) -> NodeResourcesFitArgs:
    """How NodeResourcesFit is told to score by a curve."""
    return NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            type="RequestedToCapacityRatio",
            resources=ratio.resources,
            requested_to_capacity_ratio=RequestedToCapacityRatio(shape=ratio.shape),
        )
    )


def _predicate(predicate: Predicate, path: Path) -> Iterator[Fault]:
    argument = predicate.argument
    if argument is not None and len(kinds(argument)) != 1:
        problem = "exactly 1 predicate argument is required: serviceAffinity or labelsPresence"
        yield Fault((*path, "argument"), problem, kinds(argument) or None)
    name = predicate.name
    if argument is None and name not in PREDICATES and name not in GONE_PREDICATES:
        suggestion = MISNAMED_PREDICATES.get(name)
        suggestion = suggestion or nearest(name, (*PREDICATES, *GONE_PREDICATES))
        problem = "unknown predicate"
        if name in PRIORITIES or name in GONE_PRIORITIES:
            problem, suggestion = "is a priority, not a predicate", None
        yield Fault((*path, "name"), problem, name, suggestion)
    presence = _presence(predicate)
    here = (*path, "argument", "labelsPresence", "labels")
    for i, label in enumerate(presence.labels if presence else ()):
        if problem := label_key_problem(label):
            yield Fault((*here, i), problem, label)


def _presence(predicate: Predicate) -> LabelsPresence | None:
    """The labels that a predicate looks at: none if it has a name of kube-scheduler's own."""
    if predicate.argument is None or predicate.name in PREDICATES:
        return None
    return predicate.argument.labels_presence


def _label_conflicts(predicates: tuple[Predicate, ...]) -> Iterator[Fault]:
    """Returns a label that must be there and must not: no node could ever fit."""
    wanted: dict[str, bool] = {}
    for i, predicate in enumerate(predicates):
        presence = _presence(predicate)
        here = ("predicates", i, "argument", "labelsPresence", "labels")
        for j, label in enumerate(presence.labels if presence else ()):
            assert presence is not None
            if wanted.setdefault(label, presence.presence) != presence.presence:
                problem = "the same label must be present and absent"
                yield Fault((*here, j), problem, label)


def _priority(priority: Priority, path: Path) -> Iterator[Fault]:
    if not 0 < priority.weight <= _WEIGHT_MAX:
        problem = "should have a positive weight applied to it or it has overflown"
        yield Fault((*path, "weight"), problem, priority.weight)
    argument = priority.argument
    if argument is not None and len(kinds(argument)) != 1:
        problem = (
            "exactly 1 priority argument is required: serviceAntiAffinity, labelPreference or "
            "requestedToCapacityRatioArguments"
        )
        yield Fault((*path, "argument"), problem, kinds(argument) or None)
    name = priority.name
    if argument is None and name not in PRIORITIES and name not in GONE_PRIORITIES:
        yield _unknown_priority(name, (*path, "name"))
    ratio = argument.requested_to_capacity_ratio_arguments if argument else None
    if ratio is not None and name not in PRIORITIES:
        yield from _ratio(ratio, (*path, "argument", "requestedToCapacityRatioArguments"))


def _unknown_priority(name: str, path: Path) -> Fault:
    if name in PREDICATES or name in GONE_PREDICATES:
        return Fault(path, "is a predicate, not a priority", name)
    if name.startswith("RequestedToCapacityRatio"):
        problem = "needs an argument: requestedToCapacityRatioArguments"
        return Fault(path, problem, name)
    return Fault(path, "unknown priority", name, nearest(name, (*PRIORITIES, *GONE_PRIORITIES)))


def _ratio(ratio: RatioArguments, path: Path) -> Iterator[Fault]:
    """What today's plugin refuses in the curve, with the places of the Policy."""
    for fault in check_args(ratio_args(ratio), ()):
        start = next(i for i, step in enumerate(fault.path) if step in ("shape", "resources"))
        yield fault._replace(path=(*path, *fault.path[start:]))


def _declared_together(priorities: tuple[Priority, ...]) -> Iterator[Fault]:
    """Priorities of one kind were one plugin: they must agree on the weight, or be alone."""
    first: dict[str, Priority] = {}
    for i, priority in enumerate(priorities):
        for kind in kinds(priority.argument) if priority.argument else ():
            before = first.setdefault(kind, priority)
            if before is priority:
                continue
            if kind == "requestedToCapacityRatioArguments":
                problem = f'redeclares RequestedToCapacityRatio, from: "{before.name}"'
                yield Fault(("priorities", i, "argument", kind), problem)
            elif before.weight != priority.weight:
                problem = f'has a different weight with "{before.name}", also of {kind}'
                yield Fault(("priorities", i, "weight"), problem, priority.weight)


def kinds(argument: PredicateArgument | PriorityArgument) -> list[str]:
    """Which of its members an argument says."""
    names = type(argument).__struct_encode_fields__
    values = (getattr(argument, field) for field in type(argument).__struct_fields__)
    return [name for name, value in zip(names, values, strict=True) if value is not None]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Returns the known name that is meant, perhaps."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[near[0]] if near else None
