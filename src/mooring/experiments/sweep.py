"""Runs sweeps: every cell with every seed, once; a second call goes on where the first one ended.

Runs are made by processes of this machine, or by another executor (``executors``). The parent alone
writes: one line for each run into ``runs.jsonl``, on the disk before the next is
looked at. A torn last line, of a parent that was killed, is dropped. A worker that is killed takes
its runs with it: they are made again, in a new pool.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Future, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from mooring.errors import ConfigError, SchedulerError
from mooring.experiments.executors import Pools
from mooring.experiments.sweep_file import Cell, Sweep, Values
from mooring.experiments.trials import executor, without_main_file
from mooring.scenario.measures import REFUSED
from mooring.scenario.run import ScenarioRun
from mooring.statistics import Interval, mean_interval

RUNS: Final = "runs.jsonl"
#: A run whose worker was killed so often has failed.
KILLS_MAX: Final = 3


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``runs.jsonl``.

    Attributes:
        key: Of the run; see ``Cell.key``.
        fingerprint: Of its cell: equal for runs of the same scenario; "" = not known.
        values: Path -> value.
        seed: Of the run.
        summary: Measure -> value, also of the plugins that refused nothing; empty if it failed.
        resources: Resource -> short name.
        digest: Of the results.
        error: Why it failed; "" = it did not.
    """

    key: str
    fingerprint: str = ""
    values: Values
    seed: int
    summary: dict[str, float] = {}
    resources: dict[str, str] = {}
    digest: str = ""
    error: str = ""


def runs_of(data: bytes, name: str) -> tuple[list[Run], int]:
    """Returns the runs of a file by its content, and where its last whole line ends.

    A run that was made again replaces the earlier one.

    Raises:
        ConfigError: a line that is not the last cannot be read.
    """
    end = data.rfind(b"\n") + 1
    runs: dict[str, Run] = {}
    for number, line in enumerate(data[:end].splitlines(), start=1):
        try:
            run = msgspec.json.decode(line, type=Run)
        except msgspec.DecodeError as error:
            raise ConfigError(f"is no run: {error}", file=name, line=number) from error
        runs[run.key] = run
    return [*runs.values()], end


