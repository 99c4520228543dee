"""Replays every recorded decision of kube-scheduler.

Every step must be decided as it was recorded, those whose pods request devices included.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.clock import SystemClock, seeded_random
from mooring.config import from_document
from mooring.recordings.format import read_recording
from mooring.simulation.driver import Driver
from mooring.simulation.replay import objects_of, replay
from mooring.state import audit

DATA = Path(__file__).parent / "data"
FAMILIES = (
    "big",
    "dra",
    "gates-priority",
    "mixed",
    "nodeaffinity",
    "podaffinity",
    "ports-images",
    "preemption",
    "profiles",
    "resources",
    "spread",
    "spread-defaults",
    "taints",
    "volumes",
)


def recordings(*families: str) -> list[Path]:
    """Returns the recordings of these families, in a stable order."""
    return sorted(path for family in families for path in DATA.glob(f"{family}-[0-9]*.json.gz"))


def replayed(path: Path, *, cache_results: bool) -> tuple[list[str], int]:
    """Returns every difference in words, and the number of steps compared."""
    recording = read_recording(path)
    config = from_document(recording.config) if recording.config else None
    driver = Driver(
        objects_of(recording.objects),
        config=config,
        rng=seeded_random(0),
        clock=SystemClock(),
        node_order=recording.node_order,
        cache_results=cache_results,
        preempt_all_nodes=True,
    )
    found: list[str] = []
    steps = 0
    steps_again = replay(
        recording.steps,
        driver,
        objects=recording.objects,
        config=config,
    )
    for step in steps_again:
        found += map(str, step.differences)
        found += audit(driver.cache)
        steps += 1
    return found, steps


@pytest.mark.parametrize("path", recordings(*FAMILIES), ids=lambda path: path.name)
def test_a_recording_replays_without_a_difference_and_a_clean_audit(path: Path) -> None:
    found, steps = replayed(path, cache_results=True)

    assert found == []
    assert steps == len(read_recording(path).steps) > 0


@pytest.mark.parametrize(
    "path", recordings("podaffinity", "resources", "spread", "taints"), ids=lambda path: path.name
)
def test_the_full_pass_replays_as_the_shared_answers_do(path: Path) -> None:
    found, _ = replayed(path, cache_results=False)

    assert found == []


def test_all_twelve_recordings_of_each_family_are_here() -> None:
    assert len(recordings(*FAMILIES)) == 168
