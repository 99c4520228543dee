"""A copy of an attempt gives the Decision of the attempt, also after the cluster has changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.decision import Decision
from mooring.framework import (
    SKIP,
    Attempt,
    Cycle,
    NodeError,
    NodeInfo,
    NodeView,
    Placement,
    PreFilterResult,
    Reject,
    default_normalize,
    per_node,
    schedule_pod,
)
from mooring.framework.runtime.attempt_copy import AttemptCopy, _narrow
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.state.columns.change_log import Change
from mooring.testing import Harness, make_node, make_pod


class ByLabel:
    """Rejects a node by its label; its scores are in a label."""

    name = "ByLabel"

    def __init__(self, key: str = "no", name: str = "ByLabel") -> None:
        self.key = key
        self.name = name

    @per_node
    def filter(self, pod: Any, node: NodeInfo) -> Reject | None:
        reason = node.labels.get(self.key)
        return Reject("z", reason, resolvable=False) if reason else None

    @per_node
    def score(self, pod: Any, node: NodeInfo) -> int:
        return int(node.labels.get("score", "0"))


class Cached(ByLabel):
    """As ByLabel; its results are cached, and are updated when nodes change."""

    reads = Change.LABELS

    def sign(self, pod: PodInfo) -> Any:
        return ()


class Normalized:
    """Has raw scores of any size."""

    name = "Normalized"

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        factors = [int(node.labels.get("score", "0")) for node in nodes]
        return np.array(factors, dtype=np.int64) * 10**12

    def normalize(self, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
        return default_normalize(scores)


class Skips:
    """Skips Score."""

    name = "Skips"

    def pre_score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        raise AssertionError("it skips")


class Narrows:
    def __init__(self, name: str, result: Any) -> None:
        self.name = name
        self.result = result

    def pre_filter(self, cycle: Cycle) -> Any:
        return self.result


def nodes(**labels: dict[str, str]) -> list[Any]:
    return [make_node(name, labels=of) for name, of in labels.items()]


MIXED = nodes(
    a={"score": "3"}, b={"no": "x"}, c={"score": "70"}, d={"no": "y"}, e={"score": "70"}, f={}
)


def compared(
    cluster: list[Any], *plugins: Any, pod: Pod | None = None, **options: Any
) -> tuple[Decision, Decision]:
    """Returns the attempt's Decision, and the copy's after the cluster has changed."""
    harness = Harness(cluster, plugins, **options)
    snapshot = harness.cache.snapshot()
    pods = [pod or make_pod("p")] * 2  # the second attempt has cached results
    for number, each in enumerate(pods):
        attempt = Attempt(snapshot)
        cycle = harness.framework.new_cycle(PodInfo(each), snapshot, number=number)
        result = schedule_pod(harness.framework, cycle, attempt)
    node = result.node_name if isinstance(result, Placement) else ""
    outcome = "scheduled" if node else "unschedulable"
    decision = attempt.decision(outcome, node=node or None, diagnosis=None)
    copy = AttemptCopy(attempt, node, list(snapshot.nodes.names), {"ByLabel": 2})
    assert copy.weights == {"ByLabel": 2}

    harness.cache.put_node(make_node("z"))
    for name in "abc":
        harness.cache.remove_node(name)
        harness.cache.put_node(make_node(f"new-{name}", labels={"score": "1", "no": "new"}))
    cycle = harness.framework.new_cycle(PodInfo(pods[0]), harness.cache.snapshot(), number=9)
    schedule_pod(harness.framework, cycle, Attempt(harness.cache.snapshot()))
    return decision, copy.decision()


FIELDS = ("result", "node", "tied", "rejected", "choice", "prefilter", "raw", "scores", "total")


@pytest.mark.parametrize(
    ("cluster", "plugins"),
    [
        (MIXED, [ByLabel()]),
        (MIXED, [ByLabel(), Normalized()]),
        (MIXED, [Cached()]),
        (MIXED, [Cached(), Cached("score", "Other")]),
        (MIXED, [Cached(), ByLabel("score", "Other"), Normalized()]),
        (nodes(a={"no": "y"}, b={"no": "x"}), [Cached()]),
        (MIXED, [ByLabel(), ByLabel("score", "Other")]),
        (MIXED, [Normalized()]),
        (MIXED, [Normalized(), Skips()]),
        (nodes(a={}, b={"no": "x"}), [ByLabel()]),
        (nodes(a={"no": "y"}, b={"no": "x"}), [ByLabel(), ByLabel("score", "Other")]),
        (MIXED, [Narrows("N", PreFilterResult(frozenset("abce"))), ByLabel()]),
        (
            MIXED,
            [
                Narrows("O", PreFilterResult(frozenset("bcd"))),
                Narrows("N", PreFilterResult(frozenset("bde"))),
                ByLabel(),
            ],
        ),
        (MIXED, [Narrows("N", PreFilterResult(frozenset())), ByLabel()]),
        (MIXED, [Narrows("N", Reject("b", "a", resolvable=False)), ByLabel()]),
        (nodes(a={"no": "x"}, b={"no": "x"}, c={}, d={}), [ByLabel()]),
    ],
)
@pytest.mark.parametrize("nominated", ["", "b", "c"])
def test_the_copy_has_what_the_attempt_had(
    cluster: list[Any], plugins: list[Any], nominated: str
) -> None:
    pod = make_pod("p", nominated_node=nominated)

    decision, copy = compared(cluster, *plugins, pod=pod)

    for field in FIELDS:
        assert getattr(copy, field) == getattr(decision, field), field
    assert (copy.unschedulable_plugins, copy.pending_plugins) == ((), ())
    assert list(copy.rejected) == sorted(copy.rejected)


def test_an_attempt_that_was_sampled_is_copied_as_it_was() -> None:
    cluster = nodes(**{f"n{number:03}": {"score": str(number % 7)} for number in range(130)})
    decision, copy = compared(cluster, ByLabel(), percentage_of_nodes_to_score=1)

    assert copy.total == decision.total
    assert copy.total is not None
    assert len(copy.total) == 100


@pytest.mark.parametrize(
    ("values", "width"),
    [
        ([0, 127, -128], 1),
        ([128], 2),
        ([-129], 2),
        ([32767, -32768], 2),
        ([32768], 4),
        ([-32769, 0], 4),
        ([2**31 - 1, -(2**31)], 4),
        ([2**31], 8),
        ([-(2**31) - 1], 8),
        ([], 8),
    ],
)
def test_columns_are_as_narrow_as_their_values(values: list[int], width: int) -> None:
    column = np.array(values, dtype=np.int64)

    narrow = _narrow(column)

    assert narrow.tolist() == values
    assert narrow.dtype.itemsize == width
    assert narrow is not column
    assert not np.shares_memory(narrow, column)


def test_the_size_is_that_of_the_arrays() -> None:
    harness = Harness(MIXED, [ByLabel()])
    snapshot = harness.cache.snapshot()
    attempt = Attempt(snapshot)
    nothing = AttemptCopy(attempt, "", list(snapshot.nodes.names), {})
    assert nothing.size_bytes == 0
    assert nothing.decision().result == "unschedulable"
    assert nothing.decision().rejected == {}

    schedule_pod(
        harness.framework, harness.framework.new_cycle(PodInfo(make_pod()), snapshot), attempt
    )
    copy = AttemptCopy(attempt, "c", list(snapshot.nodes.names), {})

    # Totals, rows and raw scores of four nodes, one byte each (the scores are the raw ones); and
    # for each row the plugin that rejected it, and its status.
    capacity = snapshot.nodes.capacity
    assert copy.size_bytes == 4 + 4 + 4 + capacity * (1 + 2)


def test_a_failed_filter_is_in_the_copy_as_the_status_that_it_had() -> None:
    class FailsOnNominated:
        name = "Fails"

        @per_node
        def filter(self, pod: Any, node: NodeInfo) -> Any:
            return NodeError("broken") if node.name == "b" else None

    harness = Harness(MIXED[:1], [FailsOnNominated()])
    snapshot = harness.cache.snapshot()
    attempt = Attempt(snapshot)
    attempt.extra[0] = Reject("earlier").named("Earlier")
    attempt.by_extenders[0] = Reject("later").named("Extender")

    copy = AttemptCopy(attempt, "", list(snapshot.nodes.names), {})

    assert copy.decision().rejected == attempt.rejected()
    assert copy.decision().rejected["a"].reasons == ("later",)
