"""DefaultPreemption: pods of a lower priority make room for one that fits nowhere.

It only says where, and who has to go: whoever runs the scheduler evicts the victims. Which pods
those are on each node is found in ``default_preemption_dry_run``.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.config.types import DefaultPreemptionArgs
from mooring.decision import Preemption, PreemptionCandidate
from mooring.framework import Code, Cycle, Diagnosis, NodeError, PostFilterResult, Reject
from mooring.framework.interface import Handle
from mooring.framework.status import Candidate
from mooring.objects.pod import Pod
from mooring.plugins.default_preemption.dry_run import DryRunCandidate, DryRunResult, search
from mooring.state import NodeTable, PodInfo

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_HELP = Reject("Preemption is not helpful for scheduling", resolvable=False)
WAITING = "waiting for the preemption for this pod to be finished"

#: The condition of a pod that was made to leave.
DISRUPTION_TARGET = "DisruptionTarget"
REASON_PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"


class DefaultPreemption:
    """Finds the node where the least has to go; holds the pod back while it goes.

    Complexity: see ``search``; the number of nodes tried is limited by the arguments.

    Source: framework/plugins/defaultpreemption/default_preemption.go,
    framework/preemption/preemption.go. *Differs:* of equally good nodes it takes the first one
    found, upstream any of them; and pods that have not started count as started last.
    """

    name = "DefaultPreemption"
    needs = ("PodDisruptionBudget",)

    def __init__(self, args: DefaultPreemptionArgs | None, handle: Handle) -> None:
        """``handle`` gives chance, and knows whose victims are being evicted."""
        self._args = args if args is not None else DefaultPreemptionArgs()
        self._handle = handle

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the hint says the same of all pods."""
        del pod
        return ()

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        """Holds a pod back while its victims are being evicted: it could not be placed yet."""
        if self._handle.is_preempting(pod.uid):
            return Reject(WAITING, resolvable=False)
        return None

    def events(self) -> list[ClusterEventWithHint]:
        """A pod is gone: one that was held back may be asked about again.

        The hint never wakes anybody: that is up to the plugins that refused the pod.
        """
        gone = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return [ClusterEventWithHint(gone, _is_other_scheduler, pure=True)]

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Finds the best node to make room on, if there is any."""
        obstacle = _ineligible_reason(cycle, diagnosis)
        if obstacle:
            return PostFilterResult(Reject(f"preemption: {obstacle}"))
        nodes = cycle.snapshot.nodes
        rows = diagnosis.rows_of(Code.UNSCHEDULABLE, nodes)
        if not len(rows):
            return PostFilterResult(_no_candidates_status(nodes, DryRunResult()), "")
        offset = int(self._handle.random() * len(rows))
        tried = search(cycle, np.roll(rows, -offset), self._wanted(len(rows)))
        if not tried.candidates and tried.errors:
            return PostFilterResult(NodeError(f"preemption: {_join_errors(tried.errors)}"))
        if not tried.candidates:
            nothing = Preemption(None, (), {}, ())
            return PostFilterResult(_no_candidates_status(nodes, tried), "", record=lambda: nothing)
        best = min(tried.candidates, key=lambda candidate: candidate.rank)
        victims = best.victims()
        return PostFilterResult(
            None,
            nodes.names[best.row],
            victims,
            record=lambda: _record(nodes, tried.candidates, best, victims),
            candidates=lambda: [
                Candidate(nodes.names[each.row], each.victims(), each.violations)
                for each in tried.candidates
            ],
        )

    def _wanted(self, count: int) -> int:
        """How many candidates are looked for among ``count`` nodes."""
        args = self._args
        part = count * args.min_candidate_nodes_percentage // 100
        return min(count, max(part, args.min_candidate_nodes_absolute))


def _ineligible_reason(cycle: Cycle, diagnosis: Diagnosis) -> str:
    """Why the pod must not make others leave now; "" = it may."""
    pod, nodes = cycle.pod, cycle.snapshot.nodes
    if pod.spec.preemption_policy == "Never":
        return NEVER
    name = pod.status.nominated_node_name
    if not name:
        return ""
    status = diagnosis.status_of(name)
    if status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    row = nodes.live_row(name)
    on_node = cycle.snapshot.pods.on_row(row) if row >= 0 else ()
    for placed in on_node:
        if placed.info.priority < pod.priority and _is_leaving(placed.info):
            return TERMINATING
    return ""


def _is_leaving(pod: PodInfo) -> bool:
    """Returns whether a pod is being deleted because a scheduler made it leave."""
    if pod.metadata.deletion_timestamp is None:
        return False
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET:
            return condition.status == "True" and condition.reason == REASON_PREEMPTION_BY_SCHEDULER
    return False


def _no_candidates_status(nodes: NodeTable, tried: DryRunResult) -> Reject:
    """What is said if no node is a candidate: a histogram, as that of a failed attempt."""
    counted = Diagnosis(len(nodes), tried.reasons, absent=NO_HELP)
    counted.absent_count = len(nodes) - tried.count
    return Reject(f"preemption: {counted.message}")


def _join_errors(errors: list[str]) -> str:
    """Several errors as one, each told once."""
    told = list(dict.fromkeys(errors))
    return told[0] if len(told) == 1 else f"[{', '.join(told)}]"


def _record(
    nodes: NodeTable,
    candidates: list[DryRunCandidate],
    best: DryRunCandidate,
    victims: tuple[PodInfo, ...],
) -> Preemption:
    """Returns all that was found, as a Decision has it."""
    in_order = sorted(candidates, key=lambda candidate: nodes.names[candidate.row])
    return Preemption(
        nominated=nodes.names[best.row],
        victims=_keys(victims),
        candidates={
            nodes.names[each.row]: PreemptionCandidate(_keys(each.victims()), each.violations)
            for each in in_order
        },
        acceptable=tuple(nodes.names[each.row] for each in in_order if each.rank == best.rank),
    )


def _keys(pods: tuple[PodInfo, ...]) -> tuple[str, ...]:
    return tuple(sorted(pod.key for pod in pods))


def _is_other_scheduler(_: PodInfo, _old: Pod, _new: Pod | None) -> QueueingHint:
    return QueueingHint.SKIP
