"""Mutants against the drawn fault runs alone: ``python -m bench mutants ... --by seeds``.

The runs are those of ``tests/faults/kinds.py``. First some seeds of each kind run without a mutant,
and the lines that they execute are recorded. A mutant is then tried against the kinds of runs that
execute its line, the cheapest ones first, seed by seed, until one detects it or the time is over.
Each mutant has a forked process of its own, one at a time, in which the code of the function is
replaced: nothing is imported anew.
"""

from __future__ import annotations

import ast
import gc
import logging
import os
import random
import resource
import signal
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, Final, NamedTuple

import msgspec

from bench.mutations import Mutant, mutants_of, short
from tests.faults.harness.records import compared
from tests.faults.hunts import first_line
from tests.faults.kinds import KINDS
from tests.faults.parts.runs import PART_RUNS

#: Seconds of CPU time for a single seed: a run that takes longer does not end.
SEED_S_MAX: Final = 90.0
#: Seeds of which the lines are recorded: of parts, and of whole runs. What a seed draws rarely
#: is in none of a few, so cheap runs have more of them.
TRACED_SEEDS: Final = {True: 4, False: 2}
TRACED_SEEDS_MAX: Final = 16
#: Seconds of CPU time of a kind after which it has no more of them.
TRACED_S: Final = 1.0

Place = tuple[str, int]


class Result(NamedTuple):
    """The fate of a mutant.

    Attributes:
        word: "detected", "SURVIVED", "NOT EXECUTED" or "not planted".
        details: The run that detected it, and how; or the seeds that were tried.
    """

    word: str
    details: str


@dataclass
class Traced:
    """The kinds of runs that execute each line.

    Attributes:
        kinds: "FILE:LINE" -> kinds of runs.
        cost_s: Kind of runs -> seconds of CPU time of a seed.
    """

    kinds: dict[str, set[str]] = field(default_factory=dict)
    cost_s: dict[str, float] = field(default_factory=dict)

    def kinds_of(self, path: Path, lines: Iterable[int]) -> list[str]:
        """Returns the kinds of runs that execute one of some lines, the cheapest first."""
        kinds = {kind for line in lines for kind in self.kinds.get(f"{path}:{line}", ())}
        return sorted(kinds, key=lambda kind: (self.cost_s[kind], kind))

    def kinds_of_module(self, path: Path) -> list[str]:
        """Returns the kinds of runs that execute any line of a module, the cheapest first."""
        places = (kinds for place, kinds in self.kinds.items() if place.startswith(f"{path}:"))
        kinds = {kind for of_line in places for kind in of_line}
        return sorted(kinds, key=lambda kind: (self.cost_s[kind], kind))


class Options(NamedTuple):
    """Of a series of mutants.

    Attributes:
        seed: Draws the mutants.
        mutant_count: Their number.
        seeds: The most seeds of each kind of runs for a mutant.
        time_s: Seconds of CPU time for a mutant.
        again: The output of an earlier call: only the mutants that survived there; None = all.
        kinds: The kinds of runs; empty = all.
        lines: A file with the lines that runs execute: read if it exists, else written; None = no
            file. It fits as long as modules and runs are the same.
        bugs: Modules and changes that are tried instead of drawn ones; None = draw them.
        compares_records: Whether a run that differs from its record is a detection, too.
    """

    seed: int
    mutant_count: int
    seeds: int
    time_s: float
    again: str | None
    kinds: tuple[str, ...]
    lines: Path | None = None
    bugs: Sequence[tuple[Path, Mutant]] | None = None
    compares_records: bool = False


def measure(paths: list[Path], options: Options, name: Callable[[Path], str]) -> None:
    """Prints the fate of each mutant, and the numbers.

    Args:
        paths: The modules.
        options: Of the draw.
        name: Returns the name of a module that is printed.
    """
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    sys.unraisablehook = lambda _: None
    # As they are now: a change of a file meanwhile does not fit the functions that are loaded.
    sources = {path: path.read_bytes() for path in paths}
    drawn = _drawn(sources, options) if options.bugs is None else list(options.bugs)
    if options.again is not None:
        old = {line.partition(" ")[2].strip() for line in options.again.splitlines()}
        drawn = [it for it in drawn if _label(name(it[0]), sources[it[0]], it[1]) in old]
    traced = _stored_or_traced({str(path) for path in paths}, options)
    results: Counter[str] = Counter()
    for path, mutant in drawn:
        result = fate(path, sources[path], mutant, traced, options)
        results[result.word] += 1
        print(f"{result.word:12} {_label(name(path), sources[path], mutant)}")
        print(f"             {result.details}", flush=True)
    for path in dict.fromkeys(paths):
        for function in unexecuted(path, traced.kinds):
            print(f"no run executes {name(path)}: {function}")
    print(", ".join(f"{count} {word}" for word, count in results.most_common()))


