"""Records what the seeds do: ``python -m tests.faults.record [KIND ...]``, by default all kinds.

The files in ``tests/faults/recorded`` are written anew. The output is the same in every process;
``--check`` writes nothing, and says which seeds differ. ``--reverse`` begins with the last seed.
"""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path
from typing import Final

from tests.faults.harness.recording import recording
from tests.faults.harness.records import (
    FOLDER,
    Record,
    read_records,
    record_of,
    write_records,
)
from tests.faults.kinds import KINDS

#: Seeds between two lines of progress.
PROGRESS: Final = 20


def main(arguments: list[str]) -> int:
    """Returns 0; with --check 1 if a run differs from its record."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.record")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--check", action="store_true", help="write nothing, compare")
    parser.add_argument("--reverse", action="store_true", help="begin with the last seed")
    parser.add_argument("--folder", type=Path, default=FOLDER)
    words = parser.parse_args(arguments)
    for kind in words.kinds:
        if kind not in KINDS:
            parser.error(f"no kind of runs {kind!r}; there are {', '.join(KINDS)}")
    differing = 0
    for kind in words.kinds or KINDS:
        records = recorded_runs(kind, is_reverse=words.reverse)
        before = read_records(kind, words.folder)
        changed = [str(it.seed) for it in sorted(records) if before.get(it.seed) != it]
        differing += len(changed)
        print(f"{kind}: {len(records)} runs, {len(changed)} differ {' '.join(changed)}", flush=True)
        if not words.check:
            write_records(kind, records, words.folder)
    return 1 if words.check and differing else 0


def recorded_runs(kind: str, *, is_reverse: bool = False) -> list[Record]:
    """Runs the seeds of a kind; returns their records."""
    run, n_seeds = KINDS[kind]
    seeds = range(n_seeds)
    records = []
    for count, seed in enumerate(reversed(seeds) if is_reverse else seeds):
        with recording(kind, seed) as recorded:
            run(seed)
        records.append(record_of(kind, seed, recorded.entries))
        if count and count % PROGRESS == 0:
            print(f"{kind}: {count} of {n_seeds}", file=sys.stderr, flush=True)
            gc.collect()
    return records


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
