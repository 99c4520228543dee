"""Compares runs with those that were recorded in ``tests/faults/recorded``.

A record is a file for each kind of runs, with a line for each seed::

    # python -m tests.faults.record swarm
    0 4 10312 5d1c0a7b22f3e6d1 91aa07f2...
    │ │ │     │                └ 4 digits for each window: a hash of all entries up to its end
    │ │ │     └ a hash of all entries
    │ │ └ how many entries the run has
    │ └ the width of a window: virtual seconds of a whole run, entries of a run of a single part
    └ the seed

So the first window whose hash differs has the first difference. A difference says that the
behaviour has changed, not that it is wrong.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

from mooring.errors import ConfigError
from tests.faults.harness.recording import WHOLE, Entry, has_results, recording

_Result = TypeVar("_Result")

FOLDER: Final = Path(__file__).resolve().parents[1] / "recorded"
#: The versions of Python in which runs are compared: all records were the same in these. Another
#: asyncio may have other steps, so that the loop draws another order.
COMPARED_IN: Final = ((3, 11), (3, 12), (3, 13))
#: That in which runs with the results of calls are compared: others profile other calls.
RESULTS_IN: Final = (3, 11)

WINDOWS_MAX: Final = 40
WINDOWS_OF_PART_MAX: Final = 12
HASH_DIGITS: Final = 4
DIGEST_DIGITS: Final = 16
#: Entries of the first window that differs, in the message.
SHOWN: Final = 8
SHOWN_CHARACTERS: Final = 200


class RunDiffers(AssertionError):
    """A run is no longer the one that was recorded."""


class Record(NamedTuple):
    """The record of one run; the fields are explained above."""

    seed: int
    width: int
    n_entries: int
    digest: str
    windows: tuple[str, ...]

    def __str__(self) -> str:
        windows = "".join(self.windows)
        return f"{self.seed} {self.width} {self.n_entries} {self.digest} {windows}"


def record_of(kind: str, seed: int, entries: Sequence[Entry], width: int = 0) -> Record:
    """Returns the record of a run.

    Args:
        kind: Of the run.
        seed: Of the run.
        entries: What it did.
        width: Of a window; 0 = the least power of two with which there are not too many.
    """
    places = _places(kind, entries)
    if not width:
        width, most = 1, WINDOWS_MAX if kind in WHOLE else WINDOWS_OF_PART_MAX
        while places and places[-1] // width >= most:
            width *= 2
    digest, windows = hashlib.sha256(), list[str]()
    for place, entry in zip(places, entries, strict=True):
        while len(windows) < place // width:
            windows.append(digest.hexdigest()[:HASH_DIGITS])
        digest.update(f"{entry}\n".encode())
    windows.append(digest.hexdigest()[:HASH_DIGITS])
    whole = digest.hexdigest()[:DIGEST_DIGITS]
    return Record(seed, width, len(entries), whole, tuple(windows))


def _places(kind: str, entries: Sequence[Entry]) -> list[int]:
    """Returns where entries are: whole seconds, which do not decrease, or their numbers."""
    if kind not in WHOLE:
        return list(range(len(entries)))
    places, last = [], 0
    for entry in entries:
        last = max(last, int(entry.at_s))
        places.append(last)
    return places


def read_records(kind: str, folder: Path = FOLDER) -> Mapping[int, Record]:
    """Returns the records of a kind by seed; there are none without a file.

    Raises:
        ConfigError: a line is no record.
    """
    path = folder / f"{kind}.txt"
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()[1:]
    records = [_parsed(line, f"{path.name}: line {number}") for number, line in enumerate(lines, 2)]
    return {record.seed: record for record in records}


def _parsed(line: str, place: str) -> Record:
    try:
        seed, width, n_entries, digest, windows = line.split()
        hashes = tuple(windows[at : at + HASH_DIGITS] for at in range(0, len(windows), HASH_DIGITS))
        return Record(int(seed), int(width), int(n_entries), digest, hashes)
    except ValueError as error:
        raise ConfigError("is no record of a run", path=place, value=line) from error


def write_records(kind: str, records: Sequence[Record], folder: Path = FOLDER) -> None:
    """Writes the records of a kind, sorted by seed."""
    folder.mkdir(exist_ok=True)
    lines = [f"# python -m tests.faults.record {kind}", *map(str, sorted(records))]
    (folder / f"{kind}.txt").write_text("\n".join(lines) + "\n")


_read = cache(read_records)


def compared(kind: str, seed: int, run: Callable[[int], _Result], folder: Path = FOLDER) -> _Result:
    """Runs a seed, and compares what it did with the record, if there is one.

    In versions of Python that are not in ``COMPARED_IN`` it only runs the seed; so it does with a
    run that has the results of calls, except in ``RESULTS_IN``.

    Args:
        kind: Of the run.
        seed: Of the run.
        run: Runs the seed.
        folder: Has the records.

    Raises:
        RunDiffers: it did something else.
    """
    records = _read(kind, folder)
    version = sys.version_info[:2]
    is_compared = version == RESULTS_IN if has_results(kind, seed) else version in COMPARED_IN
    if seed not in records or not is_compared:
        return run(seed)
    with recording(kind, seed) as recorded:
        result = run(seed)
    if difference := difference_to(records[seed], kind, recorded.entries):
        raise RunDiffers(difference)
    return result


def difference_to(record: Record, kind: str, entries: Sequence[Entry]) -> str:
    """Returns how a run differs from its record; "" if it does not."""
    now = record_of(kind, record.seed, entries, record.width)
    if now == record:
        return ""
    longest = max(len(now.windows), len(record.windows))
    window = next(
        (
            number
            for number in range(longest)
            if now.windows[number : number + 1] != record.windows[number : number + 1]
        ),
        longest - 1,
    )
    first, end = window * record.width, (window + 1) * record.width
    unit = "s" if kind in WHOLE else "entries"
    here = entries_between(kind, entries, first, end)
    lines = [f"  {str(entry)[:SHOWN_CHARACTERS]}" for entry in here[:SHOWN]] or ["  nothing"]
    return "\n".join(
        [
            f"{kind} seed {record.seed}: the run is no longer the one that was recorded.",
            f"The first difference is between {first} and {end} {unit}; the run has "
            f"{now.n_entries} entries, the recorded one has {record.n_entries}.",
            f"To see it, run this at both commits and compare the outputs: python -m "
            f"tests.faults.replay {record.seed} --kind {kind} --entries {first}-{end}",
            "If the behaviour is meant to change, record it anew: "
            f"python -m tests.faults.record {kind}",
            "The first entries between them are now:",
            *lines,
        ]
    )


def entries_between(kind: str, entries: Sequence[Entry], first: int, end: int) -> list[Entry]:
    """Returns the entries in a part of a run."""
    places = _places(kind, entries)
    return [entry for at, entry in zip(places, entries, strict=True) if first <= at < end]
