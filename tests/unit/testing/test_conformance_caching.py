"""The conformance kit: what ``sign`` and ``reads`` promise, broken on purpose."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest

from mooring.framework import SKIP, Cycle, FilterStatuses, NodeView, Reject, default_normalize
from mooring.state import PodInfo
from mooring.state.columns.change_log import Change
from mooring.testing import check_conformance
from tests.helpers.broken_plugins import fault_of


class Shares:
    """Refuses nodes by a label that the pod's priority chooses; shared without a fault."""

    name = "Shares"
    reads: Any = Change.LABELS

    def sign(self, pod: PodInfo) -> Hashable | None:
        return pod.priority > 0

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        codes, _ = nodes.label("disk" if cycle.pod.priority > 0 else "rack")
        return FilterStatuses.reject(codes < 0, Reject("has no such label"))


class SharesNothing(Shares):
    name = "SharesNothing"

    def sign(self, pod: PodInfo) -> Hashable | None:
        return None


class AppliesToNone(Shares):
    """Says that it applies to no pod, and does not skip any."""

    name = "AppliesToNone"

    def applies_to(self, pod: PodInfo) -> bool:
        return False

    def pre_filter(self, cycle: Cycle) -> None:
        return None


class IdleWithState(AppliesToNone):
    """Stores another state than its ``idle_state``."""

    name = "IdleWithState"
    idle_state = "idle"

    def pre_filter(self, cycle: Cycle) -> Any:
        cycle[self] = "other"
        return SKIP


class IdleWithScores(AppliesToNone):
    """Says that it applies to no pod, and scores nodes 1."""

    name = "IdleWithScores"

    def pre_filter(self, cycle: Cycle) -> Any:
        return SKIP

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return np.ones(len(nodes), dtype=np.int64)


class Coarse(Shares):
    name = "Coarse"

    def sign(self, pod: PodInfo) -> Hashable | None:
        return "all alike"


class Unhashable(Shares):
    name = "Unhashable"

    def sign(self, pod: PodInfo) -> Any:
        return (["a list"],)


class ByName(Shares):
    name = "ByName"

    def sign(self, pod: PodInfo) -> Hashable | None:
        return (pod.metadata.name, pod.priority > 0)


class NeverTheSame(Shares):
    name = "NeverTheSame"

    def sign(self, pod: PodInfo) -> Hashable | None:
        return object()


class ReadsTooLittle(Shares):
    name = "ReadsTooLittle"
    reads = Change.TAINTS


class ReadsOthers(Shares):
    """Refuses all but the smallest nodes, which depends on all of them."""

    name = "ReadsOthers"
    reads = Change.ALLOCATABLE

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        table = cycle.snapshot.nodes
        rows = table.order.rows()
        least = min((int(table.allowed_pods[row]) for row in rows), default=0)
        return FilterStatuses.reject(nodes.allowed_pods > least, Reject("others are smaller"))


class ReadsOthersAndSaysSo(ReadsOthers):
    name = "ReadsOthersAndSaysSo"
    reads_other_nodes = Change.ALLOCATABLE | Change.EXISTENCE


class ScoresByRank(Shares):
    name = "ScoresByRank"

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return np.arange(len(nodes), dtype=np.int64)


class StaleNotes(Shares):
    """Notes in pre_filter how many nodes there are: right for the first pod, stale for the next."""

    name = "StaleNotes"
    reads = Change.LABELS
    reads_other_nodes = Change.EXISTENCE

    def pre_filter(self, cycle: Cycle) -> None:
        cycle[self] = len(cycle.snapshot.nodes)

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(np.full(len(nodes), cycle[self] % 2 == 0), Reject("is even"))


class Reversed(Shares):
    """Normalizes, and says what zeros become."""

    name = "Reversed"
    normalized_zero = 100

    def score(self, cycle: Cycle, nodes: NodeView) -> Any:
        return np.zeros(len(nodes), dtype=np.int64)

    def normalize(self, cycle: Cycle, scores: Any, nodes: NodeView) -> Any:
        return default_normalize(scores, reverse=True)


class ReversedAndWrong(Reversed):
    name = "ReversedAndWrong"
    normalized_zero = 0


class CountsGuests(Shares):
    """Says that it reads amounts only, and reads the labels of the pods on a node."""

    name = "CountsGuests"
    reads = Change.ALLOCATABLE | Change.USAGE
    amounts_only = True

    def sign(self, pod: PodInfo) -> Hashable | None:
        return ()

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        labelled = [any(pod.metadata.labels for pod in node.pods) for node in nodes]
        return FilterStatuses.reject(np.array(labelled), Reject("has pods with labels"))


class CountsPods(CountsGuests):
    name = "CountsPods"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.reject(nodes.pod_count > 0, Reject("has pods"))


def test_a_plugin_that_does_not_skip_pods_to_which_it_does_not_apply_is_named() -> None:
    problem = fault_of(AppliesToNone())

    assert "applies_to returns False, but pre_filter returns None, not SKIP" in problem


@pytest.mark.parametrize(
    ("plugin", "expected"),
    [
        (IdleWithState(), "but pre_filter stores 'other', not idle_state 'idle'"),
        (IdleWithScores(), "but a score is not 0"),
    ],
)
def test_state_and_scores_of_pods_to_which_a_plugin_does_not_apply_are_fixed(
    plugin: Any, expected: str
) -> None:
    assert f"applies_to returns False, {expected}" in fault_of(plugin)


@pytest.mark.parametrize("plugin", [Shares(), SharesNothing(), Reversed(), CountsPods()])
def test_sharing_that_keeps_its_promises_passes(plugin: Any) -> None:
    check_conformance(plugin)


@pytest.mark.parametrize(
    ("plugin", "fault"),
    [
        (Unhashable(), "sign returned (['a list'],), which is not hashable"),
        (NeverTheSame(), "sign differs for the same pod"),
        (ByName(), "sign differs for a pod with another name and UID, so no result is ever"),
        (Coarse(), "sign is the same for a pod with another spec.priority, but (status, score)"),
        (ReadsTooLittle(), "but reads has no <Change.LABELS: 2>"),
        (ScoresByRank(), "alone, {'node-"),
        (ReversedAndWrong(), "normalized_zero is 0, but normalize returns [100"),
        (CountsGuests(), "-twin with the same amounts"),
        (StaleNotes(), "pre_filter and pre_score may depend on sign(pod) only"),
    ],
)
def test_sharing_that_breaks_a_promise_is_caught(plugin: Any, fault: str) -> None:
    assert fault in fault_of(plugin)


def test_a_look_at_other_nodes_has_to_be_declared() -> None:
    told = fault_of(ReadsOthers())

    assert "but reads_other_nodes has no <Change." in told
    assert "others are smaller" in told
    assert " when " in told
    check_conformance(ReadsOthersAndSaysSo())
