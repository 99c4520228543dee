"""Validates the arguments of plugins as kube-scheduler does.

Source: pkg/scheduler/apis/config/validation/validation_pluginargs.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from mooring.config.field_errors import FieldError
from mooring.config.types import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ScoringStrategy,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from mooring.config.validation.affinity_terms import check_term
from mooring.objects.files.documents import Path
from mooring.objects.names import label_key_problem
from mooring.objects.pod import TopologySpreadConstraint

SCORING_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_WHEN_UNSATISFIABLE = ("DoNotSchedule", "ScheduleAnyway")
_DEFAULTING_TYPES = ("System", "List")
#: Scores in a shape go from 0 to this; times ten they are scores.
_SHAPE_SCORE_MAX = 10
_RESOURCE_WEIGHT_MAX = 100
_BINDING_TIMEOUT_S_MIN = 1.0
#: Of VolumeBinding, while the feature gate is off.
SHAPE_PROBLEM = (
    "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
)


@singledispatch
def check_args(args: Any, path: Path) -> Iterator[FieldError]:
    """Yields the errors of a plugin's arguments; those of out-of-tree plugins are not checked."""
    del args, path
    yield from ()


@check_args.register
def _(args: DefaultPreemptionArgs, path: Path) -> Iterator[FieldError]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path = (*path, "minCandidateNodesPercentage")
    absolute_path = (*path, "minCandidateNodesAbsolute")
    if not 0 <= percentage <= 100:
        yield FieldError(percentage_path, "not in valid range [0, 100]", percentage)
    if absolute < 0:
        yield FieldError(absolute_path, "not in valid range [0, inf)", absolute)
    if percentage == 0 and absolute == 0:
        problem = "cannot be zero at the same time as "
        yield FieldError(percentage_path, problem + "minCandidateNodesAbsolute", percentage)
        yield FieldError(absolute_path, problem + "minCandidateNodesPercentage", absolute)


@check_args.register
def _(args: DynamicResourcesArgs, path: Path) -> Iterator[FieldError]:
    if (args.filter_timeout_s or 0) < 0:
        yield FieldError(
            (*path, "filterTimeout"), "must be zero or positive", args.filter_timeout_s
        )
    timeout_s = args.binding_timeout_s
    if timeout_s is not None and timeout_s < _BINDING_TIMEOUT_S_MIN:
        yield FieldError(
            (*path, "bindingTimeout"), "must be at least 1 second", args.binding_timeout_s
        )


@check_args.register
def _(args: InterPodAffinityArgs, path: Path) -> Iterator[FieldError]:
    weight = args.hard_pod_affinity_weight
    if not 0 <= weight <= 100:
        yield FieldError((*path, "hardPodAffinityWeight"), "not in valid range [0, 100]", weight)


