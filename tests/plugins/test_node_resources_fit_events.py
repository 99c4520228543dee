"""NodeResourcesFit's queueing hints: who leaves or shrinks, what comes or grows."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import ActionType, QueueingHint
from mooring.config.types import NodeResourcesFitArgs
from mooring.objects.meta import ObjectMeta
from mooring.objects.pod import Pod
from mooring.objects.resource import DeviceClass, DeviceClassSpec
from mooring.plugins import NodeResourcesFit
from mooring.state import PodInfo
from mooring.testing import make_node, make_pod
from tests.plugins.reference_plugins import hints
from tests.plugins.resource_clusters import GPU

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
GONE_EVENT = ("Pod", ActionType.DELETE)
SHRUNK_EVENT = ("Pod", ActionType.UPDATE_POD_SCALE_DOWN)
NODE_EVENT = ("Node", ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
CLASS_EVENT = ("resource.k8s.io/DeviceClass", ActionType.ADD | ActionType.UPDATE)

Amounts = dict[str, str | int]


def waiting(requests: Amounts | None = None, **more: Any) -> PodInfo:
    return PodInfo(make_pod("waiting", requests=requests, **more))


def test_it_registers_for_pods_nodes_and_device_classes() -> None:
    assert list(hints(NodeResourcesFit())) == [GONE_EVENT, SHRUNK_EVENT, NODE_EVENT, CLASS_EVENT]


# ---------------------------------------------------------------- pods


@pytest.mark.parametrize(
    ("deleted", "expected"),
    [
        (make_pod("old", node="a"), QUEUE),
        (make_pod("old", nominated_node="a"), QUEUE),
        (make_pod("old", requests={"cpu": "1"}), SKIP),
    ],
    ids=["placed", "nominated", "pending"],
)
def test_a_deleted_pod_helps_if_it_held_room(deleted: Pod, expected: QueueingHint) -> None:
    hint = hints(NodeResourcesFit())[GONE_EVENT]
    assert hint(waiting({"cpu": "1"}), deleted, None) is expected


@pytest.mark.parametrize(
    ("wants", "before", "after", "expected"),
    [
        ({"cpu": "1"}, {"cpu": "3"}, {"cpu": "2"}, QUEUE),
        ({"cpu": "1"}, {"cpu": "2"}, {"cpu": "3"}, SKIP),
        ({"cpu": "1"}, {"cpu": "2", "memory": "2Gi"}, {"cpu": "2", "memory": "1Gi"}, SKIP),
        ({"memory": "1"}, {"cpu": "2", "memory": "2Gi"}, {"cpu": "2", "memory": "1Gi"}, QUEUE),
        ({"cpu": "0"}, {"cpu": "2"}, {"cpu": "1"}, SKIP),
        ({}, {"cpu": "2"}, {"cpu": "1"}, SKIP),
        ({GPU: 1}, {GPU: 2}, {GPU: 1}, QUEUE),
        ({"ephemeral-storage": 1}, {"ephemeral-storage": 2}, {}, QUEUE),
    ],
)
def test_a_shrinking_pod_helps_if_it_gives_back_what_is_wanted(
    wants: Amounts, before: Amounts, after: Amounts, expected: QueueingHint
) -> None:
    hint = hints(NodeResourcesFit())[SHRUNK_EVENT]
    old = make_pod("other", node="a", requests=before)
    new = make_pod("other", node="a", requests=after)
    assert hint(waiting(wants), old, new) is expected


def test_a_pod_that_shrinks_itself_is_tried_again() -> None:
    old, new = (make_pod("waiting", requests={"cpu": cpu}) for cpu in ("9", "1"))
    assert hints(NodeResourcesFit())[SHRUNK_EVENT](PodInfo(old), old, new) is QUEUE


def test_another_pending_pod_that_shrinks_does_not_help() -> None:
    old, new = (make_pod("other", requests={"cpu": cpu}) for cpu in ("9", "1"))
    assert hints(NodeResourcesFit())[SHRUNK_EVENT](waiting({"cpu": "1"}), old, new) is SKIP


def test_a_pod_still_holds_what_it_was_granted_until_its_status_says_less() -> None:
    def granted(cpu: str) -> Pod:
        resources = {"requests": {"cpu": cpu}}
        status = {"containerStatuses": [{"name": "container-0", "resources": resources}]}
        return make_pod("other", node="a", requests={"cpu": "1"}, status=status)

    hint = hints(NodeResourcesFit())[SHRUNK_EVENT]
    only_wished = make_pod("other", node="a", requests={"cpu": "3"})
    assert hint(waiting({"cpu": "1"}), only_wished, granted("3")) is SKIP
    assert hint(waiting({"cpu": "1"}), granted("3"), granted("1")) is QUEUE


# ---------------------------------------------------------------- nodes


@pytest.mark.parametrize(
    ("wants", "has", "expected"),
    [
        ({"cpu": "4"}, {}, QUEUE),
        ({"cpu": "5"}, {}, SKIP),
        ({"cpu": "1", "memory": "64Gi"}, {}, SKIP),
        ({}, {"cpu": "0", "memory": "0"}, QUEUE),
        ({}, {"pods": "0"}, SKIP),
        ({GPU: 1}, {}, SKIP),
        ({GPU: 1}, {GPU: 1}, QUEUE),
        ({GPU: 0}, {}, QUEUE),
    ],
)
def test_a_new_node_helps_if_the_pod_fits_into_it_empty(
    wants: Amounts, has: Amounts, expected: QueueingHint
) -> None:
    hint = hints(NodeResourcesFit())[NODE_EVENT]
    assert hint(waiting(wants), None, make_node(allocatable=has)) is expected


@pytest.mark.parametrize(
    ("wants", "had", "has", "expected"),
    [
        ({"cpu": "1"}, {"cpu": "2"}, {"cpu": "3"}, QUEUE),
        ({"cpu": "1"}, {"cpu": "3"}, {"cpu": "2"}, SKIP),
        ({"cpu": "1"}, {"memory": "1Gi"}, {"memory": "2Gi"}, SKIP),
        ({"cpu": "1", "memory": "0"}, {"memory": "1Gi"}, {"memory": "2Gi"}, SKIP),
        ({"cpu": "1"}, {"pods": "1"}, {"pods": "2"}, QUEUE),
        ({}, {"pods": "1"}, {"pods": "2"}, QUEUE),
        ({}, {"cpu": "1"}, {"cpu": "2"}, SKIP),
        ({"cpu": "4"}, {"cpu": "1"}, {"cpu": "3"}, SKIP),
        ({GPU: 1}, {}, {GPU: 1}, QUEUE),
        ({"ephemeral-storage": 1}, {}, {"ephemeral-storage": 1}, QUEUE),
    ],
)
def test_a_node_that_grew_helps_if_it_grew_in_what_is_wanted_and_the_pod_fits(
    wants: Amounts, had: Amounts, has: Amounts, expected: QueueingHint
) -> None:
    hint = hints(NodeResourcesFit())[NODE_EVENT]
    old, new = make_node(allocatable=had), make_node(allocatable=has)
    assert hint(waiting(wants), old, new) is expected


def test_ignored_resources_do_not_keep_a_pod_asleep() -> None:
    """Upstream forgets the ignored resources here."""
    plugin = NodeResourcesFit(NodeResourcesFitArgs(ignored_resources=(GPU,)))
    pod = waiting({"cpu": "1", GPU: 1})
    assert hints(plugin)[NODE_EVENT](pod, None, make_node()) is QUEUE
    assert hints(NodeResourcesFit())[NODE_EVENT](pod, None, make_node()) is SKIP


# ---------------------------------------------------------------- device classes


def device_class(resource: str | None, name: str = "gpus") -> DeviceClass:
    spec = DeviceClassSpec(extended_resource_name=resource)
    return DeviceClass(metadata=ObjectMeta(name=name), spec=spec)


@pytest.mark.parametrize(
    ("wants", "old", "new", "expected"),
    [
        ({GPU: 1}, None, device_class(GPU), QUEUE),
        ({GPU: 1}, None, device_class(None), SKIP),
        ({GPU: 1}, None, device_class("example.com/other"), SKIP),
        ({GPU: 1}, device_class(None), device_class(GPU), QUEUE),
        ({GPU: 1}, device_class("example.com/other"), device_class(GPU), QUEUE),
        ({GPU: 1}, device_class(GPU), device_class(GPU), SKIP),
        ({GPU: 1}, device_class(GPU), device_class(None), SKIP),
        ({GPU: 1}, device_class(None), device_class(""), SKIP),
        # Every class has an implicit name too, which cannot change.
        ({"deviceclass.resource.kubernetes.io/gpus": 1}, None, device_class(None), QUEUE),
        ({"deviceclass.resource.kubernetes.io/gpus": 1}, None, device_class(None, "x"), SKIP),
        (
            {"deviceclass.resource.kubernetes.io/gpus": 1},
            device_class(None),
            device_class(GPU),
            SKIP,
        ),
    ],
)
def test_a_device_class_helps_if_it_now_stands_for_what_is_wanted(
    wants: Amounts, old: DeviceClass | None, new: DeviceClass, expected: QueueingHint
) -> None:
    assert hints(NodeResourcesFit())[CLASS_EVENT](waiting(wants), old, new) is expected
