"""The priorities of a Policy become plugins with their weights."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.config.legacy_policy.names import (
    GONE_PREDICATES,
    GONE_PRIORITIES,
    PREDICATES,
    PRIORITIES,
)
from tests.helpers.policies import (
    LATER_FILTERS,
    MANDATORY,
    args,
    converted,
    notes,
    policy,
    predicates,
    priorities,
    running,
)

SCORES_OF = {
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "ImageLocalityPriority": "ImageLocality",
    "InterPodAffinityPriority": "InterPodAffinity",
    "LeastRequestedPriority": "NodeResourcesFit",
    "MostRequestedPriority": "NodeResourcesFit",
    "NodeAffinityPriority": "NodeAffinity",
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
    "TaintTolerationPriority": "TaintToleration",
}


@pytest.mark.parametrize(("name", "plugin"), SCORES_OF.items())
def test_a_priority_becomes_its_plugin_with_its_weight(name: str, plugin: str) -> None:
    found = running(policy(priorities=priorities(**{name: 7})))
    assert found["score"] == {plugin: 7}
    assert set(found["pre_score"]) <= {plugin}


def test_no_priority_is_forgotten() -> None:
    assert set(PRIORITIES) == set(SCORES_OF)
    assert not set(GONE_PRIORITIES) & set(SCORES_OF)


def test_an_empty_list_of_priorities_scores_nothing() -> None:
    found = running(policy(priorities=[]))
    assert found["score"] == found["pre_score"] == {}


def test_a_missing_list_of_priorities_means_todays_defaults() -> None:
    text = policy(predicates=[])
    assert running(text)["score"]["TaintToleration"] == 3
    assert notes(text)[-1] == (
        "priorities are left out, so the default scores count, with today's weights"
    )


@pytest.mark.parametrize(
    ("weights", "strategy", "weight"),
    [
        ({"LeastRequestedPriority": 3}, None, 3),
        ({"MostRequestedPriority": 3}, {"type": "MostAllocated"}, 3),
        ({"MostRequestedPriority": 3, "LeastRequestedPriority": 1}, {"type": "MostAllocated"}, 2),
        ({"MostRequestedPriority": 1, "LeastRequestedPriority": 5}, None, 4),
        ({"MostRequestedPriority": 2, "LeastRequestedPriority": 2}, None, None),
    ],
)
def test_resources_are_scored_by_the_strategy_of_the_priority(
    weights: dict[str, int], strategy: dict[str, Any] | None, weight: int | None
) -> None:
    text = policy(priorities=priorities(**weights))
    found = args(text, "NodeResourcesFit")
    assert (found["scoringStrategy"] if found else None) == strategy
    assert running(text)["score"].get("NodeResourcesFit") == weight
    assert any("add up to the same" in note for note in notes(text)) == (len(weights) == 2)


def curve(weight: int, **more: Any) -> dict[str, Any]:
    shape = [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 7}]
    argument = {"requestedToCapacityRatioArguments": {"shape": shape, **more}}
    return {"name": "RequestedToCapacityRatioPriority", "weight": weight, "argument": argument}


def test_a_curve_is_scored_by_the_same_curve() -> None:
    resources = [{"name": "example.com/gpu", "weight": 3}, {"name": "cpu"}]
    text = policy(priorities=[curve(4, resources=resources)])
    assert args(text, "NodeResourcesFit") == {
        "scoringStrategy": {
            "type": "RequestedToCapacityRatio",
            "resources": [
                {"name": "example.com/gpu", "weight": 3},
                {"name": "cpu", "weight": 1},
            ],
            "requestedToCapacityRatio": {
                "shape": [{"utilization": 0, "score": 0}, {"utilization": 50, "score": 7}]
            },
        }
    }
    assert running(text)["score"] == {"NodeResourcesFit": 4}


def test_a_curve_without_resources_is_about_cpu_and_memory() -> None:
    (profile,) = converted(policy(priorities=[curve(1)])).profiles
    strategy = profile.args("NodeResourcesFit").scoring_strategy
    assert [(each.name, each.weight) for each in strategy.resources] == [("cpu", 1), ("memory", 1)]


@pytest.mark.parametrize(
    ("weight", "kind"), [(1, "MostAllocated"), (9, "RequestedToCapacityRatio")]
)
def test_of_a_curve_and_another_way_the_heavier_counts(weight: int, kind: str) -> None:
    text = policy(priorities=[*priorities(MostRequestedPriority=5), curve(weight)])
    assert args(text, "NodeResourcesFit")["scoringStrategy"]["type"] == kind
    assert running(text)["score"]["NodeResourcesFit"] == max(5, weight)
    assert any("scores in one way only" in note for note in notes(text))


@pytest.mark.parametrize(
    ("weights", "weight", "kind"),
    [
        ({"EvenPodsSpreadPriority": 2}, 2, "List"),
        ({"SelectorSpreadPriority": 3}, 3, "System"),
        ({"ServiceSpreadingPriority": 3}, 3, "System"),
        ({"SelectorSpreadPriority": 9, "EvenPodsSpreadPriority": 2}, 2, "System"),
    ],
)
def test_spreading_the_pods_of_a_service_is_a_default_constraint(
    weights: dict[str, int], weight: int, kind: str
) -> None:
    text = policy(priorities=priorities(**weights))
    assert running(text)["score"] == {"PodTopologySpread": weight}
    (profile,) = converted(text).profiles
    assert profile.args("PodTopologySpread").defaulting_type == kind
    assert any("are one plugin now" in note for note in notes(text)) == (len(weights) == 2)


def test_of_a_priority_twice_the_last_weight_counts() -> None:
    twice = [*priorities(ImageLocalityPriority=2), *priorities(ImageLocalityPriority=5)]
    assert running(policy(priorities=twice))["score"] == {"ImageLocality": 5}
    assert notes(policy(priorities=twice)) == [
        "line 1: priorities[1]: ImageLocalityPriority for the second time: the last weight, 5, "
        "counts"
    ]


def test_two_names_for_spreading_the_pods_of_a_service_are_one_priority() -> None:
    twice = priorities(SelectorSpreadPriority=2, ServiceSpreadingPriority=5)
    assert running(policy(priorities=twice))["score"] == {"PodTopologySpread": 5}
    (note,) = notes(policy(priorities=twice))
    assert "ServiceSpreadingPriority for the second time: the last weight, 5, counts" in note


@pytest.mark.parametrize(
    ("priority", "said"),
    [
        ({"name": "EqualPriority"}, "EqualPriority is gone: it gave every node the same score"),
        ({"name": "NodePreferAvoidPodsPriority"}, "NodePreferAvoidPodsPriority is gone"),
        ({"name": "ResourceLimitsPriority"}, "ResourceLimitsPriority is gone"),
        (
            {"name": "mine", "argument": {"serviceAntiAffinity": {"label": "zone"}}},
            "serviceAntiAffinity is gone: say it in defaultConstraints of PodTopologySpread",
        ),
        (
            {"name": "mine", "argument": {"labelPreference": {"label": "a", "presence": True}}},
            "labelPreference is gone: say it in addedAffinity of NodeAffinity",
        ),
    ],
)
def test_a_priority_that_is_gone_is_named(priority: dict[str, Any], said: str) -> None:
    text = policy(priorities=[{**priority, "weight": 1}])
    (note,) = notes(text)
    assert note.startswith(f"line 1: priorities[0]: {said}")
    assert running(text)["score"] == {}


@pytest.mark.parametrize(
    ("given_weights", "expected"),
    [
        pytest.param(
            {"LeastRequestedPriority": 1, "ServiceSpreadingPriority": 2},
            {"NodeResourcesFit": 1, "PodTopologySpread": 2},
            id="1.0",
        ),
        pytest.param(
            {
                "EqualPriority": 2,
                "LeastRequestedPriority": 2,
                "BalancedResourceAllocation": 2,
                "SelectorSpreadPriority": 2,
            },
            {"NodeResourcesFit": 2, "NodeResourcesBalancedAllocation": 2, "PodTopologySpread": 2},
            id="1.1",
        ),
        pytest.param(
            {
                "ImageLocalityPriority": 2,
                "LeastRequestedPriority": 7,
                "NodeAffinityPriority": 3,
                "TaintTolerationPriority": 4,
                "InterPodAffinityPriority": 5,
                "NodePreferAvoidPodsPriority": 10000,
            },
            {
                "ImageLocality": 2,
                "InterPodAffinity": 5,
                "NodeAffinity": 3,
                "NodeResourcesFit": 7,
                "TaintToleration": 4,
            },
            id="1.4",
        ),
    ],
)
def test_the_priorities_of_old_releases_become_their_plugins_with_their_weights(
    given_weights: dict[str, int], expected: dict[str, int]
) -> None:
    assert running(policy(priorities=priorities(**given_weights)))["score"] == expected


@given(
    st.none() | st.lists(st.sampled_from(sorted({*PREDICATES, *GONE_PREDICATES}))),
    st.none()
    | st.lists(
        st.tuples(
            st.sampled_from(sorted({*PRIORITIES, *GONE_PRIORITIES})), st.integers(1, 2**31 - 1)
        )
    ),
    st.integers(0, 100),
)
def test_whatever_a_policy_names_the_result_is_good_and_scores_with_its_weights(
    named: list[str] | None, weighted: list[tuple[str, int]] | None, hard_weight: int
) -> None:
    listed = None if weighted is None else [{"name": n, "weight": w} for n, w in weighted]
    fields: dict[str, Any] = {"priorities": listed, "hardPodAffinitySymmetricWeight": hard_weight}
    text = policy(predicates=None if named is None else predicates(*named), **fields)
    found = running(text)
    assert set(found["filter"]) >= MANDATORY | LATER_FILTERS
    if weighted is not None:
        plain = {n: w for n, w in weighted if SCORES_OF.get(n, "").startswith(("Im", "Ta", "In"))}
        for name, weight in plain.items():
            assert found["score"][SCORES_OF[name]] == weight
    assert list(found["queue_sort"]) == ["PrioritySort"]
    assert list(found["bind"]) == ["DefaultBinder"]
    assert "SchedulingGates" in found["pre_enqueue"]
