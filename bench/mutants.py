"""Random small faults in the code of a room, and whether the tests notice them.

``python -m bench mutants queue --count 20`` draws places of ``src/mooring/queue`` at random,
changes each in a copy of the source, and runs the room's own tests. A mutant that survives is a
fault that a change could bring without a test that fails; some survive because they change nothing
that can be observed. The result is a list to read, so it has no limit and is no part of
``make bench``.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.machine import machine
from bench.mutations import Mutant, mutants_of, short

ROOT: Final = Path(__file__).resolve().parent.parent
OPTIONS: Final = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not perf")
#: Exit codes of pytest: a test failed; it could not be imported.
FAILED: Final = (1, 2)


def main(arguments: list[str]) -> int:
    """Print each mutant and what became of it; 1 if the tests fail without one."""
    parser = argparse.ArgumentParser(prog="python -m bench mutants", description=__doc__)
    parser.add_argument("rooms", nargs="*", help="folders or modules below src/mooring")
    parser.add_argument("--count", type=int, default=20, help="mutants of all rooms together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="+", help="arguments of pytest; default: by folder")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a mutant")
    parser.add_argument("--by", choices=("tests", "seeds"), default="tests")
    parser.add_argument("--seeds", type=int, default=100, help="of each kind of runs, for a mutant")
    parser.add_argument("--kinds", nargs="+", default=(), help="kinds of runs; default: all")
    parser.add_argument("--lines", type=Path, help="file for the lines that runs execute")
    parser.add_argument("--again", type=Path, help="an output: only what SURVIVED in it")
    parser.add_argument("--list", type=Path, help="file of bugs that are tried instead (by seeds)")
    parser.add_argument(
        "--records",
        action="store_true",
        help="a run that differs from its record is a detection, too (by seeds)",
    )
    options = parser.parse_args(arguments)
    if not options.rooms and options.list is None:
        parser.error("name rooms, or a file of bugs by --list")
    if options.list is not None and options.by != "seeds":
        parser.error("--list needs --by seeds")
    if options.records and options.by != "seeds":
        parser.error("--records needs --by seeds")
    print(machine())
    if options.by == "seeds":
        _measure_by_seeds(options)
        return 0
    with tempfile.TemporaryDirectory(prefix="mooring-mutants-") as folder:
        copy = Copy(Path(folder) / "src", options.tests, options.timeout)
        pool = copy.mutants(options.rooms)
        drawn = random.Random(options.seed).sample(pool, min(options.count, len(pool)))
        print(f"{len(drawn)} of {len(pool)} mutants, drawn by seed {options.seed}")
        if drawn and not _is_measured(copy, drawn[0][0]):
            return 1
        survivors = sum(not _is_noticed(copy, path, mutant) for path, mutant in drawn)
    print(f"{survivors} of {len(drawn)} survived")
    return 0


def _measure_by_seeds(options: argparse.Namespace) -> None:
    # Imports the tests of faults, which only this mode needs.
    from bench.listed_bugs import read_bugs
    from bench.seed_mutants import Options, measure

    package = ROOT / "src" / "mooring"
    again = None
    if options.again is not None:
        lines = options.again.read_text().splitlines()
        again = "\n".join(line for line in lines if line.startswith("SURVIVED"))
    bugs = None if options.list is None else read_bugs(options.list, package)
    paths = [*modules_of(package, options.rooms), *(path for path, _ in bugs or ())]
    measure(
        list(dict.fromkeys(paths)),
        Options(
            seed=options.seed,
            mutant_count=options.count,
            seeds=options.seeds,
            time_s=options.timeout,
            again=again,
            kinds=tuple(options.kinds),
            lines=options.lines,
            bugs=bugs,
            compares_records=options.records,
        ),
        lambda path: path.relative_to(package).as_posix(),
    )


def _is_measured(copy: Copy, path: Path) -> bool:
    """Returns whether the tests pass as they are, and fail without a module."""
    if copy.are_noticed(path, path.read_bytes()):
        print("the tests fail without a mutant")
    elif not copy.are_noticed(path, b"raise SystemError"):
        print(f"the tests do not import {copy.name(path)}: name others by --tests")
    else:
        return True
    return False


def _is_noticed(copy: Copy, path: Path, mutant: Mutant) -> bool:
    original = path.read_bytes()
    is_noticed = copy.are_noticed(path, mutant.apply(original))
    old = original[mutant.start : mutant.end].decode()
    place = f"{copy.name(path)}:{mutant.line}"
    result = "noticed " if is_noticed else "SURVIVED"
    print(f"{result} {place} {short(old)} -> {short(mutant.text)}", flush=True)
    return is_noticed


def modules_of(package: Path, rooms: Sequence[str]) -> list[Path]:
    """Returns the modules of rooms.

    Raises:
        SystemExit: there is no such room.
    """
    paths: list[Path] = []
    for room in rooms:
        path = package / room
        if not path.exists():
            raise SystemExit(f"there is no {room} below src/mooring")
        paths += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return paths


class Copy:
    """A copy of the source, whose modules are changed one at a time.

    Args:
        source: The folder, which does not exist yet.
        tests: Arguments of pytest; None = the tests of the module's folder.
        timeout_s: A run that takes longer has noticed the change: a loop does not end.
    """

    def __init__(self, source: Path, tests: Sequence[str] | None, timeout_s: float) -> None:
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        self._source = source
        self._package = source / "mooring"
        self._tests = tests
        self._timeout_s = timeout_s

    def name(self, path: Path) -> str:
        """Returns the name of a module's file below src/mooring."""
        return path.relative_to(self._package).as_posix()

    def mutants(self, rooms: Sequence[str]) -> list[tuple[Path, Mutant]]:
        """Returns the mutants of the modules of rooms."""
        paths = modules_of(self._package, rooms)
        return [(path, mutant) for path in paths for mutant in mutants_of(path.read_bytes())]

    def are_noticed(self, path: Path, changed: bytes) -> bool:
        """Returns whether a test fails with another text of a module."""
        original = path.read_bytes()
        path.write_bytes(changed)
        try:
            return self._fails(self._tests or _tests_of(self.name(path)))
        finally:
            path.write_bytes(original)

    def _fails(self, tests: Sequence[str]) -> bool:
        # Compiled modules are kept: a run takes seconds, so a change has another time of
        # modification.
        environment = {**os.environ}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        path = f"pythonpath={self._source} {ROOT}"
        command = [sys.executable, "-m", "pytest", *OPTIONS, "-o", path, *tests]
        try:
            run = subprocess.run(
                command, cwd=ROOT, env=environment, timeout=self._timeout_s, capture_output=True
            )
        except subprocess.TimeoutExpired:
            return True
        if run.returncode not in (0, *FAILED):
            raise SystemExit(f"pytest ended with {run.returncode}:\n{run.stdout.decode()}")
        return run.returncode != 0


def _tests_of(module: str) -> list[str]:
    """Returns the tests of a module's folder, or of its plugin."""
    folder, _, rest = module.partition("/")
    if folder != "plugins":
        return [f"tests/unit/{folder}"]
    plugin = rest.partition("/")[0].removesuffix(".py")
    tests = sorted((ROOT / "tests" / "plugins").glob(f"test_{plugin}*.py"))
    return [str(test.relative_to(ROOT)) for test in tests] or ["tests/plugins"]
