"""Pods as kubectl prints them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.traces.pods import read_pods

GIB = 1 << 30


def pod(name: str, created: str = "08:00:00", **parts: Any) -> dict[str, Any]:
    """Returns a pod that was created on one day; the parts are spec, status and metadata."""
    metadata = {"name": name, "namespace": "team-a", "creationTimestamp": f"2026-01-31T{created}Z"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | parts.get("metadata", {}),
        "spec": {"containers": [{"name": "main", "image": "x"}]} | parts.get("spec", {}),
        "status": parts.get("status", {}),
    }


def requests(**amounts: str) -> dict[str, Any]:
    resources = {"requests": {name.replace("__", "/"): text for name, text in amounts.items()}}
    return {"containers": [{"name": "main", "image": "x", "resources": resources}]}


def ended(start: str, *ends: str) -> dict[str, Any]:
    statuses = [
        {"name": f"c{index}", "state": {"terminated": {"finishedAt": f"2026-01-31T{end}Z"}}}
        for index, end in enumerate(ends)
    ]
    started = f"2026-01-31T{start}Z"
    return {"phase": "Succeeded", "startTime": started, "containerStatuses": statuses}


def listed(*pods: dict[str, Any]) -> Any:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": ""}, "items": pods}


def read(*pods: dict[str, Any]) -> Any:
    return read_pods(json.loads(json.dumps(listed(*pods))), "pods.json")


def test_a_pod_runs_from_its_start_to_the_end_of_its_last_container() -> None:
    done = pod("done", "08:00:10", status=ended("08:00:15", "08:01:00", "08:02:15"))
    running = pod("running", status={"phase": "Running", "startTime": "2026-01-31T08:00:01Z"})

    trace = read(done, running)

    assert trace.names.tolist() == ["running", "done"]
    assert trace.submit_s.tolist() == [0.0, 10.0]
    assert trace.duration_s.tolist() == pytest.approx([math.nan, 120.0], nan_ok=True)


def test_requests_owner_and_priority_are_read() -> None:
    owners = [
        {"apiVersion": "v1", "kind": "X", "name": "other", "uid": "1"},
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "2", "controller": True},
    ]
    spec = requests(cpu="1500m", memory="2Gi", nvidia__com="4") | {"priority": 7}
    spec["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = "2"

    trace = read(pod("a", spec=spec, metadata={"ownerReferences": owners}))

    assert (trace.cpu_milli[0], trace.memory_bytes[0]) == (1500, 2 * GIB)
    assert (trace.gpu_count[0], trace.gpu_milli[0]) == (2, 1000)
    assert (trace.group[0], trace.user[0], trace.priority[0]) == ("train", "team-a", 7)


@pytest.mark.parametrize(("amount", "count", "milli"), [("300", 1, 300), ("2000", 2, 1000)])
def test_shares_of_a_device_are_read(amount: str, count: int, milli: int) -> None:
    trace = read(pod("a", spec=requests(alibabacloud__com=amount)))
    assert trace.gpu_count[0] == 0
    spec = requests()
    spec["containers"][0]["resources"]["requests"]["alibabacloud.com/gpu-milli"] = amount

    trace = read(pod("a", spec=spec))

    assert (trace.gpu_count[0], trace.gpu_milli[0]) == (count, milli)


def test_a_single_pod_and_other_objects_in_a_list_are_accepted() -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}

    assert len(read_pods(pod("a"), "pods.json")) == 1
    assert read(service, pod("a")).notes == (
        "1 x object that is not a pod: left out (at items[0].kind: 'Service')",
    )


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "must be a list of pods as kubectl prints it, got []"),
        ({"items": {}}, "items: must be a list, got {}"),
        ({"items": []}, "pods.json: has no pods"),
        ({"items": [3]}, "items[0]: must be a mapping, got 3"),
        (
            {"items": [pod("a", metadata={"creationTimestamp": None})]},
            "items[0].metadata.creationTimestamp: must be a time such as",
        ),
        (
            {"items": [pod("a", spec=requests(cpu="much"))]},
            "items[0].spec.containers[0].resources.requests.cpu: is not a quantity, got 'much'",
        ),
        (
            {"items": [pod("a"), pod("b", status=ended("late"))]},
            "items[1].status.startTime: must be a time such as 2026-01-31T08:00:00Z, got",
        ),
        (
            {"items": [pod("a", status={"phase": "Failed", "containerStatuses": [1]})]},
            "items[0].status.containerStatuses[0]: must be a mapping, got 1",
        ),
        ({"items": [pod("a", spec=requests(cpu="-1"))]}, "items[0].cpu_milli: must be from 0 to"),
        ({"items": [pod("a", spec=requests(cpu="1E"))]}, "items[0].cpu_milli: must be from 0 to"),
    ],
)
def test_a_malformed_document_is_an_error_with_path_and_value(document: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_pods(document, "pods.json")

    assert message in str(caught.value)


def test_what_a_trace_has_no_column_for_is_noted_with_place_and_value() -> None:
    usual = [{"key": f"node.kubernetes.io/{name}"} for name in ("not-ready", "unreachable")]
    spec = requests(cpu="1") | {
        "schedulerName": "default-scheduler",
        "preemptionPolicy": "PreemptLowerPriority",
        "tolerations": [*usual, {"key": "gpu", "operator": "Exists"}],
        "priorityClassName": "high",
        "volumes": [
            {"name": "token", "projected": {}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        ],
    }
    spec["containers"][0]["resources"]["requests"] = {"cpu": "1", "ephemeral-storage": "1Gi"}
    spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    other = pod("b", spec=spec | {"priority": 5, "tolerations": usual}, status={"phase": "Failed"})

    assert read(pod("a", spec=spec), other).notes == (
        "1 x pod that failed: read as a pod that succeeds (at items[1].status.phase: 'Failed')",
        "fields that have no effect: "
        "tolerations (1 x, at items[0].spec.tolerations: [{'key': 'gpu', 'operator': 'Exists'}]), "
        "priorityClassName (1 x, at items[0].spec.priorityClassName: 'high'), "
        "volumes (2 x, first at items[0].spec.volumes: ['data']), "
        "containers.ports.hostPort (2 x, first at items[0].spec.containers.ports.hostPort: [80]), "
        "requests of other resources (2 x, first at items[0]: 'ephemeral-storage: 1073741824')",
    )


def test_thousandths_of_several_devices_that_are_rounded_up_are_noted() -> None:
    trace = read(pod("a", spec=requests(**{"alibabacloud.com/gpu-milli": "1500"})))

    assert (trace.gpu_count[0], trace.gpu_milli[0]) == (2, 1000)
    assert trace.notes == (
        "1 x alibabacloud.com/gpu-milli of several devices: rounded up to whole devices "
        "(at items[0]: 1500)",
    )


def test_a_document_that_is_no_list_and_no_pod_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"kind: must be a list with items .* or a Pod"):
        read_pods({"pods": [], "nodes": []}, "snapshot.json")


def test_entries_that_are_null_have_no_effect() -> None:
    spec = {
        "containers": [None, {"name": "c", "ports": [None, {"hostPort": 80}]}],
        "tolerations": [None],
        "volumes": [None],
    }

    (note,) = read(pod("a", spec=spec)).notes

    assert note == (
        "fields that have no effect: containers.ports.hostPort "
        "(1 x, at items[0].spec.containers.ports.hostPort: [80])"
    )
