"""Small changes of a module: another operator, number, constant or branch, or no statement.

They are faults that a change of the code could bring. Messages, annotations and log lines stay.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

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


def short(text: str) -> str:
    """Returns a text as a short line."""
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."
