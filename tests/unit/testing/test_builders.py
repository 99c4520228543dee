"""Pods and nodes of one line: what every argument does, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.objects.pod import Pod
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod

# ---------------------------------------------------------------- nodes


def test_a_node_without_arguments_has_room_and_a_hostname() -> None:
    node = make_node()

    assert node.metadata.name == "node-1"
    assert node.metadata.uid == "node-node-1"
    assert node.metadata.labels == {"kubernetes.io/hostname": "node-1"}
    assert node.status.allocatable == {"cpu": "4", "memory": "32Gi", "pods": "110"}
    assert node.status.capacity == node.status.allocatable
    assert (node.spec.taints, node.spec.unschedulable, node.status.images) == ((), False, ())


def test_amounts_go_over_the_defaults() -> None:
    node = make_node(allocatable={"cpu": 2, "example.com/gpu": "8"})

    assert node.status.allocatable == {
        "cpu": "2",
        "memory": "32Gi",
        "pods": "110",
        "example.com/gpu": "8",
    }


def test_labels_zone_and_annotations_are_beside_the_hostname() -> None:
    node = make_node("a", labels={"rack": "1"}, zone="z", annotations={"note": "x"})

    assert node.metadata.labels == {
        "kubernetes.io/hostname": "a",
        "rack": "1",
        "topology.kubernetes.io/zone": "z",
    }
    assert node.metadata.annotations == {"note": "x"}


def test_a_label_may_replace_the_hostname() -> None:
    node = make_node("a", labels={"kubernetes.io/hostname": "other"})
    assert node.metadata.labels == {"kubernetes.io/hostname": "other"}


@pytest.mark.parametrize(
    ("text", "taint"),
    [
        ("gpu=yes:NoSchedule", ("gpu", "yes", "NoSchedule")),
        ("gpu:NoExecute", ("gpu", "", "NoExecute")),
        ("a.b/c=d=e:PreferNoSchedule", ("a.b/c", "d=e", "PreferNoSchedule")),
        ("gpu=:NoSchedule", ("gpu", "", "NoSchedule")),
    ],
)
def test_a_taint_is_written_as_kubectl_does(text: str, taint: tuple[str, str, str]) -> None:
    (found,) = make_node(taints=[text]).spec.taints
    assert (found.key, found.value, found.effect) == taint


def test_a_node_may_be_cordoned_and_have_images() -> None:
    node = make_node(unschedulable=True, images={"web:1": 7, "db:2": 9})

    assert node.spec.unschedulable
    assert [(image.names, image.size_bytes) for image in node.status.images] == [
        (("web:1",), 7),
        (("db:2",), 9),
    ]


# ---------------------------------------------------------------- pods


def test_a_pod_without_arguments_is_pending() -> None:
    pod = make_pod()

    assert (pod.metadata.namespace, pod.metadata.name) == ("default", "pod-1")
    assert pod.metadata.uid == "pod-default-pod-1"
    assert (pod.spec.node_name, pod.status.phase) == ("", "Pending")
    assert pod.spec.scheduler_name == "default-scheduler"
    assert pod.spec.priority is None
    (container,) = pod.spec.containers
    assert container.image == "registry.k8s.io/pause:3.10"
    assert PodInfo(pod).requests == {}


def test_a_pod_with_a_node_runs_there() -> None:
    pod = make_pod(node="a")
    assert (pod.spec.node_name, pod.status.phase) == ("a", "Running")


def test_uids_are_those_of_namespace_and_name_unless_given() -> None:
    assert make_pod("p", namespace="n").metadata.uid == "pod-n-p"
    assert make_pod("p", uid="u").metadata.uid == "u"
    assert make_pod("p", uid="").metadata.uid == ""


def test_requests_and_ports_are_those_of_the_first_container() -> None:
    pod = make_pod(requests={"cpu": "250m", "pods": 2}, host_ports=[80, 443], images=["a", "b"])

    first, second = pod.spec.containers
    assert first.resources.requests == {"cpu": "250m", "pods": "2"}
    assert second.resources.requests == {}
    assert PodInfo(pod).host_ports == (("0.0.0.0", "TCP", 80), ("0.0.0.0", "TCP", 443))
    assert [container.image for container in pod.spec.containers] == ["a", "b"]
    assert PodInfo(pod).requests["cpu"] == 250


def test_what_is_not_requested_follows_from_the_limits_as_in_a_cluster() -> None:
    pod = make_pod(requests={"cpu": "100m"}, limits={"cpu": "1", "memory": "1Gi"})

    resources = pod.spec.containers[0].resources
    assert resources.requests == {"cpu": "100m", "memory": "1Gi"}
    assert PodInfo(pod).requests == {"cpu": 100, "memory": 1 << 30}


@pytest.mark.parametrize(
    ("given", "toleration"),
    [
        ("gpu=yes:NoSchedule", ("gpu", "Equal", "yes", "NoSchedule")),
        ("gpu:NoSchedule", ("gpu", "Exists", "", "NoSchedule")),
        ("gpu", ("gpu", "Exists", "", "")),
        ("gpu=:NoExecute", ("gpu", "Equal", "", "NoExecute")),
        ({"operator": "Exists"}, ("", "Exists", "", "")),
    ],
)
def test_a_toleration_is_written_as_a_taint_or_in_full(
    given: Any, toleration: tuple[str, str, str, str]
) -> None:
    (found,) = make_pod(tolerations=[given]).spec.tolerations
    assert (found.key, found.operator, found.value, found.effect) == toleration


def test_everything_else_lands_where_the_api_has_it() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]
            }
        }
    }
    pod = make_pod(
        labels={"app": "web"},
        priority=7,
        node_selector={"disk": "ssd"},
        affinity=affinity,
        gates=["a", "b"],
        nominated_node="n",
        scheduler_name="mine",
    )

    assert pod.metadata.labels == {"app": "web"}
    assert (pod.spec.priority, pod.spec.scheduler_name) == (7, "mine")
    assert pod.spec.node_selector == {"disk": "ssd"}
    assert [gate.name for gate in pod.spec.scheduling_gates] == ["a", "b"]
    assert pod.status.nominated_node_name == "n"
    assert pod.spec.affinity is not None
    node_affinity = pod.spec.affinity.node_affinity
    assert node_affinity is not None
    required = node_affinity.required_during_scheduling_ignored_during_execution
    assert required is not None
    assert required.node_selector_terms[0].match_expressions[0].key == "rack"


# ---------------------------------------------------------------- further parts


def test_further_parts_are_laid_over_field_by_field() -> None:
    pod = make_pod(
        "p",
        requests={"cpu": "1"},
        metadata={"labels": {"app": "web"}, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        spec={"overhead": {"cpu": "10m"}},
        status={"phase": "Failed"},
    )

    assert pod.metadata.name == "p"
    assert pod.metadata.labels == {"app": "web"}
    assert pod.metadata.deletion_timestamp is not None
    assert pod.status.phase == "Failed"
    assert PodInfo(pod).requests["cpu"] == 1010
    node = make_node("a", status={"allocatable": {"cpu": "1"}})
    assert node.status.allocatable == {"cpu": "1", "memory": "32Gi", "pods": "110"}


def test_a_list_is_replaced_as_a_whole() -> None:
    pod: Pod = make_pod(images=["a", "b"], spec={"containers": [{"name": "c", "image": "x"}]})
    assert [container.image for container in pod.spec.containers] == ["x"]


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("given", "suggestion"),
    [
        ({"toleration": ["a"]}, "tolerations"),
        ({"request": {"cpu": 1}}, "requests"),
        ({"prioritty": 1}, "priority"),
        ({"specs": {}}, "spec"),
    ],
)
def test_a_misspelt_argument_is_not_ignored(given: dict[str, Any], suggestion: str) -> None:
    (argument,) = given
    with pytest.raises(TypeError) as caught:
        make_pod(**given)

    assert str(caught.value) == (
        f"make_pod() has no argument {argument!r} (did you mean {suggestion!r}?); pass other "
        "fields in metadata, spec or status, as JSON"
    )


def test_nor_is_one_of_a_node_or_one_that_is_like_nothing() -> None:
    with pytest.raises(TypeError, match="did you mean 'taints'"):
        make_node(taint=["a:NoSchedule"])
    with pytest.raises(TypeError, match="has no argument 'qqq'; pass"):
        make_node(qqq=1)


@pytest.mark.parametrize("text", ["gpu", "gpu=yes", "gpu=yes:"])
def test_a_taint_without_effect_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="written key=value:Effect or key:Effect") as caught:
        make_node(taints=[text])
    assert repr(text) in str(caught.value)


def test_an_effect_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown effect in 'gpu:NoShedule'"):
        make_node(taints=["gpu:NoShedule"])
    with pytest.raises(ValueError, match="NoSchedule, PreferNoSchedule, NoExecute"):
        make_pod(tolerations=["gpu:Never"])


@pytest.mark.parametrize(
    "given", [{"requests": {"cpu": 1}}, {"limits": {"cpu": 1}}, {"host_ports": [80]}]
)
def test_what_belongs_to_a_container_needs_one(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="need a container, and images is empty"):
        make_pod(images=(), **given)
    assert make_pod(images=()).spec.containers == ()


def test_what_cannot_be_read_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigError, match="is not a quantity") as caught:
        make_pod(requests={"cpu": "many"})
    assert caught.value.path == "spec.containers[0].resources.requests.cpu"

    with pytest.raises(ConfigError) as caught:
        make_node(spec={"unschedulable": "maybe"})
    assert caught.value.path == "spec.unschedulable"
