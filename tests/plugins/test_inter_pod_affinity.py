"""InterPodAffinity: what it refuses, in which words, and what it prefers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from mooring.config.types import InterPodAffinityArgs
from mooring.framework import Code
from mooring.framework.runtime.nominated import filter_hypothetical
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins.inter_pod_affinity.plugin import InterPodAffinity
from mooring.state import PodInfo
from mooring.testing import Harness, make_node
from tests.plugins.affinity_clusters import (
    DELETED,
    HOSTNAME,
    avoids,
    near,
    wants,
    web,
    with_namespaces,
    zones,
)

NOT_NEAR = "node(s) didn't match pod affinity rules"
TOO_NEAR = "node(s) didn't match pod anti-affinity rules"
UNWANTED = "node(s) didn't satisfy existing pods anti-affinity rules"
DB: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "db"}}}


def harness(
    objects: Sequence[Node | Pod],
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
    **args: Any,
) -> Harness:
    plugin = InterPodAffinity(InterPodAffinityArgs(**args))
    return with_namespaces(Harness(objects, [plugin]), namespaces or {})


def refused(
    objects: Sequence[Node | Pod],
    pod: Pod,
    namespaces: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, str]:
    """Returns node -> its reason, of the nodes that are refused."""
    found = harness(objects, namespaces).statuses(pod)
    return {name: status.message for name, status in found.items() if status is not None}


# ---------------------------------------------------------------- affinity


def test_a_pod_goes_where_the_pods_are_that_it_wants_to_be_near() -> None:
    objects = [*zones(a=1, b=0), make_node("a2", zone="a"), make_node("nowhere")]
    pod = web("new", wants(near()), labels={"app": "other"})

    assert refused(objects, pod) == {"b": NOT_NEAR, "nowhere": NOT_NEAR}


def test_one_pod_must_be_meant_by_all_terms_at_once() -> None:
    tier = near(labelSelector={"matchLabels": {"tier": "1"}})
    pod = web("new", wants(near(), tier), labels={})
    apart = [*zones(a=1), web("tier", labels={"tier": "1"}, node="a")]
    together = [*zones(a=0), web("both", labels={"app": "web", "tier": "1"}, node="a")]

    assert refused(apart, pod) == {"a": NOT_NEAR}
    assert refused(together, pod) == {}


def test_every_topology_key_must_be_met_though_not_by_the_same_pod() -> None:
    nodes: list[Node | Pod] = [
        make_node("here", zone="a", labels={"rack": "1"}),
        make_node("same-zone", zone="a", labels={"rack": "2"}),
        make_node("same-rack", zone="b", labels={"rack": "1"}),
    ]
    pod = web("new", wants(near(), near("rack")), labels={})

    assert set(refused([*nodes, web("one", node="here")], pod)) == {"same-zone", "same-rack"}
    two = [*nodes, web("one", node="same-zone"), web("two", node="same-rack")]
    assert refused(two, pod) == {}


def test_the_first_pod_of_a_series_may_start_anywhere_that_has_the_keys() -> None:
    objects = [*zones(a=0, b=0), make_node("nowhere")]

    assert refused(objects, web("new", wants(near()))) == {"nowhere": NOT_NEAR}
    stranger = web("new", wants(near()), labels={"app": "other"})
    assert set(refused(objects, stranger)) == {"a", "b", "nowhere"}


def test_a_pod_that_is_wanted_but_near_nobody_does_not_stop_the_first_one() -> None:
    objects = [*zones(a=0), make_node("nowhere"), web("one", node="nowhere")]
    gone = [*zones(a=0), web("one", node="not a node")]

    assert refused(objects, web("new", wants(near()))) == {"nowhere": NOT_NEAR}
    assert refused(gone, web("new", wants(near()))) == {}


def test_a_pod_on_a_node_that_comes_or_went_is_near_nobody() -> None:
    there = harness(zones(a=0, b=0))
    first = web("new", wants(near()))
    assert set(there.reasons(first).values()) == {()}

    there.cache.put_pod(web("early", node="not yet"))
    assert set(there.reasons(first).values()) == {()}
    there.cache.put_pod(web("late", node="b"))
    assert there.reasons(first) == {"a": (NOT_NEAR,), "b": ()}
    there.cache.remove_node("b")
    assert there.reasons(first) == {"a": ()}
    there.cache.put_node(make_node("not yet", zone="c"))
    assert there.reasons(first) == {"a": (NOT_NEAR,), "not yet": ()}


def test_pods_that_are_being_deleted_count() -> None:
    dying = web("dying", node="a", metadata={"deletionTimestamp": DELETED})
    objects = [*zones(a=0, b=0), dying]

    assert set(refused(objects, web("new", wants(near()), labels={}))) == {"b"}
    assert set(refused(objects, web("new", avoids(near())))) == {"a"}


def test_affinity_cannot_be_helped_by_eviction_and_anti_affinity_can() -> None:
    pod = web("new", {**wants(near(**DB)), **avoids(near())})
    db = web("db", labels={"app": "db"}, node="a")
    found = harness([*zones(a=1, b=0), db]).statuses(pod)

    assert {name: status.code for name, status in found.items() if status is not None} == {
        "a": Code.UNSCHEDULABLE,
        "b": Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    }


# ---------------------------------------------------------------- anti-affinity


def test_a_pod_keeps_away_from_the_pods_that_any_of_its_terms_means() -> None:
    objects = [*zones(a=1, b=0, c=0), web("db", labels={"app": "db"}, node="c"), make_node("x")]

    assert refused(objects, web("new", avoids(near(), near(**DB)))) == {
        "a": TOO_NEAR,
        "c": TOO_NEAR,
    }


def test_pods_on_nodes_keep_others_away_too() -> None:
    objects = [*zones(a=0, b=0), web("shy", avoids(near()), labels={}, node="a"), make_node("x")]

    assert refused(objects, web("new")) == {"a": UNWANTED}
    assert refused(objects, web("new", labels={"app": "db"})) == {}


def test_the_pods_own_anti_affinity_is_reported_before_that_of_others() -> None:
    objects = [*zones(a=0, b=0), web("shy", avoids(near()), node="a")]

    assert refused(objects, web("new", avoids(near()))) == {"a": TOO_NEAR}
    both = {**avoids(near()), **wants(near(**DB))}
    assert refused(objects, web("new", both)) == {"a": NOT_NEAR, "b": NOT_NEAR}


def test_a_topology_key_that_no_node_has_keeps_nobody_away() -> None:
    objects = zones(a=1)

    assert refused(objects, web("new", avoids(near("rack")))) == {}
    assert refused(objects, web("new", wants(near("rack")))) == {"a": NOT_NEAR}
    assert refused(objects, web("new", wants(near("")))) == {"a": NOT_NEAR}


# ---------------------------------------------------------------- namespaces

TEAMS = {"red": {"team": "a"}, "blue": {"team": "b"}, "default": {}}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({}, {"default"}),
        ({"namespaces": ["red"]}, {"red"}),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, {"red"}),
        ({"namespaces": ["blue"], "namespaceSelector": {"matchLabels": {"team": "a"}}}, None),
        ({"namespaceSelector": {}}, {"red", "blue", "default", "unknown"}),
        ({"namespaceSelector": {"matchLabels": {"team": "c"}}}, set()),
    ],
    ids=["own", "listed", "selected", "both", "all", "none"],
)
def test_pods_are_meant_by_their_namespaces(written: dict[str, Any], expected: Any) -> None:
    expected = {"red", "blue"} if expected is None else expected
    objects: list[Node | Pod] = []
    for name in ("red", "blue", "default", "unknown"):
        objects += [make_node(name, zone=name), web(name, namespace=name, node=name)]
    pod = web("new", avoids(near(**written)))

    assert set(refused(objects, pod, TEAMS)) == expected


def test_a_selector_that_an_unlabeled_namespace_would_match_means_all_as_upstream() -> None:
    term = near(
        namespaceSelector={
            "matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]
        }
    )
    objects = [*zones(a=0, b=0), web("red", namespace="red", node="a")]

    # Of the new pod it means every namespace; of a pod on a node only those that it selects.
    assert set(refused(objects, web("new", avoids(term)), TEAMS)) == {"a"}
    shy = [*zones(a=0), web("shy", avoids(term), node="a")]
    assert refused(shy, web("new", namespace="red"), TEAMS) == {}
    assert set(refused(shy, web("new", namespace="blue"), TEAMS)) == {"a"}


def test_a_namespace_that_changes_its_labels_is_meant_or_no_more() -> None:
    term = near(namespaceSelector={"matchLabels": {"team": "a"}})
    there = harness([*zones(a=0), web("blue", namespace="blue", node="a")], TEAMS)
    pod = web("new", avoids(term))
    assert there.reasons(pod) == {"a": ()}

    with_namespaces(there, {"blue": {"team": "a"}})
    assert there.reasons(pod) == {"a": (TOO_NEAR,)}
    there.cache.remove_object("Namespace", "blue")
    assert there.reasons(pod) == {"a": ()}


# ---------------------------------------------------------------- skipping, errors, deltas


def skips(objects: Sequence[Node | Pod], pod: Pod) -> bool:
    return "InterPodAffinity" in harness(objects).open(pod)[0].skipped


def test_a_pod_without_required_terms_that_nobody_keeps_away_is_not_filtered() -> None:
    shy = web("shy", avoids(near()), labels={}, node="a")

    assert skips(zones(a=1), web("new", wants(near(), preferred=1)))
    assert skips([*zones(a=0), shy], web("new", labels={"app": "db"}))
    assert skips([*zones(a=0), make_node("x"), web("y", avoids(near()), node="x")], web("new"))
    assert not skips([*zones(a=0), shy], web("new"))
    assert not skips(zones(a=1), web("new", avoids(near(**DB))))


def test_a_selector_that_cannot_be_compiled_refuses_the_pod_for_good() -> None:
    wrong = near(labelSelector={"matchExpressions": [{"key": "app", "operator": "Near"}]})
    status = harness(zones(a=1)).begin(web("new", wants(wrong, preferred=1))).refusal

    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message.startswith("parsing pod: preferredAffinityTerms: ")
    two = harness(zones(a=1)).begin(web("new", {**wants(wrong), **avoids(wrong)})).refusal
    assert two is not None
    assert two.message.startswith("parsing pod: [requiredAffinityTerms: ")


def test_a_faulty_pod_on_a_node_counts_with_the_terms_that_it_has() -> None:
    wrong = near(labelSelector={"matchExpressions": [{"key": "app", "operator": "Near"}]})
    objects = [*zones(a=0), web("odd", {**wants(wrong), **avoids(near())}, node="a")]

    assert refused(objects, web("new")) == {"a": UNWANTED}


def test_where_the_last_wanted_pod_goes_the_new_one_may_be_the_first() -> None:
    there = harness(zones(a=1, b=0))
    cycle, view = there.open(web("new", wants(near())))
    victim = next(iter(there.cache.pods)).info
    in_world = view.without([(victim,) if name == "a" else () for name in view.names])

    ((_, statuses),) = filter_hypothetical(there.framework, cycle, in_world)

    assert dict(zip(view.names, statuses.codes.tolist(), strict=True)) == {"a": 0, "b": 1}


def test_a_nominated_pod_keeps_others_from_its_node_by_its_own_terms() -> None:
    there = harness([*zones(a=0, b=0), web("x", avoids(near("rack")), node="b")])
    cycle, view = there.open(web("new", avoids(near(**DB))))
    shy = PodInfo(web("shy", avoids(near(HOSTNAME)), labels={}))

    ((_, statuses),) = filter_hypothetical(there.framework, cycle, view.plus([(shy,), ()]))

    assert statuses.codes.astype(bool).tolist() == [True, False]
    assert statuses.table[int(statuses.codes[0]) - 1].message == UNWANTED


# ---------------------------------------------------------------- scores


@pytest.mark.parametrize(
    ("affinity", "raw"),
    [
        (wants(near(), preferred=10), {"a": 20, "b": 10, "c": 0}),
        (avoids(near(), preferred=10), {"a": -20, "b": -10, "c": 0}),
        (
            {**wants(near(), preferred=3), **avoids(near(), preferred=1)},
            {"a": 4, "b": 2, "c": 0},
        ),
    ],
    ids=["for", "against", "both"],
)
def test_preferences_count_for_each_pod_that_they_mean(
    affinity: dict[str, Any], raw: dict[str, int]
) -> None:
    assert harness(zones(a=2, b=1, c=0)).raw_scores(web("new", affinity)) == raw


def test_terms_of_pods_on_nodes_count_too() -> None:
    objects = [
        *zones(a=0, b=0, c=0, d=0),
        web("must", wants(near()), labels={}, node="a"),
        web("likes", wants(near(), preferred=5), labels={}, node="b"),
        web("dislikes", avoids(near(), preferred=7), labels={}, node="c"),
        web("keeps-away", avoids(near()), labels={}, node="d"),
    ]

    raw = harness(objects, hard_pod_affinity_weight=30).raw_scores(web("new"))
    assert raw == {"a": 30, "b": 5, "c": -7, "d": 0}
    by_default = harness(objects).raw_scores(web("new"))
    assert by_default == {"a": 1, "b": 5, "c": -7, "d": 0}
    soft_alone = harness(objects, hard_pod_affinity_weight=0).raw_scores(web("new"))
    assert soft_alone == {"a": 0, "b": 5, "c": -7, "d": 0}


def test_others_preferences_may_be_ignored_for_pods_without_their_own() -> None:
    objects = [*zones(a=1, b=0), web("likes", wants(near(), preferred=5), labels={}, node="b")]
    ignoring = harness(objects, ignore_preferred_terms_of_existing_pods=True)

    assert ignoring.raw_scores(web("new")) is None
    own = web("new", wants(near(), preferred=1))
    assert ignoring.raw_scores(own) == {"a": 1, "b": 5}


def test_a_pod_of_which_no_term_says_anything_is_not_scored() -> None:
    assert harness(zones(a=1)).raw_scores(web("new")) is None
    assert harness(zones(a=0)).raw_scores(web("new", wants(near(), preferred=1))) is None
    nowhere: list[Node | Pod] = [make_node("x"), web("one", node="x")]
    assert harness(nowhere).raw_scores(web("new", wants(near(), preferred=1))) is None


def test_terms_that_cancel_out_are_scored_all_the_same() -> None:
    pod = web("new", {**wants(near(), preferred=4), **avoids(near(), preferred=4)})

    assert harness(zones(a=1, b=0)).raw_scores(pod) == {"a": 0, "b": 0}
    assert harness(zones(a=1, b=0)).scores(pod) == {"a": 0, "b": 0}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ([0, 5, 10], [0, 50, 100]),
        ([-7, 0, 2], [0, 77, 100]),
        ([1, 2, 30], [0, 3, 100]),
        ([4, 4], [0, 0]),
        ([], []),
        ([-(10**12), 10**12], [0, 100]),
    ],
)
def test_scores_go_from_the_lowest_to_the_highest(raw: list[int], expected: list[int]) -> None:
    there = harness(zones(a=1))
    cycle, view = there.open(web())

    found = there.plugins[0].normalize(cycle, np.array(raw, dtype=np.int64), view)

    assert found.tolist() == expected


# ---------------------------------------------------------------- odd specs


def test_a_thousand_terms_and_topology_keys_are_only_slow() -> None:
    terms = [near(f"key-{number % 500}") for number in range(1_000)]
    terms += [near(HOSTNAME, labelSelector={"matchLabels": {"app": f"a{n}"}}) for n in range(100)]
    objects = [
        *zones(a=1, b=0),
        make_node("c", labels={"key-7": "x"}),
        web("one", node="c"),
        web("two", labels={"app": "a77"}, node="b"),
    ]
    pod = web("new", {**avoids(*terms)})

    assert refused(objects, pod) == {"c": TOO_NEAR, "b": TOO_NEAR}
    soft = web("new", wants(*terms, preferred=2))
    assert harness(objects).raw_scores(soft) == {"a": 0, "b": 2, "c": 4}


def test_a_term_whose_selector_is_missing_means_nobody() -> None:
    nobody = {"topologyKey": HOSTNAME}

    assert refused(zones(a=1), web("new", avoids(nobody))) == {}
    assert refused(zones(a=1), web("new", wants(nobody))) == {"a": NOT_NEAR}
