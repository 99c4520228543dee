"""What kube-scheduler checks in the arguments of its plugins.

Source: pkg/scheduler/apis/config/validation/validation_pluginargs.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import singledispatch
from typing import Any

from mooring.config.field_errors import Fault
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


@singledispatch
def check_args(args: Any, path: Path) -> Iterator[Fault]:
    """Yields what is wrong with a plugin's arguments; of plugins not our own nothing is known."""
    del args, path
    yield from ()


@check_args.register
def _(args: DefaultPreemptionArgs, path: Path) -> Iterator[Fault]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    percentage_path = (*path, "minCandidateNodesPercentage")
    absolute_path = (*path, "minCandidateNodesAbsolute")
    if not 0 <= percentage <= 100:
        yield Fault(percentage_path, "not in valid range [0, 100]", percentage)
    if absolute < 0:
        yield Fault(absolute_path, "not in valid range [0, inf)", absolute)
    if percentage == 0 and absolute == 0:
        problem = "cannot be zero at the same time as "
        yield Fault(percentage_path, problem + "minCandidateNodesAbsolute", percentage)
        yield Fault(absolute_path, problem + "minCandidateNodesPercentage", absolute)


@check_args.register
def _(args: DynamicResourcesArgs, path: Path) -> Iterator[Fault]:
    if args.filter_timeout_s < 0:
        yield Fault((*path, "filterTimeout"), "must be zero or positive", args.filter_timeout_s)
    if args.binding_timeout_s < _BINDING_TIMEOUT_S_MIN:
        yield Fault((*path, "bindingTimeout"), "must be at least 1 second", args.binding_timeout_s)


@check_args.register
def _(args: InterPodAffinityArgs, path: Path) -> Iterator[Fault]:
    weight = args.hard_pod_affinity_weight
    if not 0 <= weight <= 100:
        yield Fault((*path, "hardPodAffinityWeight"), "not in valid range [0, 100]", weight)


@check_args.register
def _(args: NodeAffinityArgs, path: Path) -> Iterator[Fault]:
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
def _(args: NodeResourcesBalancedAllocationArgs, path: Path) -> Iterator[Fault]:
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        here = (*path, "resources", i)
        if resource.name in seen:
            yield Fault((*here, "name"), "Duplicate value", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            yield Fault((*here, "weight"), "must be 1", resource.weight)


@check_args.register
def _(args: NodeResourcesFitArgs, path: Path) -> Iterator[Fault]:
    for i, resource in enumerate(args.ignored_resources):
        if problem := label_key_problem(resource):
            yield Fault((*path, "ignoredResources", i), problem, resource)
    for i, group in enumerate(args.ignored_resource_groups):
        here = (*path, "ignoredResourceGroups", i)
        if "/" in group:
            yield Fault(here, "resource group name can't contain '/'", group)
        if problem := label_key_problem(group):
            yield Fault(here, problem, group)
    yield from _scoring_strategy(args.scoring_strategy, (*path, "scoringStrategy"))


@check_args.register
def _(args: PodTopologySpreadArgs, path: Path) -> Iterator[Fault]:
    constraints, kind = args.default_constraints, args.defaulting_type
    if kind not in _DEFAULTING_TYPES:
        yield Fault((*path, "defaultingType"), _one_of(_DEFAULTING_TYPES), kind)
    elif kind == "System" and constraints:
        yield Fault((*path, "defaultingType"), "when .defaultConstraints are not empty", kind)
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        here = (*path, "defaultConstraints", i)
        yield from _constraint(constraint, here)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            yield Fault(here, "Duplicate value", f"{{{pair[0]}, {pair[1]}}}")
        seen.add(pair)


@check_args.register
def _(args: VolumeBindingArgs, path: Path) -> Iterator[Fault]:
    if args.bind_timeout_seconds < 0:
        problem = "invalid BindTimeoutSeconds, should not be a negative value"
        yield Fault((*path, "bindTimeoutSeconds"), problem, args.bind_timeout_seconds)
    if args.shape is not None:
        problem = (
            "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        )
        yield Fault((*path, "shape"), problem)


def _scoring_strategy(strategy: ScoringStrategy, path: Path) -> Iterator[Fault]:
    if strategy.type not in SCORING_STRATEGIES:
        yield Fault((*path, "type"), _one_of(SCORING_STRATEGIES), strategy.type)
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= _RESOURCE_WEIGHT_MAX:
            problem = (
                f"resource weight of {resource.name} not in valid range (0, {_RESOURCE_WEIGHT_MAX}]"
            )
            yield Fault((*path, "resources", i, "weight"), problem, resource.weight)
    ratio = strategy.requested_to_capacity_ratio
    here = (*path, "requestedToCapacityRatio")
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            yield Fault(here, "must be specified when type is RequestedToCapacityRatio")
        else:
            yield from _shape(ratio.shape, (*here, "shape"))
    elif ratio is not None:
        yield Fault(here, "must be nil when type is not RequestedToCapacityRatio")


def _shape(shape: tuple[UtilizationShapePoint, ...], path: Path) -> Iterator[Fault]:
    if not shape:
        yield Fault(path, "at least one point must be specified")
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            problem = "values must be sorted in increasing order"
            yield Fault((*path, i, "utilization"), problem, shape[i].utilization)
            break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            yield Fault((*path, i, "utilization"), "not in valid range [0, 100]", point.utilization)
        if not 0 <= point.score <= _SHAPE_SCORE_MAX:
            problem = f"not in valid range [0, {_SHAPE_SCORE_MAX}]"
            yield Fault((*path, i, "score"), problem, point.score)


def _constraint(constraint: TopologySpreadConstraint, path: Path) -> Iterator[Fault]:
    if constraint.max_skew <= 0:
        yield Fault((*path, "maxSkew"), "not in valid range (0, inf)", constraint.max_skew)
    if not constraint.topology_key:
        yield Fault((*path, "topologyKey"), "can not be empty")
    elif problem := label_key_problem(constraint.topology_key):
        yield Fault((*path, "topologyKey"), problem, constraint.topology_key)
    action = constraint.when_unsatisfiable
    if not action:
        yield Fault((*path, "whenUnsatisfiable"), "can not be empty")
    elif action not in _WHEN_UNSATISFIABLE:
        yield Fault((*path, "whenUnsatisfiable"), _one_of(_WHEN_UNSATISFIABLE), action)
    if constraint.label_selector is not None:
        problem = "constraint must not define a selector, as they deduced for each pod"
        yield Fault((*path, "labelSelector"), problem)


def _one_of(values: tuple[str, ...]) -> str:
    return "must be one of " + ", ".join(values)
