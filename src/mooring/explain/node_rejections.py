"""The pods that wait, by the reasons why one node rejects them.

Each pod is decided on this node alone, by all its filters: as ``explain`` decides it on all nodes.
Extenders are not called, and preemption is not tried.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nsmallest
from typing import Final

import msgspec

from mooring.decision import Rejection
from mooring.explain.running import JSON, Explanation
from mooring.framework import Framework
from mooring.framework.runtime.all_rejections import all_rejections
from mooring.framework.status import Code
from mooring.objects.meta import key
from mooring.objects.pod import Pod
from mooring.queue import QueuedPod, QueueName, profile_of
from mooring.scheduler.service import Service
from mooring.state import Snapshot

#: Pods that are decided: each takes some milliseconds of the scheduler at thousands of nodes.
PODS_MAX: Final = 100
#: The queues whose pods wait for a node; pods that a gate holds back wait for something else.
WAITING: Final = frozenset({QueueName.ACTIVE, QueueName.BACKOFF, QueueName.UNSCHEDULABLE})

#: The rejections of a pod on the node; empty = it fits.
Rejections = tuple[Rejection, ...]


class PendingPod(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pod that waits.

    Attributes:
        pod: "namespace/name".
        state: ``active``, ``backoff`` or ``unschedulable``.
        attempt: The number of the recorded attempt that decided it; 0 = it was decided now.
    """

    pod: str
    state: str
    attempt: int = 0


class RejectedPods(msgspec.Struct, frozen=True):
    """Pods that a node rejects for the same reasons.

    Attributes:
        rejections: Plugins and reasons, in the order of the plugins; empty = the pods fit.
        pods: The pods, in the order of the queue.
    """

    rejections: Rejections
    pods: list[PendingPod]


class NodeRejections(msgspec.Struct, frozen=True, rename="camel"):
    """The pods that wait, by their rejections on one node.

    Attributes:
        node: The name of the node.
        pending: The number of pods that wait.
        looked_at: How many of them were looked at: those of the highest priority.
        note: Where they were decided, or why they were not; "" = by the running scheduler, now.
        groups: Those that fit first, then by number of pods.
    """

    node: str
    pending: int
    looked_at: int
    note: str
    groups: list[RejectedPods]


def node_rejections(
    node: str,
    decided: Iterable[tuple[PendingPod, Rejections]],
    *,
    pending: int,
    looked_at: int,
    note: str = "",
) -> NodeRejections:
    """Returns decided pods, grouped by their rejections."""
    groups: dict[Rejections, list[PendingPod]] = {}
    for pod, rejections in decided:
        groups.setdefault(rejections, []).append(pod)
    ordered = sorted(groups.items(), key=lambda item: (bool(item[0]), -len(item[1])))
    return NodeRejections(
        node, pending, looked_at, note, [RejectedPods(*group) for group in ordered]
    )


async def running_node_rejections(service: Service, node: str) -> NodeRejections | None:
    """Returns the rejections on a node of a running scheduler; None = there is no such node.

    Other tasks run between two pods, so the scheduler goes on.
    """
    if service.cache.nodes.live_row(node) < 0:
        return None
    waiting = [entry for entry in service.queue.pods() if entry.queue_name in WAITING]
    first = nsmallest(PODS_MAX, waiting, key=_queue_order)
    decided: list[tuple[PendingPod, Rejections]] = []
    for entry in first:
        pods = [(entry.pod.pod, entry.queue_name.value)]
        decided += decide_on_node(node, pods, service.profiles, service.cache.snapshot)
        await asyncio.sleep(0)
    return node_rejections(node, decided, pending=len(waiting), looked_at=len(first))


def decide_on_node(
    node: str,
    pods: Iterable[tuple[Pod, str]],
    profiles: Mapping[str, Framework],
    snapshot_of: Callable[[], Snapshot],
) -> Iterator[tuple[PendingPod, Rejections]]:
    """Yields the rejections of pods on a node; pods of other schedulers are left out.

    Args:
        node: The name of the node; if it is gone, no pod is decided.
        pods: The pods with their states.
        profiles: schedulerName -> plugins.
        snapshot_of: Returns the cluster as it is.
    """
    for pod, state in pods:
        framework, snapshot = profiles.get(profile_of(pod)), snapshot_of()
        if framework is None or snapshot.nodes.live_row(node) < 0:
            continue
        of_pod, of_nodes, errors = all_rejections(framework, pod, snapshot, node=node)
        failed = [Rejection(name, Code.ERROR.value, (text,)) for name, text in errors.items()]
        yield PendingPod(key(pod), state), (*of_pod, *of_nodes.get(node, ()), *failed)


async def explain_node(service: Service, node: str) -> Explanation:
    """Returns the response of the explain endpoint about a node: ``NodeRejections`` as JSON."""
    rejections = await running_node_rejections(service, node)
    if rejections is None:
        return Explanation(404, f"no node {node!r} in the cluster")
    return Explanation(200, msgspec.json.encode(rejections).decode(), JSON)


def _queue_order(entry: QueuedPod) -> tuple[int, float, str]:
    return -entry.pod.priority, entry.timestamp_s, entry.pod.key
