"""SchedulingGates: a pod with scheduling gates does not enter the queue."""

from __future__ import annotations

from mooring.cluster_event import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    QueueingHint,
)
from mooring.framework import Reject, Status
from mooring.objects.pod import Pod
from mooring.state import PodInfo


class SchedulingGates:
    """Holds pods back until somebody has removed every gate.

    Source: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go.
    """

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refuses a pod that has gates, naming them."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Reject(f"waiting for scheduling gates: [{names}]", resolvable=False)

    def events(self) -> list[ClusterEventWithHint]:
        """The pod's own last gate is gone."""
        gone = ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return [ClusterEventWithHint(gone, _after_gates_gone)]


def _after_gates_gone(pod: PodInfo, _: Pod | None, new: Pod) -> QueueingHint:
    """Gates of other pods do not matter."""
    return QueueingHint.QUEUE if new.metadata.uid == pod.uid else QueueingHint.SKIP
