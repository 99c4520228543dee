"""Pods and nodes for tests, in one line each.

The objects are as an API server would hold them: with UIDs, and with defaults filled in (requests
from limits, say), so a test cannot pass on something that no cluster would ever show. What
admission adds (``mooring.objects.defaulting.admission``) is left to the test: a priority, and
tolerations of lost nodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from mooring.objects.codec.decode import convert
from mooring.objects.defaulting.admission import with_defaults
from mooring.objects.kinds import kind_named
from mooring.objects.node import Node
from mooring.objects.pod import Pod

#: What a node has if a test does not say: room enough for small pods.
DEFAULT_ALLOCATABLE = {"cpu": "4", "memory": "32Gi", "pods": "110"}

#: Taints and tolerations may be written as text: ``key=value:Effect``, ``key:Effect``.
TaintText = str

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def make_node(
    name: str = "node-1",
    *,
    allocatable: Mapping[str, str | int] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[TaintText] = (),
    unschedulable: bool = False,
    images: Mapping[str, int] | None = None,
    zone: str | None = None,
    annotations: Mapping[str, str] | None = None,
    **more: Any,
) -> Node:
    """Returns a node, ready for pods.

    Args:
        name: Its name, also in the label ``kubernetes.io/hostname``.
        allocatable: Amounts over the defaults of 4 cpu, 32Gi memory and 110 pods.
        labels: Beside the hostname.
        taints: ``key=value:Effect`` or ``key:Effect``.
        unschedulable: Cordoned.
        images: Image name -> size in bytes.
        zone: The label ``topology.kubernetes.io/zone``.
        annotations: Its annotations.
        more: Further parts as the API writes them, merged in: ``status={"conditions": [...]}``.

    Raises:
        ConfigError: a part cannot be read, a quantity for example.
        TypeError: an argument is none of the above.
        ValueError: a taint has no effect, or one that does not exist.

    Example:
        >>> node = make_node("a", allocatable={"cpu": "2"}, taints=["gpu=yes:NoSchedule"])
        >>> node.status.allocatable["cpu"], node.spec.taints[0].key
        ('2', 'gpu')
    """
    all_labels = {"kubernetes.io/hostname": name, **(labels or {})}
    if zone is not None:
        all_labels["topology.kubernetes.io/zone"] = zone
    resources = {k: str(v) for k, v in {**DEFAULT_ALLOCATABLE, **(allocatable or {})}.items()}
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "uid": f"node-{name}",
            "labels": all_labels,
            "annotations": dict(annotations or {}),
        },
        "spec": {"unschedulable": unschedulable, "taints": [_taint(text) for text in taints]},
        "status": {
            "allocatable": resources,
            "capacity": dict(resources),
            "images": [
                {"names": [image], "sizeBytes": size} for image, size in (images or {}).items()
            ],
        },
    }
    node: Node = convert(_with_parts(make_node, document, more), "Node")
    return node


def make_pod(
    name: str = "pod-1",
    *,
    namespace: str = "default",
    uid: str | None = None,
    requests: Mapping[str, str | int] | None = None,
    limits: Mapping[str, str | int] | None = None,
    labels: Mapping[str, str] | None = None,
    node: str = "",
    priority: int | None = None,
    node_selector: Mapping[str, str] | None = None,
    affinity: Mapping[str, Any] | None = None,
    tolerations: Sequence[Mapping[str, Any] | TaintText] = (),
    host_ports: Sequence[int] = (),
    images: Sequence[str] = ("registry.k8s.io/pause:3.10",),
    gates: Sequence[str] = (),
    nominated_node: str = "",
    scheduler_name: str = "default-scheduler",
    **more: Any,
) -> Pod:
    """A pod, pending unless ``node`` is given.

    Args:
        name: Its name.
        namespace: Its namespace.
        uid: Its UID; made of namespace and name if not given.
        requests: What its first container asks for.
        limits: What its first container may use at most.
        labels: Its labels.
        node: The node it is on.
        priority: ``spec.priority``.
        node_selector: Labels that its node must have.
        affinity: ``spec.affinity`` as the API writes it.
        tolerations: As the API writes them, or ``key=value:Effect`` (Equal), ``key:Effect``
            (Exists), ``key`` (Exists, all effects).
        host_ports: TCP ports of the node that its first container takes.
        images: The image of each of its containers.
        gates: Names of scheduling gates.
        nominated_node: ``status.nominatedNodeName``.
        scheduler_name: Which scheduler is to place it.
        more: Further parts as the API writes them, merged in: ``spec={"overhead": {...}}``.

    Raises:
        ConfigError: a part cannot be read, a quantity for example.
        TypeError: an argument is none of the above.
        ValueError: a toleration's effect does not exist, or a container is missing.

    Example:
        >>> pod = make_pod("web", requests={"cpu": "250m"}, tolerations=["gpu=yes:NoSchedule"])
        >>> pod.metadata.uid, pod.spec.tolerations[0].operator
        ('pod-default-web', 'Equal')
    """
    if not images and (requests or limits or host_ports):
        raise ValueError("requests, limits and host ports need a container, and images is empty")
    containers: list[dict[str, Any]] = [
        {"name": f"container-{number}", "image": image} for number, image in enumerate(images)
    ]
    if containers:
        containers[0]["resources"] = {
            "requests": {k: str(v) for k, v in (requests or {}).items()},
            "limits": {k: str(v) for k, v in (limits or {}).items()},
        }
        containers[0]["ports"] = [
            {"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in host_ports
        ]
    spec: dict[str, Any] = {
        "containers": containers,
        "nodeName": node,
        "schedulerName": scheduler_name,
        "nodeSelector": dict(node_selector or {}),
        "tolerations": [_toleration(found) for found in tolerations],
        "schedulingGates": [{"name": gate} for gate in gates],
    }
    if priority is not None:
        spec["priority"] = priority
    if affinity is not None:
        spec["affinity"] = dict(affinity)
    document: dict[str, Any] = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid if uid is not None else f"pod-{namespace}-{name}",
            "labels": dict(labels or {}),
        },
        "spec": spec,
        "status": {
            "phase": "Running" if node else "Pending",
            "nominatedNodeName": nominated_node,
        },
    }
    return _complete_pod(_with_parts(make_pod, document, more))


def _complete_pod(document: dict[str, Any]) -> Pod:
    as_json = msgspec.json.decode(msgspec.json.encode(document))  # a tuple is a list there
    pod: Pod = convert(with_defaults(as_json, kind_named("Pod")), "Pod")
    return pod


def _taint(text: TaintText) -> dict[str, str]:
    key, value, effect = _parts(text)
    if not effect:
        raise ValueError(f"a taint is written key=value:Effect or key:Effect, got {text!r}")
    return {"key": key, "value": value or "", "effect": effect}


def _toleration(found: Mapping[str, Any] | TaintText) -> dict[str, Any]:
    if not isinstance(found, str):
        return dict(found)
    key, value, effect = _parts(found)
    if value is None:
        return {"key": key, "operator": "Exists", "effect": effect}
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


def _parts(text: TaintText) -> tuple[str, str | None, str]:
    """``key=value:Effect`` apart; the value is None if there is no ``=``."""
    front, _, effect = text.partition(":")
    key, sign, value = front.partition("=")
    if effect and effect not in EFFECTS:
        raise ValueError(f"{text!r} has no effect that exists, which are {', '.join(EFFECTS)}")
    return key, value if sign else None, effect


def _with_parts(
    builder: Callable[..., Any], document: dict[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """``document`` with ``metadata``, ``spec`` and ``status`` laid over it.

    Raises:
        TypeError: another name is given: it would be left out without a word.
    """
    for name in more:
        if name not in document:
            known = [*document, *inspect.signature(builder).parameters]
            close = get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise TypeError(
                f"{builder.__name__}() has no argument {name!r}{hint}; what it does not have goes "
                "into metadata, spec or status, as the API writes it"
            )
    return _merged(document, more)


def _merged(document: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """``document`` with ``more`` laid over it, dict by dict."""
    merged = dict(document)
    for name, value in more.items():
        below = merged.get(name)
        if isinstance(below, dict) and isinstance(value, Mapping):
            merged[name] = _merged(below, value)
        else:
            merged[name] = value
    return merged
