"""Volumes and claims are bound and provisioned as in kube-scheduler's recordings.

Each pod that was scheduled is carried out for real, through Reserve and PreBind; then the recorded
effects are put in place, so that every step starts from the recorded state.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.clock import SystemClock, seeded_random
from mooring.config import from_document
from mooring.objects.codec.decode import convert
from mooring.objects.meta import key
from mooring.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.recordings.format import Step, read_recording
from mooring.simulation.driver import Driver
from mooring.simulation.replay import RecordedOutcomes, objects_of
from mooring.state import audit

DATA = Path(__file__).parent / "data"
PATHS = sorted(DATA.glob("volumes-[0-9]*.json.gz"))
VOLUMES_AND_CLAIMS = ("PersistentVolume", "PersistentVolumeClaim")

Stored = PersistentVolume | PersistentVolumeClaim


def comparable(obj: Stored) -> Any:
    """Returns an object without versions, UIDs of new objects and times."""
    metadata = replace(obj.metadata, resource_version="", uid="", creation_timestamp=None)
    found = replace(obj, metadata=metadata)
    if isinstance(found, PersistentVolume) and found.spec.claim_ref is not None:
        reference = replace(found.spec.claim_ref, resource_version="")
        found = replace(found, spec=replace(found.spec, claim_ref=reference))
    return found


def recorded(step: Step) -> dict[str, Any]:
    """Returns the volumes and claims that the step changed or made, by kind and key."""
    documents = step.effects.updated if step.effects else ()
    found = [convert(each, each["kind"]) for each in documents]
    return {
        f"{type(obj).__name__} {key(obj)}": comparable(obj)
        for obj in found
        if type(obj).__name__ in VOLUMES_AND_CLAIMS
    }


def present(driver: Driver) -> dict[str, Stored]:
    known = driver.cache.storage.objects
    objects: list[Stored] = [*known.volumes.values(), *known.claims.values()]
    return {f"{type(obj).__name__} {key(obj)}": obj for obj in objects}


def carried_out(driver: Driver, step: Step) -> dict[str, Any]:
    """Returns what volumes and claims the step changes or makes when we carry it out."""
    before = present(driver)
    outcome = driver.attempt(convert(step.pod, "Pod"), start_index=step.start_index)
    assert outcome.node == step.decision.node
    driver.apply(outcome)
    after = present(driver)
    return {name: comparable(obj) for name, obj in after.items() if before.get(name) is not obj}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
def test_volumes_and_claims_are_bound_and_made_as_recorded(path: Path) -> None:
    recording = read_recording(path)
    driver = Driver(
        objects_of(recording.objects),
        config=from_document(recording.config) if recording.config else None,
        rng=seeded_random(0),
        clock=SystemClock(),
        node_order=recording.node_order,
    )
    follower = RecordedOutcomes(driver, recording.objects)
    for step in recording.steps:
        if step.decision.node is not None:
            assert carried_out(driver, step) == recorded(step)
            assert driver.cache.storage.assumed() == ({}, {})
        follower.apply(step)
        assert audit(driver.cache) == []


def test_the_recordings_have_both_kinds_of_binding() -> None:
    changes = [
        obj
        for path in PATHS
        for step in read_recording(path).steps
        for obj in recorded(step).values()
        if isinstance(obj, PersistentVolume)
    ]

    assert sum(obj.metadata.name.startswith("pvc-") for obj in changes) > 20
    assert sum(not obj.metadata.name.startswith("pvc-") for obj in changes) > 10
