"""Pods with resource claims: made from templates as pods come, deleted as they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.helpers.scenario_files import Spec, by_pod, job, nodes, pod, run

DRIVER = "gpu.example.com"
CLASS: Spec = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "DeviceClass",
    "metadata": {"name": "gpu"},
    "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
}
SLICE: Spec = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "slice"},
    "spec": {
        "driver": DRIVER,
        "nodeName": "node-0",
        "pool": {"name": "node-0", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}],
    },
}
TEMPLATE: Spec = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "one-gpu"},
    "spec": {
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]}}
    },
}
CLAIM = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}


def spec_of(folder: Path, *workload: Spec, objects: tuple[Any, ...] = ()) -> Spec:
    """Returns a scenario of one node with two devices."""
    listed = {"apiVersion": "v1", "kind": "List", "items": [CLASS, SLICE, *objects]}
    (folder / "devices.json").write_text(json.dumps(listed), encoding="utf-8")
    cluster = {"nodes": [nodes(1, cpu="20")], "files": ["devices.json"]}
    return {"cluster": cluster, "workload": [*workload]}


def test_each_pod_gets_a_claim_and_the_next_one_its_device(tmp_path: Path) -> None:
    arrivals = {
        "name": "p",
        "arrive": {"interval": {"every": "10s", "count": 4}},
        "duration": "25s",
        "object": pod(resourceClaims=[CLAIM]),
    }
    pods = by_pod(run(tmp_path, spec_of(tmp_path, arrivals, objects=(TEMPLATE,))))
    times = [(row["starting_time_s"], row["finish_time_s"]) for row in pods.values()]
    assert times == [(0, 25), (10, 35), (25, 50), (35, 60)]


def test_pods_of_jobs_get_claims(tmp_path: Path) -> None:
    own = job("j", parallelism=3, completions=3)
    own["spec"]["template"]["spec"]["resourceClaims"] = [CLAIM]
    item = {"name": "j", "at": "5s", "duration": "20s", "create": own}
    pods = by_pod(run(tmp_path, spec_of(tmp_path, item, objects=(TEMPLATE,))))
    assert sorted(row["finish_time_s"] for row in pods.values()) == [25, 25, 45]


def test_a_template_that_comes_after_its_pod_helps_it(tmp_path: Path) -> None:
    early = {
        "name": "p",
        "at": "5s",
        "duration": "20s",
        "create": {**pod(resourceClaims=[CLAIM]), "metadata": {"name": "early"}},
    }
    template = {"name": "t", "at": "30s", "create": TEMPLATE}
    pods = by_pod(run(tmp_path, spec_of(tmp_path, early, template)))
    assert pods["early"]["starting_time_s"] == 30


def test_a_pod_whose_template_never_comes_and_one_with_a_gate_say_why_they_wait(
    tmp_path: Path,
) -> None:
    claims = pod(resourceClaims=[CLAIM])
    gates = pod(schedulingGates=[{"name": "example.com/later"}])
    workload = [
        {"name": name, "at": "5s", "create": {**own, "metadata": {"name": name}}}
        for name, own in (("claims", claims), ("gates", gates))
    ]
    result = run(tmp_path, spec_of(tmp_path, *workload))
    assert result.pending == {
        "default/claims": "gated by DynamicResources",
        "default/gates": "gated by SchedulingGates",
    }
