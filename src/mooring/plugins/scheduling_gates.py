"""SchedulingGates: a pod with scheduling gates does not enter the queue."""

from __future__ import annotations

from mooring.framework import Reject, Status
from mooring.state import PodInfo


class SchedulingGates:
    """Holds pods back until somebody has removed every gate.

    Source: pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go.
    """

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Status | None:
        """Refuse a pod that has gates, naming them."""
        gates = pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        return Reject(f"waiting for scheduling gates: [{names}]", resolvable=False)
