"""The reference choice of victims, on clusters small enough to see the answer."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.objects.codec.decode import convert
from mooring.objects.meta import LabelSelector
from mooring.objects.pod import Affinity, ContainerPort, Pod, PodAffinityTerm, PodAntiAffinity
from mooring.testing import make_node
from tests.faults.harness.reference_preemption import Choice, Cluster, protected_pods
from tests.plugins.preemption_clusters import budget

NODES = {name: make_node(name, allocatable={"cpu": "2", "pods": "9"}) for name in "ab"}


def pod(name: str, priority: int = 0, *, minute: int | None = None, cpu: str = "1") -> Pod:
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "x"}},
        "spec": {
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        },
    }
    if minute is not None:
        body["status"] = {"startTime": f"2026-01-01T00:{minute:02}:00Z"}
    made: Pod = convert(body, "Pod")
    return made


def _alone(name: str, priority: int, *, cpu: str) -> Pod:
    """Returns a pod with anti-affinity to all of these pods on its node."""
    made = pod(name, priority, cpu=cpu)
    selector = LabelSelector(match_labels={"app": "x"})
    term = PodAffinityTerm(label_selector=selector, topology_key="kubernetes.io/hostname")
    anti = PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
    return replace(made, spec=replace(made.spec, affinity=Affinity(pod_anti_affinity=anti)))


def _with_port(name: str, priority: int = 0) -> Pod:
    """Returns a pod that requests no cpu, and uses a host port."""
    made = pod(name, priority, cpu="0")
    (container,) = made.spec.containers
    ports = (ContainerPort(host_port=80, protocol="TCP"),)
    return replace(made, spec=replace(made.spec, containers=(replace(container, ports=ports),)))


NEW = pod("new", 100)


def best(*placed: tuple[Pod, str], nominated: tuple[Pod, str] | None = None, **more: Any) -> Any:
    cluster = Cluster(NODES, placed, [nominated] if nominated else [], more.get("budgets", []))
    candidates = cluster.candidates(more.get("pod", NEW), list(NODES), more.get("share", 0.0))
    choice = min(candidates, key=lambda choice: choice.cost, default=None)
    if choice is None:
        return None
    return choice.node, [victim.metadata.name for victim in choice.victims]


def test_pods_that_need_not_go_are_reprieved_the_most_important_one_first() -> None:
    full = (pod("equal", 100, cpu="2"), "b")
    assert best((pod("low", 1), "a"), (pod("high", 2), "a"), full) == ("a", ["low"])


def test_the_lowest_victim_the_fewest_and_the_latest_are_preferred() -> None:
    big = pod("big", 100, cpu="2")
    assert best((pod("five", 5, cpu="2"), "a"), (pod("one", 1, cpu="2"), "b")) == ("b", ["one"])
    pairs = (pod("x", 1), "a"), (pod("y", 1), "a"), (pod("z", 1, cpu="2"), "b")
    assert best(*pairs, pod=big) == ("b", ["z"])
    old, young = pod("old", 1, minute=1, cpu="2"), pod("young", 1, minute=2, cpu="2")
    assert best((old, "a"), (young, "b")) == ("b", ["young"])


def test_the_first_of_equal_candidates_is_chosen_from_a_random_place_on() -> None:
    equal = (pod("x", cpu="2"), "a"), (pod("y", cpu="2"), "b")
    assert best(*equal) == ("a", ["x"])
    assert best(*equal, share=0.5) == ("b", ["y"])


def test_pods_of_the_same_priority_and_nominated_ones_keep_their_resources() -> None:
    full = (pod("same", 100, cpu="2"), "b")
    low = (pod("low", cpu="2"), "a")
    assert best(low, full) == ("a", ["low"])
    assert best(low, full, nominated=(pod("other", 100, cpu="2"), "a")) is None


def test_terms_of_nominated_pods_count_if_a_term_of_a_placed_pod_selects_the_preemptor() -> None:
    """Else InterPodAffinity is skipped, and nominated pods are not added to its state."""
    low, full = (pod("low", cpu="2"), "a"), (pod("same", 100, cpu="2"), "b")
    small = pod("small", 100, cpu="1")
    nominated = (_alone("other", 100, cpu="1"), "a")
    assert best(low, full, nominated=nominated, pod=small) == ("a", ["low"])
    selecting = (_alone("same", 100, cpu="2"), "b")
    assert best(low, selecting, nominated=nominated, pod=small) is None


def test_a_budget_is_used_up_by_the_pods_before() -> None:
    single = budget("one", 1, app="x")
    pods = [pod("x", 2), pod("y", 1)]
    assert protected_pods(pods, [single]) == pods[1:]
    assert Choice("a", [pods[0]], 1).cost > Choice("a", [pod("z", 50)], 0).cost


def test_a_victim_frees_its_host_port_even_if_another_pod_of_the_node_uses_the_same() -> None:
    other, new = _with_port("other", 200), _with_port("new", 100)
    assert best((_with_port("low"), "a"), (other, "a"), (other, "b"), pod=new) == ("a", ["low"])
    assert best((pod("low"), "a"), (other, "a"), (other, "b"), pod=new) is None
