"""VolumeRestrictions: disks that two pods cannot share, and claims that are for one pod alone."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.cluster_event import ActionType, QueueingHint
from mooring.framework.runtime.nominated import filter_hypothetical
from mooring.framework.status import Code
from mooring.objects.pod import Pod
from mooring.plugins import VolumeRestrictions
from mooring.state import PodInfo
from mooring.testing import Harness, make_node, make_pod
from tests.helpers.volume_objects import claim, put, user
from tests.plugins.reference_plugins import hints

DISK = "node(s) had no available disk"
CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already "
    "in-use by another pod"
)
GOOGLE: dict[str, Any] = {"name": "g", "gcePersistentDisk": {"pdName": "d"}}


def alone(name: str = "c", namespace: str = "default") -> Any:
    return claim(name, namespace=namespace, accessModes=["ReadWriteOncePod"])


def harness(*objects: Any, claims: tuple[Any, ...] = ()) -> Harness:
    found = Harness([make_node("a"), make_node("b"), *objects], [VolumeRestrictions()])
    put(found.cache, *claims)
    return found


def worlds(found: Harness, pod: Pod, **change: list[tuple[PodInfo, ...]]) -> list[Any]:
    """Returns the reasons by node, with pods added (``plus``) or removed (``without``)."""
    cycle, view, _ = found.begin(pod)
    for name, pods in change.items():
        view = getattr(view, name)(pods)
    ((_, statuses),) = filter_hypothetical(found.framework, cycle, view)
    return [statuses.table[code - 1].reasons if code else () for code in statuses.codes.tolist()]


def test_a_disk_is_taken_on_the_node_of_the_pod_that_has_it() -> None:
    found = harness(user("there", volumes=[GOOGLE], node="a"))

    statuses = found.statuses(user("new", volumes=[GOOGLE]))

    assert statuses["a"] is not None
    assert (statuses["a"].code, statuses["a"].reasons) == (Code.UNSCHEDULABLE, (DISK,))
    assert statuses["b"] is None


def test_a_claim_for_one_pod_is_taken_everywhere() -> None:
    found = harness(user("there", "c", node="a"), claims=(alone(),))

    statuses = found.statuses(user("new", "c"))

    assert {name: status and status.code for name, status in statuses.items()} == {
        "a": Code.UNSCHEDULABLE,
        "b": Code.UNSCHEDULABLE,
    }
    assert found.reasons(user("new", "c")) == {"a": (CLAIM,), "b": (CLAIM,)}


def test_a_disk_is_reported_before_a_claim() -> None:
    there = user("there", "c", volumes=[GOOGLE], node="a")
    found = harness(there, claims=(alone(),))

    assert found.reasons(user("new", "c", volumes=[GOOGLE])) == {"a": (DISK,), "b": (CLAIM,)}


@pytest.mark.parametrize(
    ("there", "claims"),
    [
        (user("there", "c", node="a"), (claim("c"),)),
        (user("there", "other", node="a"), (alone(), alone("other"))),
        (user("there", "c", node="a", namespace="other"), (alone(), alone("c", "other"))),
        (user("there", "c", node="gone"), (alone(),)),
    ],
    ids=["another mode", "another claim", "another namespace", "a node that is gone"],
)
def test_a_pod_with_claims_that_are_free_skips(there: Pod, claims: tuple[Any, ...]) -> None:
    found = harness(there, claims=claims)

    assert "VolumeRestrictions" in found.begin(user("new", "c")).cycle.skipped


@pytest.mark.parametrize("pod", [make_pod(), user("p", volumes=[{"name": "e", "emptyDir": {}}])])
def test_a_pod_without_such_volumes_skips(pod: Pod) -> None:
    assert "VolumeRestrictions" in harness().begin(pod).cycle.skipped


def test_a_claim_that_is_not_there_ends_the_attempt() -> None:
    refusal = harness(claims=(alone("c"),)).begin(user("new", "c", "absent")).refusal

    assert refusal is not None
    assert refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert refusal.reasons == ('persistentvolumeclaim "absent" not found',)


def test_eviction_of_the_other_pod_frees_the_claim_on_every_node() -> None:
    there = user("there", "c", node="a")
    found = harness(there, make_pod("x", node="b"), claims=(alone(),))
    victims = {"a": (PodInfo(there),), "b": (PodInfo(make_pod("x", node="b")),)}
    names = found.open(user("new", "c"))[1].names

    reasons = worlds(found, user("new", "c"), without=[victims[name] for name in names])

    assert dict(zip(names, reasons, strict=True)) == {"a": (), "b": (CLAIM,)}


def test_as_upstream_a_claims_namespace_does_not_count_among_victims() -> None:
    stranger = user("stranger", "c", node="b", namespace="other")
    found = harness(user("there", "c", node="a"), stranger, claims=(alone(), alone("c", "other")))
    names = found.open(user("new", "c"))[1].names
    victims: list[tuple[PodInfo, ...]] = [
        (PodInfo(stranger),) if name == "b" else () for name in names
    ]

    reasons = worlds(found, user("new", "c"), without=victims)

    assert dict(zip(names, reasons, strict=True)) == {"a": (CLAIM,), "b": ()}


def test_a_nominated_pod_is_in_the_way_as_if_it_were_there() -> None:
    found = harness(user("there", volumes=[GOOGLE], node="a"))
    names = found.open(user("new", volumes=[GOOGLE]))[1].names
    rival = (PodInfo(user("rival", volumes=[GOOGLE])),)

    reasons = worlds(found, user("new", volumes=[GOOGLE]), plus=[rival, rival])

    assert dict(zip(names, reasons, strict=True)) == {"a": (DISK,), "b": (DISK,)}


# ---------------------------------------------------------------- events

POD, NODE = ("Pod", ActionType.DELETE), ("Node", ActionType.ADD)
PVC = ("PersistentVolumeClaim", ActionType.ADD)


def wakes(event: Any, pod: Pod, old: Any, new: Any) -> bool:
    hint = hints(VolumeRestrictions())[event]
    return hint(PodInfo(pod), old, new) is QueueingHint.QUEUE


def test_it_hears_of_pods_nodes_and_claims() -> None:
    assert list(hints(VolumeRestrictions())) == [POD, NODE, PVC]
    assert hints(VolumeRestrictions())[NODE] is None
    assert [each.pure for each in VolumeRestrictions().events()] == [True, False, True]


@pytest.mark.parametrize(
    ("gone", "helps"),
    [
        (user("gone", "c"), True),
        (user("gone", volumes=[GOOGLE]), True),
        (user("gone", "c", namespace="other"), False),
        (user("gone", volumes=[GOOGLE], namespace="other"), False),
        (user("gone", "d"), False),
        (make_pod("gone"), False),
    ],
)
def test_a_pod_goes_that_had_what_this_one_wants(gone: Pod, helps: bool) -> None:
    assert wakes(POD, user("new", "c", volumes=[GOOGLE]), gone, None) is helps


@pytest.mark.parametrize(
    ("added", "helps"),
    [(claim("c"), True), (claim("d"), False), (claim("c", namespace="other"), False)],
)
def test_a_claim_of_the_pod_comes(added: Any, helps: bool) -> None:
    assert wakes(PVC, user("new", "c"), None, added) is helps


def test_pods_of_one_kind_are_asked_about_together() -> None:
    sign = VolumeRestrictions().sign
    pods = [
        user("a", "c"),
        user("b", "c"),
        user("b", "d"),
        user("b", "c", namespace="other"),
        user("b", "c", volumes=[GOOGLE]),
    ]
    signed = [sign(PodInfo(pod)) for pod in pods]

    assert signed[0] == signed[1]
    assert len(set(signed)) == 4
