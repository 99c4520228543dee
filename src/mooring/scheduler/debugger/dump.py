"""Dumps the cache and the queue, and compares them with the informers' objects: for SIGUSR2.

``debug_entries`` returns what is to be logged; who handles the signal logs it.

Source: k8s.io/kubernetes pkg/scheduler/backend/cache/debugger (dumper.go, comparer.go).
*Differs:* nodes are in the order of the cache, kube-scheduler's are in none. A pod in flight is in
neither cache nor queue; upstream reports it as missed, we do not. Pods that have finished are no
difference either: upstream's informer does not have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mooring.objects import Node, Pod
from mooring.objects.pod import FINISHED_PHASES
from mooring.queue import QueueName, SchedulingQueue
from mooring.state.cache import Cache

#: Resources with a field of their own in the dump; all others are scalar resources.
_FIELDS: Final = {"cpu": "MilliCPU", "memory": "Memory", "ephemeral-storage": "EphemeralStorage"}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A log line: a message, and its fields in order."""

    message: str
    fields: Mapping[str, Any]


def debug_entries(
    cache: Cache, queue: SchedulingQueue, nodes: Iterable[Node], pods: Iterable[Pod]
) -> list[LogEntry]:
    """Returns the differences and the dump, in the order in which kube-scheduler logs them.

    Args:
        cache: The scheduler's cache.
        queue: Its queue.
        nodes: The nodes of the informer.
        pods: The pods of the informer.
    """
    return [*compare(cache, queue, nodes, pods), *dump(cache, queue)]


def compare(
    cache: Cache, queue: SchedulingQueue, nodes: Iterable[Node], pods: Iterable[Pod]
) -> Iterator[LogEntry]:
    """Yields an entry for nodes and one for pods, if cache and queue differ from the objects.

    As in kube-scheduler, pods of other schedulers that have no node are missed.
    """
    missed, redundant = _difference(
        [node.metadata.name for node in nodes], [cache.nodes.names[row] for row in _rows(cache)]
    )
    if missed or redundant:
        yield LogEntry("Cache mismatch", {"missedNodes": missed, "redundantNodes": redundant})
    cached = [placed.info.uid for placed in cache.pods]
    cached += [entry.uid for entry in queue.pods()]
    actual = [
        pod.metadata.uid
        for pod in pods
        if pod.status.phase not in FINISHED_PHASES
        and queue.queue_of(pod.metadata.uid) is not QueueName.IN_FLIGHT
    ]
    missed, redundant = _difference(actual, cached)
    if missed or redundant:
        yield LogEntry("Cache mismatch", {"missedPods": missed, "redundantPods": redundant})


def dump(cache: Cache, queue: SchedulingQueue) -> Iterator[LogEntry]:
    """Yields an entry with the nodes in the cache, and one with the pods in the queue."""
    nodes = "\n\n".join(_node_text(cache, row) for row in _rows(cache))
    yield LogEntry("Dump of cached NodeInfo", {"nodes": nodes})
    lengths = queue.counts()
    unschedulable = lengths[QueueName.UNSCHEDULABLE] + lengths[QueueName.GATED]
    summary = (
        f"activeQ:{lengths[QueueName.ACTIVE]}; backoffQ:{lengths[QueueName.BACKOFF]}; "
        f"unschedulablePods:{unschedulable}"
    )
    pods = "".join(_pod_text(entry.pod.pod) for entry in queue.pods())
    yield LogEntry("Dump of scheduling queue", {"summary": summary, "pods": pods})


def _rows(cache: Cache) -> list[int]:
    """Returns the rows in use, also those of deleted nodes with pods."""
    return [row for row, name in enumerate(cache.nodes.names) if name]


def _node_text(cache: Cache, row: int) -> str:
    nodes = cache.nodes
    name = nodes.names[row]
    requested = _resource_text(cache, nodes.requested[:, row].tolist(), 0)
    allowed_pods = int(nodes.allowed_pods[row])
    allocatable = _resource_text(cache, nodes.allocatable[:, row].tolist(), allowed_pods)
    pods = cache.pods.on_row(row)
    lines = [
        f"Node name: {name}\n",
        f"Deleted: {'true' if nodes.objects[row] is None else 'false'}\n",
        f"Requested Resources: {requested}\n",
        f"Allocatable Resources:{allocatable}\n",
        f"Scheduled Pods(number: {len(pods)}):\n",
        *(_pod_text(placed.info.pod) for placed in pods),
    ]
    nominated = cache.nominator.pods_on(name)
    if nominated:
        lines.append(f"Nominated Pods(number: {len(nominated)}):\n")
        lines += [_pod_text(info.pod) for info in nominated]
    return "".join(lines)


def _resource_text(cache: Cache, amounts: Sequence[int], allowed_pods: int) -> str:
    """Returns amounts as Go prints its struct of resources."""
    fixed = dict.fromkeys(_FIELDS.values(), 0)
    scalars = []
    for name, amount in zip(cache.nodes.resources.values(), amounts, strict=False):
        if name in _FIELDS:
            fixed[_FIELDS[name]] = amount
        elif name is not None and amount:
            scalars.append(f"{name}:{amount}")
    parts = [f"{name}:{amount}" for name, amount in fixed.items()]
    parts.append(f"AllowedPodNumber:{allowed_pods}")
    parts.append(f"ScalarResources:map[{' '.join(sorted(scalars))}]")
    return "&{" + " ".join(parts) + "}"


def _pod_text(pod: Pod) -> str:
    metadata, status = pod.metadata, pod.status
    return (
        f"name: {metadata.name}, namespace: {metadata.namespace}, uid: {metadata.uid}, "
        f"phase: {status.phase}, nominated node: {status.nominated_node_name}\n"
    )


def _difference(actual: list[str], cached: list[str]) -> tuple[list[str], list[str]]:
    """Returns what is missing in ``cached`` and what is in excess there, sorted."""
    return sorted(set(actual) - set(cached)), sorted(set(cached) - set(actual))
