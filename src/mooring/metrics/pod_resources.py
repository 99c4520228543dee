"""The resources of pods, as /metrics/resources shows them.

Source: pkg/scheduler/metrics/resources/resources.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import Metric

from mooring.metrics.process_families import POD_RESOURCES
from mooring.objects.pod import Pod
from mooring.objects.quantity import Quantity
from mooring.objects.requests import pod_limits, pod_requests

_UNITS: Final = {
    "cpu": "cores",
    "memory": "bytes",
    "storage": "bytes",
    "ephemeral-storage": "bytes",
}
_PHASES_ENDED: Final = ("Succeeded", "Failed")


def pod_resources(pods: Iterable[Pod]) -> Iterator[Metric]:
    """Yields the requests and the limits of the pods that have not ended."""
    request, limit = POD_RESOURCES
    requests = Metric(request.name, request.help_text, request.kind)
    limits = Metric(limit.name, limit.help_text, limit.kind)
    for pod in sorted(pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name)):
        if pod.spec.node_name and pod.status.phase in _PHASES_ENDED:
            continue
        _add(requests, pod, pod_requests(pod))
        _add(limits, pod, pod_limits(pod))
    yield requests
    yield limits


def unit_of(resource: str) -> str:
    """Returns the unit in which a resource is shown; "" for extended resources.

    Example:
        >>> unit_of("cpu"), unit_of("hugepages-2Mi"), unit_of("example.com/gpu")
        ('cores', 'bytes', '')
    """
    if resource.startswith("hugepages-"):
        return "bytes"
    if resource.startswith("attachable-volumes-"):
        return "integer"
    return _UNITS.get(resource, "")


def _add(metric: Metric, pod: Pod, amounts: dict[str, Quantity]) -> None:
    priority = pod.spec.priority
    labels = {
        "namespace": pod.metadata.namespace,
        "pod": pod.metadata.name,
        "node": pod.spec.node_name or "",
        "scheduler": pod.spec.scheduler_name or "",
        "priority": "" if priority is None else str(priority),
    }
    for name, amount in sorted(amounts.items()):
        if not amount.is_zero:
            resource = {"resource": name, "unit": unit_of(name)}
            metric.add_sample(metric.name, {**labels, **resource}, amount.nanos / 1_000_000_000)