class Store:
    """The runs of a folder, which one process at a time can write.

    Args:
        folder: It is created.

    Raises:
        ConfigError: it cannot be used, another process uses it, or a line that is not the last
            cannot be read.
    """

    def __init__(self, folder: str) -> None:
        self.path = Path(folder, RUNS)
        self.runs: dict[str, Run] = {}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Without a buffer: what could not be written is not written later.
            self._file = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise _unusable("used", error, folder) from error
        try:
            self._read()
        except BlockingIOError as error:
            self._file.close()
            raise ConfigError("cannot be used: another sweep writes there", file=folder) from error
        except OSError as error:
            self._file.close()
            raise _unusable("used", error, folder) from error
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> None:
        fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        data = self.path.read_bytes()
        runs, end = runs_of(data, str(self.path))
        if end < len(data):
            self._file.truncate(end)  # a line that was not written to its end
        self.runs = {run.key: run for run in runs}

    def add(self, run: Run) -> None:
        """Writes a run; it is on the disk when this returns.

        Raises:
            ConfigError: it cannot be written.
        """
        line = msgspec.json.encode(run) + b"\n"
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise _unusable("written", error, str(self.path)) from error
        self.runs[run.key] = run

    def close(self) -> None:
        """Closes the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _unusable(verb: str, error: OSError, file: str) -> ConfigError:
    problem = (error.strerror or str(error)).lower()
    return ConfigError(f"cannot be {verb}: {problem}", file=file)


#: A run to be made: its cell and seed.
Planned = tuple[Cell, int]


def run_cell(cell: Cell, seed: int) -> Run:
    """Runs a cell with a seed; an error is part of the result."""
    try:
        result = ScenarioRun(cell.scenario(seed)).run()
    except SchedulerError as error:
        return _failed(cell, seed, str(error))
    return Run(
        key=cell.key(seed),
        fingerprint=cell.fingerprint,
        values=cell.values,
        seed=seed,
        summary=result.measures,
        resources=dict(result.resources),
        digest=result.digest,
    )


def _failed(cell: Cell, seed: int, error: str) -> Run:
    return Run(
        key=cell.key(seed),
        fingerprint=cell.fingerprint,
        values=cell.values,
        seed=seed,
        error=error,
    )


def run_sweep(
    sweep: Sweep,
    store: Store,
    *,
    jobs: int = 0,
    retry_failed: bool = False,
    pools: Pools = executor,
    on_done: Callable[[int, int], None] = lambda *_: None,
) -> None:
    """Makes the runs of a sweep that the store does not have.

    Args:
        sweep: The sweep.
        store: Gets the runs.
        jobs: How many at once; 0 = one for each processor.
        retry_failed: Whether runs that failed are made again.
        pools: Makes a pool of so many workers.
        on_done: Called with the number of runs that are done, and of all that are planned so far.
    """
    if retry_failed:
        store.runs = {key: run for key, run in store.runs.items() if not run.error}
    while True:
        every = [*planned(sweep, store)]
        missing = [(cell, seed) for cell, seed in every if cell.key(seed) not in store.runs]
        done = len(every) - len(missing)
        on_done(done, len(every))
        if not missing:
            return
        for run in _made(missing, jobs or os.cpu_count() or 1, pools):
            store.add(run)
            done += 1
            on_done(done, len(every))


def planned(sweep: Sweep, store: Store) -> Iterator[Planned]:
    """Yields the runs that the sweep needs, as far as is known from the runs so far."""
    for cell in sweep.cells:
        for number in range(seeds_of(sweep, cell, store)):
            yield cell, sweep.first_seed + number


def seeds_of(sweep: Sweep, cell: Cell, store: Store) -> int:
    """Returns how many seeds a cell needs: more, while the interval of its measure is too wide."""
    count, until = sweep.seeds, sweep.until
    if until is None:
        return count
    while count < until.max_seeds:
        runs = [store.runs.get(cell.key(sweep.first_seed + number)) for number in range(count)]
        values = _values_of([run for run in runs if run is not None], until.measure)
        if any(run is None for run in runs) or len(values) < 2:
            return count  # to be looked at when these are there
        if mean_interval(values).half_width <= sweep.half_width:
            return count
        count = min(until.max_seeds, count + max(1, count // 2))
    return count


def _made(missing: Sequence[Planned], workers: int, pools: Pools) -> Iterator[Run]:
    """Makes runs, in new pools if workers are killed."""
    if workers == 1 and pools is executor:
        yield from (run_cell(cell, seed) for cell, seed in missing)
        return
    left = dict.fromkeys((cell.key(seed) for cell, seed in missing), 0)
    by_key = {cell.key(seed): (cell, seed) for cell, seed in missing}
    while left:
        # Of the runs that a kill may have ended one at a time, so that the next kill names its run.
        suspects = [key for key, kills in left.items() if kills]
        keys = suspects[:1] or [*left]
        for run in _in_pool([by_key[key] for key in keys], min(workers, len(keys)), pools):
            del left[run.key]
            yield run
        # Runs begin in order: the first that are not done were under way.
        for key in [key for key in keys if key in left][:workers]:
            left[key] += 1
            if left[key] >= KILLS_MAX:
                del left[key]
                cell, seed = by_key[key]
                yield _failed(cell, seed, f"its worker was killed {KILLS_MAX} times")


def _in_pool(plan: Iterable[Planned], workers: int, pools: Pools) -> Iterator[Run]:
    """Yields the runs of one pool, until all are done or a worker is killed."""
    try:
        with pools(workers) as pool:
            with without_main_file():
                futures: list[Future[Run]] = [
                    pool.submit(run_cell, cell, seed) for cell, seed in plan
                ]
            yield from _as_done(futures)
    except BrokenExecutor:
        return
    except ConfigError as error:
        if not isinstance(error.__cause__, BrokenExecutor):
            raise


def _as_done(futures: Sequence[Future[Run]]) -> Iterator[Run]:
    try:
        for future in as_completed(futures):
            yield future.result()
    finally:
        for future in futures:
            future.cancel()


# -- results ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CellResult:
    """A cell with its runs.

    Attributes:
        values: Path -> value.
        runs: Those that did not fail.
        n_failed: Those that did.
    """

    values: Values
    runs: Sequence[Run]
    n_failed: int

    def values_of(self, measure: str) -> list[float]:
        """Returns the values of a measure, by seed."""
        return _values_of(self.runs, measure)

    def interval(self, measure: str) -> Interval | None:
        """Returns mean and 95 % interval of a measure; None = there is no value."""
        values = self.values_of(measure)
        return mean_interval(values) if values else None


def _values_of(runs: Sequence[Run], measure: str) -> list[float]:
    """Returns the values of a measure in the runs of one cell that have it.

    Runs of earlier versions have it only of the plugins that refused: another run of the cell, with
    the same plugins, tells whether 0 is meant.
    """
    values = [run.summary[measure] for run in runs if measure in run.summary]
    if values and measure.startswith(REFUSED):
        values = [run.summary.get(measure, 0.0) for run in runs if run.summary]
    return values


def results_of(sweep: Sweep, store: Store) -> list[CellResult]:
    """Returns the cells with their runs."""
    results = []
    for cell in sweep.cells:
        count = seeds_of(sweep, cell, store)
        runs = [store.runs.get(cell.key(sweep.first_seed + number)) for number in range(count)]
        there = [run for run in runs if run is not None]
        good = [run for run in there if not run.error]
        results.append(CellResult(cell.values, good, len(there) - len(good)))
    return results


def main_effects(
    results: Sequence[CellResult], paths: Sequence[str], measure: str
) -> dict[str, list[tuple[Any, float]]]:
    """Returns path -> its values with the mean of a measure over all cells with the value.

    A cell counts once, however many seeds it has.
    """
    effects: dict[str, list[tuple[Any, float]]] = {}
    for path in paths:
        means: dict[bytes, list[float]] = {}
        values: dict[bytes, Any] = {}
        for result in results:
            interval = result.interval(measure)
            if interval is not None:
                packed = msgspec.json.encode(result.values[path])
                values[packed] = result.values[path]
                means.setdefault(packed, []).append(interval.mean)
        effects[path] = [(values[k], sum(own) / len(own)) for k, own in means.items()]
    return effects


def default_measures(results: Sequence[CellResult]) -> list[str]:
    """Returns the measures that are shown if a sweep names none."""
    summaries: list[Mapping[str, float]] = [run.summary for own in results for run in own.runs]
    names = ("wait.mean", "wait.p99", "pods.pending", "allocated.cpu", "stranded.cpu", "cost")
    return [name for name in names if any(summary.get(name) for summary in summaries)]