def _drawn(sources: Mapping[Path, bytes], options: Options) -> list[tuple[Path, Mutant]]:
    pool = [(path, mutant) for path, source in sources.items() for mutant in mutants_of(source)]
    drawn = random.Random(options.seed).sample(pool, min(options.mutant_count, len(pool)))
    print(f"{len(drawn)} of {len(pool)} mutants, drawn by seed {options.seed}", flush=True)
    return drawn


def _label(name: str, source: bytes, mutant: Mutant) -> str:
    old = source[mutant.start : mutant.end].decode()
    return f"{name}:{mutant.line} {short(old)} -> {short(mutant.text)}"


# -- the lines that runs execute ------------------------------------------------------------------


def _stored_or_traced(files: set[str], options: Options) -> Traced:
    path = options.lines
    if path is not None and path.exists():
        return msgspec.json.decode(path.read_bytes(), type=Traced)
    traced = traced_runs(files, options.kinds or tuple(KINDS))
    if path is not None:
        path.write_bytes(msgspec.json.encode(traced))
    return traced


def traced_runs(files: set[str], kinds: Iterable[str]) -> Traced:
    """Runs some seeds of each kind, and returns the lines of some files that they execute.

    Raises:
        SystemExit: a seed fails without a mutant.
    """
    traced = Traced()
    for kind in kinds:
        lines: set[Place] = set()
        count = TRACED_SEEDS[kind in PART_RUNS]
        begun_s = time.process_time()
        for seed in range(TRACED_SEEDS_MAX):
            if seed >= count and time.process_time() - begun_s >= TRACED_S:
                break
            trace = _tracer(files, lines) if seed else None
            sys.settrace(trace)
            try:
                KINDS[kind].run(seed)
            except Exception as error:
                raise SystemExit(f"{kind} {seed} fails without a mutant: {error!r}") from error
            finally:
                sys.settrace(None)
            if not seed:  # the cost without the trace
                traced.cost_s[kind] = time.process_time() - begun_s
        for file, line in lines:
            traced.kinds.setdefault(f"{file}:{line}", set()).add(kind)
        gc.collect()
    return traced


def _tracer(files: set[str], lines: set[Place]) -> Callable[[FrameType, str, Any], Any]:
    def on_line(frame: FrameType, event: str, argument: Any) -> Any:
        del argument
        if event == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return on_line

    def on_call(frame: FrameType, event: str, argument: Any) -> Any:
        del event, argument
        return on_line if frame.f_code.co_filename in files else None

    return on_call


def unexecuted(path: Path, kinds: Mapping[str, set[str]]) -> Iterator[str]:
    """Yields the functions of a module with code that no run executes."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first, last = node.body[0].lineno, node.end_lineno or node.lineno
            if not any(f"{path}:{line}" in kinds for line in range(first, last + 1)):
                yield node.name


# -- one mutant -----------------------------------------------------------------------------------


def fate(path: Path, source: bytes, mutant: Mutant, traced: Traced, options: Options) -> Result:
    """Tries a mutant of a module's source in a process of its own."""
    kinds = traced.kinds_of(path, _lines_of(source, mutant))
    is_executed = bool(kinds)
    # A line that is executed rarely is in none of the few seeds that were traced.
    kinds = kinds or traced.kinds_of_module(path)
    if not kinds:
        return Result("NOT EXECUTED", "")
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        _be_child(writing, lambda: _hunt(path, source, mutant, kinds, options))
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        word, _, details = pipe.read().partition("\n")
    os.waitpid(pid, 0)
    if word == "SURVIVED" and not is_executed:
        word = "NOT EXECUTED"
    return Result(word or "detected", details or "the process has ended")