@check_args.register
def _(args: NodeAffinityArgs, path: Path) -> Iterator[FieldError]:
    if args.added_affinity is None:
        return
    required = args.added_affinity.required_during_scheduling_ignored_during_execution
    preferred = args.added_affinity.preferred_during_scheduling_ignored_during_execution
    here = (*path, "addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    for i, term in enumerate(required.node_selector_terms if required else ()):
        yield from check_term(term, (*here, "nodeSelectorTerms", i))
    here = (*path, "addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
    for i, weighted in enumerate(preferred):
        if weighted.weight:
            yield from check_term(weighted.preference, (*here, i))


@check_args.register
def _(args: NodeResourcesBalancedAllocationArgs, path: Path) -> Iterator[FieldError]:
    names: set[str] = set()
    for i, resource in enumerate(args.resources):
        here = (*path, "resources", i)
        if resource.name in names:
            yield FieldError((*here, "name"), "Duplicate value", resource.name)
        names.add(resource.name)
        if resource.weight != 1:
            yield FieldError((*here, "weight"), "must be 1", resource.weight)


@check_args.register
def _(args: NodeResourcesFitArgs, path: Path) -> Iterator[FieldError]:
    for i, resource in enumerate(args.ignored_resources):
        if problem := label_key_problem(resource):
            yield FieldError((*path, "ignoredResources", i), problem, resource)
    for i, group in enumerate(args.ignored_resource_groups):
        here = (*path, "ignoredResourceGroups", i)
        if "/" in group:
            yield FieldError(here, "resource group name can't contain '/'", group)
        if problem := label_key_problem(group):
            yield FieldError(here, problem, group)
    yield from _scoring_strategy(args.scoring_strategy, (*path, "scoringStrategy"))


@check_args.register
def _(args: PodTopologySpreadArgs, path: Path) -> Iterator[FieldError]:
    constraints, kind = args.default_constraints, args.defaulting_type
    if kind not in _DEFAULTING_TYPES:
        yield FieldError((*path, "defaultingType"), _one_of(_DEFAULTING_TYPES), kind)
    elif kind == "System" and constraints:
        yield FieldError((*path, "defaultingType"), "when .defaultConstraints are not empty", kind)
    names: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        here = (*path, "defaultConstraints", i)
        yield from _constraint(constraint, here)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in names:
            yield FieldError(here, "Duplicate value", f"{{{pair[0]}, {pair[1]}}}")
        names.add(pair)


@check_args.register
def _(args: VolumeBindingArgs, path: Path) -> Iterator[FieldError]:
    if args.bind_timeout_seconds < 0:
        problem = "invalid BindTimeoutSeconds, should not be a negative value"
        yield FieldError((*path, "bindTimeoutSeconds"), problem, args.bind_timeout_seconds)
    if args.shape is not None:
        points = [{"Utilization": point.utilization, "Score": point.score} for point in args.shape]
        yield FieldError((*path, "shape"), SHAPE_PROBLEM, points)


def _scoring_strategy(strategy: ScoringStrategy, path: Path) -> Iterator[FieldError]:
    if strategy.type not in SCORING_STRATEGIES:
        yield FieldError((*path, "type"), _one_of(SCORING_STRATEGIES), strategy.type)
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= _RESOURCE_WEIGHT_MAX:
            problem = (
                f"resource weight of {resource.name} not in valid range (0, {_RESOURCE_WEIGHT_MAX}]"
            )
            yield FieldError((*path, "resources", i, "weight"), problem, resource.weight)
    ratio = strategy.requested_to_capacity_ratio
    here = (*path, "requestedToCapacityRatio")
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            yield FieldError(here, "must be specified when type is RequestedToCapacityRatio")
        else:
            yield from check_shape(ratio.shape, (*here, "shape"))
    elif ratio is not None:
        yield FieldError(here, "must be nil when type is not RequestedToCapacityRatio")


def check_shape(shape: tuple[UtilizationShapePoint, ...], path: Path) -> Iterator[FieldError]:
    """Yields the errors of a scoring curve."""
    if not shape:
        yield FieldError(path, "at least one point must be specified")
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            problem = "values must be sorted in increasing order"
            yield FieldError((*path, i, "utilization"), problem, shape[i].utilization)
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield FieldError(
                (*path, i, "utilization"), "not in valid range [0, 100]", point.utilization
            )
        if not 0 <= point.score <= _SHAPE_SCORE_MAX:
            problem = f"not in valid range [0, {_SHAPE_SCORE_MAX}]"
            yield FieldError((*path, i, "score"), problem, point.score)


def _constraint(constraint: TopologySpreadConstraint, path: Path) -> Iterator[FieldError]:
    if constraint.max_skew <= 0:
        yield FieldError((*path, "maxSkew"), "not in valid range (0, inf)", constraint.max_skew)
    if not constraint.topology_key:
        yield FieldError((*path, "topologyKey"), "can not be empty")
    elif problem := label_key_problem(constraint.topology_key):
        yield FieldError((*path, "topologyKey"), problem, constraint.topology_key)
    action = constraint.when_unsatisfiable
    if not action:
        yield FieldError((*path, "whenUnsatisfiable"), "can not be empty")
    elif action not in _WHEN_UNSATISFIABLE:
        yield FieldError((*path, "whenUnsatisfiable"), _one_of(_WHEN_UNSATISFIABLE), action)
    if constraint.label_selector is not None:
        problem = "constraint must not define a selector, as they deduced for each pod"
        yield FieldError((*path, "labelSelector"), problem)


def _one_of(values: tuple[str, ...]) -> str:
    return "must be one of " + ", ".join(values)
