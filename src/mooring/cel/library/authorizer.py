"""Functions of the API server's authorizer.

They can be named, but not called: a device selector has no authorizer.

Source: apiserver v0.36.3, pkg/cel/library/authz.go.
"""

from __future__ import annotations

from typing import Final

from mooring.cel.declarations import Function, Overload, method
from mooring.cel.types import BOOL, STRING, struct
from mooring.cel.values import NO_OVERLOAD, Value

_PREFIX: Final = "kubernetes.authorization."
AUTHORIZER: Final = struct(_PREFIX + "Authorizer")
_PATH: Final = struct(_PREFIX + "PathCheck")
_GROUP: Final = struct(_PREFIX + "GroupCheck")
RESOURCE_CHECK: Final = struct(_PREFIX + "ResourceCheck")
_DECISION: Final = struct(_PREFIX + "Decision")


def _refuse(*_args: Value) -> Value:
    return NO_OVERLOAD


LIBRARY: Final[dict[str, Function | list[Overload]]] = {
    "path": [method("authorizer_path", (AUTHORIZER, STRING), _PATH, _refuse)],
    "group": [method("authorizer_group", (AUTHORIZER, STRING), _GROUP, _refuse)],
    "serviceAccount": [
        method("authorizer_serviceaccount", (AUTHORIZER, STRING, STRING), AUTHORIZER, _refuse)
    ],
    "resource": [method("groupcheck_resource", (_GROUP, STRING), RESOURCE_CHECK, _refuse)],
    "subresource": [
        method("resourcecheck_subresource", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _refuse)
    ],
    "namespace": [
        method("resourcecheck_namespace", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _refuse)
    ],
    "name": [method("resourcecheck_name", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _refuse)],
    "check": [
        method("pathcheck_check", (_PATH, STRING), _DECISION, _refuse),
        method("resourcecheck_check", (RESOURCE_CHECK, STRING), _DECISION, _refuse),
    ],
    "errored": [method("decision_errored", (_DECISION,), BOOL, _refuse)],
    "error": [method("decision_error", (_DECISION,), STRING, _refuse)],
    "allowed": [method("decision_allowed", (_DECISION,), BOOL, _refuse)],
    "reason": [method("decision_reason", (_DECISION,), STRING, _refuse)],
}

SELECTORS: Final[dict[str, Function | list[Overload]]] = {
    name: [method(f"authorizer_{name.lower()}", (RESOURCE_CHECK, STRING), RESOURCE_CHECK, _refuse)]
    for name in ("fieldSelector", "labelSelector")
}
