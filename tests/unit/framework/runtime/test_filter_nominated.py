"""Nominations: a pod's own node is tried first, and other pods' nodes are looked at twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.decision import Decision
from mooring.errors import PluginError
from mooring.framework import (
    Cycle,
    FilterStatuses,
    NodeError,
    NodeView,
    PreFilterResult,
    Reject,
    Status,
    per_node,
)
from mooring.framework.runtime.filter import _is_feasible
from mooring.objects import Pod
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod

NODES = [make_node(name) for name in ("a", "b", "c")]


class Flat:
    name = "Flat"

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return np.zeros(len(nodes), dtype=np.int64)


class Refuses:
    name = "Refuses"

    def __init__(self, **refused: Any) -> None:
        self.refused = refused
        self.asked: list[list[str]] = []

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        self.asked.append(nodes.names)
        return FilterStatuses.of(self.refused.get(name) for name in nodes.names)


class Candidate:
    """At most this many pods a node: sees nominated pods through the view alone."""

    name = "Candidate"

    def __init__(self, most: int = 1) -> None:
        self.most = most

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(nodes.pod_count >= self.most, Reject("full"))


class Narrows:
    name = "Narrows"

    def __init__(self, *names: str) -> None:
        self.names = frozenset(names)

    def pre_filter(self, cycle: Cycle) -> Any:
        return PreFilterResult(self.names)


def decided(pod: Pod, *plugins: Any, others: Any = (), start: int = 0) -> Decision:
    return Harness([*NODES, *others], plugins).decide(pod, start_index=start).decision


# ---------------------------------------------------------------- the pod's own nomination


def test_the_nominated_node_is_taken_and_no_other_is_looked_at() -> None:
    filters = Refuses()

    decision = decided(make_pod("p", nominated_node="b"), filters, Flat())

    assert (decision.node, decision.choice, decision.tied) == ("b", "nominated", ("b",))
    assert filters.asked == [["b"]]
    assert (decision.rejected, decision.total) == ({}, None)


def test_an_only_node_that_is_nominated_is_no_choice() -> None:
    pod = make_pod("p", nominated_node="b")

    assert Harness([make_node("b")], [Refuses(), Flat()]).decide(pod).decision.choice is None
    assert decided(pod, Narrows("b"), Refuses(), Flat()).choice is None
    assert decided(pod, Narrows("b", "c"), Refuses(), Flat()).choice == "nominated"


def test_a_nominated_node_that_is_refused_leaves_the_way_to_the_others() -> None:
    filters = Refuses(b=Reject("busy"))

    decision = decided(make_pod("p", nominated_node="b"), filters, Flat())

    assert filters.asked == [["b"], ["a", "b", "c"]]
    assert (decision.node, decision.choice) == ("a", None)
    assert decision.total == {"a": 0, "c": 0}


def test_a_refusal_is_counted_once_though_the_node_is_asked_about_twice() -> None:
    refusal = Reject("busy")
    decision = decided(
        make_pod("p", nominated_node="b"), Refuses(a=refusal, b=refusal, c=refusal), Flat()
    )

    assert decision.message == "0/3 nodes are available: 3 busy."


def test_a_nominated_node_that_is_gone_is_forgotten() -> None:
    filters = Refuses()

    decision = decided(make_pod("p", nominated_node="gone"), filters, Flat())

    assert filters.asked == [["a", "b", "c"]]
    assert decision.node == "a"


def test_a_nominated_node_whose_filter_fails_is_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(PluginError, match="burns"):  # the walk over all nodes meets it again
        decided(make_pod("p", nominated_node="b"), Refuses(b=NodeError("burns")), Flat())
    caplog.clear()

    # but a walk that ends before it does not
    harness = Harness(NODES, [Refuses(c=NodeError("burns"))])
    decision = harness.decide(make_pod("p", nominated_node="c")).decision

    assert decision.node == "a"
    assert decision.rejected == {}
    (record,) = caplog.records
    assert vars(record)["error"] == 'running "Refuses" filter plugin: burns'
    assert vars(record)["node"] == "c"
    assert harness.framework.errors.statistics() == {("Refuses", "Filter"): 1}


def test_an_exception_at_the_nominated_node_alone_is_logged_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class OncePerPod:
        name = "Moody"

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            if len(nodes) == 1:
                raise RuntimeError("not alone")
            return FilterStatuses.feasible(len(nodes))

    harness = Harness(NODES, [OncePerPod(), Flat()])

    assert harness.decide(make_pod("p", nominated_node="c")).decision.node == "a"

    (record,) = caplog.records
    assert record.message == "a plugin failed"
    facts = {key: vars(record)[key] for key in ("plugin", "extension_point", "pod", "node")}
    assert facts == {
        "plugin": "Moody",
        "extension_point": "Filter",
        "pod": "default/p",
        "node": "c",
    }
    assert 'raise RuntimeError("not alone")' in caplog.text
    assert harness.framework.errors.statistics() == {("Moody", "Filter"): 1}


def test_pre_filter_left_the_nominated_node_out_and_it_is_taken_all_the_same() -> None:
    decision = decided(make_pod("p", nominated_node="c"), Narrows("a", "b"), Refuses(), Flat())

    assert (decision.node, decision.choice) == ("c", "nominated")


def test_refused_outside_what_pre_filter_left_it_keeps_its_own_reason() -> None:
    filters = Refuses(a=Reject("busy"), c=Reject("burnt"))

    decision = decided(make_pod("p", nominated_node="c"), Narrows("a"), filters, Flat())

    # The plugin that refused the nominated node joins those that left nodes out.
    assert decision.message == (
        "0/3 nodes are available: 1 burnt, 1 busy, "
        "1 node(s) didn't satisfy plugin(s) [Narrows Refuses]."
    )
    assert decision.rejected["c"].reasons == ("burnt",)
    assert decision.rejected["b"].plugin == "Narrows,Refuses"


def test_a_nominated_node_counts_as_looked_at_also_where_the_walk_did_not_come() -> None:
    decision = decided(make_pod("p", nominated_node="c"), Refuses(c=Reject("busy")))

    assert decision.node == "a"  # no scores: the walk ends before b
    assert list(decision.rejected) == ["c"]


# ---------------------------------------------------------------- nominations of other pods


def rival(priority: int | None, *, name: str = "rival", node: str = "a", **more: Any) -> Pod:
    return make_pod(name, priority=priority, nominated_node=node, **more)


@pytest.mark.parametrize(
    ("ours", "theirs", "yields"),
    [(0, 0, True), (0, 1, True), (1, 0, False), (None, 0, True), (None, None, True), (-1, 0, True)],
)
def test_a_pod_yields_to_nominated_ones_of_the_same_or_a_higher_priority(
    ours: int | None, theirs: int | None, *, yields: bool
) -> None:
    decision = decided(make_pod("p", priority=ours), Candidate(), Flat(), others=[rival(theirs)])

    assert decision.node == ("b" if yields else "a")
    assert ("a" in decision.rejected) == yields


def test_a_pod_does_not_yield_to_its_own_nomination() -> None:
    pod = make_pod("p", nominated_node="a", uid="same")

    assert decided(pod, Candidate(), Flat(), others=[pod]).node == "a"


def test_all_rivals_of_a_node_are_there_at_once() -> None:
    nominated_pods = [rival(0, name="one"), rival(0, name="two"), rival(-5, name="lower")]

    assert (
        "a"
        in decided(make_pod("p", priority=0), Candidate(2), Flat(), others=nominated_pods).rejected
    )
    assert (
        "a"
        not in decided(
            make_pod("p", priority=0), Candidate(3), Flat(), others=nominated_pods
        ).rejected
    )


def test_a_nomination_to_a_node_that_is_gone_matters_to_nobody() -> None:
    assert decided(make_pod("p"), Candidate(), Flat(), others=[rival(0, node="gone")]).node == "a"


def test_a_pod_that_needs_the_rival_does_not_get_the_node_before_it_is_there() -> None:
    """Passes only with the nominated pods, like inter-pod affinity."""

    class Company:
        name = "Company"

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            return FilterStatuses.reject(nodes.pod_count == 0, Reject("lonely"))

    decision = decided(make_pod("p"), Company(), Flat(), others=[rival(0)])

    assert decision.message == "0/3 nodes are available: 3 lonely."


def test_the_first_rejection_with_nominated_pods_is_the_status() -> None:
    early, late = Candidate(), Refuses(a=Reject("late"))

    decision = decided(make_pod("p"), early, late, Flat(), others=[rival(0)])

    assert decision.rejected["a"].plugin == "Candidate"


def test_a_failure_in_the_world_with_rivals_fails_the_attempt() -> None:
    class Burns:
        name = "Burns"

        def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
            return FilterStatuses.reject(nodes.pod_count > 0, NodeError("burns"))

    with pytest.raises(PluginError, match="burns"):
        decided(make_pod("p"), Burns(), Flat(), others=[rival(0)])


def test_a_one_node_plugin_sees_the_rival_among_the_nodes_pods() -> None:
    class NotBesideRivals:
        name = "NotBesideRivals"

        @per_node
        def filter(self, pod: Any, node: Any) -> Any:
            names = [found.metadata.name for found in node.pods]
            return Reject(f"beside {names[0]}") if names else None

    decision = decided(make_pod("p"), NotBesideRivals(), Flat(), others=[rival(0)])

    assert decision.rejected["a"].reasons == ("beside rival",)


# ---------------------------------------------------------------- states that follow the pods


class AtMost:
    """At most two pods with the label app=web in the whole cluster, as pre_filter counted them."""

    name = "AtMost"

    def pre_filter(self, cycle: Cycle) -> None:
        nodes = cycle.snapshot.nodes
        placed = [cycle.snapshot.pods.on_row(row) for row in nodes.order.rows()]
        cycle[self] = sum(
            pod.info.metadata.labels.get("app") == "web" for on in placed for pod in on
        )

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        counts = np.broadcast_to(np.asarray(cycle[self]), (len(nodes),))
        return FilterStatuses.of(
            Reject(f"{n} already") if n >= 2 else None for n in counts.tolist()
        )


def is_web(pod: Any) -> bool:
    return bool(pod.metadata.labels.get("app") == "web")


class Shifted(AtMost):
    def apply_deltas(self, cycle: Cycle, state: Any, nodes: NodeView) -> Any:
        pairs = zip(nodes.added, nodes.removed, strict=True)
        return np.array([state + sum(map(is_web, a)) - sum(map(is_web, r)) for a, r in pairs])


class OneByOne(AtMost):
    def add_pod(self, cycle: Cycle, state: Any, pod: Any, node: Any) -> Any:
        return state + is_web(pod)

    def remove_pod(self, cycle: Cycle, state: Any, pod: Any, node: Any) -> Any:
        return state - is_web(pod)


WEB = {"app": "web"}


@pytest.mark.parametrize("plugin", [Shifted, OneByOne])
def test_the_state_follows_nominated_pods_in_both_forms(plugin: type) -> None:
    others = [
        make_pod("placed", node="c", labels=WEB),
        rival(0, name="r1", node="a", labels=WEB),
        rival(0, name="r2", node="b", labels={"app": "db"}),
    ]

    decision = decided(make_pod("p"), plugin(), Flat(), others=others)

    assert {name: found.reasons for name, found in decision.rejected.items()} == {
        "a": ("2 already",)
    }


def test_a_plugin_that_cannot_follow_is_asked_with_the_state_it_has() -> None:
    others = [rival(0, name=f"r{n}", node="a", labels=WEB) for n in range(3)]

    assert decided(make_pod("p"), AtMost(), Flat(), others=others).rejected == {}


@pytest.mark.parametrize("method", ["apply_deltas", "add_pod"])
def test_a_plugin_that_fails_to_follow_is_named(method: str) -> None:
    class Breaks(Shifted if method == "apply_deltas" else OneByOne):  # type: ignore[misc]
        name = "Breaks"

    def breaks(*_: Any) -> Any:
        raise LookupError("lost count")

    setattr(Breaks, method, breaks)

    with pytest.raises(PluginError) as caught:
        decided(make_pod("p"), Breaks(), Flat(), others=[rival(0, labels=WEB)])

    assert str(caught.value) == (
        'running PreFilterExtension plugin "Breaks": LookupError: lost count'
    )


# ---------------------------------------------------------------- a node alone, for batching


@pytest.mark.parametrize(
    ("answer", "is_feasible"),
    [(None, True), (Reject("busy"), False), (NodeError("broken"), True)],
)
@pytest.mark.parametrize("is_second", [True, False])
def test_a_node_alone_is_feasible_also_if_its_filter_fails(
    answer: Status | None, is_feasible: bool, is_second: bool
) -> None:
    plugins: list[Any] = [Refuses(b=answer) if answer is not None else Refuses()]
    if is_second:
        plugins.insert(0, Flat())
    harness = Harness(NODES, plugins)
    harness.cache.nominator.nominate(PodInfo(make_pod("rival", priority=9)), "b")
    cycle = harness.begin(make_pod("p")).cycle

    assert _is_feasible(harness.framework, cycle, "b") is is_feasible
    assert _is_feasible(harness.framework, cycle, "a") is True
    assert _is_feasible(harness.framework, cycle, "gone") is None
