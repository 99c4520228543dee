"""KWOK's Stage documents and the simulator's Scenarios, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]


def stage(name: str, kind: str = "Pod", **spec: Any) -> Json:
    """Returns a stage; by default it is for all objects of its kind."""
    defaults = {"resourceRef": {"apiGroup": "v1", "kind": kind}, "selector": {}}
    return {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "Stage",
        "metadata": {"name": name},
        "spec": {**defaults, **spec},
    }


def when(*requirements: tuple[str, str, list[str]]) -> Json:
    """Returns a selector of requirements: key, operator, values."""
    return {
        "matchExpressions": [
            {"key": key, "operator": operator, **({"values": values} if values else {})}
            for key, operator, values in requirements
        ]
    }


def in_phase(phase: str) -> Json:
    """Returns a selector of objects in a phase."""
    return when((".status.phase", "In", [phase]))


#: Pods run two seconds after their binding.
POD_READY = stage(
    "pod-ready",
    selector=when(
        (".metadata.deletionTimestamp", "DoesNotExist", []),
        (".status.podIP", "DoesNotExist", []),
    ),
    delay={"durationMilliseconds": 2000},
    next={
        "statusTemplate": """
{{ $now := Now }}
conditions:
- {type: Ready, status: "True", lastTransitionTime: {{ $now | Quote }}}
containerStatuses:
{{ range $at, $container := .spec.containers }}
- name: {{ $container.name | Quote }}
  ready: true
{{ end }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) | Quote }}
phase: Running
"""
    },
)
#: Pods succeed one minute after they run, or as an annotation says.
POD_COMPLETE = stage(
    "pod-complete",
    selector=in_phase("Running"),
    weight=1,
    delay={
        "durationMilliseconds": 60_000,
        "durationFrom": {"expressionFrom": '.metadata.annotations["example.com/runs"]'},
    },
    next={"statusTemplate": "phase: Succeeded"},
)
#: Pods that are deleted leave five seconds later.
POD_DELETE = stage(
    "pod-delete",
    selector=when((".metadata.deletionTimestamp", "Exists", [])),
    delay={"durationMilliseconds": 5000},
    next={"finalizers": {"empty": True}, "delete": True},
)


def write_stages(folder: Path, *stages: Json, name: str = "stages.yaml") -> str:
    """Writes stages into one file, a document each; returns its name."""
    text = "\n---\n".join(json.dumps(own, indent=1) for own in stages)
    (folder / name).write_text(text, encoding="utf-8")
    return name


def steps(*operations: Json, **spec: Any) -> Json:
    """Returns a Scenario of the simulator."""
    return {
        "apiVersion": "simulation.kube-scheduler-simulator.sigs.k8s.io/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "steps"},
        "spec": {"operations": [*operations], **spec},
    }


def create(step: int, obj: Json, **more: Any) -> Json:
    """Returns an operation that creates an object."""
    return {"step": step, "createOperation": {"object": obj}, **more}


def patch(step: int, kind: str, name: str, content: Any, how: str = "merge-patch") -> Json:
    """Returns an operation that patches an object."""
    group = {"Deployment": "apps/v1"}.get(kind, "v1")
    operation = {
        "typeMeta": {"kind": kind, "apiVersion": group},
        "objectMeta": {"name": name},
        "patch": json.dumps(content),
        "patchType": f"application/{how}+json",
    }
    return {"step": step, "patchOperation": operation}


def delete(step: int, kind: str, name: str) -> Json:
    """Returns an operation that deletes an object."""
    meta = {"typeMeta": {"kind": kind, "apiVersion": "v1"}, "objectMeta": {"name": name}}
    return {"step": step, "deleteOperation": meta}


def done(step: int) -> Json:
    """Returns the operation that ends a scenario."""
    return {"step": step, "doneOperation": {}}


def write_steps(folder: Path, document: Json) -> Path:
    """Writes a Scenario of the simulator."""
    path = folder / "steps.yaml"
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path
