"""Requests and limits of pods on /metrics/resources."""

from __future__ import annotations

from typing import Any

from mooring.metrics.pod_resources import pod_resources
from mooring.objects.pod import Pod
from mooring.objects.requests import pod_limits
from mooring.testing import make_pod


def samples(*pods: Pod) -> dict[str, list[tuple[str, str, str, float]]]:
    """Returns family -> (pod, resource, unit, value)."""
    return {
        metric.name.removeprefix("kube_pod_resource_"): [
            (
                sample.labels["pod"],
                sample.labels["resource"],
                sample.labels["unit"],
                sample.value,
            )
            for sample in metric.samples
        ]
        for metric in pod_resources(pods)
    }


def container(name: str, restart: str = "", **resources: Any) -> dict[str, Any]:
    policy = {"restartPolicy": restart} if restart else {}
    return {"name": name, "image": "i", "resources": resources, **policy}


def test_units_follow_the_resource() -> None:
    amounts = {
        "cpu": "1500m",
        "memory": "1Gi",
        "ephemeral-storage": "1k",
        "hugepages-2Mi": "4Mi",
        "attachable-volumes-csi": "2",
        "example.com/gpu": "3",
    }
    found = samples(make_pod("web", requests=amounts, limits={"memory": "2Gi"}))
    assert found["request"] == [
        ("web", "attachable-volumes-csi", "integer", 2.0),
        ("web", "cpu", "cores", 1.5),
        ("web", "ephemeral-storage", "bytes", 1000.0),
        ("web", "example.com/gpu", "", 3.0),
        ("web", "hugepages-2Mi", "bytes", 4194304.0),
        ("web", "memory", "bytes", 1073741824.0),
    ]
    assert found["limit"] == [("web", "memory", "bytes", 2147483648.0)]


def test_pods_that_ended_and_zeros_are_left_out() -> None:
    phase = {"phase": "Succeeded"}
    ended = make_pod("ended", node="a", requests={"cpu": "1"}, status=phase)
    pending = make_pod("pending", requests={"cpu": "1", "memory": "0"}, status=phase)
    assert samples(ended, pending)["request"] == [("pending", "cpu", "cores", 1.0)]


def test_labels_tell_where_the_pod_is_and_who_schedules_it() -> None:
    pod = make_pod(
        "web", namespace="shop", node="n1", priority=7, requests={"cpu": "1"}, scheduler_name="x"
    )
    [request, _] = list(pod_resources([pod]))
    assert request.samples[0].labels == {
        "namespace": "shop",
        "pod": "web",
        "node": "n1",
        "scheduler": "x",
        "priority": "7",
        "resource": "cpu",
        "unit": "cores",
    }
    [without, _] = list(pod_resources([make_pod("p", requests={"cpu": "1"})]))
    assert without.samples[0].labels["priority"] == ""


def limits(**spec: Any) -> dict[str, int]:
    pod = make_pod("p", spec=spec)
    return {name: amount.milli() for name, amount in pod_limits(pod).items()}


def test_limits_are_added_up_like_requests() -> None:
    assert limits(
        containers=[
            container("a", limits={"cpu": "1"}),
            container("b", limits={"cpu": "1", "memory": "1"}),
        ],
        initContainers=[
            container("side", "Always", limits={"cpu": "1"}),
            container("init", limits={"cpu": "5"}),
        ],
    ) == {"cpu": 6000, "memory": 1000}


def test_overhead_adds_to_the_limits_that_exist() -> None:
    overhead = {"cpu": "500m", "memory": "1"}
    containers = [container("a", limits={"cpu": "1"})]
    assert limits(containers=containers, overhead=overhead) == {"cpu": 1500}


def test_limits_of_the_pod_replace_those_of_containers() -> None:
    own = {"limits": {"cpu": "3", "example.com/gpu": "1"}}
    containers = [container("a", limits={"cpu": "1", "memory": "1"})]
    assert limits(containers=containers, resources=own) == {"cpu": 3000, "memory": 1000}
