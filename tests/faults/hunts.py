"""Plants subtle bugs one at a time, and looks for the first seed that detects them.

``python -m tests.faults.hunts [[FIRST-]LAST] [NAME ...]`` prints the seed that detects each bug and
how, and the rate of each package. The runs of single parts are tried first: they take a tenth of a
second, and so ten times as many seeds.
"""

from __future__ import annotations

import gc
import logging
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Final

import pytest

from tests.faults.kinds import KINDS
from tests.faults.parts.runs import KINDS_OF
from tests.faults.planted import ALL_BUGS, PlantedBug

#: Seeds that are tried for each bug.
SEEDS: Final = 30

#: Of a single part so many times as many seeds are tried.
PART_SEEDS: Final = 10


def detected_by(bug: PlantedBug, seed: int, runs: str = "") -> str:
    """Runs a seed with a planted bug; returns what is wrong, "" if nothing is.

    Args:
        bug: The bug.
        seed: Of the run.
        runs: Its kind; that of the bug by default.
    """
    # So the collection looks at what the run makes, not at all that pytest has.
    gc.freeze()
    try:
        with pytest.MonkeyPatch.context() as patch:
            bug.plant(patch)
            try:
                KINDS[runs or bug.runs].run(seed)
            except Exception as error:  # noqa: BLE001 - the scheduler may detect the bug itself
                return first_line(error)
            finally:
                # Collects cancelled tasks now, and not in another test.
                gc.collect()
    finally:
        gc.unfreeze()
    return ""


def first_line(error: BaseException) -> str:
    """Returns the type and the first line of an error, or of the first one of a group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def main() -> int:
    """Hunts for all bugs; returns 0."""
    arguments = sys.argv[1:]
    first, last = 0, SEEDS
    if arguments and arguments[0][0].isdigit():
        from_seed, _, to_seed = arguments.pop(0).rpartition("-")
        first, last = int(from_seed or 0), int(to_seed)
    planted: Counter[str] = Counter()
    detected: Counter[str] = Counter()
    for bug in ALL_BUGS:
        if arguments and bug.name not in arguments:
            continue
        planted[bug.room] += 1
        for runs, seed in _tries(bug, first, last):
            if how := detected_by(bug, seed, runs):
                detected[bug.room] += 1
                print(f"{bug.room:12} {bug.name:30} {runs} {seed}: {how[:150]}", flush=True)
                break
        else:
            print(f"{bug.room:12} {bug.name:30} NOT DETECTED", flush=True)
    for room in planted:
        print(f"{room}: {detected[room]} of {planted[room]}")
    return 0


def _tries(bug: PlantedBug, first: int, last: int) -> Iterator[tuple[str, int]]:
    """Yields the runs that may detect a bug: kind and seed."""
    for kind in KINDS_OF.get(bug.room, ()):
        for seed in range(first, PART_SEEDS * last):
            yield kind, seed
    if bug.runs not in KINDS_OF.get(bug.room, ()):
        for seed in range(first, last):
            yield bug.runs, seed


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.exit(main())
