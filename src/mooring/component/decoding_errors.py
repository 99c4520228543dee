"""Errors of a file that is no configuration, in kube-scheduler's words.

Upstream's decoder ends at the first error, in an order of its own; ours reports all.

Source: apimachinery's runtime/serializer/json (strict decoding), k8s.io/kube-scheduler config/v1.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import inspect

from mooring.component.config_errors import DURATION_FIELDS, args_of
from mooring.component.go_values import GoError, parse_duration_s
from mooring.config.field_errors import FieldError
from mooring.config.plugin_defaults import ARGS_TYPES
from mooring.config.types import API_VERSION, DURATION, KIND, KubeSchedulerConfiguration
from mooring.errors import ConfigError
from mooring.objects.codec.struct_types import struct_type
from mooring.objects.files.documents import Path, path_text

#: Our struct -> upstream's name, where they differ.
_STRUCT_NAMES: Final = {
    "Profile": "KubeSchedulerProfile",
    "LeaderElection": "LeaderElectionConfiguration",
    "ClientConnection": "ClientConnectionConfiguration",
    "PluginEntry": "Plugin",
}
#: Structs that upstream takes from k8s.io/component-base, whose version its errors show.
_OF_COMPONENT_BASE: Final = frozenset(
    {"LeaderElectionConfiguration", "ClientConnectionConfiguration"}
)
#: Fields that upstream's struct has from another one, whose name its errors show.
_EMBEDDED: Final = frozenset({"enableProfiling", "enableContentionProfiling"})
_JSON_NAMES: Final[dict[type[Any], str]] = {
    bool: "bool",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


#: The kinds of arguments.
_ARGS_KINDS: Final = frozenset(f"{plugin}Args" for plugin in ARGS_TYPES)
_CONFIGURATION: Final = struct_type(KubeSchedulerConfiguration)


def with_names(value: Any, described: inspect.Type = _CONFIGURATION) -> Any:
    """Returns a document as upstream's structs have it: "" for names that are missing.

    Args:
        value: The document, or a part of it; not changed.
        described: Its type.
    """
    inner = _inner(described)[0]
    if isinstance(inner, inspect.StructType) and isinstance(value, dict):
        fields = {field.encode_name: field for field in inner.fields}
        result = {
            key: with_names(item, fields[key].type) if key in fields else item
            for key, item in value.items()
        }
        # As upstream, which parses a duration that is null.
        result |= {key: "" for key in DURATION_FIELDS & result.keys() if result[key] is None}
        names = (name for name, field in fields.items() if field.required)
        return result | {name: "" for name in names if result.get(name) is None}
    if isinstance(inner, inspect.VarTupleType) and isinstance(value, list):
        return [with_names(item, inner.item_type) for item in value]
    return value


def decoding_error_text(
    problem: ConfigError | list[FieldError], text: bytes, document: Any = None
) -> str:
    """Returns the error of a file that is no configuration, in upstream's words if there are any.

    Args:
        problem: Of the text, or of its fields.
        text: The file.
        document: The value in the text, if it could be parsed.
    """
    if isinstance(problem, ConfigError):
        return _text_error(problem, text)
    if document is not None and not isinstance(document, dict):
        return _no_object_text(document)
    if isinstance(document, dict):
        for key, name in (("apiVersion", "apiVersion"), ("kind", "Kind")):
            if not document.get(key):
                return f"Object '{name}' is missing in '{text.decode(errors='replace')}'"
        kind, version = document["kind"], document["apiVersion"]
        if version == API_VERSION and kind in _ARGS_KINDS:
            return f"couldn't decode as {KIND}, got {version}, Kind={kind}: "
        if (kind, version) != (KIND, API_VERSION):
            return (
                f'no kind "{kind}" is registered for version "{version}" in scheme '
                '"pkg/runtime/scheme.go:111"'
            )
    wrong = [error for error in problem if not error.problem.startswith("unknown field")]
    if not wrong:
        return unknown_fields_text([error.path for error in problem], document)
    first = min(wrong, key=_decoding_order)
    if len(first.path) == 5 and first.path[2::2] == ("pluginConfig", "args"):
        return _in_args((*first.path, ""), document) + _no_object_text(first.value)
    type_text = _args_type_text(first.path, document)
    if type_text is not None:
        return type_text
    if isinstance(first.value, str) and first.path[-1] in DURATION_FIELDS:
        try:
            parse_duration_s(first.value)
        except GoError as error:
            return _in_args(first.path, document) + str(error)
    return wrong_type_text(first.path, first.value, document) or str(first.problem)


def _in_args(path: Path, document: Any) -> str:
    """Returns the beginning of an error in arguments of a plugin; "" for other paths."""
    if args_of(path) is None:
        return ""
    plugin = _plugin_at(path, document)
    return f"decoding .{path_text(path[:4])}: decoding args for plugin {plugin}: "


def _no_object_text(value: Any) -> str:
    """Returns the error of a value that is to be an object with a kind."""
    return (
        "couldn't get version/kind; json parse error: json: cannot unmarshal "
        f"{_JSON_NAMES.get(type(value), 'null')} into Go value of type struct {{ APIVersion string "
        '"json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
    )


def _decoding_order(error: FieldError) -> tuple[Any, ...]:
    """Returns the key by which upstream's decoder ends at the first of several errors.

    It reads fields in the order of their names, and goes on after a value of the wrong type, but
    not after a wrong duration. Arguments of plugins are decoded later, one plugin after the other.
    """
    of_args = args_of((*error.path, ""))
    if of_args is None:
        return False, error.path[-1] not in DURATION_FIELDS, _steps(error.path)
    inside = error.path[len(of_args) :]
    is_type = inside in (("apiVersion",), ("kind",))
    is_duration = inside[-1:] and inside[-1] in DURATION_FIELDS
    return True, _steps(of_args), not is_type, not is_duration, _steps(inside)


def _steps(path: Path) -> tuple[tuple[bool, str | int], ...]:
    """Returns a path that can be compared: indexes are numbers, names are texts."""
    return tuple((isinstance(step, str), step) for step in path)


def _args_type_text(path: Path, document: Any) -> str | None:
    """Returns the error of arguments of another type; None if ``path`` is no such field."""
    of_args = args_of(path)
    if of_args is None or path[len(of_args) :] not in (("apiVersion",), ("kind",)):
        return None
    plugin = _plugin_at(path, document)
    args = document["profiles"][path[1]]["pluginConfig"][path[3]]["args"]
    group = API_VERSION.partition("/")[0]
    kind, version = args.get("kind") or f"{plugin}Args", args.get("apiVersion") or API_VERSION
    decoding = _in_args(path, document)
    for key, value in (("apiVersion", version), ("kind", kind)):
        if not isinstance(value, str):
            return (
                f"{decoding}couldn't get version/kind; json parse error: json: cannot unmarshal "
                f"{_JSON_NAMES[type(value)]} into Go struct field .{key} of type string"
            )
    if version == API_VERSION and kind in (KIND, *_ARGS_KINDS):
        return (
            f"decoding .{path_text(path[:4])}: args for plugin {plugin} were not of type "
            f"{plugin}Args.{group}, got {kind}.{group}"
        )
    return (
        f'{decoding}no kind "{kind}" is registered for version "{version}" in scheme '
        '"pkg/runtime/scheme.go:111"'
    )


def _text_error(error: ConfigError, text: bytes) -> str:
    if not text.strip():
        return "Object 'Kind' is missing in ''"
    if error.problem == "duplicate key" and error.path:
        key = error.path.rpartition(".")[2]
        return (
            "strict decoding error: yaml: unmarshal errors:\n"
            f'  line {error.line}: key "{key}" already set in map'
        )
    if error.problem.startswith("is not YAML: "):
        where = f"line {error.line}: " if error.line else ""
        problem = error.problem.removeprefix("is not YAML: ").partition(" while ")[0]
        return f"yaml: {where}{problem}"
    return error.problem


def unknown_fields_text(paths: list[Path], document: Any) -> str:
    """Returns the error of fields that do not exist; ``paths`` are those of a whole file."""
    in_args = [path for path in paths if args_of(path) is not None]
    plain = sorted(path_text(path) for path in paths if path not in in_args)
    texts = [f'unknown field "{text}"' for text in plain]
    texts += [
        f"decoding .{path_text(path[:4])}: strict decoding error: decoding args for plugin "
        f"{_plugin_at(path, document)}: strict decoding error: unknown field "
        f'"{path_text(path[5:])}"'
        for path in in_args
    ]
    return "strict decoding error: " + ", ".join(texts)


def _plugin_at(path: Path, document: Any) -> str:
    return str(document["profiles"][path[1]]["pluginConfig"][path[3]]["name"])


def wrong_type_text(path: Path, value: Any, document: Any) -> str | None:
    """Returns the error of a value of the wrong type; None if there is no such text."""
    struct: type[Any] = KubeSchedulerConfiguration
    names = [str(step) for step in path if isinstance(step, str)]
    rest = path
    if args_of(path) is not None:
        struct, rest = ARGS_TYPES[_plugin_at(path, document)], path[5:]
        names = [str(step) for step in rest if isinstance(step, str)]
    field = _field_at(struct, rest)
    if field is None:
        return None
    holder, go_type = field
    if len(path) == 1 and path[0] in _EMBEDDED:
        names = ["DebuggingConfiguration", *names]
    kind = _JSON_NAMES.get(type(value), "null")
    if kind == "number" and isinstance(value, float) and go_type.startswith("int"):
        kind = f"number {value:g}"
    elif kind == "number" and go_type.startswith("int"):
        kind = f"number {value}"  # it does not fit
    return (
        f"{_in_args(path, document)}json: cannot unmarshal {kind} into Go struct field "
        f"{holder}.{'.'.join(names)} of type {go_type}"
    )


def _field_at(struct: type[msgspec.Struct], path: Path) -> tuple[str, str] | None:
    """Returns upstream's name of the struct that holds a field, and of the field's type."""
    current: inspect.Type = struct_type(struct)
    holder = _struct_name(current)
    for step in path:
        current = _inner(current)[0]
        if isinstance(step, int):
            if not isinstance(current, inspect.VarTupleType):
                return None
            current = current.item_type
        else:
            if not isinstance(current, inspect.StructType):
                return None
            holder = _struct_name(current)
            field = next((item for item in current.fields if item.encode_name == step), None)
            if field is None:
                return None
            current = field.type
    return holder, _go_type(current)


def _inner(described: inspect.Type) -> tuple[inspect.Type, dict[str, Any]]:
    extra: dict[str, Any] = {}
    if isinstance(described, inspect.Metadata):
        extra, described = described.extra or {}, described.type
    if isinstance(described, inspect.UnionType):
        inner = next(kind for kind in described.types if not isinstance(kind, inspect.NoneType))
        return _inner(inner)
    return described, extra


def _struct_name(described: inspect.Type) -> str:
    name = described.cls.__name__ if isinstance(described, inspect.StructType) else KIND
    return _STRUCT_NAMES.get(name, name)


def _go_type(described: inspect.Type) -> str:
    inner, extra = _inner(described)
    if extra.get(DURATION):
        return "string"
    match inner:
        case inspect.IntType(le=limit):
            return "int64" if limit is None or limit > 2**31 else "int32"
        case inspect.FloatType():
            return "float32"
        case inspect.BoolType():
            return "bool"
        case inspect.VarTupleType(item_type=item):
            return f"[]{_go_type(item)}"
        case inspect.StructType():
            name = _struct_name(inner)
            return f"{'v1alpha1' if name in _OF_COMPONENT_BASE else 'v1'}.{name}"
    return "string"
