"""NodeVolumeLimits: a node can hold only so many volumes of a CSI driver."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import ActionType, QueueingHint
from mooring.framework.runtime.nominated import filter_hypothetical
from mooring.framework.status import Code
from mooring.objects.meta import ObjectMeta
from mooring.objects.pod import Pod
from mooring.objects.storage import CSIDriver, CSIDriverSpec
from mooring.plugins import NodeVolumeLimits
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.volume_objects import (
    DRIVER,
    attachment,
    claim,
    csi,
    csi_node,
    put,
    storage_class,
    user,
    volume,
)
from tests.plugins.reference_plugins import hints

REASON = ("node(s) exceed max volume count",)
EBS = {"name": "e", "awsElasticBlockStore": {"volumeID": "vol-1"}}
BAD_EBS = {"name": "e", "awsElasticBlockStore": {"volumeID": "aws://z/bad"}}
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def bound(*names: str) -> list[Any]:
    """Claims with volumes of the driver, called the same."""
    found: list[Any] = []
    for name in names:
        found += [claim(name, volume_name=name), volume(name, csi=csi(name), phase="Bound")]
    return found


def harness(*pods: Pod, storage: list[Any], **limits: Any) -> Harness:
    """Returns one node with these limits of drivers (``_`` for ``.``)."""
    found = Harness([make_node("a"), *pods], [NodeVolumeLimits()])
    put(found.cache, csi_node("a", **limits), *storage)
    return found


def reasons(found: Harness, pod: Pod) -> tuple[str, ...]:
    return found.reasons(pod)["a"]


@pytest.mark.parametrize(("limit", "fits"), [(0, False), (1, False), (2, False), (3, True)])
def test_old_and_new_volumes_together_must_not_be_too_many(limit: int, fits: bool) -> None:
    there = user("there", "x", node="a")
    found = harness(there, storage=bound("x", "y", "z"), disk_csi_test=limit)

    assert reasons(found, user("new", "y", "z")) == (() if fits else REASON)


@pytest.mark.parametrize("limits", [{}, {"disk_csi_test": None}, {"other": 0}])
def test_a_driver_without_a_limit_takes_any_number(limits: dict[str, int | None]) -> None:
    assert reasons(harness(storage=bound("x"), **limits), user("new", "x")) == ()


def test_without_a_csi_node_there_is_no_limit() -> None:
    found = Harness([make_node("a")], [NodeVolumeLimits()])
    put(found.cache, *bound("x"))

    assert reasons(found, user("new", "x")) == ()


def test_a_volume_that_is_there_already_is_not_another_one() -> None:
    there = user("there", "x", node="a")
    found = harness(there, storage=bound("x", "y"), disk_csi_test=1)

    assert reasons(found, user("new", "x")) == ()
    assert reasons(found, user("new", "x", "x")) == ()
    assert reasons(found, user("new", "x", "y")) == REASON


def test_attached_volumes_count_even_the_pods_own() -> None:
    storage = [*bound("x", "y"), attachment("1", node="a", volume="x")]

    assert reasons(harness(storage=storage, disk_csi_test=1), user("new", "y")) == REASON
    assert reasons(harness(storage=storage, disk_csi_test=2), user("new", "y")) == ()
    # As upstream: until a pod there uses it, an attached volume counts beside the pod's own claim.
    assert reasons(harness(storage=storage, disk_csi_test=1), user("new", "x")) == REASON


def test_claims_without_volumes_count_for_the_driver_of_their_class() -> None:
    storage = [
        claim("c", storage_class="made"),
        claim("d", storage_class="made"),
        storage_class("made", provisioner=DRIVER),
    ]
    found = harness(user("there", "c", node="a"), storage=storage, disk_csi_test=1)

    assert reasons(found, user("new", "d")) == REASON
    assert reasons(found, user("new", "c")) == ()


def test_disks_of_old_count_for_the_driver_that_took_them_over() -> None:
    found = harness(storage=[], ebs_csi_aws_com=0)

    assert reasons(found, user("new", volumes=[EBS])) == REASON


def test_each_driver_has_a_limit_of_its_own() -> None:
    other = [claim("o", volume_name="o"), volume("o", csi=csi("o", "net.csi.test"))]
    there = user("there", "x", node="a")
    found = harness(there, storage=[*bound("x", "y"), *other], disk_csi_test=1, net_csi_test=1)

    assert reasons(found, user("new", "o")) == ()
    assert reasons(found, user("new", "o", "y")) == REASON


@pytest.mark.parametrize(
    "pod",
    [make_pod(), user("p", volumes=[{"name": "e", "emptyDir": {}}])],
)
def test_a_pod_without_volumes_that_count_skips(pod: Pod) -> None:
    assert "NodeVolumeLimits" in harness(storage=[]).begin(pod).cycle.skipped


def test_a_claim_that_is_not_there_is_against_every_node() -> None:
    found = Harness([make_node("a"), make_node("b")], [NodeVolumeLimits()])
    put(found.cache, csi_node("a", disk_csi_test=1))
    problem = 'looking up PVC default/gone: persistentvolumeclaim "gone" not found'

    for status in found.statuses(user("new", "gone")).values():
        assert status is not None
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == (problem,)


@pytest.mark.parametrize(
    ("pod", "storage", "where"),
    [
        (user("new", volumes=[SCRATCH]), [claim("new-scratch", owner="another")], {"a", "b"}),
        (user("new", volumes=[BAD_EBS]), [], {"a"}),
        (user("new", ""), [], {"a", "b"}),
    ],
    ids=["somebody else's claim", "a disk that cannot be", "no name"],
)
def test_what_cannot_be_counted_is_an_error(pod: Pod, storage: list[Any], where: set[str]) -> None:
    found = Harness([make_node("a"), make_node("b")], [NodeVolumeLimits()])
    put(found.cache, csi_node("a"), *storage)

    codes = {name: status and status.code for name, status in found.statuses(pod).items()}

    assert {name for name, code in codes.items() if code is Code.ERROR} == where
    assert all(codes[name] is None for name in codes.keys() - where)


def test_a_pod_on_the_node_that_cannot_be_counted_is_an_error_where_there_are_limits() -> None:
    there = [user("there", volumes=[BAD_EBS], node=name) for name in "ab"]
    there[1] = user("there-too", volumes=[BAD_EBS], node="b")
    found = Harness([make_node("a"), make_node("b"), *there], [NodeVolumeLimits()])
    put(found.cache, csi_node("a", disk_csi_test=9), csi_node("b"), *bound("x"))

    statuses = found.statuses(user("new", "x"))

    assert statuses["a"] is not None
    assert statuses["a"].code is Code.ERROR
    assert "Invalid format for AWS volume" in statuses["a"].message
    assert statuses["b"] is None


def test_worlds_have_the_volumes_of_the_pods_that_are_there() -> None:
    there = [user("one", "x", node="a"), user("two", "x", node="a"), user("three", "y", node="a")]
    found = harness(*there, storage=bound("x", "y", "z"), disk_csi_test=2)
    infos = {pod.metadata.name: PodInfo(pod) for pod in there}
    cycle, view, _ = found.begin(user("new", "z"))

    def fits(*gone: str, more: tuple[PodInfo, ...] = ()) -> bool:
        world = view.without([tuple(infos[name] for name in gone)]).plus([more])
        ((_, statuses),) = filter_hypothetical(found.framework, cycle, world)
        return not statuses.codes[0]

    assert not fits()
    assert not fits("one")
    assert fits("one", "two")
    assert fits("three")
    assert not fits("three", more=(PodInfo(user("more", "y")),))
    assert fits("three", more=(PodInfo(user("more", "z")),))
    assert not fits("three", more=(PodInfo(user("more", "x", "y")),))


def test_in_a_world_without_the_pod_that_cannot_be_counted_there_is_no_error() -> None:
    bad = user("bad", volumes=[BAD_EBS], node="a")
    found = harness(bad, user("x", "x", node="a"), storage=bound("x", "y"), disk_csi_test=1)
    cycle, view, _ = found.begin(user("new", "y"))

    def answer(*gone: Pod, more: tuple[PodInfo, ...] = ()) -> Any:
        world = view.without([tuple(map(PodInfo, gone))]).plus([more])
        ((_, statuses),) = filter_hypothetical(found.framework, cycle, world)
        return statuses.table[statuses.codes[0] - 1].code if statuses.codes[0] else None

    assert answer() is Code.ERROR
    assert answer(bad) is Code.UNSCHEDULABLE
    assert answer(bad, user("x", "x", node="a")) is None
    assert answer(bad, more=(PodInfo(user("worse", volumes=[BAD_EBS])),)) is Code.ERROR


# ---------------------------------------------------------------- events

CSI_ADD = ("storage.k8s.io/CSINode", ActionType.ADD)
CSI_UPDATE = ("storage.k8s.io/CSINode", ActionType.UPDATE)
POD = ("Pod", ActionType.DELETE)
PVC = ("PersistentVolumeClaim", ActionType.ADD)
ATTACHMENT = ("storage.k8s.io/VolumeAttachment", ActionType.DELETE)


def wakes(event: Any, pod: Pod, old: Any, new: Any) -> bool:
    return hints(NodeVolumeLimits())[event](PodInfo(pod), old, new) is QueueingHint.QUEUE


def test_it_hears_of_drivers_pods_claims_and_attachments() -> None:
    assert list(hints(NodeVolumeLimits())) == [CSI_ADD, CSI_UPDATE, POD, PVC, ATTACHMENT]
    assert hints(NodeVolumeLimits())[CSI_ADD] is None


@pytest.mark.parametrize(
    ("old", "new", "helps"),
    [
        ({"d": 1}, {"d": 2}, True),
        ({"d": 2}, {"d": 1}, False),
        ({"d": 2}, {"d": 2}, False),
        ({}, {"d": 1}, True),
        ({}, {"d": 0}, False),
        ({"d": None}, {"d": 1}, True),
        ({"d": 1}, {"d": None}, False),
        ({"d": 1, "e": 1}, {"d": 0, "e": 2}, True),
    ],
)
def test_a_limit_rises(old: dict[str, Any], new: dict[str, Any], helps: bool) -> None:
    assert wakes(CSI_UPDATE, user("p", "c"), csi_node("a", **old), csi_node("a", **new)) is helps


@pytest.mark.parametrize(
    ("gone", "helps"),
    [
        (user("gone", "x", node="a"), True),
        (user("gone", "x", nominated_node="a"), True),
        (user("gone", "x"), False),
        (user("gone", volumes=[SCRATCH], node="a"), True),
        (user("gone", volumes=[EBS], node="a"), True),
        (user("gone", volumes=[{"name": "e", "emptyDir": {}}], node="a"), False),
        (make_pod("gone", node="a"), False),
    ],
)
def test_a_pod_goes_that_had_volumes(gone: Pod, helps: bool) -> None:
    assert wakes(POD, user("p", "c"), gone, None) is helps


@pytest.mark.parametrize(
    ("added", "helps"),
    [
        (claim("c"), True),
        (claim("p-scratch"), True),
        (claim("d"), False),
        (claim("c", namespace="other"), False),
    ],
)
def test_a_claim_of_the_pod_comes(added: Any, helps: bool) -> None:
    assert wakes(PVC, user("p", "c", volumes=[SCRATCH]), None, added) is helps


@pytest.mark.parametrize(
    ("pod", "attacher", "helps"),
    [
        (user("p", "c"), "any", True),
        (user("p", volumes=[EBS]), "ebs.csi.aws.com", True),
        (user("p", volumes=[EBS]), "other", False),
        (user("p", volumes=[BAD_EBS]), "other", True),
        (user("p", volumes=[SCRATCH]), "any", False),
        (user("p", volumes=[{"name": "f", "azureFile": {}}]), "file.csi.azure.com", True),
        (make_pod(), "any", False),
    ],
)
def test_an_attachment_goes(pod: Pod, attacher: str, helps: bool) -> None:
    gone = attachment("x", node="a", volume="v", attacher=attacher)

    assert wakes(ATTACHMENT, pod, gone, None) is helps


def test_pods_of_one_kind_are_asked_about_together() -> None:
    pods = [
        user("a", "c"),
        user("b", "c"),
        user("b", "d"),
        user("b", "c", namespace="other"),
        user("b", volumes=[EBS]),
        user("b", volumes=[BAD_EBS]),
    ]
    signed = [NodeVolumeLimits().sign(PodInfo(pod)) for pod in pods]

    assert signed[0] == signed[1]
    assert len(set(signed)) == 5
    assert NodeVolumeLimits().sign(PodInfo(make_pod())) == ()


# ---------------------------------------------------------------- the gate VolumeLimitScaling


def with_driver(demands: bool | None, *, is_installed: bool, is_on: bool = True) -> tuple[str, ...]:
    """Returns the reasons of a node for a pod with a volume of a driver."""
    plugin = NodeVolumeLimits({"VolumeLimitScaling": is_on})
    checked = Harness([make_node("a")], [plugin])
    put(checked.cache, *bound("x"))
    if is_installed:
        put(checked.cache, csi_node("a", disk_csi_test=5))
    if demands is not None:
        spec = CSIDriverSpec(prevent_pod_scheduling_if_missing=demands)
        put(checked.cache, CSIDriver(metadata=ObjectMeta(name=DRIVER), spec=spec))
    return reasons(checked, user("new", "x"))


@pytest.mark.parametrize(
    ("demands", "is_installed", "is_on", "is_feasible"),
    [
        (True, False, True, False),
        (True, True, True, True),
        (False, False, True, True),
        (None, False, True, True),
        (True, False, False, True),
    ],
)
def test_a_node_needs_the_driver_if_the_csi_driver_says_so(
    demands: bool | None, *, is_installed: bool, is_on: bool, is_feasible: bool
) -> None:
    expected = () if is_feasible else (f"{DRIVER} CSI driver is not installed on the node",)
    assert with_driver(demands, is_installed=is_installed, is_on=is_on) == expected


def demanding(driver: str) -> CSIDriver:
    spec = CSIDriverSpec(prevent_pod_scheduling_if_missing=True)
    return CSIDriver(metadata=ObjectMeta(name=driver), spec=spec)


def test_a_node_without_csi_node_needs_the_driver_though_a_disk_cannot_be_counted_elsewhere() -> (
    None
):
    harness = Harness([make_node("a")], [NodeVolumeLimits({"VolumeLimitScaling": True})])
    put(harness.cache, *bound("x"), demanding(DRIVER))
    odd = {"name": "odd", "awsElasticBlockStore": {"volumeID": "aws://z/bad"}}
    claim = {"name": "x", "persistentVolumeClaim": {"claimName": "x"}}

    pod = make_pod("new", spec={"volumes": [claim, odd]})

    assert reasons(harness, pod) == (f"{DRIVER} CSI driver is not installed on the node",)


def test_a_node_without_csi_node_does_not_need_the_driver_of_an_in_tree_disk() -> None:
    harness = Harness([make_node("a")], [NodeVolumeLimits({"VolumeLimitScaling": True})])
    put(harness.cache, demanding("ebs.csi.aws.com"))
    disk = {"name": "disk", "awsElasticBlockStore": {"volumeID": "vol-1"}}

    assert reasons(harness, make_pod("new", spec={"volumes": [disk]})) == ()


def test_csi_drivers_are_watched_with_the_gate_only() -> None:
    assert "CSIDriver" in NodeVolumeLimits({"VolumeLimitScaling": True}).needs
    assert "CSIDriver" not in NodeVolumeLimits().needs
