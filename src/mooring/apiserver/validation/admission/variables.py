"""The variables of expressions in webhooks and admission policies, and their types.

Source: k8s.io/apiserver pkg/admission/plugin/cel: compile.go (``BuildRequestType``,
``BuildNamespaceType``, ``createEnvForOpts``) and composition.go; pkg/cel/mutation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from mooring.cel.checker import check
from mooring.cel.environment import Environment
from mooring.cel.library import registry
from mooring.cel.library.authorizer import AUTHORIZER, RESOURCE_CHECK
from mooring.cel.types import (
    BOOL,
    DYN,
    FIELDS,
    INT,
    STRING,
    TIMESTAMP,
    Fields,
    Objects,
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
    from mooring.cel.syntax.tree import Node

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
_OBJECT: Final = "Object"
_PATCH: Final = "JSONPatch"


class _AnyFields(Mapping[str, Type]):
    """The fields of an object that may have any."""

    def __getitem__(self, name: str) -> Type:
        return DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _PatchObjects(Objects):
    """The types of objects with those of patches: ``JSONPatch``, ``Object``, ``Object.spec``."""

    def fields_of(self, name: str) -> Mapping[str, Type] | None:
        """Returns the fields of a type; None if its objects have none."""
        if name == _PATCH:
            return {**_texts("op", "from", "path"), "value": DYN}
        return _AnyFields() if self.is_message(name) else super().fields_of(name)

    def is_message(self, name: str) -> bool:
        """Returns whether expressions may make objects of a type."""
        return name in (_PATCH, _OBJECT) or name.startswith(f"{_OBJECT}.")


def type_of(
    root: Node, source: Source, problems: Problems, declared: Declared, *, with_patches: bool
) -> Type:
    """Returns the type of an expression; adds what is wrong with it to ``problems``.

    Args:
        root: Its tree.
        source: Its text.
        problems: Problems are added.
        declared: What it may refer to.
        with_patches: Whether it may make patches.
    """
    fields = {**_FIELDS, _VARIABLES.name: declared.variables or {}}
    objects = _PatchObjects(fields) if with_patches else Objects(fields)
    functions = registry(Environment.PATCH if with_patches else Environment.RULE)
    result = check(root, source, problems, _variables(declared), objects, functions)
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
