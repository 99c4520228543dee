"""SchedulingGates: a pod with scheduling gates does not enter the active queue."""

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
    """Gates pods until every scheduling gate is removed.

    Source: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go.
    """

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Rejects a pod that has gates; the reason names them."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Reject(f"waiting for scheduling gates: [{names}]", resolvable=False)

    def events(self) -> list[ClusterEventWithHint]:
        """Registers the removal of a pod's last gate."""
        action = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return [ClusterEventWithHint(ClusterEvent(EventResource.POD, action), _after_gates_removed)]


def _after_gates_removed(pod: PodInfo, _: Pod | None, new: Pod) -> QueueingHint:
    """Queues if the gates were those of the pod itself."""
    return QueueingHint.queue_if(new.metadata.uid == pod.uid)
