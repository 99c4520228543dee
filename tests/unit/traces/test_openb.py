"""The packed trace against the figures that were counted from the csv files by other means."""

from __future__ import annotations

from collections import Counter

import pytest

from mooring.errors import ConfigError
from mooring.objects.pod import Pod
from mooring.traces.openb import (
    GPU_MODEL_LABEL,
    GPU_RESOURCE,
    HOSTNAME_LABEL,
    NODE_LISTS,
    POD_LISTS,
    QOS_LABEL,
    read_columns,
    read_nodes,
    read_pods,
)

#: list -> pods, pods without GPU, pods with part of one, GPUs requested (rounded as published)
PUBLISHED = {
    "cpu050": (7439, 375, 3078, 6086.8),
    "cpu100": (7853, 789, 3078, 6086.8),
    "cpu200": (8832, 1768, 3078, 6086.8),
    "cpu250": (9420, 2356, 3078, 6086.8),
    "default": (8152, 1088, 3078, 6086.8),
    "gpushare40": (8152, 1088, 4001, 5641.3),
    "gpushare60": (8152, 1088, 5233, 4908.3),
    "gpushare80": (8152, 1088, 6279, 4408.2),
    "gpushare100": (8152, 1088, 7064, 3952.7),
    "gpuspec10": (8152, 1088, 3078, 6086.8),
    "gpuspec20": (8152, 1088, 3078, 6086.8),
    "gpuspec25": (8152, 1088, 3078, 6086.8),
    "gpuspec33": (8152, 1088, 3078, 6086.8),
    "multigpu20": (8324, 1088, 3078, 7086.8),
    "multigpu30": (8508, 1088, 3078, 8086.8),
    "multigpu40": (8746, 1088, 3078, 9442.8),
    "multigpu50": (9061, 1088, 3078, 11358.8),
}


def requests(pod: Pod) -> dict[str, str]:
    return {name: str(value) for name, value in pod.spec.containers[0].resources.requests.items()}


def test_all_lists_of_the_trace_are_there() -> None:
    assert set(POD_LISTS) == set(PUBLISHED)
    assert {name: len(read_columns("nodes", name)["sn"]) for name in NODE_LISTS} == {
        "all": 1523,
        "gpu": 1213,
    }


@pytest.mark.parametrize("name", POD_LISTS)
def test_a_list_has_the_pods_and_the_requests_that_were_published(name: str) -> None:
    columns = read_columns("pods", name)
    gpus, milli = columns["num_gpu"], columns["gpu_milli"]
    share = sum(1 for count, part in zip(gpus, milli, strict=True) if count == 1 and part < 1000)
    total = sum(count * part for count, part in zip(gpus, milli, strict=True)) / 1000
    *counts, requested = PUBLISHED[name]
    assert [len(gpus), gpus.count(0), share] == counts
    assert total == pytest.approx(requested, abs=0.0501)
    assert len(set(columns["name"])) == len(gpus)


def test_the_default_list_has_the_published_totals() -> None:
    columns = read_columns("pods", "default")
    assert round(sum(columns["cpu_milli"]) / 1000) == 85_436
    assert round(sum(columns["memory_mib"]) / 1024) == 296_432
    assert Counter(columns["qos"]) == {"LS": 4647, "BE": 3398, "Burstable": 100, "Guaranteed": 7}
    assert Counter(columns["pod_phase"])["Pending"] == 897
    assert columns["scheduled_time"].count(None) == 897
    assert columns["creation_time"] == sorted(columns["creation_time"])
    assert (columns["creation_time"][0], columns["creation_time"][-1]) == (0, 12_901_761)
    assert max(columns["deletion_time"]) == 12_902_960


@pytest.mark.parametrize(
    ("name", "count"),
    [("gpuspec10", 732), ("gpuspec20", 1444), ("gpuspec25", 1759), ("gpuspec33", 2388)],
)
def test_a_wish_for_a_model_becomes_a_node_affinity(name: str, count: int) -> None:
    wishing = [pod for pod in read_pods(name) if pod.spec.affinity]
    assert len(wishing) == count
    columns = read_columns("pods", name)
    wish = dict(zip(columns["name"], columns["gpu_spec"], strict=True))
    for pod in wishing:
        assert pod.spec.affinity is not None
        affinity = pod.spec.affinity.node_affinity
        assert affinity is not None
        required = affinity.required_during_scheduling_ignored_during_execution
        assert required is not None
        (term,) = required.node_selector_terms
        (condition,) = term.match_expressions
        assert (condition.key, condition.operator) == (GPU_MODEL_LABEL, "In")
        assert "|".join(condition.values) == wish[pod.metadata.name]


def test_the_nodes_have_the_published_models_and_capacities() -> None:
    nodes = read_nodes()
    models = Counter(node.metadata.labels[GPU_MODEL_LABEL] for node in nodes)
    assert models == {
        "G2": 549,
        "T4": 404,
        "P100": 134,
        "V100M16": 55,
        "G3": 39,
        "V100M32": 30,
        "A10": 2,
    }
    gpu_milli = sum(int(node.status.allocatable[GPU_RESOURCE]) for node in nodes)
    assert gpu_milli == 6_212_000
    cpu_milli = sum(int(str(node.status.allocatable["cpu"]).rstrip("m")) for node in nodes)
    assert cpu_milli == 107_018_000


def test_a_node_is_named_by_its_hostname_and_has_room_for_1001_pods() -> None:
    node = read_nodes()[0]
    assert node.metadata.name == "openb-node-0000"
    assert node.metadata.labels == {HOSTNAME_LABEL: "openb-node-0000", GPU_MODEL_LABEL: "P100"}
    assert node.status.allocatable == {
        "cpu": "64000m",
        "memory": "262144Mi",
        "pods": "1001",
        GPU_RESOURCE: "2000",
    }


def test_a_node_without_gpu_has_neither_model_nor_gpu_resource() -> None:
    plain = [node for node in read_nodes("all") if GPU_RESOURCE not in node.status.allocatable]
    assert len(plain) == 310
    assert not any(GPU_MODEL_LABEL in node.metadata.labels for node in plain)


def test_pods_are_pending_and_ask_for_what_the_trace_says() -> None:
    pods = read_pods()
    assert [pod.metadata.name for pod in pods[:2]] == ["openb-pod-0000", "openb-pod-0001"]
    expected = {"cpu": "12000m", "memory": "16384Mi", GPU_RESOURCE: "1000"}
    assert requests(pods[0]) == expected
    assert requests(pods[1])[GPU_RESOURCE] == "460"
    assert pods[0].metadata.labels == {QOS_LABEL: "LS"}
    assert not any(pod.spec.node_name for pod in pods)
    assert {pod.status.phase for pod in pods} == {"Pending"}
    assert sum(GPU_RESOURCE not in requests(pod) for pod in pods) == 1088
    eight = [pod for pod in pods if requests(pod).get(GPU_RESOURCE) == "8000"]
    assert len(eight) == 44


def test_pods_of_one_shape_share_their_spec() -> None:
    assert len({id(pod.spec) for pod in read_pods()}) < 200


def test_pods_come_in_the_order_of_their_creation() -> None:
    columns = read_columns("pods", "gpushare40")
    created = dict(zip(columns["name"], columns["creation_time"], strict=True))
    times = [created[pod.metadata.name] for pod in read_pods("gpushare40")]
    assert times == sorted(times)


def test_a_list_that_is_not_there_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError) as caught:
        read_pods("gpushare50")
    assert caught.value.suggestion in POD_LISTS
    with pytest.raises(ConfigError, match="unknown node list; available: all, gpu"):
        read_nodes("cpu")
