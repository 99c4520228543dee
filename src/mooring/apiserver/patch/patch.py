"""PATCH: from the stored object and the client's patch to the object as it should be.

JSON patch (RFC 6902), merge patch (RFC 7396), strategic merge patch and server-side apply.

Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jsonpatch
import jsonpointer

from mooring.apiserver.errors import ApiStatusError, bad_request, entity_too_large, unprocessable
from mooring.apiserver.patch.strategic_merge import strategic_merge

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

#: Operations of one JSON patch.
OPERATIONS_MAX = 10_000
_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")


def apply_patch(media_type: str, present: Object, patch: Any, type_name: str) -> Object:
    """The object with a JSON, merge or strategic merge patch applied; ``present`` is used up.

    Raises:
        ApiStatusError: 400, 413, 422.
    """
    if media_type == JSON_PATCH:
        return _json_patched(present, [] if patch is None else patch)
    if patch is None and media_type == MERGE_PATCH:
        raise bad_request("Invalid JSON Patch")
    patch = {} if patch is None else patch
    if not isinstance(patch, dict):
        problem = f"cannot unmarshal {_kind(patch)} into Go value of type map[string]interface {{}}"
        lead = "" if media_type == STRATEGIC_PATCH else "error decoding patch: "
        raise bad_request(f"{lead}json: {problem}")
    if media_type == MERGE_PATCH:
        return _merged(present, patch)
    names: Object = {name: present[name] for name in ("kind", "apiVersion") if name in present}
    return {**strategic_merge(present, patch, type_name), **names}


def _json_patched(present: Object, patch: Any) -> Object:
    if not isinstance(patch, list) or not all(isinstance(each, dict) for each in patch):
        problem = f"cannot unmarshal {_kind(patch)} into Go value of type []handlers.jsonPatchOp"
        raise bad_request(f"error decoding patch: json: {problem}")
    if len(patch) > OPERATIONS_MAX:
        text = "The allowed maximum operations in a JSON patch is"
        raise entity_too_large(f"{text} {OPERATIONS_MAX}, got {len(patch)}")
    found: Any = present
    try:
        for operation in patch:
            found = jsonpatch.apply_patch(found, [_as_upstream(operation, found)], in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        raise unprocessable(str(error)) from error
    if not isinstance(found, dict):
        raise unprocessable("the patch leaves no object")
    return found


def _as_upstream(operation: Object, found: Any) -> Object:
    """The operation as kube-apiserver's library understands it: "replace" may add a member."""
    kind, path = operation.get("op"), operation.get("path")
    if kind not in _OPERATIONS or not isinstance(path, str):
        raise unprocessable(f"unexpected kind: {kind}")
    if kind != "replace" or not path:
        return operation
    parent, name = jsonpointer.JsonPointer(path).to_last(found)
    if isinstance(parent, dict) and name not in parent:
        return {**operation, "op": "add"}
    return operation


def _merged(present: Object, patch: Object) -> Object:
    for name, value in patch.items():
        if value is None:
            present.pop(name, None)
        elif isinstance(value, dict):
            below = present.get(name)
            present[name] = _merged(below if isinstance(below, dict) else {}, value)
        else:
            present[name] = value
    return present


def _kind(value: Any) -> str:
    match value:
        case list():
            return "array"
        case dict():
            return "object"
        case str():
            return "string"
        case bool():
            return "bool"
    return "number"


__all__ = ["PATCH_TYPES", "ApiStatusError", "apply_patch"]
