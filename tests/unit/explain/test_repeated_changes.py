"""Changes that help, each repeated by hand: nominated pods, overhead, too few domains."""

from __future__ import annotations

from mooring.testing import make_node, make_pod
from tests.unit.explain.test_changes import node_for, remedies
from tests.unit.explain.test_reasons import spread


def test_a_shortage_counts_the_pods_that_are_nominated_to_the_node() -> None:
    first = make_pod("first", priority=5, requests={"cpu": "2500m"}, nominated_node="a")
    new = make_pod("new", requests={"cpu": "3500m"})
    assert remedies(new, make_node("a"), first)[1:3] == [
        "  - request 2 cpu less in the pod (1.5 instead of 3.5): the pod goes to a",
        "  - give node a 2 cpu more: the pod goes to a",
    ]
    assert node_for(make_pod("new", requests={"cpu": "1500m"}), make_node("a"), first) == "a"
    assert node_for(make_pod("new", requests={"cpu": "1501m"}), make_node("a"), first) is None


def test_a_new_domain_for_a_pod_that_is_spread_over_too_few() -> None:
    old = [make_pod(f"p-{name}", labels={"app": "web"}, node=name) for name in "ab"]
    cluster = [make_node("a", zone="a"), make_node("b", zone="b"), make_node("c"), *old]
    new = make_pod("new", labels={"app": "web"}, spec=spread(minDomains=3))
    assert remedies(new, *cluster)[1] == (
        "  - set the label topology.kubernetes.io/zone=c on node c: the pod goes to c"
    )
    changed = [make_node("c", zone="c") if obj is cluster[2] else obj for obj in cluster]
    assert node_for(new, *changed) == "c"


def test_the_request_of_a_container_is_lowered_by_what_its_pod_lacks() -> None:
    new = make_pod("new", requests={"cpu": "3600m"}, spec={"overhead": {"cpu": "500m"}})
    assert remedies(new, make_node("a"))[1] == (
        "  - request 0.1 cpu less in the pod (3.5 instead of 3.6): the pod goes to a"
    )
    lower = make_pod("new", requests={"cpu": "3500m"}, spec={"overhead": {"cpu": "500m"}})
    assert node_for(lower, make_node("a")) == "a"
