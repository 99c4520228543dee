"""Nominator: one place per pod, kept through stale versions, gone with the pod."""

from __future__ import annotations

from mooring.state import Nominator, PodInfo
from mooring.testing import make_pod


def info(name: str, nominated: str = "") -> PodInfo:
    return PodInfo(make_pod(name, nominated_node=nominated))


def test_a_pod_waits_on_one_node_only() -> None:
    nominator = Nominator()
    pod = info("a")

    nominator.nominate(pod, "node-1")
    nominator.nominate(pod, "node-2")

    assert nominator.pods_on("node-1") == []
    assert nominator.pods_on("node-2") == [pod]
    assert nominator.node_names() == ["node-2"]


def test_pods_on_a_node_come_in_order_of_nomination() -> None:
    nominator = Nominator()
    first, second = info("a"), info("b")
    nominator.nominate(first, "n")
    nominator.nominate(second, "n")

    assert nominator.pods_on("n") == [first, second]


def test_removing_a_pod_twice_or_an_unknown_one_is_fine() -> None:
    nominator = Nominator()
    pod = info("a")
    nominator.nominate(pod, "n")

    nominator.remove(pod.uid)
    nominator.remove(pod.uid)
    nominator.remove("nobody")

    assert len(nominator) == 0
    assert nominator.node_of(pod.uid) == ""


def test_a_version_from_before_the_nomination_keeps_the_place_in_memory() -> None:
    nominator = Nominator()
    old, new = info("a"), info("a")
    nominator.nominate(old, "n")

    nominator.update(old, new)

    assert nominator.pods_on("n") == [new]


def test_a_version_that_clears_the_nomination_gives_the_place_up() -> None:
    nominator = Nominator()
    old, new = info("a", "n"), info("a")
    nominator.nominate(old, "n")

    nominator.update(old, new)

    assert nominator.pods_on("n") == []


def test_a_version_that_names_another_node_moves_the_pod() -> None:
    nominator = Nominator()
    old, new = info("a", "n"), info("a", "m")
    nominator.nominate(old, "n")

    nominator.update(old, new)

    assert nominator.pods_on("m") == [new]
    assert nominator.pods_on("n") == []


def test_a_pod_is_found_by_its_key_too() -> None:
    nominator = Nominator()
    nominator.nominate(info("a"), "n")

    nominator.remove_by_key("default/b")
    assert len(nominator) == 1
    nominator.remove_by_key("default/a")
    assert len(nominator) == 0


def test_a_nomination_is_removed_by_name_on_whichever_node_it_is() -> None:
    nominator = Nominator()
    first, second, third = info("a"), info("b"), info("c")
    nominator.nominate(first, "n")
    nominator.nominate(second, "n")
    nominator.nominate(third, "m")

    nominator.remove_by_key("default/b")
    nominator.remove_by_key("default/c")
    nominator.remove_by_key("default/unknown")

    assert nominator.pods() == [(first, "n")]
    assert nominator.node_names() == ["n"]
