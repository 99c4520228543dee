"""The scheduling algorithm: from a pod and a snapshot of the cluster to one node.

Source: pkg/scheduler/schedule_one.go (schedulePod).
"""

from __future__ import annotations

from mooring.framework.cycle_state import Cycle
from mooring.framework.diagnosis import Diagnosis
from mooring.framework.runtime import filter as filtering
from mooring.framework.runtime import score
from mooring.framework.runtime.attempt import Attempt, Placement
from mooring.framework.runtime.framework import Framework


def schedule_pod(framework: Framework, cycle: Cycle, attempt: Attempt) -> Placement | Diagnosis:
    """Chooses a node for the pod of ``cycle``; records the plugins' results in ``attempt``.

    Raises:
        PluginError: if a plugin raised or broke its contract; the pod is to be retried.
    """
    # Each attempt makes the list of nodes to visit, if nodes came or went: as upstream's snapshot.
    if not cycle.snapshot.nodes.order.rows():
        return Diagnosis(0)
    feasible = filtering.find_nodes_that_fit(framework, cycle, attempt)
    if isinstance(feasible, Diagnosis):
        return feasible
    return score.select_host(framework, cycle, attempt, feasible)
