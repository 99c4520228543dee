"""The variables of expressions in webhooks and admission policies.

Source: k8s.io/apiserver pkg/admission/plugin/cel (what ``mustBuildEnvs`` declares). Differs: the
types are not checked, nor which functions a type has, nor that ``params`` needs a ``paramKind``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.cel.checker import NAMED_TYPES
from mooring.cel.syntax.tree import Call, Comprehension, Ident, Node, Select, children

if TYPE_CHECKING:
    from mooring.cel.syntax.source import Problems, Source

_DECLARED: Final = frozenset(
    {
        *("object", "oldObject", "request", "authorizer", "params", "namespaceObject"),
        *("variables", "Object", "JSONPatch"),
    }
)
#: Names before the dot of a function, as in ``math.greatest``.
_LIBRARIES: Final = frozenset(
    {"base64", "format", "jsonpatch", "math", "optional", "regex", "sets", "strings"}
)


def report_undeclared(root: Node, source: Source, problems: Problems) -> None:
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
