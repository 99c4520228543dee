"""The audit of volumes: damage in each index is reported with its place, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mooring.state.audit import audit
from mooring.state.cache import Cache
from mooring.state.volumes.disks import Disk
from mooring.testing import cluster, make_node
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

UID = "pod-default-p"
EBS = {"name": "e", "awsElasticBlockStore": {"volumeID": "vol-1"}}
SCRATCH = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def healthy() -> Cache:
    """Returns pods on a, one of which cannot be counted; an attachment and volumes."""
    cache = cluster(make_node("a"), make_node("b"))
    put(
        cache,
        csi_node("a", disk_csi_test=5),
        storage_class("made", provisioner=DRIVER),
        claim("c", storage_class="made", volume_name="v"),
        volume("v", csi=csi("h"), storage_class="made", claim="default/c"),
        volume("free", storage_class="made"),
        attachment("one", node="a", volume="v"),
        claim("q-scratch", owner="another"),
    )
    cache.put_pod(user("p", "c", volumes=[EBS], node="a"))
    cache.put_pod(user("q", volumes=[SCRATCH], node="a"))
    cache.storage.use.attached_volumes.remaining_by_row(DRIVER)
    return cache


def counting_slot(cache: Cache) -> None:
    placed = cache.pods.get(UID)
    assert placed is not None
    cache.storage.use._counting[placed.slot] = False


def volumes_of_pod(cache: Cache) -> None:
    use = cache.storage.use._uses[UID]
    cache.storage.use._uses[UID] = use._replace(disks=())


def users_of_claim(cache: Cache) -> None:
    del cache.storage.use._users["default/c"]


def dependents(cache: Cache) -> None:
    del cache.storage.use._dependents["PersistentVolume", "v"][UID]


def problems(cache: Cache) -> None:
    cache.storage.use.problems.clear()


def users_of_volume(cache: Cache) -> None:
    cache.storage.use.attached_volumes._users[f"{DRIVER}/h"]["a"].pods += 1


def attachments_of_volume(cache: Cache) -> None:
    del cache.storage.use._attachments_of["v"]["one"]


def users_of_disk(cache: Cache) -> None:
    cache.storage.use.disks.add(1, (Disk(("aws", "vol-1"), is_shared=False),))


def limit_column(cache: Cache) -> None:
    cache.storage.csi_nodes._limits["a"] = {DRIVER: 9}


def free_volumes(cache: Cache) -> None:
    free = cache.storage.free_volumes("made")
    assert free is not None
    free.remove("free")


def volumes_of_claim(cache: Cache) -> None:
    cache.storage._named["default/c"]["free"] = None


def assumed_volume(cache: Cache) -> None:
    gone = volume("gone")
    cache.storage._assumed_volumes["gone"] = gone


def assumed_claim(cache: Cache) -> None:
    cache.storage._assumed_claims["default/gone"] = claim("gone")


def test_volumes_in_order_have_no_problems() -> None:
    assert audit(healthy()) == []


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (counting_slot, "counting slot 0: is None, should be True"),
        (volumes_of_pod, f"volumes of pod {UID}: is ('a', Counted(volumes={{"),
        (users_of_claim, f"users of claim default/c: is None, should be {{'{UID}': None}}"),
        (
            dependents,
            f"pods that depend on PersistentVolume v: is {{}}, should be {{'{UID}': None}}",
        ),
        (problems, "pods that cannot be counted on a: is None, should be {'pod-default-q': "),
        (users_of_volume, f"users of volume ('{DRIVER}/h', 'a'): is (2, 1), should be (1, 1)"),
        (attachments_of_volume, "attachments of volume v: is {}, should be {'one': None}"),
        (users_of_disk, "users of disk (('aws', 'vol-1'), 1): is (0, 1), should be None"),
        (limit_column, f"node a: 4 volumes of {DRIVER} remain, should be 8"),
        (free_volumes, "free volumes of class made: is [], should be ['free']"),
        (
            volumes_of_claim,
            "volumes that name default/c: is ['free', 'v'], should be ['v']",
        ),
        (assumed_volume, "volume gone is assumed but does not exist"),
        (assumed_claim, "claim default/gone is assumed but does not exist"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_damage_of_volumes_is_reported_with_its_place(
    damage: Callable[[Cache], None], problem: str
) -> None:
    cache = healthy()

    damage(cache)

    (reported,) = audit(cache)
    assert reported.startswith(problem)
