"""Step 5: a binding can wait without blocking other pods, since it runs as a task."""

from __future__ import annotations

from mooring import Cycle, Diagnosis, PodInfo, SchedulerError, Status, Wait
from mooring.framework.interface import Handle
from mooring.framework.runtime import bind as binding
from mooring.framework.waiting_pods import WaitingPod
from mooring.learn import failure_text
from mooring.learn.steps import step_3, step_4
from mooring.objects import Pod
from mooring.plugins import NodeUnschedulable
from mooring.scheduler.binding_cycle import wait_on_permit


class NodeNumber(step_4.NodeNumber):
    """Delays a binding to node5 by five seconds; to a node without a number not at all."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def permit(self, cycle: Cycle, node_name: str) -> Wait | None:
        """Waits for as many seconds as the number of the node; the timeout is ten seconds."""
        wait_s, uid = int(step_3.last_digit(node_name) or 0), cycle.pod.uid
        if wait_s:
            self._handle.call_later(wait_s, lambda: self._allow(uid))
        return Wait(10.0) if wait_s else None

    def _allow(self, uid: str) -> None:
        if (waiting := self._handle.waiting_pod(uid)) is not None:  # it may be deleted by now
            waiting.allow(self.name)


class Scheduler(step_4.Scheduler):
    """Runs bindings concurrently with scheduling cycles."""

    def plugins(self) -> list[object]:
        """Returns those of step 4, with the new NodeNumber."""
        return [NodeUnschedulable(), NodeNumber(self.handle)]

    async def schedule_one(self, pod: Pod) -> None:
        """Chooses a node and calls Permit; a task does the rest."""
        self.emit("popped", pod)
        result = self.permitted(PodInfo(pod))
        if isinstance(result, Diagnosis):
            self.try_later(pod, result.message)
        else:
            self.tasks.create_task(self.bind(pod, *result))

    def permitted(self, pod: PodInfo) -> tuple[str, WaitingPod | None] | Diagnosis:
        """Returns the node and the wait in Permit, if any; or why there is no node."""
        cycle, result = self.decide(pod)
        if isinstance(result, Diagnosis):
            return result
        name, now_s = result.node_name, self.clock.monotonic_s()
        waiting = binding.permit(self.framework, cycle, name, now_s=now_s)
        if isinstance(waiting, Status):
            return binding.diagnosis_of(name, waiting)
        return name, waiting

    async def bind(self, pod: Pod, node_name: str, waiting: WaitingPod | None) -> None:
        """Waits in Permit if a plugin requires it, then binds the pod."""
        if waiting is not None:
            self.emit("waiting", pod, node_name, ", ".join(waiting.pending_plugins))
            refusal = await wait_on_permit(waiting, self.clock)
            self.handle.waiting.remove(pod.metadata.uid)
            if refusal is not None:
                return self.put_back(pod, binding.diagnosis_of(node_name, refusal))
            self.emit("allowed", pod, node_name)
        try:
            await self.client.bind(pod, node_name)
            self.emit("bound", pod, node_name)
        except SchedulerError as error:
            self.put_back(pod, error)

    def put_back(self, pod: Pod, why: Diagnosis | SchedulerError) -> None:
        """Retries the pod later: its binding failed."""
        self.try_later(pod, failure_text(why))
