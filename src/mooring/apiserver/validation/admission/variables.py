"""The variables of expressions in webhooks and admission policies.

Source: k8s.io/apiserver pkg/admission/plugin/cel (what ``mustBuildEnvs`` declares). Differs: the
fields of ``request``, ``namespaceObject`` and ``variables`` have no types, the type of the result
may be any, and ``params`` needs no ``paramKind``. Of the expression of a mutation, which makes
objects such as ``JSONPatch{}``, the variables are checked alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.cel.checker import NAMED_TYPES, check
from mooring.cel.library.authorizer import AUTHORIZER, RESOURCE_CHECK
from mooring.cel.syntax.tree import Call, Comprehension, Ident, Node, Select, children
from mooring.cel.types import DYN, Type
from mooring.cel.validators import validate

if TYPE_CHECKING:
    from mooring.cel.syntax.source import Problems, Source

_UNTYPED: Final = ("object", "oldObject", "request", "params", "namespaceObject", "variables")
_VARIABLES: Final[dict[str, Type]] = {
    **dict.fromkeys(_UNTYPED, DYN),
    "authorizer": AUTHORIZER,
    "authorizer.requestResource": RESOURCE_CHECK,
}
_DECLARED: Final = frozenset({*_VARIABLES, "Object", "JSONPatch"})
#: Names before the dot of a function, as in ``sets.contains``.
_LIBRARIES: Final = frozenset({"format", "ip", "jsonpatch", "lists", "optional", "sets", "strings"})


def report_problems(
    root: Node, source: Source, problems: Problems, *, with_patch_types: bool
) -> None:
    """Reports variables and functions of an expression that do not exist, and wrong types."""
    if with_patch_types:
        _report_undeclared(root, source, problems)
        return
    check(root, source, problems, _VARIABLES)
    if not problems:
        validate(root, source, problems)


def _report_undeclared(root: Node, source: Source, problems: Problems) -> None:
    """Reports the variables of an expression that do not exist, in the order of the checker."""
    pending: list[tuple[Node, frozenset[str]]] = [(root, _DECLARED | NAMED_TYPES.keys())]
    while pending:
        node, scope = pending.pop()
        if isinstance(node, Ident):
            if node.name not in scope:
                message = f"undeclared reference to '{node.name}' (in container '')"
                problems.add(source.location(node.offset), message)
        elif isinstance(node, Comprehension):
            inner = scope | {node.accu_var, node.iter_var, node.iter_var2}
            parts = (node.step, node.condition)
            pending += [(node.result, scope | {node.accu_var}), *((part, inner) for part in parts)]
            pending += [(node.accu_init, scope), (node.iter_range, scope)]
        elif not (isinstance(node, Select) and _names_type(node)):
            below = children(node)
            if isinstance(node, Call) and _is_library(node.target):
                below = node.args
            pending += [(child, scope) for child in reversed(below)]


def _is_library(target: Node | None) -> bool:
    return isinstance(target, Ident) and target.name in _LIBRARIES


def _names_type(node: Select) -> bool:
    """Returns whether a selection is the qualified name of a type."""
    parts: list[str] = []
    inner: Node = node
    while isinstance(inner, Select):
        parts.append(inner.field)
        inner = inner.operand
    return isinstance(inner, Ident) and ".".join([inner.name, *reversed(parts)]) in NAMED_TYPES
