"""The fragments of plugins for opportunistic batching: equal for pods that are scheduled alike."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pytest

from mooring.config.types import (
    InterPodAffinityArgs,
    PodTopologySpreadArgs,
)
from mooring.objects.pod import Pod, TopologySpreadConstraint
from mooring.plugins import (
    InterPodAffinity,
    NodePorts,
    NodeVolumeLimits,
    PodTopologySpread,
    VolumeBinding,
    VolumeRestrictions,
    VolumeZone,
)
from mooring.state import PodInfo
from mooring.testing import make_pod
from tests.plugins.affinity_clusters import avoids, near, wants


def fragment(plugin: Any, pod: Pod) -> Hashable | None:
    result: Hashable | None = plugin.batch_signature(PodInfo(pod))
    hash(result)
    return result


def with_volumes(name: str, *sources: dict[str, Any]) -> Pod:
    volumes = [{"name": f"{name}-{number}", **source} for number, source in enumerate(sources)]
    return make_pod(name, spec={"volumes": volumes})


CLAIM: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "c"}}
OTHER_CLAIM: dict[str, Any] = {"persistentVolumeClaim": {"claimName": "d"}}
DISK: dict[str, Any] = {"gcePersistentDisk": {"pdName": "d"}}


@pytest.mark.parametrize(
    "plugin", [NodeVolumeLimits(), VolumeBinding(), VolumeRestrictions(), VolumeZone()]
)
def test_volume_plugins_read_the_sources_of_volumes(plugin: Any) -> None:
    one = fragment(plugin, with_volumes("a", CLAIM, DISK))

    assert one == fragment(plugin, with_volumes("b", DISK, CLAIM))
    assert one == fragment(plugin, with_volumes("b", DISK, CLAIM, {}))
    assert one != fragment(plugin, with_volumes("a", CLAIM))
    assert one != fragment(plugin, with_volumes("a", OTHER_CLAIM, DISK))
    assert one is not None
    assert fragment(plugin, make_pod("a")) == fragment(plugin, with_volumes("b", {})) == ()


def with_ports(init: tuple[int, ...], *ports: int, protocol: str = "TCP") -> Pod:
    def container(name: str, numbers: tuple[int, ...]) -> dict[str, Any]:
        listed = [{"hostPort": port, "containerPort": 80, "protocol": protocol} for port in numbers]
        return {"name": name, "ports": listed}

    return make_pod(
        spec={"containers": [container("c", ports)], "initContainers": [container("i", init)]}
    )


def test_node_ports_reads_the_numbers_of_all_containers() -> None:
    plugin = NodePorts()
    assert fragment(plugin, with_ports((), 80, 443)) == frozenset({80, 443})
    assert fragment(plugin, with_ports((443,), 80)) == frozenset({80, 443})
    assert fragment(plugin, with_ports((), 80, 0)) == frozenset({80})
    assert fragment(plugin, with_ports((), 80, protocol="UDP")) == frozenset({80})
    assert fragment(plugin, make_pod()) == frozenset()


@pytest.mark.parametrize("affinity", [wants(near()), avoids(near())])
def test_pods_with_affinity_to_pods_cannot_be_batched(affinity: dict[str, Any]) -> None:
    for ignores in (True, False):
        args = InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=ignores)
        plugin = InterPodAffinity(args)
        assert fragment(plugin, make_pod(spec={"affinity": affinity})) is None


@pytest.mark.parametrize(
    "affinity", [None, {}, {"nodeAffinity": {}}], ids=["none", "empty", "to nodes"]
)
def test_labels_count_if_terms_of_existing_pods_do(affinity: dict[str, Any] | None) -> None:
    spec = {} if affinity is None else {"affinity": affinity}
    pods = [make_pod(labels=labels, spec=spec) for labels in ({"app": "a"}, {"app": "b"}, {})]

    fragments = [fragment(InterPodAffinity(), pod) for pod in pods]
    assert fragments == [frozenset({("app", "a")}), frozenset({("app", "b")}), frozenset()]
    args = InterPodAffinityArgs(ignore_preferred_terms_of_existing_pods=True)
    assert {fragment(InterPodAffinity(args), pod) for pod in pods} == {()}


SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {},
}


def test_pods_that_are_spread_cannot_be_batched() -> None:
    listed = PodTopologySpread(PodTopologySpreadArgs(defaulting_type="List"))
    assert listed.is_batchable
    assert fragment(listed, make_pod(spec={"topologySpreadConstraints": [SPREAD]})) is None
    assert fragment(listed, make_pod(labels={"app": "a"})) == ()
    constraint = TopologySpreadConstraint(
        max_skew=1, topology_key="zone", when_unsatisfiable="ScheduleAnyway"
    )
    args = PodTopologySpreadArgs(default_constraints=(constraint,), defaulting_type="List")
    assert not PodTopologySpread(args).is_batchable
    assert not PodTopologySpread(PodTopologySpreadArgs(defaulting_type="System")).is_batchable
