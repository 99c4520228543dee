"""Pods of a service or a controller."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import EventResource
from mooring.objects.codec.decode import convert
from mooring.objects.kinds import KINDS
from mooring.queue.watched_kinds import RESOURCES
from mooring.simulation.cluster import Cluster
from mooring.state import PodInfo
from mooring.state.kinds.workloads import WORKLOAD_KINDS, Workloads
from mooring.testing import make_pod


def made(kind: str, name: str, selector: Any, namespace: str = "default") -> Any:
    metadata = {"name": name, "namespace": namespace}
    return convert({"metadata": metadata, "spec": {"selector": selector}}, kind)


def known(*objects: Any) -> Workloads:
    workloads = Workloads()
    for each in objects:
        workloads.put(each)
    return workloads


def owned(kind: str = "", version: str = "apps/v1", *, name: str = "own", **labels: str) -> PodInfo:
    owners = []
    if kind:
        owners = [
            {"apiVersion": version, "kind": kind, "name": name, "uid": "u", "controller": True}
        ]
    return PodInfo(make_pod(labels=labels, metadata={"ownerReferences": owners}))


def selector(workloads: Workloads, pod: PodInfo) -> str:
    """Returns as ``kubectl --selector`` takes it; "" = everything, so nothing is known."""
    return str(workloads.selector_for(pod))


def test_nobody_selects_the_pod() -> None:
    workloads = known(
        made("Service", "db", {"app": "db"}),
        made("Service", "half", {"app": "web", "tier": "1"}),
        made("Service", "all", {}),
        made("Service", "none", None),
        made("Service", "far", {"app": "web"}, "other"),
    )

    assert workloads.selector_for(owned(app="web")).selects_everything
    assert workloads.selector_for(owned()).selects_everything


def test_the_labels_of_all_services_that_select_the_pod_are_taken_together() -> None:
    workloads = known(
        made("Service", "web", {"app": "web"}),
        made("Service", "front", {"tier": "1", "app": "web"}),
        made("Service", "other", {"tier": "2"}),
    )

    assert selector(workloads, owned(app="web", tier="1", rev="9")) == "app=web,tier=1"


EXPRESSION = {
    "matchLabels": {"app": "web"},
    "matchExpressions": [{"key": "rev", "operator": "In", "values": ["1", "2"]}],
}


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet"])
def test_the_selector_of_the_owner_is_added_to_that_of_the_services(kind: str) -> None:
    workloads = known(made("Service", "s", {"tier": "1"}), made(kind, "own", EXPRESSION))

    assert selector(workloads, owned(kind, app="web", tier="1")) == "app=web,rev in (1,2),tier=1"
    assert selector(workloads, owned(kind, app="web")) == "app=web,rev in (1,2)"


def test_a_replication_controller_s_labels_overrule_those_of_a_service() -> None:
    workloads = known(
        made("Service", "s", {"app": "web"}),
        made("ReplicationController", "own", {"app": "old", "rev": "1"}),
    )

    assert selector(workloads, owned("ReplicationController", "v1", app="web")) == "app=old,rev=1"


@pytest.mark.parametrize(
    "pod",
    [
        owned("ReplicaSet", "apps/v2", app="web"),
        owned("ReplicaSet", "v1", app="web"),
        owned("ReplicationController", "apps/v1", app="web"),
        owned("DaemonSet", app="web"),
        owned("ReplicaSet", name="unknown", app="web"),
    ],
    ids=["version", "group", "rc's group", "kind", "name"],
)
def test_owners_that_tell_nothing(pod: PodInfo) -> None:
    workloads = known(
        made("ReplicaSet", "own", EXPRESSION),
        made("ReplicationController", "own", {"app": "web"}),
    )

    assert workloads.selector_for(pod).selects_everything


@pytest.mark.parametrize(
    "wanted",
    [None, {}, {"matchExpressions": [{"key": "a", "operator": "Near"}]}],
    ids=["none", "empty", "cannot be compiled"],
)
def test_an_owner_without_a_usable_selector_adds_nothing(wanted: Any) -> None:
    workloads = known(made("Service", "s", {"app": "web"}), made("ReplicaSet", "own", wanted))

    assert selector(workloads, owned("ReplicaSet", app="web")) == "app=web"


def test_only_the_owner_that_controls_the_pod_counts() -> None:
    workloads = known(made("ReplicaSet", "own", EXPRESSION))
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "own", "uid": "u"}
    pod = PodInfo(make_pod(labels={"app": "web"}, metadata={"ownerReferences": [owner]}))

    assert workloads.selector_for(pod).selects_everything


def test_objects_change_and_go() -> None:
    workloads = known(made("Service", "s", {"app": "web"}), made("ReplicaSet", "own", EXPRESSION))
    pod = owned("ReplicaSet", app="web", tier="1")

    workloads.put(made("Service", "s", {"tier": "1"}))
    assert selector(workloads, pod) == "app=web,rev in (1,2),tier=1"
    workloads.remove("ReplicaSet", "default/own")
    assert selector(workloads, pod) == "tier=1"
    workloads.remove("Service", "default/s")
    workloads.remove("Service", "default/s")
    workloads.remove("StatefulSet", "default/s")
    assert workloads.selector_for(pod).selects_everything
    assert len(workloads) == 0


def test_the_simulated_cluster_keeps_them() -> None:
    cluster = Cluster([made("Service", "s", {"app": "web"})])
    pod = owned(app="web")

    assert selector(cluster.cache.workloads, pod) == "app=web"
    cluster.remove("Service", "default", "s")
    assert len(cluster.cache.workloads) == 0


def test_the_kinds_are_known_and_are_no_events_of_the_queue() -> None:
    assert set(WORKLOAD_KINDS) <= set(KINDS)
    assert not set(WORKLOAD_KINDS) & set(RESOURCES)
    assert not set(WORKLOAD_KINDS) & {resource.value for resource in EventResource}
