"""PodTopologySpread: soft constraints prefer emptier domains; what pods get by default."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from mooring.objects.meta import ObjectMeta
from mooring.objects.node import Node
from mooring.objects.pod import Pod
from mooring.plugins.pod_topology_spread.plugin import REASON, REASON_NO_KEY, PodTopologySpread
from mooring.plugins.pod_topology_spread.scoring import INVALID_SCORE, normalized, rounded
from mooring.testing import Harness, make_node
from tests.plugins.spread_clusters import (
    HOSTNAME,
    ZONE,
    listed,
    service,
    soft,
    spread,
    web,
    with_services,
    zones,
)

# ---------------------------------------------------------------- score


def scored(
    objects: list[Node | Pod], pod: Pod, plugin: PodTopologySpread | None = None
) -> tuple[dict[str, int] | None, dict[str, int] | None]:
    """Returns raw and normalized scores."""
    harness = Harness(objects, [plugin or PodTopologySpread()])
    return harness.raw_scores(pod), harness.scores(pod)


def test_emptier_zones_score_higher() -> None:
    raw, scores = scored(zones(a=0, b=1, c=4), web("new", soft()))

    weight = math.log(3 + 2)
    assert raw == {"a": 0, "b": round(weight), "c": round(4 * weight)}
    assert scores == {"a": 100, "b": 100 * (6 - 2) // 6, "c": 0}


def test_each_constraint_weighs_by_its_domains_and_skew() -> None:
    objects = [*zones(a=1, b=0), make_node("a2", zone="a")]

    raw, _ = scored(objects, web("new", soft(maxSkew=3), soft(HOSTNAME, maxSkew=2)))

    by_zone, by_host = math.log(2 + 2), math.log(3 + 2)
    assert raw == {
        "a": round(by_zone + 2 + by_host + 1),
        "b": round(2.0 + 1),
        "a2": round(by_zone + 2 + 1),
    }


def test_a_node_without_a_key_is_last() -> None:
    raw, scores = scored([*zones(a=1, b=0), make_node("nowhere")], web("new", soft()))

    assert raw == {"a": 1, "b": 0, "nowhere": 0}
    assert scores == {"a": 0, "b": 100, "nowhere": 0}


def test_where_there_is_nobody_all_are_best() -> None:
    assert scored(zones(a=0, b=0), web("new", soft()))[1] == {"a": 100, "b": 100}


def test_zones_without_a_node_for_the_pod_do_not_weigh() -> None:
    harness = Harness(zones(a=1, b=0, c=0), [plugin := PodTopologySpread()])
    cycle, view, _ = harness.begin(web("new", soft()))

    raw = harness.raw_scores_in(cycle, view.subset(np.array([True, True, False])), plugin)

    assert raw == {"a": round(math.log(2 + 2)), "b": 0}


def test_a_pod_without_soft_constraints_is_not_scored() -> None:
    for pod in (web("new"), web("new", spread())):
        assert scored(zones(a=1, b=0), pod) == (None, None)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.5, 1), (1.5, 2), (2.5, 3), (-0.5, -1), (-2.5, -3), (0.49999999999999994, 0), (2.4, 2)],
)
def test_halves_are_rounded_away_from_zero(value: float, expected: int) -> None:
    assert rounded(np.array([value, 7.25])).tolist() == [expected, 7]


# ---------------------------------------------------------------- defaults


def test_pods_of_a_service_are_spread_over_hosts_and_zones_by_default() -> None:
    objects = [*zones(a=2, b=0), make_node("nowhere")]
    harness = with_services(Harness(objects, [PodTopologySpread()]), service(app="web"))

    raw = harness.raw_scores(web())

    by_host, by_zone = math.log(3 + 2), math.log(3 + 2)  # "no zone" is a zone of its own
    assert raw == {
        "a": round(2 * by_host + 2 + 2 * by_zone + 4),
        "b": 2 + 4,
        "nowhere": 2,
    }


def test_a_pod_of_no_service_and_no_owner_is_not_spread_by_default() -> None:
    harness = with_services(
        Harness(zones(a=2, b=0), [PodTopologySpread()]), service(app="db"), service("all")
    )

    assert harness.raw_scores(web()) is None


def test_no_zone_and_a_zone_without_a_name_are_one_for_the_system_s_defaults() -> None:
    objects: list[Node | Pod] = [
        make_node("unnamed", zone=""),
        make_node("nowhere"),
        make_node("a", zone="a"),
        web("there", node="nowhere"),
    ]
    harness = with_services(Harness(objects, [PodTopologySpread()]), service(app="web"))

    raw = harness.raw_scores(web())

    by_host, by_zone = math.log(3 + 2), math.log(2 + 2)
    assert raw == {
        "unnamed": round(2 + 1 * by_zone + 4),
        "nowhere": round(1 * by_host + 2),
        "a": 2 + 4,
    }
    harness.cache.put_pod(web("later", node="nowhere"))
    harness.cache.put_pod(web("last", node="unnamed"))
    assert harness.raw_scores(web()) == {
        "unnamed": round(1 * by_host + 2 + 3 * by_zone + 4),
        "nowhere": round(2 * by_host + 2),
        "a": 2 + 4,
    }


def test_a_node_without_a_host_name_has_no_points_for_hosts() -> None:
    bare = replace(make_node("bare"), metadata=ObjectMeta(name="bare"))
    objects = [*zones(a=1), bare, web("there", node="bare")]
    harness = with_services(Harness(objects, [PodTopologySpread()]), service(app="web"))

    raw = harness.raw_scores(web())

    assert raw == {"a": round(math.log(2 + 2) + 2 + math.log(2 + 2) + 4), "bare": 0}


def test_listed_defaults_may_be_hard_and_need_every_key() -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
    objects = [*zones(a=1, b=0), make_node("nowhere")]
    harness = with_services(Harness(objects, [listed(constraint)]), service(app="web"))

    assert harness.reasons(web()) == {"a": (REASON,), "b": (), "nowhere": (REASON_NO_KEY,)}


def test_listed_soft_defaults_leave_nodes_without_a_key_last() -> None:
    constraint = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "ScheduleAnyway"}
    objects = [*zones(a=1, b=0), make_node("nowhere")]
    harness = with_services(Harness(objects, [listed(constraint)]), service(app="web"))

    assert harness.scores(web()) == {"a": 0, "b": 100, "nowhere": 0}


def test_own_constraints_of_either_kind_replace_the_defaults() -> None:
    harness = with_services(Harness(zones(a=2, b=0), [PodTopologySpread()]), service(app="web"))

    assert harness.raw_scores(web("new", spread())) is None


def test_the_kinds_it_needs_are_those_that_tell_of_defaults() -> None:
    assert "Service" in PodTopologySpread().needs
    assert listed().needs == ()


@pytest.mark.parametrize(
    ("scores", "scored", "expected"),
    [
        ([0, 0], [0, 0], [100, 100]),
        ([10, 20, 0], [10, 20, 0], [50, 0, 100]),
        ([10, 20], [10, 20], [100, 50]),
        # A node without a key, which is not scored, has 0.
        ([10, INVALID_SCORE, 20], [10, 20], [100, 0, 50]),
        ([INVALID_SCORE], [], [0]),
        ([], [], []),
        ([7, 3], [7, 3], [42, 100]),
        # Below zero kube-scheduler divides toward zero: (3 - 4 - 3) x 100 / 3 = -133.3.
        ([3, -4], [3, -4], [-133, 100]),
        ([-4, -5], [-4, -5], [100, 100]),
    ],
)
def test_scores_are_reversed_between_the_lowest_and_the_highest(
    scores: list[int], scored: list[int], expected: list[int]
) -> None:
    result = normalized(np.array(scores, dtype=np.int64), np.array(scored, dtype=np.int64))

    assert result.tolist() == expected
