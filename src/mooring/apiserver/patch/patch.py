"""PATCH: applies a client's patch to the stored object.

JSON patch (RFC 6902), merge patch (RFC 7396), strategic merge patch and server-side apply.

Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import jsonpatch
import jsonpointer
import msgspec

from mooring.apiserver.errors import bad_request, entity_too_large, quoted, unprocessable
from mooring.apiserver.patch.strategic_merge import strategic_merge
from mooring.apiserver.schema.type_errors import json_kind
from mooring.objects.codec.merge_patch import merge_patch

if TYPE_CHECKING:
    from mooring.apiserver.types import Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PATCH_TYPES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)

#: Operations of one JSON patch.
OPERATIONS_MAX = 10_000
#: Bytes of JSON that one JSON patch may copy: copies of copies double.
COPIED_BYTES_MAX = 3 << 20
_GO_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
_ADDING = ("add", "copy", "move")
_OPERATIONS = ("add", "remove", "replace", "move", "copy", "test")


def apply_patch(media_type: str, present: Object, patch: Any, type_name: str) -> Object:
    """Applies a JSON, merge or strategic merge patch; ``present`` may be modified.

    Raises:
        ApiStatusError: 400, 413, 422.
    """
    if media_type == JSON_PATCH:
        return _apply_json_patch(present, [] if patch is None else patch)
    if patch is None and media_type == MERGE_PATCH:
        raise bad_request("Invalid JSON Patch")
    patch = {} if patch is None else patch
    if not isinstance(patch, dict):
        problem = (
            f"cannot unmarshal {json_kind(patch)} into Go value of type map[string]interface {{}}"
        )
        lead = "" if media_type == STRATEGIC_PATCH else "error decoding patch: "
        raise bad_request(f"{lead}json: {problem}")
    if media_type == MERGE_PATCH:
        return merge_patch(present, patch)
    names: Object = {name: present[name] for name in ("kind", "apiVersion") if name in present}
    return {**strategic_merge(present, patch, type_name), **names}


def _unmarshal_problem(patch: Any, go_type: str) -> str:
    return f"json: cannot unmarshal {json_kind(patch)} into Go value of type {go_type}"


def _apply_json_patch(present: Object, patch: Any) -> Object:
    if not isinstance(patch, list):
        problem = _unmarshal_problem(patch, "[]handlers.jsonPatchOp")
        raise bad_request(f"error decoding patch: {problem}")
    for operation in patch:
        if not isinstance(operation, dict):
            problem = _unmarshal_problem(operation, "handlers.jsonPatchOp")
            raise bad_request(f"error decoding patch: {problem}")
        for name in ("op", "from", "path"):
            if not isinstance(operation.get(name, ""), str | None):
                where = f"Go struct field jsonPatchOp.{name} of type string"
                problem = f"json: cannot unmarshal {json_kind(operation[name])} into {where}"
                raise bad_request(f"error decoding patch: {problem}")
    if len(patch) > OPERATIONS_MAX:
        text = "The allowed maximum operations in a JSON patch is"
        raise entity_too_large(f"{text} {OPERATIONS_MAX}, got {len(patch)}")
    obj: Any = present
    copied_bytes = 0
    try:
        for sent in patch:
            operation = _with_go_indices(_with_go_pointers(sent), obj)
            copied_bytes += _copied_bytes(operation, obj)
            _check_copied(copied_bytes)
            obj = jsonpatch.apply_patch(obj, [_as_upstream(operation, obj)], in_place=True)
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        raise unprocessable(str(error)) from error
    if not isinstance(obj, dict):
        raise unprocessable("the patch leaves no object")
    return obj


def _with_go_pointers(operation: Object) -> Object:
    """Returns an operation with the pointers that kube-apiserver's library reads in it.

    What stands before the first "/" counts for nothing. The whole object, "", is replaced or
    tested only.

    Raises:
        ApiStatusError: 422.
    """
    changed = dict(operation)
    for name in ("path", "from"):
        pointer = operation.get(name)
        if not isinstance(pointer, str):
            continue
        may_be_whole = name == "path" and operation.get("op") in ("replace", "test")
        if "/" in pointer:
            changed[name] = pointer[pointer.index("/") :]
        elif pointer or not may_be_whole:
            raise unprocessable(f"{operation.get('op')} operation has no path: {quoted(pointer)}")
    return changed


def _with_go_indices(operation: Object, obj: Any) -> Object:
    """Returns an operation whose indices of lists are plain: Go reads "00", "+1" and "-1", too.

    Negative ones count from the end; for an addition the end is the position behind the list.
    """
    kind, changed = operation.get("op"), dict(operation)
    for name in ("path", "from"):
        pointer = operation.get(name)
        if not isinstance(pointer, str):
            continue
        value, steps = obj, pointer.split("/")
        for number, step in enumerate(steps[1:], start=1):
            if isinstance(value, list) and _GO_INDEX.fullmatch(step):
                is_added = number == len(steps) - 1 and name == "path" and kind in _ADDING
                index = int(step)
                end = len(value) + is_added
                index += end if -end <= index < 0 else 0
                steps[number] = step = str(index)
            value = _below(value, step)
        changed[name] = "/".join(steps)
    return changed


def _below(value: Any, step: str) -> Any:
    """Returns what a step of a pointer leads to; None if there is nothing."""
    if isinstance(value, dict):
        return value.get(step.replace("~1", "/").replace("~0", "~"))
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    return None


def _check_copied(count: int) -> None:
    """Refuses a patch that has copied too much.

    Raises:
        ApiStatusError: 413.
    """
    if count > COPIED_BYTES_MAX:
        text = "Unable to complete the copy, the accumulated size increase of copy is"
        raise entity_too_large(f"{text} {count}, exceeding the limit {COPIED_BYTES_MAX}")


def _copied_bytes(operation: Object, obj: Any) -> int:
    """Returns the length of what an operation copies, as JSON; 0 if there is nothing at its path.

    Raises:
        jsonpointer.JsonPointerException: The path is no pointer, or leads nowhere.
    """
    path = operation.get("from")
    if operation.get("op") != "copy" or not isinstance(path, str):
        return 0
    return len(msgspec.json.encode(jsonpointer.JsonPointer(path).resolve(obj)))


def _as_upstream(operation: Object, obj: Any) -> Object:
    """Converts an operation to kube-apiserver's semantics: "replace" may add a member."""
    kind, path = operation.get("op"), operation.get("path")
    if kind not in _OPERATIONS or not isinstance(path, str):
        raise unprocessable(f"unexpected kind: {kind}")
    if kind in ("add", "replace", "test") and (path or kind == "test"):
        operation = {"value": None, **operation}
    if kind not in ("replace", "test") or not path:
        return operation
    parent, name = jsonpointer.JsonPointer(path).to_last(obj)
    if not isinstance(parent, dict) or name in parent:
        return operation
    if kind == "test":  # an absent member is null
        return {"op": "test", "path": "", "value": obj} if operation["value"] is None else operation
    return {**operation, "op": "add"}
