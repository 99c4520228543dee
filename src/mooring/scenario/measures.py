"""The measures of a run: one number each, with formula and unit.

``docs/reference/measures.md`` has a line for each; a test compares it with ``MEASURES``. Names with
``RESOURCE`` exist for each resource of the nodes, those with ``PLUGIN`` for each plugin that
refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from mooring.scenario.history import (
    DELETED,
    EVICTED,
    FAILED,
    PENDING,
    PREEMPTED,
    RUNNING,
    STATES,
    SUCCEEDED,
)

if TYPE_CHECKING:
    from mooring.scenario.curves import Curves
    from mooring.scenario.history import History, NodeRow

#: Begins the names of the measures that a summary has only of plugins that refused.
REFUSED: Final = "refused."
#: The least run time in a slowdown, so that tiny pods do not decide it.
SLOWDOWN_RUN_MIN_S: Final = 10.0
_HOUR_S: Final = 3600.0


class Measure(NamedTuple):
    """One measure: its name, unit ("1" = a share or a ratio), and formula in words."""

    name: str
    unit: str
    formula: str


_OF_WAITS: Final = tuple(
    Measure(f"{name}.{which}", unit, f"{text} {of}")
    for name, unit, of in (
        ("wait", "s", "of the waits, from creation to binding, of all bound pods"),
        ("turnaround", "s", "from creation to end, of all pods that succeeded"),
        ("slowdown", "1", "of max(1, (wait + run) / max(run, 10 s)), of all pods that succeeded"),
    )
    for which, text in (
        ("mean", "mean"),
        ("p50", "median (the smallest value with half of the pods at or below)"),
        ("p90", "0.9 quantile"),
        ("p99", "0.99 quantile"),
        ("max", "largest"),
    )
)

MEASURES: Final = (
    Measure("pods.created", "pods", "pods that were created, those of the start included"),
    Measure("pods.bound", "pods", "pods that were bound"),
    Measure("pods.succeeded", "pods", "pods that ended by themselves, and well"),
    Measure("pods.failed", "pods", "pods that failed"),
    Measure("pods.deleted", "pods", "pods that were deleted by a person or a controller"),
    Measure("pods.evicted", "pods", "pods that drains, crashes or the autoscaler removed"),
    Measure("pods.preempted", "pods", "pods that were removed for a pod of higher priority"),
    Measure("pods.pending", "pods", "pods without a node at the end"),
    Measure("pods.running", "pods", "pods on nodes at the end"),
    *_OF_WAITS,
    Measure("attempts.mean", "1", "attempts of the scheduler / pods created"),
    Measure("attempts.errors", "attempts", "attempts that ended with an error"),
    Measure("refused.PLUGIN", "attempts", "failed attempts in which the plugin refused a node"),
    Measure(
        "allocated.RESOURCE",
        "1",
        "integral of the requests of bound pods / integral of the allocatable amounts",
    ),
    Measure("allocated.RESOURCE.max", "1", "largest requests of bound pods / largest allocatable"),
    Measure(
        "demanded.RESOURCE",
        "1",
        "integral of the requests of all unfinished pods / integral of the allocatable amounts",
    ),
    Measure(
        "stranded.RESOURCE",
        "1",
        "integral of what is free on nodes where no waiting pod would fit by its requests, while"
        " pods wait / integral of the allocatable amounts",
    ),
    Measure(
        "fragmentation.RESOURCE",
        "1",
        "integral of what is free and of no use to a pod, the mean over all pods that came until"
        " then / integral of the allocatable amounts",
    ),
    Measure("pending.mean", "pods", "integral of the number of pods without a node / length"),
    Measure("pending.max", "pods", "largest number of pods without a node"),
    Measure("length", "s", "from the start to the end of the run"),
    Measure("makespan", "s", "from the first creation of a pod to the last end of one"),
    Measure("throughput", "pods/s", "pods that succeeded / makespan"),
    Measure("evictions", "pods", "evictions by drains, crashes and the autoscaler"),
    Measure("preemptions", "pods", "evictions by the scheduler"),
    Measure("lost.pods", "s", "sum of the run times of evicted and preempted pods until then"),
    Measure("lost.cpu", "core hours", "the same, each times the cpu that the pod requests"),
    Measure("nodes.mean", "nodes", "integral of the number of nodes / length"),
    Measure("nodes.max", "nodes", "largest number of nodes"),
    Measure("nodes.hours", "node hours", "integral of the number of nodes"),
    Measure("nodes.added", "nodes", "nodes that came after the start"),
    Measure("nodes.removed", "nodes", "nodes that left before the end"),
    Measure("cost", "price", "sum over nodes of their hours times their price"),
    Measure("jobs.created", "jobs", "Jobs that were created"),
    Measure("jobs.complete", "jobs", "Jobs that are complete"),
    Measure("jobs.failed", "jobs", "Jobs that failed"),
    Measure("jobs.turnaround.mean", "s", "mean from creation to end of complete Jobs"),
    Measure("jobs.turnaround.max", "s", "largest from creation to end of complete Jobs"),
)


def measure_names(resources: Iterable[str]) -> list[str]:
    """Returns the names of the measures that a run with these resources (short names) has."""
    own = [*resources]
    return [
        name
        for measure in MEASURES
        if "PLUGIN" not in measure.name
        for name in (
            [measure.name.replace("RESOURCE", resource) for resource in own]
            if "RESOURCE" in measure.name
            else [measure.name]
        )
    ]


def quantiles(values: Any) -> dict[str, float]:
    """Returns mean, p50, p90, p99 and max of some values (float64, any order); {} of none.

    A quantile is the smallest value with at least that share of the values at or below it.
    """
    if not len(values):
        return {}
    ordered = np.sort(values)
    result = {"mean": math.fsum(ordered) / len(ordered)}
    for name, share in (("p50", 0.5), ("p90", 0.9), ("p99", 0.99)):
        result[name] = float(ordered[max(0, math.ceil(share * len(ordered)) - 1)])
    return {**result, "max": float(ordered[-1])}


def slowdowns(wait_s: Any, run_s: Any) -> Any:
    """Returns bounded slowdowns: float64, as the arguments."""
    return np.maximum(1.0, (wait_s + run_s) / np.maximum(run_s, SLOWDOWN_RUN_MIN_S))


def summary_of(
    history: History,
    curves: Curves,
    *,
    end_s: float,
    names: Mapping[str, str],
    prices: Mapping[str, float],
    nodes_at_start: int,
) -> dict[str, float]:
    """Returns all measures of a run by name.

    Args:
        history: Its pods, nodes, jobs and counts.
        curves: Its step functions, finished.
        end_s: Its length.
        names: Resource -> short name.
        prices: Prefix of node names -> price of an hour.
        nodes_at_start: Number of nodes at the start.
    """
    summary: dict[str, float] = {}
    summary.update(_of_pods(history))
    for plugin, count in sorted(history.refusals.items()):
        summary[f"{REFUSED}{plugin}"] = count
    for resource, name in names.items():
        whole = curves.area(f"allocatable.{resource}")
        for kind in ("allocated", "demanded", "stranded", "fragmentation"):
            summary[f"{kind}.{name}"] = _ratio(curves.area(f"{kind}.{resource}"), whole)
        highest = curves.max(f"allocatable.{resource}")
        summary[f"allocated.{name}.max"] = _ratio(curves.max(f"allocated.{resource}"), highest)
    summary["pending.mean"], summary["pending.max"] = curves.mean("pending"), curves.max("pending")
    summary["length"] = end_s
    summary["nodes.mean"], summary["nodes.max"] = curves.mean("nodes"), curves.max("nodes")
    summary["nodes.hours"] = curves.area("nodes") / _HOUR_S
    summary["nodes.added"] = len(history.nodes) - nodes_at_start
    summary["nodes.removed"] = sum(not math.isnan(node.removed_s) for node in history.nodes)
    summary["cost"] = math.fsum(cost_of(node, prices, end_s) for node in history.nodes)
    summary.update(_of_jobs(history))
    return summary


def cost_of(node: NodeRow, prices: Mapping[str, float], end_s: float) -> float:
    """Returns the cost of a node: its hours times the price of the longest prefix of its name."""
    prefixes = [prefix for prefix in prices if node.name.startswith(prefix)]
    if not prefixes:
        return 0.0
    removed_s = end_s if math.isnan(node.removed_s) else node.removed_s
    return (removed_s - node.added_s) / _HOUR_S * prices[max(prefixes, key=len)]


def _of_pods(history: History) -> dict[str, float]:
    pods = history.pods
    states = np.array(pods.states, np.int8)
    submitted, bound = np.array(pods.submitted_s), np.array(pods.bound_s)
    finished, lost = np.array(pods.finished_s), np.array(pods.lost_s)
    succeeded = states == STATES.index(SUCCEEDED)
    summary: dict[str, float] = {"pods.created": len(pods)}
    summary["pods.bound"] = int((~np.isnan(bound)).sum())
    for state in (SUCCEEDED, FAILED, DELETED, EVICTED, PREEMPTED, PENDING, RUNNING):
        summary[f"pods.{state.lower()}"] = int((states == STATES.index(state)).sum())
    waits = bound - submitted
    ends = (finished - submitted)[succeeded]
    runs = (finished - bound)[succeeded]
    for name, values in (
        ("wait", waits[~np.isnan(waits)]),
        ("turnaround", ends),
        ("slowdown", slowdowns(waits[succeeded], runs)),
    ):
        summary.update({f"{name}.{which}": v for which, v in quantiles(values).items()})
    summary["attempts.mean"] = _ratio(sum(pods.attempts), len(pods))
    summary["attempts.errors"] = history.counts["errors"]
    summary["evictions"] = history.counts["evictions"]
    summary["preemptions"] = history.counts["preemptions"]
    summary["lost.pods"] = math.fsum(lost)
    cpu = np.array(pods.requests["cpu"], np.float64)
    summary["lost.cpu"] = math.fsum(lost * cpu) / 1000 / _HOUR_S
    ended = finished[~np.isnan(finished)]
    if len(ended):
        summary["makespan"] = float(ended.max() - submitted.min())
        summary["throughput"] = _ratio(int(succeeded.sum()), summary["makespan"])
    return summary


def _of_jobs(history: History) -> dict[str, float]:
    jobs = history.jobs
    summary: dict[str, float] = {"jobs.created": len(jobs)}
    for name, state in (("complete", SUCCEEDED), ("failed", FAILED)):
        summary[f"jobs.{name}"] = sum(job.state == state for job in jobs)
    times = quantiles(
        np.array([job.finished_s - job.submitted_s for job in jobs if job.state == SUCCEEDED])
    )
    for which in ("mean", "max"):
        if which in times:
            summary[f"jobs.turnaround.{which}"] = times[which]
    return summary


def _ratio(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0
