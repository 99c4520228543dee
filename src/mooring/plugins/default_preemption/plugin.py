"""DefaultPreemption: selects a node and victims of lower priority for an unschedulable pod.

The plugin only selects; the scheduler evicts the victims. The victims of each node are computed in
``dry_run``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType

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
from mooring.plugins.default_preemption.dry_run import (
    DryRunCandidate,
    DryRunResult,
    dry_run_preemption,
)
from mooring.state import NodeTable, PodInfo

NEVER = "not eligible due to preemptionPolicy=Never."
TERMINATING = "not eligible due to a terminating pod on the nominated node."
NO_HELP = Reject("Preemption is not helpful for scheduling", resolvable=False)
WAITING = "waiting for the preemption for this pod to be finished"

#: The condition of a pod that is evicted, and the reason of an eviction by a scheduler.
DISRUPTION_TARGET = "DisruptionTarget"
REASON_PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"


class DefaultPreemption:
    """Selects the best candidate for preemption; gates the pod while its victims are evicted.

    Complexity: see ``dry_run_preemption``; the arguments limit the number of nodes evaluated.

    Source: framework/plugins/defaultpreemption/default_preemption.go,
    framework/preemption/preemption.go. *Differs:* of equal candidates it selects the first one,
    upstream any of them; and pods that have not started count as started last.
    """

    name = "DefaultPreemption"
    needs = ("PodDisruptionBudget",)

    def __init__(
        self,
        args: DefaultPreemptionArgs | None,
        handle: Handle,
        gates: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        """Creates the plugin; ``handle`` provides randomness and ``is_preempting``.

        ``gates``: whether victims are evicted while other pods are scheduled.
        """
        self._is_async = gates.get("SchedulerAsyncPreemption", True)
        self._args = args if args is not None else DefaultPreemptionArgs()
        self._handle = handle

    def sign(self, pod: PodInfo) -> Hashable:
        """Returns the same signature for all pods: the queueing hint does not depend on them."""
        del pod
        return ()

    def pre_enqueue(self, pod: PodInfo) -> Reject | None:
        """Gates a pod while its victims are being evicted."""
        if self._is_async and self._handle.is_preempting(pod.uid):
            return Reject(WAITING, resolvable=False)
        return None

    def events(self) -> list[ClusterEventWithHint]:
        """Registers deleted pods, so that ``pre_enqueue`` runs again for gated pods.

        The hint never queues: the hints of the plugins that rejected the pod decide. Nothing is
        registered if no pod is gated, since the next one is scheduled after the evictions.
        """
        if not self._is_async:
            return []
        deleted = ClusterEvent(EventResource.POD, ActionType.DELETE)
        return [ClusterEventWithHint(deleted, _never_queue, pure=True)]

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Selects the best candidate for preemption, if there is any."""
        ineligible_reason = _ineligible_reason(cycle, diagnosis)
        if ineligible_reason:
            return PostFilterResult(Reject(f"preemption: {ineligible_reason}"))
        nodes = cycle.snapshot.nodes
        rows = diagnosis.rows_of(Code.UNSCHEDULABLE, nodes)
        if not len(rows):
            return PostFilterResult(_no_candidates_status(nodes, DryRunResult()), "")
        offset = int(self._handle.random() * len(rows))
        result = dry_run_preemption(cycle, np.roll(rows, -offset), self._candidate_count(len(rows)))
        if not result.candidates and result.errors:
            return PostFilterResult(NodeError(f"preemption: {_join_errors(result.errors)}"))
        if not result.candidates:
            record = Preemption(None, (), {}, ())
            return PostFilterResult(_no_candidates_status(nodes, result), "", record=lambda: record)
        best = min(result.candidates, key=lambda candidate: candidate.rank)
        victims = best.victims()
        return PostFilterResult(
            None,
            nodes.names[best.row],
            victims,
            record=lambda: _record(nodes, result.candidates, best, victims),
            candidates=lambda: [
                Candidate(nodes.names[candidate.row], candidate.victims(), candidate.violations)
                for candidate in result.candidates
            ],
        )

    def _candidate_count(self, node_count: int) -> int:
        """Returns the number of candidates to search for among ``node_count`` nodes."""
        args = self._args
        share = node_count * args.min_candidate_nodes_percentage // 100
        return min(node_count, max(share, args.min_candidate_nodes_absolute))


def _ineligible_reason(cycle: Cycle, diagnosis: Diagnosis) -> str:
    """Returns why the pod must not preempt now; "" = it may."""
    pod, nodes = cycle.pod, cycle.snapshot.nodes
    if pod.spec.preemption_policy == "Never":
        return NEVER
    # The status is written later: an attempt in between must not choose further victims.
    name = cycle.snapshot.nominator.node_of(pod.uid) or pod.status.nominated_node_name
    if not name:
        return ""
    status = diagnosis.status_of(name)
    if status is None or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
        return ""
    row = nodes.live_row(name)
    on_node = cycle.snapshot.pods.on_row(row) if row >= 0 else ()
    for placed in on_node:
        if placed.info.priority < pod.priority and _is_terminating_victim(placed.info):
            return TERMINATING
    return ""


def _is_terminating_victim(pod: PodInfo) -> bool:
    """Returns True if the pod is terminating after an eviction by a scheduler."""
    if pod.metadata.deletion_timestamp is None:
        return False
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET:
            return condition.status == "True" and condition.reason == REASON_PREEMPTION_BY_SCHEDULER
    return False


def _no_candidates_status(nodes: NodeTable, result: DryRunResult) -> Reject:
    """Returns the status if no node is a candidate: the reasons with their counts."""
    diagnosis = Diagnosis(len(nodes), result.reasons, absent=NO_HELP)
    diagnosis.absent_count = len(nodes) - result.count
    return Reject(f"preemption: {diagnosis.message}")


def _join_errors(errors: list[str]) -> str:
    """Joins errors into one text, without duplicates."""
    distinct = list(dict.fromkeys(errors))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _record(
    nodes: NodeTable,
    candidates: list[DryRunCandidate],
    best: DryRunCandidate,
    victims: tuple[PodInfo, ...],
) -> Preemption:
    """Returns the record of the preemption for a Decision."""
    in_order = sorted(candidates, key=lambda candidate: nodes.names[candidate.row])
    return Preemption(
        nominated=nodes.names[best.row],
        victims=_keys(victims),
        candidates={
            nodes.names[candidate.row]: PreemptionCandidate(
                _keys(candidate.victims()), candidate.violations
            )
            for candidate in in_order
        },
        acceptable=tuple(
            nodes.names[candidate.row] for candidate in in_order if candidate.rank == best.rank
        ),
    )


def _keys(pods: tuple[PodInfo, ...]) -> tuple[str, ...]:
    return tuple(sorted(pod.key for pod in pods))


def _never_queue(_: PodInfo, _old: Pod, _new: Pod | None) -> QueueingHint:
    return QueueingHint.SKIP
