"""Random scenarios with some of everything."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from tests.helpers.scenario_files import Spec, deployment, job, node, nodes, pod, write

CLASSES = [
    {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    for name, value in (("low", 0), ("high", 1000))
]


def write_random(folder: Path, rng: random.Random) -> Path:
    """Writes a scenario, and the file of priority classes that it names."""
    (folder / "classes.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": CLASSES}), encoding="utf-8"
    )
    return write(folder, random_spec(rng))


def random_spec(rng: random.Random) -> Spec:
    """Returns a scenario with some of everything."""
    spec: Spec = {
        "seed": rng.randint(0, 99),
        "end": {"at": "100m"},
        "cluster": {"files": ["classes.json"], "nodes": [nodes(rng.randint(1, 6))]},
        "pods": {
            "start": rng.choice(["0s", "3s", {"uniform": {"max": "20s"}}]),
            "duration": {"lognormal": {"median": "6m", "p99": "50m"}},
            "failure": rng.choice([0.0, 0.1]),
        },
        "workload": [random_item(rng, number) for number in range(rng.randint(3, 9))],
    }
    if rng.random() < 0.5:
        big = node(cpu=rng.choice(["4", "16"]))
        spec["cluster"]["groups"] = [
            {"name": "g", "min": rng.randint(0, 1), "max": 4, "template": big, "price": 1.0}
        ]
        spec["autoscaler"] = {"scaleDownUnneededTime": "3m", "scaleDownDelayAfterAdd": "2m"}
    if rng.random() < 0.5:
        spec["failures"] = [{"mtbf": "2h", "mttr": rng.choice(["30s", "10m"])}]
    if rng.random() < 0.3:
        spec["scheduler"] = {"attemptTime": rng.choice(["50ms", "2s"])}
    return spec


def random_item(rng: random.Random, number: int) -> Spec:
    """Returns an item of the workload."""
    name, at = f"item-{number}", f"{rng.randint(0, 90)}m"
    cpu = rng.choice(["250m", "1", "2", "5"])
    which = rng.randint(0, 9)
    if which <= 2:
        more = {"priorityClassName": rng.choice(["low", "high"])}
        if rng.random() < 0.3:
            more["terminationGracePeriodSeconds"] = rng.choice([0, 7])  # type: ignore[assignment]
        rate = rng.choice(["10/h", "1/min"])
        return {
            "name": name,
            "arrive": {"poisson": {"rate": rate, "until": "1h"}},
            "object": pod(cpu, **more),
        }
    if which == 3:
        arrive = {"bursts": {"size": 4, "every": "25m", "until": "1h"}}
        own = job(name, cpu, parallelism=2, completions=rng.randint(1, 4))
        return {"name": name, "arrive": arrive, "object": own}
    if which == 4:
        created: Any = deployment(f"web-{number}", rng.randint(1, 5), cpu)
        if rng.random() < 0.5:
            created = [budget(f"web-{number}"), created]
        return {"name": name, "at": at, "create": created}
    if which == 5:
        replicas = rng.randint(0, 6)
        return {
            "name": name,
            "at": at,
            "scale": {"name": f"web-{number - 1}", "replicas": replicas},
        }
    node_name = f"node-{rng.randint(0, 5)}"
    if which == 6:
        return {"name": name, "at": at, "drain": {"node": node_name}}
    if which == 7:
        action = {"node": node_name}
        if rng.random() < 0.7:
            action["duration"] = rng.choice(["20s", "3m", "40m"])
        return {"name": name, "at": at, "fail": action}
    if which == 8:
        return {"name": name, "at": at, "uncordon": {"node": node_name}}
    return {"name": name, "at": at, "delete": {"kind": "Node", "name": node_name}}


def budget(name: str) -> Spec:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}},
    }
