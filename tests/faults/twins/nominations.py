"""A plain model of who is nominated to which node: written from the changes and the attempts.

::

    a change of the pod (its status names a node) ──┐
    a preemption, or the end of an attempt ─────────┼──> UID -> node
    it is placed, bound, or deleted ────────────────┘

No state of the nominator is read but to compare it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.client import ObjectChange
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod, QueueName
from mooring.scheduler.service import Service


class Nominations:
    """The nominations that a scheduler must have.

    Attributes:
        nodes: UID -> node.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, str] = {}

    def changed(self, change: ObjectChange, *, is_assumed: bool, is_gated: bool) -> None:
        """Follows a change of a pod of ours, or of one that is on a node.

        Args:
            change: The change.
            is_assumed: Whether the pod is being bound.
            is_gated: Whether it has been gated since it was created.
        """
        old, new = change.old, change.new
        if new is None or new.spec.node_name:
            self.nodes.pop((old if new is None else new).metadata.uid, None)
            return
        if is_assumed:
            return
        uid, named = new.metadata.uid, new.status.nominated_node_name
        if old is None:
            if named and not is_gated:
                self.nodes[uid] = named
        elif old.status.nominated_node_name or named:
            self._set(uid, named)

    def placed(self, uid: str) -> None:
        """Follows a pod that is assumed on a node."""
        self.nodes.pop(uid, None)

    def failed(self, uid: str, live: Pod | None, nominated: str | None) -> None:
        """Follows the end of an attempt without a node.

        Args:
            uid: Of the pod.
            live: The newest pod of its name.
            nominated: The node that the attempt nominates it to; "" = none, None = as it was.
        """
        if live is None or live.spec.node_name or live.metadata.uid != uid:
            self._set(uid, "")
        else:
            self._set(uid, live.status.nominated_node_name if nominated is None else nominated)

    def _set(self, uid: str, node_name: str) -> None:
        self.nodes.pop(uid, None)
        if node_name:
            self.nodes[uid] = node_name

    def problem(self, nominator: Any) -> str:
        """Returns how the nominator differs; "" if it does not."""
        real = {info.uid: name for info, name in nominator.pods()}
        by_pod = {uid: nominator.node_of(uid) for uid in real}
        nodes = set(nominator.node_names())
        if real == self.nodes == by_pod and nodes == set(real.values()):
            return ""
        if real == self.nodes:
            return f"nominated are {real}, but {by_pod} by pod, and the nodes are {sorted(nodes)}"
        return f"nominated are {real}, not {self.nodes}"


class AttachedNominations:
    """Compares the nominator of a service with the model after each change and each attempt.

    Args:
        service: The scheduler; its handlers of events have their model already.
        report: Called with each problem.
    """

    def __init__(self, service: Service, report: Callable[[str], None]) -> None:
        self.model = Nominations()
        self._service = service
        self._report = report
        events: Any = service.events
        self._on_change = events.on_change
        events.on_change = self._followed_change
        cache: Any = service.cache
        self._assume = cache.assume
        cache.assume = self._followed_assume
        executor: Any = getattr(service, "preemption_executor", None)
        if executor is not None:
            reporting = executor._reporting
            self._withdraw = reporting.withdraw_nomination
            reporting.withdraw_nomination = self._followed_withdrawal

    def follow_attempts(self, scheduler: Any) -> None:
        """Follows the ends of the attempts of a scheduler."""
        self._fail = scheduler._handle_scheduling_failure
        scheduler._handle_scheduling_failure = self._followed_failure
        scheduler._binding_cycle._handle_failure = self._followed_failure

    def _followed_change(self, kind: str, change: ObjectChange) -> None:
        if kind != "Pod" or self._service.events._buffered_events is not None:
            self._on_change(kind, change)
            return
        pod = change.new if change.new is not None else change.old
        is_assumed = self._service.cache.is_assumed(pod.metadata.uid)
        self._on_change(kind, change)
        name = pod.spec.scheduler_name or "default-scheduler"
        if change.new is None or pod.spec.node_name or name in self._service.profiles:
            queue_name = self._service.queue.queue_of(pod.metadata.uid)
            is_gated = queue_name is QueueName.GATED
            self.model.changed(change, is_assumed=is_assumed, is_gated=is_gated)
        self.compare(f"after a change of {pod.metadata.name}")

    def _followed_withdrawal(self, pod: Pod) -> bool:
        is_withdrawn: bool = self._withdraw(pod)
        if is_withdrawn:
            self.model.nodes.pop(pod.metadata.uid, None)
        return is_withdrawn

    def _followed_assume(self, info: Any, node_name: str) -> Any:
        self.model.placed(info.uid)
        return self._assume(info, node_name)

    def _followed_failure(
        self,
        entry: QueuedPod,
        reason: Any,
        *,
        nominated: str | None = "",
        announced: str | None = None,
        is_binding: bool = False,
    ) -> None:
        self._fail(entry, reason, nominated=nominated, announced=announced, is_binding=is_binding)
        live = self._service.informers["Pod"].objects.get(entry.pod.key)
        self.model.failed(entry.uid, live, nominated)
        self.compare(f"after an attempt of {entry.pod.key}")

    def compare(self, when: str) -> None:
        """Compares all nominations."""
        if problem := self.model.problem(self._service.cache.nominator):
            self._report(f"{when}: {problem}")
