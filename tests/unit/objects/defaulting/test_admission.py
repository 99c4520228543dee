"""Admission: what an API server adds to pods, nodes and claims, against recorded answers and rules.

``data/pods.jsonl.gz`` holds 300 pods as written and as kube-apiserver's own code stores them.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from mooring.errors import ConfigError
from mooring.objects import Node, Pod
from mooring.objects.codec.decode import convert, encode
from mooring.objects.defaulting.admission import CREATED
from mooring.objects.defaulting.storage import default_storage_class
from mooring.objects.files.reader import Objects, read_objects
from mooring.objects.quantity import Quantity
from mooring.objects.storage import PersistentVolumeClaim, StorageClass
from tests.helpers.admitted import admitted, admitted_pod, complete, complete_pod, made, pod
from tests.helpers.paths import UNIT_DATA

DATA = UNIT_DATA / "pods.jsonl.gz"
RECORDED: list[dict[str, Any]] = [
    json.loads(line) for line in gzip.decompress(DATA.read_bytes()).splitlines()
]


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    return made("PriorityClass", metadata={"name": name}, value=value, **fields)


def storage_class(name: str, created: str | None = None, **annotations: str) -> dict[str, Any]:
    prefix = "storageclass.kubernetes.io/"
    metadata = {
        "name": name,
        "creationTimestamp": created,
        "annotations": {prefix + key.replace("_", "-"): text for key, text in annotations.items()},
    }
    return made("StorageClass", metadata=metadata)


def amounts(raw: dict[str, Any] | None) -> dict[str, int]:
    """Resources by amount: how they are written does not matter."""
    return {name: Quantity.from_wire(text).nanos for name, text in (raw or {}).items()}


def resources(raw: Any) -> Any:
    if raw is None:
        return None
    return amounts(raw.get("limits")), amounts(raw.get("requests"))


def seen_by_a_scheduler(raw: dict[str, Any]) -> dict[str, Any]:
    """Returns the parts of a stored pod that admission decides, from its JSON."""
    spec = raw["spec"]
    containers = [*spec["containers"], *spec.get("initContainers", ())]
    return {
        "resources": [resources(each.get("resources") or {}) for each in containers],
        "ports": [
            [(p.get("hostPort", 0), p["containerPort"], p["protocol"]) for p in c.get("ports", ())]
            for c in containers
        ],
        "pod resources": resources(spec.get("resources")),
        "overhead": amounts(spec.get("overhead")),
        "affinity": spec.get("affinity"),
        "spread": spec.get("topologySpreadConstraints"),
        "tolerations": spec.get("tolerations"),
        "others": [spec[key] for key in ("schedulerName", "terminationGracePeriodSeconds")],
        "phase": raw["status"]["phase"],
    }


def as_json(stored: Pod) -> dict[str, Any]:
    """Returns our pod as API JSON, including fields with zero values."""
    raw: dict[str, Any] = json.loads(encode(stored))
    raw["spec"].setdefault("terminationGracePeriodSeconds", 30)
    return raw


@pytest.mark.parametrize(
    "case", RECORDED, ids=lambda case: str(case["written"]["metadata"]["name"])
)
def test_a_pod_is_stored_as_an_api_server_stores_it(case: dict[str, Any]) -> None:
    expected: Pod = convert(case["stored"], "Pod")
    found = admitted_pod(case["written"])
    assert found.spec.affinity == expected.spec.affinity
    assert found.spec.topology_spread_constraints == expected.spec.topology_spread_constraints
    assert found.spec.tolerations == expected.spec.tolerations
    assert seen_by_a_scheduler(as_json(found)) == seen_by_a_scheduler(as_json(expected))


@pytest.mark.parametrize(
    "case", RECORDED[:100], ids=lambda case: str(case["written"]["metadata"]["name"])
)
def test_what_is_stored_already_stays_as_it_is(case: dict[str, Any]) -> None:
    identity = {"uid": "u", "creationTimestamp": CREATED}
    written = {**case["written"], "metadata": {**case["written"]["metadata"], **identity}}
    once = admitted_pod(written)
    assert admitted_pod(as_json(once)) == once


# ---------------------------------------------------------------- defaults, one by one


def test_requests_come_from_limits_for_each_resource_alone() -> None:
    box = {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}}
    found = admitted_pod(pod({"containers": [box], "initContainers": [box]}))
    for container in (*found.spec.containers, *found.spec.init_containers):
        assert container.resources.requests == {"cpu": "1", "memory": "1Gi"}


def test_ports_are_the_nodes_ports_under_host_network_only() -> None:
    box = {"ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 90}]}
    plain = admitted_pod(pod({"containers": [box]})).spec.containers[0].ports
    assert [(p.host_port, p.protocol) for p in plain] == [(0, "TCP"), (90, "TCP")]
    host = admitted_pod(pod({"containers": [box], "hostNetwork": True})).spec.containers[0].ports
    assert [p.host_port for p in host] == [80, 90]


@pytest.mark.parametrize(
    ("raw", "stored"),
    [
        ("100u", "1m"),
        ("1", "1"),
        ("1500m", "1500m"),
        (0.5, "500m"),
        ("0.0001Ki", "103m"),
        ("1n", "1m"),
    ],
)
def test_amounts_are_rounded_up_to_a_thousandth(raw: Any, stored: str) -> None:
    box = {"resources": {"requests": {"cpu": raw}}}
    (container,) = complete_pod(pod({"containers": [box]})).spec.containers
    assert container.resources.requests == {"cpu": stored}


def test_two_tiny_requests_add_up_after_rounding() -> None:
    tiny = {"resources": {"requests": {"cpu": "100u"}}}
    found = complete_pod(pod({"containers": [tiny, tiny]}))
    assert [dict(c.resources.requests) for c in found.spec.containers] == [{"cpu": "1m"}] * 2


def test_a_negative_grace_period_is_the_shortest_one() -> None:
    spec = admitted_pod(pod({"terminationGracePeriodSeconds": -5})).spec
    assert spec.termination_grace_period_seconds == 1


# ---------------------------------------------------------------- priority


def test_priority_comes_from_the_class() -> None:
    classes = [priority_class("high", 1000, preemptionPolicy="Never")]
    spec = admitted_pod(pod({"priorityClassName": "high"}), classes).spec
    assert (spec.priority, spec.preemption_policy) == (1000, "Never")


def test_without_a_class_it_is_the_default_class_or_zero() -> None:
    classes = [priority_class("usual", 7, globalDefault=True), priority_class("high", 1000)]
    spec = admitted_pod(pod(), classes).spec
    assert (spec.priority_class_name, spec.priority) == ("usual", 7)
    spec = admitted_pod(pod()).spec
    assert (spec.priority_class_name, spec.priority) == ("", 0)
    assert spec.preemption_policy == "PreemptLowerPriority"


def test_of_two_default_classes_the_lower_counts() -> None:
    classes = [
        priority_class("a", 9, globalDefault=True),
        priority_class("b", 3, globalDefault=True),
    ]
    assert admitted_pod(pod(), classes).spec.priority == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)],
)
def test_classes_of_the_system_are_always_there(name: str, value: int) -> None:
    assert admitted_pod(pod({"priorityClassName": name})).spec.priority == value


def test_an_unknown_class_is_refused_with_a_suggestion() -> None:
    classes = [priority_class("production", 5)]
    with pytest.raises(ConfigError) as caught:
        admitted_pod(pod({"priorityClassName": "prodution"}), classes)
    assert caught.value.path == "spec.priorityClassName"
    assert caught.value.suggestion == "production"


def test_contradicting_the_class_is_refused() -> None:
    classes = [priority_class("high", 1000)]
    for field, value in (("priority", 5), ("preemptionPolicy", "Never")):
        with pytest.raises(ConfigError, match="must not be provided in pod spec") as caught:
            admitted_pod(pod({"priorityClassName": "high", field: value}), classes)
        assert caught.value.value == value


def test_a_bare_priority_is_kept() -> None:
    classes = [priority_class("usual", 7, globalDefault=True)]
    assert admitted_pod(pod({"priority": -3}), classes).spec.priority == -3


def test_a_dumped_pod_keeps_its_priority_though_its_class_is_not_in_the_dump() -> None:
    dumped = pod({"priorityClassName": "gone", "priority": 5}, uid="u", creationTimestamp=CREATED)
    assert admitted_pod(dumped).spec.priority == 5


# ---------------------------------------------------------------- nodes, claims, whole files


def node(**status: Any) -> dict[str, Any]:
    return made("Node", metadata={"name": "n"}, status=status)


def test_allocatable_is_the_capacity_if_it_is_missing() -> None:
    capacity = {"cpu": "4", "memory": "100u"}
    found: Node = admitted(node(capacity=capacity))
    assert found.status.allocatable == {"cpu": "4", "memory": "1m"}
    both: Node = admitted(node(capacity=capacity, allocatable={"cpu": "3"}))
    assert both.status.allocatable == {"cpu": "3"}


def test_a_pod_on_a_node_gets_the_labels_of_its_zone() -> None:
    zone = {"topology.kubernetes.io/zone": "a", "disk": "ssd"}
    nodes = [made("Node", metadata={"name": "n", "labels": zone})]
    found = admitted_pod(pod({"nodeName": "n"}, labels={"app": "x"}), nodes)
    assert found.metadata.labels == {"app": "x", "topology.kubernetes.io/zone": "a"}


def test_the_default_storage_class_is_the_newest_then_the_first_by_name() -> None:
    old = storage_class("old", "2020-01-01T00:00:00Z", is_default_class="true")
    new_b = storage_class("b", "2025-01-01T00:00:00Z", is_default_class="true")
    new_a = storage_class("a", "2025-01-01T00:00:00Z", is_default_class="true")
    other = storage_class("other", "2026-01-01T00:00:00Z", is_default_class="false")
    assert default_storage_class([old, new_b, other, new_a]) == "a"
    assert default_storage_class([old, other]) == "old"
    assert default_storage_class([other]) is None


def claim(spec: dict[str, Any], **annotations: str) -> dict[str, Any]:
    metadata = {"name": "c", "annotations": annotations}
    return made("PersistentVolumeClaim", metadata=metadata, spec=spec)


def test_claims_get_the_default_class_unless_they_say_otherwise() -> None:
    ssd = [storage_class("ssd", is_default_class="true")]

    def class_of(raw: dict[str, Any], others: list[dict[str, Any]]) -> str | None:
        found: PersistentVolumeClaim = admitted(raw, others)
        assert (found.spec.volume_mode, found.status.phase) == ("Filesystem", "Pending")
        return found.spec.storage_class_name

    assert class_of(claim({}), ssd) == "ssd"
    assert class_of(claim({}), []) is None
    for name in ("", "hdd"):
        assert class_of(claim({"storageClassName": name}), ssd) == name
    old_way = {"volume.beta.kubernetes.io/storage-class": "hdd"}
    assert class_of(claim({}, **old_way), ssd) is None


def test_the_claim_of_an_ephemeral_volume_has_a_volume_mode() -> None:
    template = {"spec": {"accessModes": ["ReadWriteOnce"]}}
    volume = {"name": "v", "ephemeral": {"volumeClaimTemplate": template}}
    (found,) = complete_pod(pod({"volumes": [volume]})).spec.volumes
    assert found.ephemeral is not None
    assert found.ephemeral.volume_claim_template is not None
    assert found.ephemeral.volume_claim_template.spec.volume_mode == "Filesystem"


# ---------------------------------------------------------------- whole files


def read(path: Path, objects: list[dict[str, Any]], *, created: str = CREATED) -> Objects:
    file = path / "objects.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return read_objects([file], created=created)


def test_a_whole_file_is_admitted_in_order(tmp_path: Path) -> None:
    objects = [
        pod({"priorityClassName": "high"}, namespace="shop"),
        node(capacity={"cpu": "1"}),
        claim({}),
        storage_class("ssd", is_default_class="true"),
        priority_class("high", 11),
        made("PersistentVolume", metadata={"name": "v"}),
    ]
    found = read(tmp_path, objects)
    assert [each.kind for each in found] == [each["kind"] for each in objects]
    first, second, third, fourth, _, last = found
    assert isinstance(first, Pod)
    assert (first.spec.priority, first.metadata.namespace) == (11, "shop")
    assert isinstance(second, Node)
    assert (second.status.allocatable, second.metadata.namespace) == ({"cpu": "1"}, "")
    assert isinstance(third, PersistentVolumeClaim)
    assert (third.spec.storage_class_name, third.metadata.namespace) == ("ssd", "default")
    assert isinstance(fourth, StorageClass)
    assert fourth.volume_binding_mode == "Immediate"
    assert last.spec.volume_mode == "Filesystem"  # type: ignore[attr-defined]
    assert {each.metadata.creation_timestamp for each in found} == {CREATED}


def test_uids_are_given_out_alike_in_every_run_and_never_twice(tmp_path: Path) -> None:
    given = "00000000-0000-4000-8000-000000000001"
    objects = [pod(name="a"), pod(name="b", uid=given), pod(name="c")]
    found = read(tmp_path, objects)
    uids = [each.metadata.uid for each in found]
    assert uids[1] == given
    assert len(set(uids)) == 3
    assert read(tmp_path, objects) == found
    written = [json.loads(encode(each)) for each in found]
    assert read(tmp_path, written) == found


def test_creation_times_can_be_chosen_and_given_ones_stay(tmp_path: Path) -> None:
    moment = "2026-02-03T04:05:06Z"
    objects = [pod(name="a"), pod(name="b", creationTimestamp=CREATED)]
    found = read(tmp_path, objects, created=moment)
    assert [each.metadata.creation_timestamp for each in found] == [moment, CREATED]


def test_defaults_do_not_change_what_was_read() -> None:
    raw = pod({"containers": [{"name": "c", "image": "x"}]})
    before = json.dumps(raw)
    complete(raw)
    assert json.dumps(raw) == before
