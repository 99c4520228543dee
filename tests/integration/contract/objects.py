"""The smallest objects that an API server takes."""

from __future__ import annotations

from typing import Any


def pod(name: str, **spec: Any) -> dict[str, Any]:
    """Returns a pod of one container."""
    containers = [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def labelled(obj: dict[str, Any], **labels: str) -> dict[str, Any]:
    """Returns the object with labels."""
    return {**obj, "metadata": {**obj["metadata"], "labels": labels}}


def config_map(name: str, **data: str) -> dict[str, Any]:
    """Returns a ConfigMap."""
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def node(name: str, **spec: Any) -> dict[str, Any]:
    """Returns a node with room."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def deployment(name: str, **spec: Any) -> dict[str, Any]:
    """Returns a Deployment of pause pods."""
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "registry.k8s.io/pause:3.10"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


def binding(name: str, target: str, **metadata: Any) -> dict[str, Any]:
    """Returns a Binding of a pod to a node."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": target},
    }
