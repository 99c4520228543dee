"""Preemption tests of kube-scheduler: dry runs, candidate selection, whole results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring import plugins
from mooring.framework import Cycle, Diagnosis, FilterStatuses, NodeView, Reject, Status
from mooring.framework.runtime.filter import pre_filter
from mooring.objects.pod import Pod
from mooring.plugins.default_preemption.dry_run import DryRunResult, dry_run_preemption
from mooring.plugins.default_preemption.plugin import TERMINATING
from mooring.state import PodInfo
from tests.plugins.preemption_clusters import Bench
from tests.plugins.upstream_tables import Row, cluster, expected, read, read_all, rows, told


class Always:
    """A filter that says the same of every node, as those that upstream's tests register."""

    def __init__(self, name: str, status: Status | None = None) -> None:
        self.name = name
        self._status = status

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        return FilterStatuses.of([self._status] * len(nodes))


class NodeOfItsName:
    """Upstream's MatchFilter: a pod goes to the node that is called as it is."""

    name = "MatchFilter"

    def filter(self, cycle: Cycle, nodes: NodeView) -> FilterStatuses:
        own = cycle.pod.metadata.name
        return FilterStatuses.of(
            [None if name == own else Reject("another") for name in nodes.names]
        )


def plugin(name: str, fake: str | None) -> Any:
    if name == "MatchFilter":
        return NodeOfItsName()
    if name == "FakeFilter":
        refusals = {"Unschedulable": True, "UnschedulableAndUnresolvable": False}
        if fake in refusals:
            return Always(name, Reject("fake", resolvable=refusals[fake]))
        return Always(name)
    if name in ("TrueFilter", "FalseFilter"):
        return Always(name, Reject("false") if name == "FalseFilter" else None)
    return getattr(plugins, name)()


def bench(row: Row) -> Bench:
    names = row.get("plugins", ["NodeResourcesFit"])
    return Bench(
        [*cluster(row), *read_all(row.get("budgets", ()), "PodDisruptionBudget")],
        plugins=[plugin(name, row.get("fake")) for name in names],
    )


def opened(ours: Bench, pod: Pod) -> Cycle:
    """Returns an attempt whose PreFilter has run."""
    cycle = ours.harness.framework.new_cycle(PodInfo(pod), ours.cache.snapshot())
    pre_filter(ours.harness.framework, cycle)
    return cycle


def dry_run(ours: Bench, row: Row) -> DryRunResult:
    """Returns the nodes by name, from the row's offset on."""
    cycle, nodes = opened(ours, read(row["pod"], "Pod")), ours.cache.nodes
    names = sorted(each["metadata"]["name"] for each in row["nodes"])
    order = np.array([nodes.row(name) for name in names], dtype=np.intp)
    return dry_run_preemption(cycle, np.roll(order, -row["offset"]), row["wanted"])


@pytest.mark.parametrize("row", rows("preemption", "candidates"))
def test_a_dry_run_finds_the_same_candidates_and_victims(row: Row) -> None:
    ours = bench(row)

    tried = dry_run(ours, row)

    names = ours.cache.nodes.names
    found = {
        names[each.row]: [sorted(pod.metadata.name for pod in each.victims()), each.violations]
        for each in tried.candidates
    }
    assert found == row["candidates"]


@pytest.mark.parametrize("row", rows("preemption", "best"))
def test_one_of_the_best_candidates_is_chosen(row: Row) -> None:
    ours = bench(row)

    best = min(dry_run(ours, row).candidates, key=lambda each: each.rank)

    assert ours.cache.nodes.names[best.row] in row["best"]


def diagnosis(statuses: dict[str, Row | None]) -> Diagnosis:
    """Returns a diagnosis with these statuses by node; "" is that of absent nodes."""
    found = {name: status_of(raw) for name, raw in statuses.items()}
    absent = found.pop("", None)
    named = {name: status for name, status in found.items() if status is not None}
    return Diagnosis(len(named), statuses=named, absent=absent)


def status_of(raw: Row | None) -> Status | None:
    if raw is None:
        return None
    return Reject(*raw["reasons"] or ("?",), resolvable=raw["code"] == "Unschedulable")


@pytest.mark.parametrize("row", rows("preemption", "statuses"))
def test_the_answer_has_the_same_node_and_words(row: Row) -> None:
    ours = bench(row)
    cycle = opened(ours, read(row["pod"], "Pod"))

    result = ours.plugin.post_filter(cycle, diagnosis(row["statuses"]))

    assert told(result.status) == expected(row["status"])
    assert result.node_name == row["node"]


@pytest.mark.parametrize(
    "row", [each for each in rows("preemption") if "eligible" in each.values[0]]
)
def test_the_same_pods_may_preempt(row: Row) -> None:
    ours = bench(row)
    pod = read(row["pod"], "Pod")
    refused = status_of(row["status"]) or Reject("?")
    statuses = {pod.status.nominated_node_name: refused}

    result = ours.plugin.post_filter(opened(ours, pod), Diagnosis(1, statuses=statuses))

    message = "" if result.status is None else result.status.message
    assert (TERMINATING not in message and "Never" not in message) is row["eligible"]
