"""What an offline attempt came to."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from mooring.decision import ERROR, GATED, SCHEDULED, UNSCHEDULABLE, Decision
from mooring.framework import Attempt, Cycle, Diagnosis, Framework, Placement
from mooring.framework.runtime.attempt import rejection
from mooring.framework.status import Status
from mooring.state import Nominator, PodInfo

#: Result -> reason of the PodScheduled condition; for a gated pod the API server has set its own.
_CONDITION_REASONS = {UNSCHEDULABLE: "Unschedulable", ERROR: "SchedulerError"}


class Outcome:
    """Where a pod goes, or why nowhere.

    ``result`` is one of scheduled, unschedulable, gated, error; ``node`` a name if scheduled;
    ``message`` kube-scheduler's text otherwise; ``reasons`` counts each reason over the nodes.
    """

    __slots__ = (
        "_attempt",
        "_decision",
        "_diagnosis",
        "_message",
        "cycle",
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
        #: Not placed: the node that PostFilter made room on; "" = none, None = as it was before.
        self.nominated: str | None = None
        #: The pods that have to go so that it fits there.
        self.victims: tuple[PodInfo, ...] = ()
        #: Carried out: the volumes and claims that were bound or made on the way.
        self.updated: tuple[Any, ...] = ()
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
        """A node was found."""
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
        """No node can take the pod; ``nominated`` is where PostFilter made room ("" = nowhere)."""
        outcome = cls(info, UNSCHEDULABLE)
        outcome._diagnosis, outcome._attempt = diagnosis, attempt
        outcome.nominated = nominated
        return outcome

    @classmethod
    def gated(cls, info: PodInfo, gate: Status) -> Outcome:
        """Returns a PreEnqueue plugin holds the pod back."""
        outcome = cls(info, GATED)
        outcome._diagnosis = Diagnosis(0)
        outcome._diagnosis.note_plugin(gate)
        outcome._message = gate.message
        return outcome

    @classmethod
    def turned_back(cls, info: PodInfo, message: str) -> Outcome:
        """PreBind or Bind refused the pod on its way to the node that it had been given.

        That is no verdict on the nodes: no counts in the message, no plugin whose events would wake
        the pod.

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
        """Returns the attempt broke off with an error."""
        outcome = cls(info, ERROR)
        outcome.nominated = nominated
        outcome._message, outcome._attempt = message, attempt
        return outcome

    @property
    def pod(self) -> object:
        """The pod as it was decided about."""
        return self.info.pod

    @property
    def message(self) -> str:
        """kube-scheduler's text for a pod that got no node, "" for one that did."""
        if self._message or self._diagnosis is None:
            return self._message
        return self._diagnosis.message

    @property
    def reasons(self) -> dict[str, int]:
        """Reason -> number of nodes it ruled out."""
        diagnosis = self._diagnosis
        if diagnosis is None or self.result == GATED:
            return {self._message: 1} if self._message else {}
        if diagnosis.node_count == 0:
            return {diagnosis.message: 1}
        counts = dict(diagnosis.reasons)
        whole = diagnosis.pre_filter
        if whole is not None:
            counts.update(dict.fromkeys(whole.reasons, diagnosis.node_count))
        if diagnosis.absent is not None:
            counts.update(dict.fromkeys(diagnosis.absent.reasons, diagnosis.absent_count))
        return counts

    def decision(self) -> Decision:
        """The whole record; ask before the cluster changes (afterwards the first answer stays).

        Raises:
            InvariantViolation: if it is asked for the first time after the cluster has changed.
        """
        if self._decision is None:
            self._decision = self._build()
        return self._decision

    def _build(self) -> Decision:
        if self.result == GATED or self._attempt is None:
            found = self._diagnosis or Diagnosis(0)
            return Decision(
                result=self.result,
                node=None,
                tied=(),
                rejected={name: rejection(status) for name, status in found.statuses.items()},
                unschedulable_plugins=tuple(sorted(found.unschedulable_plugins)),
                pending_plugins=tuple(sorted(found.pending_plugins)),
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
        """Where the pod is nominated to after a failure, "" = nowhere."""
        if self.result not in _CONDITION_REASONS:
            return None
        before = self.info.status.nominated_node_name
        return before if self.nominated is None else self.nominated


def renew_nominations(nominator: Nominator, outcome: Outcome) -> None:
    """The pod got no node: its nomination is what PostFilter made of it.

    If others leave a node for it, pods of a lower priority are nominated to that node no more.
    """
    pod, node_name = outcome.info, outcome.nominated
    for other in nominator.pods_on(node_name or "") if outcome.victims else ():
        if other.priority < pod.priority:
            nominator.remove(other.uid)
    if node_name:
        nominator.nominate(pod, node_name)
    elif node_name is not None:
        nominator.remove(pod.uid)
