"""The liveness properties that must hold at the end of a run, with a working network.

::

    network works ── 75 s ──> L2, L6 ── 130 s ──> L3: written ── 345 s ──> L3, L4: all were retried
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.queue import QueueName
from mooring.scheduler.service import Service
from tests.faults.harness.checkers import SCHEDULER, StoreChecker
from tests.faults.harness.faults import FaultyNetwork, now_s
from tests.faults.harness.plugins import raises_for_ever
from tests.faults.harness.reference_topology import (
    World,
    has_affinity_to,
    without_deletions,
)
from tests.faults.harness.scenario_user import PODS
from tests.faults.harness.scheduler_checker import SchedulerChecker

#: Seconds after the end of the last fault, and after a failed attempt, until its condition must be
#: written: the longest Retry-After is 120 s, the longest pause between two tries 66 s.
WRITTEN_S: Final = 130.0
#: Until every unschedulable pod was retried: flush after 5 minutes, checked every 30 s; backoff.
RETRIED_S: Final = 345.0

#: Stands for a pod without a PodScheduled=False condition.
NOTHING: Final = "nothing"

#: What follows the message of a pod that is quarantined.
QUARANTINED: Final = "; quarantined for "


class FinalChecker:
    """Yields what is wrong with the pods after the faults have ended.

    Args:
        store: The stored objects.
        checker: The attempts and their messages.
        network: Knows which pods are excused.
    """

    def __init__(
        self, store: StoreChecker, checker: SchedulerChecker, network: FaultyNetwork
    ) -> None:
        self._store = store
        self._checker = checker
        self._network = network

    def unbound_pods(self) -> Iterator[str]:
        """Yields violations of L2: pods that fit a node but are not bound."""
        pods = self._store.pods.values()
        placed = [(pod, pod.spec.node_name) for pod in pods]
        world = World(self._store.nodes, placed)
        staying = without_deletions(self._store.nodes, placed)
        # As in kube-scheduler, the deletion of their nodes requeues no pod with affinity to them.
        orphans = [pod for pod in pods if pod.spec.node_name not in ("", *self._store.nodes)]
        for pod in self._store.pending():
            if self._is_broken(pod) or any(has_affinity_to(pod, orphan) for orphan in orphans):
                continue
            for name in self._store.nodes:
                if world.fit_error(pod, name) or staying.fit_error(pod, name):
                    continue
                if not self._is_held(pod, name):
                    yield f"{key(pod)} fits {name}, but is not bound"

    def _is_held(self, pod: Pod, node_name: str) -> bool:
        """Returns whether a pod leaves its room to pods that are nominated to the node.

        They wait for a victim that terminates there. As in kube-scheduler, two preemptors of the
        same priority leave it to each other until the victim is gone.
        """
        pods = self._store.pods.values()
        bound = [(other, other.spec.node_name) for other in pods]
        is_waited_for = any(
            other.spec.node_name == node_name and other.metadata.deletion_timestamp is not None
            for other in pods
        )
        nominated = [
            (other, node_name)
            for other in self._store.pending()
            if other is not pod
            and other.status.nominated_node_name == node_name
            and (other.spec.priority or 0) >= (pod.spec.priority or 0)
        ]
        return is_waited_for and bool(
            World(self._store.nodes, bound + nominated).fit_error(pod, node_name)
        )

    def informer_lag(self, service: Service) -> Iterator[str]:
        """Yields violations of L6: informers that differ from the server."""
        pods = {key(pod): pod.metadata.resource_version for pod in self._store.pods.values()}
        nodes = {name: node.metadata.resource_version for name, node in self._store.nodes.items()}
        for kind, expected in (("Pod", pods), ("Node", nodes)):
            objects = service.informers[kind].objects
            cached = {name: obj.metadata.resource_version for name, obj in objects.items()}
            if cached != expected:
                yield f"{kind}: {set(cached.items()) ^ set(expected.items())} differ"

    def differing_nominations(self, service: Service) -> Iterator[str]:
        """Yields violations of L3: nominations that are stored otherwise than in memory.

        A gated pod keeps the nomination that it was created with, which counts nowhere; that of a
        pod which is being bound is announced, and the pod is assumed.
        """
        for pod in self._store.pending():
            queued = service.queue.get(pod.metadata.uid)
            is_gated = queued is not None and queued.queue_name is QueueName.GATED
            expected = "" if is_gated else pod.status.nominated_node_name
            in_memory = service.cache.nominator.node_of(pod.metadata.uid)
            is_binding = service.cache.is_assumed(pod.metadata.uid)
            is_written = not (is_binding or self.is_exempt(pod) or raises_for_ever(pod))
            if is_written and in_memory != expected:
                yield f"{key(pod)} is nominated to {in_memory!r}, but to {expected!r} in the store"

    def missing_condition(self) -> Iterator[str]:
        """Yields violations of L3: pending pods without a condition for their last attempt."""
        for pod in self._store.pending():
            expected = self._checker.messages.get(pod.metadata.uid, (0.0, NOTHING))[1]
            written = condition_of(pod)
            # A pod in quarantine has no later attempt that would write it again.
            is_overwritten = self.is_exempt(pod) and raises_for_ever(pod)
            if written != expected and not is_overwritten:
                yield f"{key(pod)} has the condition {written!r}, expected {expected!r}"
            n_nodes = len(self._store.nodes)
            if not self._is_broken(pod) and not expected.startswith(
                f"0/{n_nodes} nodes are available"
            ):
                yield f"{key(pod)} failed with {expected!r}, but there are {n_nodes} nodes"

    def overdue_condition(self) -> Iterator[str]:
        """Yields violations of L3: pods whose failure is not written after ``WRITTEN_S``."""
        for pod in self._store.pending():
            failed_at_s, expected = self._checker.messages.get(pod.metadata.uid, (now_s(), NOTHING))
            written = condition_of(pod)
            is_overdue = now_s() - failed_at_s > WRITTEN_S and not self.is_exempt(pod)
            if is_overdue and written != expected:
                yield f"{key(pod)} has the condition {written!r}, not {expected!r}: dropped"

    def stale_condition(self) -> Iterator[str]:
        """Yields violations of L3: pods bound by the scheduler with PodScheduled=False."""
        for uid, bound in self._store.bindings.items():
            pod = self._store.pods.get(uid)
            if pod is None or bound.actor != SCHEDULER or self.is_exempt(pod):
                continue
            if condition_of(pod) != NOTHING:
                yield f"{key(pod)} is bound, but has the condition {condition_of(pod)!r}"

    def is_exempt(self, pod: Pod) -> bool:
        """Returns whether a delayed status update of the pod may have arrived after a later one."""
        return f"{PODS}/{pod.metadata.name}/status" in self._network.delayed

    def _is_broken(self, pod: Pod) -> bool:
        """Returns whether the bindings of the pod are refused, or a plugin raises for ever."""
        path = f"{PODS}/{pod.metadata.name}/binding"
        return raises_for_ever(pod) or bool(self._network.broken_code(path))

    def starved(self) -> Iterator[str]:
        """Yields violations of L4: pending pods without a recent attempt.

        Pods at which a plugin raises for ever are quarantined, for up to an hour.
        """
        for pod in self._store.pending():
            if raises_for_ever(pod):
                continue
            attempted_at_s = self._checker.attempted_at_s.get(pod.metadata.uid, -1.0)
            if now_s() - attempted_at_s > RETRIED_S:
                yield f"{key(pod)} was last attempted at {attempted_at_s:.1f} s"


def condition_of(pod: Pod) -> str:
    """Returns the message of the PodScheduled condition, without that of a quarantine."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "False":
            return condition.message.partition(QUARANTINED)[0]
    return NOTHING
