"""The index of volumes, beside a plain search through all of them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mooring.objects.quantity import Quantity
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.objects.volume_claims import amount, is_bound_to, volume_class
from mooring.objects.volume_index import VolumeIndex
from tests.helpers.volume_objects import claim, volume


def some_volume(rng: random.Random, name: str) -> PersistentVolume:
    fields: dict[str, Any] = {"claim": f"default/c{rng.randrange(3)}"} if rng.random() < 0.4 else {}
    if fields and rng.random() < 0.5:
        fields["claim_uid"] = rng.choice(["", "other"])
    return volume(
        name,
        size=rng.choice(["1Gi", "1024Mi", "2Gi", "3Gi"]),
        storage_class=rng.choice(["a", "b", ""]),
        phase=rng.choice(["Available", "Available", "Bound", "Pending"]),
        **fields,
    )


def free(volumes: list[PersistentVolume], class_name: str, size: Quantity) -> list[str]:
    matches = [
        item
        for item in volumes
        if item.spec.claim_ref is None
        and item.status.phase == "Available"
        and volume_class(item) == class_name
        and amount(item.spec.capacity) >= size
    ]
    matches.sort(key=lambda item: (amount(item.spec.capacity), item.metadata.name))
    return [item.metadata.name for item in matches]


def meant_for(volumes: list[PersistentVolume], owner: PersistentVolumeClaim) -> set[str]:
    return {v.metadata.name for v in volumes if is_bound_to(v.spec.claim_ref, owner)}


@pytest.mark.parametrize("seed", range(10))
def test_it_gives_what_a_search_through_all_volumes_gives(seed: int) -> None:
    rng = random.Random(seed)
    volumes = {name: some_volume(rng, name) for name in ("v0", "v1")}
    index = VolumeIndex(volumes.values())
    for _ in range(60):
        name = f"v{rng.randrange(8)}"
        if name in volumes and rng.random() < 0.3:
            del volumes[name]
            index.delete(name)
        else:
            volumes[name] = some_volume(rng, name)
            index.put(volumes[name])
        everything = [*volumes.values()]
        assert list(index.volumes()) == everything
        assert index.get(name) is volumes.get(name)
        for number in range(3):
            owner = claim(f"c{number}")
            found = {item.metadata.name for item in index.meant_for(owner)}
            assert found == meant_for(everything, owner)
        for class_name in ("a", "b"):
            size = Quantity.from_wire(rng.choice(["0", "1Gi", "2Gi", "5Gi"]))
            found_free = [item.metadata.name for item in index.free(class_name, size)]
            assert found_free == free(everything, class_name, size)
