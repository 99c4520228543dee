"""Trials: one run for each variant and seed, in processes of their own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from threading import Thread

from mooring.config import load
from mooring.errors import ConfigError, SchedulerError
from mooring.scenario.read import read_scenario
from mooring.scenario.results import Result
from mooring.scenario.run import ScenarioRun
from mooring.scenario.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Variant:
    """A scenario file with a configuration.

    Attributes:
        name: For people.
        file: The scenario.
        config: A configuration file; "" = the scenario's own.
        plugins: Further plugins, ``module:attribute``.
    """

    name: str
    file: str
    config: str = ""
    plugins: tuple[str, ...] = ()

    def scenario(self, seed: int | None = None) -> Scenario:
        """Returns the scenario with a seed; None = its own.

        Raises:
            ConfigError: a file cannot be read, or says what cannot be run.
        """
        scenario = read_scenario(self.file, seed=seed)
        if self.config:
            scenario = replace(scenario, config=load(self.config))
        return replace(scenario, plugins=(*scenario.plugins, *self.plugins))


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of a variant.

    Attributes:
        variant: The name of the variant.
        seed: Of the run.
        summary: Measure -> value, also of the plugins that refused nothing.
        resources: Resource -> short name.
        placements: Pod -> its first binding: time in seconds, and node; "" = none. Only for the
            first seed.
        digest: Of the results.
    """

    variant: str
    seed: int
    summary: Mapping[str, float]
    resources: Mapping[str, str]
    placements: Mapping[str, tuple[float | None, str]]
    digest: str


def run_trial(variant: Variant, seed: int, *, with_placements: bool = False) -> Trial:
    """Runs a variant with a seed.

    Raises:
        ConfigError: it cannot be run.
    """
    result = ScenarioRun(variant.scenario(seed)).run()
    return Trial(
        variant.name,
        seed,
        result.measures,
        dict(result.resources),
        placements_of(result) if with_placements else {},
        result.digest,
    )


def placements_of(result: Result) -> dict[str, tuple[float | None, str]]:
    """Returns pod -> when and where it was bound."""
    pods = result.tables["pods"]
    rows = zip(pods["pod"], pods["starting_time_s"], pods["node"], strict=True)
    return {pod: (at_s, node) for pod, at_s, node in rows}


def run_trials(
    variants: Sequence[Variant],
    seeds: Sequence[int],
    *,
    jobs: int = 0,
    on_done: Callable[[int, int], None] = lambda *_: None,
) -> list[list[Trial]]:
    """Runs every variant with every seed; returns the trials by variant and seed.

    Args:
        variants: The variants.
        seeds: The seeds; the placements of the first are kept.
        jobs: How many runs at once; 0 = one for each processor.
        on_done: Called with the number of runs that are done, and of all.

    Raises:
        ConfigError: a run cannot be made, or a worker was killed.
    """
    plan = [(variant, seed) for variant in variants for seed in seeds]
    trials: dict[tuple[str, int], Trial] = {}
    for own in _results(plan, seeds[0], jobs or os.cpu_count() or 1):
        trials[own.variant, own.seed] = own
        on_done(len(trials), len(plan))
    return [[trials[variant.name, seed] for seed in seeds] for variant in variants]


def _trial_or_error(variant: Variant, seed: int, *, with_placements: bool) -> Trial | str:
    """Returns a trial, or the text of an error: not every error can be sent between processes."""
    try:
        return run_trial(variant, seed, with_placements=with_placements)
    except SchedulerError as error:
        return str(error)


def _results(plan: Sequence[tuple[Variant, int]], first_seed: int, workers: int) -> Iterator[Trial]:
    """Yields the trials as they are done."""
    if workers == 1 or len(plan) == 1:
        for variant, seed in plan:
            yield run_trial(variant, seed, with_placements=seed == first_seed)
        return
    with executor(min(len(plan), workers)) as pool:
        with without_main_file():
            futures = [
                pool.submit(_trial_or_error, variant, seed, with_placements=seed == first_seed)
                for variant, seed in plan
            ]
        yield from _done(futures)


def _done(futures: Sequence[Future[Trial | str]]) -> Iterator[Trial]:
    """Yields the results as they come.

    Raises:
        ConfigError: a run cannot be made; the others are cancelled.
    """
    try:
        for future in as_completed(futures):
            own = future.result()
            if isinstance(own, str):
                raise ConfigError(own)
            yield own
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def executor(workers: int) -> Iterator[Executor]:
    """Gives a pool of processes.

    Raises:
        ConfigError: a worker was killed; there was no room for it, perhaps.
    """
    # Fresh processes: a fork of a process with an event loop or threads is not safe.
    context = get_context("forkserver" if os.name == "posix" else "spawn")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin_worker)
    try:
        with pool:
            yield pool
    except BrokenProcessPool as error:
        raise ConfigError("a worker process was killed, perhaps for lack of memory") from error


@contextmanager
def without_main_file() -> Iterator[None]:
    """Keeps new processes from importing the main script: it would be run there once more.

    What they run is imported by its name from here.
    """
    main = sys.modules["__main__"]
    names = ("__file__", "__spec__")
    hidden: dict[str, object] = {n: vars(main).pop(n) for n in names if n in vars(main)}
    vars(main)["__spec__"] = None
    try:
        yield
    finally:
        vars(main).pop("__spec__")
        vars(main).update(hidden)


def _begin_worker() -> None:
    """Leaves Ctrl-C to the parent, and lets the worker end with it.

    Without that the workers of a killed parent would wait for work for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: BaseProcess) -> None:
    """Ends this process at once when its parent has ended."""
    parent.join()
    os._exit(1)
