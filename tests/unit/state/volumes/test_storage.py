"""Storage: what is assumed, where volumes are listed, and what is forgotten."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from mooring.errors import InvariantViolation
from mooring.objects.meta import key
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.state import audit
from mooring.state.cache import Cache
from mooring.testing import cluster, make_node
from tests.helpers.volume_objects import (
    attachment,
    capacity,
    claim,
    csi,
    csi_driver,
    csi_node,
    put,
    storage_class,
    volume,
)


def free_names(cache: Cache, class_name: str = "local") -> list[str]:
    found = cache.storage.free_volumes(class_name)
    return sorted(each.metadata.name for each in found.volumes()) if found else []


def given_to(found: PersistentVolume, claim_name: str) -> PersistentVolume:
    return replace(found, spec=volume(claim=f"default/{claim_name}").spec)


def placed(found: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    return replace(found, metadata=claim(found.metadata.name, node=node).metadata)


def test_objects_are_found_by_name_until_they_are_gone() -> None:
    cache = cluster(make_node("a"))
    put(cache, volume("v"), claim("c"), storage_class("s"), csi_driver("d"), csi_node("a"))
    storage = cache.storage

    assert storage.volume("v") is not None
    assert storage.claim("default/c") is not None
    assert storage.storage_class("s") is not None
    assert storage.driver("d") is not None
    assert storage.csi_nodes.get("a") is not None

    for kind, at in (
        ("PersistentVolume", "v"),
        ("PersistentVolumeClaim", "default/c"),
        ("StorageClass", "s"),
        ("CSIDriver", "d"),
        ("CSINode", "a"),
    ):
        cache.remove_object(kind, at)
        cache.remove_object(kind, at)  # removed twice

    assert storage.volume("v") is None
    assert storage.claim("default/c") is None
    assert storage.storage_class("s") is None
    assert storage.driver("d") is None
    assert storage.csi_nodes.get("a") is None
    assert audit(cache) == []


# ---------------------------------------------------------------- assuming


def test_an_assumed_volume_is_not_free_until_it_is_restored() -> None:
    cache = put(Cache(), volume("v"))
    known = cache.storage.volume("v")
    assert known is not None
    assumed = given_to(known, "c")

    cache.storage.assume_volume(assumed)
    assert cache.storage.current_volume("v") is assumed
    assert cache.storage.volume("v") is known
    assert free_names(cache) == []
    assert cache.storage.volumes_naming("default/c", "local") == [assumed]
    assert audit(cache) == []

    cache.storage.restore_volume(assumed)
    cache.storage.restore_volume(assumed)
    assert cache.storage.current_volume("v") is known
    assert free_names(cache) == ["v"]
    assert cache.storage.volumes_naming("default/c", "local") == []


def test_news_of_the_api_server_ends_an_assumption_and_a_resync_does_not() -> None:
    cache = put(Cache(), volume("v", version="5"), claim("c", version="5"))
    assumed = given_to(volume("v", version="5"), "c")
    assumed_claim = placed(claim("c", version="5"), "a")
    assumed_claim = replace(
        assumed_claim, metadata=replace(assumed_claim.metadata, resource_version="5")
    )
    cache.storage.assume_volume(assumed)
    cache.storage.assume_claim(assumed_claim)

    put(cache, volume("v", version="5"), claim("c", version="5"))
    assert cache.storage.assumed() == ({"v": assumed}, {"default/c": assumed_claim})

    put(cache, volume("v", version="6"), claim("c", version="6"))
    assert cache.storage.assumed() == ({}, {})
    assert free_names(cache) == ["v"]
    cache.storage.restore_volume(assumed)
    cache.storage.restore_claim(assumed_claim)
    assert audit(cache) == []


def test_without_versions_whatever_is_told_is_news() -> None:
    cache = put(Cache(), volume("v", version=""))
    cache.storage.assume_volume(given_to(volume("v", version=""), "c"))

    put(cache, volume("v", version=""))

    assert cache.storage.assumed() == ({}, {})


def test_what_is_gone_is_not_assumed_any_more_and_cannot_be() -> None:
    cache = put(Cache(), volume("v"), claim("c"))
    cache.storage.assume_volume(given_to(volume("v"), "c"))
    cache.storage.assume_claim(placed(claim("c"), "a"))

    cache.remove_object("PersistentVolume", "v")
    cache.remove_object("PersistentVolumeClaim", "default/c")

    assert cache.storage.assumed() == ({}, {})
    assert audit(cache) == []
    with pytest.raises(InvariantViolation, match="cannot assume volume v: no such volume"):
        cache.storage.assume_volume(volume("v"))
    with pytest.raises(InvariantViolation, match="cannot assume claim default/c: no such claim"):
        cache.storage.assume_claim(claim("c"))


def test_only_the_one_who_assumed_gives_up_the_assumption() -> None:
    cache = put(Cache(), volume("v"), claim("c"))
    mine, other = given_to(volume("v"), "c"), given_to(volume("v"), "d")
    cache.storage.assume_volume(mine)

    cache.storage.restore_volume(other)

    assert cache.storage.current_volume("v") is mine


def test_the_version_rises_with_every_change() -> None:
    cache = put(Cache(), volume("v"), claim("c"))
    assumed = given_to(volume("v"), "c")
    seen = [cache.storage.version]
    for change in (
        lambda: put(cache, volume("v", size="2Gi")),
        lambda: cache.storage.assume_volume(assumed),
        lambda: cache.storage.restore_volume(assumed),
        lambda: cache.storage.assume_claim(placed(claim("c"), "a")),
        lambda: cache.remove_object("PersistentVolume", "v"),
    ):
        change()
        seen.append(cache.storage.version)

    assert seen == sorted(set(seen))


# ---------------------------------------------------------------- listing


@pytest.mark.parametrize(
    "found",
    [
        volume("v", phase="Bound"),
        volume("v", phase="Released"),
        volume("v", phase="Pending"),
        volume("v", claim="default/c"),
        volume("v", storage_class="other"),
        replace(
            volume("v"),
            metadata=replace(volume("v").metadata, deletion_timestamp="2026-01-01T00:00:00Z"),
        ),
    ],
    ids=["bound", "released", "pending", "meant for a claim", "other class", "being deleted"],
)
def test_only_available_volumes_of_the_class_are_free(found: PersistentVolume) -> None:
    cache = put(Cache(), found)
    assert free_names(cache) == []

    put(cache, volume("v"))
    assert free_names(cache) == ["v"]
    put(cache, found)
    assert free_names(cache) == []
    assert audit(cache) == []


def test_the_class_of_a_volume_is_that_which_the_api_server_knows() -> None:
    beta = {"volume.beta.kubernetes.io/storage-class": "old"}
    cache = put(Cache(), volume("v", storage_class="new", annotations=beta))

    assert free_names(cache, "old") == ["v"]
    assert free_names(cache, "new") == []
    changed = volume("v", storage_class="other")
    cache.storage.assume_volume(changed)
    assert {name: free_names(cache, name) for name in ("old", "other")} == {
        "old": ["v"],
        "other": [],
    }
    assert audit(cache) == []


def test_volumes_that_name_a_claim_are_found_by_class_in_order_of_names() -> None:
    cache = put(
        Cache(),
        volume("b", claim="default/c"),
        volume("a", claim="default/c"),
        volume("x", claim="default/c", storage_class="other"),
        volume("y", claim="default/d"),
    )

    found = cache.storage.volumes_naming("default/c", "local")

    assert [each.metadata.name for each in found] == ["a", "b"]


def test_capacities_are_kept_by_class_and_forgotten() -> None:
    cache = put(Cache(), capacity("one", capacity="1Gi", near={}), capacity("two"))
    known = cache.storage.capacities("made")
    assert known is not None
    assert len(known) == 1

    put(cache, capacity("one", storage_class="other", capacity="1Gi", near={}))
    assert cache.storage.capacities("made") is None
    assert len(cache.storage.capacities("other") or ()) == 1

    for name in ("one", "two"):
        cache.remove_object("CSIStorageCapacity", f"default/{name}")
    assert cache.storage.capacities("other") is None


def test_the_audit_tells_what_is_wrong() -> None:
    cache = cluster(make_node("a"))
    put(cache, csi_node("a", disk_csi_test=3), volume("v", csi=csi(), storage_class="made"))
    put(cache, attachment("x", node="a", volume="v"))
    attached_volumes = cache.storage.use.attached_volumes
    attached_volumes.remaining_by_row("disk.csi.test")
    assert audit(cache) == []

    attached_volumes._remaining._columns["disk.csi.test"][0] = 7
    cache.storage.objects.volumes["w"] = volume("w")

    assert audit(cache) == [
        "node a: 7 volumes of disk.csi.test remain, should be 2",
        "free volumes of class local: is None, should be ['w']",
    ]


def test_a_claim_has_its_assumed_version_until_it_is_restored() -> None:
    storage = put(Cache(), claim("c", version="1"), claim("d")).storage
    before = storage.version
    assumed = claim("c", version="1", volume_name="v")
    storage.assume_claim(assumed)

    assert storage.version == before + 1
    assert storage.current_claim("default/c") is assumed
    assert storage.claim("default/c") is not assumed
    assert storage.current_claim("default/d") is storage.claim("default/d")
    assert storage.current_claim("default/unknown") is None
    storage.restore_claim(claim("c"))  # another object
    assert (storage.current_claim("default/c"), storage.version) == (assumed, before + 1)
    storage.restore_claim(assumed)
    assert storage.current_claim("default/c") is storage.claim("default/c")
    assert storage.version == before + 2
    storage.restore_claim(assumed)
    assert storage.version == before + 2


@pytest.mark.parametrize(
    ("obj", "is_of_room"),
    [
        (storage_class("made"), True),
        (csi_driver(), True),
        (capacity("c", near={}, capacity="1Gi"), True),
        (csi_node("a", disk_csi_test=1), False),
        (volume("v"), False),
        (claim("c"), False),
        (attachment("x", node="a", volume="v"), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_kinds_that_decide_where_volumes_are_made_change_the_version_of_rooms(
    obj: Any, is_of_room: bool
) -> None:
    cache = Cache()
    put(cache, obj)
    storage = cache.storage
    assert (storage.version, storage.room_version) == (1, int(is_of_room))

    cache.remove_object(type(obj).__name__, key(obj))
    assert (storage.version, storage.room_version) == (2, 2 * is_of_room)
