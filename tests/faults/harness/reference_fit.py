"""Reference check whether a pod fits a node: slow, simple, and independent of the plugins.

It implements the rules of kube-scheduler that the scenarios use: requests, the number of
pods, host ports, nodeSelector, taints, cordons.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mooring.objects.node import Node, Taint
from mooring.objects.pod import Pod
from mooring.objects.quantity import Quantity

#: An extended resource that stands for a device class: no node has it, and claims are checked.
BY_DEVICES = "devices.example.com/gpu"

_CORDON = "node.kubernetes.io/unschedulable"
_BLOCKING_EFFECTS = ("NoSchedule", "NoExecute")


def requests_of(pod: Pod) -> Counter[str]:
    """Returns a pod's requests: cpu in millicores, others in units, and 1 of "pods"."""
    requests: Counter[str] = Counter(pods=1)
    for container in pod.spec.containers:
        for name, raw in container.resources.requests.items():
            if name != BY_DEVICES:
                requests[name] += amount_of(name, raw)
    return requests


def allocatable_of(node: Node) -> dict[str, int]:
    """Returns a node's allocatable amounts, in the same units."""
    return {name: amount_of(name, raw) for name, raw in node.status.allocatable.items()}


def amount_of(name: str, raw: str | int | float) -> int:
    """Returns a quantity as an integer."""
    quantity = Quantity.from_wire(raw)
    return quantity.milli() if name == "cpu" else quantity.value()


def overcommitted(node: Node, pods: Iterable[Pod]) -> str:
    """Returns the overcommitted resources of a node; "" if there are none."""
    used: Counter[str] = Counter()
    ports: Counter[tuple[str, int]] = Counter()
    for pod in pods:
        used.update(requests_of(pod))
        ports.update(host_ports_of(pod))
    allocatable = allocatable_of(node)
    over = [
        f"{name}: {count} of {allocatable.get(name, 0)}"
        for name, count in used.items()
        if count > allocatable.get(name, 0)
    ]
    over += [f"port {port}/{protocol} twice" for (protocol, port), n in ports.items() if n > 1]
    return ", ".join(over)


def blocking_taint(pod: Pod, node: Node) -> str:
    """Returns why a node rejects a pod regardless of other pods; "" if it does not."""
    if node.spec.unschedulable and not _is_tolerated(pod, Taint(key=_CORDON, effect="NoSchedule")):
        return "cordoned"
    for taint in node.spec.taints:
        if taint.effect in _BLOCKING_EFFECTS and not _is_tolerated(pod, taint):
            return f"taint {taint.key}={taint.value}:{taint.effect}"
    for key, value in pod.spec.node_selector.items():
        if node.metadata.labels.get(key) != value:
            return f"label {key} is not {value}"
    return ""


def fit_error(pod: Pod, node: Node, others: Iterable[Pod]) -> str:
    """Returns why a pod does not fit a node with the other pods; "" if it fits.

    A resource overcommitted by the others is irrelevant to a pod that does not request it.
    """
    why = blocking_taint(pod, node)
    if why:
        return why
    used: Counter[str] = Counter()
    taken: list[tuple[str, int]] = []
    for other in others:
        used.update(requests_of(other))
        taken += host_ports_of(other)
    allocatable = allocatable_of(node)
    short = [
        f"{name}: {used[name]} and {count} of {allocatable.get(name, 0)}"
        for name, count in requests_of(pod).items()
        if used[name] + count > allocatable.get(name, 0)
    ]
    if short:
        return ", ".join(short)
    conflicts = [port for port in host_ports_of(pod) if port in taken]
    return f"ports {conflicts} are in use" if conflicts else ""


def _is_tolerated(pod: Pod, taint: Taint) -> bool:
    return any(
        (not toleration.key or toleration.key == taint.key)
        and (toleration.operator == "Exists" or toleration.value == taint.value)
        and (not toleration.effect or toleration.effect == taint.effect)
        for toleration in pod.spec.tolerations
    )


def host_ports_of(pod: Pod) -> list[tuple[str, int]]:
    """Returns (protocol, port) of each host port."""
    return [
        (port.protocol or "TCP", port.host_port)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    ]
