"""PodTopologySpread: which events wake a pod, and which pods may be asked about together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.cluster_event import ActionType, QueueingHint
from mooring.config.types import PodTopologySpreadArgs
from mooring.objects.pod import Pod
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.state import PodInfo
from mooring.state.cache import Cache
from mooring.testing import Harness, make_node, make_pod
from tests.plugins.reference_plugins import hints
from tests.plugins.spread_clusters import HOSTNAME, ZONE, listed, service, soft, spread, web

COMES_OR_GOES = ActionType.ADD | ActionType.DELETE
POD = ("Pod", COMES_OR_GOES)
POD_CHANGES = ("Pod", ActionType.UPDATE_POD_LABEL | ActionType.UPDATE_POD_TOLERATION)
NODE = ("Node", COMES_OR_GOES | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT)


def wakes(event: Any, pod: Pod, old: Any, new: Any, plugin: Any = None) -> bool:
    hint = hints(plugin or PodTopologySpread())[event]
    return hint(PodInfo(pod), old, new) is QueueingHint.QUEUE


def test_it_hears_of_pods_and_nodes_and_of_nothing_else() -> None:
    assert list(hints(PodTopologySpread())) == [POD, POD_CHANGES, NODE]
    pure = {each.event.action for each in PodTopologySpread().events() if each.pure}
    assert pure == {POD[1], NODE[1]}


@pytest.mark.parametrize(
    ("other", "helps"),
    [
        (web("there", node="a"), True),
        (web("there", nominated_node="a"), True),
        (web("there"), False),
        (web("there", node="a", namespace="other"), False),
        (web("there", node="a", labels={"app": "db"}), False),
    ],
    ids=["placed", "nominated", "pending", "other namespace", "no match"],
)
def test_a_pod_that_counts_comes_or_goes(other: Pod, helps: bool) -> None:
    waiting = web("new", spread())

    assert wakes(POD, waiting, None, other) is helps
    assert wakes(POD, waiting, other, None) is helps


@pytest.mark.parametrize(
    ("before", "after", "helps"),
    [
        ({"app": "web"}, {"app": "db"}, True),
        ({"app": "db"}, {"app": "web"}, True),
        ({"app": "web"}, {"app": "web", "rev": "2"}, False),
        ({"app": "db"}, {"app": "db", "rev": "2"}, False),
    ],
)
def test_labels_help_if_a_pod_counts_now_or_no_more(
    before: dict[str, str], after: dict[str, str], helps: bool
) -> None:
    old, new = web("there", node="a", labels=before), web("there", node="a", labels=after)

    assert wakes(POD_CHANGES, web("new", spread()), old, new) is helps


def test_a_pod_that_is_not_placed_helps_nobody_but_itself() -> None:
    waiting, other = web("new", spread()), web("there")
    relabeled = replace(waiting, metadata=replace(waiting.metadata, labels={"app": "db"}))

    assert wakes(POD_CHANGES, waiting, waiting, relabeled)
    renamed = replace(other, metadata=replace(other.metadata, labels={"app": "db"}))
    assert not wakes(POD_CHANGES, waiting, other, renamed)


@pytest.mark.parametrize(("policy", "helps"), [("Honor", True), ("Ignore", False)])
def test_a_toleration_more_helps_where_taints_are_honored(policy: str, helps: bool) -> None:
    constraint = spread(nodeTaintsPolicy=policy)
    waiting = web("new", constraint)
    tolerant = web("new", constraint, tolerations=["gpu"])

    assert wakes(POD_CHANGES, waiting, waiting, tolerant) is helps
    other = web("there", node="a")
    assert not wakes(POD_CHANGES, waiting, other, web("there", node="a", tolerations=["gpu"]))


A, B = make_node("n", zone="a"), make_node("n", zone="b")
NOWHERE = make_node("n")


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        (None, A, True),
        (None, NOWHERE, False),
        (A, None, True),
        (NOWHERE, None, False),
        (A, B, True),
        (A, NOWHERE, True),
        (NOWHERE, A, True),
        (NOWHERE, make_node("n", labels={"rack": "1"}), False),
        (A, make_node("n", zone="a", labels={"rack": "1"}), False),
        (A, make_node("n", zone="a", taints=["gpu:NoSchedule"]), True),
        (NOWHERE, make_node("n", taints=["gpu:NoSchedule"]), False),
    ],
)
def test_a_node_helps_if_it_has_every_key_or_had_them(old: Any, new: Any, helps: bool) -> None:
    assert wakes(NODE, web("new", spread()), old, new) is helps


def test_all_keys_are_needed() -> None:
    waiting = web("new", spread(), spread("rack"))

    assert not wakes(NODE, waiting, None, A)
    assert wakes(NODE, waiting, None, make_node("n", zone="a", labels={"rack": "1"}))


def test_soft_constraints_never_refuse_so_nothing_wakes_for_them() -> None:
    waiting = web("new", spread(HOSTNAME), spread(action="ScheduleAnyway"))

    assert not wakes(POD, web("new", spread(action="ScheduleAnyway")), None, web("x", node="a"))
    assert not wakes(NODE, waiting, A, B)


def test_listed_defaults_are_asked_for_as_they_are_now() -> None:
    listed = make_pod(spec={"topologySpreadConstraints": [spread()]})
    args = PodTopologySpreadArgs(
        default_constraints=listed.spec.topology_spread_constraints, defaulting_type="List"
    )
    cache = Cache()
    handle: Any = SimpleNamespace(snapshot=cache.snapshot())
    plugin = PodTopologySpread(args, handle)
    other = web("there", node="a")

    assert not wakes(POD, web(), None, other, plugin)
    cache.workloads.put(service(app="web"))
    assert wakes(POD, web(), None, other, plugin)


def test_pods_with_equal_constraints_are_asked_about_together() -> None:
    sign = PodTopologySpread().sign
    one, two = PodInfo(web("one", spread())), PodInfo(web("two", spread(), labels={"app": "db"}))

    assert sign(one) == sign(two)
    assert sign(one) != sign(PodInfo(web("three", spread(maxSkew=2))))
    assert sign(one) != sign(PodInfo(web("four", spread(), namespace="other")))
    by_revision = spread(matchLabelKeys=["rev"])
    revisions = [
        sign(PodInfo(web("five", by_revision, labels={"app": "web", "rev": rev})))
        for rev in ("1", "2", "2")
    ]
    assert revisions[0] != revisions[1] == revisions[2]


def test_a_pod_whose_selector_cannot_be_compiled_is_asked_about_alone() -> None:
    wrong = {"matchExpressions": [{"key": "app", "operator": "Near"}]}

    assert PodTopologySpread().sign(PodInfo(web("new", spread(labelSelector=wrong)))) is None


def test_the_framework_groups_its_pods_though_no_answers_are_shared() -> None:
    harness = Harness([make_node("a", zone=ZONE)], [PodTopologySpread()])
    one, two = PodInfo(web("one", spread())), PodInfo(web("two", spread()))

    grouped = [harness.framework.fragment("PodTopologySpread", pod) for pod in (one, two)]

    assert grouped[0] is not None
    assert grouped[0] == grouped[1]
    cycle, _ = harness.open(one.pod)
    assert harness.framework.cached_results(cycle) == (None, frozenset())
    assert harness.framework.fragment("Nobody", one) is None


@pytest.mark.parametrize(
    ("defaults", "reads_labels"),
    [
        ([], False),
        ([soft()], False),
        ([soft(), soft(HOSTNAME)], False),
        ([spread()], True),
        ([soft(), spread(HOSTNAME)], True),
        ([spread(), soft(HOSTNAME)], True),
    ],
)
def test_with_hard_constraints_by_default_labels_and_owners_are_signed(
    defaults: list[dict[str, Any]], reads_labels: bool
) -> None:
    for constraint in defaults:
        constraint.pop("labelSelector", None)
    sign = listed(*defaults).sign
    owners = [
        {"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": n, "uid": n}]}
        for n in "xy"
    ]
    one = PodInfo(web("one", metadata=owners[0]))
    same = PodInfo(web("two", metadata=owners[0]))
    others = [
        PodInfo(web("labels", labels={"app": "db"}, metadata=owners[0])),
        PodInfo(web("owner", metadata=owners[1])),
        PodInfo(web("no-owner")),
    ]

    assert sign(one) == sign(same)
    for other in others:
        assert (sign(other) != sign(one)) is reads_labels
    assert sign(PodInfo(web("elsewhere", namespace="red", metadata=owners[0]))) != sign(one)
