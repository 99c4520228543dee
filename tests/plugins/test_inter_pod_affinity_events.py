"""InterPodAffinity: which events wake a pod, and which pods may be asked about together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mooring.cluster_event import ActionType, QueueingHint
from mooring.objects.pod import Pod
from mooring.plugins.inter_pod_affinity.plugin import InterPodAffinity
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import make_node
from tests.plugins.affinity_clusters import ZONE, avoids, namespace, near, wants, web
from tests.plugins.reference_plugins import hints

POD = ("Pod", ActionType.ADD | ActionType.DELETE)
POD_LABELS = ("Pod", ActionType.UPDATE_POD_LABEL)
NODE = ("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL)

TIER = near(labelSelector={"matchLabels": {"tier": "1"}})
STRANGER = {"app": "other"}


def wakes(event: Any, pod: Pod, old: Any, new: Any, cache: Cache | None = None) -> bool:
    handle: Any = SimpleNamespace(snapshot=cache.snapshot()) if cache is not None else None
    hint = hints(InterPodAffinity(handle=handle))[event]
    return hint(PodInfo(pod), old, new) is QueueingHint.QUEUE


def test_it_hears_of_pods_and_nodes_and_needs_namespaces() -> None:
    assert list(hints(InterPodAffinity())) == [POD, POD_LABELS, NODE]
    pure = {each.event.action for each in InterPodAffinity().events() if each.pure}
    assert pure == {POD[1], NODE[1]}
    assert InterPodAffinity().needs == ("Namespace",)


# ---------------------------------------------------------------- pods

LONELY = web("new", wants(near()), labels=STRANGER)
SHY = web("new", avoids(near()), labels=STRANGER)


@pytest.mark.parametrize(
    ("waiting", "other", "comes", "goes"),
    [
        (LONELY, web("other", node="a"), True, False),
        (LONELY, web("other", nominated_node="a"), True, False),
        (LONELY, web("other"), False, False),
        (LONELY, web("other", node="a", labels=STRANGER), False, False),
        (LONELY, web("other", node="a", namespace="red"), False, False),
        (SHY, web("other", node="a"), False, True),
        (SHY, web("other", nominated_node="a"), False, True),
        (SHY, web("other", node="a", labels=STRANGER), False, False),
        (web(), web("other", avoids(near()), node="a"), False, True),
        (web(labels=STRANGER), web("other", avoids(near()), node="a"), False, False),
    ],
)
def test_a_pod_comes_that_is_wanted_or_one_goes_that_was_in_the_way(
    waiting: Pod, other: Pod, comes: bool, goes: bool
) -> None:
    assert wakes(POD, waiting, None, other) is comes
    assert wakes(POD, waiting, other, None) is goes


@pytest.mark.parametrize(
    ("waiting", "before", "after", "helps"),
    [
        (LONELY, STRANGER, {"app": "web"}, True),
        (LONELY, {"app": "web"}, {"app": "web", "tier": "1"}, False),
        (LONELY, {"app": "web"}, STRANGER, False),
        (SHY, {"app": "web"}, STRANGER, True),
        (SHY, STRANGER, {"app": "web"}, False),
    ],
)
def test_labels_help_if_a_pod_is_wanted_now_or_is_in_the_way_no_more(
    waiting: Pod, before: dict[str, str], after: dict[str, str], helps: bool
) -> None:
    old, new = web("other", node="a", labels=before), web("other", node="a", labels=after)

    assert wakes(POD_LABELS, waiting, old, new) is helps
    pending = web("other", labels=before), web("other", labels=after)
    assert not wakes(POD_LABELS, waiting, *pending)


def test_its_own_labels_always_help() -> None:
    assert wakes(POD_LABELS, web("new"), web("new", labels=STRANGER), web("new"))


def test_all_affinity_terms_must_mean_a_pod_and_one_anti_affinity_term_is_enough() -> None:
    both = {"app": "web", "tier": "1"}
    lonely = web("new", wants(near(), TIER), labels=STRANGER)
    shy = web("new", avoids(near(), TIER), labels=STRANGER)

    assert not wakes(POD, lonely, None, web("other", node="a"))
    assert wakes(POD, lonely, None, web("other", node="a", labels=both))
    # Upstream would sleep through this one.
    assert wakes(POD, shy, web("other", node="a"), None)


def test_when_the_last_wanted_pod_goes_a_pod_may_be_the_first_of_its_series() -> None:
    other = web("other", node="a")

    assert wakes(POD, web("new", wants(near())), other, None)
    assert not wakes(POD, LONELY, other, None)


def test_when_the_wanted_pods_leave_every_domain_a_pod_may_be_the_first_of_its_series() -> None:
    first = web("new", wants(near(ZONE)))
    in_zone, nowhere = make_node("a", labels={ZONE: "z1"}), make_node("a")
    assert wakes(NODE, first, in_zone, nowhere)
    assert not wakes(NODE, web("new", wants(near(ZONE)), labels=STRANGER), in_zone, nowhere)
    assert not wakes(NODE, first, nowhere, nowhere)


def test_namespaces_are_selected_as_they_are_now() -> None:
    cache = Cache()
    cache.put_object("Namespace", namespace("red", {"team": "a"}))
    term = near(namespaceSelector={"matchLabels": {"team": "a"}})
    waiting = web("new", wants(term), labels=STRANGER)

    assert wakes(POD, waiting, None, web("other", node="a", namespace="red"), cache)
    assert not wakes(POD, waiting, None, web("other", node="a", namespace="blue"), cache)
    shy_one = web("other", avoids(term), node="a", namespace="blue")
    assert wakes(POD, web("new", namespace="red"), shy_one, None, cache)
    assert not wakes(POD, web("new", namespace="green"), shy_one, None, cache)


def test_a_pod_that_cannot_be_read_is_tried_again_whatever_happens() -> None:
    wrong = near(labelSelector={"matchExpressions": [{"key": "app", "operator": "Near"}]})
    waiting = web("new", wants(wrong))

    assert wakes(POD, waiting, None, web("other", node="a"))
    assert wakes(NODE, waiting, A, A)
    assert InterPodAffinity().sign(PodInfo(waiting)) is None


# ---------------------------------------------------------------- nodes

A, B, NOWHERE = make_node("n", zone="a"), make_node("n", zone="b"), make_node("n")
MORE = make_node("n", zone="a", labels={"rack": "1"})


@pytest.mark.parametrize(
    ("old", "new", "lonely", "shy"),
    [
        (None, A, True, True),
        (None, NOWHERE, False, True),
        (A, B, True, True),
        (NOWHERE, A, True, False),
        (A, NOWHERE, False, True),
        (A, MORE, False, False),
    ],
)
def test_a_node_helps_if_it_gets_near_or_away(old: Any, new: Any, lonely: bool, shy: bool) -> None:
    assert wakes(NODE, LONELY, old, new) is lonely
    assert wakes(NODE, SHY, old, new) is shy


def test_a_pod_without_terms_is_helped_by_a_node_out_of_reach_of_those_who_keep_it_away() -> None:
    cache = Cache()
    cache.put_pod(web("other", avoids(near(ZONE)), node="n"))

    assert wakes(NODE, web(), None, A, cache)
    assert wakes(NODE, web(), A, B, cache)
    assert wakes(NODE, web(), A, NOWHERE, cache)
    assert not wakes(NODE, web(), NOWHERE, A, cache)
    assert not wakes(NODE, web(), A, MORE, cache)
    assert not wakes(NODE, web(labels=STRANGER), A, B, cache)


# ---------------------------------------------------------------- sharing


def test_pods_of_one_template_are_asked_about_together() -> None:
    sign = InterPodAffinity().sign
    one, two = (PodInfo(web(name, wants(near()))) for name in ("one", "two"))

    assert sign(one) == sign(two)
    assert hash(sign(one)) == hash(sign(two))
    assert sign(one) != sign(PodInfo(web("three", wants(near("rack")))))
    assert sign(one) != sign(PodInfo(web("four", wants(near()), labels=STRANGER)))
    assert sign(one) != sign(PodInfo(web("five", wants(near()), namespace="red")))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a", "a", True),
        ("", "a", False),
        ("a", "", False),
        ("", "", False),
    ],
)
def test_both_versions_of_a_relabeled_pod_must_have_a_node(
    before: str, after: str, expected: bool
) -> None:
    old = web("other", node=before, labels=STRANGER)
    new = web("other", node=after)

    assert wakes(POD_LABELS, LONELY, old, new) is expected
    assert wakes(POD_LABELS, SHY, new, old) is expected
