"""Builders of pods and nodes for tests.

The objects are as an API server stores them: with UIDs and with defaults (such as requests from
limits), so that tests use only objects that a cluster can have. Fields that admission sets
(``mooring.objects.defaulting.admission``) are not set: the priority, and tolerations of lost nodes.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import msgspec

from mooring.errors import ConfigError
from mooring.objects.codec.decode import convert
from mooring.objects.defaulting.admission import with_defaults
from mooring.objects.generic import GenericObject
from mooring.objects.kinds import kind_named
from mooring.objects.node import Node
from mooring.objects.pod import Pod

#: Default allocatable amounts, enough for several small pods.
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
    """Returns a node.

    Args:
        name: The name, also the value of the label ``kubernetes.io/hostname``.
        allocatable: Amounts that override the defaults of 4 cpu, 32Gi memory and 110 pods.
        labels: Labels in addition to the hostname.
        taints: ``key=value:Effect`` or ``key:Effect``.
        unschedulable: True for a cordoned node.
        images: Image name -> size in bytes.
        zone: The label ``topology.kubernetes.io/zone``.
        annotations: The annotations.
        more: Further fields as JSON, merged in: ``status={"conditions": [...]}``.

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
    """Returns a pod, pending if ``node`` is empty.

    Args:
        name: The name.
        namespace: The namespace.
        uid: The UID; by default derived from namespace and name.
        requests: Requests of the first container.
        limits: Limits of the first container.
        labels: The labels.
        node: ``spec.nodeName``.
        priority: ``spec.priority``.
        node_selector: ``spec.nodeSelector``.
        affinity: ``spec.affinity`` as JSON.
        tolerations: As JSON, or ``key=value:Effect`` (Equal), ``key:Effect``
            (Exists), ``key`` (Exists, all effects).
        host_ports: TCP host ports of the first container.
        images: The images, one container each.
        gates: Names of scheduling gates.
        nominated_node: ``status.nominatedNodeName``.
        scheduler_name: ``spec.schedulerName``.
        more: Further fields as JSON, merged in: ``spec={"overhead": {...}}``.

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
        "tolerations": [_toleration(toleration) for toleration in tolerations],
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


def make_object(
    resource: str,
    name: str,
    *,
    namespace: str = "default",
    kind: str = "",
    labels: Mapping[str, str] | None = None,
    **fields: Any,
) -> GenericObject:
    """Returns an object of a custom resource, for plugins that list them.

    Args:
        resource: The name of the resource: RESOURCE.VERSION.GROUP.
        name: The name.
        namespace: The namespace; "" if its objects have none.
        kind: The kind; by default the name of the resource.
        labels: The labels.
        fields: Further fields as JSON: ``spec={"minMember": 3}``.

    Raises:
        ConfigError: there is no such resource, or its objects have a struct, such as pods.

    Example:
        >>> group = make_object("podgroups.v1.example.com", "gang", spec={"minMember": 3})
        >>> group.metadata.namespace, group.spec["minMember"]
        ('default', 3)
    """
    described = kind_named(resource)
    if not described.is_generic:
        raise ConfigError(f"objects of kind {described.name} have a struct", value=resource)
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels or {})}
    metadata["uid"] = f"{described.resource}-{namespace}-{name}"
    head = {"apiVersion": described.api_version, "kind": kind or described.resource}
    obj: GenericObject = convert({**head, "metadata": metadata, **fields}, described)
    return obj


def _complete_pod(document: dict[str, Any]) -> Pod:
    as_json = msgspec.json.decode(msgspec.json.encode(document))  # a tuple is a list there
    pod: Pod = convert(with_defaults(as_json, kind_named("Pod")), "Pod")
    return pod


def _taint(text: TaintText) -> dict[str, str]:
    key, value, effect = _parts(text)
    if not effect:
        raise ValueError(f"a taint is written key=value:Effect or key:Effect, got {text!r}")
    return {"key": key, "value": value or "", "effect": effect}


def _toleration(toleration: Mapping[str, Any] | TaintText) -> dict[str, Any]:
    if not isinstance(toleration, str):
        return dict(toleration)
    key, value, effect = _parts(toleration)
    if value is None:
        return {"key": key, "operator": "Exists", "effect": effect}
    return {"key": key, "operator": "Equal", "value": value, "effect": effect}


def _parts(text: TaintText) -> tuple[str, str | None, str]:
    """Splits ``key=value:Effect``; the value is None if there is no ``=``."""
    front, _, effect = text.partition(":")
    key, sign, value = front.partition("=")
    if effect and effect not in EFFECTS:
        raise ValueError(f"unknown effect in {text!r}; available: {', '.join(EFFECTS)}")
    return key, value if sign else None, effect


def _with_parts(
    builder: Callable[..., Any], document: dict[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns ``document`` with ``metadata``, ``spec`` and ``status`` merged in.

    Raises:
        TypeError: for any other name, which would be ignored otherwise.
    """
    for name in more:
        if name not in document:
            names = [*document, *inspect.signature(builder).parameters]
            matches = get_close_matches(name, names, n=1)
            hint = f" (did you mean {matches[0]!r}?)" if matches else ""
            raise TypeError(
                f"{builder.__name__}() has no argument {name!r}{hint}; pass other fields in "
                "metadata, spec or status, as JSON"
            )
    return _merged(document, more)


def _merged(document: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merges ``more`` into a copy of ``document``, recursively."""
    merged = dict(document)
    for name, value in more.items():
        current = merged.get(name)
        if isinstance(current, dict) and isinstance(value, Mapping):
            merged[name] = _merged(current, value)
        else:
            merged[name] = value
    return merged