def _lines_of(source: bytes, mutant: Mutant) -> range:
    """Returns the lines of the statement that the mutant changes, from its first to its last."""
    last = mutant.line + source[mutant.start : mutant.end].count(b"\n")
    statements = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.stmt) and node.lineno <= mutant.line <= (node.end_lineno or 0)
    ]
    innermost = max(statements, key=lambda node: node.lineno)
    # Of a statement with a body only the head.
    body: list[ast.stmt] = getattr(innermost, "body", [])
    end = body[0].lineno - 1 if body else innermost.end_lineno or last
    return range(min(innermost.lineno, mutant.line), max(end, last) + 1)


def _be_child(pipe: int, hunt: Callable[[], Result]) -> None:
    """Writes the result of a hunt to the pipe, and ends the process."""

    def end(word: str, details: str) -> None:
        os.write(pipe, f"{word}\n{details}".encode()[:4000])
        os._exit(0)

    signal.signal(signal.SIGVTALRM, lambda *_: end("detected", "a run does not end"))
    # A mutant may also use up the memory.
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)
    try:
        end(*hunt())
    except BaseException as error:  # noqa: BLE001 - whatever it is, this process must end here
        end("detected", f"outside of a run: {error!r}")


def _hunt(path: Path, source: bytes, mutant: Mutant, kinds: list[str], options: Options) -> Result:
    try:
        plant(path, source, mutant)
    except ValueError as error:
        return Result("not planted", str(error))
    tried: Counter[str] = Counter()
    ends_s = time.process_time() + options.time_s
    for kind, seed in _tries(kinds, options.seeds):
        if how := _detected_by(kind, seed, compares_records=options.compares_records):
            return Result("detected", f"{kind} {seed}: {how[:160]}")
        tried[kind] += 1
        if time.process_time() >= ends_s:
            break
    listed = ", ".join(f"{kind} {count}" for kind, count in tried.items())
    return Result("SURVIVED", listed)


def _detected_by(kind: str, seed: int, *, compares_records: bool) -> str:
    """Runs a seed; returns what is wrong, "" if nothing is."""
    signal.setitimer(signal.ITIMER_VIRTUAL, SEED_S_MAX)
    try:
        if compares_records:
            # A record has the warnings of the log, too; a child prints them nowhere.
            logging.disable(logging.NOTSET)
            compared(kind, seed, KINDS[kind].run)
        else:
            KINDS[kind].run(seed)
    except Exception as error:  # noqa: BLE001 - the scheduler may detect it itself
        return first_line(error)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ""


def _tries(kinds: list[str], count: int) -> Iterator[tuple[str, int]]:
    """Yields kinds and seeds: the kinds take turns, those of parts with ten times as many seeds."""
    for block in range(count):
        for kind in kinds:
            per_block = 10 if kind in PART_RUNS else 1
            seeds = range(block * per_block, min(count, (block + 1) * per_block))
            yield from ((kind, seed) for seed in seeds)


# -- how a mutant is planted ----------------------------------------------------------------------


def plant(path: Path, source: bytes, mutant: Mutant) -> None:
    """Replaces the code of the outermost function with the mutant, wherever it is used.

    Raises:
        ValueError: no such function is loaded, or its code does not fit.
    """
    head = _first_line_of_function(source, mutant)
    changed = compile(mutant.apply(source), str(path), "exec", dont_inherit=True)
    codes = [code for code in _codes(changed) if code.co_firstlineno == head]
    if len(codes) != 1:
        raise ValueError(f"{len(codes)} functions begin at line {head}")
    functions = [
        it
        for it in gc.get_objects()
        if isinstance(it, FunctionType)
        and it.__code__.co_firstlineno == head
        and it.__code__.co_filename == str(path)
        and it.__code__.co_name == codes[0].co_name
    ]
    if not functions:
        raise ValueError(f"no function at line {head} is loaded")
    for function in functions:
        function.__code__ = codes[0]


def _first_line_of_function(source: bytes, mutant: Mutant) -> int:
    """Returns the first line of the outermost function around a mutant, decorators included."""
    places = [
        min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
        for node in _outer_functions(ast.parse(source))
        if node.lineno <= mutant.line <= (node.end_lineno or 0)
    ]
    return places[0]


def _outer_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        else:
            yield from _outer_functions(node)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yields the code of functions and methods, without those inside of functions."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            is_function = bool(constant.co_flags & 0x2)  # CO_NEWLOCALS; a class has it not
            if is_function:
                yield constant
            else:
                yield from _codes(constant)
