"""The outcome of an offline attempt."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.decision import ERROR, GATED, SCHEDULED, UNSCHEDULABLE, Decision
from mooring.framework import Attempt, Cycle, Diagnosis, Framework, Placement
from mooring.framework.runtime.attempt import rejection
from mooring.framework.status import ClaimChange, Status
from mooring.state import Nominator, PodInfo

#: Result -> reason of the PodScheduled condition; for a gated pod the API server has set its own.
_CONDITION_REASONS = {UNSCHEDULABLE: "Unschedulable", ERROR: "SchedulerError"}


class Outcome:
    """The node for a pod, or the reasons why there is none.

    ``result`` is one of scheduled, unschedulable, gated, error; ``node`` a name if scheduled;
    ``message`` kube-scheduler's text otherwise; ``reasons`` counts each reason over the nodes.
    """

    __slots__ = (
        "_attempt",
        "_decision",
        "_diagnosis",
        "_message",
        "claim_change",
        "cycle",
        "deleted_claims",
        "framework",
        "info",
        "node",
        "nominated",
        "result",
        "updated",
        "victims",
    )

    def __init__(self, info: PodInfo, result: str) -> None:
        self.info = info
        self.result = result
        self.node: str | None = None
        #: If not placed: the node nominated by PostFilter; "" = none, None = unchanged.
        self.nominated: str | None = None
        #: The pods to evict from the nominated node.
        self.victims: tuple[PodInfo, ...] = ()
        #: A change of a resource claim that PostFilter needs.
        self.claim_change: ClaimChange | None = None
        #: After ``Driver.apply``: the volumes and claims that were written.
        self.updated: tuple[Any, ...] = ()
        #: After ``Driver.apply``: the keys of the resource claims that were deleted.
        self.deleted_claims: tuple[str, ...] = ()
        self.cycle: Cycle | None = None
        self.framework: Framework | None = None
        self._attempt: Attempt | None = None
        self._diagnosis: Diagnosis | None = None
        self._message = ""
        self._decision: Decision | None = None

    @classmethod
    def placed(
        cls, cycle: Cycle, framework: Framework, placement: Placement, attempt: Attempt
    ) -> Outcome:
        """Returns the outcome of a pod with a node."""
        outcome = cls(cycle.pod, SCHEDULED)
        outcome.node = placement.node_name
        outcome.cycle, outcome.framework, outcome._attempt = cycle, framework, attempt
        return outcome

    @classmethod
    def refused(
        cls,
        info: PodInfo,
        diagnosis: Diagnosis,
        attempt: Attempt | None,
        *,
        nominated: str | None = None,
    ) -> Outcome:
        """Returns an unschedulable outcome; ``nominated`` by PostFilter ("" = no node)."""
        outcome = cls(info, UNSCHEDULABLE)
        outcome._diagnosis, outcome._attempt = diagnosis, attempt
        outcome.nominated = nominated
        return outcome

    @classmethod
    def gated(cls, info: PodInfo, gate: Status) -> Outcome:
        """Returns the outcome of a pod that a PreEnqueue plugin gates."""
        outcome = cls(info, GATED)
        outcome._diagnosis = Diagnosis(0)
        outcome._diagnosis.note_plugin(gate)
        outcome._message = gate.message
        return outcome

    @classmethod
    def rejected_in_binding(cls, info: PodInfo, message: str) -> Outcome:
        """Returns the outcome of a pod that PreBind or Bind rejected.

        The nodes were not rejected: the message has no counts, and no plugin's events requeue the
        pod.

        Source: pkg/scheduler/schedule_one.go (bindingCycle, handleSchedulingFailure).
        """
        outcome = cls(info, UNSCHEDULABLE)
        outcome._message, outcome.nominated = message, ""
        return outcome

    @classmethod
    def failed(
        cls,
        info: PodInfo,
        message: str,
        attempt: Attempt | None = None,
        *,
        nominated: str | None = None,
    ) -> Outcome:
        """Returns the outcome of an attempt that failed with an error."""
        outcome = cls(info, ERROR)
        outcome.nominated = nominated
        outcome._message, outcome._attempt = message, attempt
        return outcome

    @property
    def pod(self) -> object:
        """The pod of the attempt."""
        return self.info.pod

    @property
    def message(self) -> str:
        """kube-scheduler's message for a pod without a node, "" for a placed pod."""
        if self._message or self._diagnosis is None:
            return self._message
        return self._diagnosis.message

    @property
    def reasons(self) -> dict[str, int]:
        """Number of rejected nodes by reason."""
        if self._diagnosis is None or self.result == GATED:
            return {self._message: 1} if self._message else {}
        return reasons_of(self._diagnosis)

    def decision(self) -> Decision:
        """Returns the full record, built on the first call and then cached.

        Raises:
            InvariantViolation: if the first call comes after the cluster has changed.
        """
        if self._decision is None:
            self._decision = self._build()
        return self._decision

    def _build(self) -> Decision:
        if self.result == GATED or self._attempt is None:
            diagnosis = self._diagnosis or Diagnosis(0)
            return Decision(
                result=self.result,
                node=None,
                tied=(),
                rejected={name: rejection(status) for name, status in diagnosis.statuses.items()},
                unschedulable_plugins=tuple(sorted(diagnosis.unschedulable_plugins)),
                pending_plugins=tuple(sorted(diagnosis.pending_plugins)),
                reason=_CONDITION_REASONS.get(self.result),
                message=self.message,
                nominated_node_after=self._nominated_after(),
            )
        decision = self._attempt.decision(self.result, node=self.node, diagnosis=self._diagnosis)
        decision = replace(decision, nominated_node_after=self._nominated_after())
        if self.result == ERROR:
            return replace(decision, reason=_CONDITION_REASONS[ERROR], message=self._message)
        return decision

    def _nominated_after(self) -> str | None:
        """Returns the nominated node after a failure, "" = none."""
        if self.result not in _CONDITION_REASONS:
            return None
        before = self.info.status.nominated_node_name
        return before if self.nominated is None else self.nominated


def decision_of(attempt: Attempt, result: Placement | Diagnosis) -> Decision:
    """Returns the decision of an attempt; call it before the cluster changes."""
    if isinstance(result, Placement):
        return attempt.decision(SCHEDULED, node=result.node_name, diagnosis=None)
    return attempt.decision(UNSCHEDULABLE, node=None, diagnosis=result)


def reasons_of(diagnosis: Diagnosis) -> dict[str, int]:
    """Returns the number of rejected nodes by reason."""
    if diagnosis.node_count == 0:
        return {diagnosis.message: 1}
    counts = dict(diagnosis.reasons)
    pre_filter = diagnosis.pre_filter
    if pre_filter is not None:
        counts.update(dict.fromkeys(pre_filter.reasons, diagnosis.node_count))
    if diagnosis.absent is not None:
        counts.update(dict.fromkeys(diagnosis.absent.reasons, diagnosis.absent_count))
    return counts


def update_nominations(nominator: Nominator, outcome: Outcome) -> None:
    """Updates the nomination of a pod without a node to PostFilter's result.

    If the pod has victims, nominations of lower-priority pods to that node are cleared.
    """
    pod, node_name = outcome.info, outcome.nominated
    for other in nominator.pods_on(node_name or "") if outcome.victims else ():
        if other.priority < pod.priority:
            nominator.remove(other.uid)
    if node_name:
        nominator.nominate(pod, node_name)
    elif node_name is not None:
        nominator.remove(pod.uid)
