"""Subtle bugs of devices: all fit the code, and the recorded test of each detects it.

``MOORING_SEEDS=1000`` runs the tests of all bugs; by default one of eight is tried, since each runs
pytest in a process of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.planted.device_tests import DEVICE_BUGS, DeviceBug

ROOT = Path(__file__).parents[2]
STEP = 1 if int(os.environ.get("MOORING_SEEDS", "200")) >= 1000 else 8
DEADLINE_S = 300


def ids(entry: DeviceBug) -> str:
    return entry.bug.name


@pytest.mark.parametrize("entry", DEVICE_BUGS, ids=ids)
def test_a_bug_of_devices_can_be_planted(entry: DeviceBug) -> None:
    bug = entry.bug
    before = getattr(bug.owner, bug.function)
    with pytest.MonkeyPatch.context() as patch:
        bug.plant(patch)
        assert getattr(bug.owner, bug.function) is not before


def test_each_bug_has_a_name_of_its_own_and_a_test() -> None:
    names = [entry.bug.name for entry in DEVICE_BUGS]
    assert len(set(names)) == len(names) >= 20
    for entry in DEVICE_BUGS:
        path, _, name = entry.detected_by.partition("::")
        assert f"def {name.partition('[')[0]}(" in (ROOT / path).read_text(), entry.bug.name


@pytest.mark.parametrize("entry", DEVICE_BUGS[::STEP], ids=ids)
def test_a_bug_of_devices_is_detected_by_its_test(entry: DeviceBug) -> None:
    plugin = ["-p", "no:cacheprovider", "-p", "tests.faults.plant_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "0", *plugin, entry.detected_by]
    environment = {**os.environ, "MOORING_PLANT": entry.bug.name}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert (done.returncode, " failed" in done.stdout) == (1, True), done.stdout[-2000:]
