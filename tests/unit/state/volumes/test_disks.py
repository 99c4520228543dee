"""Disks that pods describe themselves: which of them get in each other's way, and where."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.state.volumes.disks import Disks, conflict_count, describes_disk, disks_of
from mooring.testing import make_pod


def disks(**source: Any) -> Any:
    return disks_of(make_pod(spec={"volumes": [{"name": "v", **source}]}))


def google(name: str = "d", *, read_only: bool = False) -> Any:
    return disks(gcePersistentDisk={"pdName": name, "readOnly": read_only})


def iscsi(name: str = "d", *, read_only: bool = False) -> Any:
    return disks(iscsi={"targetPortal": "p", "iqn": name, "readOnly": read_only})


def ceph(*monitors: str, pool: str = "p", image: str = "i", read_only: bool = False) -> Any:
    source = {"monitors": monitors, "pool": pool, "image": image, "readOnly": read_only}
    return disks(rbd=source)


def amazon(name: str = "d", *, read_only: bool = False) -> Any:
    return disks(awsElasticBlockStore={"volumeID": name, "readOnly": read_only})


@pytest.mark.parametrize(
    ("one", "other", "clashes"),
    [
        (google(), google(), True),
        (google(read_only=True), google(), True),
        (google(read_only=True), google(read_only=True), False),
        (google("a"), google("b"), False),
        (google(), iscsi(), False),
        (amazon(read_only=True), amazon(read_only=True), True),
        (amazon("a"), amazon("b"), False),
        (iscsi(), iscsi(), True),
        (iscsi(read_only=True), iscsi(read_only=True), False),
        (ceph("a", "b"), ceph("b", "c"), True),
        (ceph("a"), ceph("b"), False),
        (ceph(), ceph(), False),
        (ceph("a", pool="x"), ceph("a", pool="y"), False),
        (ceph("a", image="x"), ceph("a", image="y"), False),
        (ceph("a", read_only=True), ceph("a", read_only=True), False),
        ((), google(), False),
    ],
)
def test_two_pods_with_disks(one: Any, other: Any, clashes: bool) -> None:
    assert (conflict_count(one, other) > 0) is clashes
    assert (conflict_count(other, one) > 0) is clashes
    table = Disks()
    table.add(3, other)
    assert table.conflicts(one) == ({3: conflict_count(one, other)} if clashes else {})
    table.remove(3, other)
    assert table.conflicts(one) == {}
    assert len(table) == 0


def test_conflicts_are_summed_up_by_row() -> None:
    table = Disks()
    table.add(1, google(read_only=True))
    table.add(1, google(read_only=True))
    table.add(2, google())

    assert table.conflicts(google()) == {1: 2, 2: 1}
    assert table.conflicts(google(read_only=True)) == {2: 1}
    assert table.items() == {(("gce", "d"), 1): (2, 0), (("gce", "d"), 2): (0, 1)}


def test_only_some_kinds_are_such_disks() -> None:
    volumes = [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "persistentVolumeClaim": {"claimName": "c"}},
        {"name": "c", "azureDisk": {"diskName": "d", "diskURI": "u"}},
        {"name": "d", "rbd": {"monitors": [], "image": "i"}},
    ]
    pod = make_pod(spec={"volumes": volumes})

    assert [describes_disk(volume) for volume in pod.spec.volumes] == [False, False, False, True]
    assert disks_of(pod) == ()
    assert disks_of(make_pod()) == ()


@pytest.mark.parametrize(
    ("made", "identities", "is_shared"),
    [
        (google("d", read_only=True), [("gce", "d")], True),
        (google("d"), [("gce", "d")], False),
        (amazon("d", read_only=True), [("aws", "d")], False),
        (iscsi("q", read_only=True), [("iscsi", "q")], True),
        (iscsi("q"), [("iscsi", "q")], False),
        (ceph("m", "n", "m"), [("rbd", "m", "p", "i"), ("rbd", "n", "p", "i")], False),
        (ceph("m", read_only=True), [("rbd", "m", "p", "i")], True),
    ],
)
def test_the_identities_of_disks(made: Any, identities: list[Any], is_shared: bool) -> None:
    assert [disk.identity for disk in made] == identities
    assert all(disk.is_shared is is_shared for disk in made)


def test_a_pod_has_the_disks_of_all_its_volumes() -> None:
    volumes = [
        {"name": "a", "gcePersistentDisk": {"pdName": "g"}},
        {"name": "b", "emptyDir": {}},
        {"name": "c", "iscsi": {"targetPortal": "p", "iqn": "q", "readOnly": True}},
    ]
    pod = make_pod(spec={"volumes": volumes})

    assert [tuple(disk) for disk in disks_of(pod)] == [
        (("gce", "g"), False),
        (("iscsi", "q"), True),
    ]
    counts = Disks()
    counts.add(1, disks_of(pod))
    counts.add(1, google("g", read_only=True))
    counts.remove(1, disks_of(pod))
    assert counts.items() == {(("gce", "g"), 1): (1, 0)}
