"""Fuzzes whatever reads input that mooring did not write: ``python -m bench fuzz [TARGET ...]``.

Each input is one of the corpus, mutated some times; the same seed gives the same inputs. A target
fails if it raises anything but its documented errors, or takes too long. With ``--guided`` (and
``requirements/fuzz.txt`` installed) atheris chooses the mutations by the branches that they reach,
for one target, until it is interrupted or the inputs are done.
"""

from __future__ import annotations

import argparse
import logging
import resource
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from mooring.clock import seeded_random

if TYPE_CHECKING:
    from bench.fuzz.targets import Target

CORPUS: Final = Path(__file__).parent / "corpus"

#: Limit of CPU seconds for an input, for each KiB of it; shorter inputs have one KiB's.
SECONDS_PER_KIB: Final = 0.1

#: CPU seconds after which an input is stopped: it may never end.
STOPPED_S: Final = 60.0

#: Memory of the command: an input that needs more is a failure, and does not stop the machine.
MEMORY_BYTES_MAX: Final = 4 << 30


class Stopped(BaseException):
    """An input took too long; no handler of exceptions may take it for an error of its own."""


class Failure(NamedTuple):
    """An input that a target did not survive."""

    target: str
    data: bytes
    problem: str


def corpus_of(target: str) -> list[bytes]:
    """Returns the inputs that are kept for a target, in the order of their names."""
    return [path.read_bytes() for path in sorted((CORPUS / target).iterdir())]


def check(target: Target, data: bytes) -> Failure | None:
    """Feeds one input to a target."""
    started_s = time.process_time()
    try:
        with _stopped_after(STOPPED_S):
            target.read(data)
    except target.errors:
        pass
    except Stopped:
        return Failure(target.name, data, f"was stopped after {STOPPED_S:g} s of CPU time")
    except Exception as error:  # noqa: BLE001 - exactly what is looked for
        return Failure(target.name, data, f"{type(error).__name__}: {error}")
    seconds = time.process_time() - started_s
    if seconds > target.seconds * max(1.0, len(data) / 1024):
        return Failure(target.name, data, f"took {seconds:.2f} s of CPU time")
    return None


@contextmanager
def _stopped_after(seconds: float) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise Stopped

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def failures(target: Target, *, inputs: int, seed: int) -> Iterator[Failure]:
    """Yields the failures of the corpus, and of ``inputs`` mutations of it."""
    kept, rng = corpus_of(target.name), seeded_random(seed)
    for number in range(len(kept) + inputs):
        data = kept[number] if number < len(kept) else target.mutate(rng, kept)
        if failure := check(target, data):
            # A busy machine can make one slow; a slow input is slow again.
            if failure.problem.startswith("took") and check(target, data) is None:
                continue
            yield failure


def main(arguments: list[str]) -> int:
    """Fuzz the named targets, or all; 1 if an input fails."""
    from bench.fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m bench fuzz", description=__doc__)
    parser.add_argument("target", nargs="*", choices=[*TARGETS, []], metavar="TARGET")
    parser.add_argument("--inputs", type=int, default=10_000, help="mutations of each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--guided", action="store_true", help="by atheris, one target")
    options = parser.parse_args(arguments)
    if options.guided:
        from bench.fuzz.guided import fuzz

        return fuzz((options.target or list(TARGETS))[0], options.inputs)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES_MAX, resource.RLIM_INFINITY))
    logging.disable(logging.WARNING)  # warnings about inputs are no failures
    has_failed = False
    for name in options.target or TARGETS:
        started_s = time.process_time()
        failed = list(failures(TARGETS[name], inputs=options.inputs, seed=options.seed))
        seconds = time.process_time() - started_s
        print(f"{name:22} {options.inputs} inputs, {seconds:.1f} s, {len(failed)} failures")
        for problem, failure in {failure.problem[:80]: failure for failure in failed}.items():
            print(f"    {problem}: {failure.data[:200]!r}")
        has_failed |= bool(failed)
    return has_failed
