"""Listers: indexes, changes, and the kinds that are kept."""

from __future__ import annotations

from mooring.state.listers import Lister, Listers
from mooring.testing import make_node, make_object, make_pod

GROUPS = "podgroups.v1.example.com"


def names(objects: list[object]) -> list[str]:
    return [obj.metadata.name for obj in objects]  # type: ignore[attr-defined]


def test_objects_are_found_by_namespace_name_and_labels() -> None:
    pods = Lister("Pod")
    pods.put(make_pod("a", labels={"app": "web", "tier": "1"}))
    pods.put(make_pod("b", labels={"app": "db"}))
    pods.put(make_pod("a", namespace="shop", labels={"app": "web"}))

    assert pods.get("a", "shop").metadata.namespace == "shop"
    assert pods.get("b", "shop") is pods.get("c", "default") is None
    assert names(pods.list("default")) == ["a", "b"]
    assert names(pods.list("default", labels={"app": "web", "tier": "1"})) == ["a"]
    assert names(pods.list(labels={"app": "web"})) == ["a", "a"]
    assert len(pods) == len(list(pods)) == 3


def test_objects_without_a_namespace_are_found_by_name() -> None:
    nodes = Lister("Node")
    nodes.put(make_node("a"))

    assert nodes.get("a").metadata.name == "a"
    nodes.remove("a")
    assert (nodes.get("a"), nodes.list(), len(nodes)) == (None, [], 0)


def test_changes_of_listed_kinds_are_applied() -> None:
    listers = Listers()
    groups = listers.lister(GROUPS)
    old = make_object(GROUPS, "g", spec={"minMember": 2})
    new = make_object(GROUPS, "g", spec={"minMember": 3})

    listers.apply(GROUPS, None, old)
    assert groups.get("g", "default").spec == {"minMember": 2}
    listers.apply(GROUPS, old, new)
    assert groups.get("g", "default") is new
    listers.apply(GROUPS, new, None)
    assert groups.list() == []
    listers.apply("Pod", None, make_pod())
    assert (listers.get("Pod"), listers.kinds) == (None, (GROUPS,))


def test_all_kinds_are_kept_for_plugins_that_are_built_later() -> None:
    listers = Listers(keeps_all=True)
    listers.apply("Pod", None, make_pod("web"))

    assert names(listers.lister("Pod").list()) == ["web"]
