"""Validation of plugin arguments: one table."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.config import strict
from mooring.config.field_errors import FieldError
from mooring.config.plugin_defaults import ARGS_TYPES
from mooring.config.validation.plugin_args import check_args

SHAPE = {"utilization": 50, "score": 5}
RANGE = "not in valid range [0, 100]"
FIT, SPREAD, AFFINITY = "NodeResourcesFit", "PodTopologySpread", "NodeAffinity"
CONSTRAINT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def faults_of(plugin: str, args: dict[str, Any]) -> list[FieldError]:
    errors: list[FieldError] = []
    plain = strict.checked(args, ARGS_TYPES[plugin], (), errors)
    assert errors == []
    return list(check_args(strict.build(plain, ARGS_TYPES[plugin]), ()))


def told(plugin: str, args: dict[str, Any]) -> list[tuple[str, str]]:
    """Returns each fault as the last name of its path, and its text."""
    return [
        (next(str(s) for s in reversed(error.path) if isinstance(s, str)), error.problem)
        for error in faults_of(plugin, args)
    ]


def ratio(*shape: dict[str, int], kind: str = "RequestedToCapacityRatio") -> dict[str, Any]:
    strategy = {"type": kind, "requestedToCapacityRatio": {"shape": list(shape)}}
    return {"scoringStrategy": strategy}


def resources(*pairs: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "weight": weight} for name, weight in pairs]


def least(*pairs: tuple[str, int]) -> dict[str, Any]:
    return {"scoringStrategy": {"type": "LeastAllocated", "resources": resources(*pairs)}}


def constraints(*changes: dict[str, Any], kind: str = "List") -> dict[str, Any]:
    return {
        "defaultingType": kind,
        "defaultConstraints": [{**CONSTRAINT, **change} for change in changes],
    }


def term(**condition: Any) -> dict[str, Any]:
    return {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [condition]}]}}}


@pytest.mark.parametrize("plugin", [name for name in ARGS_TYPES if name != SPREAD])
def test_defaults_are_good(plugin: str) -> None:
    assert list(check_args(ARGS_TYPES[plugin](), ())) == []


def test_other_plugins_may_have_any_arguments() -> None:
    assert list(check_args({"anything": [1]}, ())) == []


GOOD: list[tuple[str, dict[str, Any]]] = [
    ("DefaultPreemption", {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}),
    ("DynamicResources", {"filterTimeout": "0s", "bindingTimeout": "1s"}),
    ("InterPodAffinity", {"hardPodAffinityWeight": 100}),
    (AFFINITY, term(key="a", operator="Gt", values=["5"])),
    (AFFINITY, {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [{}]}}}),
    (FIT, {"ignoredResources": ["example.com/a"], "ignoredResourceGroups": ["example.com"]}),
    (FIT, ratio({"utilization": 0, "score": 10}, {"utilization": 100, "score": 0})),
    (FIT, least(("cpu", 1), ("memory", 100), ("cpu", 3))),
    ("NodeResourcesBalancedAllocation", {"resources": resources(("cpu", 1), ("a.b/c", 1))}),
    (SPREAD, constraints({}, {"whenUnsatisfiable": "ScheduleAnyway"}, {"topologyKey": "rack"})),
    (SPREAD, {"defaultingType": "List"}),
    ("VolumeBinding", {"bindTimeoutSeconds": 0}),
]

BAD: list[tuple[str, dict[str, Any], list[tuple[str, str]]]] = [
    (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 101, "minCandidateNodesAbsolute": -1},
        [
            ("minCandidateNodesPercentage", RANGE),
            ("minCandidateNodesAbsolute", "not in valid range [0, inf)"),
        ],
    ),
    (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        [
            (
                "minCandidateNodesPercentage",
                "cannot be zero at the same time as minCandidateNodesAbsolute",
            ),
            (
                "minCandidateNodesAbsolute",
                "cannot be zero at the same time as minCandidateNodesPercentage",
            ),
        ],
    ),
    (
        "DynamicResources",
        {"filterTimeout": "-1s", "bindingTimeout": "999ms"},
        [
            ("filterTimeout", "must be zero or positive"),
            ("bindingTimeout", "must be at least 1 second"),
        ],
    ),
    ("InterPodAffinity", {"hardPodAffinityWeight": 101}, [("hardPodAffinityWeight", RANGE)]),
    ("InterPodAffinity", {"hardPodAffinityWeight": -1}, [("hardPodAffinityWeight", RANGE)]),
    (
        FIT,
        {"ignoredResourceGroups": ["a/b"]},
        [("ignoredResourceGroups", "resource group name can't contain '/'")],
    ),
    (
        FIT,
        {"scoringStrategy": {"type": "Some"}},
        [
            (
                "type",
                "must be one of LeastAllocated, MostAllocated, RequestedToCapacityRatio",
            )
        ],
    ),
    (
        FIT,
        least(("cpu", 101), ("memory", -1)),
        [
            ("weight", "resource weight of cpu not in valid range (0, 100]"),
            ("weight", "resource weight of memory not in valid range (0, 100]"),
        ],
    ),
    (FIT, ratio(), [("shape", "at least one point must be specified")]),
    (
        FIT,
        ratio(SHAPE, SHAPE, SHAPE),
        [("utilization", "values must be sorted in increasing order")],
    ),
    (
        FIT,
        ratio({"utilization": 101, "score": 11}),
        [("utilization", RANGE), ("score", "not in valid range [0, 10]")],
    ),
    (
        FIT,
        ratio(SHAPE, kind="MostAllocated"),
        [
            (
                "requestedToCapacityRatio",
                "must be nil when type is not RequestedToCapacityRatio",
            )
        ],
    ),
    (
        FIT,
        {"scoringStrategy": {"type": "RequestedToCapacityRatio"}},
        [
            (
                "requestedToCapacityRatio",
                "must be specified when type is RequestedToCapacityRatio",
            )
        ],
    ),
    (
        "NodeResourcesBalancedAllocation",
        {"resources": resources(("cpu", 2), ("cpu", 1))},
        [("weight", "must be 1"), ("name", "Duplicate value")],
    ),
    (
        SPREAD,
        constraints({}, kind="System"),
        [("defaultingType", "when .defaultConstraints are not empty")],
    ),
    (SPREAD, {"defaultingType": "Some"}, [("defaultingType", "must be one of System, List")]),
    (
        SPREAD,
        constraints({"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": ""}),
        [
            ("maxSkew", "not in valid range (0, inf)"),
            ("topologyKey", "can not be empty"),
            ("whenUnsatisfiable", "can not be empty"),
        ],
    ),
    (
        SPREAD,
        constraints({"whenUnsatisfiable": "Never", "labelSelector": {}}),
        [
            ("whenUnsatisfiable", "must be one of DoNotSchedule, ScheduleAnyway"),
            (
                "labelSelector",
                "constraint must not define a selector, as they deduced for each pod",
            ),
        ],
    ),
    (SPREAD, constraints({}, {}), [("defaultConstraints", "Duplicate value")]),
    (
        "VolumeBinding",
        {"bindTimeoutSeconds": -1},
        [
            (
                "bindTimeoutSeconds",
                "invalid BindTimeoutSeconds, should not be a negative value",
            )
        ],
    ),
    (
        "VolumeBinding",
        {"shape": []},
        [
            (
                "shape",
                "unexpected field `shape`, remove it or turn on the feature gate "
                "StorageCapacityScoring",
            )
        ],
    ),
]


@pytest.mark.parametrize(("plugin", "args"), GOOD)
def test_good_arguments(plugin: str, args: dict[str, Any]) -> None:
    assert faults_of(plugin, args) == []


@pytest.mark.parametrize(("plugin", "args", "expected"), BAD)
def test_bad_arguments(plugin: str, args: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert told(plugin, args) == expected


@pytest.mark.parametrize(
    ("condition", "place"),
    [
        ({"key": "a", "operator": "Like", "values": ["x"]}, ("operator",)),
        ({"key": "a", "operator": "In"}, ("values",)),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, ("values",)),
        ({"key": "a", "operator": "Lt", "values": ["x"]}, ("values", 0)),
        ({"key": "a", "operator": "NotIn", "values": ["x", "-"]}, ("values", 1, "[a]")),
        ({"key": "a b", "operator": "Exists"}, ("key",)),
    ],
)
def test_added_affinity_that_cannot_be_compiled(
    condition: dict[str, Any], place: tuple[str | int, ...]
) -> None:
    (error,) = faults_of(AFFINITY, term(**condition))
    expected = ("addedAffinity", REQUIRED, "nodeSelectorTerms", 0, "matchExpressions", 0)
    assert error.path == (*expected, *place)


@pytest.mark.parametrize(("weight", "count"), [(1, 1), (0, 0)])
def test_preferences_without_weight_are_not_looked_at(weight: int, count: int) -> None:
    preference = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    preferred = [{"weight": weight, "preference": preference}]
    args = {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    assert len(faults_of(AFFINITY, args)) == count
