"""Every recorded decision of kube-scheduler, made again.

In six families no plugin that is still to be built has a say, so their recordings must replay
without any difference. In six others what the built plugins say is compared. Left out are dra and
mixed: there, devices stand for extended resources, which takes a plugin that is still to be built.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.clock import SystemClock, seeded_random
from mooring.config import from_document
from mooring.sim.driver import Driver
from mooring.sim.recording import read_recording
from mooring.sim.replay import objects_of, replay
from mooring.state import audit

DATA = Path(__file__).parent / "data"
OWNED_FAMILIES = (
    "resources",
    "taints",
    "nodeaffinity",
    "ports-images",
    "spread",
    "spread-defaults",
)

PARTLY_OWNED_FAMILIES = (
    "big",
    "gates-priority",
    "podaffinity",
    "preemption",
    "profiles",
    "volumes",
)


def recordings(*families: str) -> list[Path]:
    """The recordings of these families, in a stable order."""
    return sorted(path for family in families for path in DATA.glob(f"{family}-[0-9]*.json.gz"))


def replayed(path: Path, *, share_answers: bool) -> tuple[list[str], int]:
    """Every difference in words, and the number of steps compared."""
    recording = read_recording(path)
    config = from_document(recording.config) if recording.config else None
    driver = Driver(
        objects_of(recording.objects),
        config=config,
        rng=seeded_random(0),
        clock=SystemClock(),
        node_order=recording.node_order,
        share_answers=share_answers,
    )
    found: list[str] = []
    steps = 0
    steps_again = replay(
        recording.steps, driver, objects=recording.objects, only=driver.OWN, config=config
    )
    for step in steps_again:
        found += map(str, step.differences)
        found += audit(driver.cache)
        steps += 1
    return found, steps


@pytest.mark.parametrize("path", recordings(*OWNED_FAMILIES), ids=lambda path: path.name)
def test_an_owned_family_replays_without_a_difference_and_a_clean_audit(path: Path) -> None:
    found, steps = replayed(path, share_answers=True)

    assert found == []
    assert steps == len(read_recording(path).steps) > 0


@pytest.mark.parametrize("path", recordings(*PARTLY_OWNED_FAMILIES), ids=lambda path: path.name)
def test_what_built_plugins_say_is_the_same_in_other_families(path: Path) -> None:
    found, steps = replayed(path, share_answers=True)

    assert found == []
    assert steps == len(read_recording(path).steps) > 0


@pytest.mark.parametrize(
    "path", recordings("resources", "spread", "taints"), ids=lambda path: path.name
)
def test_the_full_pass_replays_as_the_shared_answers_do(path: Path) -> None:
    found, _ = replayed(path, share_answers=False)

    assert found == []


def test_all_twelve_recordings_of_each_owned_family_are_here() -> None:
    assert len(recordings(*OWNED_FAMILIES)) == 72
    assert len(recordings(*PARTLY_OWNED_FAMILIES)) == 72
