"""Scenarios for tests, written as Python values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mooring.scenario.read import read_scenario
from mooring.scenario.results import Result
from mooring.scenario.run import ScenarioRun
from mooring.scenario.scenario import Scenario

Spec = dict[str, Any]


def write(folder: Path, spec: Spec, name: str = "test") -> Path:
    """Writes a scenario file."""
    document = {
        "apiVersion": "mooring.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": name},
        "spec": spec,
    }
    path = folder / f"{name}.yaml"
    path.write_text(json.dumps(document, indent=1), encoding="utf-8")
    return path


def read(folder: Path, spec: Spec) -> Scenario:
    """Returns a scenario, read from a file."""
    return read_scenario(write(folder, spec))


def run(folder: Path, spec: Spec) -> Result:
    """Runs a scenario."""
    return ScenarioRun(read(folder, spec)).run()


def nodes(count: int, name: str = "node-", **allocatable: str) -> Spec:
    """Returns an entry of equal nodes: 4 cpu, 16Gi memory, 110 pods."""
    return {"count": count, "name": name, "template": node(**allocatable)}


def node(**allocatable: str) -> Spec:
    """Returns the template of a node."""
    amounts = {"cpu": "4", "memory": "16Gi", "pods": "110", **allocatable}
    return {"status": {"allocatable": amounts}}


def pod(cpu: str = "1", **more: Any) -> Spec:
    """Returns a pod; ``more`` are fields of its spec."""
    return {"apiVersion": "v1", "kind": "Pod", "spec": pod_spec(cpu, **more)}


def pod_spec(cpu: str = "1", **more: Any) -> Spec:
    """Returns the spec of a pod."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {"containers": [container], **more}


def deployment(name: str, replicas: int, cpu: str = "1", **more: Any) -> Spec:
    """Returns a Deployment; ``more`` are fields of its pods' spec."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec(cpu, **more)}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def job(name: str, cpu: str = "1", **more: Any) -> Spec:
    """Returns a Job; ``more`` are fields of its spec."""
    template = {"spec": pod_spec(cpu, restartPolicy="Never")}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {**more, "template": template},
    }


def by_pod(result: Result) -> dict[str, Spec]:
    """Returns name without namespace -> row, of the table of pods."""
    return {row["pod"].partition("/")[2]: row for row in rows(result, "pods")}


def rows(result: Result, table: str) -> list[Spec]:
    """Returns the rows of a table."""
    columns = result.tables[table]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
