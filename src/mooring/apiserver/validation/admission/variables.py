"""The variables of expressions in webhooks and admission policies, and their types.

Source: k8s.io/apiserver pkg/admission/plugin/cel: compile.go (``BuildRequestType``,
``BuildNamespaceType``, ``createEnvForOpts``) and composition.go. Differs: of the expression of a
mutation, which makes objects such as ``JSONPatch{}``, the variables are checked alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mooring.cel.checker import NAMED_TYPES, check
from mooring.cel.library.authorizer import AUTHORIZER, RESOURCE_CHECK
from mooring.cel.syntax.tree import Call, Comprehension, Ident, Node, Select, children
from mooring.cel.types import (
    BOOL,
    DYN,
    FIELDS,
    INT,
    STRING,
    TIMESTAMP,
    Fields,
    Type,
    TypeKind,
    list_of,
    map_of,
    struct,
)
from mooring.cel.validators import validate

if TYPE_CHECKING:
    from mooring.apiserver.validation.admission.declared import Declared
    from mooring.cel.syntax.source import Problems, Source

_KIND: Final = struct("kubernetes.GroupVersionKind")
_RESOURCE: Final = struct("kubernetes.GroupVersionResource")
_USER: Final = struct("kubernetes.UserInfo")
_REQUEST: Final = struct("kubernetes.AdmissionRequest")
_NAMESPACE: Final = struct("kubernetes.Namespace")
_METADATA: Final = struct("kubernetes.NamespaceMetadata")
_SPEC: Final = struct("kubernetes.NamespaceSpec")
_STATUS: Final = struct("kubernetes.NamespaceStatus")
_CONDITION: Final = struct("kubernetes.NamespaceCondition")
_VARIABLES: Final = struct("kubernetes.variables")
_TEXTS: Final = list_of(STRING)


def _texts(*names: str) -> dict[str, Type]:
    return dict.fromkeys(names, STRING)


_FIELDS: Final[Fields] = {
    **FIELDS,
    _KIND.name: _texts("group", "version", "kind"),
    _RESOURCE.name: _texts("group", "version", "resource"),
    _USER.name: {**_texts("username", "uid"), "groups": _TEXTS, "extra": map_of(STRING, _TEXTS)},
    _REQUEST.name: {
        **_texts("subResource", "requestSubResource", "name", "namespace", "operation"),
        **dict.fromkeys(("kind", "requestKind"), _KIND),
        **dict.fromkeys(("resource", "requestResource"), _RESOURCE),
        "userInfo": _USER,
        "dryRun": BOOL,
        "options": DYN,
    },
    _NAMESPACE.name: {"metadata": _METADATA, "spec": _SPEC, "status": _STATUS},
    _METADATA.name: {
        **_texts("name", "generateName", "namespace", "UID", "resourceVersion"),
        **dict.fromkeys(("labels", "annotations"), map_of(STRING, STRING)),
        **dict.fromkeys(("creationTimestamp", "deletionTimestamp"), TIMESTAMP),
        **dict.fromkeys(("deletionGracePeriodSeconds", "generation"), INT),
        "finalizers": _TEXTS,
    },
    _SPEC.name: {"finalizers": _TEXTS},
    _STATUS.name: {"conditions": list_of(_CONDITION), "phase": STRING},
    _CONDITION.name: {
        **_texts("status", "type", "message", "reason"),
        "lastTransitionTime": TIMESTAMP,
    },
}
#: Kinds of types that a variable has as they are; those of other results are not known.
_KEPT: Final = frozenset(
    {TypeKind.ANY, TypeKind.BOOL, TypeKind.BYTES, TypeKind.DOUBLE, TypeKind.DURATION}
    | {TypeKind.INT, TypeKind.NULL, TypeKind.STRING, TypeKind.TIMESTAMP, TypeKind.UINT}
)
_PATCH_TYPES: Final = frozenset({"Object", "JSONPatch"})
#: Names before the dot of a function, as in ``sets.contains``.
_LIBRARIES: Final = frozenset({"format", "ip", "jsonpatch", "lists", "optional", "sets", "strings"})


def type_of(root: Node, source: Source, problems: Problems, declared: Declared) -> Type:
    """Returns the type of an expression; adds what is wrong with it to ``problems``."""
    fields = {**_FIELDS, _VARIABLES.name: declared.variables or {}}
    result = check(root, source, problems, _variables(declared), fields)
    if not problems:
        validate(root, source, problems)
    return result


def as_variable(result: Type | None) -> Type:
    """Returns the type of a variable with an expression of a type; None = it has an error."""
    if result is None:
        return DYN
    if result.kind in (TypeKind.LIST, TypeKind.MAP):
        return Type(result.kind, result.name, tuple(map(as_variable, result.params)))
    return result if result.kind in _KEPT else DYN


def _variables(declared: Declared) -> dict[str, Type]:
    variables = {
        "object": DYN,
        "oldObject": DYN,
        "namespaceObject": _NAMESPACE,
        "request": _REQUEST,
    }
    if declared.has_params:
        variables["params"] = DYN
    if declared.has_authorizer:
        variables |= {"authorizer": AUTHORIZER, "authorizer.requestResource": RESOURCE_CHECK}
    if declared.variables is not None:
        variables["variables"] = _VARIABLES
    return variables


def report_undeclared(root: Node, source: Source, problems: Problems, declared: Declared) -> None:
    """Reports the variables of a mutation that do not exist, in the order of the checker."""
    names = _variables(declared).keys() | _PATCH_TYPES | NAMED_TYPES.keys()
    pending: list[tuple[Node, frozenset[str]]] = [(root, frozenset(names))]
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
