"""Random small faults in the code of a room, and whether the tests notice them.

``python -m bench mutants queue --count 20`` draws places of ``src/mooring/queue`` at random,
changes each in a copy of the source, and runs the room's own tests. A mutant that survives is a
fault that a change could bring without a test that fails; some survive because they change nothing
that can be observed. The result is a list to read, so it has no limit and is no part of
``make bench``.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from bench.machine import machine

ROOT: Final = Path(__file__).resolve().parent.parent
OPTIONS: Final = ("-x", "-q", "-p", "no:cacheprovider", "-m", "not perf")
#: Exit codes of pytest: a test failed; it could not be imported.
FAILED: Final = (1, 2)

#: Operator -> the one that is put in its place.
COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
ARITHMETIC: Final[dict[type[ast.operator], str]] = {
    ast.Add: "-", ast.Sub: "+", ast.FloorDiv: "*", ast.BitAnd: "|", ast.BitOr: "&",
}  # fmt: skip
EXTREMES: Final = {"min": "max", "max": "min"}

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Mutant(NamedTuple):
    """A change of a module.

    Attributes:
        line: Where it is, from 1.
        start: Of the text that is replaced, in bytes of UTF-8.
        end: After the text.
        text: In its place.
    """

    line: int
    start: int
    end: int
    text: str

    def apply(self, source: bytes) -> bytes:
        """Returns the changed module."""
        return source[: self.start] + self.text.encode() + source[self.end :]


class _Module:
    """The text of a module, by nodes of its syntax tree."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._lines = [0]
        for line in source.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._lines[node.lineno - 1] + node.col_offset
        return start, self._lines[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.expr | ast.stmt) -> str:
        start, end = self.span(node)
        return self._source[start:end].decode()

    def replace(self, node: ast.expr | ast.stmt, text: str) -> Mutant:
        return Mutant(node.lineno, *self.span(node), text)

    def replace_between(self, left: ast.expr, right: ast.expr, text: str) -> Iterator[Mutant]:
        """Yields the change of an operator; none where brackets or comments are around it."""
        start, end = self.span(left)[1], self.span(right)[0]
        if not set(self._source[start:end].decode()) & set("()#\\"):
            yield Mutant(left.lineno, start, end, f" {text} ")


def mutants_of(source: bytes) -> list[Mutant]:
    """Returns the mutants of a module: inside functions, but for messages and annotations."""
    module, tree = _Module(source), ast.parse(source)
    mutants = [
        mutant
        for function in ast.walk(tree)
        if isinstance(function, _Function) and function.name != "__repr__"
        for statement in function.body
        for node in _executed(statement)
        for mutant in _changes(module, node)
    ]
    return sorted(set(mutants))


def _executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yields the nodes that decide something: no annotation, message, log line or definition."""
    if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | _Function | ast.ClassDef):
        return
    if isinstance(node, ast.Expr) and _is_remark(node.value):
        return
    annotation = getattr(node, "annotation", None)
    yield node
    for child in ast.iter_child_nodes(node):
        if child is not annotation:
            yield from _executed(child)


def _is_remark(value: ast.expr) -> bool:
    """Returns whether an expression statement is a docstring or writes to the log."""
    call = value.value if isinstance(value, ast.Await) else value
    return not isinstance(call, ast.Call) or ast.unparse(call.func).startswith("_log")


def _changes(module: _Module, node: ast.AST) -> Iterator[Mutant]:
    if isinstance(node, ast.stmt):
        yield from _changes_of_statement(module, node)
    elif isinstance(node, ast.expr):
        yield from _changes_of_expression(module, node)


def _changes_of_statement(module: _Module, node: ast.stmt) -> Iterator[Mutant]:
    is_store = isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name)
    if is_store or isinstance(node, ast.Expr | ast.AugAssign | ast.Delete):
        yield module.replace(node, "pass")
    elif isinstance(node, ast.Continue):
        yield module.replace(node, "break")
    elif isinstance(node, ast.Break):
        yield module.replace(node, "continue")


def _changes_of_expression(module: _Module, node: ast.expr) -> Iterator[Mutant]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        text = COMPARISONS[type(node.ops[0])]
        yield from module.replace_between(node.left, node.comparators[0], text)
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        yield from module.replace_between(node.left, node.right, ARITHMETIC[type(node.op)])
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield module.replace(node, f"({module.text(value)})")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield module.replace(node, f"({module.text(node.operand)})")
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield module.replace(node, str(not node.value))
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield module.replace(node, repr(node.value + 1))
    elif isinstance(node, ast.IfExp):
        yield module.replace(node, f"({module.text(node.body)})")
        yield module.replace(node, f"({module.text(node.orelse)})")
    elif isinstance(node, ast.Name) and node.id in EXTREMES:
        yield module.replace(node, EXTREMES[node.id])


def main(arguments: list[str]) -> int:
    """Print each mutant and what became of it; 1 if the tests fail without one."""
    parser = argparse.ArgumentParser(prog="python -m bench mutants", description=__doc__)
    parser.add_argument("rooms", nargs="+", help="folders or modules below src/mooring")
    parser.add_argument("--count", type=int, default=20, help="mutants of all rooms together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tests", nargs="+", help="arguments of pytest; default: by folder")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for a mutant")
    parser.add_argument("--by", choices=("tests", "seeds"), default="tests")
    parser.add_argument("--seeds", type=int, default=100, help="of each kind of runs, for a mutant")
    parser.add_argument("--kinds", nargs="+", default=(), help="kinds of runs; default: all")
    parser.add_argument("--lines", type=Path, help="file for the lines that runs execute")
    parser.add_argument("--again", type=Path, help="an output: only what SURVIVED in it")
    options = parser.parse_args(arguments)
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
    from bench.seed_mutants import Options, measure

    package = ROOT / "src" / "mooring"
    again = None
    if options.again is not None:
        lines = options.again.read_text().splitlines()
        again = "\n".join(line for line in lines if line.startswith("SURVIVED"))
    measure(
        modules_of(package, options.rooms),
        Options(
            seed=options.seed,
            mutant_count=options.count,
            seeds=options.seeds,
            time_s=options.timeout,
            again=again,
            kinds=tuple(options.kinds),
            lines=options.lines,
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


def short(text: str) -> str:
    """Returns a text as a short line."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."
