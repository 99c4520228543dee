"""Runs the study: ``python -m studies.fgd [--lists default] [--policies FGD] [--seeds 1]``."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from studies.fgd.experiment import LISTS, SEEDS, Result, all_runs, run
from studies.fgd.policies import POLICIES
from studies.fgd.published import read_published
from studies.fgd.report import cells_of, curves, headline, table, verdict
from studies.fgd.store import Store


def main(arguments: Sequence[str]) -> int:
    """Runs what is missing, and prints the tables."""
    parser = argparse.ArgumentParser(prog="python -m studies.fgd", description=__doc__)
    parser.add_argument("--lists", nargs="+", choices=LISTS, default=LISTS, metavar="LIST")
    parser.add_argument("--policies", nargs="+", choices=POLICIES, default=POLICIES)
    seeds = range(1, len(SEEDS) + 1)
    parser.add_argument("--seeds", type=int, choices=seeds, default=len(SEEDS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--out", type=Path, default=Path("fgd.jsonl"), help="file of the results")
    options = parser.parse_args(arguments)
    store = Store(options.out)
    runs = all_runs(options.lists, options.policies, SEEDS[: options.seeds])
    missing = [key for key in runs if key not in store.results]
    begun_s = time.monotonic()
    # Fresh processes: numpy's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, mp_context=context) as pool:
        for number, done in enumerate(as_completed(pool.submit(run, *key) for key in missing), 1):
            store.add(done.result())
            if sys.stderr.isatty() or number % 20 == 0:
                print(f"{number} of {len(missing)} runs", file=sys.stderr, end="\r")
    if missing:
        minutes = (time.monotonic() - begun_s) / 60
        print(f"{len(missing)} runs in {minutes:.1f} minutes, {options.jobs} processes\n")
    results: dict[tuple[str, str, int], Result] = {key: store.results[key] for key in runs}
    published = read_published()
    cells = cells_of(results, published)
    print(f"Unallocated GPUs, ours / published:\n\n{table(cells)}\n\n{verdict(cells)}")
    for text in (curves(results, published), headline(results)):
        if text:
            print(f"\n{text}")
    return 0 if all(cell.is_near for cell in cells) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
