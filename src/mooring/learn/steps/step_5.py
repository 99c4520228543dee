"""Step 5: a pod that has a node may have to wait before it is bound, and holds up nobody.

Permit is the last word: go on, not this pod, or wait. So binding becomes a task of its own.
"""

from __future__ import annotations

from mooring import Cycle, Diagnosis, PodInfo, SchedulerError, Status, Wait
from mooring.framework.interface import Handle
from mooring.framework.runtime import bind as binding
from mooring.framework.waiting_pods import WaitingPod
from mooring.learn import told
from mooring.learn.steps import step_3, step_4
from mooring.objects import Pod
from mooring.plugins import NodeUnschedulable
from mooring.scheduler.binding_cycle import wait_on_permit


class NodeNumber(step_4.NodeNumber):
    """Lets a pod go to node5 after five seconds, and to a node without a number at once."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def permit(self, cycle: Cycle, node_name: str) -> Wait | None:
        """Wait for as many seconds as the node's number says, and never more than ten."""
        wait_s, uid = int(step_3.last_digit(node_name) or 0), cycle.pod.uid
        if wait_s:
            self._handle.call_later(wait_s, lambda: self._allow(uid))
        return Wait(10.0) if wait_s else None

    def _allow(self, uid: str) -> None:
        if (waiting := self._handle.waiting_pod(uid)) is not None:  # it may be gone by now
            waiting.allow(self.name)


class Scheduler(step_4.Scheduler):
    """As before, but bindings run beside the decisions."""

    def plugins(self) -> list[object]:
        """As before, with the new NodeNumber."""
        return [NodeUnschedulable(), NodeNumber(self.handle)]

    async def schedule_one(self, pod: Pod) -> None:
        """Choose a node and ask Permit; the rest is a task's."""
        self.tell("popped", pod)
        found = self.permitted(PodInfo(pod))
        if isinstance(found, Diagnosis):
            self.try_later(pod, found.message)
        else:
            self.tasks.create_task(self.bind(pod, *found))

    def permitted(self, pod: PodInfo) -> tuple[str, WaitingPod | None] | Diagnosis:
        """The node, and the wait there if a plugin wants one; or why there is none."""
        cycle, found = self.decide(pod)
        if isinstance(found, Diagnosis):
            return found
        name, now_s = found.node_name, self.clock.monotonic_s()
        answer = binding.permit(self.framework, cycle, name, now_s=now_s)
        return (
            binding.rejection_diagnosis(name, answer)
            if isinstance(answer, Status)
            else (name, answer)
        )

    async def bind(self, pod: Pod, node_name: str, waiting: WaitingPod | None) -> None:
        """Wait if a plugin wants it, then bind the pod."""
        if waiting is not None:
            self.tell("waiting", pod, node_name, ", ".join(waiting.pending_plugins))
            refusal = await wait_on_permit(waiting, self.clock)
            self.handle.waiting.remove(pod.metadata.uid)
            if refusal is not None:
                return self.put_back(pod, binding.rejection_diagnosis(node_name, refusal))
            self.tell("allowed", pod, node_name)
        try:
            await self.client.bind(pod, node_name)
            self.tell("bound", pod, node_name)
        except SchedulerError as error:
            self.put_back(pod, error)

    def put_back(self, pod: Pod, why: Diagnosis | SchedulerError) -> None:
        """The pod does not get its node after all."""
        self.try_later(pod, told(why))
